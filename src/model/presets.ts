/**
 * Small models worth training from nothing, for tiny visual worlds. Sizes are chosen for our kernels (widths are multiples
 * of 16) and for vLLM, which serves no language head below 32; queries are grouped, and every model has at least one
 * DeepStack layer, so that what works on a preset works on the big ones. `vocab` counts bytes, merges and special tokens.
 */
import { ConfigError } from "../core/errors.ts";
import type { TextConfig, VisionConfig } from "./config.ts";

type Shape = {
  readonly vocab: number;
  readonly text: Omit<TextConfig, "vocabSize">;
  readonly vision: VisionConfig;
};

const textDefaults = {
  eps: 1e-6,
  ropeTheta: 10_000,
  tied: true,
  maxPositions: 8192,
  act: "silu",
  initializerRange: 0.02,
} as const;
const visionDefaults = {
  patchSize: 16,
  temporalPatchSize: 2,
  mergeSize: 2,
  positionEmbeddings: 256,
  ropeTheta: 10_000,
  act: "gelu_pytorch_tanh",
  initializerRange: 0.02,
} as const;

export const PRESETS = {
  /** About 0.4 million parameters: seconds to learn a toy, tests, a first look. */
  nano: {
    vocab: 512,
    text: {
      ...textDefaults,
      hiddenSize: 64,
      intermediateSize: 128,
      layers: 4,
      heads: 4,
      kvHeads: 2,
      headDim: 32,
      mropeSection: [6, 5, 5],
    },
    vision: {
      ...visionDefaults,
      depth: 1,
      hiddenSize: 48,
      intermediateSize: 96,
      heads: 3,
      outHiddenSize: 64,
      deepstackIndexes: [0],
    },
  },
  /** About 0.8 million: what the quickstart and the other small recipes train. */
  quickstart: {
    vocab: 1024,
    text: {
      ...textDefaults,
      hiddenSize: 96,
      intermediateSize: 256,
      layers: 4,
      heads: 3,
      kvHeads: 1,
      headDim: 32,
      mropeSection: [6, 5, 5],
    },
    vision: {
      ...visionDefaults,
      depth: 1,
      hiddenSize: 64,
      intermediateSize: 128,
      heads: 4,
      outHiddenSize: 96,
      deepstackIndexes: [0],
    },
  },
  /** About 3 million: enough for mazes and lakes. */
  micro: {
    vocab: 1024,
    text: {
      ...textDefaults,
      hiddenSize: 192,
      intermediateSize: 512,
      layers: 6,
      heads: 6,
      kvHeads: 2,
      headDim: 32,
      mropeSection: [6, 5, 5],
    },
    vision: {
      ...visionDefaults,
      depth: 2,
      hiddenSize: 64,
      intermediateSize: 192,
      heads: 4,
      outHiddenSize: 192,
      deepstackIndexes: [0],
    },
  },
  /** About 20 million: the most that is pleasant on a laptop's CPU. */
  mini: {
    vocab: 2048,
    text: {
      ...textDefaults,
      hiddenSize: 384,
      intermediateSize: 960,
      layers: 10,
      heads: 6,
      kvHeads: 2,
      headDim: 64,
      mropeSection: [12, 10, 10],
    },
    vision: {
      ...visionDefaults,
      depth: 4,
      hiddenSize: 192,
      intermediateSize: 512,
      heads: 6,
      outHiddenSize: 384,
      deepstackIndexes: [0, 2],
    },
  },
} as const satisfies Record<string, Shape>;

export type PresetName = keyof typeof PRESETS;
export const PRESET_NAMES = Object.keys(PRESETS) as [PresetName, ...PresetName[]];
export type PresetShape = Shape;

export function findPreset(name: string): PresetShape {
  if (Object.hasOwn(PRESETS, name)) return PRESETS[name as PresetName];
  throw new ConfigError(`There is no model preset "${name}". The presets are ${PRESET_NAMES.join(", ")}.`);
}
