/**
 * Trains the agent of ai-sdk.ts. The warm start shows how to call the tool and what answers look like; half of them are guesses, which the model
 * imitates, too. Reward teaches it to say what it sees.
 */
import { defineRecipe } from "saccade";

export default defineRecipe({
  name: "signal",
  model: { preset: "nano" },
  envs: [{ env: "./ai-sdk.ts" }],
  warmStart: {
    episodes: 1_600,
    noise: 0.5,
    batch: 8,
    optimizer: { name: "muon", learningRate: 0.01, adamLearningRate: 0.003 },
  },
  steps: 16,
  groups: 16,
  siblings: 8,
  minibatch: 64,
  sampling: { temperature: 1, maxTokens: 48, contextTokens: 768 },
  optimizer: { name: "muon", learningRate: 0.004, adamLearningRate: 0.0008 },
  evaluate: { every: 8, seeds: [1_000_000_000, 1_000_000_127] },
  sight: { every: 16, episodes: 32 },
  checkpoint: { every: 8 },
  rollout: { live: 64 },
  teaches: "look at a signal with a tool before answering (GRPO)",
});
