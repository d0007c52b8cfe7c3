/**
 * The built-in environments: one folder each. A world's code is loaded when somebody first asks for it.
 * Worlds import only the index files of `src/core`, `src/images` and `src/envs`, so they prove that the public contract suffices.
 */
import type { LazyDefinition } from "../src/envs/index.ts";

export const worlds: readonly LazyDefinition[] = [
  { id: "maze_2d", load: async () => (await import("./maze-2d/maze-2d.ts")).maze2d },
  { id: "maze_3d", load: async () => (await import("./maze-3d/maze-3d.ts")).maze3d },
  {
    id: "matchstick_equation",
    load: async () => (await import("./matchstick-equation/matchstick-equation.ts")).matchstickEquation,
  },
  {
    id: "matchstick_rotation",
    load: async () => (await import("./matchstick-rotation/matchstick-rotation.ts")).matchstickRotation,
  },
  {
    id: "patch_reassembly",
    load: async () => (await import("./patch-reassembly/patch-reassembly.ts")).patchReassembly,
  },
  { id: "sliding_block", load: async () => (await import("./sliding-block/sliding-block.ts")).slidingBlock },
  { id: "jigsaw", load: async () => (await import("./jigsaw/jigsaw.ts")).jigsaw },
  { id: "colorization", load: async () => (await import("./colorization/colorization.ts")).colorization },
  { id: "zoom_in_puzzle", load: async () => (await import("./zoom-in-puzzle/zoom-in-puzzle.ts")).zoomInPuzzle },
  { id: "video_unshuffle", load: async () => (await import("./video-unshuffle/video-unshuffle.ts")).videoUnshuffle },
  {
    id: "mental_rotation_2d",
    load: async () => (await import("./mental-rotation-2d/mental-rotation-2d.ts")).mentalRotation2d,
  },
  {
    id: "mental_rotation_3d_cube",
    load: async () => (await import("./mental-rotation-3d-cube/mental-rotation-3d-cube.ts")).mentalRotation3dCube,
  },
  {
    id: "mental_rotation_3d_objaverse",
    load: async () =>
      (await import("./mental-rotation-3d-objaverse/mental-rotation-3d-objaverse.ts")).mentalRotation3dObjaverse,
  },
  { id: "counting", load: async () => (await import("./counting/counting.ts")).counting },
  {
    id: "referring_dot_pointing",
    load: async () => (await import("./referring-dot-pointing/referring-dot-pointing.ts")).referringDotPointing,
  },
  { id: "fetch_reach", load: async () => (await import("./fetch/fetch.ts")).fetchReach },
  { id: "fetch_pick_and_place", load: async () => (await import("./fetch/fetch.ts")).fetchPickAndPlace },
  { id: "frozen_lake", load: async () => (await import("./frozen-lake/frozen-lake.ts")).frozenLake },
  { id: "sokoban", load: async () => (await import("./sokoban/sokoban.ts")).sokoban },
  { id: "svg", load: async () => (await import("./svg/svg.ts")).svg },
  { id: "primitive_skill", load: async () => (await import("./primitive-skill/primitive-skill.ts")).primitiveSkill },
  { id: "navigation", load: async () => (await import("./navigation/navigation.ts")).navigation },
  { id: "color_codeword", load: async () => (await import("./color-codeword/color-codeword.ts")).colorCodeword },
  { id: "pages", load: async () => (await import("./pages/pages.ts")).pages },
  { id: "miniwob", load: async () => (await import("./miniwob/miniwob.ts")).miniwob },
  { id: "geometry3k", load: async () => (await import("./geometry3k/geometry3k.ts")).geometry3k },
];
