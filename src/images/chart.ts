/** A line chart as an image: curves over steps, level lines for floors and ceilings, a legend. For files, where the viewer can't be. */

import type { Image } from "../core/image.ts";
import { Canvas, type Color } from "./canvas.ts";

export type Curve = { readonly name: string; readonly points: readonly (readonly [x: number, y: number])[] };
export type Level = { readonly name: string; readonly y: number };
export type Chart = {
  readonly title: string;
  readonly curves: readonly Curve[];
  readonly levels?: readonly Level[];
  readonly xLabel?: string;
  readonly width?: number;
  readonly height?: number;
};

const INK: Color = [40, 44, 52];
const FAINT: Color = [224, 226, 230];
const GREY: Color = [120, 126, 136];
/** Told apart by most people who see colours differently. */
const COLORS: readonly Color[] = [
  [0, 107, 164],
  [225, 112, 20],
  [62, 142, 76],
  [160, 72, 154],
  [181, 54, 54],
  [106, 106, 106],
];
/** More dots than that hide the curve. */
const DOTTED = 24;
const LEGEND_SIZE = 13;
const LEVEL_SIZE = 11;
/** From the start of a legend's line to its words, and from these to the next entry. */
const LEGEND_INDENT = 26;
const LEGEND_GAP = 16;

export function drawChart({ title, curves, levels = [], xLabel = "step", width = 720, height = 400 }: Chart): Image {
  const canvas = new Canvas(width, height);
  const points = curves.flatMap((curve) => curve.points).filter(([, y]) => Number.isFinite(y));
  const x = axis(
    points.map(([at]) => at),
    8,
  );
  const y = axis([...points.map(([, value]) => value), ...levels.map((level) => level.y)], 6);
  const legend = curves.map(({ name, points }) => {
    const last = points.findLast(([, value]) => Number.isFinite(value));
    return last === undefined ? name : `${name} ${label(last[1])}`;
  });
  const [left, right] = [64, width - 20];
  const widest = Math.max(0, ...legend.map((words) => Canvas.measure(words, LEGEND_SIZE).width));
  const columns = widest + LEGEND_INDENT + LEGEND_GAP <= (right - left) / 2 ? 2 : 1;
  const box = { left, right, top: 44, bottom: height - 46 - 20 * Math.ceil(curves.length / columns) };
  const px = (value: number) => box.left + ((value - x.from) / (x.to - x.from)) * (box.right - box.left);
  const py = (value: number) => box.bottom - ((value - y.from) / (y.to - y.from)) * (box.bottom - box.top);
  canvas.text(title, box.left, 14, { size: 16, color: INK, weight: 1.5 });
  for (const tick of y.ticks) {
    canvas.line(box.left, py(tick), box.right, py(tick), FAINT);
    canvas.text(label(tick), box.left - 8, py(tick), { size: 12, color: GREY, align: "right", baseline: "middle" });
  }
  for (const tick of x.ticks) {
    canvas.line(px(tick), box.bottom, px(tick), box.bottom + 4, GREY);
    canvas.text(label(tick), px(tick), box.bottom + 9, { size: 12, color: GREY, align: "center" });
  }
  canvas.line(box.left, box.bottom, box.right, box.bottom, GREY);
  canvas.text(xLabel, box.right, box.bottom + 26, { size: 12, color: GREY, align: "right" });
  // Words of levels that lie on top of each other stand side by side.
  const beside: { y: number; words: string }[] = [];
  for (const at of new Set(levels.map(({ y }) => y))) {
    canvas.line(box.left, py(at), box.right, py(at), GREY, { dash: [5, 4] });
  }
  for (const level of levels.toSorted((a, b) => b.y - a.y)) {
    const words = `${level.name} ${label(level.y)}`;
    const above = beside.at(-1);
    if (above !== undefined && py(level.y) - py(above.y) < LEVEL_SIZE + 4) above.words = `${words}, ${above.words}`;
    else beside.push({ y: level.y, words });
  }
  for (const { y, words } of beside) {
    canvas.text(words, box.right, py(y) - 4, { size: LEVEL_SIZE, color: GREY, align: "right", baseline: "bottom" });
  }
  for (const [i, curve] of curves.entries()) {
    const color = COLORS[i % COLORS.length] as Color;
    const seen = curve.points.filter(([, value]) => Number.isFinite(value));
    for (let j = 1; j < seen.length; j++) {
      const [[x0, y0], [x1, y1]] = [seen[j - 1] as readonly [number, number], seen[j] as readonly [number, number]];
      canvas.line(px(x0), py(y0), px(x1), py(y1), color, { width: 2, cap: "round" });
    }
    if (seen.length <= DOTTED) for (const [at, value] of seen) canvas.disc(px(at), py(value), 3.5, color);
    const [column, row] = [i % columns, Math.floor(i / columns)];
    const place = { x: box.left + column * ((box.right - box.left) / columns), y: box.bottom + 48 + 20 * row };
    canvas.line(place.x, place.y, place.x + 18, place.y, color, { width: 3 });
    const words = { size: LEGEND_SIZE, color: INK, baseline: "middle" } as const;
    canvas.text(legend[i] as string, place.x + LEGEND_INDENT, place.y, words);
  }
  return canvas.toImage();
}

/** Round ticks (1, 2, 5 × a power of ten) around all values. */
function axis(values: readonly number[], most: number): { from: number; to: number; ticks: number[] } {
  const known = values.filter(Number.isFinite);
  let [low, high] = [Infinity, -Infinity];
  for (const value of known) [low, high] = [Math.min(low, value), Math.max(high, value)];
  if (known.length === 0) [low, high] = [0, 1];
  if (low === high) [low, high] = [low - 0.5, high + 0.5];
  const rough = (high - low) / most;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = power * ([1, 2, 5, 10].find((factor) => factor * power >= rough) ?? 10);
  const [from, to] = [Math.floor(low / step + 1e-9) * step, Math.ceil(high / step - 1e-9) * step];
  const ticks = Array.from({ length: Math.round((to - from) / step) + 1 }, (_, i) => from + i * step);
  return { from, to, ticks };
}

function label(value: number): string {
  return Math.abs(value) >= 1e5 ? value.toExponential(1) : String(Number(value.toPrecision(3)));
}
