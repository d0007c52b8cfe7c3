/**
 * Paint on RGB bytes with an object id under every pixel. A shape is a polygon filled by exact coverage; its paint runs from
 * a lit colour to a shaded one across the shape, with grain from the noise tile and perhaps a pattern. Where a shape covers
 * half a pixel or more, the pixel belongs to the object that is being drawn (`brush.id`; 0 is the backdrop).
 * Integers, sums, products and square roots only, so an image has the same bytes everywhere.
 */
import { Image } from "../../../src/core/index.ts";
import { addEdge } from "../../../src/images/index.ts";
import { grain as grainAt } from "./noise.ts";

export type Color = readonly [number, number, number];

export type Paint = {
  readonly color: Color;
  /** The colour at the far end of the gradient; absent: a shade of `color`. */
  readonly to?: Color;
  /** Which way the gradient runs, in pixels right and down; absent: away from the light. */
  readonly along?: readonly [number, number];
  /** No light and shade. */
  readonly flat?: boolean;
  readonly alpha?: number;
  /** How much the noise changes brightness (0.05 by default), and how it is stretched across and down. */
  readonly grain?: number;
  readonly stretch?: readonly [number, number];
  /** Where `accent` is laid over the colour: 0 (not) to 1, by place in the pen's frame. */
  readonly pattern?: Pattern;
  readonly accent?: Color;
};
export type Pattern = (u: number, v: number) => number;

const SUNLIT: Color = [255, 248, 222];
const SHADOW: Color = [38, 30, 74];

export function mix(a: Color, b: Color, t: number): Color {
  return [a[0] + (b[0] - a[0]) * t, a[1] + (b[1] - a[1]) * t, a[2] + (b[2] - a[2]) * t];
}
/** Towards sunlight. */
export function lift(color: Color, amount: number): Color {
  return mix(color, SUNLIT, amount);
}
/** Towards the violet of a shadow. */
export function deepen(color: Color, amount: number): Color {
  return mix(color, SHADOW, amount);
}
export class Brush {
  readonly width: number;
  readonly height: number;
  readonly rgb: Uint8ClampedArray;
  readonly ids: Uint8Array;
  /** Whose pixels are being painted. */
  id = 0;
  /** -1: the light comes from the left, 1: from the right. */
  light = -1;
  /** Air between the eye and what is painted: mixed into every colour. */
  haze: { readonly color: Color; readonly amount: number } | undefined;
  #area: Float32Array;

  constructor(width: number, height: number) {
    this.width = width;
    this.height = height;
    this.rgb = new Uint8ClampedArray(width * height * 3);
    this.ids = new Uint8Array(width * height);
    this.#area = new Float32Array((width + 1) * height);
  }

  toImage(): Image {
    return new Image(this.width, this.height, new Uint8Array(this.rgb));
  }

  /** Fills the polygon x0, y0, x1, y1, …; `frame` turns pixels into the pattern's u and v. */
  fill(points: readonly number[], paint: Paint, frame: Frame = PIXELS): void {
    let [left, right, top, bottom] = [Infinity, -Infinity, Infinity, -Infinity];
    for (let i = 0; i < points.length; i += 2) {
      const [x, y] = [points[i] as number, points[i + 1] as number];
      if (x < left) left = x;
      if (x > right) right = x;
      if (y < top) top = y;
      if (y > bottom) bottom = y;
    }
    const x0 = Math.max(0, Math.floor(left));
    const y0 = Math.max(0, Math.floor(top));
    const x1 = Math.min(this.width, Math.ceil(right));
    const y1 = Math.min(this.height, Math.ceil(bottom));
    if (!(x0 < x1 && y0 < y1)) return;
    const columns = x1 - x0 + 1;
    const rows = y1 - y0;
    const area = this.#area.fill(0, 0, columns * rows);
    for (let i = 0; i < points.length; i += 2) {
      const j = i + 2 < points.length ? i + 2 : 0;
      addEdge(
        area,
        columns,
        rows,
        (points[i] as number) - x0,
        (points[i + 1] as number) - y0,
        (points[j] as number) - x0,
        (points[j + 1] as number) - y0,
      );
    }
    this.#paint(area, [x0, y0, x1, y1], [left, top, right, bottom], paint, frame);
  }

  #paint(area: Float32Array, clip: Box, box: Box, paint: Paint, frame: Frame): void {
    const { alpha = 1, grain = 0.05, pattern } = paint;
    const [x0, y0, x1, y1] = clip;
    const from = this.#through(paint.flat || paint.to ? paint.color : lift(paint.color, 0.16));
    const to = this.#through(paint.to ?? (paint.flat ? paint.color : deepen(paint.color, 0.2)));
    const accent = this.#through(paint.accent ?? [255, 255, 255]);
    const [red, green, blue] = from;
    const [dRed, dGreen, dBlue] = [to[0] - red, to[1] - green, to[2] - blue];
    const [ax, ay] = paint.along ?? [-0.5 * this.light, 1];
    // The gradient spans the box: 0 at the corner nearest the light, 1 at the farthest.
    const low = Math.min(box[0] * ax, box[2] * ax) + Math.min(box[1] * ay, box[3] * ay);
    const high = Math.max(box[0] * ax, box[2] * ax) + Math.max(box[1] * ay, box[3] * ay);
    const scale = high > low ? 1 / (high - low) : 0;
    const [stretchX, stretchY] = paint.stretch ?? [1, 1];
    const { rgb, ids, width, id } = this;
    for (let y = y0; y < y1; y++) {
      let sum = 0;
      let at = (y - y0) * (x1 - x0 + 1);
      const shadeRow = ((y + 0.5) * ay - low) * scale;
      const grainRow = Math.floor(y * stretchY);
      for (let x = x0; x < x1; x++) {
        sum += area[at++] as number;
        let cover = sum < 0 ? -sum : sum;
        if (cover < 0.004) continue;
        if (cover > 1) cover = 1;
        let shade = shadeRow + (x + 0.5) * ax * scale;
        if (shade < 0) shade = 0;
        else if (shade > 1) shade = 1;
        let r = red + dRed * shade;
        let g = green + dGreen * shade;
        let b = blue + dBlue * shade;
        if (pattern !== undefined) {
          const dx = x + 0.5 - frame.x;
          const dy = y + 0.5 - frame.y;
          const laid = pattern(dx * frame.ux + dy * frame.uy, dx * frame.vx + dy * frame.vy);
          if (laid > 0) {
            const dark = 1 - shade * 0.3;
            r += (accent[0] * dark - r) * laid;
            g += (accent[1] * dark - g) * laid;
            b += (accent[2] * dark - b) * laid;
          }
        }
        if (grain !== 0) {
          const factor = 1 + grain * grainAt(Math.floor(x * stretchX), grainRow);
          r *= factor;
          g *= factor;
          b *= factor;
        }
        const i = (y * width + x) * 3;
        const opacity = cover * alpha;
        rgb[i] = (rgb[i] as number) + (r - (rgb[i] as number)) * opacity;
        rgb[i + 1] = (rgb[i + 1] as number) + (g - (rgb[i + 1] as number)) * opacity;
        rgb[i + 2] = (rgb[i + 2] as number) + (b - (rgb[i + 2] as number)) * opacity;
        if (opacity >= 0.5) ids[y * width + x] = id;
      }
    }
  }

  #through(color: Color): Color {
    return this.haze === undefined ? color : mix(color, this.haze.color, this.haze.amount);
  }

  /** A soft spot: full in the middle, nothing at the rim. Light where `color` is light; belongs to no object. */
  glow(cx: number, cy: number, rx: number, ry: number, color: Color, strength: number): void {
    const { rgb, width } = this;
    const y1 = Math.min(this.height, Math.ceil(cy + ry));
    const x1 = Math.min(width, Math.ceil(cx + rx));
    for (let y = Math.max(0, Math.floor(cy - ry)); y < y1; y++) {
      const v = (y + 0.5 - cy) / ry;
      for (let x = Math.max(0, Math.floor(cx - rx)); x < x1; x++) {
        const u = (x + 0.5 - cx) / rx;
        const fall = 1 - u * u - v * v;
        if (fall <= 0) continue;
        const opacity = fall * fall * strength;
        const i = (y * width + x) * 3;
        rgb[i] = (rgb[i] as number) + (color[0] - (rgb[i] as number)) * opacity;
        rgb[i + 1] = (rgb[i + 1] as number) + (color[1] - (rgb[i + 1] as number)) * opacity;
        rgb[i + 2] = (rgb[i + 2] as number) + (color[2] - (rgb[i + 2] as number)) * opacity;
      }
    }
  }

  /** Every pixel of the rows `top..bottom-1` from a function of its place, for skies and water. */
  wash(top: number, bottom: number, paint: (x: number, y: number, out: [number, number, number]) => void): void {
    const out: [number, number, number] = [0, 0, 0];
    const first = Math.max(0, Math.floor(top));
    const last = Math.min(this.height, Math.ceil(bottom));
    for (let y = first; y < last; y++) {
      for (let x = 0; x < this.width; x++) {
        paint(x, y, out);
        const i = (y * this.width + x) * 3;
        this.rgb[i] = out[0];
        this.rgb[i + 1] = out[1];
        this.rgb[i + 2] = out[2];
        this.ids[y * this.width + x] = 0;
      }
    }
  }

  /** The last touch: warmer or cooler light, and corners a little darker. */
  grade(tint: Color, vignette: number): void {
    const { rgb, width, height } = this;
    for (let y = 0; y < height; y++) {
      const v = (y + 0.5) / height - 0.5;
      for (let x = 0; x < width; x++) {
        const u = (x + 0.5) / width - 0.5;
        const dark = 1 - vignette * (u * u + v * v) * 2;
        const i = (y * width + x) * 3;
        rgb[i] = ((rgb[i] as number) * tint[0] * dark) / 255;
        rgb[i + 1] = ((rgb[i + 1] as number) * tint[1] * dark) / 255;
        rgb[i + 2] = ((rgb[i + 2] as number) * tint[2] * dark) / 255;
      }
    }
  }
}

type Box = readonly [left: number, top: number, right: number, bottom: number];

/** How pixels become a pattern's u and v: an origin, and what a pixel to the right and down adds to each. */
export type Frame = {
  readonly x: number;
  readonly y: number;
  readonly ux: number;
  readonly uy: number;
  readonly vx: number;
  readonly vy: number;
};
const PIXELS: Frame = { x: 0, y: 0, ux: 1, uy: 0, vx: 0, vy: 1 };
