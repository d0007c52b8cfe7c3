/**
 * geometry3k after SkyRL: a diagram, a tool that scores answers, and a second try. A line crosses two parallels, and the model finds the angle marked x in a 64×64 picture (four tokens); the
 * verdict tells whether the right number is larger or smaller. The warm start imitates a player who guesses, wrongly, in six turns of ten; reward then separates looking from guessing.
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
        form: "tags",
        prompt: "brief",
        maxTurns: 2,
      },
    },
  ],
  warmStart: {
    episodes: 32_000,
    noise: 0.6,
    batch: 8,
    optimizer: { name: "muon", learningRate: 0.01, adamLearningRate: 0.002 },
  },
  steps: 60,
  groups: 32,
  siblings: 8,
  minibatch: 64,
  sampling: { temperature: 1, maxTokens: 56, contextTokens: 384 },
  loss: { name: "ppo", clipLow: 0.8, clipHigh: 1.28, entropy: 0.003 },
  optimizer: { name: "muon", learningRate: 0.001, adamLearningRate: 0.0002 },
  evaluate: { every: 20, seeds: [1_000_000_000, 1_000_000_511] },
  sight: { every: 20 },
  expect: "not yet run to its end here",
});
