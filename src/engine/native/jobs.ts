/**
 * What the main thread and its workers say to each other. All of it survives structured cloning; weights, gradients, patches and vision features
 * are shared memory, so a message is small. A job names all it works on: a worker that never saw a model can do the job.
 */
import type { Features } from "../../core/model-input.ts";
import type { ModelConfig } from "../../model/config.ts";
import type { LoraSpec, OptimizerParams, Sample, SamplingParams, TopLogprob } from "../engine.ts";
import type { LossArrays, MetricSums, PolicyLoss, ValueLoss } from "../losses.ts";
import type { KernelChoice, KernelInfo } from "./kernels/index.ts";
import type { WasmThread } from "./kernels/wasm-memory.ts";
import type { Freeze, Head } from "./parameters.ts";

/** Weights in shared memory. */
export type ModelRef = {
  /** Names these buffers; never used twice. */
  readonly id: number;
  /** Grows whenever the values change; a snapshot's never does. */
  readonly revision: number;
  readonly config: ModelConfig;
  readonly head: Head;
  readonly freeze?: Freeze;
  readonly weights: SharedArrayBuffer;
  /** An adapter over frozen weights. */
  readonly lora?: { readonly spec: LoraSpec; readonly scaling: number; readonly weights: SharedArrayBuffer };
  /** Where tokenizer and image processor come from. */
  readonly folder: string;
  readonly maskedIds: readonly number[];
};

/** An image as the model sees it, by the hash of its pixels; the grid is in patches. */
export type FrameShape = { readonly hash: string; readonly gridH: number; readonly gridW: number };
/** With its patches, in shared memory. */
export type FrameRef = FrameShape & {
  readonly patches: SharedArrayBuffer;
  /** Hash of the pixels that the patches were cut from; absent where a renderer cut them. */
  readonly pixels?: string;
};

/** `features` are used as they are; the pixels are not looked at then. `into` is a buffer that held an image of the same size. */
export type RawImage = {
  readonly image: { readonly width: number; readonly height: number; readonly data: Uint8Array };
  readonly features?: Features;
  readonly into?: SharedArrayBuffer;
};

/** What the vision tower made of an image: the rows for the placeholders, then as many of each DeepStack level. */
export type FeatureRef = SharedArrayBuffer;

/** Ids start..start+length-1 are the placeholders of an image. */
export type Span<Frame> = { readonly start: number; readonly length: number; readonly frame: Frame };

/** One sequence of a batch; `spans` name images by their place in the job's list. */
export type BatchSequence = LossArrays & {
  readonly ids: Int32Array;
  readonly spans: readonly { readonly start: number; readonly image: number }[];
};

export type SequenceResult = {
  /** Log-probabilities, or values. */
  readonly outputs: Float32Array;
  readonly entropy?: Float32Array;
  /** Hashes of the pixels of its images, where they are known. */
  readonly frameHashes?: readonly string[];
  readonly loss?: { readonly sum: number; readonly tokens: number; readonly metrics: MetricSums };
};

export type SampleResult = {
  readonly sample: Omit<Sample, "version">;
  /** Prompt ids found in the cache, and prompt ids computed. */
  readonly cached: number;
  readonly prefilled: number;
};

/** First and second moments, laid out like what is trained. */
export type Moments = { readonly first: SharedArrayBuffer; readonly second: SharedArrayBuffer };

/** What a learner knows beside weights and moments. */
export type LearnerState = {
  /** Updates since the optimizer was fresh. */
  readonly step: number;
  /** Last published version, and whether the weights moved since. */
  readonly version: number;
  readonly moved: boolean;
};

export type LoadedModel = Pick<ModelRef, "config" | "weights" | "lora" | "maskedIds" | "folder">;

/** kind → [what it needs, what it gives]. */
export type Jobs = {
  /** Which kernels run. */
  kernels: [Record<never, never>, KernelInfo];
  load: [{ folder: string; head: Head; freeze?: Freeze; lora?: LoraSpec; seed: number }, LoadedModel];
  /** Without a state: the weights alone, for others. */
  save: [{ model: ModelRef; folder: string; state?: LearnerState & { moments: Moments } }, null];
  /** Reads weights, and the learner's state if it is there, into the buffers. */
  restore: [{ model: ModelRef; folder: string; moments: Moments }, LearnerState];
  preprocess: [{ folder: string } & RawImage, Omit<FrameRef, "hash">];
  /** Preprocesses what is raw and passes all images through the vision tower; a bad one does not spoil the others. */
  see: [
    { model: ModelRef; images: readonly (Omit<FrameRef, "hash"> | RawImage)[] },
    ({ frame: Omit<FrameRef, "hash">; features: FeatureRef } | { error: WireError })[],
  ];
  /** One pass over sequences that lie end to end. With a loss, gradients add up in `gradient`. */
  pack: [
    {
      model: ModelRef;
      sequences: readonly BatchSequence[];
      frames: readonly FrameRef[];
      learn?: { loss: PolicyLoss | ValueLoss; gradient: SharedArrayBuffer };
    },
    SequenceResult[],
  ];
  /** For parameters from..to of the layout: adds the other gradients to the first, in order, and sums its squares for each parameter. */
  reduce: [{ model: ModelRef; gradients: readonly SharedArrayBuffer[]; from: number; to: number }, number[]];
  /** Moves parameters from..to along the first gradient (unless there is no `move`), then clears all gradients there. */
  update: [
    {
      model: ModelRef;
      gradients: readonly SharedArrayBuffer[];
      moments: Moments;
      from: number;
      to: number;
      move?: { optimizer: OptimizerParams; step: number; scale: number };
    },
    null,
  ];
  sample: [
    {
      model: ModelRef;
      sequence: string;
      ids: Int32Array;
      spans: readonly SampleSpan[];
      params: SamplingParams;
      /** Tell of every id as it is drawn. */
      stream: boolean;
    },
    SampleResult,
  ];
};

export type SampleSpan = Span<FrameShape> & { readonly features: FeatureRef };

export type JobKind = keyof Jobs;
export type JobOf<K extends JobKind> = { readonly kind: K } & Readonly<Jobs[K][0]>;
export type Job = { [K in JobKind]: JobOf<K> }[JobKind];
export type JobResult<J extends Job> = Jobs[J["kind"]][1];

export type Note =
  | { readonly note: "abort"; readonly model: number; readonly id: number }
  | { readonly note: "release"; readonly model: number; readonly sequence: string }
  /** The weights will be overwritten and come back with a higher revision. */
  | { readonly note: "retire"; readonly model: number }
  | { readonly note: "forget"; readonly model: number };

/** What a worker is told when it starts: its pool, how many threads that has, and the kernels, for WebAssembly with its place in their memory. */
export type WorkerPlace = {
  readonly pool: number;
  readonly threads: number;
  readonly kernels: KernelChoice;
  readonly wasm?: WasmThread;
};

export type Request = { readonly id: number; readonly job: Job } | Note;
/** An id that a sample under way drew. */
export type Drawn = {
  readonly drawn: number;
  readonly id: number;
  readonly logprob: number;
  readonly top?: readonly TopLogprob[];
};
export type Reply = { readonly id: number; readonly result?: unknown; readonly error?: WireError };
/** Errors lose their class between threads. */
export type WireError = { readonly name: string; readonly message: string; readonly stack?: string };
