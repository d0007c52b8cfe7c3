/**
 * Two ways to an answer that do not know of each other: the laws of geometry, solved from what is given, and the diagram, measured. A problem is sound when both give its answer,
 * and the diagram shows what is given.
 */
import type { Point } from "../../src/images/index.ts";
import { distance } from "./figure.ts";

/** Something that can be measured in a figure, of points by name; angles in degrees. */
export type Measure =
  | { readonly angle: readonly [string, string, string] }
  | { readonly length: readonly [string, string] }
  | { readonly area: readonly string[] }
  | { readonly disc: readonly [center: string, through: string] }
  | { readonly less: readonly [Measure, Measure] };

export function measure(what: Measure, points: Readonly<Record<string, Point>>, scale = 1): number {
  const at = (name: string) => points[name] as Point;
  if ("angle" in what) {
    const [from, corner, to] = what.angle.map(at) as [Point, Point, Point];
    const arm = ([x, y]: Point): Point => [x - corner[0], y - corner[1]];
    const [a, b] = [arm(from), arm(to)];
    const [dot, cross] = [a[0] * b[0] + a[1] * b[1], a[0] * b[1] - a[1] * b[0]];
    return (Math.atan2(Math.abs(cross), dot) * 180) / Math.PI;
  }
  if ("length" in what) return distance(at(what.length[0]), at(what.length[1])) / scale;
  if ("disc" in what) return Math.PI * (distance(at(what.disc[0]), at(what.disc[1])) / scale) ** 2;
  if ("less" in what) return measure(what.less[0], points, scale) - measure(what.less[1], points, scale);
  const corners = what.area.map(at);
  const twice = corners.reduce((sum, [x, y], i) => {
    const [nx, ny] = corners[(i + 1) % corners.length] as Point;
    return sum + x * ny - nx * y;
  }, 0);
  return Math.abs(twice) / 2 / scale ** 2;
}

/** A law over named quantities: 0 where it holds. */
export type Law = { readonly of: readonly string[]; readonly zero: (values: readonly number[]) => number };

const sum = (values: readonly number[]) => values.reduce((a, b) => a + b, 0);

/** Angles on a line, in a triangle, in a right angle. */
export const sumsTo = (total: number, ...of: string[]): Law => ({ of, zero: (values) => sum(values) - total });
export const equals = (a: string, b: string): Law => ({ of: [a, b], zero: ([x = 0, y = 0]) => x - y });
/** whole = the others together. */
export const adds = (whole: string, ...parts: string[]): Law => ({
  of: [whole, ...parts],
  zero: ([x = 0, ...rest]) => x - sum(rest),
});
/** a = factor · the others multiplied. */
export const times = (a: string, factor: number, ...of: string[]): Law => ({
  of: [a, ...of],
  zero: ([x = 0, ...rest]) => x - factor * rest.reduce((p, q) => p * q, 1),
});
/** a : b = c : d. */
export const proportion = (a: string, b: string, c: string, d: string): Law => ({
  of: [a, b, c, d],
  zero: ([w = 0, x = 0, y = 0, z = 0]) => w * z - x * y,
});
/** Legs and hypotenuse. */
export const pythagoras = (a: string, b: string, c: string): Law => ({
  of: [a, b, c],
  zero: ([x = 0, y = 0, z = 0]) => x * x + y * y - z * z,
});

const LARGEST = 4096;
const STEPS = 4096;

/** Every quantity that follows from what is given; a law with two answers gives none. */
export function solve(given: Readonly<Record<string, number>>, laws: readonly Law[]): Record<string, number> {
  const known: Record<string, number> = { ...given };
  for (let found = true; found; ) {
    found = false;
    for (const { of, zero } of laws) {
      const unknown = [...new Set(of.filter((name) => known[name] === undefined))];
      const [name] = unknown;
      if (name === undefined || unknown.length > 1) continue;
      const root = onlyRoot((x) => zero(of.map((other) => (other === name ? x : (known[other] as number)))));
      if (root === undefined) continue;
      known[name] = root;
      found = true;
    }
  }
  return known;
}

/** The one positive number for which `f` is 0, if there is one and no other. */
function onlyRoot(f: (x: number) => number): number | undefined {
  let root: number | undefined;
  let last = f(1e-9);
  for (let i = 1; i <= STEPS; i++) {
    const right = (LARGEST * i) / STEPS;
    const value = f(right);
    if (value === 0 || last * value < 0) {
      if (root !== undefined) return undefined;
      root = value === 0 ? right : bisect(f, (LARGEST * (i - 1)) / STEPS || 1e-9, right);
    }
    // A root that lies on a border is found once.
    last = value === 0 ? -f((LARGEST * (i - 1)) / STEPS || 1e-9) : value;
  }
  return root;
}

function bisect(f: (x: number) => number, low: number, high: number): number {
  let [a, b] = [low, high];
  const sign = Math.sign(f(a));
  for (let i = 0; i < 80; i++) {
    const middle = (a + b) / 2;
    if (Math.sign(f(middle)) === sign) a = middle;
    else b = middle;
  }
  return (a + b) / 2;
}
