/**
 * What SkyRL's two VisGym recipes share, at their own size: Qwen3-VL-8B, all weights, 32 boards of 8 siblings a step in two mini-batches, AdamW at 1e-6, a clip of 0.2,
 * 20 epochs of 256 boards, frames of 225×225 pixels (49 tokens). All siblings play the same board here; SkyRL draws one for each.
 */
import { defineRecipe, type RecipeInput } from "saccade";

export function maze8b(name: string, own: Pick<RecipeInput, "envs" | "expect"> & Partial<RecipeInput>) {
  return defineRecipe({
    name,
    model: "hf:Qwen/Qwen3-VL-8B-Instruct",
    steps: 160,
    groups: 32,
    siblings: 8,
    minibatch: 128,
    filters: [],
    loss: { name: "ppo", clipLow: 0.8, clipHigh: 1.2 },
    optimizer: { learningRate: 1e-6, beta2: 0.999, weightDecay: 0.01 },
    rollout: { live: 256 },
    checkpoint: { every: 10 },
    engine: { name: "torch", processes: 8, packTokens: 8192, checkpointing: true, cacheBytes: 12 * 2 ** 30 },
    ...own,
    sampling: { maxTokens: 1024, contextTokens: 9216, ...own.sampling },
    evaluate: { every: 10, seeds: [1_000_000_000, 1_000_000_063], ...own.evaluate },
  });
}
