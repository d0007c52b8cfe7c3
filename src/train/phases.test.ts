/** Where one way of learning ends and another begins, nothing of the optimizer's past may leak into the next update. */
import { mkdtempSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { NativeEngine } from "../engine/index.ts";
import { readSafetensors, type Tensors } from "../model/safetensors.ts";
import { readTrajectories } from "../run/trajectories.ts";
import { grpo } from "./advantages.ts";
import type { RecipeInput } from "./recipe.ts";
import { registerEstimator } from "./registry.ts";
import { signalsEnv, type TestFolder, testFolder, tinyRecipe } from "./test-run.ts";
import { train } from "./train.ts";

let folder: TestFolder;
let engine: NativeEngine;
beforeAll(async () => {
  engine = new NativeEngine({ threads: 2 });
  folder = await testFolder();
});
afterAll(async () => {
  await engine.close();
  await folder.remove();
});

const newFolder = () => mkdtempSync(join(folder.root, "run-"));
const muon = { name: "muon", learningRate: 0.02, adamLearningRate: 0.01 } as const;
const RATE = 1e-4;
const adamw = { name: "adamw", learningRate: RATE } as const;

/** Every checkpoint is kept, so that each update can be looked at. */
function phases(changes: Partial<RecipeInput> = {}) {
  return tinyRecipe(folder.model, {
    envs: [signalsEnv(2)],
    warmStart: { episodes: 320, noise: 0.8, batch: 32, optimizer: muon },
    steps: 1,
    groups: 8,
    siblings: 8,
    checkpoint: { every: 1, keep: 20 },
    ...changes,
  });
}

registerEstimator({
  ...grpo,
  name: "upside-down",
  compute: (rows, options) => ({ advantages: grpo.compute(rows, options).advantages.map((row) => row.map((a) => -a)) }),
});

const weightsOf = (run: string, step: number) =>
  readSafetensors(join(run, `checkpoints/step-${step}/policy/model.safetensors`));

function difference(after: Tensors, before: Tensors): number[] {
  return [...after].flatMap(([name, { data }]) =>
    Array.from(data, (value, i) => value - (before.get(name)?.data[i] ?? Number.NaN)),
  );
}

const largest = (numbers: readonly number[]) => numbers.reduce((most, x) => Math.max(most, Math.abs(x)), 0);

describe("Reinforcement learning after a warm start", { timeout: 120_000 }, () => {
  test("moves no weight further than AdamW's rate in its first update, though Muon warmed it up", async () => {
    const run = newFolder();
    await train({ recipe: phases({ optimizer: adamw }), folder: run, engine });
    const moved = largest(difference(await weightsOf(run, 11), await weightsOf(run, 10)));
    expect(moved).toBeGreaterThan(0.5 * RATE);
    expect(moved).toBeLessThan(1.01 * RATE);
  });

  test("follows the reward alone: other rewards for the same episodes, another way", async () => {
    const updates: number[][] = [];
    // The same warm start, played by the same seeds; only what is paid differs.
    for (const name of ["grpo", "upside-down"]) {
      const run = newFolder();
      const recipe = phases({ optimizer: { ...muon, learningRate: 0.001 }, advantage: { name } });
      await train({ recipe, folder: run, engine });
      updates.push(difference(await weightsOf(run, 11), await weightsOf(run, 10)));
    }
    const [up = [], down = []] = updates;
    const dot = (a: readonly number[], b: readonly number[]) => a.reduce((sum, x, i) => sum + x * (b[i] ?? 0), 0);
    expect(dot(up, down) / Math.sqrt(dot(up, up) * dot(down, down))).toBeLessThan(-0.9);
  });
});

describe("A run that is resumed", { timeout: 120_000 }, () => {
  test("with another optimizer begins that optimizer afresh", async () => {
    const run = newFolder();
    const stop = new AbortController();
    const first = phases({ steps: 2, optimizer: { ...muon, learningRate: 0.001 } });
    const onStep = () => {
      stop.abort();
      return undefined;
    };
    await train({ recipe: first, folder: run, engine, signal: stop.signal, onStep });
    await train({ recipe: phases({ steps: 2, optimizer: adamw }), folder: run, engine, mode: "resume" });
    expect(largest(difference(await weightsOf(run, 12), await weightsOf(run, 11)))).toBeLessThan(1.01 * RATE);
  });

  test("with another optimizer for its critic begins that one afresh, and else goes on with its moments", async () => {
    const recipe = (optimizer: NonNullable<RecipeInput["optimizer"]>) =>
      phases({ warmStart: undefined, steps: 2, advantage: { name: "gae" }, critic: { optimizer, warmupSteps: 0 } });
    const criticOf = (run: string, step: number) =>
      readSafetensors(join(run, `checkpoints/step-${step}/critic/model.safetensors`));
    const stateOf = async (run: string) =>
      (await readSafetensors(join(run, "checkpoints/step-2/critic.state.safetensors"))).get("step")?.data[0];
    for (const [first, updates] of [
      [{ ...muon, learningRate: 0.001 }, 1],
      [adamw, 2],
    ] as const) {
      const run = newFolder();
      const stop = new AbortController();
      const onStep = () => {
        stop.abort();
        return undefined;
      };
      await train({ recipe: recipe(first), folder: run, engine, signal: stop.signal, onStep });
      await train({ recipe: recipe(adamw), folder: run, engine, mode: "resume" });
      expect(largest(difference(await criticOf(run, 2), await criticOf(run, 1)))).toBeLessThan(1.01 * RATE);
      expect(await stateOf(run)).toBe(updates);
    }
  });

  test("goes on counting the versions of its weights", async () => {
    const run = newFolder();
    for (const steps of [1, 2, 3]) {
      await train({ recipe: phases({ steps, optimizer: adamw }), folder: run, engine, mode: "either" });
      const rows = await readTrajectories(run, 10 + steps);
      const versions = rows
        .filter(({ split }) => split === "train")
        .flatMap(({ turns }) => turns.map((t) => t.version));
      expect(new Set(versions)).toEqual(new Set([steps]));
    }
  });
});
