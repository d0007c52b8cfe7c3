/**
 * The quickstart: a tiny Qwen3-VL learns to cross frozen lakes that it sees as 64×64 images (16 pixels a cell, four tokens a frame). It first
 * clones noisy play, three tenths of whose moves are random, so it knows more than it does; then reward alone separates good moves from bad.
 */
import { defineRecipe } from "saccade";

export default defineRecipe({
  name: "quickstart",
  model: { preset: "quickstart" },
  envs: [
    {
      env: "frozen_lake",
      options: { minSteps: 3, cellSize: 16, protocol: "keyword", prompt: "brief", feedback: false, maxTurns: 8 },
    },
  ],
  warmStart: {
    episodes: 13_600,
    noise: 0.3,
    // Many small updates find out about paths with fewer episodes than few large ones.
    batch: 8,
    optimizer: { name: "muon", learningRate: 0.01, adamLearningRate: 0.003 },
    threads: 2,
  },
  steps: 130,
  // Many lakes, few siblings: late in a run most groups succeed whole and teach nothing.
  groups: 128,
  siblings: 4,
  minibatch: 128,
  sampling: { temperature: 1, maxTokens: 12, contextTokens: 512 },
  loss: { name: "ppo", clipLow: 0.8, clipHigh: 1.28, entropy: 0.003 },
  optimizer: { name: "muon", learningRate: 0.002, adamLearningRate: 0.0004 },
  schedule: { name: "cosine", floor: 0.1 },
  evaluate: { every: 65, seeds: [1_000_000_000, 1_000_000_255] },
  sight: { every: 65 },
  checkpoint: { every: 65 },
  rollout: { live: 512 },
  teaches: "cross a frozen lake, one move a turn (GRPO)",
  needs: { hardware: "2 CPU cores", time: "5 minutes" },
  expect:
    "over five seeds and 1,024 held-out lakes: 0.64 to 0.68 sampled and 0.83 to 0.88 greedy after the warm start; 0.87 to 0.93 sampled and 0.88 to 0.94 greedy at the end (docs/results/quickstart.md has the runs)",
});
