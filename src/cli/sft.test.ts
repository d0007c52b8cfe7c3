/** `saccade sft` as a shell sees it, run from the build. */
import { spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { loadEvents } from "../run/index.ts";

const bin = resolve(import.meta.dirname, "../../dist/cli.js");
const folder = mkdtempSync(join(tmpdir(), "saccade-sft-"));
const TINY = {
  text: {
    hidden_size: 32,
    intermediate_size: 64,
    num_hidden_layers: 1,
    num_attention_heads: 2,
    num_key_value_heads: 1,
  },
  vision: { hidden_size: 16, intermediate_size: 32, num_heads: 1 },
};
const SETTINGS = [
  ...["warmStart.batch=8", "warmStart.epochs=4", "evaluate.seeds=[1000000000,1000000003]"],
  ...["evaluate.greedy=false", "sampling.maxTokens=8"],
].flatMap((setting) => ["--set", setting]);

function saccade(...args: string[]): { status: number | null; stdout: string; stderr: string } {
  return spawnSync(process.execPath, [bin, ...args], { cwd: folder, encoding: "utf8", maxBuffer: 1 << 26 });
}

async function lossesOf(run: string): Promise<number[]> {
  const { events } = await loadEvents(join(folder, run));
  return events.filter(({ kind }) => kind === "sft").map(({ metrics }) => metrics["sft/nll"] as number);
}

beforeAll(() => {
  const { status } = saccade(
    ...[
      "data",
      "demos",
      "color_codeword",
      "--episodes",
      "14",
      "--out",
      "demos.jsonl",
      "--set",
      "size=32",
      "--set",
      "prompt=brief",
    ],
  );
  expect(status).toBe(0);
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

test("a fresh model learns from a file and is evaluated where its rows were played", async () => {
  const preset = ["preset:nano", "--set", `model.set=${JSON.stringify(TINY)}`, "--data", "demos.jsonl", ...SETTINGS];
  const { status, stdout } = saccade("sft", ...preset, "--out", "first");
  expect(status).toBe(0);
  const losses = await lossesOf("first");
  // 14 rows in batches of 8, four times over.
  expect(losses).toHaveLength(8);
  expect(losses.at(-1)).toBeLessThan((losses[0] as number) - 0.5);
  const { events } = await loadEvents(join(folder, "first"));
  const [evaluation, ...more] = events.filter(({ kind }) => kind === "eval");
  expect(evaluation?.metrics).toMatchObject({ "eval/episodes": 4, "eval/ceiling": 1, "eval/floor": 0 });
  expect(more).toEqual([]);
  expect(stdout).toContain("| 4 held-out episodes | after (step 8) |");
});

test("what it made is a model folder that can be trained further", async () => {
  const model = join(folder, "first", "checkpoints", "step-8", "policy");
  const { status, stdout } = saccade("sft", model, "--data", "demos.jsonl", ...SETTINGS, "--out", "second");
  expect(status).toBe(0);
  expect(stdout).toContain(`model: ${join(folder, "second")}`);
  expect((await lossesOf("second"))[0]).toBeLessThan(((await lossesOf("first"))[0] as number) - 0.5);
});

test("rows that name no environment train all the same, and nothing is evaluated", async () => {
  const rows = readFileSync(join(folder, "demos.jsonl"), "utf8").trim().split("\n");
  const foreign = rows.map((row) => ({ messages: (JSON.parse(row) as { messages: unknown }).messages }));
  writeFileSync(join(folder, "foreign.jsonl"), foreign.map((row) => `${JSON.stringify(row)}\n`).join(""));
  const args = ["preset:nano", "--set", `model.set=${JSON.stringify(TINY)}`, "--set", "warmStart.batch=14"];
  const { status, stdout } = saccade("sft", ...args, "--data", "foreign.jsonl", "--out", "third");
  expect(status).toBe(0);
  expect(stdout).toContain("model: ");
  const { events } = await loadEvents(join(folder, "third"));
  expect(events.filter(({ kind }) => kind === "sft")).toHaveLength(1);
  expect(events.filter(({ kind }) => kind === "eval")).toEqual([]);
});

test("a row's environment that is not here is said and not evaluated in", () => {
  const row = {
    env: "nowhere",
    messages: [
      { role: "user", content: "?" },
      { role: "assistant", content: "!" },
    ],
  };
  writeFileSync(join(folder, "nowhere.jsonl"), `${JSON.stringify(row)}\n`);
  const { status, stdout, stderr } = saccade("sft", "preset:nano", "--data", "nowhere.jsonl", "--dry-run");
  expect(status).toBe(0);
  expect(stderr).toContain("nowhere.jsonl:1: the model won't be evaluated in nowhere");
  expect(JSON.parse(stdout)).toMatchObject({
    steps: 0,
    envs: [],
    warmStart: { files: [join(folder, "nowhere.jsonl")] },
  });
});

test.each([
  [["nano", "--data", "demos.jsonl"], "preset:nano"],
  [["preset:giant", "--data", "demos.jsonl"], "The presets are"],
  [["preset:nano", "--data", "missing.jsonl"], "There is no file"],
  [["preset:nano"], "--data"],
  [["preset:nano", "--data", "demos.jsonl", "--set", "steps=1", "--set", "envs=[]"], "envs is empty"],
])("%j is wrong usage that says what to do", (args, words) => {
  const { status, stderr } = saccade("sft", ...args);
  expect([status, stderr]).toEqual([2, expect.stringContaining(words)]);
});

test("an empty file is an error that names it", () => {
  writeFileSync(join(folder, "empty.jsonl"), "");
  const { status, stderr } = saccade("sft", "preset:nano", "--data", "empty.jsonl", "--out", "empty");
  expect([status, stderr]).toEqual([1, expect.stringContaining("no demonstrations in")]);
});
