/**
 * How alike two square images are, 0 to 1, in three ways that need no network:
 * - structure: edges that both have, as an F1 of edge pixels that may be two pixels off;
 * - colour: how near the mean colours of small cells are, over the cells where either image is not white;
 * - scales: multi-scale structural similarity (Wang et al. 2003) of the grey images.
 * `score` weighs them and takes off what a blank canvas would have got, so that drawing nothing earns nothing.
 */
import { exact, type Image } from "../../src/core/index.ts";

const { pow } = exact;

export type Weights = { readonly structure: number; readonly colour: number; readonly scales: number };
export type Likeness = { readonly structure: number; readonly colour: number; readonly scales: number };

/** Cells along a side for colours. */
const CELLS = 16;
/** A step in grey that counts as an edge, of 255 (Sobel's sum over four). */
const EDGE = 24;
const NEAR = 2;
/** A mean difference per channel beyond which colours have nothing in common. */
const FAR = 160;
const SCALE_WEIGHTS = [0.0448, 0.2856, 0.3001, 0.2363, 0.1333];
const WINDOW = 8;

/** What is compared, computed once an image. */
export type Features = {
  readonly size: number;
  readonly edges: Uint8Array;
  readonly nearEdges: Uint8Array;
  readonly cells: Float64Array;
  readonly pyramid: readonly Plane[];
};
type Plane = { readonly side: number; readonly data: Float64Array };

export function features(image: Image): Features {
  const size = image.width;
  const grey = luminance(image);
  const edges = edgesOf(grey);
  const pyramid = [grey];
  for (let level = 1; level < SCALE_WEIGHTS.length; level++) {
    const last = pyramid[level - 1] as Plane;
    if (last.side < WINDOW * 2) break;
    pyramid.push(halved(last));
  }
  return { size, edges, nearEdges: widened(edges, size), cells: cellsOf(image), pyramid };
}

export function likeness(a: Features, b: Features): Likeness {
  return { structure: sharedEdges(a, b), colour: sharedColours(a, b), scales: sharedScales(a, b) };
}

/** 1 for the same image, 0 for no more than a blank canvas has in common with the target. */
export function score(target: Features, drawing: Features, blank: Features, weights: Weights): number {
  const sum = weights.structure + weights.colour + weights.scales;
  const mean = (like: Likeness) =>
    (weights.structure * like.structure + weights.colour * like.colour + weights.scales * like.scales) / sum;
  const floor = mean(likeness(target, blank));
  const reached = mean(likeness(target, drawing));
  return floor >= 1 ? (reached >= 1 ? 1 : 0) : Math.max(0, Math.min(1, (reached - floor) / (1 - floor)));
}

function luminance({ width, height, data }: Image): Plane {
  const grey = new Float64Array(width * height);
  for (let i = 0; i < grey.length; i++) {
    grey[i] =
      0.299 * (data[i * 3] as number) + 0.587 * (data[i * 3 + 1] as number) + 0.114 * (data[i * 3 + 2] as number);
  }
  return { side: width, data: grey };
}

function edgesOf({ side, data }: Plane): Uint8Array {
  const edges = new Uint8Array(side * side);
  const at = (i: number) => data[i] as number;
  for (let y = 1; y + 1 < side; y++) {
    for (let x = 1; x + 1 < side; x++) {
      const i = y * side + x;
      const [a, b, c] = [at(i - side - 1), at(i - side), at(i - side + 1)];
      const [d, f] = [at(i - 1), at(i + 1)];
      const [g, h, k] = [at(i + side - 1), at(i + side), at(i + side + 1)];
      const across = (c + 2 * f + k - a - 2 * d - g) / 4;
      const down = (g + 2 * h + k - a - 2 * b - c) / 4;
      if (across * across + down * down > EDGE * EDGE) edges[i] = 1;
    }
  }
  return edges;
}

/** Every pixel within `NEAR` of an edge, along rows and then columns. */
function widened(edges: Uint8Array, side: number): Uint8Array {
  const rows = new Uint8Array(edges.length);
  const out = new Uint8Array(edges.length);
  for (let i = 0; i < edges.length; i++) {
    if (edges[i] === 0) continue;
    const x = i % side;
    rows.fill(1, i - Math.min(NEAR, x), i + Math.min(NEAR, side - 1 - x) + 1);
  }
  for (let i = 0; i < edges.length; i++) {
    if (rows[i] === 0) continue;
    for (let shift = -NEAR; shift <= NEAR; shift++) {
      const j = i + shift * side;
      if (j >= 0 && j < out.length) out[j] = 1;
    }
  }
  return out;
}

function sharedEdges(a: Features, b: Features): number {
  let [countA, countB, hitA, hitB] = [0, 0, 0, 0];
  for (let i = 0; i < a.edges.length; i++) {
    if (a.edges[i] === 1) {
      countA += 1;
      hitA += b.nearEdges[i] as number;
    }
    if (b.edges[i] === 1) {
      countB += 1;
      hitB += a.nearEdges[i] as number;
    }
  }
  if (countA + countB === 0) return 1;
  return countA === 0 || countB === 0 ? 0 : (hitA + hitB) / (countA + countB);
}

/** Mean red, green and blue of every cell. */
function cellsOf({ width, data }: Image): Float64Array {
  const sums = new Float64Array(CELLS * CELLS * 3);
  const counts = new Float64Array(CELLS * CELLS);
  for (let y = 0; y < width; y++) {
    const row = Math.floor((y * CELLS) / width) * CELLS;
    for (let x = 0; x < width; x++) {
      const cell = row + Math.floor((x * CELLS) / width);
      counts[cell] = (counts[cell] as number) + 1;
      for (let k = 0; k < 3; k++)
        sums[cell * 3 + k] = (sums[cell * 3 + k] as number) + (data[(y * width + x) * 3 + k] as number);
    }
  }
  return sums.map((sum, i) => sum / (counts[Math.floor(i / 3)] as number));
}

function sharedColours(a: Features, b: Features): number {
  let [sum, count] = [0, 0];
  for (let cell = 0; cell < CELLS * CELLS; cell++) {
    let [difference, inkA, inkB] = [0, 0, 0];
    for (let k = 0; k < 3; k++) {
      const [va, vb] = [a.cells[cell * 3 + k] as number, b.cells[cell * 3 + k] as number];
      difference += Math.abs(va - vb);
      inkA += 255 - va;
      inkB += 255 - vb;
    }
    if (inkA < 6 && inkB < 6) continue;
    sum += Math.max(0, 1 - difference / (3 * FAR));
    count += 1;
  }
  return count === 0 ? 1 : sum / count;
}

function halved({ side, data }: Plane): Plane {
  const half = side >> 1;
  const out = new Float64Array(half * half);
  for (let y = 0; y < half; y++) {
    for (let x = 0; x < half; x++) {
      const i = 2 * y * side + 2 * x;
      out[y * half + x] =
        ((data[i] as number) + (data[i + 1] as number) + (data[i + side] as number) + (data[i + side + 1] as number)) /
        4;
    }
  }
  return { side: half, data: out };
}

function sharedScales(a: Features, b: Features): number {
  const levels = a.pyramid.length;
  const weights = SCALE_WEIGHTS.slice(0, levels);
  const total = weights.reduce((sum, weight) => sum + weight, 0);
  let product = 1;
  for (let level = 0; level < levels; level++) {
    const { structure, whole } = similarity(a.pyramid[level] as Plane, b.pyramid[level] as Plane);
    product *= pow(Math.max(0, level === levels - 1 ? whole : structure), (weights[level] as number) / total);
  }
  return product;
}

/** Structural similarity over windows half of which overlap: contrast and structure alone, and with luminance. */
function similarity(a: Plane, b: Plane): { readonly structure: number; readonly whole: number } {
  const [c1, c2] = [(0.01 * 255) ** 2, (0.03 * 255) ** 2];
  const { side } = a;
  const count = WINDOW * WINDOW;
  let [structure, whole, windows] = [0, 0, 0];
  for (let top = 0; top + WINDOW <= side; top += WINDOW / 2) {
    for (let left = 0; left + WINDOW <= side; left += WINDOW / 2) {
      let [sumA, sumB, squareA, squareB, both] = [0, 0, 0, 0, 0];
      for (let y = top; y < top + WINDOW; y++) {
        for (let i = y * side + left, end = i + WINDOW; i < end; i++) {
          const [va, vb] = [a.data[i] as number, b.data[i] as number];
          sumA += va;
          sumB += vb;
          squareA += va * va;
          squareB += vb * vb;
          both += va * vb;
        }
      }
      const [meanA, meanB] = [sumA / count, sumB / count];
      const [varA, varB] = [squareA / count - meanA * meanA, squareB / count - meanB * meanB];
      const shared = both / count - meanA * meanB;
      const cs = (2 * shared + c2) / (varA + varB + c2);
      structure += cs;
      whole += cs * ((2 * meanA * meanB + c1) / (meanA * meanA + meanB * meanB + c1));
      windows += 1;
    }
  }
  return { structure: structure / windows, whole: whole / windows };
}
