/** `saccade view`: the run viewer in the browser, or one self-contained page with `--export`. */
import { randomBytes } from "node:crypto";
import { existsSync } from "node:fs";
import { Command } from "commander";
import { ConfigError } from "../core/index.ts";
import { isLoopback, LEAST_KEY } from "../http/guard.ts";
import { exportRuns } from "../viewer/export.ts";
import { startViewer } from "../viewer/server.ts";
import { checkWritable, collect, isFolder, wholeNumber } from "./common.ts";

type Flags = { port: number; host: string; token?: string; allowHost: string[]; export?: string; env: string[] };

const DEFAULT_PORT = 4400;

export function viewCommand(): Command {
  return new Command("view")
    .description("look at runs in the browser")
    .argument("[folder]", "a run folder, or a folder of them (default: runs, else this folder)")
    .option("--port <n>", "port, 0 for any free one", wholeNumber("--port"), DEFAULT_PORT)
    .option("--host <name>", "address to listen on; beyond this machine a token is needed to look", "127.0.0.1")
    .option("--token <text>", "the token to ask for; made up when --host needs one and none is given", longToken)
    .option("--allow-host <name>", "a DNS name under which others reach it; needs --token (repeat)", collect, [])
    .option("--env <file>", "an environment's file that may be played (repeat)", collect, [])
    .option("--export <file>", "write one page that needs no server, at most 50 MB, and stop")
    .action(runView);
}

async function runView(given: string | undefined, flags: Flags): Promise<void> {
  const folder = given ?? (existsSync("runs") ? "runs" : ".");
  if (!isFolder(folder)) {
    throw new ConfigError(`There is no folder ${folder}; name a run folder, or a folder of them.`);
  }
  if (flags.export !== undefined) {
    checkWritable(flags.export, "--export");
    const { bytes, trajectories, leftOut } = await exportRuns({ folder, out: flags.export });
    const size = `${(bytes / 1024 / 1024).toFixed(1)} MB`;
    process.stdout.write(`${flags.export}: ${size}, ${trajectories} trajectories\n`);
    for (const what of leftOut) process.stdout.write(`left out: ${what}\n`);
    return;
  }
  const token = flags.token ?? (isLoopback(flags.host) ? undefined : randomBytes(24).toString("base64url"));
  const { host, port, env: envs, allowHost: allowHosts } = flags;
  const viewer = await startViewer({ folder, host, port, envs, allowHosts, ...(token !== undefined && { token }) });
  process.stdout.write(`${viewer.url}\n`);
  await new Promise<void>((done) => {
    process.once("SIGINT", done);
    process.once("SIGTERM", done);
  });
  await viewer.close();
}

function longToken(token: string): string {
  if (token.length >= LEAST_KEY) return token;
  throw new ConfigError(
    `--token takes at least ${LEAST_KEY} characters; leave it out, and one is made up where --host needs it.`,
  );
}
