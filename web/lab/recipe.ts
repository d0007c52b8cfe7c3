/**
 * What the lab's agent is and how it learns: a Qwen3-VL of about 0.2 million parameters sees the lake in patches of one cell. It clones play
 * four tenths of whose moves are random, so it knows more than it does; then reward alone (GRPO) separates good moves from bad, as in `recipes/quickstart.ts`.
 */
import type { CreateOptions } from "../../src/model/new-model.ts";
import { type Recipe, resolveRecipe } from "../../src/train/recipe.ts";
import type { LabSettings } from "./messages.ts";

/** Pixels of a cell, and of a patch. */
const CELL = 8;

/** Evaluated after so many updates. */
export const EVALUATE = { imitate: 50, reinforce: 5 } as const;

export function modelOptions(size: number, seed: number): CreateOptions {
  const pixels = (size * CELL) ** 2;
  return {
    preset: "nano",
    seed,
    min_pixels: pixels,
    max_pixels: pixels,
    vision: {
      patch_size: CELL,
      // A frame must be whole tokens: 2 × 2 cells each where they fit.
      spatial_merge_size: size % 2 === 0 ? 2 : 1,
      hidden_size: 32,
      intermediate_size: 64,
      num_heads: 2,
      num_position_embeddings: size * size,
      // So small a model sees sooner with larger first weights.
      initializer_range: 0.1,
    },
    text: {
      num_hidden_layers: 2,
      num_attention_heads: 2,
      num_key_value_heads: 1,
      initializer_range: 0.08,
    },
  };
}

export const lakeOptions = (size: number) => ({
  size,
  minSteps: 2,
  cellSize: CELL,
  protocol: "keyword",
  prompt: "brief" as const,
  feedback: false,
  maxTurns: 2 * size,
});

/** The recipe under these settings; `resolveRecipe` checks it as it does every other. */
export function labRecipe({ size, temperature, learningRate }: LabSettings, seed: number): Recipe {
  return resolveRecipe({
    name: "lab",
    seed,
    model: { preset: "nano" },
    envs: [{ env: "frozen_lake", options: lakeOptions(size) }],
    warmStart: {
      episodes: 3200,
      noise: 0.4,
      batch: 8,
      optimizer: { name: "muon", learningRate: (10 / 3) * learningRate, adamLearningRate: learningRate },
    },
    steps: 100_000,
    groups: 16,
    siblings: 8,
    sampling: { temperature, maxTokens: 8, contextTokens: 512 },
    loss: { name: "ppo", clipLow: 0.8, clipHigh: 1.28, entropy: 0.003 },
    optimizer: { name: "muon", learningRate, adamLearningRate: 0.2 * learningRate },
    rollout: { live: 128 },
  });
}
