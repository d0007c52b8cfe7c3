/** How the model learns: it imitates noisy play of the oracle, then reward alone makes it better. Hover a field to read what it does. */
import { defineRecipe } from "saccade";

export default defineRecipe({
  name: "my-world",
  model: { preset: "nano" },
  envs: [{ env: "./env.ts", options: { protocol: "keyword", prompt: "brief", feedback: false } }],
  warmStart: {
    episodes: 6400,
    noise: 0.4,
    batch: 8,
    optimizer: { name: "muon", learningRate: 0.01, adamLearningRate: 0.003 },
  },
  steps: 30,
  groups: 64,
  siblings: 4,
  sampling: { maxTokens: 12, contextTokens: 512 },
  optimizer: { name: "muon", learningRate: 0.002, adamLearningRate: 0.0004 },
  evaluate: { every: 30 },
  sight: { every: 30 },
  teaches: "catch a falling ball",
});
