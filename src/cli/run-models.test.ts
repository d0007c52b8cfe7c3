/** A run folder is a model wherever a model is wanted, and a model plays what it was trained on as it was trained. */
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test, vi } from "vitest";
import "../index.ts";
import type { Report } from "../evaluate/index.ts";
import { findModel } from "../model/index.ts";
import { shippedModel } from "../model/trained.ts";
import { CheckpointStore } from "../run/checkpoints.ts";
import { resolveRecipe } from "../train/index.ts";
import { pinModel } from "../train/model-folder.ts";
import { TestHub, TOKEN } from "../train/test-hub.ts";
import { evalCommand } from "./eval.ts";
import { modelCommand } from "./model.ts";
import { playCommand } from "./play.ts";
import { sftRecipe } from "./sft.ts";
import { uploadCommand } from "./upload.ts";

const root = mkdtempSync(join(tmpdir(), "saccade-run-models-"));
const shipped = shippedModel("maze-2d") as string;
const run = join(root, "runs/mazes");
const best = join(run, "checkpoints/step-20/policy");
let [printed, told] = ["", ""];

/** A run whose best checkpoint is neither its last nor its first. */
async function makeRun(path: string): Promise<void> {
  mkdirSync(path, { recursive: true });
  writeFileSync(join(path, "run.json"), JSON.stringify({ format: 1, name: "mazes", status: "running", config: {} }));
  const store = new CheckpointStore(path, { keep: 3 });
  for (const [step, score] of [
    [10, 0.2],
    [20, 0.9],
    [30, 0.5],
  ] as const) {
    await store.save(step, async (folder) => cpSync(shipped, join(folder, "policy"), { recursive: true }));
    await store.offerBest(step, score, "eval/success");
  }
}

beforeAll(() => makeRun(run));
afterAll(() => rmSync(root, { recursive: true, force: true }));
beforeEach(() => {
  [printed, told] = ["", ""];
  vi.spyOn(process.stdout, "write").mockImplementation((text) => {
    printed += String(text);
    return true;
  });
  vi.spyOn(process.stderr, "write").mockImplementation((text) => {
    told += String(text);
    return true;
  });
});
afterEach(() => {
  vi.restoreAllMocks();
  vi.unstubAllEnvs();
  process.exitCode = 0;
});

async function evaluated(name: string, ...flags: string[]): Promise<Report> {
  const out = join(root, name);
  const args = [run, "--seeds", "1000000..1000005", "--greedy", "--out", out, ...flags];
  await evalCommand().exitOverride().parseAsync(args, { from: "user" });
  return JSON.parse(readFileSync(join(out, "report.json"), "utf8")) as Report;
}

describe("eval of a model that was trained here", () => {
  test("plays the trained environment with the trained options, whether or not --env names it", async () => {
    const plain = await evaluated("plain");
    const named = await evaluated("named", "--env", "maze_2d/easy");
    const bare = await evaluated("bare", "--env", "maze_2d");
    expect(plain.envs[0]?.success.count).toBeGreaterThanOrEqual(4);
    for (const report of [named, bare]) {
      expect(report.envs[0]?.success).toEqual(plain.envs[0]?.success);
      expect(report.envs[0]?.options).toEqual(plain.envs[0]?.options);
      expect(report.setting).toEqual(plain.setting);
    }
    expect(plain.envs[0]?.options).toMatchObject({ cellSize: 16, prompt: "brief" });
    // Greedy replies are another temperature than training's, and nothing else differs.
    expect(named.training).toEqual({
      recipe: "maze-2d-sft",
      differences: [{ setting: "temperature", training: 0.7, here: 0 }],
    });
  });

  test("--set changes trained options one by one, and the report says which differ from training", async () => {
    const flags = ["--env", "maze_2d/easy", "--set", "cellSize=12", "--set", "protocol.tags=false", "--max-turns", "3"];
    const report = await evaluated("changed", ...flags);
    expect(report.envs[0]?.options).toMatchObject({
      cellSize: 12,
      prompt: "brief",
      protocol: { name: "tuple", tags: false, pick: "first" },
      maxTurns: 3,
    });
    expect(report.training?.differences).toEqual(
      expect.arrayContaining([
        { setting: "cellSize", training: 16, here: 12 },
        { setting: "protocol.tags", training: true, here: false },
        expect.objectContaining({ setting: "maxTurns", here: 3 }),
      ]),
    );
    expect(report.training?.differences).toHaveLength(4);
    expect(printed).toContain("Trained by maze-2d-sft. What differs from training:\n\n| | training | here |");
    expect(printed).toContain("| cellSize | 16 | 12 |");
  });

  test("an environment that it was not trained on is played with its own options, and the report says so", async () => {
    const report = await evaluated("other", "--env", "frozen_lake", "--max-turns", "1", "--max-tokens", "4");
    expect(report.envs[0]?.options).toEqual({ maxTurns: 1 });
    expect(printed).toContain('| environment | "maze_2d/easy" | "frozen_lake" |');
  });
});

describe("A run folder", () => {
  test("means its best checkpoint, a checkpoint its policy, and a run without one is refused", async () => {
    expect(await findModel(run)).toMatchObject({
      path: best,
      note: expect.stringMatching(/step 20.*eval\/success 0.9/),
    });
    expect(await findModel(join(run, "checkpoints/step-10"))).toEqual({
      path: join(run, "checkpoints/step-10/policy"),
    });
    expect(await findModel(best)).toEqual({ path: best });
    mkdirSync(join(root, "young"));
    writeFileSync(join(root, "young/run.json"), "{}");
    await expect(findModel(join(root, "young"))).rejects.toThrow(/young has no checkpoint yet/);
    await expect(findModel(root)).rejects.toThrow(/no model in .*name a model folder, a checkpoint or a run/);
  });

  test("without evaluations means its latest checkpoint", async () => {
    const path = join(root, "runs/unscored");
    await makeRun(path);
    rmSync(join(path, "checkpoints/best.json"));
    expect((await findModel(path)).path).toBe(join(path, "checkpoints/step-30/policy"));
  });

  test("works in eval, play, model info, upload, sft and recipes", async () => {
    await evaluated("run", "--max-turns", "1");
    expect(printed).toContain("is a run; its model is that of step 20, its best");
    printed = "";
    await playCommand().parseAsync(["maze_2d", "--agent", run, "--greedy", "--json"], { from: "user" });
    expect(printed).toContain("<justification>");
    printed = "";
    await modelCommand().parseAsync(["info", run, "--json"], { from: "user" });
    expect(JSON.parse(printed)).toMatchObject({ path: best });
    expect(told).toContain("step 20, its best");
    const hub = new TestHub();
    await hub.open();
    try {
      vi.stubEnv("HF_TOKEN", TOKEN);
      vi.stubEnv("HF_ENDPOINT", hub.url);
      await uploadCommand().parseAsync([run, "me/mazes"], { from: "user" });
      expect(printed).toContain("me/mazes");
    } finally {
      hub.close();
    }
    expect((await sftRecipe(run, [])).model).toBe(best);
    const recipe = resolveRecipe({
      name: "r",
      model: run,
      envs: [{ env: "maze_2d" }],
      steps: 1,
      optimizer: { learningRate: 1 },
    });
    expect((await pinModel(recipe)).model).toBe(best);
  });
});
