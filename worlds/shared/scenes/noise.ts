/**
 * Texture out of one tile of fractal noise, made once: 256 × 256 values from -1 to 1 whose detail spans all scales and
 * whose edges meet. `grain` reads it pixel by pixel, `cloud` smoothly at any scale, `ridge` along a line.
 */
import { hash32 } from "./dice.ts";

const SIDE = 256;
let tile: Float32Array | undefined;

function noiseTile(): Float32Array {
  if (tile !== undefined) return tile;
  const sum = new Float64Array(SIDE * SIDE);
  let weight = 0.5;
  for (let cells = 4; cells <= SIDE; cells *= 2, weight *= 0.62) addOctave(sum, cells, weight);
  let most = 0;
  for (const value of sum) most = Math.max(most, Math.abs(value));
  tile = Float32Array.from(sum, (value) => value / most);
  return tile;
}

/** Values on a grid of `cells` × `cells`, smoothly joined. */
function addOctave(sum: Float64Array, cells: number, weight: number): void {
  const size = SIDE / cells;
  const at = (column: number, row: number) => hash32(column % cells, row % cells, cells) / 0x8000_0000 - 1;
  for (let y = 0; y < SIDE; y++) {
    const row = Math.floor(y / size);
    const v = ease(y / size - row);
    for (let x = 0; x < SIDE; x++) {
      const column = Math.floor(x / size);
      const u = ease(x / size - column);
      const top = at(column, row) * (1 - u) + at(column + 1, row) * u;
      const bottom = at(column, row + 1) * (1 - u) + at(column + 1, row + 1) * u;
      sum[y * SIDE + x] = (sum[y * SIDE + x] as number) + weight * (top * (1 - v) + bottom * v);
    }
  }
}

export function ease(t: number): number {
  return t * t * (3 - 2 * t);
}

/** 0 below `low`, 1 above `high`, smooth between. */
export function smoothstep(low: number, high: number, x: number): number {
  const t = (x - low) / (high - low);
  return t <= 0 ? 0 : t >= 1 ? 1 : ease(t);
}

/** The tile's value at a whole pixel. */
export function grain(x: number, y: number): number {
  return (tile ?? noiseTile())[((y & 255) << 8) | (x & 255)] as number;
}

/** The tile's value between its pixels. */
export function cloud(x: number, y: number): number {
  const values = tile ?? noiseTile();
  const [x0, y0] = [Math.floor(x), Math.floor(y)];
  const [u, v] = [x - x0, y - y0];
  const [a, b] = [x0 & 255, (x0 + 1) & 255];
  const [top, bottom] = [(y0 & 255) << 8, ((y0 + 1) & 255) << 8];
  const upper = (values[top | a] as number) * (1 - u) + (values[top | b] as number) * u;
  const lower = (values[bottom | a] as number) * (1 - u) + (values[bottom | b] as number) * u;
  return upper * (1 - v) + lower * v;
}

/** A rugged line: the height at `x`, from -1 to 1, on one of many lines. */
export function ridge(x: number, line: number): number {
  const height = cloud(x, (line * 37 + 11) % 251) * 2.4;
  return height / Math.sqrt(1 + height * height);
}
