/** How the model learns: a few right answers to imitate, then reward alone. Hover a field to read what it does. */
import { defineRecipe } from "saccade";

export default defineRecipe({
  name: "my-task",
  model: { preset: "nano" },
  envs: [{ env: "./env.ts" }],
  warmStart: {
    episodes: 800,
    batch: 8,
    optimizer: { name: "muon", learningRate: 0.01, adamLearningRate: 0.003 },
  },
  steps: 40,
  groups: 64,
  siblings: 8,
  sampling: { maxTokens: 8, contextTokens: 256 },
  optimizer: { name: "muon", learningRate: 0.002, adamLearningRate: 0.0004 },
  // These rows are never trained on.
  evaluate: { every: 40, seeds: [3800, 3999] },
  sight: { every: 40 },
  teaches: "name the shape in an image",
});
