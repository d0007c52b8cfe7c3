/** geometry3k from a Parquet file in the layout of the real data set, through a whole run: warm start on its answers, then reinforcement learning over its rows. */
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { NativeEngine } from "../engine/index.ts";
import { readTrajectories } from "../run/trajectories.ts";
import { type TestFolder, testFolder, tinyRecipe } from "./test-run.ts";
import { train } from "./train.ts";

const data = join(import.meta.dirname, "../../worlds/geometry3k/golden/geometry3k.parquet");
let folder: TestFolder;
const engine = new NativeEngine({ threads: 2 });
beforeAll(async () => {
  folder = await testFolder();
});
afterAll(async () => {
  await engine.close();
  await folder.remove();
});

test("a Parquet file of the real layout trains: its answers are learned, then every row but the held-out one is played and paid, and the held-out one is shown in grey too", async () => {
  const path = join(folder.root, "run");
  const options = { data, form: "tags", prompt: "brief", maxTurns: 2, maxLongSide: 32 };
  const optimizer = { name: "muon", learningRate: 0.02, adamLearningRate: 0.01 } as const;
  const nll: number[] = [];
  const steps: Readonly<Record<string, number>>[] = [];
  const sights: Readonly<Record<string, number>>[] = [];
  const recipe = tinyRecipe(folder.model, {
    envs: [{ env: "geometry3k", options }],
    warmStart: { episodes: 600, noise: 0.3, batch: 12, optimizer },
    steps: 2,
    groups: 4,
    siblings: 4,
    sampling: { maxTokens: 64, contextTokens: 512 },
    evaluate: { every: 100, before: false, greedy: false, seeds: [2, 2] },
    sight: { every: 2, episodes: 2 },
  });
  await train({
    recipe,
    folder: path,
    engine,
    onEvent: ({ kind, metrics }) => {
      if (kind === "sft") nll.push(metrics["sft/nll"] as number);
      if (kind === "train") steps.push(metrics);
      if (kind === "sight") sights.push(metrics);
    },
  });
  expect(nll.at(-1)).toBeLessThan(0.25 * (nll[0] as number));
  expect(steps).toHaveLength(2);
  expect(sights.at(-1)).toHaveProperty(["sight/success_grey"]);
  expect(steps.every((step) => step["drift/max"] === undefined || step["drift/max"] === 0)).toBe(true);
  const played = (await readTrajectories(path, 51)).filter(({ split }) => split === "train");
  expect(new Set(played.map(({ seed }) => seed))).toEqual(new Set([0, 1]));
  expect(played.some(({ success }) => success)).toBe(true);
}, 120_000);
