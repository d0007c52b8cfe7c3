/** How the model learns: it imitates how to call the tool, with half of the answers guessed; then reward alone makes it say what it sees. Hover a field to read what it does. */
import { defineRecipe } from "saccade";

export default defineRecipe({
  name: "my-agent",
  model: { preset: "nano" },
  envs: [{ env: "./agent.ts" }],
  warmStart: {
    episodes: 1600,
    noise: 0.5,
    batch: 8,
    optimizer: { name: "muon", learningRate: 0.01, adamLearningRate: 0.003 },
  },
  steps: 24,
  groups: 16,
  siblings: 8,
  minibatch: 64,
  sampling: { maxTokens: 48, contextTokens: 512 },
  optimizer: { name: "muon", learningRate: 0.003, adamLearningRate: 0.0006 },
  evaluate: { every: 24 },
  sight: { every: 24, episodes: 32 },
  rollout: { live: 64 },
  teaches: "look with a tool before answering",
});
