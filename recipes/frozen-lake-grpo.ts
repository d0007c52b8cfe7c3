/**
 * frozen_lake after VAGEN's GRPO recipe with its filter: 32 groups of 8, several moves a turn, 0.02 for a well-formed turn, no KL. The filter keeps the groups
 * of largest variance that together hold 0.9 of it, and shortens the step as the batch shrinks. VAGEN trains Qwen2.5-VL-3B for 401 steps; ours is the
 * quickstart's model, warmed up on noisy play, and boards need at least three steps. It answers without thinking aloud: so small a model has nothing to say.
 * A cell is one patch of 16 pixels, a frame four tokens.
 */
import { defineRecipe } from "saccade";

export default defineRecipe({
  name: "frozen-lake-grpo",
  model: { preset: "quickstart" },
  envs: [
    {
      env: "frozen_lake",
      options: {
        minSteps: 3,
        cellSize: 16,
        protocol: { name: "think", thinking: false },
        prompt: "brief",
        feedback: false,
        maxTurns: 5,
      },
    },
  ],
  warmStart: {
    episodes: 32_000,
    noise: 0.4,
    batch: 16,
    optimizer: { name: "muon", learningRate: 0.015, adamLearningRate: 0.003 },
  },
  steps: 120,
  groups: 32,
  siblings: 8,
  minibatch: 64,
  sampling: { temperature: 1, maxTokens: 24, contextTokens: 768 },
  filters: [{ name: "reward-variance-top-p", topP: 0.9 }],
  loss: { name: "ppo", clipLow: 0.8, clipHigh: 1.2, dualClip: 3, entropy: 0.003 },
  optimizer: { name: "muon", learningRate: 0.0015, adamLearningRate: 0.0003 },
  schedule: { name: "cosine", floor: 0.1 },
  evaluate: { every: 40 },
  teaches: "cross a frozen lake, several moves a turn (GRPO with a filter)",
  needs: { hardware: "1 CPU core", time: "9 minutes" },
  expect:
    "512 held-out lakes, seed 0: 0.75 sampled and 0.90 greedy after the warm start, 0.87 and 0.92 after 120 steps; random play 0.03",
});
