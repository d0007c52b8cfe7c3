/**
 * Sokoban's tiles, drawn by hand-set proportions for any cell size: slate bricks, a sandy floor, a red ring for a
 * target, a wooden crate that turns green on its target, and a little figure in blue. Every kind has a colour of its
 * own, so that they stay apart at 8 pixels; details (crossed planks, eyes) come in where there is room for them.
 */
import type { Image } from "../../src/core/index.ts";
import { Canvas, type Color } from "../../src/images/index.ts";
import { BOX, BOX_ON_TARGET, PLAYER, PLAYER_ON_TARGET, SYMBOLS, TARGET, WALL } from "./room.ts";

const FLOOR_COLOR: Color = [236, 227, 206];
const FLOOR_EDGE: Color = [221, 210, 185];
const MORTAR: Color = [56, 62, 80];
const BRICK: Color = [101, 112, 138];
const BRICK_LIGHT: Color = [126, 137, 163];
const RING: Color = [222, 52, 74];
const WOOD = { edge: [112, 66, 24], body: [222, 154, 70], plank: [164, 102, 42] } as const;
const GREEN = { edge: [20, 84, 44], body: [104, 206, 112], plank: [44, 138, 70] } as const;
const SHIRT: Color = [38, 98, 214];
const TROUSERS: Color = [26, 50, 112];
const SKIN: Color = [255, 214, 170];
const HAIR: Color = [64, 42, 32];

const tilesBySize = new Map<number, readonly Image[]>();

/** An image for each kind of cell, by its number; drawn once per size. */
export function sokobanTiles(size: number): readonly Image[] {
  let tiles = tilesBySize.get(size);
  if (tiles === undefined) {
    tiles = SYMBOLS.map((_, kind) => drawTile(kind, size));
    tilesBySize.set(size, tiles);
  }
  return tiles;
}

function drawTile(kind: number, size: number): Image {
  const tile = new Canvas(size, size, FLOOR_COLOR);
  const hair = Math.max(1, Math.round(size / 16));
  if (kind === WALL) {
    drawBricks(tile, hair);
  } else {
    // A line along two sides gives the grid; the neighbours' lines close it.
    tile.fillRect(size - hair, 0, hair, size, FLOOR_EDGE);
    tile.fillRect(0, size - hair, size, hair, FLOOR_EDGE);
  }
  if (kind === TARGET) drawTarget(tile);
  // Wider than the target's own ring, to be seen around the figure.
  if (kind === PLAYER_ON_TARGET) tile.ring(size / 2, size / 2, size * 0.42, Math.max(2, size * 0.13), RING);
  if (kind === BOX) drawCrate(tile, WOOD);
  if (kind === BOX_ON_TARGET) drawCrate(tile, GREEN);
  if (kind === PLAYER || kind === PLAYER_ON_TARGET) drawFigure(tile);
  return tile.toImage();
}

function drawBricks(tile: Canvas, mortar: number): void {
  const size = tile.width;
  const courses = size < 12 ? 2 : 4;
  tile.fillRect(0, 0, size, size, MORTAR);
  for (let course = 0; course < courses; course++) {
    const top = Math.round((course * size) / courses);
    const bottom = Math.round(((course + 1) * size) / courses);
    // Bricks are half a tile long; every other course is shifted by half a brick and runs on into the next tile.
    for (let brick = -1; brick < 2; brick++) {
      const left = Math.round((brick + (course % 2) / 2) * (size / 2));
      const right = Math.round((brick + 1 + (course % 2) / 2) * (size / 2));
      tile.fillRect(left, top, right - left - mortar, bottom - top - mortar, BRICK);
      if (size >= 16) tile.fillRect(left, top, right - left - mortar, mortar, BRICK_LIGHT);
    }
  }
}

function drawTarget(tile: Canvas): void {
  const size = tile.width;
  tile.ring(size / 2, size / 2, size * 0.33, Math.max(2, size * 0.13), RING);
  if (size >= 12) tile.disc(size / 2, size / 2, size * 0.11, RING);
}

function drawCrate(tile: Canvas, { edge, body, plank }: { edge: Color; body: Color; plank: Color }): void {
  const size = tile.width;
  const margin = Math.max(1, Math.round(size / 16));
  const side = size - 2 * margin;
  tile.fillRect(margin, margin, side, side, body);
  // The cross ends on the outline, or, where there is room for it, on a frame of boards.
  const board = size >= 24 ? Math.round(size / 8) : 0;
  const low = margin + board;
  const high = size - low;
  if (size >= 12) {
    const cross = {
      width: size / 9,
      clip: { x: low, y: low, width: high - low, height: high - low },
      cap: "square",
    } as const;
    tile.line(low, low, high, high, plank, cross);
    tile.line(high, low, low, high, plank, cross);
  }
  if (board > 0) tile.strokeRect(low, low, high - low, high - low, plank, Math.round(size / 32));
  tile.strokeRect(margin, margin, side, side, edge, Math.max(1, Math.round(size / 20)));
}

function drawFigure(tile: Canvas): void {
  const size = tile.width;
  const u = size / 16;
  tile.fillRect(4.6 * u, 9 * u, 6.8 * u, 4.4 * u, SHIRT);
  tile.fillRect(4.6 * u, 13 * u, 6.8 * u, 2.4 * u, TROUSERS);
  if (size < 12) {
    // Round shapes of so few pixels would be a blur.
    tile.fillRect(2 * u, 8 * u, 12 * u, 4 * u, SHIRT);
    tile.fillRect(4 * u, u, 8 * u, 7 * u, HAIR);
    tile.fillRect(6 * u, 4 * u, 4 * u, 4 * u, SKIN);
    return;
  }
  tile.line(3.9 * u, 10.5 * u, 12.1 * u, 10.5 * u, SHIRT, { width: 3.4 * u, cap: "round" });
  tile.disc(8 * u, 4.9 * u, 4.3 * u, HAIR);
  tile.disc(8 * u, 5.9 * u, 3.3 * u, SKIN);
  if (size < 24) return;
  tile.fillRect(7.5 * u, 14 * u, u, 1.4 * u, FLOOR_COLOR);
  tile.disc(6.7 * u, 5.9 * u, 0.55 * u, HAIR);
  tile.disc(9.3 * u, 5.9 * u, 0.55 * u, HAIR);
}
