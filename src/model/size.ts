/** How large a model is, from its `config.json` alone: parameters by part, and the widths that memory is made of. */
import { z } from "zod";
import { ConfigError } from "../core/errors.ts";

export type ModelSize = {
  /** Parameters. `head` is 0 where it is the embedding. */
  readonly parameters: {
    readonly vision: number;
    readonly embedding: number;
    readonly language: number;
    readonly head: number;
  };
  /** Parameters of the language layers that one token goes through; fewer than all where there are experts. */
  readonly active: number;
  readonly text: {
    readonly layers: number;
    readonly hidden: number;
    readonly queries: number;
    readonly keys: number;
    /** Inner width of the feed-forward parts that a token goes through. */
    readonly inner: number;
    readonly vocab: number;
  };
  readonly vision: { readonly depth: number; readonly hidden: number; readonly inner: number };
  readonly maxPositions: number;
  readonly modelType: string;
};

/** `model_type` of the models whose size we calculate. */
const SIZED = ["qwen3_vl", "qwen3_vl_moe", "qwen2_5_vl"] as const;

/** Whether `modelSize` knows the family that a config.json names. */
export function hasKnownSize(json: unknown): boolean {
  return SIZED.some((kind) => (json as { model_type?: unknown } | undefined)?.model_type === kind);
}

const count = z.int().min(1);
const textSchema = z.looseObject({
  num_hidden_layers: count,
  hidden_size: count,
  intermediate_size: count,
  num_attention_heads: count,
  num_key_value_heads: count,
  head_dim: count.optional(),
  vocab_size: count,
  max_position_embeddings: count.default(128_000),
  num_experts: count.optional(),
  num_experts_per_tok: count.optional(),
  moe_intermediate_size: count.optional(),
});
const schema = z.looseObject({
  model_type: z.enum(SIZED),
  tie_word_embeddings: z.boolean().default(false),
  text_config: z.record(z.string(), z.unknown()).default({}),
  vision_config: z.looseObject({
    depth: count,
    hidden_size: count,
    intermediate_size: count,
    patch_size: count.default(16),
    temporal_patch_size: count.default(2),
    spatial_merge_size: count.default(2),
    num_position_embeddings: count.default(2304),
    deepstack_visual_indexes: z.array(z.int()).default([]),
  }),
});

export function modelSize(json: unknown, file = "config.json"): ModelSize {
  const config = read(schema, json, file);
  // Older folders keep the language model's fields beside the others.
  const text = read(textSchema, { ...config, ...config.text_config }, file);
  const third = config.model_type === "qwen2_5_vl";
  const { hidden_size: hidden, num_hidden_layers: layers, intermediate_size: dense, vocab_size: vocab } = text;
  const headDim = text.head_dim ?? hidden / text.num_attention_heads;
  const [queries, keys] = [text.num_attention_heads * headDim, text.num_key_value_heads * headDim];
  // Qwen2.5-VL has biases where Qwen3-VL has norms of queries and keys.
  const attention = hidden * (2 * queries + 2 * keys) + (third ? queries + 2 * keys : 2 * headDim) + 2 * hidden;
  const { num_experts: experts, num_experts_per_tok: chosen = 1, moe_intermediate_size: narrow = dense } = text;
  const expert = 3 * hidden * narrow;
  const forward = experts === undefined ? 3 * hidden * dense : experts * expert + experts * hidden;
  const used = experts === undefined ? forward : chosen * expert + experts * hidden;
  const embedding = vocab * hidden;
  return {
    parameters: {
      vision: towerSize(config.vision_config, hidden, third),
      embedding,
      language: layers * (attention + forward) + hidden,
      head: config.tie_word_embeddings ? 0 : embedding,
    },
    active: layers * (attention + used),
    text: { layers, hidden, queries, keys, inner: experts === undefined ? dense : chosen * narrow, vocab },
    vision: {
      depth: config.vision_config.depth,
      hidden: config.vision_config.hidden_size,
      inner: config.vision_config.intermediate_size,
    },
    maxPositions: text.max_position_embeddings,
    modelType: config.model_type,
  };
}

function towerSize(vision: z.output<typeof schema>["vision_config"], out: number, third: boolean): number {
  const { depth, hidden_size: width, intermediate_size: inner, spatial_merge_size: merge } = vision;
  const pixels = 3 * vision.temporal_patch_size * vision.patch_size ** 2;
  const merged = width * merge ** 2;
  const attention = 4 * width * width + 4 * width;
  const merger = (norm: number) => norm + merged * merged + merged + merged * out + out;
  // Qwen2.5-VL: gated feed-forward parts, RMS norms, no table of positions, no DeepStack.
  if (third) return pixels * width + depth * (attention + 3 * width * inner + 2 * inner + 3 * width) + merger(width);
  const block = attention + 2 * width * inner + inner + width + 4 * width;
  const deepstack = vision.deepstack_visual_indexes.length * merger(2 * merged);
  return (
    pixels * width + width + vision.num_position_embeddings * width + depth * block + merger(2 * width) + deepstack
  );
}

function read<T>(kind: z.ZodType<T>, json: unknown, file: string): T {
  const result = kind.safeParse(json);
  if (result.success) return result.data;
  const problems = result.error.issues.map(({ path, message }) => `${path.join(".") || "the file"}: ${message}`);
  throw new ConfigError(`${file} does not describe a Qwen3-VL or Qwen2.5-VL model (${problems.join("; ")}).`);
}
