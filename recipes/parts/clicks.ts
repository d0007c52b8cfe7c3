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

/** How often each is practised: a tab is always in the same place and a colour is learned soon, words and shapes are not. */
const WEIGHTS: Readonly<Record<(typeof CLICK_TASKS)[number], number>> = {
  "click-test": 0.3,
  "click-test-2": 1,
  "click-color": 0.6,
  "click-shape": 0.8,
  "click-button": 1.4,
  "click-tab": 0.15,
  "click-link": 0.8,
  "click-dialog": 0.3,
};

/**
 * The frame is the 160 by 160 pixels below the instruction, which the prompt has as text. The model first says what the instruction means and where it is, then up to three other things,
 * and clicks the first: `<observation>lime: 5 2; red: 2 2</observation><answer>click 5 2</answer>`. So it always knows a name before it looks for the place, and each page asks four such
 * questions. The other way round it learned to name the boxes of a page and then clicked any of them: it did not look up what it had said.
 */
export function clickSources(): RecipeInput["envs"] {
  return CLICK_TASKS.map((task) => ({
    env: `miniwob/${task}`,
    weight: WEIGHTS[task],
    reuse: 2,
    options: {
      bar: false,
      penalty: false,
      scale: 8,
      actions: ["click"],
      maxTurns: 1,
      protocol: { name: "world-model", strategy: "state", thinking: "free", maxActions: 1, bonus: 0 },
      prompt: "brief",
      feedback: false,
    },
  }));
}

/**
 * One million parameters. A token is 20 by 20 pixels in four patches, and is a cell of the grid: so where to click is which token to look at. To a model that begins with random weights
 * all of a white page looks alike, and its places too: so white is 0 here, and places differ from the start. Without the two the model stayed blind. The vocabulary of 2,048 has more
 * colours and words of pages in one piece than that of 1,024.
 */
export const CLICK_MODEL = {
  preset: "micro",
  set: {
    vocab_size: 2048,
    min_pixels: 256,
    max_pixels: 131_072,
    image_mean: [1, 1, 1],
    position_range: 0.5,
    text: {
      hidden_size: 128,
      intermediate_size: 320,
      num_hidden_layers: 3,
      num_attention_heads: 4,
      num_key_value_heads: 2,
    },
    vision: {
      patch_size: 10,
      spatial_merge_size: 2,
      num_position_embeddings: 256,
      depth: 2,
      hidden_size: 96,
      intermediate_size: 256,
      num_heads: 3,
    },
  },
} as const;

export const PAGE_MODEL = {
  preset: "micro",
  set: {
    min_pixels: 256,
    max_pixels: 131_072,
    image_mean: [1, 1, 1],
    position_range: 0.5,
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
