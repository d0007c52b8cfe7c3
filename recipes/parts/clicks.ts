/**
 * What the recipes for web pages share: sources whose replies are clicks on a coarse grid, and a model small enough to learn them on a CPU.
 */
import type { RecipeInput } from "saccade";

/** Tasks of MiniWoB++ that one click solves. */
export const CLICK_TASKS = [
  "click-test",
  "click-test-2",
  "click-color",
  "click-shape",
  "click-button",
  "click-tab",
  "click-link",
  "click-dialog",
] as const;

/** A frame of 160 by 210 pixels becomes 35 tokens of 32 by 32 pixels; a number of the reply is a cell of 8 by 10 pixels. */
export function clickSources(tasks: readonly string[] = CLICK_TASKS): RecipeInput["envs"] {
  return tasks.map((task) => ({
    env: `miniwob/${task}`,
    reuse: 4,
    options: {
      scale: 20,
      actions: ["click"],
      maxTurns: 1,
      frameMultiple: 32,
      protocol: "keyword",
      prompt: "brief",
      feedback: false,
    },
  }));
}

export const PAGE_MODEL = {
  preset: "micro",
  set: {
    min_pixels: 256,
    max_pixels: 131_072,
    text: {
      hidden_size: 128,
      intermediate_size: 320,
      num_hidden_layers: 4,
      num_attention_heads: 4,
      num_key_value_heads: 2,
    },
    vision: { patch_size: 16, depth: 2, hidden_size: 96, intermediate_size: 256, num_heads: 3 },
  },
} as const;

/** Our pages and what it takes to solve their easy form. A frame of 320 by 256 pixels becomes 80 tokens; a number of the reply is a cell of 20 by 16 pixels. */
const PAGES = {
  login: ["click", "type"],
  search: ["click", "type"],
  shop: ["click"],
  calendar: ["click"],
  mail: ["click"],
  board: ["click", "drag"],
  settings: ["click"],
  canvas: ["click", "drag"],
} as const;

export function pageSources(): RecipeInput["envs"] {
  return Object.entries(PAGES).map(([page, actions]) => ({
    env: `pages/${page}`,
    reuse: 4,
    options: {
      scale: 16,
      actions,
      maxTurns: 5,
      frameMultiple: 32,
      protocol: "keyword",
      prompt: "brief",
      feedback: false,
    },
  }));
}
