/** What resolving a recipe fills in and refuses: the manifest then holds every constant that the run uses. */
import { describe, expect, test } from "vitest";
import { z } from "zod";
import { ConfigError } from "../core/errors.ts";
import { checkRecipe } from "./check-recipe.ts";
import { type RecipeInput, resolveRecipe } from "./recipe.ts";
import { registerEstimator, registerFilter, registerLoss } from "./registry.ts";

const base: RecipeInput = {
  name: "r",
  model: "none",
  envs: [{ env: "frozen_lake" }],
  steps: 1,
  optimizer: { learningRate: 0.1 },
};
const resolve = (changes: Partial<RecipeInput> = {}, overrides: Record<string, unknown> = {}) => {
  const recipe = resolveRecipe({ ...base, ...changes }, overrides);
  checkRecipe(recipe);
  return recipe;
};
const silent = () => ({ loss: 0, gradients: [] });
registerLoss({
  name: "mine",
  anchor: "learner",
  // Not strict of itself: a recipe is strict all the same.
  schema: z.object({ power: z.number().default(2) }),
  make: ({ power }) => (power > 0 ? silent : silent),
});
registerLoss({ name: "plain", anchor: "learner", make: () => silent });
registerFilter({
  name: "lucky",
  schema: z.strictObject({ least: z.number().default(0.5) }),
  apply: (groups, { least }) => ({
    keep: groups.filter(({ episodes }) => episodes.some(({ reward }) => reward >= least)),
    dropped: { groups: 0, episodes: 0 },
  }),
});

describe("The loss of a recipe", () => {
  const ppo = { loss: { name: "ppo", clipLow: 0.8, clipHigh: 1.2, dualClip: 3 } };

  test.each<[string, Partial<RecipeInput>, Record<string, unknown>, unknown]>([
    ["nothing", {}, {}, { name: "ppo", clipLow: 0.8, clipHigh: 1.28 }],
    ["its name", { loss: { name: "ppo" } }, {}, { name: "ppo", clipLow: 0.8, clipHigh: 1.28 }],
    ["--set loss.clipHigh", {}, { loss: { clipHigh: 1.4 } }, { name: "ppo", clipLow: 0.8, clipHigh: 1.4 }],
    ["--set loss.name=gspo", ppo, { loss: { name: "gspo" } }, { name: "gspo", clipLow: 0.9997, clipHigh: 1.0004 }],
    ["--set loss.name=cispo", ppo, { loss: { name: "cispo" } }, { name: "cispo", clipLow: 0, clipHigh: 5 }],
    ["--set loss.name=dro", ppo, { loss: { name: "dro" } }, { name: "dro", beta: 0.05 }],
    ["importance-sampling", { loss: { name: "importance-sampling" } }, {}, { name: "importance-sampling" }],
    ["sapo", { loss: { name: "sapo", positive: 2 } }, {}, { name: "sapo", positive: 2, negative: 1.05 }],
    ["one of the user's own", { loss: { name: "mine" } }, {}, { name: "mine", power: 2 }],
  ])("has all its constants after %s", (_, changes, overrides, wanted) => {
    expect(resolve(changes, overrides).loss).toEqual(wanted);
  });

  test.each<[Record<string, unknown>, RegExp]>([
    [{ name: "ppo", dualclip: 3 }, /Loss "ppo".*"dualclip".*dualClip/],
    [{ name: "ppo", clipLow: 0.2, clipHigh: 0.2 }, /clipHigh.*enclose 1/],
    [{ name: "gspo", beta: 1 }, /Loss "gspo".*"beta"/],
    [{ name: "cispo", clipHigh: "4" }, /clipHigh/],
    [{ name: "dro", beta: -1 }, /beta/],
    [{ name: "importance-sampling", clipLow: 0.8 }, /"clipLow"/],
    // The recipe has a field of its own for it.
    [{ name: "ppo", kl: { coefficient: 1, estimator: "k3" } }, /"kl"/],
    [{ name: "dppo", entropy: 0.1 }, /Loss "dppo".*"entropy"/],
    [{ name: "mine", powr: 3 }, /Loss "mine".*"powr".*power/],
    [{ name: "plain", power: 3 }, /Loss "plain".*"power".*no options/],
    [{ name: "guess" }, /no loss "guess"\. There are .*ppo.*sapo.*mine/],
    // Engines know these, and no policy learns by them.
    [{ name: "value" }, /no loss "value"/],
    [{ name: "custom" }, /no loss "custom"/],
  ])("%j is refused by name", (loss, message) => {
    expect(() => resolve({}, { loss })).toThrow(ConfigError);
    expect(() => resolve({}, { loss })).toThrow(message);
  });

  test("that was changed after resolving is checked again", () => {
    expect(() => checkRecipe({ ...resolve(), loss: { name: "gspo" } })).toThrow(/clipLow is missing/);
    expect(() => checkRecipe({ ...resolve(), loss: { name: "sapo", tau: 1 } })).toThrow(/"tau"/);
  });

  test("of the user's own may not take the name of an engine's", () => {
    expect(() => registerLoss({ name: "gspo", anchor: "learner", make: () => silent })).toThrow(/another name/);
  });
});

describe("The filters of a recipe", () => {
  test("have all their options", () => {
    const filters = [{ name: "over-long", turns: "drop" }, { name: "zero-variance" }, { name: "lucky" }];
    expect(resolve({ filters }).filters).toEqual([
      { name: "over-long", replies: "mask", which: "any", turns: "drop", context: "keep" },
      { name: "zero-variance", tolerance: 1e-6 },
      { name: "lucky", least: 0.5 },
    ]);
  });

  test.each<[Record<string, unknown> & { name: string }, RegExp]>([
    [{ name: "over-long", mode: "mask" }, /Filter "over-long".*"mode".*replies/],
    [{ name: "over-long", replies: "hide" }, /replies/],
    [{ name: "zero-variance", tolerence: 1 }, /"tolerence"/],
    [{ name: "reward-variance", share: 2 }, /share/],
    [{ name: "lucky", most: 1 }, /Filter "lucky".*"most".*least/],
    [{ name: "guess" }, /no filter "guess"/],
  ])("%j is refused by name", (filter, message) => {
    expect(() => resolve({ filters: [filter] })).toThrow(ConfigError);
    expect(() => resolve({ filters: [filter] })).toThrow(message);
  });

  test.each([
    ["grpo", true],
    ["rloo", true],
    ["maxrl", true],
    ["reinforce++", false],
    ["gae", false],
    ["turn-gae", false],
    ["bi-level-gae", false],
    ["alone", false],
  ])("are by default what %s needs", (name, compares) => {
    const critic = name.endsWith("gae") ? { critic: { optimizer: { learningRate: 0.1 } } } : {};
    const { filters } = resolve({ advantage: { name }, ...critic });
    expect(filters.map((filter) => filter.name)).toEqual(compares ? ["zero-variance"] : []);
    expect(resolve({ advantage: { name }, ...critic, filters: [] }).filters).toEqual([]);
  });
  registerEstimator({
    name: "alone",
    needsCritic: false,
    needsGroups: false,
    turns: ["joined"],
    compute: () => ({ advantages: [] }),
  });
});

describe("KL", () => {
  test("as a loss has no k1, whose expected gradient is 0, and adapts no coefficient", () => {
    const kl = { as: "loss", coefficient: 0.1 } as const;
    expect(() => resolve({ kl: { ...kl, estimator: "k1" } })).toThrow(/kl.estimator.*k2 or k3/);
    expect(() => resolve({ kl: { ...kl, target: 0.1 } })).toThrow(/kl.target.*"reward"/);
    expect(resolve({ kl: { ...kl, estimator: "k2" } }).kl).toMatchObject({ estimator: "k2" });
    const reward = { as: "reward", coefficient: 0.1, estimator: "k1", target: 0.1 } as const;
    expect(resolve({ kl: reward }).kl).toMatchObject(reward);
  });

  test("may renew its reference under LoRA too, and without KL there is none to renew", () => {
    const kl = { as: "loss", coefficient: 0.1 } as const;
    const lora = { rank: 4, alpha: 8 };
    expect(resolve({ kl, lora, referenceEvery: 2 }).referenceEvery).toBe(2);
    expect(() => resolve({ lora, referenceEvery: 2 })).toThrow(/set kl/);
  });

  test("as reward can make a group's mean negative, which maxrl divides by", () => {
    const kl = { as: "reward", coefficient: 0.1 } as const;
    expect(() => resolve({ kl, advantage: { name: "maxrl" } })).toThrow(/maxrl.*"loss".*grpo/);
    expect(() => resolve({ kl: { ...kl, as: "loss" }, advantage: { name: "maxrl" } })).not.toThrow();
  });
});

test("an override of null leaves a part of the recipe out, and what has a default gets it", () => {
  const whole = { ...base, warmStart: { episodes: 4, optimizer: { learningRate: 0.1 } }, siblings: 3 };
  const recipe = resolveRecipe(whole, { warmStart: null, siblings: null });
  expect(recipe.warmStart).toBeUndefined();
  expect(recipe.siblings).toBe(8);
  expect(() => resolveRecipe(whole, { steps: null })).toThrow(/steps/);
});
