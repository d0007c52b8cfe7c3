/**
 * docs/guide/gpu.md as a new user reads it: its commands in their order, from the build, in an empty folder. The model under Qwen's name in the Hugging Face cache is a tiny one of the
 * same architecture; runs are made small by flags at their end; what needs a network is left out, by name. Runs where `python3` has torch; SACCADE_REQUIRE=torch makes its absence a failure.
 */
import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, join, resolve } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { TORCH } from "../src/engine/torch/test-worker.ts";

const root = resolve(import.meta.dirname, "..");
const page = readFileSync(join(root, "docs/guide/gpu.md"), "utf8");
const commands = [...page.matchAll(/```sh\n(.*?)```/gs)]
  .flatMap((block) => (block[1] as string).trim().split("\n"))
  .map((line) => line.replace(/\s{2,}#.*$/, ""));

/** Left out, since they fetch from the network. */
const FETCH = [
  "npm install && npm install -g .",
  "pip install -U huggingface_hub",
  "hf download Qwen/Qwen3-VL-8B-Instruct",
];
/** Two processes for one recipe: torchrun too is part of the way. */
const small = (processes: number) =>
  [
    "steps=1 groups=2 siblings=2 minibatch=4 sampling.maxTokens=8 sight.every=0 evaluate.greedy=false evaluate.before=false",
    'evaluate.seeds=[1000000000,1000000000] engine.device="cpu" engine.threads=1',
    `engine.processes=${processes}`,
  ].join(" ");

/** The line as it is run here: the page's, with what makes it small. */
function here(line: string): string {
  const set = (pairs: string) => ["", ...pairs.split(" ")].join(" --set ");
  if (line.startsWith("saccade torch setup")) return `${line} --python python3`;
  if (line.startsWith("saccade eval"))
    return `${line.replace("1000063", "1000000").replace("step-160", "step-1")} --max-tokens 8`;
  if (line.startsWith("saccade serve")) return line.replace("step-160", "step-1").replace("8000", "0");
  if (line.includes("--host 0.0.0.0")) return `${line} --port 0`;
  if (!line.startsWith("saccade train") || line.includes("--dry-run")) return line;
  if (line.includes("--out runs/tiny"))
    return `${line}${set("evaluate.seeds=[1000000000,1000000000] sight.every=0 evaluate.before=false evaluate.greedy=false engine.threads=1")}`;
  const warm = line.includes("sft") ? " warmStart.episodes=4 warmStart.batch=4" : "";
  return `${line}${set(small(line.includes("sft") ? 2 : 1) + warm)}`;
}

describe.runIf(TORCH)("docs/guide/gpu.md", { timeout: 300_000 }, () => {
  const scratch = mkdtempSync(join(tmpdir(), "saccade-gpu-"));
  const bin = join(scratch, "bin");
  const started: ChildProcess[] = [];
  const env = {
    ...process.env,
    PATH: `${bin}${delimiter}${process.env.PATH}`,
    SACCADE_CACHE: join(scratch, "cache"),
    HF_HUB_CACHE: join(scratch, "hub"),
  };
  const shell = (line: string) =>
    spawnSync("bash", ["-c", line], { cwd: scratch, env, encoding: "utf8", maxBuffer: 1 << 26 });

  beforeAll(() => {
    mkdirSync(bin);
    writeFileSync(join(bin, "saccade"), `#!/bin/sh\nexec "${process.execPath}" "${root}/dist/cli.js" "$@"\n`, {
      mode: 0o755,
    });
    const repository = join(env.HF_HUB_CACHE, "models--Qwen--Qwen3-VL-8B-Instruct");
    mkdirSync(join(repository, "refs"), { recursive: true });
    mkdirSync(join(repository, "snapshots"));
    writeFileSync(join(repository, "refs", "main"), "tiny");
    const made = shell(
      "saccade model create fetched --preset nano --set text.num_hidden_layers=2 --set text.max_position_embeddings=16384",
    );
    expect(made.stderr).toBe("");
    renameSync(join(scratch, "fetched"), join(repository, "snapshots", "tiny"));
  });
  afterAll(() => {
    for (const { pid } of started) process.kill(-(pid as number), "SIGKILL");
    rmSync(scratch, { recursive: true, force: true });
  });

  test("what is left out is on the page", () => {
    expect(commands).toEqual(expect.arrayContaining(FETCH));
    expect(commands.length).toBeGreaterThan(12);
  });

  test.each(commands.filter((line) => !FETCH.includes(line)))("%s", async (line) => {
    const command = here(line);
    if (/ serve | --host /.test(line)) {
      const address = await said(command, /http:\/\/[\w.:[\]]+/);
      expect((await fetch(address.replace("0.0.0.0", "127.0.0.1"))).status).toBeLessThan(500);
      return;
    }
    const { status, stdout, stderr } = shell(command);
    if (line.includes("setup --cuda") && status !== 0) {
      // Where there is no GPU it must say so; the environment is remembered all the same.
      expect(stderr).toMatch(/sees no GPU/);
      return;
    }
    expect({ line: command, status, stderr: status === 0 ? "" : stderr }).toEqual({
      line: command,
      status: 0,
      stderr: "",
    });
    if (line.includes("--dry-run")) expect(stderr).toMatch(/GiB on the first GPU, [\d.]+ on the 7 others/);
    if (line.startsWith("saccade train") && !line.includes("--dry-run"))
      expect(stdout).toMatch(/model: .*step-\d+\/policy/);
    if (line.startsWith("saccade eval")) expect(stdout).toMatch(/maze_2d/);
  });

  /** What a command that goes on prints first. */
  function said(command: string, pattern: RegExp): Promise<string> {
    const child = spawn("bash", ["-c", command], { cwd: scratch, env, detached: true });
    started.push(child);
    return new Promise((found, failed) => {
      let text = "";
      const read = (part: Buffer) => {
        text += part;
        const match = pattern.exec(text);
        if (match) found(match[0]);
      };
      child.stdout.on("data", read);
      child.stderr.on("data", read);
      child.once("close", () => failed(new Error(`${command} ended: ${text}`)));
    });
  }
});
