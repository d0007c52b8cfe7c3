/** A line chart as a picture: curves over steps, level lines for floors and ceilings, a legend. For files, where the viewer can't be. */

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

export function drawChart({ title, curves, levels = [], xLabel = "step", width = 720, height = 400 }: Chart): Image {
  const canvas = new Canvas(width, height);
  const points = curves.flatMap((curve) => curve.points).filter(([, y]) => Number.isFinite(y));
  const x = axis(
    points.map(([at]) => at),
    8,
  );
  const y = axis([...points.map(([, value]) => value), ...levels.map((level) => level.y)], 6);
  const box = { left: 64, right: width - 20, top: 44, bottom: height - 46 - 20 * Math.ceil(curves.length / 2) };
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
  for (const level of levels) {
    canvas.line(box.left, py(level.y), box.right, py(level.y), GREY, { dash: [5, 4] });
    canvas.text(`${level.name} ${label(level.y)}`, box.right, py(level.y) - 4, {
      size: 11,
      color: GREY,
      align: "right",
      baseline: "bottom",
    });
  }
  for (const [i, curve] of curves.entries()) {
    const color = COLORS[i % COLORS.length] as Color;
    const seen = curve.points.filter(([, value]) => Number.isFinite(value));
    for (let j = 1; j < seen.length; j++) {
      const [[x0, y0], [x1, y1]] = [seen[j - 1] as readonly [number, number], seen[j] as readonly [number, number]];
      canvas.line(px(x0), py(y0), px(x1), py(y1), color, { width: 2, cap: "round" });
    }
    if (seen.length <= DOTTED) for (const [at, value] of seen) canvas.disc(px(at), py(value), 3.5, color);
    const last = seen.at(-1);
    const place = { x: box.left + (i % 2) * ((box.right - box.left) / 2), y: box.bottom + 48 + 20 * Math.floor(i / 2) };
    canvas.line(place.x, place.y, place.x + 18, place.y, color, { width: 3 });
    canvas.text(`${curve.name}${last === undefined ? "" : ` ${label(last[1])}`}`, place.x + 26, place.y, {
      size: 13,
      color: INK,
      baseline: "middle",
    });
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
