/** What travels: the SDK's types under the SDK's names, their fields as they are on the wire. */
import { DataError } from "../core/errors.ts";

export type EncodedTextChunk = { readonly type: "encoded_text"; readonly tokens: ArrayLike<number> };
/** An image file. It stands for its placeholders only: the ids around them belong to the text. */
export type ImageChunk = {
  readonly type: "image";
  readonly data: Uint8Array;
  readonly format: "png" | "jpeg";
  readonly expected_tokens?: number;
};
/** For sampling only. */
export type ImageAssetPointerChunk = {
  readonly type: "image_asset_pointer";
  readonly location: string;
  readonly format: "png" | "jpeg";
  readonly expected_tokens?: number;
};
export type ModelInputChunk = EncodedTextChunk | ImageChunk | ImageAssetPointerChunk;

export class ModelInput {
  readonly chunks: readonly ModelInputChunk[];

  constructor(chunks: readonly ModelInputChunk[]) {
    this.chunks = chunks;
  }

  static empty(): ModelInput {
    return new ModelInput([]);
  }

  static fromInts(tokens: ArrayLike<number>): ModelInput {
    return new ModelInput([{ type: "encoded_text", tokens }]);
  }

  append(chunk: ModelInputChunk): ModelInput {
    return new ModelInput([...this.chunks, chunk]);
  }

  appendInt(token: number): ModelInput {
    return this.append({ type: "encoded_text", tokens: [token] });
  }

  /** Positions, images included; needs `expected_tokens` of each image. */
  get length(): number {
    return this.chunks.reduce((sum, chunk) => {
      if (chunk.type === "encoded_text") return sum + chunk.tokens.length;
      if (chunk.expected_tokens === undefined) throw new DataError("An image without expected_tokens has no length.");
      return sum + chunk.expected_tokens;
    }, 0);
  }

  toInts(): number[] {
    return this.chunks.flatMap((chunk) => {
      if (chunk.type !== "encoded_text")
        throw new DataError("A model input with images can't be turned into ids alone.");
      return Array.from(chunk.tokens);
    });
  }
}

export type TensorDtype = "int64" | "float32";
/** Row by row, or by compressed sparse rows. */
export type TensorData = {
  readonly data: ArrayLike<number>;
  readonly dtype: TensorDtype;
  readonly shape?: readonly number[];
  readonly sparse_crow_indices?: readonly number[];
  readonly sparse_col_indices?: readonly number[];
};

export type Datum = {
  readonly model_input: ModelInput;
  /** Bare numbers are whole under `target_tokens` and floats elsewhere. */
  readonly loss_fn_inputs: Readonly<Record<string, TensorData | ArrayLike<number>>>;
};

export function tensorOf(name: string, given: TensorData | ArrayLike<number>): TensorData {
  if ("dtype" in given) return given;
  return { data: given, dtype: name === "target_tokens" ? "int64" : "float32" };
}

export function shapeOf({ shape, data }: TensorData): readonly number[] {
  return shape ?? [data.length];
}

export type LossFnType = "cross_entropy" | "importance_sampling" | "ppo" | "cispo" | "dro" | "gspo" | (string & {});
export type LossFnConfig = Readonly<Record<string, number | string>>;

export type ForwardBackwardOutput = {
  readonly loss_fn_output_type: string;
  /** Per datum, tensors by name; `logprobs` always. */
  readonly loss_fn_outputs: readonly Readonly<Record<string, TensorData>>[];
  readonly metrics: Readonly<Record<string, number>>;
};

export type AdamParams = {
  readonly learning_rate?: number;
  readonly beta1?: number;
  readonly beta2?: number;
  readonly eps?: number;
  readonly weight_decay?: number;
  readonly grad_clip_norm?: number;
};
export const ADAM_DEFAULTS: Required<AdamParams> = {
  learning_rate: 1e-4,
  beta1: 0.9,
  beta2: 0.95,
  eps: 1e-12,
  weight_decay: 0,
  grad_clip_norm: 0,
};
/** Of another optimizer than Adam, which the model was made with. */
export type OptimizerParams = { readonly type: string; readonly [param: string]: unknown };
export type OptimStepResponse = { readonly metrics?: Readonly<Record<string, number>> | null };

export type LoraConfig = {
  /** 0 trains all weights, where a server has that. */
  readonly rank?: number;
  readonly seed?: number;
  readonly train_unembed?: boolean;
  readonly train_mlp?: boolean;
  readonly train_attn?: boolean;
};

export type SamplingParams = {
  readonly max_tokens?: number;
  /** Up to 64 bits. */
  readonly seed?: number | bigint;
  /** Absent: the model's own end of text; an empty list: nothing. */
  readonly stop?: string | readonly string[] | readonly number[];
  readonly temperature?: number;
  readonly top_k?: number;
  readonly top_p?: number;
};

export type SampleOptions = {
  readonly num_samples?: number;
  readonly include_prompt_logprobs?: boolean;
  readonly topk_prompt_logprobs?: number;
  readonly topk_sample_logprobs?: number;
  readonly prompt_alt_tokens_k?: number;
  readonly prompt_logprobs_last_n?: number;
  readonly target_prompt_logprobs?: TensorData;
  readonly signal?: AbortSignal;
};

export type TopLogprobs = readonly (readonly (readonly [id: number, logprob: number])[] | null)[];
export type SampledSequence = {
  readonly stop_reason: "stop" | "length";
  readonly tokens: Int32Array;
  readonly logprobs: Float32Array | null;
  /** Absent from older servers. */
  readonly sequence_id?: string;
  readonly topk_logprobs?: TopLogprobs;
};
export type SampleResponse = {
  readonly sequences: readonly SampledSequence[];
  /** One per position; null where there is none, as at the first. */
  readonly prompt_logprobs?: readonly (number | null)[];
  readonly topk_prompt_logprobs?: TopLogprobs;
  readonly target_prompt_logprobs?: TensorData;
  readonly prompt_alt_tokens?: { readonly tokens: TensorData; readonly logprobs: TensorData };
};

export type SupportedModel = {
  readonly model_name: string;
  readonly max_context_length?: number | null;
  readonly trainable?: boolean | null;
  readonly sampleable?: boolean | null;
};
export type GetServerCapabilitiesResponse = { readonly supported_models: readonly SupportedModel[] };
export type GetInfoResponse = {
  readonly model_id: string;
  readonly is_lora?: boolean;
  readonly lora_rank?: number | null;
  readonly model_name?: string | null;
  readonly model_data: {
    readonly arch?: string | null;
    readonly model_name?: string | null;
    readonly tokenizer_id?: string | null;
  };
};
export type WeightsInfoResponse = {
  readonly base_model: string;
  readonly is_lora: boolean;
  readonly lora_rank: number | null;
  readonly optimizer_config?: { readonly type: string } | null;
  readonly train_unembed?: boolean | null;
  readonly train_mlp?: boolean | null;
  readonly train_attn?: boolean | null;
};
export type UserMetadata = Readonly<Record<string, string>>;
export type SaveOptions = {
  readonly ttl_seconds?: number;
  readonly overwrite?: boolean;
  readonly user_metadata?: UserMetadata;
};
export type SaveWeightsResponse = { readonly path: string };
export type SaveWeightsExternalResponse = { readonly path: string; readonly size_bytes?: number | null };
export type LoadWeightsResponse = { readonly path: string };

export type Checkpoint = {
  readonly checkpoint_id: string;
  readonly checkpoint_type: "training" | "sampler" | "external";
  readonly time: string;
  readonly tinker_path: string;
  readonly size_bytes?: number | null;
  readonly public?: boolean;
  readonly user_metadata?: UserMetadata | null;
  readonly expires_at?: string | null;
};
export type TrainingRun = {
  readonly training_run_id: string;
  readonly base_model: string;
  readonly model_owner: string;
  readonly is_lora: boolean;
  readonly corrupted?: boolean;
  readonly lora_rank?: number | null;
  readonly last_request_time: string;
  readonly last_checkpoint?: Checkpoint | null;
  readonly last_sampler_checkpoint?: Checkpoint | null;
  readonly user_metadata?: UserMetadata | null;
};
export type Cursor = { readonly offset: number; readonly limit: number; readonly total_count: number };
export type TrainingRunsResponse = { readonly training_runs: readonly TrainingRun[]; readonly cursor: Cursor };
export type CheckpointsListResponse = { readonly checkpoints: readonly Checkpoint[]; readonly cursor?: Cursor | null };
export type GetSessionResponse = {
  readonly training_run_ids: readonly string[];
  readonly sampler_ids: readonly string[];
  readonly user_metadata?: UserMetadata | null;
  readonly display_name?: string | null;
};
export type ListSessionsResponse = { readonly sessions: readonly string[] };
export type GetSamplerResponse = {
  readonly sampler_id: string;
  readonly base_model: string;
  readonly model_path?: string | null;
};
export type ExternalWeightsUrlsResponse = { readonly urls: Readonly<Record<string, string>>; readonly expires: string };
