/**
 * maze_2d after SkyRL's first VisGym recipe: a model that was taught to act gets better by reward. Tuple actions inside <observation>, <justification> and
 * <action>, 0.8 task + 0.2 format, 15 turns, temperature 0.7, no KL. Theirs is Qwen3-VL-8B with lr 1e-6 and batches of 32×8; ours has a million parameters,
 * learns from nothing. Two things make it learn at all (docs/results/maze-2d.md): a cell is one 16-pixel patch, so a frame has 25 tokens, and the tags
 * hold a word each, so a reply has 25 of which one decides. One move of ten is random; the reply says so and is not learned, so the model has seen how to come back.
 * Fifteen turns are too few for some boards: the ceiling is about 0.72. After the warm start few groups of siblings differ, so a step plays 128 of them for one update.
 */
import { defineRecipe } from "saccade";

export default defineRecipe({
  name: "maze-2d-sft",
  model: {
    preset: "micro",
    set: {
      text: { hidden_size: 128, intermediate_size: 320, num_hidden_layers: 4, num_attention_heads: 4 },
      vision: { depth: 1 },
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
    episodes: 46_800,
    noise: 0.1,
    labels: "agreed",
    batch: 16,
    optimizer: { name: "muon", learningRate: 0.01, adamLearningRate: 0.003 },
  },
  steps: 30,
  groups: 128,
  siblings: 8,
  minibatch: 1024,
  sampling: { temperature: 0.7, maxTokens: 32, contextTokens: 1536 },
  loss: { name: "ppo", clipLow: 0.8, clipHigh: 1.2 },
  optimizer: { name: "muon", learningRate: 0.0015, adamLearningRate: 0.0003 },
  evaluate: { temperature: 0.7, every: 10 },
  teaches: "find the way through a maze, well taught beforehand (GRPO)",
  needs: { hardware: "2 CPU cores" },
  expect:
    "with --engine torch, 1,024 boards: 0.68 sampled and 0.69 greedy after the warm start, 0.69 and 0.70 after reinforcement learning, where the oracle has 0.72 (docs/results/maze-2d.md). SkyRL reports a reward of 0.14 before and about 0.78 after 45 steps for its 8B model",
});
