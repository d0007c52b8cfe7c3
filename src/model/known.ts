/**
 * The shapes of the models that people train, as the fields of their `config.json` that decide sizes: what memory they take can be said before anything is
 * downloaded. What is left out is the default of `config.ts`.
 */
import type { JsonObject } from "../core/json.ts";

const SMALL_TOWER = { depth: 24, hidden_size: 1024, intermediate_size: 4096, deepstack_visual_indexes: [5, 11, 17] };
const LARGE_TOWER = { depth: 27, hidden_size: 1152, intermediate_size: 4304, deepstack_visual_indexes: [8, 16, 24] };

type Text = {
  readonly layers: number;
  readonly width: number;
  readonly heads: readonly [queries: number, keys: number];
  readonly inner: number;
  /** Experts, how many of them a token goes through, and their inner width. */
  readonly experts?: readonly [all: number, active: number, inner: number];
};

function qwen3({ layers, width, heads, inner, experts }: Text, tower: JsonObject, tied: boolean): JsonObject {
  const [all, active, narrow] = experts ?? [];
  const type = experts === undefined ? "qwen3_vl" : "qwen3_vl_moe";
  return {
    architectures: [experts === undefined ? "Qwen3VLForConditionalGeneration" : "Qwen3VLMoeForConditionalGeneration"],
    model_type: type,
    tie_word_embeddings: tied,
    text_config: {
      model_type: `${type}_text`,
      num_hidden_layers: layers,
      hidden_size: width,
      num_attention_heads: heads[0],
      num_key_value_heads: heads[1],
      head_dim: 128,
      intermediate_size: inner,
      max_position_embeddings: 262_144,
      vocab_size: 151_936,
      rope_theta: 5_000_000,
      rope_scaling: { rope_type: "default", mrope_interleaved: true, mrope_section: [24, 20, 20] },
      ...(experts && { num_experts: all, num_experts_per_tok: active, moe_intermediate_size: narrow }),
    },
    vision_config: { ...tower, out_hidden_size: width },
  } as JsonObject;
}

function qwen25(layers: number, width: number, heads: readonly [number, number], inner: number, tied: boolean) {
  return {
    architectures: ["Qwen2_5_VLForConditionalGeneration"],
    model_type: "qwen2_5_vl",
    num_hidden_layers: layers,
    hidden_size: width,
    num_attention_heads: heads[0],
    num_key_value_heads: heads[1],
    intermediate_size: inner,
    max_position_embeddings: 128_000,
    vocab_size: tied ? 151_936 : 152_064,
    tie_word_embeddings: tied,
    vision_config: { depth: 32, hidden_size: 1280, intermediate_size: 3420, patch_size: 14, out_hidden_size: width },
  } satisfies JsonObject;
}

export const KNOWN_MODELS: Readonly<Record<string, JsonObject>> = {
  "Qwen3-VL-2B": qwen3({ layers: 28, width: 2048, heads: [16, 8], inner: 6144 }, SMALL_TOWER, true),
  "Qwen2.5-VL-3B": qwen25(36, 2048, [16, 2], 11_008, true),
  "Qwen3-VL-4B": qwen3({ layers: 36, width: 2560, heads: [32, 8], inner: 9728 }, SMALL_TOWER, true),
  "Qwen2.5-VL-7B": qwen25(28, 3584, [28, 4], 18_944, false),
  "Qwen3-VL-8B": qwen3({ layers: 36, width: 4096, heads: [32, 8], inner: 12_288 }, LARGE_TOWER, false),
  "Qwen3-VL-30B-A3B": qwen3(
    { layers: 48, width: 2048, heads: [32, 4], inner: 6144, experts: [128, 8, 768] },
    LARGE_TOWER,
    false,
  ),
  "Qwen3-VL-32B": qwen3({ layers: 64, width: 5120, heads: [64, 8], inner: 25_600 }, LARGE_TOWER, false),
  "Qwen3-VL-235B-A22B": qwen3(
    { layers: 94, width: 4096, heads: [64, 4], inner: 12_288, experts: [128, 8, 1536] },
    LARGE_TOWER,
    false,
  ),
};
