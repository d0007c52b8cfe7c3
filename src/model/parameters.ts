/**
 * The parameters of a model: Hugging Face names and shapes in a fixed order (vision first, then language, then the head
 * when it is not the embedding), and random values to start from, as transformers would draw them.
 */
import { checkSeed, mixSeed } from "../core/seed.ts";
import type { ModelConfig } from "./config.ts";
import type { Tensors } from "./safetensors.ts";

export const VISION_PREFIX = "model.visual.";
const POSITIONS = `${VISION_PREFIX}pos_embed.weight`;
export const LANGUAGE_PREFIX = "model.language_model.";

/** Every parameter with its shape; matrices are [out, in]. */
export function parameterShapes(config: ModelConfig): Map<string, readonly number[]> {
  const { vision, text } = config;
  const shapes = new Map<string, readonly number[]>();
  const add = (name: string, ...shape: number[]) => shapes.set(name, shape);
  const linear = (name: string, out: number, from: number) => {
    add(`${name}.weight`, out, from);
    add(`${name}.bias`, out);
  };
  const layerNorm = (name: string, size: number) => {
    add(`${name}.weight`, size);
    add(`${name}.bias`, size);
  };

  const { hiddenSize: width, patchSize, temporalPatchSize } = vision;
  const eyes = VISION_PREFIX;
  add(`${eyes}patch_embed.proj.weight`, width, 3, temporalPatchSize, patchSize, patchSize);
  add(`${eyes}patch_embed.proj.bias`, width);
  add(`${eyes}pos_embed.weight`, vision.positionEmbeddings, width);
  for (let i = 0; i < vision.depth; i++) {
    const block = `${eyes}blocks.${i}.`;
    layerNorm(`${block}norm1`, width);
    layerNorm(`${block}norm2`, width);
    linear(`${block}attn.qkv`, 3 * width, width);
    linear(`${block}attn.proj`, width, width);
    linear(`${block}mlp.linear_fc1`, vision.intermediateSize, width);
    linear(`${block}mlp.linear_fc2`, width, vision.intermediateSize);
  }
  const merged = width * vision.mergeSize ** 2;
  // The main merger normalises patches before they are merged, the DeepStack mergers after.
  const merger = (name: string, normSize: number) => {
    layerNorm(`${name}.norm`, normSize);
    linear(`${name}.linear_fc1`, merged, merged);
    linear(`${name}.linear_fc2`, vision.outHiddenSize, merged);
  };
  merger(`${eyes}merger`, width);
  for (const i of vision.deepstackIndexes.keys()) merger(`${eyes}deepstack_merger_list.${i}`, merged);

  const { hiddenSize: hidden, headDim, heads, kvHeads, intermediateSize } = text;
  add(`${LANGUAGE_PREFIX}embed_tokens.weight`, text.vocabSize, hidden);
  for (let i = 0; i < text.layers; i++) {
    const layer = `${LANGUAGE_PREFIX}layers.${i}.`;
    add(`${layer}self_attn.q_proj.weight`, heads * headDim, hidden);
    add(`${layer}self_attn.k_proj.weight`, kvHeads * headDim, hidden);
    add(`${layer}self_attn.v_proj.weight`, kvHeads * headDim, hidden);
    add(`${layer}self_attn.o_proj.weight`, hidden, heads * headDim);
    add(`${layer}self_attn.q_norm.weight`, headDim);
    add(`${layer}self_attn.k_norm.weight`, headDim);
    add(`${layer}mlp.gate_proj.weight`, intermediateSize, hidden);
    add(`${layer}mlp.up_proj.weight`, intermediateSize, hidden);
    add(`${layer}mlp.down_proj.weight`, hidden, intermediateSize);
    add(`${layer}input_layernorm.weight`, hidden);
    add(`${layer}post_attention_layernorm.weight`, hidden);
  }
  add(`${LANGUAGE_PREFIX}norm.weight`, hidden);
  if (!text.tied) add("lm_head.weight", text.vocabSize, hidden);
  return shapes;
}

export function parameterCount(config: ModelConfig): number {
  return [...parameterShapes(config).values()].reduce((sum, shape) => sum + elementCount(shape), 0);
}

export function elementCount(shape: readonly number[]): number {
  return shape.reduce((product, side) => product * side, 1);
}

/** Norm scales 1, biases 0, everything else normal with the config's initializer range (positions of patches: `positionRange`); decided by `seed` alone. */
export function initialParameters(config: ModelConfig, seed: number, positionRange?: number): Tensors {
  checkSeed(seed);
  const tensors: Tensors = new Map();
  for (const [name, shape] of parameterShapes(config)) {
    const data = new Float32Array(elementCount(shape));
    if (shape.length > 1) {
      const own = name === POSITIONS ? positionRange : undefined;
      const part = name.startsWith(VISION_PREFIX) ? config.vision : config.text;
      // A stream per tensor: changing one shape leaves the other tensors as they were.
      fillNormal(data, own ?? part.initializerRange, mixSeed("initial parameters", seed, name));
    } else if (name.endsWith(".weight")) {
      data.fill(1);
    }
    tensors.set(name, { shape, data });
  }
  return tensors;
}

/** Box–Muller over a 32-bit generator (sfc32): plain numbers, so that twenty million draws take about a second. */
function fillNormal(data: Float32Array, deviation: number, seed: number): void {
  const uniform = smallFastCounter(seed);
  for (let i = 0; i < data.length; i += 2) {
    const radius = deviation * Math.sqrt(-2 * Math.log(1 - uniform()));
    const angle = 2 * Math.PI * uniform();
    data[i] = radius * Math.cos(angle);
    if (i + 1 < data.length) data[i + 1] = radius * Math.sin(angle);
  }
}

/** Chris Doty-Humphrey's sfc32: reals in [0, 1) with 32 random bits. */
function smallFastCounter(seed: number): () => number {
  let a = 0x9e3779b9;
  let b = seed | 0;
  let c = 0x243f6a88;
  let counter = 1;
  const next = () => {
    const sum = (a + b + counter) | 0;
    counter = (counter + 1) | 0;
    a = b ^ (b >>> 9);
    b = (c + (c << 3)) | 0;
    c = (((c << 21) | (c >>> 11)) + sum) | 0;
    return (sum >>> 0) / 0x1_0000_0000;
  };
  for (let i = 0; i < 16; i++) next();
  return next;
}
