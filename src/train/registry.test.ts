import { describe, expect, test } from "vitest";
import { maxrl } from "./advantages.ts";
import {
  checkEstimator,
  estimatorNames,
  filterNames,
  getEstimator,
  getFilter,
  getLoss,
  getMetric,
  lossNames,
  metricNames,
  mixtureNames,
  registerEstimator,
  registerFilter,
  registerLoss,
  registerMetric,
} from "./registry.ts";
import { joinedRows } from "./test-rows.ts";

describe("the registries", () => {
  test("know the built-in names", () => {
    expect(estimatorNames()).toEqual(["grpo", "rloo", "reinforce++", "gae", "turn-gae", "bi-level-gae", "maxrl"]);
    expect(lossNames()).toEqual(["sapo", "dppo", "rollout-is", "clip-cov", "kl-cov"]);
    expect(filterNames()).toEqual([
      "reward-variance",
      "reward-variance-top-p",
      "zero-variance",
      "over-long",
      "survivors",
    ]);
    expect(metricNames()).toEqual(["reward_variance"]);
    expect(mixtureNames()).toEqual(["fixed", "progress"]);
  });

  test("answer an unknown name with what there is", () => {
    expect(() => getEstimator("gpro")).toThrow(/"gpro".*grpo, rloo/);
    expect(() => getLoss("sap")).toThrow(/sapo, dppo/);
    expect(() => getFilter("top")).toThrow(/zero-variance/);
    expect(() => getMetric("x")).toThrow(/reward_variance/);
  });

  test("take what a user registers, once", () => {
    registerEstimator({ ...maxrl, name: "mine" });
    registerLoss({ name: "mine", anchor: "learner", make: () => () => ({ loss: 0, gradients: [] }) });
    registerFilter({ name: "mine", apply: (groups) => ({ keep: groups, dropped: { groups: 0, episodes: 0 } }) });
    registerMetric({ name: "mine", compute: (rows) => rows.length });
    expect(getEstimator("mine").name).toBe("mine");
    expect(getLoss("mine").make({}, 0)([])).toEqual({ loss: 0, gradients: [] });
    expect(getFilter("mine").apply([], {}).keep).toEqual([]);
    expect(getMetric("mine").compute([])).toBe(0);
    expect(() => registerEstimator({ ...maxrl, name: "mine" })).toThrow(/another name/);
  });

  test("reward_variance is the mean variance within groups", () => {
    const rows = joinedRows(
      [
        ["a", 0],
        ["a", 2],
        ["b", 1],
        ["b", 1],
      ].map(([group, reward], s) => ({
        group: group as string,
        episode: `${s}`,
        turns: [{ given: 0, tokens: [{ reward: reward as number, value: 0, sampler: 0, learner: 0, reference: 0 }] }],
      })),
    );
    expect(getMetric("reward_variance").compute(rows)).toBe(0.5);
  });
});

describe("an estimator that can't work in a recipe is refused at start", () => {
  const recipe = { turns: "split", critic: true, siblings: 8 } as const;
  test("for its layout, its critic or its groups", () => {
    for (const name of ["grpo", "gae"]) expect(() => checkEstimator(getEstimator(name), recipe)).not.toThrow();
    expect(() => checkEstimator({ ...maxrl, turns: ["joined"] }, recipe)).toThrow(/set turns to joined/);
    expect(() => checkEstimator(getEstimator("gae"), { ...recipe, critic: false })).toThrow(/critic/);
    expect(() => checkEstimator(getEstimator("rloo"), { ...recipe, siblings: 1 })).toThrow(/at least 2/);
  });
});
