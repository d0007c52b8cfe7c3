/**
 * maze_2d from nothing on one GPU, in nine minutes: the protocol, rewards and turns of `maze-2d-sft` with seven times its parameters, `--engine torch`. The warm start
 * shows it 64,000 boards; reinforcement learning plays 32 × 8 episodes a step, as SkyRL's recipe does with Qwen3-VL-8B, and finds little left to do.
 */
import { defineRecipe } from "saccade";

export default defineRecipe({
  name: "maze-2d-gpu",
  engine: { name: "torch", compile: false, packTokens: 40_000 },
  model: {
    preset: "micro",
    set: {
      text: {
        hidden_size: 256,
        intermediate_size: 704,
        num_hidden_layers: 8,
        num_attention_heads: 8,
        num_key_value_heads: 4,
      },
      vision: { depth: 2, hidden_size: 128, intermediate_size: 384, num_heads: 4 },
    },
  },
  envs: [
    {
      env: "maze_2d/easy",
      options: {
        cellSize: 16,
        padTo: 32,
        protocol: { name: "tuple", tags: true, pick: "first" },
        formatReward: { kind: "mixture", task: 0.8, format: 0.2 },
        prompt: "brief",
        feedback: false,
        maxTurns: 15,
      },
    },
  ],
  warmStart: {
    episodes: 64_000,
    noise: 0.15,
    labels: "agreed",
    batch: 32,
    threads: 4,
    optimizer: { name: "muon", learningRate: 0.01, adamLearningRate: 0.002 },
  },
  steps: 20,
  groups: 32,
  siblings: 8,
  minibatch: 64,
  sampling: { temperature: 0.7, maxTokens: 32, contextTokens: 1536 },
  loss: { name: "ppo", clipLow: 0.8, clipHigh: 1.2 },
  optimizer: { name: "muon", learningRate: 0.001, adamLearningRate: 0.0002 },
  evaluate: { temperature: 0.7, every: 20, seeds: [1_000_000, 1_001_023] },
  rollout: { live: 256 },
  teaches: "find the way through a maze with 7 million parameters (GRPO)",
  needs: { hardware: "1 GPU", time: "9 minutes on an H200" },
  expect:
    "on an H200 beside four other runs, 1,024 boards: 0.720 sampled and 0.722 greedy, where the oracle has 0.722 (docs/results/maze-2d.md)",
});
