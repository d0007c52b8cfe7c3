/** Rates, intervals, pass@k and the metrics of evaluations. */
import { describe, expect, test } from "vitest";
import { checkMetric } from "../run/metrics.ts";
import {
  distinctLabels,
  type EnvScores,
  evaluationMetrics,
  meanRate,
  passAtK,
  passTable,
  type SuccessRate,
  successByTurn,
  successRate,
  wilson,
} from "./scores.ts";

/** By counting every choice of k out of n. */
function counted(n: number, c: number, k: number): number {
  let hits = 0;
  let all = 0;
  for (let set = 0; set < 2 ** n; set++) {
    const chosen = Array.from({ length: n }, (_, i) => i).filter((i) => (set >> i) & 1);
    if (chosen.length !== k) continue;
    all += 1;
    hits += chosen.some((i) => i < c) ? 1 : 0;
  }
  return hits / all;
}

describe("pass@k", () => {
  test("is the share of choices of k tries that hold a success", () => {
    for (let n = 1; n <= 7; n++) {
      for (let c = 0; c <= n; c++) {
        for (let k = 1; k <= n; k++) expect(passAtK(n, c, k)).toBeCloseTo(counted(n, c, k), 12);
      }
    }
  });
});

describe("Several tries at a seed", () => {
  const tries = [1, 1, 0, 0].map((hit, i) => ({ seed: i < 2 ? 7 : 8, success: hit === 1 }));

  test("count as episodes for the share and as seeds for its interval", () => {
    const { value, count, total, low, high } = successRate(tries);
    expect({ value, count, total }).toEqual({ value: 0.5, count: 2, total: 4 });
    expect([low, high]).toEqual([wilson(1, 2).low, wilson(1, 2).high]);
  });

  test("have a pass@k for 1, 2, 4, … and all, over the seeds that were tried as often", () => {
    const more = [...tries, { seed: 8, success: true }];
    expect(passTable(more)).toEqual([
      { k: 1, value: expect.closeTo((1 + 1 / 3) / 2, 12), seeds: 2 },
      { k: 2, value: expect.closeTo((1 + 2 / 3) / 2, 12), seeds: 2 },
      { k: 3, value: 1, seeds: 1 },
    ]);
    expect(passTable([])).toEqual([]);
  });

  test("a try that failed for our reasons is no success and counts", () => {
    const tries = [
      { seed: 1, success: true },
      { seed: 1, success: false, failed: true },
      { seed: 2, success: false, failed: true },
      { seed: 2, success: false },
    ];
    expect(successRate(tries)).toMatchObject({ value: 0.25, count: 1, total: 4, failed: 2 });
    expect(passTable(tries)).toEqual([
      { k: 1, value: 0.25, seeds: 2 },
      { k: 2, value: 0.5, seeds: 2 },
    ]);
  });
});

const rate = (count: number, total: number, failed = 0): SuccessRate => ({ ...wilson(count, total), failed });

const env = (label: string, hits: number, more: Partial<EnvScores> = {}): EnvScores => ({
  label,
  success: rate(hits, 100),
  passAtK: [{ k: 1, value: hits / 100, seeds: 100 }],
  against: { stop: rate(0, 100), random: rate(10, 100), oracle: rate(90, 100) },
  reward: hits / 50,
  turns: 4,
  byTurn: {},
  unparsed: 0,
  ended: { done: 100 },
  ...more,
});

test("Success by turn counts only the episodes that came to the turn, and later turns together", () => {
  const tries = [
    ...Array.from({ length: 6 }, () => ({ success: true, turns: 1 })),
    ...Array.from({ length: 3 }, () => ({ success: true, turns: 2 })),
    { success: true, turns: 4 },
    { success: false, turns: 5 },
  ];
  expect(successByTurn(tries)).toEqual({ "1": 6 / 11, "2": 3 / 5, "3-4": 1 / 2, "5-8": 0 });
  expect(successByTurn([])).toEqual({});
  const metrics = evaluationMetrics([env("a", 50, { byTurn: successByTurn(tries) })]);
  expect(metrics["eval/success_by_turn/2"]).toBe(3 / 5);
  for (const name of Object.keys(metrics)) checkMetric(name);
});

describe("The metrics of an evaluation", () => {
  test("give a mixture the interval of a mean, which is narrower than the mean of intervals", () => {
    const metrics = evaluationMetrics([env("a", 50), env("b", 50), env("c", 50), env("d", 50)]);
    const { low, high } = wilson(50, 100);
    // Four alike: the half-width is that of one over the square root of four.
    expect(metrics["eval/success_low"]).toBeCloseTo(0.5 - (0.5 - low) / 2, 12);
    expect(metrics["eval/success_high"]).toBeCloseTo(0.5 + (high - 0.5) / 2, 12);
    expect(meanRate([wilson(50, 100)])).toEqual({ value: 0.5, low, high });
  });

  test("hold nothing that was not measured: no agent, no number, not 0 and not 1", () => {
    const bare = env("b", 20, { against: { stop: rate(0, 100) } });
    const metrics = evaluationMetrics([env("a", 40), bare]);
    expect(metrics).toMatchObject({ "eval/floor": 0, "eval/random/a": 0.1, "eval/ceiling/a": 0.9, "eval/seeds": 200 });
    for (const name of ["eval/random", "eval/ceiling", "eval/random/b", "eval/ceiling/b"]) {
      expect(metrics).not.toHaveProperty(name);
    }
  });

  test("count a failed episode against success, and in no mean of what was played", () => {
    const lost = env("b", 0, {
      success: rate(0, 100, 100),
      against: { stop: rate(0, 100, 60), random: rate(10, 100), oracle: rate(40, 100, 60) },
      reward: Number.NaN,
      turns: Number.NaN,
      unparsed: Number.NaN,
      ended: {},
    });
    const metrics = evaluationMetrics([env("a", 40, { success: rate(40, 100, 10) }), lost]);
    expect(metrics).toMatchObject({
      "eval/success": 0.2,
      "eval/turns": 4,
      "eval/asked": 200,
      "eval/episodes": 90,
      "eval/failed": 110,
      "eval/failed/b": 100,
      "eval/floor_failed": 60,
      "eval/ceiling_failed": 60,
      "eval/ceiling_failed/b": 60,
      "eval/seeds/b": 100,
      "eval/ceiling": 0.65,
    });
    expect(metrics).not.toHaveProperty("eval/ceiling_failed/a");
    expect(metrics).not.toHaveProperty("eval/random_failed");
    for (const name of Object.keys(metrics)) checkMetric(name);
  });

  test("say pass@k for tries that every environment had, and how episodes ended", () => {
    const table = (value: number) => [
      { k: 1, value: 0.4, seeds: 50 },
      { k: 2, value, seeds: 50 },
    ];
    const both = evaluationMetrics([
      env("a", 40, { passAtK: table(0.6), ended: { done: 50, max_turns: 50 } }),
      env("b", 40, { passAtK: table(0.8) }),
    ]);
    expect(both).toMatchObject({ "eval/pass_at/2": 0.7, "eval/end/done": 0.75, "eval/end/max_turns": 0.25 });
    expect(evaluationMetrics([env("a", 40, { passAtK: table(0.6) }), env("b", 40)])).not.toHaveProperty(
      "eval/pass_at/2",
    );
    for (const name of Object.keys(both)) checkMetric(name);
  });
});

test("entries that share a name are told apart", () => {
  expect(distinctLabels(["a", "b", "a", "a"])).toEqual(["a", "b", "a~2", "a~3"]);
});
