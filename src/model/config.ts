/**
 * The shape of a model: `config.json` of `Qwen3VLForConditionalGeneration` as a flat, checked structure, and back. Reads
 * the layout of transformers 5 (`rope_parameters`) and the older one (`rope_theta` with `rope_scaling`); writes the
 * former. What our engine does not compute (biases in attention, scaled rotary positions, other activations) is refused
 * here, so that nothing is computed almost right.
 */
import { z } from "zod";
import { ConfigError } from "../core/errors.ts";
import type { JsonObject } from "../core/json.ts";

export type VisionConfig = {
  readonly depth: number;
  readonly hiddenSize: number;
  readonly intermediateSize: number;
  readonly heads: number;
  /** Pixels along a patch's side. */
  readonly patchSize: number;
  /** Frames in a patch; a still image is repeated. */
  readonly temporalPatchSize: number;
  /** `mergeSize`² patches become one token. */
  readonly mergeSize: number;
  /** Width of the merger's output: the language model's hidden size. */
  readonly outHiddenSize: number;
  /** Entries of the learned position table, a square number. */
  readonly positionEmbeddings: number;
  /** Blocks whose output is also added into the first language layers. */
  readonly deepstackIndexes: readonly number[];
  readonly ropeTheta: number;
  /** Of the blocks; the mergers use the exact (erf) GELU. */
  readonly act: "gelu_pytorch_tanh";
  readonly initializerRange: number;
};

export type TextConfig = {
  readonly vocabSize: number;
  readonly hiddenSize: number;
  readonly intermediateSize: number;
  readonly layers: number;
  readonly heads: number;
  readonly kvHeads: number;
  readonly headDim: number;
  /** Of every RMSNorm. */
  readonly eps: number;
  readonly ropeTheta: number;
  /** Rotary frequencies given to time, height and width (interleaved); they add up to headDim / 2. */
  readonly mropeSection: readonly [number, number, number];
  /** The language head is the embedding. */
  readonly tied: boolean;
  readonly maxPositions: number;
  readonly act: "silu";
  readonly initializerRange: number;
};

export type ModelIds = {
  readonly imageToken: number;
  readonly videoToken: number;
  readonly visionStart: number;
  readonly visionEnd: number;
  /** May be empty: then `generation_config.json` says what ends a reply. */
  readonly eos: readonly number[];
  readonly pad: number | undefined;
};

export type ModelConfig = { readonly vision: VisionConfig; readonly text: TextConfig; readonly ids: ModelIds };

export const ARCHITECTURES = ["Qwen3VLForConditionalGeneration"] as const;

const count = z.int().min(1);
const tokenId = z.int().min(0);
const scalarOrSquare = z
  .union([count, z.array(count).min(1)])
  .refine((value) => typeof value === "number" || value.every((x) => x === value[0]), "must be one number")
  .transform((value) => (typeof value === "number" ? value : (value[0] as number)));
const rope = z.looseObject({
  rope_type: z.string().optional(),
  type: z.string().optional(),
  rope_theta: z.number().positive().optional(),
  mrope_section: z.tuple([count, count, count]).optional(),
  mrope_interleaved: z.boolean().optional(),
});

const visionSchema = z.looseObject({
  depth: count.default(27),
  hidden_size: count.default(1152),
  hidden_act: z.literal("gelu_pytorch_tanh").default("gelu_pytorch_tanh"),
  intermediate_size: count.default(4304),
  num_heads: count.default(16),
  in_channels: z.literal(3).default(3),
  patch_size: scalarOrSquare.default(16),
  spatial_merge_size: count.default(2),
  temporal_patch_size: scalarOrSquare.default(2),
  out_hidden_size: count.default(3584),
  num_position_embeddings: count.default(2304),
  deepstack_visual_indexes: z.array(z.int().min(0)).default([8, 16, 24]),
  initializer_range: z.number().positive().default(0.02),
  rope_parameters: rope.nullish(),
});

const textSchema = z.looseObject({
  vocab_size: count.default(151936),
  hidden_size: count.default(4096),
  intermediate_size: count.default(22016),
  num_hidden_layers: count.default(32),
  num_attention_heads: count.default(32),
  num_key_value_heads: count.nullish(),
  head_dim: count.default(128),
  hidden_act: z.literal("silu").default("silu"),
  max_position_embeddings: count.default(128000),
  initializer_range: z.number().positive().default(0.02),
  rms_norm_eps: z.number().positive().default(1e-6),
  attention_bias: z.literal(false).default(false),
  rope_theta: z.number().positive().optional(),
  rope_scaling: rope.nullish(),
  rope_parameters: rope.nullish(),
  eos_token_id: z.union([tokenId, z.array(tokenId)]).nullish(),
  pad_token_id: tokenId.nullish(),
});

const configSchema = z.looseObject({
  text_config: textSchema,
  vision_config: visionSchema,
  image_token_id: tokenId.default(151655),
  video_token_id: tokenId.default(151656),
  vision_start_token_id: tokenId.default(151652),
  vision_end_token_id: tokenId.default(151653),
  tie_word_embeddings: z.boolean().default(false),
});

/** Reads the JSON of a `config.json`; `file` begins the messages. */
export function parseConfig(json: unknown, file = "config.json"): ModelConfig {
  checkArchitecture(json, file);
  const result = configSchema.safeParse(json);
  if (!result.success) {
    const problems = result.error.issues.map((issue) => `${issue.path.join(".") || "the file"}: ${issue.message}`);
    throw new ConfigError(`${file} describes a model that can't be built: ${problems.join("; ")}.`);
  }
  const { text_config: text, vision_config: vision, ...rest } = result.data;
  // transformers takes rope_scaling first when both are there.
  const rotary = text.rope_scaling ?? text.rope_parameters ?? {};
  const config: ModelConfig = {
    vision: {
      depth: vision.depth,
      hiddenSize: vision.hidden_size,
      intermediateSize: vision.intermediate_size,
      heads: vision.num_heads,
      patchSize: vision.patch_size,
      temporalPatchSize: vision.temporal_patch_size,
      mergeSize: vision.spatial_merge_size,
      outHiddenSize: vision.out_hidden_size,
      positionEmbeddings: vision.num_position_embeddings,
      deepstackIndexes: vision.deepstack_visual_indexes,
      ropeTheta: vision.rope_parameters?.rope_theta ?? 10_000,
      act: vision.hidden_act,
      initializerRange: vision.initializer_range,
    },
    text: {
      vocabSize: text.vocab_size,
      hiddenSize: text.hidden_size,
      intermediateSize: text.intermediate_size,
      layers: text.num_hidden_layers,
      heads: text.num_attention_heads,
      kvHeads: text.num_key_value_heads ?? text.num_attention_heads,
      headDim: text.head_dim,
      eps: text.rms_norm_eps,
      ropeTheta: rotary.rope_theta ?? text.rope_theta ?? 500_000,
      mropeSection: rotary.mrope_section ?? [24, 20, 20],
      tied: rest.tie_word_embeddings,
      maxPositions: text.max_position_embeddings,
      act: text.hidden_act,
      initializerRange: text.initializer_range,
    },
    ids: {
      imageToken: rest.image_token_id,
      videoToken: rest.video_token_id,
      visionStart: rest.vision_start_token_id,
      visionEnd: rest.vision_end_token_id,
      eos: [text.eos_token_id ?? []].flat(),
      pad: text.pad_token_id ?? undefined,
    },
  };
  const ropeType = rotary.rope_type ?? rotary.type ?? "default";
  // "mrope" is how early Qwen-VL files spelled the default type.
  if (ropeType !== "default" && ropeType !== "mrope") {
    throw new ConfigError(`${file}: rotary positions of type "${ropeType}" are not supported; only "default" is.`);
  }
  if (rotary.mrope_interleaved === false) {
    throw new ConfigError(`${file}: mrope_interleaved must be true; Qwen3-VL knows no other layout.`);
  }
  return checkConfig(config, file);
}

/** The numbers must fit together; returns the config. */
export function checkConfig(config: ModelConfig, file = "The model configuration"): ModelConfig {
  const { vision, text, ids } = config;
  const half = text.headDim / 2;
  const tableSide = Math.sqrt(vision.positionEmbeddings);
  const [, height, width] = text.mropeSection;
  const rules: [boolean, string][] = [
    [text.heads % text.kvHeads === 0, `attention heads (${text.heads}) must be a multiple of key-value heads`],
    [text.headDim % 2 === 0, `head_dim (${text.headDim}) must be even`],
    [
      text.mropeSection.reduce((sum, x) => sum + x, 0) === half,
      `mrope_section [${text.mropeSection.join(", ")}] must add up to head_dim / 2 = ${half}`,
    ],
    [
      3 * height - 2 < half && 3 * width - 1 < half,
      `mrope_section [${text.mropeSection.join(", ")}] gives height or width more frequencies than interleaving has`,
    ],
    [vision.hiddenSize % vision.heads === 0, `the vision hidden size must be a multiple of its heads`],
    [(vision.hiddenSize / vision.heads) % 4 === 0, `the vision head size must be a multiple of 4 (rows and columns)`],
    [Number.isInteger(tableSide), `num_position_embeddings (${vision.positionEmbeddings}) must be a square number`],
    [
      vision.outHiddenSize === text.hiddenSize,
      `out_hidden_size (${vision.outHiddenSize}) must equal the language hidden size (${text.hiddenSize})`,
    ],
    [
      vision.deepstackIndexes.every((index, i, all) => index < vision.depth && index > (all[i - 1] ?? -1)),
      `deepstack_visual_indexes [${vision.deepstackIndexes.join(", ")}] must rise and stay below depth ${vision.depth}`,
    ],
    [vision.deepstackIndexes.length <= text.layers, "there are more deepstack indexes than language layers"],
    ...Object.entries({ image: ids.imageToken, video: ids.videoToken, start: ids.visionStart, end: ids.visionEnd }).map(
      ([name, id]): [boolean, string] => [
        id < text.vocabSize,
        `the ${name} token id ${id} is outside the vocabulary of ${text.vocabSize}`,
      ],
    ),
  ];
  const broken = rules.filter(([holds]) => !holds).map(([, rule]) => rule);
  if (broken.length > 0) throw new ConfigError(`${file}: ${broken.join("; ")}.`);
  return config;
}

/** The `config.json` that transformers 5 loads. */
export function configJson(config: ModelConfig): JsonObject {
  const { vision, text, ids } = config;
  return {
    architectures: [...ARCHITECTURES],
    dtype: "float32",
    image_token_id: ids.imageToken,
    model_type: "qwen3_vl",
    text_config: {
      attention_bias: false,
      attention_dropout: 0,
      dtype: "float32",
      eos_token_id: ids.eos.length === 1 ? (ids.eos[0] as number) : ids.eos.length === 0 ? null : ids.eos,
      head_dim: text.headDim,
      hidden_act: text.act,
      hidden_size: text.hiddenSize,
      initializer_range: text.initializerRange,
      intermediate_size: text.intermediateSize,
      max_position_embeddings: text.maxPositions,
      model_type: "qwen3_vl_text",
      num_attention_heads: text.heads,
      num_hidden_layers: text.layers,
      num_key_value_heads: text.kvHeads,
      pad_token_id: ids.pad ?? null,
      rms_norm_eps: text.eps,
      rope_parameters: {
        mrope_interleaved: true,
        mrope_section: text.mropeSection,
        rope_theta: text.ropeTheta,
        rope_type: "default",
      },
      use_cache: true,
      vocab_size: text.vocabSize,
    },
    tie_word_embeddings: text.tied,
    video_token_id: ids.videoToken,
    vision_config: {
      deepstack_visual_indexes: vision.deepstackIndexes,
      depth: vision.depth,
      dtype: "float32",
      hidden_act: vision.act,
      hidden_size: vision.hiddenSize,
      in_channels: 3,
      initializer_range: vision.initializerRange,
      intermediate_size: vision.intermediateSize,
      model_type: "qwen3_vl_vision",
      num_heads: vision.heads,
      num_position_embeddings: vision.positionEmbeddings,
      out_hidden_size: vision.outHiddenSize,
      patch_size: vision.patchSize,
      rope_parameters: { rope_theta: vision.ropeTheta, rope_type: "axial" },
      spatial_merge_size: vision.mergeSize,
      temporal_patch_size: vision.temporalPatchSize,
    },
    vision_end_token_id: ids.visionEnd,
    vision_start_token_id: ids.visionStart,
  };
}

function checkArchitecture(json: unknown, file: string): void {
  const { architectures, model_type: type } = (json ?? {}) as { architectures?: unknown; model_type?: unknown };
  const named = Array.isArray(architectures) ? architectures.map(String) : [];
  const known = named.length === 0 ? type === "qwen3_vl" : named.some((name) => ARCHITECTURES.some((x) => x === name));
  if (known) return;
  const found = named.join(", ") || (type === undefined ? "none" : `model_type ${JSON.stringify(type)}`);
  throw new ConfigError(
    `${file}: the architecture is ${found}; supported: ${ARCHITECTURES.join(", ")}. ` +
      "Name a Qwen3-VL folder, or make a small one with `saccade model create`.",
  );
}
