/**
 * The shape of a model that people choose: changes to a preset, in the words of `config.json`, so that a recipe, `saccade model create --set` and the file
 * that comes out say the same. The engines' own words are in `config.ts`.
 */
import { z } from "zod";
import { ConfigError } from "../core/errors.ts";
import type { TextConfig, VisionConfig } from "./config.ts";

const whole = z.int().min(1);
const range = z.number().positive();
const share = z.number().min(0).max(1);

const text = z.strictObject({
  hidden_size: whole.optional(),
  intermediate_size: whole.optional(),
  num_hidden_layers: whole.optional(),
  num_attention_heads: whole.optional(),
  num_key_value_heads: whole.optional(),
  head_dim: whole.optional(),
  mrope_section: z.tuple([whole, whole, whole]).optional(),
  rope_theta: range.optional(),
  max_position_embeddings: whole.optional(),
  tie_word_embeddings: z.boolean().optional(),
  initializer_range: range.optional(),
});

const vision = z.strictObject({
  depth: whole.optional(),
  hidden_size: whole.optional(),
  intermediate_size: whole.optional(),
  num_heads: whole.optional(),
  num_position_embeddings: whole.optional(),
  deepstack_visual_indexes: z.array(z.int().min(0)).optional(),
  patch_size: whole.optional(),
  spatial_merge_size: whole.optional(),
  initializer_range: range.optional(),
});

/** Changes to a preset. The width of the vision output follows the language model's. */
export const modelShape = z.strictObject({
  /** Most tokens in the vocabulary. */
  vocab_size: whole.optional(),
  /** Images are resized to between this many pixels and `max_pixels`; with the presets one token is 32 × 32. */
  min_pixels: whole.optional(),
  max_pixels: whole.optional(),
  /** Which colour is 0 to the model, in the words of preprocessor_config.json; `[0.5, 0.5, 0.5]`. Pages are white, and with `[1, 1, 1]` what is on them stands out from the start. */
  image_mean: z.tuple([share, share, share]).readonly().optional(),
  /** Standard deviation of the vision tower's position embeddings at the start; `vision.initializer_range`. Where an answer is a place, 0.5 lets a model know sooner where it looks. */
  position_range: range.optional(),
  text: text.optional(),
  vision: vision.optional(),
});
export type ModelShape = z.input<typeof modelShape>;

type Names<Config, Shape> = { readonly [name in keyof Required<Shape>]: keyof Config };

const TEXT: Names<TextConfig, z.input<typeof text>> = {
  hidden_size: "hiddenSize",
  intermediate_size: "intermediateSize",
  num_hidden_layers: "layers",
  num_attention_heads: "heads",
  num_key_value_heads: "kvHeads",
  head_dim: "headDim",
  mrope_section: "mropeSection",
  rope_theta: "ropeTheta",
  max_position_embeddings: "maxPositions",
  tie_word_embeddings: "tied",
  initializer_range: "initializerRange",
};

const VISION: Names<VisionConfig, z.input<typeof vision>> = {
  depth: "depth",
  hidden_size: "hiddenSize",
  intermediate_size: "intermediateSize",
  num_heads: "heads",
  num_position_embeddings: "positionEmbeddings",
  deepstack_visual_indexes: "deepstackIndexes",
  patch_size: "patchSize",
  spatial_merge_size: "mergeSize",
  initializer_range: "initializerRange",
};

/** The changes in the engines' words. */
export function configChanges(shape: ModelShape): { text: Partial<TextConfig>; vision: Partial<VisionConfig> } {
  return { text: renamed(shape.text ?? {}, TEXT), vision: renamed(shape.vision ?? {}, VISION) };
}

function renamed<Config>(given: object, names: Readonly<Record<string, keyof Config>>): Partial<Config> {
  const entries = Object.entries(given).flatMap(([name, value]) => {
    if (value === undefined) return [];
    const field = names[name];
    if (field !== undefined) return [[field, value]];
    throw new ConfigError(
      `A model's shape has no ${name}. Use the words of config.json: ${Object.keys(names).join(", ")}.`,
    );
  });
  // The schema, or the compiler, has checked every value under its name.
  return Object.fromEntries(entries) as Partial<Config>;
}
