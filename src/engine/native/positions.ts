/**
 * Where tokens and patches stand. Text tokens count up on three axes together (time, height, width); the tokens of an image share
 * one time and spread over height and width, and the text after it goes on at start + max(height, width) in merged cells. The rotary
 * frequencies of a head take turns between the axes (interleaved sections). Patches come in merge-block order: the cells of one
 * block of merge × merge patches are neighbours, so that merging is a reshape.
 *
 * The state after a prefix is one number, the next position: appending tokens to a cached sequence needs nothing else.
 */
import type { F32, I32 } from "./kernels/api.ts";

/** An image among ids: ids start.. hold its placeholders, the grid is in patches. */
export type GridSpan = { readonly start: number; readonly gridH: number; readonly gridW: number };

/**
 * Positions of `count` ids that continue a sequence at position `next`: (time, height, width) for each id. Spans are counted from the
 * first of these ids, in ascending order, and lie inside whole. Returns the position of the id after.
 */
export function tokenPositions(
  out: I32,
  count: number,
  spans: readonly GridSpan[],
  merge: number,
  next: number,
): number {
  let position = next;
  let row = 0;
  const text = (end: number) => {
    for (; row < end; row++, position++) out.fill(position, row * 3, row * 3 + 3);
  };
  for (const { start, gridH, gridW } of spans) {
    text(start);
    const h = gridH / merge;
    const w = gridW / merge;
    for (let i = 0; i < h * w; i++, row++) {
      out[row * 3] = position;
      out[row * 3 + 1] = position + Math.floor(i / w);
      out[row * 3 + 2] = position + (i % w);
    }
    position += Math.max(h, w);
  }
  text(count);
  return position;
}

/** cos and sin of position × frequency for whole positions, in float32 as the reference computes them; grows when a larger position comes. */
class AngleTable {
  readonly half: number;
  cos: F32 = new Float32Array(0);
  sin: F32 = new Float32Array(0);
  readonly #frequencies: F32;

  constructor(theta: number, dim: number) {
    this.half = dim / 2;
    this.#frequencies = new Float32Array(this.half);
    for (let i = 0; i < this.half; i++) this.#frequencies[i] = 1 / Math.fround(theta ** Math.fround((2 * i) / dim));
  }

  reach(position: number): void {
    const have = this.cos.length / this.half;
    if (position < have) return;
    const rows = Math.max(position + 1, have * 2, 64);
    const cos = new Float32Array(rows * this.half);
    const sin = new Float32Array(rows * this.half);
    cos.set(this.cos);
    sin.set(this.sin);
    for (let p = have, at = have * this.half; p < rows; p++) {
      for (let i = 0; i < this.half; i++, at++) {
        const angle = Math.fround(p * (this.#frequencies[i] as number));
        cos[at] = Math.cos(angle);
        sin[at] = Math.sin(angle);
      }
    }
    this.cos = cos;
    this.sin = sin;
  }
}

/** Rotary angles of the language model. `section` says how many frequencies each axis has. */
export class TextRotary {
  readonly #table: AngleTable;
  /** Which axis turns each frequency. */
  readonly #axis: Uint8Array;

  constructor(theta: number, headDim: number, section: readonly number[]) {
    this.#table = new AngleTable(theta, headDim);
    this.#axis = new Uint8Array(headDim / 2);
    for (let axis = 1; axis <= 2; axis++) {
      const end = Math.min((section[axis] ?? 0) * 3, headDim / 2);
      for (let i = axis; i < end; i += 3) this.#axis[i] = axis;
    }
  }

  /** Fills cos, sin [rows, headDim/2] for positions [rows, 3]. */
  fill(cos: F32, sin: F32, positions: I32, rows: number): void {
    const table = this.#table;
    const axis = this.#axis;
    const half = table.half;
    let largest = 0;
    for (let i = 0; i < rows * 3; i++) largest = Math.max(largest, positions[i] as number);
    table.reach(largest);
    for (let row = 0, at = 0; row < rows; row++) {
      for (let i = 0; i < half; i++, at++) {
        const from = (positions[row * 3 + (axis[i] as number)] as number) * half + i;
        cos[at] = table.cos[from] as number;
        sin[at] = table.sin[from] as number;
      }
    }
  }
}

/** Row and column of the patches of one image, in merge-block order. */
function eachPatch(
  gridH: number,
  gridW: number,
  merge: number,
  visit: (patch: number, row: number, column: number) => void,
): void {
  let patch = 0;
  for (let top = 0; top < gridH; top += merge) {
    for (let left = 0; left < gridW; left += merge) {
      for (let i = 0; i < merge * merge; i++) visit(patch++, top + Math.floor(i / merge), left + (i % merge));
    }
  }
}

/** Rotary angles of the vision tower: the first half of the frequencies turns by the row, the second by the column. */
export class VisionRotary {
  readonly #table: AngleTable;

  constructor(theta: number, headDim: number) {
    this.#table = new AngleTable(theta, headDim / 2);
  }

  /** Fills cos, sin [gridH*gridW, headDim/2] of one image. */
  fill(cos: F32, sin: F32, gridH: number, gridW: number, merge: number): void {
    const table = this.#table;
    const quarter = table.half;
    table.reach(Math.max(gridH, gridW));
    eachPatch(gridH, gridW, merge, (patch, row, column) => {
      for (let i = 0; i < quarter; i++) {
        const at = patch * 2 * quarter + i;
        cos[at] = table.cos[row * quarter + i] as number;
        sin[at] = table.sin[row * quarter + i] as number;
        cos[at + quarter] = table.cos[column * quarter + i] as number;
        sin[at + quarter] = table.sin[column * quarter + i] as number;
      }
    });
  }
}

/**
 * How to stretch the learned side × side position table over an image (bilinear, corners on corners): four table rows and weights for each
 * patch, in merge-block order, written from the start of `ids` and `weights`.
 */
export function positionTaps(ids: I32, weights: F32, side: number, gridH: number, gridW: number, merge: number): void {
  const along = (index: number, size: number) => {
    const at = Math.fround(Math.fround(index * (side - 1)) / Math.max(size - 1, 1));
    const low = Math.floor(at);
    return { low, high: Math.min(low + 1, side - 1), far: Math.fround(at - low) };
  };
  eachPatch(gridH, gridW, merge, (patch, row, column) => {
    const y = along(row, gridH);
    const x = along(column, gridW);
    ids.set([y.low * side + x.low, y.low * side + x.high, y.high * side + x.low, y.high * side + x.high], patch * 4);
    weights.set([(1 - y.far) * (1 - x.far), (1 - y.far) * x.far, y.far * (1 - x.far), y.far * x.far], patch * 4);
  });
}
