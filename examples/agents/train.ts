/**
 * Trains the agent of ai-sdk.ts. The warm start shows how to call the tool and what answers look like; three of four of its answers are guesses, so the model can
 * speak before it can see. Reward teaches it to look.
 */
import { defineRecipe } from "saccade";

export default defineRecipe({
  name: "signal",
  model: { preset: "nano" },
  envs: [{ env: "./ai-sdk.ts" }],
  warmStart: {
    episodes: 1_200,
    noise: 0.75,
    batch: 8,
    optimizer: { name: "muon", learningRate: 0.01, adamLearningRate: 0.003 },
  },
  steps: 24,
  groups: 16,
  siblings: 8,
  minibatch: 64,
  sampling: { temperature: 1, maxTokens: 48, contextTokens: 768 },
  optimizer: { name: "muon", learningRate: 0.002, adamLearningRate: 0.0004 },
  evaluate: { every: 12, seeds: [1_000_000_000, 1_000_000_127] },
  sight: { every: 24, episodes: 32 },
  checkpoint: { every: 12 },
  rollout: { live: 64 },
  teaches: "look at a signal with a tool before answering (GRPO)",
});
