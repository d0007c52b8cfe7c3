/**
 * docs/vllm.md: its commands, as a shell runs them, on a port of our own and with fewer steps. Runs where SACCADE_VLLM_PYTHON names the Python of an
 * environment with vLLM; SACCADE_REQUIRE=vllm makes its absence a failure (src/train/vllm.test.ts).
 */
import { type ChildProcess, spawn } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { afterAll, expect, test } from "vitest";
import { loadEvents } from "../src/run/index.ts";

const root = resolve(import.meta.dirname, "..");
const bin = join(root, "dist/cli.js");
const page = readFileSync(join(root, "docs/vllm.md"), "utf8");
const folder = mkdtempSync(join(tmpdir(), "saccade-vllm-page-"));
const running: ChildProcess[] = [];
afterAll(async () => {
  for (const child of running.filter(({ exitCode }) => exitCode === null)) {
    const ended = new Promise((done) => child.once("close", done));
    child.kill("SIGINT");
    await ended;
  }
  rmSync(folder, { recursive: true, force: true });
});

/** The first block of commands, without remarks. */
const commands = (/```sh\n([^`]+)```/.exec(page)?.[1] ?? "")
  .split("\n")
  .map((line) => line.replace(/\s{2,}# .*$/, "").trim())
  .filter((line) => line !== "");

function start(command: string): { readonly child: ChildProcess; readonly output: () => string } {
  const child = spawn("sh", ["-c", command.replace(/^npx saccade/, `exec "${process.execPath}" "${bin}"`)], {
    cwd: folder,
  });
  running.push(child);
  let text = "";
  for (const stream of [child.stdout, child.stderr])
    stream?.setEncoding("utf8").on("data", (part: string) => (text += part));
  return { child, output: () => text };
}

async function run(command: string): Promise<string> {
  const { child, output } = start(command);
  const code = await new Promise((done) => child.once("close", done));
  expect(code, `${command}\n${output()}`).toBe(0);
  return output();
}

const freePort = () =>
  new Promise<number>((done) => {
    const server = createServer().listen(0, "127.0.0.1", () => {
      const { port } = server.address() as { port: number };
      server.close(() => done(port));
    });
  });

test.runIf(process.env.SACCADE_VLLM_PYTHON)(
  "the page's commands make a model, serve it on vLLM, train on it and evaluate there",
  async () => {
    const port = await freePort();
    const [create, serve, train, evaluate, ...rest] = commands.map((line) => line.replaceAll("8000", String(port)));
    expect(rest).toEqual([]);
    await run(create as string);
    const server = start(serve as string);
    await expect.poll(server.output, { timeout: 600_000, interval: 500 }).toMatch(/in a recipe: engine:/);
    const short = [
      "warmStart.episodes=32",
      "steps=1",
      "groups=2",
      "siblings=2",
      "minibatch=4",
      "filters=[]",
      "evaluate.before=false",
      "evaluate.seeds=[1000000000,1000000003]",
      "sight.every=0",
    ];
    await run(`${train} ${short.map((change) => `--set '${change}'`).join(" ")}`);
    const { events } = await loadEvents(join(folder, "runs/quickstart"));
    const steps = events.filter(({ kind }) => kind === "train");
    expect(steps.length).toBe(1);
    expect(steps[0]?.metrics["drift/max"]).toBeLessThan(1e-4);
    expect(await run(`${evaluate} --seeds 0..3 --max-turns 2`)).toContain("frozen_lake");
  },
  900_000,
);
