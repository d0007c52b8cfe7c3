/** A broken environment never trains to a good-looking table: its failures are counted, shown, and stop the run when there are too many. */
import { mkdtempSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type Engine, NativeEngine } from "../engine/index.ts";
import { loadEvents, type RunEvent } from "../run/events.ts";
import { readManifest } from "../run/manifest.ts";
import { readTrajectories } from "../run/trajectories.ts";
import type { RecipeInput } from "./recipe.ts";
import { broken, signalsEnv, type TestFolder, testFolder, tinyRecipe } from "./test-run.ts";
import { type TrainOptions, train } from "./train.ts";

let folder: TestFolder;
let engine: NativeEngine;
beforeAll(async () => {
  engine = new NativeEngine({ threads: 2 });
  folder = await testFolder();
}, 300_000);
afterAll(async () => {
  await engine.close();
  await folder.remove();
});

const EVALUATED = 1_000_000_000;
/** Any reply is an action here, so that every episode comes to its act(). */
const anyWord = {
  ...signalsEnv().options.protocol,
  parse: () => ({ actions: [{ name: "go", payload: "go" }], wellFormed: true, sections: {} }),
};
const envs = [{ env: "broken_signals", options: { ...signalsEnv().options, protocol: anyWord } }];

async function follow(changes: Partial<RecipeInput>, options: Partial<TrainOptions> = {}) {
  const recipe = tinyRecipe(folder.model, { envs, steps: 2, rollout: { retries: 0, stepTimeoutMs: 2000 }, ...changes });
  const run = options.folder ?? mkdtempSync(join(folder.root, "run-"));
  const events: RunEvent[] = [];
  const outcome = await train({
    recipe,
    engine,
    ...options,
    folder: run,
    onEvent: (event) => {
      events.push(event);
      options.onEvent?.(event);
    },
  }).catch((error: Error) => error);
  const of = (kind: RunEvent["kind"]) => events.filter((event) => event.kind === kind);
  return { run, outcome, events, of };
}

/** Seeds of an evaluation are never trained. */
const isEvaluated = (seed: number) => seed >= EVALUATED && seed < EVALUATED + 10;
const isTrained = (seed: number) => !isEvaluated(seed);

describe("Too many failed episodes of a step", () => {
  test.each([
    ["act", /in turn 1: the gears of act jam/, true],
    ["reset", /at reset: the gears of reset jam/, false],
    ["observe", /at reset: the gears of observe jam/, false],
    ["NaN", /broken_signals, seed \d+: act\(\w+\) must return `reward`, a finite number; got NaN/, true],
    ["Infinity", /broken_signals, seed \d+: act\(\w+\) must return `reward`, a finite number; got Infinity/, true],
    ["hang", /at reset: no answer within 2000 ms/, false],
  ])("stop the run with the first failure: %s", { timeout: 60_000 }, async (how, message, replied) => {
    Object.assign(broken, { how, seeds: isTrained });
    const { run, outcome, of } = await follow({});
    expect(String(outcome)).toMatch(
      /16 of 16 episodes of step 1 failed after retries; rollout\.maxFailed \(0\.2\) allows 3/,
    );
    expect(String(outcome)).toMatch(message);
    expect(of("train")).toEqual([]);
    const [failure, ...more] = of("failure");
    expect(more).toEqual([]);
    expect(failure?.message).toMatch(message);
    expect(failure?.message).toMatch(/environment broken_signals, seed \d+/);
    expect(typeof failure?.data?.reply).toBe(replied ? "string" : "undefined");
    if (how === "act") expect(failure?.data?.stack).toContain("test-run.ts");
    expect((await readManifest(run)).manifest).toMatchObject({ status: "failed" });
    // What failed can be looked at, and there is something to go on from.
    expect((await readTrajectories(run, 0)).every(({ end }) => end.startsWith("env_"))).toBe(true);
    expect(readdirSync(join(run, "checkpoints"))).toContain("step-0");
  });

  test("a mended environment goes on where the run stopped, and ends as one that never broke", {
    timeout: 60_000,
  }, async () => {
    Object.assign(broken, { how: "act", seeds: () => false });
    const straight = await follow({ steps: 3 });
    expect(straight.outcome).toMatchObject({ finished: true });
    let resets = 0;
    // The first step goes well, the second breaks.
    Object.assign(broken, { seeds: (seed: number) => isTrained(seed) && ++resets > 16 });
    const stopped = await follow({ steps: 3 });
    expect(String(stopped.outcome)).toContain("episodes of step 2 failed");
    Object.assign(broken, { seeds: () => false });
    const resumed = await follow({ steps: 3 }, { folder: stopped.run, mode: "resume" });
    expect(resumed.outcome).toMatchObject({ finished: true, step: 3 });
    expect(resumed.of("failure")).toEqual([]);
    const figures = async (run: string) =>
      (await loadEvents(run)).events
        .filter(({ kind }) => kind === "train" || kind === "eval")
        .map(({ step, metrics }) => [step, metrics["train/reward"], metrics["policy/loss"], metrics["eval/success"]]);
    expect(await figures(stopped.run)).toEqual(await figures(straight.run));
  });

  test("exactly the share that is allowed trains on what was played, and counts the rest", {
    timeout: 60_000,
  }, async () => {
    let resets = 0;
    // 4 of the 16 episodes of a step.
    Object.assign(broken, { how: "act", seeds: (seed: number) => isTrained(seed) && ++resets % 4 === 0 });
    const { outcome, of } = await follow({ rollout: { retries: 0, maxFailed: 0.25, live: 1 } });
    expect(outcome).toMatchObject({ finished: true });
    for (const { metrics } of of("train")) {
      expect(metrics).toMatchObject({ "train/asked": 16, "train/episodes": 12, "train/failed": 4 });
    }
    expect(of("failure")).toHaveLength(1);
  });

  test("what succeeds when it is played again has not failed", { timeout: 60_000 }, async () => {
    let resets = 0;
    Object.assign(broken, { how: "act", seeds: () => ++resets % 2 === 1 });
    const { outcome, of } = await follow({ steps: 1, rollout: { retries: 1, live: 1, maxFailed: 0 } });
    expect(outcome).toMatchObject({ finished: true });
    expect(of("train")[0]?.metrics).toMatchObject({ "train/failed": 0, "episodes/retries": 16 });
    expect(of("failure")).toEqual([]);
  });
});

describe("An evaluation", () => {
  const evaluate = { every: 1, before: false, greedy: false, seeds: [EVALUATED, EVALUATED + 9] as [number, number] };
  const lastOf = (count: number) => (seed: number) => isEvaluated(seed) && seed >= EVALUATED + 10 - count;

  test("counts a failed episode against success and says how many were asked for, played and failed", {
    timeout: 60_000,
  }, async () => {
    Object.assign(broken, { how: "act", seeds: lastOf(2) });
    const { outcome, of } = await follow({ steps: 1, evaluate, rollout: { retries: 0 } });
    expect(outcome).toMatchObject({ finished: true });
    const { metrics } = of("eval")[0] as RunEvent;
    expect(metrics).toMatchObject({ "eval/asked": 10, "eval/episodes": 8, "eval/failed": 2, "eval/ceiling_failed": 2 });
    // The oracle says "go" here, which is right for its seeds' share; no episode that failed is in it.
    const right = Math.round((metrics["eval/success"] ?? Number.NaN) * 10);
    expect(metrics["eval/success"]).toBe(right / 10);
    expect(right).toBeLessThanOrEqual(8);
    expect(of("failure")[0]?.data).toMatchObject({ seed: EVALUATED + 8, end: "env_error" });
  });

  test("with too many failures stops the run, and is made up when the run goes on", { timeout: 60_000 }, async () => {
    Object.assign(broken, { how: "act", seeds: lastOf(3) });
    const stopped = await follow({ steps: 2, evaluate });
    expect(String(stopped.outcome)).toMatch(/3 of 10 episodes of the evaluation at step 1 failed/);
    expect(stopped.of("train")).toHaveLength(1);
    expect(readdirSync(join(stopped.run, "checkpoints"))).toContain("step-1");
    expect(readdirSync(join(stopped.run, "checkpoints"))).not.toContain("best.json");
    Object.assign(broken, { seeds: () => false });
    const resumed = await follow({ steps: 2, evaluate }, { folder: stopped.run });
    expect(resumed.outcome).toMatchObject({ finished: true });
    expect(resumed.of("train").map(({ step }) => step)).toEqual([2]);
    expect(resumed.of("eval").map(({ step, metrics }) => [step, metrics["eval/failed"]])).toEqual([
      [1, 0],
      [2, 0],
    ]);
    // Once made up, it is not played again.
    const again = await follow({ steps: 2, evaluate }, { folder: stopped.run });
    expect(again.of("eval")).toEqual([]);
  });

  test("of the last step is made up, too: a run does not end without it", { timeout: 60_000 }, async () => {
    Object.assign(broken, { how: "reset", seeds: lastOf(10) });
    const stopped = await follow({ steps: 1, evaluate });
    expect(String(stopped.outcome)).toMatch(/10 of 10 episodes of the evaluation at step 1 failed/);
    Object.assign(broken, { seeds: () => false });
    const resumed = await follow({ steps: 1, evaluate }, { folder: stopped.run });
    expect(resumed.outcome).toMatchObject({ finished: true });
    expect(resumed.of("eval")).toHaveLength(1);
    const again = await follow({ steps: 1, evaluate }, { folder: stopped.run });
    expect(again.of("eval")).toEqual([]);
  });
});

describe("A prompt that does not fit the context", () => {
  test("stops the run and names contextTokens, the tokens of the prompt and the limit", {
    timeout: 60_000,
  }, async () => {
    Object.assign(broken, { seeds: () => false });
    const { outcome, of } = await follow({ sampling: { maxTokens: 4, contextTokens: 16 } });
    expect(String(outcome)).toMatch(/16 of 16 episodes of step 1 failed/);
    expect(String(outcome)).toMatch(
      /The first prompt has \d+ tokens, and the context has 16 \(sampling\.contextTokens\)/,
    );
    expect(of("train")).toEqual([]);
  });

  test("says so when the model or its server takes less than the recipe asks for", { timeout: 60_000 }, async () => {
    const served = lowered(engine, 17);
    const { outcome, of } = await follow({ sampling: { maxTokens: 4, contextTokens: 256 } }, { engine: served });
    expect(of("note").map(({ message }) => message)).toContainEqual(
      expect.stringMatching(/sampling\.contextTokens is 256, and native takes at most 17 .*max_model_len/),
    );
    expect(String(outcome)).toMatch(
      /the context has 17 \(the limit of the engine's model or its server's max_model_len, below sampling\.contextTokens, 256\)/,
    );
  });
});

/** An engine whose server takes fewer tokens than the model could. */
function lowered(inner: NativeEngine, maxPositions: number): Engine {
  return new Proxy<Engine>(inner, {
    get(target, name) {
      if (name === "chat") return async (path: string) => ({ ...(await target.chat(path)), maxPositions });
      const value: unknown = Reflect.get(target, name, target);
      return typeof value === "function" ? value.bind(target) : value;
    },
  });
}

describe("The best checkpoint", () => {
  test("of another evaluation is no rival of the new one, of the same it is", { timeout: 60_000 }, async () => {
    Object.assign(broken, { seeds: () => false });
    const evaluate = { every: 1, before: false, greedy: false, seeds: [EVALUATED, EVALUATED + 9] as [number, number] };
    const stop = new AbortController();
    const recipe = { steps: 4, checkpoint: { every: 1 }, evaluate };
    // Stopped before, the evaluation would be left to the next process.
    const whenMeasured = (stop: AbortController) => (event: RunEvent) => void (event.kind === "eval" && stop.abort());
    const started = await follow(recipe, { signal: stop.signal, onEvent: whenMeasured(stop) });
    expect(started.outcome).toMatchObject({ finished: false, step: 1 });
    const file = join(started.run, "checkpoints", "best.json");
    const best = () => JSON.parse(readFileSync(file, "utf8")) as { step: number; score: number };
    writeFileSync(file, JSON.stringify({ ...best(), score: 2 }));
    const next = async (changes: Partial<RecipeInput>) => {
      const again = new AbortController();
      return follow(changes, {
        folder: started.run,
        mode: "resume",
        signal: again.signal,
        onEvent: whenMeasured(again),
      });
    };
    await next(recipe);
    expect(best()).toMatchObject({ step: 1, score: 2 });
    const changed = await next({ ...recipe, evaluate: { ...evaluate, temperature: 0.5 } });
    expect(best().step).toBe(3);
    expect(best().score).toBeLessThanOrEqual(1);
    expect(changed.of("note").map(({ message }) => message)).toContainEqual(
      expect.stringContaining("is of another evaluation"),
    );
  });
});
