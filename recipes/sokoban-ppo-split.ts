/**
 * sokoban after VAGEN's PPO recipe without concatenation: every turn is a sequence of its own that sees the first turn and the present image. Credit still flows
 * across turns: GAE takes a turn as one action, valued where it begins. Everything else is sokoban-ppo. Sequences stay short however
 * long an episode is; the price is a prompt for every turn.
 */
import { defineRecipe } from "saccade";

export default defineRecipe({
  name: "sokoban-ppo-split",
  model: { preset: "quickstart" },
  envs: [
    {
      env: "sokoban",
      options: {
        minSolution: 2,
        cellSize: 16,
        protocol: { name: "think", thinking: false, bonus: 0.02 },
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
  steps: 80,
  groups: 128,
  siblings: 1,
  minibatch: 32,
  filters: [],
  turns: "split",
  history: 0,
  advantage: { name: "turn-gae", whiten: true },
  critic: { optimizer: { name: "muon", learningRate: 0.005, adamLearningRate: 0.001 }, warmupSteps: 5 },
  sampling: { temperature: 1, maxTokens: 20, contextTokens: 768 },
  loss: { name: "ppo", clipLow: 0.8, clipHigh: 1.2, dualClip: 3 },
  optimizer: { name: "muon", learningRate: 0.001, adamLearningRate: 0.0002 },
  evaluate: { every: 20 },
  teaches: "push a box onto its target, each turn a sequence (PPO)",
  needs: { hardware: "2 CPU cores" },
  expect:
    "at a quarter of its warm start and 40 steps of 64 episodes 0.63 → 0.84 sampled, mean of three seeds (docs/results/sokoban.md). VAGEN reports a success of 0.38 for PPO over turns with its 3B model",
});
