/** The built-in worlds. */
import type { WorldDefinition } from "../define.ts";
import { colorCodeword } from "./color-codeword.ts";
import { colorization } from "./colorization.ts";
import { counting } from "./counting.ts";
import { fetchPickAndPlace, fetchReach } from "./fetch.ts";
import { frozenLake } from "./frozen-lake.ts";
import { jigsaw } from "./jigsaw.ts";
import { matchstickEquation } from "./matchstick-equation.ts";
import { matchstickRotation } from "./matchstick-rotation.ts";
import { maze2d } from "./maze-2d.ts";
import { maze3d } from "./maze-3d.ts";
import { mentalRotation2d } from "./mental-rotation-2d.ts";
import { mentalRotation3dCube } from "./mental-rotation-3d-cube.ts";
import { mentalRotation3dObjaverse } from "./mental-rotation-3d-objaverse.ts";
import { navigation } from "./navigation.ts";
import { patchReassembly } from "./patch-reassembly.ts";
import { primitiveSkill } from "./primitive-skill.ts";
import { referringDotPointing } from "./referring-dot-pointing.ts";
import { slidingBlock } from "./sliding-block.ts";
import { sokoban } from "./sokoban.ts";
import { svg } from "./svg.ts";
import { videoUnshuffle } from "./video-unshuffle.ts";
import { zoomInPuzzle } from "./zoom-in-puzzle.ts";

export const builtinWorlds: readonly WorldDefinition[] = [
  maze2d,
  maze3d,
  matchstickEquation,
  matchstickRotation,
  patchReassembly,
  slidingBlock,
  jigsaw,
  colorization,
  zoomInPuzzle,
  videoUnshuffle,
  mentalRotation2d,
  mentalRotation3dCube,
  mentalRotation3dObjaverse,
  counting,
  referringDotPointing,
  fetchReach,
  fetchPickAndPlace,
  frozenLake,
  sokoban,
  svg,
  primitiveSkill,
  navigation,
  colorCodeword,
];
