/**
 * Eight of MiniWoB++'s click tasks from pixels: a model of a million parameters sees the page and the instruction, says where it is, and clicks. It first
 * clones play whose clicks are at random in four of ten episodes, then reward alone separates the clicks that count from those beside them.
 */
import { defineRecipe } from "saccade";
import { CLICK_MODEL, clickSources } from "./parts/clicks.ts";

export default defineRecipe({
  name: "click",
  model: CLICK_MODEL,
  envs: clickSources(),
  warmStart: {
    episodes: 72_000,
    // Reward takes the random clicks out again.
    noise: 0.4,
    batch: 16,
    optimizer: { name: "muon", learningRate: 0.008, adamLearningRate: 0.003 },
  },
  steps: 60,
  groups: 16,
  siblings: 8,
  minibatch: 64,
  sampling: { temperature: 1, maxTokens: 128, contextTokens: 512 },
  loss: { name: "ppo", clipLow: 0.8, clipHigh: 1.28 },
  optimizer: { name: "muon", learningRate: 0.002, adamLearningRate: 0.0004 },
  schedule: { name: "cosine", floor: 0.1 },
  evaluate: { every: 60, seeds: [1_000_000_000, 1_000_000_031] },
  sight: { every: 60 },
  checkpoint: { every: 10 },
  rollout: { live: 24 },
  teaches: "click what the instruction names on a web page (GRPO)",
  needs: { hardware: "2 CPU cores, a browser, the pages of MiniWoB++" },
  expect:
    "256 pages: 0.44 sampled and 0.65 greedy after the warm start, 0.58 and 0.65 after 60 steps; random play 0.05, oracle 0.91; grey frames 0.03. Tabs, dialogs and single buttons are learned; which of several boxes is meant, only in part (docs/results/browser.md)",
});
