/** The trainer's promises: the same bits however it is run, no policy older than agreed, no failed episode trained, no run that goes on broken. */
import { mkdtempSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { ConfigError } from "../core/errors.ts";
import type { Datum, Engine, Learner, Sample } from "../engine/engine.ts";
import { EngineError, NativeEngine } from "../engine/index.ts";
import { readSafetensors } from "../model/safetensors.ts";
import { readTrained } from "../model/trained.ts";
import type { Metrics, RunEvent } from "../run/events.ts";
import { readTrajectories } from "../run/trajectories.ts";
import { checkRecipe } from "./check-recipe.ts";
import type { Recipe, RecipeInput } from "./recipe.ts";
import { registerLoss } from "./registry.ts";
import { resumeRecipe, signalsEnv, type TestFolder, tinyRecipe, warmFolder, weightsUnder } from "./test-run.ts";
import { type TrainOptions, train } from "./train.ts";

let folder: TestFolder;
let engine: NativeEngine;
beforeAll(async () => {
  engine = new NativeEngine({ threads: 2 });
  folder = await warmFolder(engine);
}, 300_000);
afterAll(async () => {
  await engine.close();
  await folder.remove();
});

const newFolder = () => mkdtempSync(join(folder.root, "run-"));

/** Trains and keeps what was said on the way. */
async function follow(recipe: Recipe, options: Partial<TrainOptions> = {}) {
  const events: RunEvent[] = [];
  const run = options.folder ?? newFolder();
  const onEvent = (event: RunEvent) => {
    events.push(event);
    options.onEvent?.(event);
  };
  const outcome = await train({ recipe, engine, ...options, folder: run, onEvent }).catch((error: Error) => error);
  const steps = events.filter(({ kind }) => kind === "train").map(({ metrics }) => metrics);
  return { run, outcome, events, steps };
}

const sum = (steps: readonly Metrics[], name: string) => steps.reduce((all, metrics) => all + (metrics[name] ?? 0), 0);

/** The engine, with everything that is sampled and trained written down. */
class Witness implements Engine {
  readonly #engine: Engine;
  readonly capabilities: Engine["capabilities"];
  readonly trained: Datum[] = [];
  /** By prompt and reply. */
  readonly sampled = new Map<string, Sample[]>();

  constructor(witnessed: Engine) {
    this.#engine = witnessed;
    this.capabilities = witnessed.capabilities;
  }

  async learner(spec: Parameters<Engine["learner"]>[0]): Promise<Learner> {
    const learner = await this.#engine.learner(spec);
    const { trained, sampled } = this;
    return new Proxy(learner, {
      get(target, name) {
        if (name === "forwardBackward") {
          return (...[data, loss]: Parameters<Learner["forwardBackward"]>) => {
            trained.push(...data);
            return target.forwardBackward(data, loss);
          };
        }
        if (name === "publish") {
          return async () => {
            const sampler = await target.publish();
            const sample = sampler.sample.bind(sampler);
            sampler.sample = async (prompt, ...rest) => {
              const said = await sample(prompt, ...rest);
              const key = [...prompt.ids, ...said.ids].join();
              sampled.set(key, [...(sampled.get(key) ?? []), said]);
              return said;
            };
            return sampler;
          };
        }
        const value = target[name as keyof Learner] as unknown;
        return typeof value === "function" ? value.bind(target) : value;
      },
    });
  }

  sampler(path: string) {
    return this.#engine.sampler(path);
  }

  chat(path: string) {
    return this.#engine.chat(path);
  }

  async close() {}
}

describe("A synchronous run", { timeout: 300_000 }, () => {
  test("is the same bits with 1, 8 and 64 live episodes and with 1 and 2 threads", async () => {
    const runs = [];
    for (const [live, threads] of [
      [1, 1],
      [8, 2],
      [64, 2],
      [64, 1],
    ] as const) {
      const own = new NativeEngine({ threads });
      const recipe = resumeRecipe(folder.model, "kl", { rollout: { live }, steps: 3 });
      const { run, steps, events } = await follow(recipe, { engine: own });
      await own.close();
      const learned = events.map(({ kind, step, metrics }) => ({
        kind,
        step,
        metrics: Object.entries(metrics).filter(([name]) => !/^(time|speed|memory)\//.test(name)),
      }));
      runs.push({ weights: weightsUnder(join(run, "checkpoints/step-11")), learned });
      expect(await readTrained(join(run, "checkpoints/step-11/policy"))).toMatchObject({
        recipe: "tiny",
        envs: [{ env: "signals" }],
      });
      expect(steps.map((metrics) => metrics["staleness/max"])).toEqual([0, 0, 0]);
      // What is trained is what was sampled, to the last bit.
      expect(steps.map((metrics) => metrics["drift/max"])).toEqual([0, 0, 0]);
    }
    expect(Object.keys(runs[0]?.weights ?? {})).toHaveLength(2);
    for (const other of runs.slice(1)) expect(other).toEqual(runs[0]);
  });

  test("depends on its seed", async () => {
    const [one, two] = [
      await follow(tinyRecipe(folder.model, { steps: 1, seed: 1 })),
      await follow(tinyRecipe(folder.model, { steps: 1, seed: 2 })),
    ];
    expect(weightsUnder(one.run)).not.toEqual(weightsUnder(two.run));
  });

  test("is what maxStaleness 0 means: the rollouts of a step begin after the update before it", async () => {
    const { run } = await follow(tinyRecipe(folder.model, { maxStaleness: 0 }));
    const plain = await follow(tinyRecipe(folder.model));
    expect(weightsUnder(run)).toEqual(weightsUnder(plain.run));
    for (let step = 1; step <= 4; step++) expect(await versionsOf(run, step)).toEqual([step]);
  });
});

/** Versions that sampled the episodes of a step; the first is 1, and each step makes the next. */
async function versionsOf(run: string, step: number): Promise<number[]> {
  const rows = await readTrajectories(run, step);
  const train = rows.filter(({ split }) => split === "train");
  expect(train.length).toBeGreaterThan(0);
  return [...new Set(train.flatMap(({ turns }) => turns.map(({ version }) => version)))].sort((a, b) => a - b);
}

test("evaluate.every 0 measures nothing, before, on the way or at the end", { timeout: 300_000 }, async () => {
  const changes = { envs: [signalsEnv(1)], evaluate: { every: 0 }, sight: { every: 0 } };
  const { outcome, events } = await follow(tinyRecipe(folder.model, { ...changes, steps: 1 }));
  expect(outcome).toMatchObject({ finished: true, step: 1 });
  expect(events.filter(({ kind }) => kind === "eval")).toEqual([]);
});

describe("An asynchronous run", { timeout: 300_000 }, () => {
  test("finishes, is never staler than allowed, and anchors stale episodes where they were sampled", async () => {
    const witness = new Witness(engine);
    // Evaluations and probes between the steps are no updates, and must not count as such.
    const recipe = tinyRecipe(folder.model, {
      steps: 8,
      maxStaleness: 2,
      envs: [signalsEnv(1)],
      // All groups of the lead begin at once, so those of the third step are as stale as can be.
      rollout: { live: 64 },
      evaluate: { every: 2, greedy: false, seeds: [1_000_000_000, 1_000_000_003] },
      sight: { every: 3, episodes: 2 },
    });
    const { run, outcome, steps } = await follow(recipe, { engine: witness });
    expect(outcome).toMatchObject({ finished: true, step: 8 });
    const ages: number[] = [];
    for (let step = 1; step <= 8; step++) {
      const versions = await versionsOf(run, step);
      ages.push(step - (versions[0] as number));
      expect(versions.at(-1)).toBeLessThanOrEqual(step);
      expect(steps[step - 1]?.["staleness/max"]).toBe(ages.at(-1));
    }
    expect(Math.max(...ages)).toBe(2);
    // Stale: the learner no longer says what the sampler said, and the anchor is the sampler's.
    expect(Math.max(...steps.map((metrics) => metrics["drift/max"] ?? 0))).toBeGreaterThan(0);
    expect(witness.trained).toHaveLength(8 * 16);
    for (const { input, targets, oldLogprobs } of witness.trained) {
      const anchor = [...(oldLogprobs ?? [])].filter((_, i) => (targets[i] as number) >= 0);
      const drawn = witness.sampled.get(input.ids.join())?.map(({ logprobs }) => [...logprobs]);
      expect(drawn).toContainEqual(anchor);
    }
  });

  test("counts how stale episodes are from the weights that learn, in steps without an update too", async () => {
    let calls = 0;
    registerLoss({
      name: "once",
      anchor: "learner",
      // Only the first mini-batch moves the weights.
      make: () => (sequences) => {
        const slope = calls++ === 0 ? 0.1 : 0;
        return { loss: 0, gradients: sequences.map(({ datum }) => datum.weights.map((weight) => slope * weight)) };
      },
    });
    const recipe = tinyRecipe(folder.model, {
      steps: 2,
      maxStaleness: 1,
      loss: { name: "once" },
      rollout: { live: 64 },
    });
    const { steps } = await follow(recipe);
    expect(steps.map((metrics) => metrics["optimizer/updates"])).toEqual([1, 0]);
    // All episodes began at once: those of the second step with the weights before the first update.
    expect(steps.map((metrics) => metrics["staleness/max"])).toEqual([0, 1]);
  });

  test("refuses dynamic sampling, which has no steps to fill", () => {
    expect(() => tinyRecipe("x", { maxStaleness: 1, refill: true })).toThrow(ConfigError);
  });
});

describe("Environments that throw, hang and answer late", { timeout: 300_000 }, () => {
  const FAULTY = new URL("../rollout/test-faulty-env.ts", import.meta.url).pathname;
  /** Threads and open files of this process; timers that keep it alive. */
  const held = () => ({
    threads: readdirSync("/proc/self/task").length,
    files: readdirSync("/proc/self/fd").length,
    timers: process.getActiveResourcesInfo().filter((name) => name === "Timeout").length,
  });
  const isMore = (now: ReturnType<typeof held>, before: ReturnType<typeof held>) =>
    now.threads > before.threads || now.files > before.files || now.timers > before.timers;

  test.each([
    ["inline", 5, 8],
    // Each thread that a fault ends costs a new one, which loads the whole package.
    ["threads", 2, 2],
  ] as const)(
    "%s: training goes on, counts are right, no failed episode is trained, nothing is left",
    async (workers, steps, groups) => {
      const log = join(newFolder(), "faults");
      writeFileSync(log, "");
      const turns = 3;
      const faults = { turns, throws: 0.05, hangs: 0.02, slow: 0.2, log };
      const before = held();
      const witness = new Witness(engine);
      const recipe = tinyRecipe(folder.model, {
        steps,
        groups,
        envs: [{ env: FAULTY, options: faults }],
        rollout: {
          live: workers === "inline" ? 4 : 2,
          workers,
          stepTimeoutMs: workers === "inline" ? 500 : 8000,
          retries: 1,
          maxFailed: 1,
        },
        sight: { every: steps, episodes: 2 },
        evaluate: { every: steps, before: false, greedy: false, seeds: [1_000_000_000, 1_000_000_001] },
      });
      let [noted, ignored, seen, most] = ["", 0, 0, 0];
      const result = await follow(recipe, {
        engine: witness,
        // The first probe is over before anything is played for training. After the last step nothing plays any more, and evaluation has not begun.
        onEvent: ({ kind, step }) => {
          most = Math.max(most, held().threads);
          if (kind === "sight" && step === 0) ignored = readFileSync(log, "utf8").length;
          if (kind === "train" && ++seen === steps) noted = readFileSync(log, "utf8").slice(ignored);
        },
      });
      expect(result.outcome).toMatchObject({ finished: true, step: steps });
      const count = (fault: string) => noted.split("\n").filter((line) => line === fault).length;
      const counted = (name: string) => sum(result.steps, `episodes/${name}`);
      if (workers === "inline") expect(count("throw")).toBeGreaterThan(0);
      // Each fault ended an attempt: it was played again, or given up.
      expect(counted("retries") + counted("env_errors") + counted("env_timeouts")).toBe(count("throw") + count("hang"));
      expect(counted("engine_errors")).toBe(0);
      const dropped = counted("env_errors") + counted("env_timeouts");
      expect(sum(result.steps, "train/episodes") + dropped).toBe(steps * groups * 4);
      expect(sum(result.steps, "groups/trained") + sum(result.steps, "groups/too_small")).toBe(steps * groups);
      // A failed episode has fewer replies than a whole one.
      const replies = ({ targets }: Datum) =>
        targets.filter((id, i) => id >= 0 && (i === 0 || targets[i - 1] === -1)).length;
      expect(new Set(witness.trained.map(replies))).toEqual(new Set([turns]));
      expect(most > before.threads).toBe(workers === "threads");
      // Threads that were ended take a moment to go.
      for (let i = 0; i < 200 && isMore(held(), before); i++) await new Promise((done) => setTimeout(done, 50));
      expect(isMore(held(), before), JSON.stringify([before, held()])).toBe(false);
    },
  );

  test("that never answer stop the run with their own words instead of training nothing for ever", async () => {
    const recipe = tinyRecipe(folder.model, {
      steps: 50,
      groups: 2,
      envs: [{ env: FAULTY, options: { throws: 1 } }],
      rollout: { retries: 0, maxFailed: 1 },
    });
    const { outcome, steps } = await follow(recipe);
    expect(outcome).toBeInstanceOf(EngineError);
    expect(String(outcome)).toContain("a fault was injected");
    expect(steps).toHaveLength(3);
    expect(steps[0]).toMatchObject({ "groups/too_small": 2, "groups/trained": 0, "episodes/env_errors": 8 });
  });
});

describe("Numbers that are not finite", { timeout: 300_000 }, () => {
  let broken = 0;
  registerLoss({
    name: "breaks",
    anchor: "learner",
    make: () => (sequences) => {
      const slope = broken-- > 0 ? Number.NaN : 0.01;
      return { loss: slope, gradients: sequences.map(({ datum }) => datum.weights.map((weight) => slope * weight)) };
    },
  });
  const recipe = (changes: Partial<RecipeInput> = {}) =>
    tinyRecipe(folder.model, { steps: 6, loss: { name: "breaks" }, checkpoint: { every: 1 }, ...changes });
  const areFinite = async (path: string) =>
    [...(await readSafetensors(join(path, "policy/model.safetensors"))).values()].every(({ data }) =>
      data.every(Number.isFinite),
    );

  test("are skipped and counted, and a run that recovers goes on", async () => {
    // The recipe is checked with a loss too, which is not called.
    broken = 2;
    const { outcome, steps, run, events } = await follow(recipe());
    expect(outcome).toMatchObject({ finished: true });
    expect(steps.map((metrics) => metrics["optimizer/skipped"])).toEqual([1, 1, 0, 0, 0, 0]);
    expect(steps.map((metrics) => metrics["optimizer/updates"])).toEqual([0, 0, 1, 1, 1, 1]);
    expect(events.some(({ kind, message }) => kind === "alarm" && message?.includes("finite"))).toBe(true);
    expect(await areFinite(join(run, "checkpoints/step-6"))).toBe(true);
  });

  test("stop a run that does not recover, which resumes from before them once it is mended", async () => {
    const run = newFolder();
    const stop = new AbortController();
    broken = 0;
    await train({ recipe: recipe(), folder: run, engine, signal: stop.signal, onStep: () => void stop.abort() });
    broken = Number.POSITIVE_INFINITY;
    const failed = await follow(recipe(), { folder: run });
    expect(failed.outcome).toBeInstanceOf(EngineError);
    expect(String(failed.outcome)).toMatch(/3 steps in a row.*not finite.*resume/);
    expect(failed.steps.map((metrics) => metrics["optimizer/skipped"])).toEqual([1, 1, 1]);
    expect(await areFinite(join(run, "checkpoints/step-1"))).toBe(true);
    broken = 0;
    const { outcome, steps } = await follow(recipe(), { folder: run, mode: "resume" });
    expect(outcome).toMatchObject({ finished: true, step: 6 });
    expect(steps).toHaveLength(5);
  });

  test("of a learning rate that explodes stop the run too, and leave it a checkpoint to resume from", async () => {
    const run = newFolder();
    const explosive = { name: "muon", learningRate: 1e25, adamLearningRate: 1e25 } as const;
    const warmStart = { episodes: 16, batch: 8, optimizer: { learningRate: 0.001 } };
    const changes = { loss: { name: "ppo", clipLow: 0.8, clipHigh: 1.2 }, warmStart, checkpoint: { every: 2 } };
    const failed = await follow(recipe({ ...changes, optimizer: explosive }), { folder: run });
    // Weights that are not finite can't be sampled from; they are not saved.
    expect(String(failed.outcome)).toMatch(/16 of 16 episodes of step \d failed/);
    expect(await areFinite(join(run, "checkpoints/step-2"))).toBe(true);
    const { outcome } = await follow(recipe(changes), { folder: run });
    expect(outcome).toMatchObject({ finished: true, step: 6 });
  });

  test("are not what an interrupted run goes back to", async () => {
    const run = newFolder();
    const stop = new AbortController();
    broken = 0;
    let steps = 0;
    const onStep = () => {
      steps += 1;
      if (steps === 1) broken = Number.POSITIVE_INFINITY;
      if (steps === 2) stop.abort();
      return undefined;
    };
    const interrupted = await follow(recipe(), { folder: run, signal: stop.signal, onStep });
    expect(interrupted.steps.map((metrics) => metrics["optimizer/skipped"])).toEqual([0, 1]);
    expect(readdirSync(join(run, "checkpoints")).filter((name) => name.startsWith("step-"))).toEqual(["step-1"]);
    broken = 0;
    const { outcome, steps: rest } = await follow(recipe(), { folder: run, mode: "resume" });
    expect(outcome).toMatchObject({ finished: true, step: 6 });
    expect(rest).toHaveLength(5);
  });

  test("in a warm start stop it, say which rate to lower, and are not saved", async () => {
    const warmStart = { episodes: 80, batch: 8, optimizer: { learningRate: 1e25 } };
    const { outcome, events, run } = await follow(recipe({ warmStart }));
    const saved = readdirSync(join(run, "checkpoints"));
    for (const { kind, step, metrics } of events)
      if (kind === "sft" && metrics["optimizer/skipped"] === 1) expect(saved).not.toContain(`step-${step}`);
    expect(String(outcome)).toContain("warmStart.optimizer.learningRate");
    const skipped = events.filter(({ kind }) => kind === "sft").map(({ metrics }) => metrics["optimizer/skipped"]);
    expect(skipped.slice(-3)).toEqual([1, 1, 1]);
    expect(skipped.length).toBeLessThan(10);
  });
});

describe("A run that is resumed with another recipe", { timeout: 300_000 }, () => {
  const optimizer = { learningRate: 0.001 };
  const begun = async (changes: Partial<RecipeInput> = {}) => {
    const stop = new AbortController();
    const recipe = tinyRecipe(folder.model, { steps: 3, ...changes });
    const onStep = () => void stop.abort();
    return (await follow(recipe, { signal: stop.signal, onStep })).run;
  };

  test("is not taught again what came before reinforcement learning", async () => {
    const warmStart = { episodes: 16, batch: 8, optimizer };
    const run = await begun({ warmStart });
    const faster = { warmStart: { ...warmStart, optimizer: { ...optimizer, learningRate: 0.5 } } };
    const again = tinyRecipe(folder.model, { steps: 3, ...faster });
    const { outcome, events, steps } = await follow(again, { folder: run, mode: "resume" });
    expect(outcome).toMatchObject({ finished: true, step: 3 });
    expect(steps).toHaveLength(2);
    expect(events.filter(({ kind }) => kind === "sft")).toEqual([]);
  });

  test.each<[string, Partial<RecipeInput>]>([
    ["warmStart", { warmStart: { episodes: 16, batch: 8, optimizer } }],
    ["critic", { critic: { optimizer }, advantage: { name: "gae" }, filters: [] }],
    ["kl", { kl: { as: "loss", coefficient: 0.01, estimator: "k3" } }],
  ])("that adds %s is told that a run can't change it", async (field, changes) => {
    const run = await begun();
    const { outcome } = await follow(tinyRecipe(folder.model, { steps: 3, ...changes }), {
      folder: run,
      mode: "resume",
    });
    expect(outcome).toBeInstanceOf(ConfigError);
    expect(String(outcome)).toContain(`another recipe: ${field === "critic" ? "advantage.name" : field} was`);
  });
});

describe("Before anything runs", () => {
  test.each<[string, Partial<RecipeInput>]>([
    ["a reference that is renewed for nothing", { referenceEvery: 2 }],
    ["a critic that no one asks", { critic: { optimizer: { learningRate: 0.1 } } }],
    ["an estimator without its critic", { advantage: { name: "gae" } }],
    ["siblings that can't be compared", { siblings: 1 }],
    ["a loss that is not there", { loss: { name: "guess" } }],
    ["a filter that is not there", { filters: [{ name: "guess" }] }],
    ["evaluation seeds the wrong way round", { evaluate: { seeds: [9, 3] } }],
    ["a schedule that only warms up", { schedule: { name: "cosine", warmupSteps: 4 } }],
  ])("%s is refused", (_, changes) => {
    expect(() => checkRecipe(tinyRecipe("x", changes))).toThrow(ConfigError);
  });
});
