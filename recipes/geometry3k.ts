/**
 * geometry3k after SkyRL: a diagram, a tool that scores answers, and a second try. A line crosses two parallels, and the model finds the angle marked x in a 64×64 image (four tokens); the
 * verdict tells whether the right number is larger or smaller. The warm start imitates a player who errs in 65 turns of 100, by one to three steps of 5°: such errors still tell what the diagram
 * shows, where answers from anywhere hid it and left the model blind. Reward then separates looking from guessing.
 */
import { defineRecipe } from "saccade";

export default defineRecipe({
  name: "geometry3k",
  model: { preset: "micro" },
  envs: [
    {
      env: "geometry3k",
      options: {
        kinds: ["parallels"],
        size: 64,
        step: 5,
        turn: 6,
        choices: 0,
        verdict: "direction",
        slips: "near",
        form: "tags",
        prompt: "brief",
        maxTurns: 2,
      },
    },
  ],
  warmStart: {
    episodes: 8000,
    noise: 0.65,
    batch: 8,
    optimizer: { name: "muon", learningRate: 0.01, adamLearningRate: 0.002 },
  },
  steps: 50,
  groups: 32,
  siblings: 8,
  minibatch: 64,
  sampling: { temperature: 1, maxTokens: 56, contextTokens: 384 },
  loss: { name: "ppo", clipLow: 0.8, clipHigh: 1.28 },
  optimizer: { name: "muon", learningRate: 0.002, adamLearningRate: 0.0004 },
  evaluate: { every: 25, seeds: [1_000_000_000, 1_000_000_511] },
  sight: { every: 25, episodes: 256 },
  teaches: "read an angle in a diagram, with a tool that scores tries (GRPO)",
  needs: { hardware: "2 CPU cores", time: "25 minutes" },
  expect:
    "512 problems: sampled .43 after the warm start, .94 after 50 steps (greedy .75, .98); first tries .62, second .84; grey diagrams .10",
});
