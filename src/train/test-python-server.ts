/** For proofs: a Python server of somebody else's on a free port. It and its children end with `close`. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { createServer } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";

export type PythonServer = { readonly url: string; close(): void };

export async function startPython(
  command: (port: number) => readonly [string, ...string[]],
  { cwd, env = {}, health = "/health" }: { cwd?: string; env?: Record<string, string>; health?: string } = {},
): Promise<PythonServer> {
  const port = await freePort();
  const [program, ...args] = command(port);
  const child = spawn(program, args, {
    stdio: "inherit",
    detached: true,
    ...(cwd !== undefined && { cwd }),
    env: { ...process.env, ...env },
  });
  const close = () => {
    if (child.pid !== undefined && child.exitCode === null) process.kill(-child.pid);
  };
  const url = `http://127.0.0.1:${port}`;
  for (let tries = 0; tries < 300 && child.exitCode === null; tries++) {
    const isUp = await fetch(`${url}${health}`).then(
      (answer) => answer.ok,
      () => false,
    );
    if (isUp) return { url, close };
    await sleep(300);
  }
  close();
  throw new Error(`${program} ${args.join(" ")} did not start.`);
}

async function freePort(): Promise<number> {
  const probe = createServer().listen(0, "127.0.0.1");
  await once(probe, "listening");
  const { port } = probe.address() as { port: number };
  probe.close();
  return port;
}
