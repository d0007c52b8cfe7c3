/**
 * A drawing surface over RGB bytes: rectangles, discs, lines, polygons and text, all opaque. Shapes are anti-aliased
 * by analytic coverage (how much of a pixel-wide window a shape fills), rounded to 1/255, and blended in integers, so
 * a scene has the same bytes on every machine. Pixel (x, y) covers [x, x+1) × [y, y+1); its centre lies at +0.5.
 */
import { checkSize, Image } from "../core/image.ts";
import { freshBytes, tuneMemory } from "../core/platform.ts";
import { addEdge } from "./coverage.ts";
import { fontMetrics, glyphMask, glyphWidth, penOf } from "./font.ts";

export type Color = readonly [number, number, number];
export type Rect = { readonly x: number; readonly y: number; readonly width: number; readonly height: number };
export type Point = readonly [x: number, y: number];

export type LineOptions = {
  readonly width?: number;
  /** `butt` ends at the end points, `square` and `round` half a width beyond. Default `butt`. */
  readonly cap?: "butt" | "square" | "round";
  /** Lengths of strokes and gaps by turns, in pixels; each stroke gets the cap. */
  readonly dash?: readonly number[];
  /** Nothing is drawn outside; its edges are rounded to whole pixels. */
  readonly clip?: Rect;
};

export type TextOptions = {
  /** The em in pixels; capitals are about 0.76 of it. */
  readonly size: number;
  readonly color: Color;
  readonly align?: "left" | "center" | "right";
  /** What `y` is: the upper edge, middle or lower edge of capitals and digits. Tails (g, p) hang below. */
  readonly baseline?: "top" | "middle" | "bottom";
  /** Multiplies the stroke's thickness; 1 is regular, 1.6 bold. */
  readonly weight?: number;
};

const WHITE: Color = [255, 255, 255];

tuneMemory();

export function copyBytes(bytes: Uint8Array): Uint8Array {
  const copy = freshBytes(bytes.length);
  copy.set(bytes);
  return copy;
}

export class Canvas {
  readonly width: number;
  readonly height: number;
  /** RGB, `width * height * 3` bytes. */
  readonly data: Uint8Array;

  /** `null` leaves the pixels black, for callers that paint them all, or as they are in `data`, which then is the canvas's own. */
  constructor(width: number, height: number, background: Color | null = WHITE, data?: Uint8Array) {
    checkSize(width, height);
    this.width = width;
    this.height = height;
    this.data = data ?? new Uint8Array(width * height * 3);
    if (background === null) return;
    if (background[0] === background[1] && background[1] === background[2]) this.data.fill(background[0]);
    else this.fillRect(0, 0, width, height, background);
  }

  static from(image: Image): Canvas {
    return new Canvas(image.width, image.height, null, copyBytes(image.data));
  }

  /** A copy; the canvas can go on. */
  toImage(): Image {
    return new Image(this.width, this.height, copyBytes(this.data));
  }

  /** Edges are rounded to whole pixels. */
  fillRect(x: number, y: number, width: number, height: number, color: Color): void {
    const x0 = Math.max(0, Math.round(x));
    const y0 = Math.max(0, Math.round(y));
    const x1 = Math.min(this.width, Math.round(x + width));
    const y1 = Math.min(this.height, Math.round(y + height));
    if (!(x0 < x1 && y0 < y1)) return;
    this.#span(x0, x1, y0, color);
    const start = (y0 * this.width + x0) * 3;
    const end = (y0 * this.width + x1) * 3;
    for (let row = y0 + 1; row < y1; row++) this.data.copyWithin((row * this.width + x0) * 3, start, end);
  }

  /** Drawn inside the rectangle. */
  strokeRect(x: number, y: number, width: number, height: number, color: Color, thickness = 1): void {
    const t = Math.min(thickness, width / 2, height / 2);
    this.fillRect(x, y, width, t, color);
    this.fillRect(x, y + height - t, width, t, color);
    this.fillRect(x, y, t, height, color);
    this.fillRect(x + width - t, y, t, height, color);
  }

  disc(cx: number, cy: number, radius: number, color: Color): void {
    this.#annulus(cx, cy, -radius, radius, color);
  }

  /** A circle whose line runs along `radius`, half of the thickness on either side. */
  ring(cx: number, cy: number, radius: number, thickness: number, color: Color): void {
    this.#annulus(cx, cy, radius - thickness / 2, radius + thickness / 2, color);
  }

  line(x0: number, y0: number, x1: number, y1: number, color: Color, options: LineOptions = {}): void {
    const length = Math.sqrt((x1 - x0) * (x1 - x0) + (y1 - y0) * (y1 - y0));
    const dash = options.dash ?? [];
    const period = dash.reduce((sum, part) => sum + part, 0);
    if (!(period > 0) || dash.some((part) => part < 0)) {
      this.#stroke(x0, y0, x1, y1, color, options);
      return;
    }
    for (let at = 0, part = 0; at < length; part++) {
      const end = Math.min(length, at + (dash[part % dash.length] as number));
      if (part % 2 === 0) {
        const [a, b] = [at / length, end / length];
        const [dx, dy] = [x1 - x0, y1 - y0];
        this.#stroke(x0 + a * dx, y0 + a * dy, x0 + b * dx, y0 + b * dy, color, options);
      }
      at = end;
    }
  }

  /**
   * Fills a polygon, whichever way round its points run. Coverage is the exact area: every edge adds its signed
   * area to the pixels it crosses, and a running sum along the row fills what lies to the right of it.
   */
  polygon(points: readonly Point[], color: Color): void {
    let [left, right, top, bottom] = [Infinity, -Infinity, Infinity, -Infinity];
    for (const [x, y] of points) {
      left = Math.min(left, x);
      right = Math.max(right, x);
      top = Math.min(top, y);
      bottom = Math.max(bottom, y);
    }
    const x0 = Math.max(0, Math.floor(left));
    const y0 = Math.max(0, Math.floor(top));
    const x1 = Math.min(this.width, Math.ceil(right));
    const y1 = Math.min(this.height, Math.ceil(bottom));
    if (!(x0 < x1 && y0 < y1)) return;
    const columns = x1 - x0 + 1;
    const area = new Float64Array(columns * (y1 - y0));
    for (let i = 0; i < points.length; i++) {
      const [ax, ay] = points[i] as Point;
      const [bx, by] = points[(i + 1) % points.length] as Point;
      addEdge(area, columns, y1 - y0, ax - x0, ay - y0, bx - x0, by - y0);
    }
    for (let row = y0; row < y1; row++) {
      let sum = 0;
      for (let x = x0; x < x1; x++) {
        sum += area[(row - y0) * columns + x - x0] as number;
        this.#blend((row * this.width + x) * 3, Math.round(Math.min(1, Math.abs(sum)) * 255), color);
      }
    }
  }

  /** Printable ASCII in Saccade's own font; any other character shows as an empty box. Set on whole pixels. */
  text(value: string, x: number, y: number, options: TextOptions): void {
    const { size, color, align = "left", baseline = "top", weight = 1 } = options;
    const metrics = fontMetrics(size, weight);
    const box = Canvas.measure(value, size, weight);
    let pen = Math.round(align === "left" ? x : align === "right" ? x - box.width : x - box.width / 2);
    const top = Math.round(baseline === "top" ? y : baseline === "bottom" ? y - box.height : y - box.height / 2);
    for (const character of value) {
      const mask = glyphMask(character, metrics);
      const left = pen + mask.left;
      const from = Math.max(0, -left);
      const to = Math.min(mask.width, this.width - left);
      for (let row = 0; row < mask.height; row++) {
        const py = top + mask.top + row;
        if (py < 0 || py >= this.height) continue;
        for (let column = from; column < to; column++) {
          const covered = mask.coverage[row * mask.width + column] as number;
          this.#blend((py * this.width + left + column) * 3, covered, color);
        }
      }
      pen += glyphWidth(character, metrics) + metrics.gap;
    }
  }

  /** The box of a line of text: its ink's width, and the height of capitals. */
  static measure(value: string, size: number, weight = 1): { width: number; height: number } {
    const metrics = fontMetrics(size, weight);
    let width = value === "" ? 0 : penOf(metrics.stroke) - metrics.gap;
    for (const character of value) width += glyphWidth(character, metrics) + metrics.gap;
    return { width, height: metrics.capHeight };
  }

  /** Copies an image, clipped. */
  draw(image: Image, x: number, y: number): void {
    const [left, top] = [Math.round(x), Math.round(y)];
    const from = Math.max(0, -left);
    const to = Math.min(image.width, this.width - left);
    if (from >= to) return;
    for (let row = Math.max(0, -top); row < Math.min(image.height, this.height - top); row++) {
      const source = image.data.subarray((row * image.width + from) * 3, (row * image.width + to) * 3);
      this.data.set(source, ((top + row) * this.width + left + from) * 3);
    }
  }

  /** Everything whose distance from the centre lies between `inner` and `outer`. */
  #annulus(cx: number, cy: number, inner: number, outer: number, color: Color): void {
    const reach = outer + 0.5;
    const y1 = Math.min(this.height, Math.ceil(cy + reach));
    for (let row = Math.max(0, Math.floor(cy - reach)); row < y1; row++) {
      const dy = row + 0.5 - cy;
      const chord = halfChord(reach, dy);
      if (chord === 0) continue;
      const x1 = Math.min(this.width, Math.ceil(cx + chord));
      // Columns that are covered whole (disc) or not at all (ring) need no square root.
      const core = inner < 0 ? halfChord(outer - 0.5, dy) : halfChord(inner - 0.5, dy);
      const core0 = Math.ceil(cx - core - 0.5);
      const core1 = Math.floor(cx + core - 0.5) + 1;
      for (let x = Math.max(0, Math.floor(cx - chord)); x < x1; x++) {
        if (core > 0 && x >= core0 && x < core1) {
          const end = Math.min(x1, core1);
          if (inner < 0) this.#span(x, end, row, color);
          x = end - 1;
          continue;
        }
        const dx = x + 0.5 - cx;
        const covered = window(inner, outer, Math.sqrt(dx * dx + dy * dy));
        this.#blend((row * this.width + x) * 3, Math.round(covered * 255), color);
      }
    }
  }

  #stroke(x0: number, y0: number, x1: number, y1: number, color: Color, options: LineOptions): void {
    const { width = 1, cap = "butt", clip } = options;
    const half = width / 2;
    const length = Math.sqrt((x1 - x0) * (x1 - x0) + (y1 - y0) * (y1 - y0));
    const ux = length > 0 ? (x1 - x0) / length : 1;
    const uy = length > 0 ? (y1 - y0) / length : 0;
    const extra = cap === "butt" ? 0 : half;
    const reach = half + extra + 1;
    const left = Math.max(0, clip ? Math.round(clip.x) : 0);
    const top = Math.max(0, clip ? Math.round(clip.y) : 0, Math.floor(Math.min(y0, y1) - reach));
    const right = Math.min(this.width, clip ? Math.round(clip.x + clip.width) : this.width);
    const bottom = Math.min(
      this.height,
      clip ? Math.round(clip.y + clip.height) : this.height,
      Math.ceil(Math.max(y0, y1) + reach),
    );
    for (let row = top; row < bottom; row++) {
      const dy = row + 0.5 - y0;
      // Only the columns that the strip around the line can touch in this row, within the line's own box.
      const strip = Math.abs(uy) > 1e-9 ? (half + 0.5) / Math.abs(uy) : Infinity;
      const middle = Math.abs(uy) > 1e-9 ? x0 + (dy * ux) / uy : x0;
      const from = Math.max(left, Math.floor(Math.max(middle - strip, Math.min(x0, x1) - reach)));
      const to = Math.min(right, Math.ceil(Math.min(middle + strip, Math.max(x0, x1) + reach)));
      for (let x = from; x < to; x++) {
        const dx = x + 0.5 - x0;
        const along = dx * ux + dy * uy;
        const across = dx * uy - dy * ux;
        let covered: number;
        if (cap === "round") {
          const past = along < 0 ? along : along > length ? along - length : 0;
          covered = window(-half, half, past === 0 ? across : Math.sqrt(past * past + across * across));
        } else {
          covered = window(-half, half, across) * window(-extra, length + extra, along);
        }
        this.#blend((row * this.width + x) * 3, Math.round(covered * 255), color);
      }
    }
  }

  /** Solid pixels [x0, x1) of a row, within the canvas. */
  #span(x0: number, x1: number, row: number, color: Color): void {
    const end = (row * this.width + x1) * 3;
    for (let i = (row * this.width + x0) * 3; i < end; i += 3) {
      this.data[i] = color[0];
      this.data[i + 1] = color[1];
      this.data[i + 2] = color[2];
    }
  }

  /** Mixes `color` into the pixel at byte `i`; `alpha` is 0..255. */
  #blend(i: number, alpha: number, color: Color): void {
    const data = this.data;
    if (alpha === 0) return;
    if (alpha === 255) {
      data[i] = color[0];
      data[i + 1] = color[1];
      data[i + 2] = color[2];
      return;
    }
    const rest = 255 - alpha;
    data[i] = ((data[i] as number) * rest + color[0] * alpha + 127) / 255;
    data[i + 1] = ((data[i + 1] as number) * rest + color[1] * alpha + 127) / 255;
    data[i + 2] = ((data[i + 2] as number) * rest + color[2] * alpha + 127) / 255;
  }
}

/** The part of the window [at - ½, at + ½] that lies in [low, high]. */
function window(low: number, high: number, at: number): number {
  return Math.max(0, Math.min(high, at + 0.5) - Math.max(low, at - 0.5));
}

function halfChord(radius: number, distance: number): number {
  return radius > Math.abs(distance) ? Math.sqrt(radius * radius - distance * distance) : 0;
}
