/**
 * Eight of MiniWoB++'s click tasks from pixels: a model of a million parameters sees the page and the instruction, and answers with one click on a grid of 20 by 20.
 * It first clones noisy play, then reward alone separates the clicks that count from those beside them.
 */
import { defineRecipe } from "saccade";
import { clickSources, PAGE_MODEL } from "./parts/clicks.ts";

export default defineRecipe({
  name: "click",
  model: PAGE_MODEL,
  envs: clickSources(),
  warmStart: {
    episodes: 32_000,
    noise: 0.35,
    batch: 16,
    optimizer: { name: "muon", learningRate: 0.01, adamLearningRate: 0.003 },
  },
  steps: 80,
  groups: 32,
  siblings: 4,
  sampling: { temperature: 1, maxTokens: 24, contextTokens: 512 },
  loss: { name: "ppo", clipLow: 0.8, clipHigh: 1.28, entropy: 0.003 },
  optimizer: { name: "muon", learningRate: 0.002, adamLearningRate: 0.0004 },
  schedule: { name: "cosine", floor: 0.1 },
  evaluate: { every: 40, seeds: [1_000_000_000, 1_000_000_031] },
  sight: { every: 40 },
  checkpoint: { every: 10 },
  rollout: { live: 16 },
  teaches: "click what the instruction names on a web page (GRPO)",
  needs: { hardware: "2 CPU cores, a browser, the pages of MiniWoB++" },
  expect:
    "0.20 sampled and 0.31 greedy after the warm start, where random play has 0.03 and the oracle 0.96: the model learns where things usually are and stays blind. Reinforcement learning was not run to its end (docs/results/browser.md)",
});
