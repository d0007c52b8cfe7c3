/** A recipe's judge in a run: what it pays is trained, logged and recorded; where it fails the run goes on. */
import { mkdtempSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { NativeEngine } from "../engine/index.ts";
import type { Judge } from "../rollout/judge.ts";
import { readManifest } from "../run/manifest.ts";
import { readTrajectories } from "../run/trajectories.ts";
import { type TestFolder, testFolder, tinyRecipe } from "./test-run.ts";
import { train } from "./train.ts";

let folder: TestFolder;
const engine = new NativeEngine({ threads: 2 });
beforeAll(async () => {
  folder = await testFolder();
});
afterAll(async () => {
  await engine.close();
  await folder.remove();
});

async function run(judge: Judge) {
  const path = mkdtempSync(join(folder.root, "run-"));
  const changes = { steps: 1, groups: 4, siblings: 4, sight: { every: 0 }, evaluate: { before: false, every: 9 } };
  const recipe = tinyRecipe(folder.model, { ...changes, optimizer: { learningRate: 0.001 }, judge });
  const steps: Readonly<Record<string, number>>[] = [];
  const notes: string[] = [];
  await train({
    recipe,
    folder: path,
    engine,
    onEvent: ({ kind, metrics, message }) => {
      if (kind === "train") steps.push(metrics);
      if (kind === "note") notes.push(message ?? "");
    },
  });
  return { path, metrics: steps[0] ?? {}, notes };
}

test("siblings that earn the same are told apart by the judge, before filters look at them", async () => {
  // The model knows nothing, so no reply is an action and the world pays nothing.
  const { path, metrics } = await run(async function byLength({ turns }) {
    return turns.map(({ reply }) => [{ name: "length", value: reply.length }]);
  });
  expect(metrics["reward/task"]).toBe(0);
  expect(metrics["reward/length"]).toBeGreaterThan(0);
  expect(metrics["train/reward"]).toBeCloseTo(metrics["reward/length"] as number, 6);
  expect(metrics["groups/trained"]).toBe(4);
  expect(metrics["judge/failures"]).toBe(0);
  const [row] = await readTrajectories(path, 1);
  const turn = row?.turns[0];
  expect(turn?.rewards).toContainEqual({ name: "length", value: turn?.reply.length });
  expect((await readManifest(path)).manifest?.config.judge).toBe("function byLength");
});

test("a judge that fails is counted and said once, and no episode is lost", async () => {
  const { path, metrics, notes } = await run(async () => {
    throw new Error("quota exceeded");
  });
  expect(metrics["judge/failures"]).toBe(16);
  expect(metrics["train/episodes"]).toBe(16);
  expect(notes.filter((note) => note.includes("quota exceeded"))).toHaveLength(1);
  expect((await readTrajectories(path, 1))[0]?.judge?.error).toBe("quota exceeded");
});
