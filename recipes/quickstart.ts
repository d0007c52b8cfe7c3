/**
 * The quickstart: a tiny Qwen3-VL learns to cross a frozen lake that it sees as a 128×128 picture, from noisy demonstrations and then from reward alone.
 */
import { defineRecipe } from "saccade";

export default defineRecipe({
  name: "quickstart",
  model: { preset: "nano", set: {} },
  envs: [
    {
      env: "frozen_lake",
      options: { minSteps: 3, cellSize: 32, protocol: "keyword", prompt: "brief", feedback: false, maxTurns: 8 },
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
  sampling: { temperature: 1, maxTokens: 12, contextTokens: 512 },
  loss: { name: "ppo", clipLow: 0.8, clipHigh: 1.28 },
  optimizer: { name: "muon", learningRate: 0.001, adamLearningRate: 0.0002 },
  evaluate: { every: 20, seeds: [1_000_000_000, 1_000_000_255] },
  rollout: { live: 256 },
});
