/**
 * A geometry diagram, true to scale: points in a plane, what joins them, and labels, each set where it touches neither a line nor another label. A figure whose labels find no such
 * place is not drawn: the generator tries another.
 */
import type { Image } from "../../src/core/index.ts";
import { Canvas, type Color, type Point } from "../../src/images/index.ts";

export type Figure = {
  /** By name; y grows upwards. */
  readonly points: Readonly<Record<string, Point>>;
  /** Points whose letters are shown. */
  readonly letters: readonly string[];
  readonly segments: readonly (readonly [string, string])[];
  readonly dashed?: readonly (readonly [string, string])[];
  readonly circles?: readonly { readonly center: string; readonly through: string }[];
  /** An arc from one arm to the other with its label, or the small square of a right angle. */
  readonly angles?: readonly {
    readonly arms: readonly [string, string, string];
    readonly label?: string;
    readonly right?: boolean;
  }[];
  readonly lengths?: readonly { readonly of: readonly [string, string]; readonly label: string }[];
  /** Segments marked as parallel by an arrow head, as equal by a tick. */
  readonly arrows?: readonly (readonly [string, string])[];
  readonly ticks?: readonly (readonly [string, string])[];
  /** A polygon that is shaded, less a circle. */
  readonly shade?: { readonly polygon: readonly string[]; readonly less?: number };
};

export type Box = { readonly x: number; readonly y: number; readonly width: number; readonly height: number };

export type Drawing = {
  readonly image: Image;
  /** Where the points are, in pixels. */
  readonly places: Readonly<Record<string, Point>>;
  /** Pixels to a unit of the plane. */
  readonly scale: number;
  readonly labels: readonly (Box & { readonly text: string })[];
};

const INK: Color = [20, 20, 20];
const BLUE: Color = [30, 70, 170];
const SHADE: Color = [205, 216, 235];
const WHITE: Color = [255, 255, 255];
/** Below this many pixels an image has no letters, so questions must not need them. */
export const LETTERS_FROM = 128;

type Line = { readonly a: Point; readonly b: Point };
type Ring = { readonly center: Point; readonly radius: number };

export function drawFigure(figure: Figure, size: number): Drawing | undefined {
  const small = size < LETTERS_FROM;
  const font = small ? 8 : Math.max(11, Math.round(size / 17));
  const stroke = small ? 1 : Math.max(1.5, size / 130);
  const { places, scale } = spread(figure, size, small ? font * 0.75 : font * 1.6);
  const at = (name: string) => places[name] as Point;
  const canvas = new Canvas(size, size);
  const lines: Line[] = [...figure.segments, ...(figure.dashed ?? [])].map(([a, b]) => ({ a: at(a), b: at(b) }));
  const rings: Ring[] = (figure.circles ?? []).map(({ center, through }) => ({
    center: at(center),
    radius: distance(at(center), at(through)),
  }));
  if (figure.shade !== undefined) {
    canvas.polygon(figure.shade.polygon.map(at), SHADE);
    const hole = rings[figure.shade.less ?? -1];
    if (hole !== undefined) canvas.disc(hole.center[0], hole.center[1], hole.radius, WHITE);
  }
  const draw = ({ a, b }: Line, color = INK, dash: readonly number[] = []) =>
    canvas.line(a[0], a[1], b[0], b[1], color, { width: stroke, cap: "round", dash });
  for (const [a, b] of figure.segments) draw({ a: at(a), b: at(b) });
  for (const [a, b] of figure.dashed ?? []) draw({ a: at(a), b: at(b) }, INK, [size / 45, size / 45]);
  for (const { center, radius } of rings) canvas.ring(center[0], center[1], radius, stroke, INK);
  for (const [a, b] of figure.arrows ?? []) arrowHead(canvas, at(a), at(b), size / 30, stroke);
  for (const [a, b] of figure.ticks ?? []) tick(canvas, at(a), at(b), size / 40, stroke);

  // The squares of right angles are lines that labels must not touch either.
  const square = (arms: readonly [string, string, string]) => {
    const [from, corner, to] = arms.map(at) as [Point, Point, Point];
    const reach = Math.min(distance(from, corner), distance(to, corner));
    return squareOf(from, corner, to, Math.min(reach * 0.45, size / 18));
  };
  for (const { arms, right } of figure.angles ?? []) if (right) lines.push(...square(arms));

  const labels: (Box & { text: string })[] = [];
  const place = (text: string, spots: readonly Point[], ring: boolean): boolean => {
    const box = Canvas.measure(text, font);
    const degree = ring && !small ? font * 0.3 : 0;
    const width = box.width + degree;
    for (const [cx, cy] of spots) {
      const spot = { x: cx - width / 2, y: cy - box.height / 2, width, height: box.height, text };
      if (!isFree(spot, size, lines, rings, labels, small ? 1 : 2)) continue;
      labels.push(spot);
      canvas.text(text, spot.x, spot.y, { size: font, color: BLUE });
      if (degree > 0) canvas.ring(spot.x + width - font * 0.06, spot.y + font * 0.1, font * 0.11, 1, BLUE);
      return true;
    }
    return false;
  };
  for (const { arms, label, right } of figure.angles ?? []) {
    const [from, corner, to] = arms.map(at) as [Point, Point, Point];
    const reach = Math.min(distance(from, corner), distance(to, corner));
    const radius = Math.min(reach * 0.45, size / (small ? 8 : 9));
    if (!right) arc(canvas, from, corner, to, radius, stroke);
    else for (const { a, b } of square(arms)) canvas.line(...a, ...b, INK, { width: Math.max(1, stroke * 0.7) });
    if (label === undefined) continue;
    const [ux, uy] = bisector(from, corner, to);
    const spots: Point[] = [];
    for (let d = radius * 0.6; d < reach * 1.15; d += 1) spots.push([corner[0] + ux * d, corner[1] + uy * d]);
    rings.push({ center: corner, radius: radius + 1 });
    const clear = place(label, spots, true);
    rings.pop();
    // In a small image a label may lie across its arc: there is no other room.
    if (!clear && !(small && place(label, spots, true))) return undefined;
  }
  const middle = centroid(Object.values(places));
  for (const { of, label } of figure.lengths ?? []) {
    const [a, b] = of.map(at) as [Point, Point];
    const length = distance(a, b);
    const [nx, ny] = [(b[1] - a[1]) / length, (a[0] - b[0]) / length];
    const spots: Point[] = [];
    for (let off = font * 0.6; off < font * 2.2; off += 1) {
      for (const t of [0.5, 0.42, 0.58, 0.33, 0.67]) {
        const [x, y] = [a[0] + (b[0] - a[0]) * t, a[1] + (b[1] - a[1]) * t];
        const away = (x - middle[0]) * nx + (y - middle[1]) * ny >= 0 ? 1 : -1;
        for (const side of [away, -away]) spots.push([x + nx * off * side, y + ny * off * side]);
      }
    }
    if (!place(label, spots, false)) return undefined;
  }
  if (!small) {
    for (const name of figure.letters) {
      const [x, y] = at(name);
      const out = Math.atan2(y - middle[1], x - middle[0]);
      const spots: Point[] = [];
      for (const off of [font * 0.85, font * 1.05, font * 1.3]) {
        for (let turn = 0; turn < 16; turn++) {
          const angle = out + (turn % 2 === 0 ? 1 : -1) * Math.ceil(turn / 2) * (Math.PI / 8);
          spots.push([x + Math.cos(angle) * off, y + Math.sin(angle) * off]);
        }
      }
      canvas.disc(x, y, stroke * 1.3, INK);
      if (!place(name, spots, false)) return undefined;
    }
  }
  return { image: canvas.toImage(), places, scale, labels };
}

/** The plane in the image, its figure in the middle. */
function spread(figure: Figure, size: number, margin: number): { places: Record<string, Point>; scale: number } {
  const names = Object.keys(figure.points);
  const corners: Point[] = names.map((name) => figure.points[name] as Point);
  for (const { center, through } of figure.circles ?? []) {
    const [c, t] = [figure.points[center] as Point, figure.points[through] as Point];
    const r = distance(c, t);
    corners.push([c[0] - r, c[1] - r], [c[0] + r, c[1] + r]);
  }
  const [xs, ys] = [corners.map(([x]) => x), corners.map(([, y]) => y)];
  const [left, right, low, high] = [Math.min(...xs), Math.max(...xs), Math.min(...ys), Math.max(...ys)];
  const scale = (size - 2 * margin) / Math.max(right - left, high - low);
  const place = ([x, y]: Point): Point => [
    size / 2 + (x - (left + right) / 2) * scale,
    size / 2 - (y - (low + high) / 2) * scale,
  ];
  return { places: Object.fromEntries(names.map((name) => [name, place(figure.points[name] as Point)])), scale };
}

function isFree(
  box: Box,
  size: number,
  lines: readonly Line[],
  rings: readonly Ring[],
  labels: readonly Box[],
  gap: number,
): boolean {
  const wide = { x: box.x - gap, y: box.y - gap, width: box.width + 2 * gap, height: box.height + 2 * gap };
  if (box.x < 0 || box.y < 0 || box.x + box.width > size || box.y + box.height > size) return false;
  return (
    !labels.some((other) => overlap(wide, other)) &&
    !lines.some((line) => crosses(line, wide)) &&
    !rings.some((ring) => touches(ring, wide))
  );
}

export function overlap(a: Box, b: Box): boolean {
  return a.x < b.x + b.width && b.x < a.x + a.width && a.y < b.y + b.height && b.y < a.y + a.height;
}

/** Whether a segment meets a box: what is left of it after each side has cut it. */
export function crosses({ a, b }: Line, box: Box): boolean {
  let [from, to] = [0, 1];
  for (const [start, along, low, high] of [
    [a[0], b[0] - a[0], box.x, box.x + box.width],
    [a[1], b[1] - a[1], box.y, box.y + box.height],
  ] as const) {
    if (along === 0) {
      if (start < low || start > high) return false;
      continue;
    }
    const [t0, t1] = [(low - start) / along, (high - start) / along];
    from = Math.max(from, Math.min(t0, t1));
    to = Math.min(to, Math.max(t0, t1));
  }
  return from <= to;
}

export function touches({ center, radius }: Ring, box: Box): boolean {
  const reach = (value: number, low: number, high: number) => Math.max(low - value, 0, value - high);
  const nearest = Math.hypot(reach(center[0], box.x, box.x + box.width), reach(center[1], box.y, box.y + box.height));
  const far = (value: number, low: number, high: number) => Math.max(Math.abs(value - low), Math.abs(value - high));
  const furthest = Math.hypot(far(center[0], box.x, box.x + box.width), far(center[1], box.y, box.y + box.height));
  return nearest <= radius && radius <= furthest;
}

function arc(canvas: Canvas, from: Point, corner: Point, to: Point, radius: number, stroke: number): void {
  const start = Math.atan2(from[1] - corner[1], from[0] - corner[0]);
  const turn = turnBetween(from, corner, to);
  const steps = Math.max(6, Math.ceil(Math.abs(turn) * 8));
  let last: Point | undefined;
  for (let i = 0; i <= steps; i++) {
    const angle = start + (turn * i) / steps;
    const point: Point = [corner[0] + radius * Math.cos(angle), corner[1] + radius * Math.sin(angle)];
    if (last)
      canvas.line(last[0], last[1], point[0], point[1], INK, { width: Math.max(1, stroke * 0.7), cap: "round" });
    last = point;
  }
}

/** From one arm to the other, the short way round. */
function turnBetween(from: Point, corner: Point, to: Point): number {
  const [a, b] = [from, to].map(([x, y]) => Math.atan2(y - corner[1], x - corner[0])) as [number, number];
  const turn = b - a;
  return turn > Math.PI ? turn - 2 * Math.PI : turn <= -Math.PI ? turn + 2 * Math.PI : turn;
}

function bisector(from: Point, corner: Point, to: Point): Point {
  const middle = Math.atan2(from[1] - corner[1], from[0] - corner[0]) + turnBetween(from, corner, to) / 2;
  return [Math.cos(middle), Math.sin(middle)];
}

/** The two sides of the small square in a right angle. */
function squareOf(from: Point, corner: Point, to: Point, side: number): readonly Line[] {
  const [u, v] = [towards(corner, from, side), towards(corner, to, side)];
  const opposite: Point = [u[0] + v[0] - corner[0], u[1] + v[1] - corner[1]];
  return [
    { a: u, b: opposite },
    { a: v, b: opposite },
  ];
}

function towards(from: Point, to: Point, length: number): Point {
  const all = distance(from, to);
  return [from[0] + ((to[0] - from[0]) * length) / all, from[1] + ((to[1] - from[1]) * length) / all];
}

function arrowHead(canvas: Canvas, a: Point, b: Point, side: number, stroke: number): void {
  const tip: Point = [a[0] + (b[0] - a[0]) * 0.8, a[1] + (b[1] - a[1]) * 0.8];
  const angle = Math.atan2(b[1] - a[1], b[0] - a[0]);
  for (const turn of [2.6, -2.6]) {
    const end: Point = [tip[0] + side * Math.cos(angle + turn), tip[1] + side * Math.sin(angle + turn)];
    canvas.line(tip[0], tip[1], end[0], end[1], INK, { width: stroke, cap: "round" });
  }
}

function tick(canvas: Canvas, a: Point, b: Point, half: number, stroke: number): void {
  const length = distance(a, b);
  const [nx, ny] = [((b[1] - a[1]) / length) * half, ((a[0] - b[0]) / length) * half];
  const [x, y] = [(a[0] + b[0]) / 2, (a[1] + b[1]) / 2];
  canvas.line(x - nx, y - ny, x + nx, y + ny, INK, { width: stroke, cap: "round" });
}

export function distance(a: Point, b: Point): number {
  return Math.hypot(b[0] - a[0], b[1] - a[1]);
}

function centroid(points: readonly Point[]): Point {
  return [
    points.reduce((sum, [x]) => sum + x, 0) / points.length,
    points.reduce((sum, [, y]) => sum + y, 0) / points.length,
  ];
}
