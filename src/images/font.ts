/**
 * Saccade's own stroke font: printable ASCII, drawn as lines and curves on a small grid. Capitals and digits span
 * y = 0 (top) to 6 (baseline), small letters start at 2, tails reach 8. A glyph is its width and its strokes:
 * points "x,y", strokes parted by ";", and "~x,y" the control point of a quadratic curve to the next point.
 *
 * Whole grid lines are moved to whole pixels, so stems stay crisp at 8 px; what lies between is interpolated. At one
 * pixel per unit this is the classic 5×7 matrix font. Glyph masks are cached: drawing text is copying coverage.
 */
import glyphs from "./glyphs.json" with { type: "json" };

const GLYPHS = glyphs as unknown as Readonly<Record<string, readonly [width: number, strokes: string]>>;

/** What stands for a character the font does not have: an empty box. */
const MISSING: readonly [number, string] = [4, "0,0 4,0 4,6 0,6 0,0"];
const CAP_UNITS = 6;
const GAP_UNITS = 2;

/** Sizes in pixels that all glyphs of one size and weight share. */
export type FontMetrics = {
  /** Pixels per grid unit. */
  readonly scale: number;
  readonly stroke: number;
  /** From the upper edge of a capital to its lower edge. */
  readonly capHeight: number;
  /** Empty grid columns between two glyphs, stroke included. */
  readonly gap: number;
};

/** Coverage 0..255 of one glyph; `left`/`top` lead from the glyph's ink box corner to the mask's. */
export type GlyphMask = {
  readonly width: number;
  readonly height: number;
  readonly left: number;
  readonly top: number;
  readonly coverage: Uint8Array;
};

/** `size` is the em in pixels. Below 9 px letters are drawn a little larger than asked, to stay legible. */
export function fontMetrics(size: number, weight = 1): FontMetrics {
  const scale = Math.max(size / 9, Math.min(1, size / 7));
  const stroke = Math.max(1, size * 0.095) * weight;
  const pen = penOf(stroke);
  return {
    scale,
    stroke,
    capHeight: Math.round(CAP_UNITS * scale) + pen,
    gap: Math.max(pen + 1, Math.round(GAP_UNITS * scale)),
  };
}

/** Horizontal distance between the first and the last stem of a character, in pixels. */
export function glyphWidth(character: string, metrics: FontMetrics): number {
  return Math.round((GLYPHS[character] ?? MISSING)[0] * metrics.scale);
}

/** Pixels a stem takes when it stands on the pixel grid. */
export function penOf(stroke: number): number {
  return Math.max(1, Math.round(stroke));
}

const masks = new Map<string, GlyphMask>();
const MAX_CACHED_MASKS = 4096;

export function glyphMask(character: string, metrics: FontMetrics): GlyphMask {
  const key = `${character}${metrics.scale}/${metrics.stroke}`;
  let mask = masks.get(key);
  if (mask === undefined) {
    if (masks.size >= MAX_CACHED_MASKS) masks.clear();
    mask = drawMask((GLYPHS[character] ?? MISSING)[1], metrics);
    masks.set(key, mask);
  }
  return mask;
}

function drawMask(strokes: string, { scale, stroke }: FontMetrics): GlyphMask {
  const segments = flatten(strokes, scale, penOf(stroke) / 2);
  if (segments.length === 0) return { width: 0, height: 0, left: 0, top: 0, coverage: new Uint8Array(0) };
  const xs = segments.filter((_, i) => i % 2 === 0);
  const ys = segments.filter((_, i) => i % 2 === 1);
  const half = stroke / 2;
  const left = Math.floor(Math.min(...xs) - half - 0.5);
  const top = Math.floor(Math.min(...ys) - half - 0.5);
  const width = Math.ceil(Math.max(...xs) + half + 0.5) - left;
  const height = Math.ceil(Math.max(...ys) + half + 0.5) - top;
  const coverage = new Uint8Array(width * height);
  for (let row = 0; row < height; row++) {
    for (let column = 0; column < width; column++) {
      const distance = Math.sqrt(nearest(segments, left + column + 0.5, top + row + 0.5));
      // The part of a pixel-wide window at this distance that the stroke covers.
      const covered = Math.min(half, distance + 0.5) - Math.max(-half, distance - 0.5);
      coverage[row * width + column] = Math.round(Math.max(0, Math.min(1, covered)) * 255);
    }
  }
  return { width, height, left, top, coverage };
}

/** Squared distance from a point to the nearest of the segments [x0, y0, x1, y1, …]. */
function nearest(segments: readonly number[], x: number, y: number): number {
  let best = Number.POSITIVE_INFINITY;
  for (let i = 0; i < segments.length; i += 4) {
    const x0 = segments[i] as number;
    const y0 = segments[i + 1] as number;
    const dx = (segments[i + 2] as number) - x0;
    const dy = (segments[i + 3] as number) - y0;
    const squared = dx * dx + dy * dy;
    const along = squared === 0 ? 0 : Math.max(0, Math.min(1, ((x - x0) * dx + (y - y0) * dy) / squared));
    const ex = x - x0 - along * dx;
    const ey = y - y0 - along * dy;
    best = Math.min(best, ex * ex + ey * ey);
  }
  return best;
}

type GridPoint = { readonly x: number; readonly y: number; readonly control: boolean };

/** Line segments [x0, y0, x1, y1, …] of a glyph in pixels, its grid lines snapped and its curves cut to lines. */
function flatten(strokes: string, scale: number, offset: number): number[] {
  const segments: number[] = [];
  for (const stroke of strokes === "" ? [] : strokes.split(";")) {
    const points = stroke.split(" ").map((word): GridPoint => {
      const [x = 0, y = 0] = word.replace("~", "").split(",").map(Number);
      return { x: snap(x, scale) + offset, y: snap(y, scale) + offset, control: word.startsWith("~") };
    });
    let from = points[0] as GridPoint;
    if (points.length === 1) segments.push(from.x, from.y, from.x, from.y);
    for (let i = 1; i < points.length; i++) {
      const point = points[i] as GridPoint;
      const to = point.control ? (points[++i] as GridPoint) : point;
      if (point.control) addCurve(segments, from, point, to, Math.max(4, Math.ceil(scale * 3)));
      else segments.push(from.x, from.y, to.x, to.y);
      from = to;
    }
  }
  return segments;
}

function addCurve(segments: number[], from: GridPoint, control: GridPoint, to: GridPoint, pieces: number): void {
  let { x, y } = from;
  for (let n = 1; n <= pieces; n++) {
    const t = n / pieces;
    const rest = 1 - t;
    const nextX = rest * rest * from.x + 2 * t * rest * control.x + t * t * to.x;
    const nextY = rest * rest * from.y + 2 * t * rest * control.y + t * t * to.y;
    segments.push(x, y, nextX, nextY);
    x = nextX;
    y = nextY;
  }
}

/** Whole grid lines go to whole pixels; in between, linearly. */
function snap(value: number, scale: number): number {
  const line = Math.floor(value);
  const below = Math.round(line * scale);
  return below + (value - line) * (Math.round((line + 1) * scale) - below);
}
