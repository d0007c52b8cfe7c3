import { expect, test } from "vitest";
import type { Capabilities } from "../engine/engine.ts";
import { NativeEngine } from "../engine/native/engine.ts";
import { checkEngine } from "./check-engine.ts";
import type { RecipeInput } from "./recipe.ts";
import { tinyRecipe } from "./test-run.ts";

const all = new NativeEngine({ threads: 1 }).capabilities;
const optimizer = { name: "muon", learningRate: 0.01 } as const;

const asks: [string, Partial<RecipeInput>, Partial<Capabilities>, RegExp][] = [
  ["a critic", { advantage: { name: "gae" }, critic: { optimizer } }, { critic: false }, /no critic: leave critic out/],
  ["an adapter", { lora: { rank: 2, alpha: 4 } }, { lora: false }, /leave lora out/],
  ["all weights", {}, { fullTuning: false }, /adapters only: set lora/],
  [
    "a loss",
    { loss: { name: "gspo" } },
    { losses: ["cross-entropy", "ppo"] },
    /loss "gspo": choose one of cross-entropy, ppo/,
  ],
  ["demonstrations", { warmStart: { episodes: 8, optimizer } }, { losses: ["ppo"] }, /leave warmStart out/],
  [
    "KL in the loss",
    { kl: { coefficient: 0.1, as: "loss", estimator: "k3" } },
    { regularizers: [] },
    /set kl.as to "reward"/,
  ],
  ["an entropy bonus", { loss: { name: "ppo", entropy: 0.01 } }, { regularizers: ["kl"] }, /leave loss.entropy out/],
  [
    "a temperature",
    { sampling: { temperature: 0.7, maxTokens: 4 } },
    { temperature: false },
    /set sampling.temperature to 1/,
  ],
  ["an optimizer", { optimizer }, { optimizers: ["adamw"] }, /no optimizer "muon": set optimizer.name to one of adamw/],
  [
    "rates by part",
    { optimizer: { ...optimizer, rates: { vision: 0 } } },
    { groupRates: false },
    /one learning rate.*: leave optimizer.rates out/,
  ],
  ["clipping", {}, { gradientClipping: false }, /set optimizer.maxGradNorm to 0/],
  [
    "two phases",
    { warmStart: { episodes: 8, optimizer } },
    { freshOptimizer: false },
    /set steps to 0, or leave warmStart out/,
  ],
  [
    "a model of its own",
    { model: { preset: "nano" } },
    { start: "server" },
    /the server's model: name a folder.*--tokenizer/,
  ],
  ["old weights", { maxStaleness: 1 }, { weights: "inPlace" }, /set correction, or maxStaleness to 0/],
];

test.each(asks)(
  "a recipe that asks for %s is refused by an engine without it, and the error names the change",
  (_, recipe, lacks, message) => {
    const resolved = tinyRecipe("none", recipe);
    expect(() => checkEngine(resolved, all, "whole")).not.toThrow();
    expect(() => checkEngine(resolved, { ...all, ...lacks }, "partial")).toThrow(message);
  },
);
