/**
 * What the recipes of the generalist share: nineteen worlds, each with frames of 4 to 60 tokens (a token is 16×16 pixels: patches of 8, merged 2×2), short replies, and an
 * oracle whose answers follow from what is seen: one turn where the usual oracle makes several, whole degrees, two decimals. `reuse` is for worlds that take long to draw.
 */
import type { RecipeInput } from "saccade";

type World = { readonly options: Record<string, unknown>; readonly weight?: number; readonly reuse?: number };

/** The seventeen worlds of VisGym, then two of VAGEN. Sizes are those of an easy board; `hard` says what a hard one changes. */
export const WORLDS: Readonly<Record<string, World>> = {
  maze_2d: { options: { cellSize: 8, padTo: 16 }, weight: 1.2 },
  maze_3d: { options: { size: [96, 64] }, weight: 0.8 },
  matchstick_equation: { options: { width: 160, height: 48 }, weight: 2.5 },
  matchstick_rotation: { options: { size: 96, probe: 5, solverDecimals: 0 }, weight: 0.5 },
  patch_reassembly: { options: { cellSize: 8 }, weight: 2.5 },
  sliding_block: { options: { cellSize: 12 }, weight: 1.5 },
  jigsaw: { options: { size: [124, 92] }, weight: 0.4, reuse: 2 },
  // The disc and its tolerance shrink with the photo.
  colorization: {
    options: { size: [96, 64], wheel: 64, circle: 6, ring: 9, accuracyRadius: 3.3, solver: "direct" },
    reuse: 2,
  },
  zoom_in_puzzle: { options: { tile: 64, size: [160, 120] }, weight: 2.5, reuse: 2 },
  video_unshuffle: { options: { tile: 64 }, weight: 1.3, reuse: 2 },
  mental_rotation_2d: { options: { panel: 64, size: [96, 96], solverSteps: 1 }, weight: 1.3, reuse: 2 },
  mental_rotation_3d_cube: {
    options: { panel: 64, solver: "axis-angle", solverSteps: 1, solverDecimals: 0 },
    weight: 0.3,
  },
  mental_rotation_3d_objaverse: { options: { panel: 64, samples: 1, solverDecimals: 0 }, weight: 0.2, reuse: 2 },
  counting: { options: { size: [128, 96], solver: "guess_only" }, reuse: 2 },
  referring_dot_pointing: {
    options: { size: [128, 96], radius: 2, solverSteps: 1, solverDecimals: 2 },
    weight: 1.5,
    reuse: 2,
  },
  fetch_reach: { options: { size: 64, solver: "axis" }, weight: 0.8, reuse: 3 },
  fetch_pick_and_place: { options: { size: 64, solver: "axis" }, weight: 0.4, reuse: 8 },
  frozen_lake: { options: { minSteps: 3, cellSize: 16, maxTurns: 8 }, weight: 0.7 },
  sokoban: { options: { minSolution: 2, cellSize: 16, maxTurns: 10 }, weight: 0.3 },
};

const VAGEN = ["frozen_lake", "sokoban"];

/** The sources of these worlds, all of them unless named. */
export function sources(
  level: "easy" | "hard" = "easy",
  names: readonly string[] = Object.keys(WORLDS),
): RecipeInput["envs"] {
  return names
    .filter((name) => level === "easy" || !VAGEN.includes(name))
    .map((name) => {
      const { options, ...share } = WORLDS[name] as World;
      const env = VAGEN.includes(name) ? name : `${name}/${level}`;
      return {
        env,
        options: { ...options, frameMultiple: 16, protocol: "keyword", prompt: "brief", feedback: false },
        ...share,
      };
    });
}

/** 8 million parameters: 16 MB in bf16. */
export const MODEL = {
  preset: "micro",
  set: {
    min_pixels: 256,
    max_pixels: 65_536,
    text: {
      hidden_size: 256,
      intermediate_size: 640,
      num_hidden_layers: 8,
      num_attention_heads: 8,
      num_key_value_heads: 4,
    },
    vision: { patch_size: 8, depth: 4, hidden_size: 160, intermediate_size: 448, num_heads: 5 },
  },
} as const;
