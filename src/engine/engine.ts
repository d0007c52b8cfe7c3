/**
 * The seams: the only doors to a model that can be trained. They speak token ids and images, never text. The trainer is
 * blind to engines and engines are blind to algorithms: an algorithm ends as per-token numbers on a `Datum` plus a `Loss`.
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
  /** Sampling ends after one of these; it is part of the sample. */
  readonly stopIds?: readonly number[];
  readonly stopStrings?: readonly string[];
  /** Log-probabilities of the raw (temperature 1, untruncated) distribution too. */
  readonly rawLogprobs?: boolean;
  /** Log-probabilities of the prompt's own ids (the first has none: 0). */
  readonly promptLogprobs?: boolean;
  /** The k likeliest ids at each position. */
  readonly topLogprobs?: number;
  /** A grammar that the reply must match, in xgrammar's EBNF; only ids that it allows are drawn. */
  readonly grammar?: string;
  /** With a grammar: ids of the reply that were drawn before and now end the prompt. */
  readonly grammarIds?: readonly number[];
};

export type StopReason = "stop" | "length";

export type Sample = {
  readonly ids: Int32Array;
  /** Of the distribution the ids were drawn from. */
  readonly logprobs: Float32Array;
  readonly stopReason: StopReason;
  /** The weights that sampled it; the first of them where they were swapped under way. */
  readonly version: number;
  /** Of each id, where an engine swaps weights in flight. */
  readonly versions?: Int32Array;
  readonly rawLogprobs?: Float32Array;
  readonly promptLogprobs?: Float32Array;
  readonly topLogprobs?: readonly (readonly TopLogprob[])[];
  /**
   * With a grammar: 1 where it removed more than `MAX_MASKED` of the probability, or may have. Such an id says little about the policy and carries no
   * loss. Where it is 0, `logprobs` are those of the distribution without the grammar.
   */
  readonly masked?: Uint8Array;
};

/** A grammar may remove so much of the probability before its mask counts. */
export const MAX_MASKED = 0.001;

export type TopLogprob = { readonly id: number; readonly logprob: number };

/** One sequence; every array is aligned to `targets`, which is aligned to `input.ids`: position i predicts targets[i]. */
export type Datum = {
  readonly input: ModelInput;
  /** The id each position must predict; −1 where nothing is predicted. */
  readonly targets: Int32Array;
  /** 0 where no loss, may be negative; all normalisation is inside. */
  readonly weights: Float32Array;
  /** Temperature of the sampler: every forward, reference and loss uses log-softmax(logits / temperature) with vision ids masked. */
  readonly temperature?: number;
  readonly advantages?: Float32Array;
  /** The ratio's anchor. */
  readonly oldLogprobs?: Float32Array;
  readonly referenceLogprobs?: Float32Array;
  readonly returns?: Float32Array;
  readonly oldValues?: Float32Array;
};

export type Scores = { readonly logprobs: Float32Array };
/** `logprobs` and `entropy` from a language head, `values` from a value head; 0 where targets are −1. */
export type Forward = {
  readonly logprobs?: Float32Array;
  readonly entropy?: Float32Array;
  readonly values?: Float32Array;
};

export type KlEstimator = "k1" | "k2" | "k3";
/** Optional terms any policy loss may carry: KL to the reference and an entropy bonus, weighted per token by |weights|. */
export type Regularizers = {
  readonly kl?: { readonly coefficient: number; readonly estimator: KlEstimator };
  readonly entropy?: number;
};

/** Everything about one sequence that a custom loss may use. */
export type LossContext = { readonly datum: Datum; readonly logprobs: Float32Array };
/** From log-probabilities to the loss and dL/dlogp. Works on every engine. */
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
  /** Per datum, the log-probabilities (or values) this forward gave: what drift is measured with. */
  readonly outputs: readonly Float32Array[];
  /** Per datum, hashes of the pictures' pixels as this forward had them, by engines that can tell. */
  readonly pictures?: readonly (readonly string[])[];
};

/** Learning rates may differ by part of the model. */
export type ParameterGroup = "vision" | "merger" | "language" | "embedding" | "head" | "lora";
export type OptimizerParams = {
  readonly name: "adamw" | "muon";
  readonly learningRate: number;
  /** Muon: rate of the parameters that are no hidden matrices (they take AdamW). */
  readonly adamLearningRate?: number;
  readonly rates?: Readonly<Partial<Record<ParameterGroup, number>>>;
  readonly beta1?: number;
  readonly beta2?: number;
  readonly epsilon?: number;
  readonly momentum?: number;
  readonly weightDecay?: number;
  /** Global norm; 0 or absent: no clipping. */
  readonly maxGradNorm?: number;
};
/**
 * `applied` is false when the gradient was not finite: weights and optimizer state are untouched, gradients dropped. The norm is NaN where an engine does
 * not tell it.
 */
export type StepReport = { readonly gradNorm: number; readonly applied: boolean; readonly step: number };

/** All that a recipe can ask of an engine; checked before anything runs. */
export type Capabilities = {
  readonly critic: boolean;
  readonly lora: boolean;
  /** Training all weights, not an adapter. */
  readonly fullTuning: boolean;
  /** Sampling and scoring at temperatures other than 1. */
  readonly temperature: boolean;
  /** Vision ids are masked, in sampling and in every loss. */
  readonly visionMask: boolean;
  /** Forward passes report the entropy. */
  readonly entropy: boolean;
  /** Gradients can be dropped without a step. Where they can't, a step is submitted together with its batch. */
  readonly discard: boolean;
  /** Learning rates may differ by part of the model. */
  readonly groupRates: boolean;
  readonly gradientClipping: boolean;
  /** Weights can be kept while the optimizer starts anew. */
  readonly freshOptimizer: boolean;
  /** Whose weights a learner starts from: the folder's, or a server's, which the folder only has the tokenizer of. */
  readonly start: "folder" | "server";
  /** What the learner computes is what the sampler drew with, bit for bit. */
  readonly exactLogprobs: boolean;
  /** Names of losses; `custom` among them means any TypeScript function. */
  readonly losses: readonly string[];
  readonly regularizers: readonly ("kl" | "entropy")[];
  readonly optimizers: readonly OptimizerParams["name"][];
  /** Samplers keep the weights they were published with, or all change at once. */
  readonly weights: "snapshot" | "inPlace";
};

export type LoraSpec = {
  readonly rank: number;
  readonly alpha: number;
  /** Which linear layers, by the last part of their name; absent: all. */
  readonly targets?: readonly string[];
};
export type LearnerSpec = {
  readonly folder: string;
  readonly head?: "lm" | "value";
  readonly lora?: LoraSpec;
  readonly freeze?: "vision" | "language";
  readonly seed: number;
};

/** Tokens by what is paid for: read as a prompt or scored, sampled, learned from. */
export type Tokens = { readonly prefill: number; readonly sample: number; readonly train: number };
export interface Bill {
  used(): Tokens;
  /** In dollars, where prices are known. */
  cost(tokens: Tokens): number | undefined;
}

export interface Engine {
  readonly capabilities: Capabilities;
  /** Of engines that are paid for by the token. */
  readonly bill?: Bill;
  learner(spec: LearnerSpec): Promise<Learner>;
  /** Of a folder's weights as they are: for evaluation, and the frozen reference. */
  sampler(folder: string): Promise<Sampler>;
  /** How to talk with the model in a folder: our renderer, or a server's. */
  chat(folder: string): Promise<ChatModel>;
  close(): Promise<void>;
}

export type OnToken = (id: number, logprob: number, top?: readonly TopLogprob[]) => void;

export type SampleContext = {
  readonly sequence: string;
  readonly signal?: AbortSignal;
  /** Called when the prompt's images are encoded, by engines that know. */
  readonly onSeen?: () => void;
  /** Called for each id as it is drawn, in order, before the sample is whole; `top` where `topLogprobs` asks for it. */
  readonly onToken?: OnToken;
};

/** Weights that wait for the workers of an inference server, and where they are met. */
export type WeightOffer = {
  readonly port: number;
  readonly backend: string;
  readonly names: readonly string[];
  readonly dtypes: readonly string[];
  readonly shapes: readonly (readonly number[])[];
  /** Resolves when every taker has everything. */
  give(): Promise<void>;
};

/** A snapshot, or a server whose weights are swapped: every sample says the version it was drawn with. */
export interface Sampler {
  readonly version: number;
  /** `prompt` must extend what this sequence has seen before (append only), or the cache starts anew. */
  sample(prompt: ModelInput, params: SamplingParams, context: SampleContext): Promise<Sample>;
  score(data: readonly Datum[]): Promise<Scores[]>;
  release(sequence: string): void;
  /** Where an engine can give its weights to so many workers of inference servers, from memory to memory. */
  offer?(takers: number): Promise<WeightOffer>;
  close(): Promise<void>;
}

export interface Learner {
  /** These will be learned from soon: an engine that is far away takes their images meanwhile. */
  ahead?(data: readonly Datum[]): void;
  forward(data: readonly Datum[]): Promise<Forward[]>;
  /** Gradients add up until `step` or `discard`. */
  forwardBackward(data: readonly Datum[], loss: Loss): Promise<LossReport>;
  step(optimizer: OptimizerParams): Promise<StepReport>;
  discard(): void;
  /** Moments and step count start anew: at a change of phase or of optimizer, whose state would be read as something else. */
  freshOptimizer(): Promise<void>;
  /** The current weights. They are the next version if they changed since they were last published, else the same one. */
  publish(): Promise<Sampler>;
  /** Hugging Face or PEFT files, nothing else: others take every file in such a folder for weights. */
  export(folder: string): Promise<void>;
  /** All that `restore` needs to go on as if nothing had happened: what `export` writes, and beside that folder the rest. */
  checkpoint(folder: string): Promise<void>;
  restore(folder: string): Promise<void>;
  close(): Promise<void>;
}
