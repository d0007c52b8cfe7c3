/**
 * maze_2d after SkyRL's second VisGym recipe: a weak start. Theirs is an instruct model that speaks the format and hardly ever finds the way (reward 0.01);
 * ours is made weak by a short warm start on noisy play, the noisy moves as labels. Keyword actions, task reward alone, 18 turns, temperature 1,
 * KL 0.005 to the start as a part of the loss. Batches are theirs, the model has a million parameters. A cell is one patch of 16 pixels, a frame 25 tokens.
 * Groups in which no one arrives say nothing; watch groups/zero_variance fall.
 */
import { defineRecipe } from "saccade";

export default defineRecipe({
  name: "maze-2d-instruct",
  model: {
    preset: "micro",
    set: { text: { hiddenSize: 128, intermediateSize: 320, layers: 4, heads: 4 }, vision: { depth: 1 } },
  },
  envs: [
    {
      env: "maze_2d/easy",
      options: { cellSize: 16, padTo: 32, protocol: "keyword", prompt: "brief", feedback: false, maxTurns: 18 },
    },
  ],
  warmStart: {
    episodes: 20_000,
    noise: 0.3,
    labels: "played",
    batch: 16,
    optimizer: { name: "muon", learningRate: 0.01, adamLearningRate: 0.003 },
  },
  steps: 120,
  groups: 32,
  siblings: 8,
  minibatch: 128,
  sampling: { temperature: 1, maxTokens: 12, contextTokens: 1536 },
  kl: { as: "loss", coefficient: 0.005, estimator: "k3" },
  loss: { name: "ppo", clipLow: 0.8, clipHigh: 1.2 },
  optimizer: { name: "muon", learningRate: 0.003, adamLearningRate: 0.0006 },
  evaluate: { every: 10 },
  expect:
    "with --engine torch 0.09 to 0.16 sampled and 0.38 to 0.54 greedy after the warm start; one run ended at 0.49 and 0.50 on 1,024 boards (docs/results.md). SkyRL reports a reward of 0.01 before, 0.20 after 55 and 0.25 to 0.30 after 70 steps for its 8B model",
});
