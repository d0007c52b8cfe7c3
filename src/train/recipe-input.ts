/** What a recipe says, with the meaning of each field. `npm run docs` generates this file from `recipeSchema`. Do not edit it. */
import type { EngineConfig } from "../engine/registry.ts";
import type { ModelShape } from "../model/shape.ts";
import type { Judge } from "../rollout/judge.ts";

export type RecipeInput = {
  /** Name of the recipe and of its run folder: lower-case letters, digits, `.`, `_` and `-`. */
  name: string;
  /** Seed of the run: it decides weights, episodes and sampling. Integer, at least 0. Default: `0`. */
  seed?: number | undefined;
  /** A Hugging Face folder, `hf:` with a name in the Hugging Face cache, or a fresh model: `{ preset, set }`. */
  model:
    | string
    | {
        /** Shape to start from. */
        preset: "nano" | "quickstart" | "micro" | "mini";
        /** Changes to the preset, in the words of `config.json`. */
        set?: ModelShape | undefined;
      };
  /** Train LoRA matrices instead of all weights. */
  lora?:
    | {
        /** Rank of the matrices. Integer, at least 1. */
        rank: number;
        /** Scale of the update: it is multiplied by alpha / rank. Number, above 0. */
        alpha: number;
        /** Layers to adapt. By default all linear layers. */
        targets?: string[] | undefined;
      }
    | undefined;
  /** Part of the model that does not learn. */
  freeze?: "vision" | "language" | undefined;
  /** Sources of episodes, mixed by weight. May be empty only for supervised learning from files. */
  envs: SourceInput[];
  /** How the weights of the sources change: never (`fixed`), or towards sources that learn (`progress`), with the mixture's own options. */
  mixture?:
    | {
        /** Name of the mixture. Default: `"fixed"`. */
        name?: "fixed" | "progress" | (string & Record<never, never>) | undefined;
        /** Number of updates of a warm start after which the weights change. In reinforcement learning they change after every step. Integer, at least 1. Default: `50`. */
        every?: number | undefined;
        [constant: string]: unknown;
      }
    | undefined;
  /** Supervised warm start before reinforcement learning. */
  warmStart?:
    | {
        /** Episodes that a noisy oracle plays. Required unless there are `files`. Integer, at least 0. Default: `0`. */
        episodes?: number | undefined;
        /** Probability of playing a random action instead of the oracle's. Number, 0 to 1. Default: `0`. */
        noise?: number | undefined;
        /** Share of the episodes that the oracle plays without noise, before the noise begins. Number, 0 to 1. Default: `0`. */
        noiseAfter?: number | undefined;
        /** What a noisy turn teaches: the action that was `played`, the `oracle`'s, or `agreed`: the played action, only where it is also the oracle's. Default: `"played"`. */
        labels?: "played" | "oracle" | "agreed" | undefined;
        /** Sources to play. By default the recipe's `envs`. */
        envs?: SourceInput[] | undefined;
        /** Demonstration files to learn from instead of playing. Default: `[]`. */
        files?: string[] | undefined;
        /** Episodes per update. Integer, at least 1. Default: `32`. */
        batch?: number | undefined;
        /** Passes over the demonstrations. Integer, at least 1. Default: `1`. */
        epochs?: number | undefined;
        /** Threads that play the next batches. 0 plays on the main thread, which is enough for an engine on the same processor. Integer, at least 0. Default: `0`. */
        threads?: number | undefined;
        /** Optimizer of the warm start. */
        optimizer: OptimizerInput;
        /** Schedule of the warm start's learning rate. Default: `{ name: "cosine", warmupSteps: 20, floor: 0.05 }`. */
        schedule?: ScheduleInput | undefined;
      }
    | undefined;
  /** Number of reinforcement learning steps. 0 for a supervised run. Integer, at least 0. */
  steps: number;
  /** Episode seeds (groups) per step. Integer, at least 1. Default: `16`. */
  groups?: number | undefined;
  /** Episodes of each group. All play the same seed. Integer, at least 1. Default: `8`. */
  siblings?: number | undefined;
  /** Episodes per weight update, in whole groups. By default the whole batch. Integer, at least 1. */
  minibatch?: number | undefined;
  /** Passes over each batch. Integer, at least 1. Default: `1`. */
  epochs?: number | undefined;
  /** How replies are sampled. */
  sampling?:
    | {
        /** Sampling temperature. Number, above 0. Default: `1`. */
        temperature?: number | undefined;
        /** Longest reply, in tokens. Integer, at least 1. Default: `64`. */
        maxTokens?: number | undefined;
        /** Longest sequence, in tokens. A longer episode is truncated. Integer, at least 16. Default: `4096`. */
        contextTokens?: number | undefined;
        /** For evaluation only. Training refuses it. */
        topK?: number | undefined;
        /** For evaluation only. Training refuses it. */
        topP?: number | undefined;
        /** For evaluation only. Training refuses it. */
        minP?: number | undefined;
        /** Requests of agents that ask for top-k, top-p or min-p: refuse them, or answer and leave them out of training. Default: `"refuse"`. */
        clientLimits?: "refuse" | "exclude" | undefined;
      }
    | undefined;
  /** One sequence per episode (`joined`), or one per turn (`split`). Default: `"joined"`. */
  turns?: "joined" | "split" | undefined;
  /** With `split`: how many earlier turns each turn sees. Integer, at least 0. Default: `4`. */
  history?: number | undefined;
  /** How advantages are estimated. */
  advantage?:
    | {
        /** Name of the estimator. Default: `"grpo"`. */
        name?:
          | "grpo"
          | "rloo"
          | "reinforce++"
          | "gae"
          | "turn-gae"
          | "bi-level-gae"
          | "maxrl"
          | (string & Record<never, never>)
          | undefined;
        /** Discount per token. Number, 0 to 1. Default: `1`. */
        gamma?: number | undefined;
        /** GAE λ per token. Number, 0 to 1. Default: `1`. */
        lambda?: number | undefined;
        /** Discount per turn. Number, 0 to 1. Default: `1`. */
        turnGamma?: number | undefined;
        /** GAE λ per turn. Number, 0 to 1. Default: `1`. */
        turnLambda?: number | undefined;
        /** Divide advantages by the standard deviation of their group. Default: `true`. */
        normalizeStd?: boolean | undefined;
        /** Normalize advantages over the batch to mean 0 and variance 1. Default: `false`. */
        whiten?: boolean | undefined;
      }
    | undefined;
  /** Policy loss and its constants. */
  loss?:
    | {
        /** Name of the loss. Default: `"ppo"`. */
        name?:
          | "importance-sampling"
          | "ppo"
          | "cispo"
          | "gspo"
          | "dro"
          | "sapo"
          | "dppo"
          | "rollout-is"
          | "clip-cov"
          | "kl-cov"
          | (string & Record<never, never>)
          | undefined;
        [constant: string]: unknown;
      }
    | undefined;
  /** How token losses are averaged: over all tokens, first within sequences or prompts, or over a constant length. Default: `{ name: "token-mean" }`. */
  reduction?:
    | {
        /** What the mean is over. */
        name: "token-mean" | "sequence-mean" | "prompt-mean";
      }
    | {
        /** Divide by a constant instead of the number of tokens. */
        name: "constant-length";
        /** The constant. Number, above 0. */
        length: number;
      }
    | undefined;
  /** KL to the frozen reference. */
  kl?:
    | {
        /** Add KL to the loss, or subtract it from the reward. */
        as: "loss" | "reward";
        /** Weight of the KL term. Number, at least 0. */
        coefficient: number;
        /** How KL is estimated from samples. As a loss, k1 is refused. Default: `"k3"`. */
        estimator?: "k1" | "k2" | "k3" | undefined;
        /** KL as reward: adapt the coefficient towards this KL. Number, above 0. */
        target?: number | undefined;
        /** KL as reward: how slowly the coefficient adapts, in episodes. Number, above 0. Default: `10000`. */
        horizon?: number | undefined;
      }
    | undefined;
  /** Function that adds rewards after an episode, before the filters. */
  judge?: Judge | undefined;
  /** Filters of groups, in order. By default `zero-variance` if the estimator compares siblings, otherwise none. */
  filters?:
    | {
        /** Name of the filter. */
        name:
          | "reward-variance"
          | "reward-variance-top-p"
          | "zero-variance"
          | "over-long"
          | "survivors"
          | (string & Record<never, never>);
        [constant: string]: unknown;
      }[]
    | undefined;
  /** Play more groups until enough survive the filters (dynamic sampling). Default: `false`. */
  refill?: boolean | undefined;
  /** Maximum number of rounds of `refill`. Integer, at least 1. Default: `8`. */
  refillLimit?: number | undefined;
  /** Off-policy correction between sampler and learner. */
  correction?:
    | {
        /** Truncated importance weights, per token or sequence, at most `cap`. */
        truncate?:
          | {
              /** Weight of each token, or of the whole sequence. */
              level: "token" | "sequence";
              /** Largest weight. Number, above 0. */
              cap: number;
            }
          | undefined;
        /** Drop sequences whose ratio is outside `low` to `high`. */
        sequenceMask?:
          | {
              /** Geometric mean or product of the token ratios. */
              of: "geometric" | "product";
              /** Lowest ratio. */
              low: number;
              /** Highest ratio. */
              high: number;
            }
          | undefined;
        /** Drop tokens whose ratio is outside `low` to `high`. */
        tokenMask?:
          | {
              /** Lowest ratio. */
              low: number;
              /** Highest ratio. */
              high: number;
            }
          | undefined;
        /** Drop sequences with a token whose ratio is outside `low` to `high`. */
        outliers?:
          | {
              /** Lowest ratio; 1e-4 is usual. */
              low: number;
              /** Highest ratio; 100 is usual. */
              high: number;
            }
          | undefined;
      }
    | undefined;
  /** Train a critic. Some estimators need one. */
  critic?:
    | {
        /** Optimizer of the critic. */
        optimizer: OptimizerInput;
        /** Clip changes of the value to this. Number, above 0. Default: `0.2`. */
        clip?: number | undefined;
        /** Steps in which only the critic learns. Integer, at least 0. Default: `0`. */
        warmupSteps?: number | undefined;
        /** Passes of the critic over each batch. Integer, at least 1. Default: `1`. */
        epochs?: number | undefined;
      }
    | undefined;
  /** Optimizer of the policy. */
  optimizer: OptimizerInput;
  /** Schedule of the policy's learning rate. */
  schedule?: ScheduleInput | undefined;
  /** Number of steps after which the policy replaces the reference. By default the reference stays frozen. Integer, at least 1. */
  referenceEvery?: number | undefined;
  /** 0 is synchronous. Otherwise, rollouts may be this many updates old. Integer, at least 0. Default: `0`. */
  maxStaleness?: number | undefined;
  /** How episodes are played. */
  rollout?:
    | {
        /** Maximum number of episodes at a time. Integer, at least 1. Default: `64`. */
        live?: number | undefined;
        /** Where environments run. Default: `"inline"`. */
        workers?: "inline" | "threads" | "processes" | undefined;
        /** Time limit of one environment call, in milliseconds. Integer, at least 1. Default: `60000`. */
        stepTimeoutMs?: number | undefined;
        /** Time limit of an episode, in milliseconds. Integer, at least 1. Default: `600000`. */
        episodeTimeoutMs?: number | undefined;
        /** How often a failed episode is played again. Integer, at least 0. Default: `1`. */
        retries?: number | undefined;
        /** Stop the run if a larger share of the episodes of a step or evaluation fails for reasons outside the policy, after retries. Number, 0 to 1. Default: `0.2`. */
        maxFailed?: number | undefined;
        /** Time limit of the judge for an episode, in milliseconds. Integer, at least 1. Default: `120000`. */
        judgeTimeoutMs?: number | undefined;
      }
    | undefined;
  /** Evaluations on fixed seeds. */
  evaluate?:
    | {
        /** Steps between evaluations. 0: never evaluate, but still keep the seeds apart. Integer, at least 0. Default: `10`. */
        every?: number | undefined;
        /** Sources to evaluate. By default the recipe's `envs`, on `seeds`. Rows of files are played as they are. */
        envs?: SourceInput[] | undefined;
        /** First and last seed. Training never uses them. Default: `[1000000000, 1000000127]`. */
        seeds?: [number, number] | undefined;
        /** Also evaluate before the first step. Default: `true`. */
        before?: boolean | undefined;
        /** Temperature of sampled episodes. Number, at least 0. Default: `1`. */
        temperature?: number | undefined;
        /** Also play greedily. Default: `true`. */
        greedy?: boolean | undefined;
        /** Sampled attempts at each seed, for pass@k. Integer, at least 1. Default: `1`. */
        repeats?: number | undefined;
        /** Replay sampled episodes next to the oracle, for `decisions/*`. Default: `true`. */
        decisions?: boolean | undefined;
      }
    | undefined;
  /** Measurement of whether the model uses its images. */
  sight?:
    | {
        /** Steps between measurements. 0: never measure. Integer, at least 0. Default: `10`. */
        every?: number | undefined;
        /** Episodes to measure on. Integer, at least 2. Default: `64`. */
        episodes?: number | undefined;
      }
    | undefined;
  /** Checkpoints of the run. */
  checkpoint?:
    | {
        /** Steps between checkpoints. Integer, at least 1. Default: `20`. */
        every?: number | undefined;
        /** How many checkpoints to keep, besides the best one. Integer, at least 1. Default: `2`. */
        keep?: number | undefined;
      }
    | undefined;
  /** Upload checkpoints to the Hugging Face hub. The environment variable HF_TOKEN is the key. */
  hub?:
    | {
        /** Number of checkpoints from one upload to the next. The last one is always uploaded. Integer, at least 1. Default: `1`. */
        every?: number | undefined;
        /** Repository, `user/name`. */
        repo: string;
        /** Make a new repository private. Default: `false`. */
        private?: boolean | undefined;
      }
    | undefined;
  /** Dashboards that the run also reports to: `"tensorboard"` (event files in the run folder), or `{ name: "mlflow", url, experiment }`. Default: `[]`. */
  trackers?:
    | (
        | "tensorboard"
        | {
            name: "tensorboard";
            /** Where the event files go; by default tensorboard/ in the run folder. */
            folder?: string | undefined;
          }
        | {
            name: "mlflow";
            /** Address of the tracking server. */
            url: string;
            /** Name of the experiment; it is created if it does not exist. Default: `"saccade"`. */
            experiment?: string | undefined;
          }
      )[]
    | undefined;
  /** What the run folder stores. */
  log?:
    | {
        /** Space for frames, in MB. Number, above 0. Default: `256`. */
        frameBudgetMB?: number | undefined;
        /** Store every token of kept trajectories with its log-probabilities. Default: `true`. */
        tokens?: boolean | undefined;
      }
    | undefined;
  /** The engine: a name, a name with settings such as `{ name: "native", threads: 4 }`, or a learner with a sampler. By default `native`. */
  engine?: EngineConfig | undefined;
  /** What the recipe teaches. `saccade recipes` lists it. Default: `""`. */
  teaches?: string | undefined;
  /** What a whole run needs. `saccade recipes` lists it. */
  needs?:
    | {
        /** Hardware of the measured run. */
        hardware: string;
        /** Time that it took. */
        time?: string | undefined;
      }
    | undefined;
  /** The result to expect. Printed before a run. Default: `""`. */
  expect?: string | undefined;
};

export type OptimizerInput = {
  /** AdamW, or Muon for the hidden matrices with AdamW for the rest. Default: `"adamw"`. */
  name?: "adamw" | "muon" | undefined;
  /** Learning rate. With Muon, 0.01 to 0.02 is usual for training from scratch. Number, above 0. */
  learningRate: number;
  /** With Muon: learning rate of the parameters that AdamW updates. Number, above 0. */
  adamLearningRate?: number | undefined;
  /** Learning rates of parts of the model, instead of `learningRate`. */
  rates?:
    | {
        /** Learning rate of the vision tower. */
        vision?: number | undefined;
        /** Learning rate of the merger between vision and language. */
        merger?: number | undefined;
        /** Learning rate of the language layers. */
        language?: number | undefined;
        /** Learning rate of the token embedding. */
        embedding?: number | undefined;
        /** Learning rate of the output head. */
        head?: number | undefined;
        /** Learning rate of LoRA matrices. */
        lora?: number | undefined;
      }
    | undefined;
  /** Decay of the first moment. Number, 0 to 1. Default: `0.9`. */
  beta1?: number | undefined;
  /** Decay of the second moment. Number, 0 to 1. Default: `0.95`. */
  beta2?: number | undefined;
  /** Decoupled weight decay, on matrices only. Number, at least 0. Default: `0`. */
  weightDecay?: number | undefined;
  /** Clip the global gradient norm to this. 0 does not clip. Number, at least 0. Default: `1`. */
  maxGradNorm?: number | undefined;
};

export type ScheduleInput = {
  /** How the learning rate changes over the steps. Default: `"constant"`. */
  name?: "constant" | "linear" | "cosine" | undefined;
  /** Steps in which the rate rises from 0. Integer, at least 0. Default: `0`. */
  warmupSteps?: number | undefined;
  /** Share of the learning rate that remains at the end. Number, 0 to 1. Default: `0`. */
  floor?: number | undefined;
};

export type SourceInput =
  | {
      /** Environment id or path. */
      env: string;
      /** Options of the environment. Default: `{}`. */
      options?: Record<string, unknown> | undefined;
      /** Share of the episodes, relative to the other sources. Number, above 0. Default: `1`. */
      weight?: number | undefined;
      /** How often a warm start uses each demonstration, for worlds that take long to draw. By default once. Reinforcement learning never reuses a seed. Integer, 1 to 64. */
      reuse?: number | undefined;
    }
  | {
      /** File of tickets: rows that each name an episode. */
      tickets: string;
      /** Share of the episodes, relative to the other sources. Number, above 0. Default: `1`. */
      weight?: number | undefined;
    }
  | {
      /** File of rows that the environment plays. */
      records: string;
      /** Environment id or path. */
      env: string;
      /** Options of the environment. Default: `{}`. */
      options?: Record<string, unknown> | undefined;
      /** Share of the episodes, relative to the other sources. Number, above 0. Default: `1`. */
      weight?: number | undefined;
    }
  | {
      /** VAGEN seed plan, YAML or JSON. */
      plan: string;
      /** Share of the episodes, relative to the other sources. Number, above 0. Default: `1`. */
      weight?: number | undefined;
    }
  | {
      /** Program that calls the model through an endpoint. */
      program: {
        /** The program and its arguments. */
        command: string[];
        /** File of tasks, JSON lines or Parquet. The seed of an episode is its row. */
        tasks: string;
        /** TypeScript file whose default export judges an episode. */
        reward?: string | undefined;
        /** TypeScript file with `{ oracle, random }`, which answer in the model's place, for a warm start. */
        oracle?: string | undefined;
        /** Maximum number of processes at a time. By default one per episode. Integer, at least 1. */
        concurrency?: number | undefined;
        /** Time limit of an episode, in milliseconds. Integer, at least 1. Default: `600000`. */
        timeoutMs?: number | undefined;
        /** Where the program runs. By default the recipe's folder. */
        folder?: string | undefined;
        /** Keep each process, and play one episode after another in it. Default: `false`. */
        persistent?: boolean | undefined;
      };
      /** Share of the episodes, relative to the other sources. Number, above 0. Default: `1`. */
      weight?: number | undefined;
    };
