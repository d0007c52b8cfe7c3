/** How the weights of the sources change: towards what learns, and the same in a run that was stopped. */
import { mkdtempSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { ConfigError } from "../core/errors.ts";
import { NativeEngine } from "../engine/index.ts";
import { loadEvents, type RunEvent } from "../run/events.ts";
import { checkRecipe } from "./check-recipe.ts";
import { type BlockResults, SourceWeights } from "./mixture.ts";
import { type Recipe, resolveRecipe } from "./recipe.ts";
import { getMixture, registerMixture } from "./registry.ts";
import { signalsEnv, type TestFolder, testFolder, tinyRecipe, weightsUnder } from "./test-run.ts";
import { train } from "./train.ts";

describe("the mixture progress", () => {
  const weigh = (history: readonly BlockResults[], recipe = [1, 1, 2], options: object = {}) =>
    getMixture("progress").weights(history, recipe, { floor: 0.3, memory: 8, ...options });
  const moving = [0, 0.2, 0.4, 0.6].map((second) => [0, second, 1]);

  test("plays a source that learns more often, and keeps a share of what the recipe says", () => {
    const weights = weigh(moving);
    // All that is free goes to the only source that moved.
    expect(weights.map((weight) => Number(weight.toFixed(12)))).toEqual([0.3, 3.1, 0.6]);
    expect(weigh(moving, [1, 1, 2], { floor: 1 })).toEqual([1, 1, 2]);
  });

  test("counts forgetting like learning, and takes what was hardly played for what learns most", () => {
    const [one, two] = weigh(
      moving.map(([, second]) => [second, 1 - (second as number)]),
      [1, 1],
    ) as [number, number];
    expect(one).toBeCloseTo(two, 12);
    const [, known, unknown] = weigh(
      moving.map(([first, second]) => [first, second, undefined]),
      [1, 1, 1],
    );
    expect(unknown).toBe(known);
  });

  test("is the recipe's where nothing is known or nothing moves", () => {
    expect(weigh([])).toEqual([1, 1, 2]);
    expect(
      weigh([
        [0, 1, 0.5],
        [0, 1, 0.5],
      ]),
    ).toEqual([1, 1, 2]);
  });
});

describe("source weights", () => {
  const made = (weights: (history: readonly BlockResults[]) => readonly number[]) =>
    new SourceWeights({
      phase: "reinforce",
      mixture: { name: "odd", weights },
      options: {},
      recipe: [1, 3],
      labels: [new Set(["a"]), new Set(["b", "c"])],
      state: null,
    });

  test("hold from the episode on that they were decided for, and what was decided stays", () => {
    const weights = made((history) => [1, history.length]);
    expect(weights.at(7)).toEqual([1, 3]);
    weights.add("b", 1, 2);
    weights.add("c", 3, 2);
    weights.close();
    weights.decide(10, 1);
    weights.close();
    weights.decide(10, 2);
    expect([weights.at(9), weights.at(10), weights.at(99)]).toEqual([
      [1, 3],
      [1, 1],
      [1, 1],
    ]);
    expect(weights.metrics()).toEqual({ "mixture/a": 0.5, "mixture/source 2": 0.5 });
  });

  test("see the mean of each source in each block", () => {
    let seen: readonly BlockResults[] = [];
    const weights = made((history) => {
      seen = history;
      return [1, 1];
    });
    weights.add("b", 1, 2);
    weights.add("c", 3, 2);
    weights.close();
    weights.add("a", 1, 4);
    // An update that broke.
    weights.add("a", Number.NaN, 4);
    weights.close();
    weights.decide(1, 2);
    expect(seen).toEqual([
      [undefined, 1],
      [0.25, undefined],
    ]);
  });

  test.each([[[1]], [[1, Number.NaN]], [[1, -1]], [[0, 0]]])(
    "a mixture that returns %j is refused by its name",
    (wrong) => {
      const weights = made(() => wrong);
      expect(() => weights.decide(0, 0)).toThrow(ConfigError);
      expect(() => weights.decide(0, 0)).toThrow(/"odd" returned .*return 2 numbers/);
    },
  );
});

test("a recipe with a mixture that there is none of, or whose blocks are too short for its threads, is refused with what to do", () => {
  const recipe = (mixture: Record<string, unknown>) => tinyRecipe("nowhere", { mixture });
  expect(() => recipe({ name: "progres" })).toThrow(/no mixture "progres".*progress/);
  expect(() => recipe({ name: "progress", flor: 1 })).toThrow(/flor.*floor/);
  const hasty = { ...recipe({ name: "progress", every: 4 }), warmStart: { threads: 2 } } as unknown as Recipe;
  expect(() => checkRecipe(hasty)).toThrow("mixture.every (4) must be at least 5");
  expect(resolveRecipe(recipe({ name: "progress" })).mixture).toEqual({
    name: "progress",
    every: 50,
    floor: 0.3,
    memory: 8,
  });
});

describe("a run whose mixture changes", () => {
  let folder: TestFolder;
  let engine: NativeEngine;
  beforeAll(async () => {
    engine = new NativeEngine({ threads: 2 });
    folder = await testFolder();
    // Moves with every digit of what was measured.
    registerMixture({
      name: "restless",
      weights: (history, recipe) =>
        recipe.map((weight, i) => weight * (1 + history.length * i + 30 * Math.abs(history.at(-1)?.[i] ?? 0))),
    });
  });
  afterAll(async () => {
    await engine.close();
    await folder.remove();
  });

  test("draws the same episodes when it is stopped in the warm start and after it, and when it is finished and then made longer; its best says how each environment did", async () => {
    const recipe = tinyRecipe(folder.model, {
      envs: [signalsEnv(1), signalsEnv(1, { words: 2 })],
      mixture: { name: "restless", every: 4 },
      warmStart: { episodes: 160, noise: 0.5, batch: 8, optimizer: { name: "muon", learningRate: 0.02 } },
      steps: 6,
      checkpoint: { every: 1 },
    });
    const run = async (path: string, until?: (event: RunEvent) => boolean, steps = recipe.steps) => {
      const stop = new AbortController();
      const onEvent = (event: RunEvent) => {
        if (until?.(event)) stop.abort();
      };
      await train({ recipe: { ...recipe, steps }, folder: path, engine, signal: stop.signal, onEvent });
    };
    const newRun = () => mkdtempSync(join(folder.root, "run-"));
    const [straight, stopped, longer] = [newRun(), newRun(), newRun()];
    await run(straight);
    await run(stopped, ({ kind, step }) => kind === "sft" && step === 6);
    await run(stopped, ({ kind, step }) => kind === "train" && step === 23);
    await run(stopped);
    await run(longer, undefined, 3);
    await run(longer);
    const shares = async (path: string) =>
      (await loadEvents(path)).events.flatMap(({ kind, step, metrics }) =>
        kind === "sft" || kind === "train" ? [[step, metrics["mixture/signals~2"]]] : [],
      );
    const changing = await shares(straight);
    expect(changing).toHaveLength(26);
    expect(new Set(changing.map(([, share]) => share)).size).toBeGreaterThan(6);
    expect(await shares(stopped)).toEqual(changing);
    // Where it ended first, nothing was decided for another step.
    const later = ([step]: (typeof changing)[number]) => (step as number) > 23;
    expect((await shares(longer)).filter(later)).toEqual(changing.filter(later));
    // The best checkpoint says how each environment did, and so does the card.
    const last = (await loadEvents(straight)).events.findLast(({ kind }) => kind === "eval")?.metrics ?? {};
    const best = JSON.parse(readFileSync(join(straight, "checkpoints/best.json"), "utf8"));
    expect(best.environments).toEqual({
      signals: last["eval/success/signals"],
      "signals~2": last["eval/success/signals~2"],
    });
    expect(readFileSync(join(straight, "checkpoints/step-26/policy/README.md"), "utf8")).toMatch(
      /^\| `signals~2`, sampled \|/m,
    );
    expect(weightsUnder(join(stopped, "checkpoints/step-26"))).toEqual(
      weightsUnder(join(straight, "checkpoints/step-26")),
    );
  });

  test("logs no shares while its warm start learns from files, which draws nothing, and does afterwards", async () => {
    const file = join(folder.root, "demos.jsonl");
    const messages = [
      { role: "user", content: "Which word?" },
      { role: "assistant", content: "this" },
    ];
    writeFileSync(file, `${JSON.stringify({ messages })}\n`.repeat(4));
    const recipe = tinyRecipe(folder.model, {
      envs: [signalsEnv(1), signalsEnv(1, { words: 2 })],
      mixture: { name: "progress", every: 4 },
      warmStart: { files: [file], batch: 2, optimizer: { learningRate: 0.001 } },
      steps: 1,
    });
    const path = join(folder.root, "filed");
    await train({ recipe, folder: path, engine });
    const { events } = await loadEvents(path);
    const shared = (of: string) =>
      events.flatMap(({ kind, metrics }) =>
        kind === of ? [Object.keys(metrics).some((name) => name.startsWith("mixture/"))] : [],
      );
    expect([shared("sft"), shared("train")]).toEqual([[false, false], [true]]);
  });
});
