/**
 * One model of 8 million parameters for nineteen worlds: VisGym's seventeen easy ones, FrozenLake and Sokoban, each seen in 16 to 80 tokens a frame and answered with one
 * keyword or a few numbers. The warm start clones oracles; reinforcement learning then plays all worlds. `--engine torch` and a GPU; `saccade eval` on the
 * model plays every world as it was trained.
 */
import { defineRecipe } from "saccade";
import { MODEL, sources } from "./parts/generalist.ts";

export default defineRecipe({
  name: "generalist",
  engine: { name: "torch", compile: true, packTokens: 130_000 },
  model: MODEL,
  envs: sources(),
  warmStart: {
    episodes: 600_000,
    // A slip now and then shows what it takes to come back; the slip itself is not learned.
    noise: 0.12,
    labels: "agreed",
    batch: 192,
    threads: 14,
    optimizer: { name: "muon", learningRate: 0.014, adamLearningRate: 0.0028 },
    schedule: { name: "linear", warmupSteps: 100, floor: 0.02 },
  },
  steps: 40,
  groups: 76,
  siblings: 8,
  minibatch: 152,
  sampling: { temperature: 1, maxTokens: 40, contextTokens: 4096 },
  loss: { name: "ppo", clipLow: 0.8, clipHigh: 1.28 },
  optimizer: { name: "muon", learningRate: 0.001, adamLearningRate: 0.0002 },
  evaluate: { every: 1000, seeds: [1_000_000_000, 1_000_000_031] },
  checkpoint: { every: 10 },
  rollout: { live: 96, workers: "threads" },
  teaches: "nineteen worlds with 8 million parameters (supervised, then GRPO)",
  needs: { hardware: "1 GPU, 16 cores" },
  expect:
    "on an H200, 589,000 demonstrations in thirteen minutes and no reinforcement learning, 256 seeds a world: 0.43 greedy over VisGym's seventeen easy worlds; eight of the nineteen worlds above 0.7, three not learned at all (docs/results/generalist.md)",
});
