/**
 * A recipe: everything that decides a training run, as one plain object with defaults. A recipe is a TypeScript file whose default
 * export is `defineRecipe({…})`; `--set key=value` changes a field. It is checked here, once, before anything runs, and stored whole in the
 * run's manifest.
 */
import { z } from "zod";
import { ConfigError } from "../core/errors.ts";
import type { JsonObject } from "../core/json.ts";
import { mergeSettings } from "../core/settings.ts";
import { engineConfig } from "../engine/registry.ts";
import { LABELS } from "../envs/demos.ts";
import { PRESET_NAMES } from "../model/presets.ts";
import { modelShape } from "../model/shape.ts";
import { JUDGE_TIMEOUT_MS, type Judge } from "../rollout/judge.ts";
import { recipeProblems } from "./recipe-errors.ts";
import { getEstimator, type Named, resolveFilter, resolveLoss } from "./registry.ts";

const rates = z.strictObject({
  vision: z.number().optional(),
  merger: z.number().optional(),
  language: z.number().optional(),
  embedding: z.number().optional(),
  head: z.number().optional(),
  lora: z.number().optional(),
});

const optimizer = z.strictObject({
  name: z.enum(["adamw", "muon"]).default("adamw"),
  learningRate: z.number().positive(),
  /** Muon: rate of what is no hidden matrix. */
  adamLearningRate: z.number().positive().optional(),
  rates: rates.optional(),
  beta1: z.number().min(0).max(1).default(0.9),
  beta2: z.number().min(0).max(1).default(0.95),
  weightDecay: z.number().min(0).default(0),
  /** 0: no clipping. */
  maxGradNorm: z.number().min(0).default(1),
});

const schedule = z.strictObject({
  name: z.enum(["constant", "linear", "cosine"]).default("constant"),
  warmupSteps: z.int().min(0).default(0),
  /** Share of the rate that is left at the end. */
  floor: z.number().min(0).max(1).default(0),
});

const weight = z.number().positive().default(1);
const envOptions = z.record(z.string(), z.unknown()).default({});
/** As `Source` of envs: an environment on seeds that the run draws, or rows of a file. */
const source = z.union([
  z.strictObject({ env: z.string(), options: envOptions, weight }),
  z.strictObject({ tickets: z.string(), weight }),
  z.strictObject({ records: z.string(), env: z.string(), options: envOptions, weight }),
  z.strictObject({ plan: z.string(), weight }),
]);

const seedRange = z.tuple([z.int().min(0), z.int().min(0)]);

const sft = z.strictObject({
  /** Episodes played by a noisy oracle: with probability `noise` a random action is played and learned. Needed unless there are files. */
  episodes: z.int().min(0).default(0),
  noise: z.number().min(0).max(1).default(0),
  /** What is said on a noisy turn: the move that was played, or the oracle's. `agreed`: what was played, learned only where it is the oracle's. */
  labels: z.enum(LABELS).default("played"),
  /** What is played; default: the recipe's envs. */
  envs: z.array(source).min(1).optional(),
  /** Demonstration files instead of playing. */
  files: z.array(z.string()).default([]),
  batch: z.int().min(1).default(32),
  epochs: z.int().min(1).default(1),
  /** Threads that play the next batches; 0: the main thread does, which is enough for an engine that computes on this processor. */
  threads: z.int().min(0).default(0),
  optimizer,
  schedule: schedule.prefault({ name: "cosine", warmupSteps: 20, floor: 0.05 }),
});

const warmStart = sft.refine(({ episodes, files }) => episodes > 0 || files.length > 0, {
  path: ["episodes"],
  message: "say how many episodes to play, or name demonstration files",
});

const kl = z
  .strictObject({
    as: z.enum(["loss", "reward"]),
    coefficient: z.number().min(0),
    estimator: z.enum(["k1", "k2", "k3"]).default("k3"),
    /** KL as reward: adapt the coefficient towards this KL. */
    target: z.number().positive().optional(),
    horizon: z.number().positive().default(10_000),
  })
  .refine((given) => given.as === "reward" || given.estimator !== "k1", {
    path: ["estimator"],
    message: 'the expected gradient of k1 is 0, so as a loss it only adds noise; take k2 or k3, or set as to "reward"',
  })
  .refine((given) => given.as === "reward" || given.target === undefined, {
    path: ["target"],
    message: 'only KL as reward adapts its coefficient; leave target out, or set as to "reward"',
  });

const recipe = z.strictObject({
  name: z.string().regex(/^[a-z0-9][a-z0-9._-]*$/, "use lower-case letters, digits, . _ -"),
  seed: z.int().min(0).default(0),
  /** A Hugging Face folder, `hf:` and the name of a model in the Hugging Face cache, or how to make a fresh model. */
  model: z.union([z.string(), z.strictObject({ preset: z.enum(PRESET_NAMES), set: modelShape.default({}) })]),
  lora: z
    .strictObject({ rank: z.int().min(1), alpha: z.number().positive(), targets: z.array(z.string()).optional() })
    .optional(),
  freeze: z.enum(["vision", "language"]).optional(),
  /** Empty only where nothing is played: supervised learning from files. */
  envs: z.array(source),
  /** Supervised warm start before reinforcement learning. */
  warmStart: warmStart.optional(),
  /** Updates of reinforcement learning; 0 for a supervised run. */
  steps: z.int().min(0),
  /** Episode seeds (groups) per step, and siblings of each. */
  groups: z.int().min(1).default(16),
  siblings: z.int().min(1).default(8),
  /** Episodes per update of the weights, in whole groups; absent: the whole batch at once. */
  minibatch: z.int().min(1).optional(),
  epochs: z.int().min(1).default(1),
  sampling: z
    .strictObject({
      temperature: z.number().positive().default(1),
      maxTokens: z.int().min(1).default(64),
      contextTokens: z.int().min(16).default(4096),
      /** For evaluation only: a training run that sets one of these is refused. */
      topK: z.int().optional(),
      topP: z.number().optional(),
      minP: z.number().optional(),
    })
    .prefault({}),
  turns: z.enum(["joined", "split"]).default("joined"),
  /** Split turns: how many earlier turns each one sees. */
  history: z.int().min(0).default(4),
  advantage: z
    .strictObject({
      name: z.string().default("grpo"),
      gamma: z.number().min(0).max(1).default(1),
      lambda: z.number().min(0).max(1).default(1),
      turnGamma: z.number().min(0).max(1).default(1),
      turnLambda: z.number().min(0).max(1).default(1),
      normalizeStd: z.boolean().default(true),
      whiten: z.boolean().default(false),
    })
    .prefault({}),
  /** The constants of a loss and the options of a filter are its own: its schema reads them. */
  loss: z.looseObject({ name: z.string().default("ppo") }).prefault({}),
  reduction: z
    .union([
      z.strictObject({ name: z.enum(["token-mean", "sequence-mean", "prompt-mean"]) }),
      z.strictObject({ name: z.literal("constant-length"), length: z.number().positive() }),
    ])
    .default({ name: "token-mean" }),
  kl: kl.optional(),
  /** Pays training episodes after they are over, before filters: a function of the episode. */
  judge: z
    .custom<Judge>(
      (value) => typeof value === "function",
      "a judge is a function (episode, signal) => rewards per turn",
    )
    .optional(),
  /** Default: zero-variance where the estimator compares siblings, none elsewhere. */
  filters: z.array(z.looseObject({ name: z.string() })).optional(),
  /** Play more groups until this many survive the filters (dynamic sampling), at most `refillLimit` rounds. */
  refill: z.boolean().default(false),
  refillLimit: z.int().min(1).default(8),
  correction: z
    .strictObject({
      truncate: z.strictObject({ level: z.enum(["token", "sequence"]), cap: z.number().positive() }).optional(),
      sequenceMask: z
        .strictObject({ of: z.enum(["geometric", "product"]), low: z.number(), high: z.number() })
        .optional(),
      tokenMask: z.strictObject({ low: z.number(), high: z.number() }).optional(),
      outliers: z.strictObject({ low: z.number(), high: z.number() }).optional(),
    })
    .optional(),
  critic: z
    .strictObject({
      optimizer,
      clip: z.number().positive().default(0.2),
      warmupSteps: z.int().min(0).default(0),
      epochs: z.int().min(1).default(1),
    })
    .optional(),
  optimizer,
  schedule: schedule.prefault({}),
  referenceEvery: z.int().min(1).optional(),
  /** 0: synchronous. Otherwise rollouts may be this many updates old. */
  maxStaleness: z.int().min(0).default(0),
  rollout: z
    .strictObject({
      live: z.int().min(1).default(64),
      workers: z.enum(["inline", "threads", "processes"]).default("inline"),
      stepTimeoutMs: z.int().min(1).default(60_000),
      episodeTimeoutMs: z.int().min(1).default(600_000),
      retries: z.int().min(0).default(1),
      /** A run stops when more than this share of a step's or an evaluation's episodes fail for our reasons, retries included. */
      maxFailed: z.number().min(0).max(1).default(0.2),
      judgeTimeoutMs: z.int().min(1).default(JUDGE_TIMEOUT_MS),
    })
    .prefault({}),
  evaluate: z
    .strictObject({
      every: z.int().min(1).default(10),
      /** What is played; default: the recipe's environments, on `seeds`. Rows of files are played as they are. */
      envs: z.array(source).min(1).optional(),
      seeds: seedRange.default([1_000_000_000, 1_000_000_127]),
      before: z.boolean().default(true),
      temperature: z.number().min(0).default(1),
      greedy: z.boolean().default(true),
      /** Sampled tries at each seed, for pass@k. */
      repeats: z.int().min(1).default(1),
      /** Play sampled episodes again beside the oracle, for `decisions/*`. */
      decisions: z.boolean().default(true),
    })
    .prefault({}),
  sight: z.strictObject({ every: z.int().min(0).default(10), episodes: z.int().min(2).default(64) }).prefault({}),
  checkpoint: z.strictObject({ every: z.int().min(1).default(20), keep: z.int().min(1).default(2) }).prefault({}),
  /** Upload every n-th checkpoint, and the last, to the Hugging Face hub; HF_TOKEN of the environment is the key. */
  hub: z
    .strictObject({ every: z.int().min(1).default(1), repo: z.string(), private: z.boolean().default(false) })
    .optional(),
  log: z
    .strictObject({ frameBudgetMB: z.number().positive().default(256), tokens: z.boolean().default(true) })
    .prefault({}),
  /** Who computes: a name, or a name with settings, such as { name: "native", threads: 4 }. */
  engine: engineConfig.default("native"),
  /** What the model learns, in one line; `saccade recipes` lists it. */
  teaches: z.string().default(""),
  /** What a whole run takes: hardware, and time as measured on it. */
  needs: z.strictObject({ hardware: z.string(), time: z.string().optional() }).optional(),
  /** What the author saw; printed before a run. */
  expect: z.string().default(""),
});

export type RecipeInput = z.input<typeof recipe>;
export type Recipe = Omit<z.output<typeof recipe>, "filters"> & { readonly filters: readonly Named[] };

export function defineRecipe(input: RecipeInput): RecipeInput {
  return input;
}

/** Checks a recipe with its overrides (`--set`); the error names every field that is wrong. `file`: where the recipe came from. */
export function resolveRecipe(
  input: unknown,
  overrides: Readonly<Record<string, unknown>> = {},
  file?: string,
): Recipe {
  const value = mergeSettings(withoutReplaced(input, overrides), overrides);
  const result = recipe.safeParse(value);
  if (!result.success) {
    const problems = recipeProblems(result.error.issues, { schema: recipe, value, overrides });
    const text = problems.join("; ");
    throw new ConfigError(
      `The recipe${file === undefined ? "" : ` ${file}`} can't be used: ${text}${text.endsWith("?") ? "" : "."}`,
    );
  }
  const { sampling, maxStaleness, refill, envs, warmStart, steps } = result.data;
  if (envs.length === 0 && (steps > 0 || warmStart === undefined || warmStart.files.length === 0)) {
    throw new ConfigError("The recipe can't be used: envs is empty; name at least one environment to play.");
  }
  if (
    result.data.steps > 0 &&
    (sampling.topK !== undefined || sampling.topP !== undefined || sampling.minP !== undefined)
  ) {
    throw new ConfigError(
      "Training rollouts sample the plain tempered distribution: leave sampling.topK, topP and minP out (they are for evaluation).",
    );
  }
  if (maxStaleness > 0 && refill)
    throw new ConfigError("refill needs a synchronous run: set maxStaleness to 0, or refill to false.");
  const { needsGroups } = getEstimator(result.data.advantage.name);
  const filters: readonly Named[] = result.data.filters ?? (needsGroups ? [{ name: "zero-variance" }] : []);
  return { ...result.data, loss: resolveLoss(result.data.loss), filters: filters.map(resolveFilter) };
}

/** The recipe as plain data, for the manifest; of a judge, which is code, only its name. */
export function recipeConfig(recipe: Recipe): JsonObject {
  const named = (_: string, value: unknown) => (typeof value === "function" ? `function ${value.name}` : value);
  return JSON.parse(JSON.stringify(recipe, named)) as JsonObject;
}

/** Another loss or reduction is another thing: the constants of the old one do not carry over. Nor do the settings of an engine when one is named. */
function withoutReplaced(input: unknown, overrides: Readonly<Record<string, unknown>>): unknown {
  if (!isRecord(input)) return input;
  const kept = Object.entries(input).filter(([key, base]) => {
    const over = overrides[key];
    if (key === "engine") return !isRecord(over) || (over.name === undefined && over.learner === undefined);
    if ((key !== "loss" && key !== "reduction") || !isRecord(base) || !isRecord(over)) return true;
    return over.name === undefined || over.name === base.name;
  });
  return Object.fromEntries(kept);
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
