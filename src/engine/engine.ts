/**
 * The interfaces of engines: all access to a model that can be trained. They take token ids and images, never text. The trainer knows
 * nothing about engines, and engines know nothing about algorithms: an algorithm becomes per-token numbers on a `Datum` plus a `Loss`.
 */
import type { ModelInput } from "../core/model-input.ts";
import type { ChatModel } from "../model/chat.ts";

export type SamplingParams = {
  readonly maxTokens: number;
  /** 0 means greedy. */
  readonly temperature: number;
  readonly seed: number;
  readonly topK?: number;
  readonly topP?: number;
  readonly minP?: number;
  /** Sampling ends after one of these ids, which is part of the sample. */
  readonly stopIds?: readonly number[];
  readonly stopStrings?: readonly string[];
  /** Also return log-probabilities of the raw distribution (temperature 1, not truncated). */
  readonly rawLogprobs?: boolean;
  /** Also return log-probabilities of the prompt's ids (0 for the first, which has none). */
  readonly promptLogprobs?: boolean;
  /** Also return the k likeliest ids at each position. */
  readonly topLogprobs?: number;
  /** A grammar in xgrammar's EBNF. The reply matches it, because only ids that it allows are drawn. */
  readonly grammar?: string;
  /** With a grammar: ids of the reply that were drawn earlier and are now at the end of the prompt. */
  readonly grammarIds?: readonly number[];
};

export type StopReason = "stop" | "length";

export type Sample = {
  readonly ids: Int32Array;
  /** Log-probabilities in the distribution from which the ids were drawn. */
  readonly logprobs: Float32Array;
  readonly stopReason: StopReason;
  /** The version of the weights that sampled it; the first one if they changed during the sample. */
  readonly version: number;
  /** The version for each id, if the engine can change weights during a sample. */
  readonly versions?: Int32Array;
  readonly rawLogprobs?: Float32Array;
  readonly promptLogprobs?: Float32Array;
  readonly topLogprobs?: readonly (readonly TopLogprob[])[];
  /**
   * With a grammar: 1 for ids at which it removed (or may have removed) more than `MAX_MASKED` of the probability. Such an id says little about the policy
   * and carries no loss. For the others, `logprobs` are those of the distribution without the grammar.
   */
  readonly masked?: Uint8Array;
};

/** A grammar that removes at most this share of the probability does not count as a mask. */
export const MAX_MASKED = 0.001;

export type TopLogprob = { readonly id: number; readonly logprob: number };

/** One sequence. Every array is aligned with `targets`, and `targets` with `input.ids`: position i predicts targets[i]. */
export type Datum = {
  readonly input: ModelInput;
  /** The id that each position must predict; −1 for none. */
  readonly targets: Int32Array;
  /** 0 for positions without loss; may be negative. All normalisation is included. */
  readonly weights: Float32Array;
  /** The sampler's temperature. Every forward pass, reference and loss uses log-softmax(logits / temperature), with vision ids masked. */
  readonly temperature?: number;
  readonly advantages?: Float32Array;
  /** The denominator of the policy ratio. */
  readonly oldLogprobs?: Float32Array;
  readonly referenceLogprobs?: Float32Array;
  readonly returns?: Float32Array;
  readonly oldValues?: Float32Array;
};

export type Scores = { readonly logprobs: Float32Array };
/** A language head gives `logprobs` and `entropy`, a value head `values`; 0 where the target is −1. */
export type Forward = {
  readonly logprobs?: Float32Array;
  readonly entropy?: Float32Array;
  readonly values?: Float32Array;
};

export type KlEstimator = "k1" | "k2" | "k3";
/** Optional terms of any policy loss: KL to the reference and an entropy bonus, weighted per token by |weights|. */
export type Regularizers = {
  readonly kl?: { readonly coefficient: number; readonly estimator: KlEstimator };
  readonly entropy?: number;
};

/** Everything about one sequence that a custom loss may use. */
export type LossContext = { readonly datum: Datum; readonly logprobs: Float32Array };
/** Computes the loss and dL/dlogp from log-probabilities. Works on every engine. */
export type CustomLoss = (sequences: readonly LossContext[]) => {
  readonly loss: number;
  readonly gradients: readonly Float32Array[];
  readonly metrics?: Readonly<Record<string, number>>;
};

export type Loss =
  | { readonly name: "cross-entropy" }
  | ({ readonly name: "importance-sampling" } & Regularizers)
  | ({
      readonly name: "ppo";
      readonly clipLow: number;
      readonly clipHigh: number;
      readonly dualClip?: number;
    } & Regularizers)
  | ({ readonly name: "cispo"; readonly clipLow: number; readonly clipHigh: number } & Regularizers)
  | ({ readonly name: "gspo"; readonly clipLow: number; readonly clipHigh: number } & Regularizers)
  | ({ readonly name: "dro"; readonly beta: number } & Regularizers)
  | { readonly name: "value"; readonly clip?: number }
  | { readonly name: "custom"; readonly compute: CustomLoss };

export type LossReport = {
  /** Sum over tokens of the weighted loss. */
  readonly loss: number;
  readonly finite: boolean;
  readonly metrics: Readonly<Record<string, number>>;
  /** For each datum, the log-probabilities (or values) of this forward pass, to measure drift. */
  readonly outputs: readonly Float32Array[];
  /** For each datum, hashes of the pixels that this forward pass used, if the engine reports them. */
  readonly frameHashes?: readonly (readonly string[])[];
};

/** Learning rates may differ by part of the model. */
export type ParameterGroup = "vision" | "merger" | "language" | "embedding" | "head" | "lora";
export type OptimizerParams = {
  readonly name: "adamw" | "muon";
  readonly learningRate: number;
  /** Muon: learning rate of parameters that are not hidden matrices; AdamW updates them. */
  readonly adamLearningRate?: number;
  readonly rates?: Readonly<Partial<Record<ParameterGroup, number>>>;
  readonly beta1?: number;
  readonly beta2?: number;
  readonly epsilon?: number;
  readonly momentum?: number;
  readonly weightDecay?: number;
  /** Limit of the global gradient norm; 0 or absent: no clipping. */
  readonly maxGradNorm?: number;
};
/**
 * `applied` is false if the gradient was not finite: then weights and optimizer state are unchanged, and the gradients are discarded. The norm is NaN if the
 * engine does not report it.
 */
export type StepReport = { readonly gradNorm: number; readonly applied: boolean; readonly step: number };

/** Everything that a recipe can require of an engine. It is checked before anything runs. */
export type Capabilities = {
  readonly critic: boolean;
  readonly lora: boolean;
  /** Training of all weights, not only of an adapter. */
  readonly fullTuning: boolean;
  /** Sampling and scoring at temperatures other than 1. */
  readonly temperature: boolean;
  /** Vision ids are masked, in sampling and in every loss. */
  readonly visionMask: boolean;
  /** Forward passes report the entropy. */
  readonly entropy: boolean;
  /** Gradients can be discarded without a step. If not, a step is submitted together with its batch. */
  readonly discard: boolean;
  /** Learning rates may differ by part of the model. */
  readonly groupRates: boolean;
  readonly gradientClipping: boolean;
  /** The optimizer can be reset while the weights stay. */
  readonly freshOptimizer: boolean;
  /** Where a learner's first weights come from: the folder, or a server, for which the folder has only the tokenizer. */
  readonly start: "folder" | "server";
  /** The learner's log-probabilities equal the sampler's, bit for bit. */
  readonly exactLogprobs: boolean;
  /** Names of losses; `custom` among them means any TypeScript function. */
  readonly losses: readonly string[];
  readonly regularizers: readonly ("kl" | "entropy")[];
  readonly optimizers: readonly OptimizerParams["name"][];
  /** Samplers keep the weights with which they were published (`snapshot`), or all change together (`inPlace`). */
  readonly weights: "snapshot" | "inPlace";
};

export type LoraSpec = {
  readonly rank: number;
  readonly alpha: number;
  /** The linear layers, by the last part of their name; absent: all. */
  readonly targets?: readonly string[];
};
export type LearnerSpec = {
  readonly folder: string;
  readonly head?: "lm" | "value";
  readonly lora?: LoraSpec;
  readonly freeze?: "vision" | "language";
  readonly seed: number;
};

/** Tokens as a server bills them: read in a prompt or scored, sampled, trained. */
export type Tokens = { readonly prefill: number; readonly sample: number; readonly train: number };
export interface Bill {
  used(): Tokens;
  /** In dollars, if the prices are known. */
  cost(tokens: Tokens): number | undefined;
}

export interface Engine {
  readonly capabilities: Capabilities;
  /** For engines that bill by the token. */
  readonly bill?: Bill;
  learner(spec: LearnerSpec): Promise<Learner>;
  /** Samples with a folder's weights as they are: for evaluation, and for the frozen reference. */
  sampler(folder: string): Promise<Sampler>;
  /** The chat side of the model in a folder: our renderer, or a server's. */
  chat(folder: string): Promise<ChatModel>;
  close(): Promise<void>;
}

export type OnToken = (id: number, logprob: number, top?: readonly TopLogprob[]) => void;

export type SampleContext = {
  readonly sequence: string;
  readonly signal?: AbortSignal;
  /** Called when the prompt's images are encoded, if the engine can tell. */
  readonly onSeen?: () => void;
  /** Called for each id when it is drawn, in order; `top` is there if `topLogprobs` asks for it. */
  readonly onToken?: OnToken;
};

/** Weights that are ready for the workers of an inference server, and where to connect for them. */
export type WeightOffer = {
  readonly port: number;
  readonly backend: string;
  readonly names: readonly string[];
  readonly dtypes: readonly string[];
  readonly shapes: readonly (readonly number[])[];
  /** Resolves when every receiver has everything. */
  give(): Promise<void>;
};

/** A snapshot, or a server whose weights change: every sample says with which version it was drawn. */
export interface Sampler {
  readonly version: number;
  /** `prompt` should extend what this sequence has seen before (append only); otherwise the cache starts over. */
  sample(prompt: ModelInput, params: SamplingParams, context: SampleContext): Promise<Sample>;
  score(data: readonly Datum[]): Promise<Scores[]>;
  release(sequence: string): void;
  /** Offers the weights to this many workers of inference servers, from memory to memory, if the engine can. */
  offer?(takers: number): Promise<WeightOffer>;
  close(): Promise<void>;
}

export interface Learner {
  /** Announces data that will soon be trained on, so that a remote engine can receive their images meanwhile. */
  ahead?(data: readonly Datum[]): void;
  forward(data: readonly Datum[]): Promise<Forward[]>;
  /** Gradients add up until `step` or `discard`. */
  forwardBackward(data: readonly Datum[], loss: Loss): Promise<LossReport>;
  step(optimizer: OptimizerParams): Promise<StepReport>;
  discard(): void;
  /** Resets moments and step count, at a change of phase or optimizer: another optimizer's state would be misread. */
  freshOptimizer(): Promise<void>;
  /** A sampler with the current weights. Their version goes up by one if they changed since the last call. */
  publish(): Promise<Sampler>;
  /** Writes Hugging Face or PEFT files and nothing else: other programs take every file in such a folder for weights. */
  export(folder: string): Promise<void>;
  /** Writes all that `restore` needs to continue as if nothing had happened: what `export` writes, and the rest next to that folder. */
  checkpoint(folder: string): Promise<void>;
  restore(folder: string): Promise<void>;
  close(): Promise<void>;
}
