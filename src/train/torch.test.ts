/** Training conducted from here and computed by PyTorch. Runs where `python3` has torch; SACCADE_REQUIRE=torch makes its absence a failure. */
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { NativeEngine } from "../engine/index.ts";
import type { TorchEngine } from "../engine/torch/engine.ts";
import type { LocalWorker } from "../engine/torch/process.ts";
import { CPU_SETTINGS, cpuEngine, TORCH } from "../engine/torch/test-worker.ts";
import { loadEvents } from "../run/events.ts";
import { loadRecipe } from "./recipes.ts";
import { signalsEnv, type TestFolder, tinyRecipe, warmFolder } from "./test-run.ts";
import { train } from "./trainer.ts";

describe.runIf(TORCH)("with the PyTorch engine", { timeout: 300_000 }, () => {
  let folder: TestFolder;
  let engine: TorchEngine;
  let worker: LocalWorker;

  beforeAll(async () => {
    const native = new NativeEngine({ threads: 2 });
    folder = await warmFolder(native, 1);
    await native.close();
    ({ engine, worker } = cpuEngine());
  }, 300_000);
  afterAll(async () => {
    await engine?.close();
    await folder?.remove();
  });

  test("a model finds the words from reward alone, and what was sampled is what was trained", async () => {
    const steps = 40;
    const success: number[] = [];
    const drift: number[] = [];
    await train({
      recipe: tinyRecipe(folder.model, {
        seed: 1,
        envs: [signalsEnv(2)],
        steps,
        groups: 8,
        siblings: 16,
        loss: { name: "ppo", clipLow: 0.8, clipHigh: 1.28, entropy: 0.02 },
        optimizer: { name: "muon", learningRate: 0.02, adamLearningRate: 0.006 },
        evaluate: { every: steps, before: true, greedy: false, seeds: [1_000_000_000, 1_000_000_127] },
        checkpoint: { every: steps },
      }),
      folder: join(folder.root, "learns"),
      engine,
      onEvent: ({ kind, metrics }) => {
        if (kind === "eval") success.push(metrics["eval/success"] as number);
        if (kind === "train") drift.push(metrics["drift/max"] as number);
      },
    });
    expect(success[0]).toBeLessThan(0.2);
    expect(success.at(-1)).toBeGreaterThan(0.6);
    expect(Math.max(...drift)).toBeLessThan(1e-3);
  });

  test("the quickstart runs a few steps with --engine torch", async () => {
    const recipe = await loadRecipe("quickstart", {
      engine: { name: "torch", ...CPU_SETTINGS },
      warmStart: { episodes: 32 },
      steps: 2,
      groups: 2,
      siblings: 4,
      evaluate: { every: 2, seeds: [1_000_000_000, 1_000_000_003] },
      sight: { every: 0 },
    });
    const run = join(folder.root, "quickstart");
    const { finished, step } = await train({ recipe, folder: run });
    expect({ finished, step }).toEqual({ finished: true, step: 2 });
    const trained = (await loadEvents(run)).events.filter(({ kind }) => kind === "train");
    expect(trained.length).toBe(2);
  });

  test("a worker that is killed −9 in the middle: the run goes on from its last checkpoint and nothing is trained twice", async () => {
    const recipe = tinyRecipe(folder.model, { envs: [signalsEnv(2)], steps: 6, checkpoint: { every: 2 } });
    let killed = 0;
    const run = join(folder.root, "killed");
    const { finished, step } = await train({
      recipe,
      folder: run,
      engine,
      onStep: ({ step }) => {
        // After the checkpoint of step 2, and before that of step 4.
        if (step === 3 && killed++ === 0) process.kill(worker.pid as number, "SIGKILL");
        return undefined;
      },
    });
    expect({ finished, step, killed }).toEqual({ finished: true, step: 6, killed: 2 });
    const { events } = await loadEvents(run);
    expect(events.filter(({ kind }) => kind === "train").map((event) => event.step)).toEqual([1, 2, 3, 4, 5, 6]);
    expect(events.some(({ message }) => /goes on from its last checkpoint/.test(message ?? ""))).toBe(true);
  });
});
