/**
 * The tiles of the frozen lake, each drawn once per cell size. Every kind has a colour of its own over most of its
 * cell, so that it can be told from the others even at 8 pixels or after shrinking: light ice, dark blue hole, yellow
 * goal, red player. Shapes (flag, ring, face) are for the eye and are left out where they would be specks.
 */
import { Image } from "../../src/core/index.ts";
import { Canvas, type Color } from "../../src/images/index.ts";

/** S start, F ice, H hole, G goal. */
export type Ground = "S" | "F" | "H" | "G";

export type LakeTiles = {
  readonly empty: Readonly<Record<Ground, Image>>;
  /** The same with the player there. */
  readonly player: Readonly<Record<Ground, Image>>;
};

const ICE: Color = [221, 238, 248];
const ICE_EDGE: Color = [160, 192, 214];
const ICE_GLINT: Color = [246, 251, 255];
const HOLE: Color = [28, 62, 120];
const HOLE_DEEP: Color = [10, 26, 62];
const GOAL: Color = [255, 200, 20];
const FLAG: Color = [20, 130, 60];
const POLE: Color = [90, 62, 20];
const START: Color = [150, 155, 165];
const COAT: Color = [215, 30, 40];
const FACE: Color = [250, 205, 165];
/** Outside of the lake, where a window shows it. */
export const SHORE: Color = [96, 130, 84];

const GROUNDS: readonly Ground[] = ["S", "F", "H", "G"];
/** Below this many pixels a cell shows plain shapes only. */
const DETAIL = 16;

const drawn = new Map<number, LakeTiles>();

export function lakeTiles(cellSize: number): LakeTiles {
  let tiles = drawn.get(cellSize);
  if (tiles === undefined) {
    const draw = (withPlayer: boolean) =>
      Object.fromEntries(GROUNDS.map((ground) => [ground, tile(ground, withPlayer, cellSize)])) as Record<
        Ground,
        Image
      >;
    tiles = { empty: draw(false), player: draw(true) };
    drawn.set(cellSize, tiles);
  }
  return tiles;
}

function tile(ground: Ground, withPlayer: boolean, size: number): Image {
  const canvas = new Canvas(size, size, ground === "G" ? GOAL : ICE);
  const at = (share: number) => share * size;
  if (ground === "F" && size >= DETAIL) {
    canvas.line(at(0.2), at(0.42), at(0.42), at(0.2), ICE_GLINT, { width: at(0.05), cap: "round" });
    canvas.line(at(0.62), at(0.78), at(0.78), at(0.62), ICE_GLINT, { width: at(0.05), cap: "round" });
  }
  if (ground === "S") canvas.ring(at(0.5), at(0.5), at(0.34), Math.max(1, at(0.08)), START);
  if (ground === "H") {
    canvas.disc(at(0.5), at(0.5), at(0.45), HOLE);
    if (size >= DETAIL) canvas.disc(at(0.5), at(0.54), at(0.36), HOLE_DEEP);
  }
  if (ground === "G" && !withPlayer) drawFlag(canvas, at);
  const line = Math.max(1, Math.round(size / 32));
  canvas.fillRect(size - line, 0, line, size, ICE_EDGE);
  canvas.fillRect(0, size - line, size, line, ICE_EDGE);
  if (withPlayer && ground === "H") drawCross(canvas, at);
  else if (withPlayer) drawPlayer(canvas, at);
  return new Image(size, size, canvas.data);
}

type At = (share: number) => number;

function drawFlag(canvas: Canvas, at: At): void {
  canvas.fillRect(
    Math.round(at(0.28)),
    Math.round(at(0.16)),
    Math.max(1, Math.round(at(0.07))),
    Math.round(at(0.68)),
    POLE,
  );
  canvas.polygon(
    [
      [at(0.35), at(0.16)],
      [at(0.8), at(0.34)],
      [at(0.35), at(0.54)],
    ],
    FLAG,
  );
}

/** A figure in a red coat with a pointed hood; in a small cell, a red block. */
function drawPlayer(canvas: Canvas, at: At): void {
  if (canvas.width < DETAIL) {
    canvas.fillRect(at(0.2), at(0.1), at(0.6), at(0.75), COAT);
    return;
  }
  canvas.polygon(
    [
      [at(0.5), at(0.06)],
      [at(0.74), at(0.44)],
      [at(0.26), at(0.44)],
    ],
    COAT,
  );
  canvas.polygon(
    [
      [at(0.34), at(0.4)],
      [at(0.66), at(0.4)],
      [at(0.84), at(0.9)],
      [at(0.16), at(0.9)],
    ],
    COAT,
  );
  canvas.disc(at(0.5), at(0.4), at(0.13), FACE);
}

/** The player is lost: a red cross over the hole. */
function drawCross(canvas: Canvas, at: At): void {
  const stroke = { width: Math.max(1.5, at(0.14)), cap: "round" } as const;
  canvas.line(at(0.28), at(0.28), at(0.72), at(0.72), COAT, stroke);
  canvas.line(at(0.28), at(0.72), at(0.72), at(0.28), COAT, stroke);
}
