/**
 * Web pages for real models: Qwen3-VL speaks its own `computer_use` tool, whose coordinates run from 0 to 999 over the frame. It knows how to click before it starts, so there
 * is no warm start: GRPO plays 32 episodes of 8 siblings a step.
 */
import { defineRecipe, type RecipeInput } from "saccade";
import { CLICK_TASKS } from "./clicks.ts";

const OPTIONS = { scale: 1000, protocol: { name: "tool-call", form: "computer_use" } } as const;

const SOURCES = {
  click: CLICK_TASKS.map((task) => ({ env: `miniwob/${task}`, options: { ...OPTIONS, maxTurns: 3 } })),
  pages: ["login", "search", "shop", "calendar", "mail", "board", "settings", "canvas"].map((page) => ({
    env: `pages/${page}`,
    options: { ...OPTIONS, maxTurns: 8 },
  })),
};

export function largePages(
  what: keyof typeof SOURCES,
  size: "2B" | "8B",
  own: Pick<RecipeInput, "teaches" | "needs" | "expect">,
) {
  return defineRecipe({
    name: `${what}-${size.toLowerCase()}`,
    model: `hf:Qwen/Qwen3-VL-${size}-Instruct`,
    envs: SOURCES[what],
    steps: 60,
    groups: 32,
    siblings: 8,
    minibatch: 128,
    sampling: { temperature: 1, maxTokens: 256, contextTokens: 8192 },
    loss: { name: "ppo", clipLow: 0.8, clipHigh: 1.28 },
    optimizer: { learningRate: 1e-6, beta2: 0.999, weightDecay: 0.01 },
    evaluate: { every: 10, seeds: [1_000_000_000, 1_000_000_015] },
    checkpoint: { every: 10 },
    // One tab each; more worlds than tabs would play their episodes again and again.
    rollout: { live: 32 },
    engine: {
      name: "torch",
      processes: size === "8B" ? 8 : 1,
      packTokens: 8192,
      checkpointing: true,
      cacheBytes: 12 * 2 ** 30,
    },
    ...own,
  });
}
