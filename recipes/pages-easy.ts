/**
 * Our eight pages in their easy form, from pixels: clicks, drags and typed words on a grid of 16 by 16, up to five actions an episode, with partial credit. The model clones
 * noisy play of the oracles, then learns from reward.
 */
import { defineRecipe } from "saccade";
import { PAGE_MODEL, pageSources } from "./parts/clicks.ts";

export default defineRecipe({
  name: "pages-easy",
  model: PAGE_MODEL,
  envs: pageSources(),
  warmStart: {
    episodes: 32_000,
    noise: 0.2,
    batch: 8,
    optimizer: { name: "muon", learningRate: 0.01, adamLearningRate: 0.003 },
  },
  steps: 60,
  groups: 32,
  siblings: 4,
  sampling: { temperature: 1, maxTokens: 32, contextTokens: 1024 },
  loss: { name: "ppo", clipLow: 0.8, clipHigh: 1.28, entropy: 0.003 },
  optimizer: { name: "muon", learningRate: 0.002, adamLearningRate: 0.0004 },
  schedule: { name: "cosine", floor: 0.1 },
  evaluate: { every: 30, seeds: [1_000_000_000, 1_000_000_031] },
  sight: { every: 30 },
  checkpoint: { every: 10 },
  rollout: { live: 16 },
  teaches: "log in, shop, sort mail and five more web pages (GRPO)",
  needs: { hardware: "2 CPU cores, a browser" },
  expect: "not yet run to its end (docs/results/browser.md)",
});
