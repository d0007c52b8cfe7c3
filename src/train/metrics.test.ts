/** What runs log against what is declared: a curve that no run draws is a promise that nobody keeps. */
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { NativeEngine } from "../engine/index.ts";
import { METRICS, metricInfo } from "../run/metrics.ts";
import type { RecipeInput } from "./recipe.ts";
import { broken, signalsEnv, type TestFolder, testFolder, tinyRecipe } from "./test-run.ts";
import { train } from "./train.ts";

const engine = new NativeEngine({ threads: 2 });
let folder: TestFolder;
beforeAll(async () => {
  folder = await testFolder();
});
afterAll(async () => {
  await folder.remove();
  await engine.close();
});

const adam = { learningRate: 0.003 };
const LAKE = { env: "frozen_lake", options: { protocol: "keyword", prompt: "brief", maxTurns: 2, cellSize: 16 } };
const RUNS: readonly Partial<RecipeInput>[] = [
  {
    warmStart: { episodes: 16, noise: 1, batch: 8, optimizer: adam },
    kl: { as: "reward", coefficient: 0.05, target: 0.01, horizon: 100 },
    loss: { name: "ppo", dualClip: 3 },
    correction: { truncate: { level: "token", cap: 2 } },
    filters: [{ name: "over-long", replies: "keep" }],
    evaluate: { seeds: [1_000_000_000, 1_000_000_003], repeats: 2 },
    sight: { every: 1, episodes: 4 },
    judge: async ({ turns }) => turns.map(() => [{ name: "style", value: 1 }]),
  },
  // A world that can be saved has junctions, and an oracle without noise teaches at each of them.
  {
    envs: [LAKE],
    sampling: { maxTokens: 4, contextTokens: 512 },
    steps: 0,
    warmStart: { episodes: 4, batch: 4, optimizer: adam },
    evaluate: { seeds: [1_000_000_000, 1_000_000_003] },
  },
  // Where there are several worlds, each has a loss of its own, and a share that may change.
  {
    envs: [LAKE, signalsEnv()],
    mixture: { name: "progress" },
    sampling: { maxTokens: 4, contextTokens: 512 },
    steps: 0,
    warmStart: { episodes: 8, batch: 8, optimizer: adam },
    evaluate: { seeds: [1_000_000_000, 1_000_000_003] },
  },
  // What fails is counted where it fails.
  {
    envs: [signalsEnv(), { ...signalsEnv(), env: "broken_signals" }],
    rollout: { maxFailed: 1, retries: 0 },
    evaluate: { seeds: [1_000_000_000, 1_000_000_003] },
  },
  // Only KL pays in a model that knows nothing, and only after a step.
  { steps: 2, advantage: { name: "gae" }, critic: { optimizer: adam }, kl: { as: "reward", coefficient: 1 } },
];

test("every metric that is declared is logged by a run that has what it speaks of, and no other is", async () => {
  const logged = new Set<string>();
  Object.assign(broken, { how: "reset", seeds: (seed: number) => seed % 2 === 0 });
  for (const [i, changes] of RUNS.entries()) {
    await train({
      recipe: tinyRecipe(folder.model, { steps: 1, groups: 2, siblings: 2, optimizer: adam, ...changes }),
      folder: join(folder.root, `run-${i}`),
      engine,
      onStep: () => ({ mine: 1 }),
      onEvent: ({ metrics }) => {
        for (const name of Object.keys(metrics)) logged.add(name);
      },
    });
  }
  const rows = new Set([...logged].map((name) => metricInfo(name)?.name));
  expect(METRICS.map(({ name }) => name).filter((name) => !rows.has(name))).toEqual([]);
  expect(rows.has(undefined)).toBe(false);
});
