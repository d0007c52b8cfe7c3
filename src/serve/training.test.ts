/** A run that samples on `saccade serve` is the run that samples in its own process: the same losses, bit for bit. */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { NativeEngine } from "../engine/index.ts";
import { createFolder } from "../model/folder.ts";
import type { Metrics } from "../run/events.ts";
import type { RecipeInput } from "../train/recipe.ts";
import { signalsEnv, TINY, tinyRecipe, weightsUnder } from "../train/test-run.ts";
import { train } from "../train/train.ts";
import { type ServeServer, startServer } from "./server.ts";

const STEPS = 20;
const MUON = { name: "muon", learningRate: 0.02, adamLearningRate: 0.01 } as const;
const engine = new NativeEngine({ threads: 2 });
let root = "";
let server: ServeServer;
let near: Awaited<ReturnType<typeof follow>>;

/** What was learned, step by step, and the weights at the end. */
async function follow(name: string, changes: Partial<RecipeInput>) {
  const steps: Metrics[] = [];
  const recipe = tinyRecipe(join(root, "model"), {
    envs: [signalsEnv(3, { side: 64 })],
    warmStart: { episodes: 320, noise: 0.3, batch: 32, optimizer: MUON },
    optimizer: { name: "adamw", learningRate: 0.002 },
    checkpoint: { every: STEPS },
    steps: STEPS,
    ...changes,
  });
  const { model } = await train({
    recipe,
    folder: join(root, name),
    onEvent: ({ kind, metrics }) => {
      if (kind === "train") steps.push(metrics);
    },
  });
  return {
    steps: steps.map(learned),
    drift: steps.map((metrics) => metrics["drift/max"]),
    weights: weightsUnder(model),
  };
}

/** All but clocks, memory and speeds. */
function learned(metrics: Metrics): Metrics {
  const kept = Object.entries(metrics).filter(([key]) => /^(policy|optimizer|train|reward|groups)\//.test(key));
  return Object.fromEntries(kept);
}

beforeAll(async () => {
  root = await mkdtemp(join(tmpdir(), "saccade-serve-"));
  await createFolder(join(root, "model"), TINY);
  server = await startServer({ engine, folder: join(root, "model"), name: "policy", store: root });
  near = await follow("near", {});
}, 600_000);
afterAll(async () => {
  await server.close();
  await engine.close();
  await rm(root, { recursive: true, force: true });
});

test("the run in one process has something to learn at most steps", () => {
  expect(near.steps).toHaveLength(STEPS);
  const norms = near.steps.map((metrics) => metrics["optimizer/grad_norm"]);
  expect(new Set(norms.filter((norm) => norm !== 0)).size).toBeGreaterThan(STEPS / 2);
});

test.each(["server", "own"])(
  "twenty steps with saccade serve as the sampler: the same losses, gradients, rewards and weights (pixels: %s)",
  async (renderer) => {
    const sampler = { vllm: [server.url], renderer, exchange: join(root, "exchange") };
    const far = await follow(renderer, { engine: { learner: { name: "native", threads: 2 }, sampler } });
    expect(far).toEqual(near);
    expect(new Set(far.drift)).toEqual(new Set([0]));
  },
  600_000,
);
