import { describe, expect, test } from "vitest";
import type { Series } from "../src/viewer/api.ts";
import { thinOut } from "../src/viewer/query.ts";
import { csvOf } from "./download.ts";
import { type ChartPlan, meanOf, SECTIONS, seriesFor, smooth } from "./series.ts";
import { sharesOf } from "./shares.ts";

describe("shares of a timeline", () => {
  test("lanes that work at once share the moment, and all of it is told", () => {
    const span = (lane: string, start: number, ms: number) => ({ lane, start, ms });
    const steps = [
      // Two samplers and the environment at once, then nothing, then the learner.
      {
        start: 0,
        ms: 100,
        spans: [span("sample", 0, 60), span("sample", 0, 60), span("env", 30, 30), span("learn", 80, 20)],
      },
    ];
    const { rows, idle, total } = sharesOf(steps);
    expect(Object.fromEntries(rows.map(({ lane, ms }) => [lane, ms]))).toEqual({ sample: 45, learn: 20, env: 15 });
    expect(rows.find(({ lane }) => lane === "sample")?.busy).toBe(60);
    expect([idle, total]).toEqual([20, 100]);
  });
});

describe("the mean of several runs", () => {
  test("has Student's interval, between points in proportion, where all have come", () => {
    const { x, mean, low, high } = meanOf([
      { x: [0, 2, 4], y: [0, 2, 4] },
      { x: [0, 4], y: [2, 6] },
      { x: [0, 2, 4, 6], y: [4, null, 8, 9] },
    ]);
    expect(x).toEqual([0, 2, 4]);
    expect(mean).toEqual([2, 4, 6]);
    // Standard deviation 2, three runs: 4.303 · 2 / √3.
    expect((high[1] as number) - (mean[1] as number)).toBeCloseTo((4.303 * 2) / Math.sqrt(3), 9);
    expect(low[0]).toBeCloseTo(2 - (4.303 * 2) / Math.sqrt(3), 9);
  });
});

describe("a curve that is thinned out", () => {
  const values = Array.from({ length: 1001 }, (_, i) => (i === 500 ? 99 : i % 2));
  const series: Series = {
    name: "x",
    info: { name: "x", group: "learning", unit: "number", meaning: "" },
    steps: values.map((_, i) => i),
    times: values.map((_, i) => i),
    values,
    total: values.length,
  };
  test("has the mean of each stretch, keeps its extremes beside it, and ends where it ended", () => {
    const thin = thinOut(series, 101);
    expect(thin.values).toHaveLength(101);
    expect(thin.steps[0]).toBe(0);
    expect(thin.values[1]).toBeCloseTo(0.5, 0);
    expect(Math.max(...(thin.high as number[]))).toBe(99);
    expect(Math.min(...(thin.low as number[]))).toBe(0);
    expect([thin.steps.at(-1), thin.values.at(-1), thin.total]).toEqual([1000, 0, 1001]);
  });
  test("shows a value that is not finite as a gap", () => {
    const broken = { ...series, values: values.map((value, i) => (i === 42 ? null : value)) };
    expect(thinOut(broken, 101).values.filter((value) => value === null)).toHaveLength(1);
  });
});

test("parts are drawn beside their whole where there are several", () => {
  const drawn = (title: string, ...logged: string[]) => {
    const plan = SECTIONS.flatMap(({ charts }) => charts).find((one) => one.title === title) as ChartPlan;
    const all = new Map(logged.map((name) => [name, { name } as Series]));
    return seriesFor(plan, all).map(({ name }) => name);
  };
  expect(drawn("Reward and its parts", "train/reward", "reward/task")).toEqual(["train/reward"]);
  const parts = ["train/reward", "reward/task", "reward/format"];
  expect(drawn("Reward and its parts", ...parts)).toEqual(parts);
  expect(drawn("By environment", "eval/success/maze")).toEqual([]);
  expect(drawn("By environment", "eval/success/maze", "eval/success/lake")).toHaveLength(2);
  // One distance is all there is to say about the distance.
  const title = "Probability of the taught move, by distance";
  expect(drawn(title, "decisions/probability_by_distance/1")).toHaveLength(1);
});

test("smoothing starts unbiased", () => {
  expect(smooth([3, 3, 3], 0.9)).toEqual([3, 3, 3].map((value) => expect.closeTo(value, 9)));
});

test("names in a CSV can start no formula and break no line", () => {
  const line = { label: '=HYPERLINK("x"),y', x: [1], y: [2], colour: 1 };
  expect(csvOf((x) => `step ${x}`, [line], [[1], [2]])).toBe('step,"\'=HYPERLINK(""x""),y"\n1,2\n');
});
