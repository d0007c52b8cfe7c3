/**
 * What a run of the PyTorch engine takes on a GPU, by calculation: weights, gradients and moments by the bytes that the worker keeps of each, activations by what
 * a layer saves for its backward pass. It is meant to be somewhat too high rather than too low; docs/guide/scaling.md has the terms.
 */
import type { ModelSize } from "../../model/size.ts";

export type MemoryPlan = {
  /** GPUs that the learner's weights lie on in pieces. */
  readonly gpus: number;
  /** Rank of the adapter; without one all weights learn. */
  readonly lora?: number | undefined;
  readonly freezeVision: boolean;
  readonly dtype: "bfloat16" | "float32";
  readonly packTokens: number;
  /** Share of a pack's tokens that are of images. */
  readonly images: number;
  readonly checkpointing: boolean;
  /** Masters, gradients and moments lie in host memory. */
  readonly offload: boolean;
  /** Frozen layers of the language part in 4 or 8 bits; with an adapter only. */
  readonly base?: "nf4" | "int8" | undefined;
  /** The optimizer's moments in 8 bits. */
  readonly moments?: "int8" | undefined;
  readonly critic: boolean;
  readonly reference: boolean;
  /** Where replies are sampled: beside the learner on every GPU, or on servers of their own. */
  readonly sampler: "worker" | "apart";
  /** As in recipes: so many older versions are sampled from beside the newest. */
  readonly staleness: number;
  /** Episodes that are live at a time, and the tokens of the longest, for the cache of keys and values. */
  readonly live: number;
  readonly contextTokens: number;
  /** Limit of each version's cache. */
  readonly cacheBytes: number;
};

export type Memory = {
  /** Bytes by part, on the first GPU; the others have no `reference`, and no `sampler` where servers sample. */
  readonly parts: Readonly<Record<Part, number>>;
  readonly first: number;
  readonly others: number;
  /** Bytes of host memory for each GPU. */
  readonly host: number;
};
export type Part = "weights" | "gradients" | "moments" | "activations" | "sampler" | "cache" | "reference" | "context";

/** The CUDA context, the allocator's slack and one chunk of logits with its gradient. */
const CONTEXT_BYTES = 2 * 2 ** 30;
/** Bytes of a weight with its share of the scale of 64 weights, and of a moment with its share of 256, as in python/saccade_torch. */
const BASE_BYTES = { nf4: 0.5 + 4 / 64, int8: 1 + 4 / 64 };
const SMALL_MOMENT_BYTES = 1 + 4 / 256;
/** Of the cache on CUDA. */
const [MIN_SLOTS, MAX_SLOTS, MIN_SLOT_TOKENS] = [64, 512, 1024];

export function memoryOf(size: ModelSize, plan: MemoryPlan): Memory {
  const { vision, embedding, language, head } = size.parameters;
  const all = vision + embedding + language + head;
  const wide = plan.dtype === "float32" ? 4 : 2;
  const share = 1 / plan.gpus;
  const adapters = plan.lora === undefined ? 0 : adapterSize(size, plan.lora, plan.freezeVision);
  // A frozen tower is whole on every rank; other frozen weights lie in pieces like the rest.
  const frozenTower = plan.freezeVision ? vision : 0;
  const learned = plan.lora === undefined ? all - frozenTower : adapters;
  const frozen = plan.lora === undefined ? 0 : all - frozenTower;
  const learners = plan.critic ? 2 : 1;
  const host = plan.offload ? learners * learned * 16 * share : 0;
  const kept = plan.offload ? 0 : learners * learned * share;
  // Without pieces every use casts a master, and the backward pass keeps what was cast; pieces are gathered a layer at a time, two at once.
  const cast = plan.lora !== undefined || wide === 4 ? 0 : plan.gpus === 1 ? all : gathered(size);
  // What is quantised is whole on every rank, and snapshots share its codes.
  const small = plan.base === undefined ? 0 : quantized(size);
  const codes = plan.base === undefined ? 0 : BASE_BYTES[plan.base] * small;
  const apart = plan.lora === undefined ? 0 : small;
  const weights =
    4 * kept + learners * (wide * ((frozen - apart) * share + frozenTower) + (apart && codes)) + wide * cast;
  // Adapters of a model that was opened for itself stay in 32 bits.
  const copy = wide * (all - small) + codes + 4 * adapters;
  // A learner in one piece shares what is frozen with its snapshots. One in pieces, or in host memory, opens the whole model for each.
  const isSharded = plan.gpus > 1 || plan.offload;
  const snapshot = isSharded ? copy : wide * learned;
  // Where servers sample, the worker keeps the same snapshots: it scores with them.
  const versions = plan.staleness + 1;
  const parts = {
    weights,
    gradients: 4 * kept,
    moments: (plan.moments === undefined ? 8 : 2 * SMALL_MOMENT_BYTES) * kept,
    activations: activations(size, plan) * wide,
    sampler: versions * snapshot,
    cache: plan.sampler === "worker" ? versions * cacheSize(size, plan, wide) : 0,
    // It is opened from a folder: under LoRA with a base of its own.
    reference: plan.reference ? copy : 0,
    context: CONTEXT_BYTES,
  };
  const first = Object.values(parts).reduce((sum, bytes) => sum + bytes, 0);
  const others = first - parts.reference - (plan.sampler === "apart" ? parts.sampler : 0);
  return { parts, first, others, host };
}

/** Fewest GPUs (1, 2, 4, … `most`) on which a plan fits, or undefined where more of them would not help. */
export function gpusNeeded(size: ModelSize, plan: MemoryPlan, bytes: number, most = 1024): number | undefined {
  for (let gpus = 1; gpus <= most; gpus *= 2) if (memoryOf(size, { ...plan, gpus }).first <= bytes) return gpus;
  return undefined;
}

/** Weights that `base` quantises: the matrices of the language layers, experts apart. */
function quantized({ text: { layers, hidden, queries, keys, inner }, modelType }: ModelSize): number {
  return layers * (hidden * 2 * (queries + keys) + (modelType === "qwen3_vl_moe" ? 0 : 3 * hidden * inner));
}

function gathered({ parameters: { language, embedding, head }, text }: ModelSize): number {
  return (2 * language) / text.layers + Math.max(embedding, head);
}

/**
 * The cache of keys and values of one version, as python/saccade_torch/kv_cache.py allocates it: slots of equal length, a power of two or three quarters of one,
 * and one slot more.
 * It starts with `MIN_SLOTS` of `MIN_SLOT_TOKENS` however few episodes are live, and quadruples the slots when they run short.
 */
function cacheSize({ text }: ModelSize, plan: MemoryPlan, wide: number): number {
  const power = 2 ** Math.ceil(Math.log2(plan.contextTokens));
  const length = Math.max(MIN_SLOT_TOKENS, plan.contextTokens <= 0.75 * power ? 0.75 * power : power);
  const slot = 2 * text.keys * text.layers * length * wide;
  let slots = MIN_SLOTS;
  while (slots < Math.min(plan.live, MAX_SLOTS)) slots *= 4;
  return (Math.max(1, Math.min(slots, MAX_SLOTS, Math.floor(plan.cacheBytes / slot))) + 1) * slot;
}

/** Every linear layer gets two factors. */
function adapterSize({ text, vision }: ModelSize, rank: number, freezeVision: boolean): number {
  const { hidden, queries, keys, inner, layers } = text;
  const layer = 2 * (hidden + queries) + 2 * (hidden + keys) + 3 * (hidden + inner);
  const block = 4 * vision.hidden + 2 * vision.hidden + 2 * (vision.hidden + vision.inner);
  return rank * (layers * layer + (freezeVision ? 0 : vision.depth * block));
}

/** Numbers that the forward pass of a pack leaves for the backward pass. */
function activations({ text, vision }: ModelSize, plan: MemoryPlan): number {
  const { hidden, queries, keys, inner, layers } = text;
  // Inputs of norms and projections, queries and keys before and after norm and rotation, what attention gives, the gated product.
  const layer = 4 * hidden + 3 * queries + 4 * keys + 2.5 * inner;
  const block = 12 * vision.hidden + 2.5 * vision.inner;
  const tower = plan.freezeVision ? 0 : vision.depth;
  // One token is four patches.
  const patches = 4 * plan.images * plan.packTokens;
  if (plan.checkpointing) {
    const text = plan.packTokens * (layers * hidden + layer);
    return text + (tower === 0 ? 0 : patches * (tower * vision.hidden + block));
  }
  return plan.packTokens * layers * layer + patches * tower * block;
}
