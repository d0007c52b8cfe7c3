/** Training conducted from here and computed by PyTorch. Runs where `python3` has torch; SACCADE_REQUIRE=torch makes its absence a failure. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import { type Engine, NativeEngine, openEngine } from "../engine/index.ts";
import type { TorchEngine } from "../engine/torch/engine.ts";
import { packageFolder } from "../engine/torch/environment.ts";
import type { LocalWorker } from "../engine/torch/process.ts";
import { CPU_SETTINGS, cpuEngine, TORCH } from "../engine/torch/test-worker.ts";
import { readSafetensors, type Tensors } from "../model/safetensors.ts";
import { loadEvents } from "../run/events.ts";
import { loadRecipe } from "./recipes.ts";
import { signalsEnv, type TestFolder, tinyRecipe, warmFolder } from "./test-run.ts";
import { train } from "./train.ts";

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

  /** What a run of six steps ends with. */
  async function played(name: string, run: Engine, accident?: () => void) {
    const recipe = tinyRecipe(folder.model, { envs: [signalsEnv(2)], steps: 6, checkpoint: { every: 2 } });
    const at = join(folder.root, name);
    const { finished, step, model } = await train({
      recipe,
      folder: at,
      engine: run,
      onStep: ({ step }) => {
        if (step === 3) accident?.();
        return undefined;
      },
    });
    expect({ finished, step }).toEqual({ finished: true, step: 6 });
    const { events } = await loadEvents(at);
    expect(events.filter(({ kind }) => kind === "train").map((event) => event.step)).toEqual([1, 2, 3, 4, 5, 6]);
    const resumed = events.filter(({ message }) => /continues from its last checkpoint/.test(message ?? "")).length;
    return { resumed, weights: await readSafetensors(join(model, "model.safetensors")) };
  }
  let undisturbed: Awaited<ReturnType<typeof played>>;
  const difference = (weights: Tensors) =>
    Math.max(
      ...[...undisturbed.weights].flatMap(([name, { data }]) =>
        Array.from(data, (value, i) => Math.abs(value - (weights.get(name)?.data[i] ?? Number.NaN))),
      ),
    );

  test("six steps without an accident move the weights", async () => {
    undisturbed = await played("undisturbed", engine);
    expect(undisturbed.resumed).toBe(0);
    expect(difference(await readSafetensors(join(folder.model, "model.safetensors")))).toBeGreaterThan(1e-3);
  });

  test.each([
    ["in a step", "forwardBackward", 5],
    ["in an update", "step", 5],
    ["in a save", "checkpoint", 2],
    ["while sampling", "sample", 70],
  ] as const)(
    "a worker that is killed −9 %s: the run goes on from its last good state and ends with the weights of one that had no accident",
    async (when, op, count) => {
      let killed = 0;
      const kill = () => process.kill(worker.pid as number, "SIGKILL");
      const during = withAccident(engine, op, count, () => {
        killed++;
        kill();
      });
      const { resumed, weights } = await played(`killed ${when}`, during);
      expect({ killed, resumed }).toEqual({ killed: 1, resumed: 1 });
      expect(difference(weights)).toBeLessThan(1e-5);
    },
  );

  test("a worker elsewhere that is killed and comes back later: the same", async () => {
    vi.stubEnv("SACCADE_TORCH_KEY", "far away from here");
    let port = 0;
    const serve = async () => {
      const flags = ["--device", "cpu", "--threads", "1", "--with-parent", "--port", String(port)];
      const other = spawn(CPU_SETTINGS.python as string, ["-m", "saccade_torch", ...flags], {
        env: { ...process.env, PYTHONPATH: packageFolder() },
        stdio: ["pipe", "pipe", "ignore"],
      });
      const [line] = (await once(other.stdout, "data")) as [Buffer];
      port = (JSON.parse(String(line)) as { port: number }).port;
      return other;
    };
    let other = await serve();
    const remote = await openEngine(`torch@127.0.0.1:${port}`);
    let back: Promise<void> | undefined;
    const { resumed, weights } = await played("elsewhere", remote, () => {
      if (back !== undefined) return;
      other.kill("SIGKILL");
      back = sleep(3000).then(async () => {
        other = await serve();
      });
    });
    await back;
    await remote.close();
    other.kill();
    vi.unstubAllEnvs();
    expect(resumed).toBe(1);
    expect(difference(weights)).toBeLessThan(1e-5);
  });
});

/** The engine, but for an accident while the n-th call of an operation is under way. */
function withAccident(
  engine: Engine,
  op: "forwardBackward" | "step" | "checkpoint" | "sample",
  count: number,
  happen: () => void,
): Engine {
  let calls = 0;
  const watched = <T extends object>(inner: T): T =>
    new Proxy(inner, {
      get(target, name) {
        const value = Reflect.get(target, name, target) as unknown;
        if (typeof value !== "function") return value;
        return (...given: unknown[]) => {
          const result = (value as (...given: unknown[]) => unknown).apply(target, given);
          // The request has left when the accident happens, and its answer has not come.
          if (name === op && ++calls === count) setTimeout(happen, 2);
          return name === "publish" ? (result as Promise<object>).then(watched) : result;
        };
      },
    });
  return new Proxy(engine, {
    get(target, name) {
      const value = Reflect.get(target, name, target) as unknown;
      if (typeof value !== "function") return value;
      return (...given: unknown[]) => {
        const result = (value as (...given: unknown[]) => unknown).apply(target, given);
        return name === "learner" ? (result as Promise<object>).then(watched) : result;
      };
    },
  });
}
