/**
 * frozen_lake after VAGEN's GRPO recipe with its filter: 32 groups of 8, several moves a turn, 0.02 for a well-formed turn, no KL. The filter keeps the groups
 * of largest variance that together hold 0.9 of it, and shortens the step as the batch shrinks. VAGEN trains Qwen2.5-VL-3B for 401 steps; ours is the
 * nano model, warmed up on noisy play, and boards need at least three steps. It answers without thinking aloud: so small a model has nothing to say.
 */
import { defineRecipe } from "saccade";

export default defineRecipe({
  name: "frozen-lake-grpo",
  model: { preset: "nano", set: {} },
  envs: [
    {
      env: "frozen_lake",
      options: {
        minSteps: 3,
        cellSize: 32,
        protocol: { name: "think", thinking: false },
        prompt: "brief",
        feedback: false,
        maxTurns: 5,
      },
    },
  ],
  warmStart: {
    episodes: 12_000,
    noise: 0.4,
    batch: 32,
    optimizer: { name: "muon", learningRate: 0.01, adamLearningRate: 0.003 },
  },
  steps: 60,
  groups: 32,
  siblings: 8,
  minibatch: 64,
  sampling: { temperature: 1, maxTokens: 24, contextTokens: 768 },
  filters: [{ name: "reward-variance-top-p", topP: 0.9 }],
  loss: { name: "ppo", clipLow: 0.8, clipHigh: 1.2, dualClip: 3 },
  optimizer: { name: "muon", learningRate: 0.001, adamLearningRate: 0.0002 },
  evaluate: { every: 20 },
  expect:
    "128 held-out lakes, seed 0: 0.40 sampled and 0.57 greedy after the warm start; the reinforcement learning has not been run to its end (0.47 in training after 8 steps)",
});
