/**
 * A recipe: everything that decides a training run, as one plain object with defaults. A recipe is a TypeScript file whose default
 * export is `defineRecipe({…})`; `--set key=value` changes a field. It is checked here, once, before anything runs, and stored whole in the
 * run's manifest.
 */
import { z } from "zod";
import { ConfigError } from "../core/errors.ts";
import type { JsonObject } from "../core/json.ts";
import { mergeSettings } from "../core/settings.ts";
import { engineConfig } from "../engine/engine-config.ts";
import { LABELS } from "../envs/demos.ts";
import { programFields } from "../envs/program.ts";
import { PRESET_NAMES } from "../model/presets.ts";
import { modelShape } from "../model/shape.ts";
import { JUDGE_TIMEOUT_MS, type Judge } from "../rollout/judge.ts";
import { trackerSchema } from "../run/trackers/open.ts";
import { recipeProblems } from "./recipe-errors.ts";
import type { RecipeInput } from "./recipe-input.ts";
import { getEstimator, type Named, resolveFilter, resolveLoss, resolveMixture } from "./registry.ts";

const rates = z.strictObject({
  vision: z.number().optional().describe("Learning rate of the vision tower."),
  merger: z.number().optional().describe("Learning rate of the merger between vision and language."),
  language: z.number().optional().describe("Learning rate of the language layers."),
  embedding: z.number().optional().describe("Learning rate of the token embedding."),
  head: z.number().optional().describe("Learning rate of the output head."),
  lora: z.number().optional().describe("Learning rate of LoRA matrices."),
});

const optimizer = z
  .strictObject({
    name: z
      .enum(["adamw", "muon"])
      .default("adamw")
      .describe("AdamW, or Muon for the hidden matrices with AdamW for the rest."),
    learningRate: z
      .number()
      .positive()
      .describe("Learning rate. With Muon, 0.01 to 0.02 is usual for training from scratch."),
    adamLearningRate: z
      .number()
      .positive()
      .optional()
      .describe("With Muon: learning rate of the parameters that AdamW updates."),
    rates: rates.optional().describe("Learning rates of parts of the model, instead of `learningRate`."),
    beta1: z.number().min(0).max(1).default(0.9).describe("Decay of the first moment."),
    beta2: z.number().min(0).max(1).default(0.95).describe("Decay of the second moment."),
    weightDecay: z.number().min(0).default(0).describe("Decoupled weight decay, on matrices only."),
    maxGradNorm: z.number().min(0).default(1).describe("Clip the global gradient norm to this. 0 does not clip."),
  })
  .meta({ title: "OptimizerInput" });

const schedule = z
  .strictObject({
    name: z
      .enum(["constant", "linear", "cosine"])
      .default("constant")
      .describe("How the learning rate changes over the steps."),
    warmupSteps: z.int().min(0).default(0).describe("Steps in which the rate rises from 0."),
    floor: z.number().min(0).max(1).default(0).describe("Share of the learning rate that remains at the end."),
  })
  .meta({ title: "ScheduleInput" });

const weight = z.number().positive().default(1).describe("Share of the episodes, relative to the other sources.");
const envOptions = z.record(z.string(), z.unknown()).default({}).describe("Options of the environment.");
/** As `Source` of envs: an environment on seeds that the run draws, or rows of a file. `describe` also feeds docs/reference/recipe.md. */
const source = z
  .union([
    z.strictObject({
      env: z.string().describe("Environment id or path."),
      options: envOptions,
      weight,
      reuse: z
        .int()
        .min(1)
        .max(64)
        .optional()
        .describe(
          "How often a warm start uses each demonstration, for worlds that take long to draw. By default once. Reinforcement learning never reuses a seed.",
        ),
    }),
    z.strictObject({
      tickets: z.string().describe("File of tickets: rows that each name an episode."),
      weight,
    }),
    z.strictObject({
      records: z.string().describe("File of rows that the environment plays."),
      env: z.string().describe("Environment id or path."),
      options: envOptions,
      weight,
    }),
    z.strictObject({
      plan: z.string().describe("VAGEN seed plan, YAML or JSON."),
      weight,
    }),
    z.strictObject({
      program: z.strictObject(programFields).describe("Program that calls the model through an endpoint."),
      weight,
    }),
  ])
  .meta({ title: "SourceInput" });

const seedRange = z.tuple([z.int().min(0), z.int().min(0)]);

const sft = z.strictObject({
  episodes: z
    .int()
    .min(0)
    .default(0)
    .describe("Episodes that a noisy oracle plays. Required unless there are `files`."),
  noise: z
    .number()
    .min(0)
    .max(1)
    .default(0)
    .describe("Probability of playing a random action instead of the oracle's."),
  noiseAfter: z
    .number()
    .min(0)
    .max(1)
    .default(0)
    .describe("Share of the episodes that the oracle plays without noise, before the noise begins."),
  labels: z
    .enum(LABELS)
    .default("played")
    .describe(
      "What a noisy turn teaches: the action that was `played`, the `oracle`'s, or `agreed`: the played action, only where it is also the oracle's.",
    ),
  envs: z.array(source).min(1).optional().describe("Sources to play. By default the recipe's `envs`."),
  files: z.array(z.string()).default([]).describe("Demonstration files to learn from instead of playing."),
  batch: z.int().min(1).default(32).describe("Episodes per update."),
  epochs: z.int().min(1).default(1).describe("Passes over the demonstrations."),
  threads: z
    .int()
    .min(0)
    .default(0)
    .describe(
      "Threads that play the next batches. 0 plays on the main thread, which is enough for an engine on the same processor.",
    ),
  optimizer: optimizer.describe("Optimizer of the warm start."),
  schedule: schedule
    .prefault({ name: "cosine", warmupSteps: 20, floor: 0.05 })
    .describe("Schedule of the warm start's learning rate."),
});

const warmStart = sft.refine(({ episodes, files }) => episodes > 0 || files.length > 0, {
  path: ["episodes"],
  message: "say how many episodes to play, or name demonstration files",
});

const kl = z
  .strictObject({
    as: z.enum(["loss", "reward"]).describe("Add KL to the loss, or subtract it from the reward."),
    coefficient: z.number().min(0).describe("Weight of the KL term."),
    estimator: z
      .enum(["k1", "k2", "k3"])
      .default("k3")
      .describe("How KL is estimated from samples. As a loss, k1 is refused."),
    target: z.number().positive().optional().describe("KL as reward: adapt the coefficient towards this KL."),
    horizon: z
      .number()
      .positive()
      .default(10_000)
      .describe("KL as reward: how slowly the coefficient adapts, in episodes."),
  })
  .refine((given) => given.as === "reward" || given.estimator !== "k1", {
    path: ["estimator"],
    message: 'the expected gradient of k1 is 0, so as a loss it only adds noise; take k2 or k3, or set as to "reward"',
  })
  .refine((given) => given.as === "reward" || given.target === undefined, {
    path: ["target"],
    message: 'only KL as reward adapts its coefficient; leave target out, or set as to "reward"',
  });

export const recipeSchema = z.strictObject({
  name: z
    .string()
    .regex(/^[a-z0-9][a-z0-9._-]*$/, "use lower-case letters, digits, . _ -")
    .describe("Name of the recipe and of its run folder: lower-case letters, digits, `.`, `_` and `-`."),
  seed: z.int().min(0).default(0).describe("Seed of the run: it decides weights, episodes and sampling."),
  model: z
    .union([
      z.string(),
      z.strictObject({
        preset: z.enum(PRESET_NAMES).describe("Shape to start from."),
        set: modelShape
          .default({})
          .meta({ title: "ModelShape" })
          .describe("Changes to the preset, in the words of `config.json`."),
      }),
    ])
    .describe(
      "A Hugging Face folder, `hf:` with a name in the Hugging Face cache, or a fresh model: `{ preset, set }`.",
    ),
  lora: z
    .strictObject({
      rank: z.int().min(1).describe("Rank of the matrices."),
      alpha: z.number().positive().describe("Scale of the update: it is multiplied by alpha / rank."),
      targets: z.array(z.string()).optional().describe("Layers to adapt. By default all linear layers."),
    })
    .optional()
    .describe("Train LoRA matrices instead of all weights."),
  freeze: z.enum(["vision", "language"]).optional().describe("Part of the model that does not learn."),
  envs: z
    .array(source)
    .describe("Sources of episodes, mixed by weight. May be empty only for supervised learning from files."),
  mixture: z
    .looseObject({
      name: z.string().default("fixed").describe("Name of the mixture."),
      every: z
        .int()
        .min(1)
        .default(50)
        .describe(
          "Number of updates of a warm start after which the weights change. In reinforcement learning they change after every step.",
        ),
    })
    .prefault({})
    .describe(
      "How the weights of the sources change: never (`fixed`), or towards sources that learn (`progress`), with the mixture's own options.",
    ),
  warmStart: warmStart.optional().describe("Supervised warm start before reinforcement learning."),
  steps: z.int().min(0).describe("Number of reinforcement learning steps. 0 for a supervised run."),
  groups: z.int().min(1).default(16).describe("Episode seeds (groups) per step."),
  siblings: z.int().min(1).default(8).describe("Episodes of each group. All play the same seed."),
  minibatch: z
    .int()
    .min(1)
    .optional()
    .describe("Episodes per weight update, in whole groups. By default the whole batch."),
  epochs: z.int().min(1).default(1).describe("Passes over each batch."),
  sampling: z
    .strictObject({
      temperature: z.number().positive().default(1).describe("Sampling temperature."),
      maxTokens: z.int().min(1).default(64).describe("Longest reply, in tokens."),
      contextTokens: z
        .int()
        .min(16)
        .default(4096)
        .describe("Longest sequence, in tokens. A longer episode is truncated."),
      topK: z.int().optional().describe("For evaluation only. Training refuses it."),
      topP: z.number().optional().describe("For evaluation only. Training refuses it."),
      minP: z.number().optional().describe("For evaluation only. Training refuses it."),
      clientLimits: z
        .enum(["refuse", "exclude"])
        .default("refuse")
        .describe(
          "Requests of agents that ask for top-k, top-p or min-p: refuse them, or answer and leave them out of training.",
        ),
    })
    .prefault({})
    .describe("How replies are sampled."),
  turns: z
    .enum(["joined", "split"])
    .default("joined")
    .describe("One sequence per episode (`joined`), or one per turn (`split`)."),
  history: z.int().min(0).default(4).describe("With `split`: how many earlier turns each turn sees."),
  advantage: z
    .strictObject({
      name: z.string().default("grpo").describe("Name of the estimator."),
      gamma: z.number().min(0).max(1).default(1).describe("Discount per token."),
      lambda: z.number().min(0).max(1).default(1).describe("GAE λ per token."),
      turnGamma: z.number().min(0).max(1).default(1).describe("Discount per turn."),
      turnLambda: z.number().min(0).max(1).default(1).describe("GAE λ per turn."),
      normalizeStd: z.boolean().default(true).describe("Divide advantages by the standard deviation of their group."),
      whiten: z.boolean().default(false).describe("Normalize advantages over the batch to mean 0 and variance 1."),
    })
    .prefault({})
    .describe("How advantages are estimated."),
  loss: z
    .looseObject({ name: z.string().default("ppo").describe("Name of the loss.") })
    .prefault({})
    .describe("Policy loss and its constants."),
  reduction: z
    .union([
      z.strictObject({
        name: z.enum(["token-mean", "sequence-mean", "prompt-mean"]).describe("What the mean is over."),
      }),
      z.strictObject({
        name: z.literal("constant-length").describe("Divide by a constant instead of the number of tokens."),
        length: z.number().positive().describe("The constant."),
      }),
    ])
    .default({ name: "token-mean" })
    .describe(
      "How token losses are averaged: over all tokens, first within sequences or prompts, or over a constant length.",
    ),
  kl: kl.optional().describe("KL to the frozen reference."),
  judge: z
    .custom<Judge>(
      (value) => typeof value === "function",
      "a judge is a function (episode, signal) => rewards per turn",
    )
    .meta({ title: "Judge" })
    .optional()
    .describe("Function that adds rewards after an episode, before the filters."),
  filters: z
    .array(z.looseObject({ name: z.string().describe("Name of the filter.") }))
    .optional()
    .describe(
      "Filters of groups, in order. By default `zero-variance` if the estimator compares siblings, otherwise none.",
    ),
  refill: z.boolean().default(false).describe("Play more groups until enough survive the filters (dynamic sampling)."),
  refillLimit: z.int().min(1).default(8).describe("Maximum number of rounds of `refill`."),
  correction: z
    .strictObject({
      truncate: z
        .strictObject({
          level: z.enum(["token", "sequence"]).describe("Weight of each token, or of the whole sequence."),
          cap: z.number().positive().describe("Largest weight."),
        })
        .optional()
        .describe("Truncated importance weights, per token or sequence, at most `cap`."),
      sequenceMask: z
        .strictObject({
          of: z.enum(["geometric", "product"]).describe("Geometric mean or product of the token ratios."),
          low: z.number().describe("Lowest ratio."),
          high: z.number().describe("Highest ratio."),
        })
        .optional()
        .describe("Drop sequences whose ratio is outside `low` to `high`."),
      tokenMask: z
        .strictObject({ low: z.number().describe("Lowest ratio."), high: z.number().describe("Highest ratio.") })
        .optional()
        .describe("Drop tokens whose ratio is outside `low` to `high`."),
      outliers: z
        .strictObject({
          low: z.number().describe("Lowest ratio; 1e-4 is usual."),
          high: z.number().describe("Highest ratio; 100 is usual."),
        })
        .optional()
        .describe("Drop sequences with a token whose ratio is outside `low` to `high`."),
    })
    .optional()
    .describe("Off-policy correction between sampler and learner."),
  critic: z
    .strictObject({
      optimizer: optimizer.describe("Optimizer of the critic."),
      clip: z.number().positive().default(0.2).describe("Clip changes of the value to this."),
      warmupSteps: z.int().min(0).default(0).describe("Steps in which only the critic learns."),
      epochs: z.int().min(1).default(1).describe("Passes of the critic over each batch."),
    })
    .optional()
    .describe("Train a critic. Some estimators need one."),
  optimizer: optimizer.describe("Optimizer of the policy."),
  schedule: schedule.prefault({}).describe("Schedule of the policy's learning rate."),
  referenceEvery: z
    .int()
    .min(1)
    .optional()
    .describe("Number of steps after which the policy replaces the reference. By default the reference stays frozen."),
  maxStaleness: z
    .int()
    .min(0)
    .default(0)
    .describe("0 is synchronous. Otherwise, rollouts may be this many updates old."),
  rollout: z
    .strictObject({
      live: z.int().min(1).default(64).describe("Maximum number of episodes at a time."),
      workers: z.enum(["inline", "threads", "processes"]).default("inline").describe("Where environments run."),
      stepTimeoutMs: z.int().min(1).default(60_000).describe("Time limit of one environment call, in milliseconds."),
      episodeTimeoutMs: z.int().min(1).default(600_000).describe("Time limit of an episode, in milliseconds."),
      retries: z.int().min(0).default(1).describe("How often a failed episode is played again."),
      maxFailed: z
        .number()
        .min(0)
        .max(1)
        .default(0.2)
        .describe(
          "Stop the run if a larger share of the episodes of a step or evaluation fails for reasons outside the policy, after retries.",
        ),
      judgeTimeoutMs: z
        .int()
        .min(1)
        .default(JUDGE_TIMEOUT_MS)
        .describe("Time limit of the judge for an episode, in milliseconds."),
    })
    .prefault({})
    .describe("How episodes are played."),
  evaluate: z
    .strictObject({
      every: z
        .int()
        .min(0)
        .default(10)
        .describe("Steps between evaluations. 0: never evaluate, but still keep the seeds apart."),
      envs: z
        .array(source)
        .min(1)
        .optional()
        .describe(
          "Sources to evaluate. By default the recipe's `envs`, on `seeds`. Rows of files are played as they are.",
        ),
      seeds: seedRange
        .default([1_000_000_000, 1_000_000_127])
        .describe("First and last seed. Training never uses them."),
      before: z.boolean().default(true).describe("Also evaluate before the first step."),
      temperature: z.number().min(0).default(1).describe("Temperature of sampled episodes."),
      greedy: z.boolean().default(true).describe("Also play greedily."),
      repeats: z.int().min(1).default(1).describe("Sampled attempts at each seed, for pass@k."),
      decisions: z.boolean().default(true).describe("Replay sampled episodes next to the oracle, for `decisions/*`."),
    })
    .prefault({})
    .describe("Evaluations on fixed seeds."),
  sight: z
    .strictObject({
      every: z.int().min(0).default(10).describe("Steps between measurements. 0: never measure."),
      episodes: z.int().min(2).default(64).describe("Episodes to measure on."),
    })
    .prefault({})
    .describe("Measurement of whether the model uses its images."),
  checkpoint: z
    .strictObject({
      every: z.int().min(1).default(20).describe("Steps between checkpoints."),
      keep: z.int().min(1).default(2).describe("How many checkpoints to keep, besides the best one."),
    })
    .prefault({})
    .describe("Checkpoints of the run."),
  hub: z
    .strictObject({
      every: z
        .int()
        .min(1)
        .default(1)
        .describe("Number of checkpoints from one upload to the next. The last one is always uploaded."),
      repo: z.string().describe("Repository, `user/name`."),
      private: z.boolean().default(false).describe("Make a new repository private."),
    })
    .optional()
    .describe("Upload checkpoints to the Hugging Face hub. The environment variable HF_TOKEN is the key."),
  trackers: z
    .array(trackerSchema)
    .default([])
    .describe(
      'Dashboards that the run also reports to: `"tensorboard"` (event files in the run folder), or `{ name: "mlflow", url, experiment }`.',
    ),
  log: z
    .strictObject({
      frameBudgetMB: z.number().positive().default(256).describe("Space for frames, in MB."),
      tokens: z.boolean().default(true).describe("Store every token of kept trajectories with its log-probabilities."),
    })
    .prefault({})
    .describe("What the run folder stores."),
  engine: engineConfig
    .default("native")
    .meta({ title: "EngineConfig" })
    .describe(
      'The engine: a name, a name with settings such as `{ name: "native", threads: 4 }`, or a learner with a sampler. By default `native`.',
    ),
  teaches: z.string().default("").describe("What the recipe teaches. `saccade recipes` lists it."),
  needs: z
    .strictObject({
      hardware: z.string().describe("Hardware of the measured run."),
      time: z.string().optional().describe("Time that it took."),
    })
    .optional()
    .describe("What a whole run needs. `saccade recipes` lists it."),
  expect: z.string().default("").describe("The result to expect. Printed before a run."),
});

export type { RecipeInput } from "./recipe-input.ts";
export type Recipe = Omit<z.output<typeof recipeSchema>, "filters" | "mixture"> & {
  readonly filters: readonly Named[];
  readonly mixture: Named & { readonly every: number };
};

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
  const result = recipeSchema.safeParse(value);
  if (!result.success) {
    const problems = recipeProblems(result.error.issues, { schema: recipeSchema, value, overrides });
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
  const { every, ...mixture } = result.data.mixture;
  return {
    ...result.data,
    loss: resolveLoss(result.data.loss),
    filters: filters.map(resolveFilter),
    mixture: { every, ...resolveMixture(mixture) },
  };
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
    if ((key !== "loss" && key !== "reduction" && key !== "mixture") || !isRecord(base) || !isRecord(over)) return true;
    return over.name === undefined || over.name === base.name;
  });
  return Object.fromEntries(kept);
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
