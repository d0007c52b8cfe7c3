/**
 * Matchstick symbols: which segments each symbol is made of, which single matches can be taken from or laid on a symbol
 * so that another symbol results, and how a row of symbols looks as an image and as text. Everything here is a pure
 * function of its arguments.
 *
 * Segments: 0 top, 1 upper right, 2 lower right, 3 bottom, 4 lower left, 5 upper left, 6 middle, 7 vertical of `+`,
 * 8 `\`, 9 `/`, 10 unused, 11 and 12 the bars of `=`.
 */
import { Image } from "../../src/core/index.ts";
import { Canvas, type Color, resize } from "../../src/images/index.ts";

export const SEGMENT_COUNT = 13;
/** As many symbols as an action can address. */
export const MAX_SYMBOLS = 30;

const SEGMENTS: Readonly<Record<string, readonly number[]>> = {
  "0": [0, 1, 2, 3, 4, 5],
  "1": [1, 2],
  "2": [0, 1, 3, 4, 6],
  "3": [0, 1, 2, 3, 6],
  "4": [1, 2, 5, 6],
  "5": [0, 2, 3, 5, 6],
  "6": [0, 2, 3, 4, 5, 6],
  "7": [0, 1, 2],
  "8": [0, 1, 2, 3, 4, 5, 6],
  "9": [0, 1, 2, 3, 5, 6],
  "-": [6],
  "+": [6, 7],
  "*": [8, 9],
  "/": [9],
  "=": [11, 12],
};

/** Ascending; empty for what is no symbol. */
export function segmentsOf(symbol: string): readonly number[] {
  return SEGMENTS[symbol] ?? [];
}

export function isSymbol(value: unknown): value is string {
  return typeof value === "string" && Object.hasOwn(SEGMENTS, value);
}

/** Segment → the symbol that results when the match there is taken away, or laid down. */
type Changes = ReadonlyMap<number, string>;
const NO_CHANGES: Changes = new Map();

function changes(direction: "take" | "lay"): ReadonlyMap<string, Changes> {
  const symbolOf = new Map(Object.entries(SEGMENTS).map(([symbol, segments]) => [segments.join(), symbol]));
  return new Map(
    Object.entries(SEGMENTS).map(([symbol, segments]) => {
      const results = new Map<number, string>();
      for (let segment = 0; segment < SEGMENT_COUNT; segment++) {
        if (segments.includes(segment) !== (direction === "take")) continue;
        const changed =
          direction === "take" ? segments.filter((other) => other !== segment) : [...segments, segment].sort(ascending);
        const result = symbolOf.get(changed.join());
        if (result !== undefined) results.set(segment, result);
      }
      return [symbol, results];
    }),
  );
}

const ascending = (a: number, b: number) => a - b;
const TAKEN = changes("take");
const LAID = changes("lay");

/** What is left of a symbol without one of its matches; only segments that leave a symbol. */
export function taking(symbol: string): Changes {
  return TAKEN.get(symbol) ?? NO_CHANGES;
}

/** What becomes of a symbol with one more match; only segments that make a symbol. */
export function laying(symbol: string): Changes {
  return LAID.get(symbol) ?? NO_CHANGES;
}

// ---- image -------------------------------------------------------------------------------------------------------

const OUTLINE: Color = [100, 80, 40];
const WOOD: Color = [235, 210, 150];
const HEAD: Color = [200, 0, 0];
const LABEL: Color = [0, 0, 0];

/** Natural size in pixels, before the image is squeezed into its final size. */
const SYMBOL_WIDTH = 60;
const PITCH = 68;
const NATURAL_HEIGHT = 100;
const LABEL_MIDDLE = 92.5;
const LABEL_SIZE = 16;

/** Head and tail of the match on each segment, as pixels of the symbol's box. */
const MATCHES: readonly (readonly [number, number, number, number])[] = [
  [10, 5, 30, 5],
  [30, 5, 30, 25],
  [30, 25, 30, 45],
  [10, 45, 30, 45],
  [10, 25, 10, 45],
  [10, 5, 10, 25],
  [10, 25, 30, 25],
  [20, 5, 20, 45],
  [10, 10, 30, 40],
  [30, 10, 10, 40],
  [10, 40, 30, 10],
  [10, 15, 30, 15],
  [10, 35, 30, 35],
];

/** Below this, index labels could not be read and are left out. */
const MIN_LABELLED_WIDTH = 160;
const MIN_LABELLED_HEIGHT = 48;

/** The row at natural size, resized (bicubic) to `width` × `height` whatever that does to its proportions. */
export function drawSymbols(symbols: readonly string[], width: number, height: number): Image {
  const canvas = new Canvas(naturalWidth(symbols.length), NATURAL_HEIGHT);
  const labelled = width >= MIN_LABELLED_WIDTH && height >= MIN_LABELLED_HEIGHT;
  symbols.forEach((symbol, index) => {
    const left = index * PITCH;
    for (const segment of segmentsOf(symbol)) drawMatch(canvas, left, segment);
    if (!labelled) return;
    const style = { size: LABEL_SIZE, color: LABEL, align: "center", baseline: "middle", weight: 1.6 } as const;
    canvas.text(String(index), left + SYMBOL_WIDTH / 2, LABEL_MIDDLE, style);
  });
  return resize(new Image(canvas.width, canvas.height, canvas.data), width, height, "bicubic");
}

function naturalWidth(count: number): number {
  return count * PITCH - (PITCH - SYMBOL_WIDTH);
}

function drawMatch(canvas: Canvas, left: number, segment: number): void {
  const [x0, y0, x1, y1] = MATCHES[segment] as (typeof MATCHES)[number];
  const length = Math.hypot(x1 - x0, y1 - y0);
  const [ux, uy] = [(x1 - x0) / length, (y1 - y0) / length];
  // From the outer edge of the first pixel to that of the last. An even width has no middle pixel: the line's middle
  // lies between two, here half a pixel right of (level lines: below) the centre, where Pillow puts it.
  const [shiftX, shiftY] = uy === 0 ? [0.5, 1] : [1, 0.5];
  const [ax, ay] = [left + x0 + shiftX - ux / 2, y0 + shiftY - uy / 2];
  const [bx, by] = [left + x1 + shiftX + ux / 2, y1 + shiftY + uy / 2];
  canvas.line(ax, ay, bx, by, OUTLINE, { width: 8 });
  canvas.line(ax, ay, bx, by, WOOD, { width: 6 });
  canvas.disc(left + x0 + 0.5, y0 + 0.5, 6.5, HEAD);
  canvas.disc(left + x1 + 0.5, y1 + 0.5, 4.5, WOOD);
}

/**
 * `drawSymbols` made fast. Symbols are far enough apart that a column of the resized image sees at most one of them, so
 * an image is a row of strips that depend on (number of symbols, index, symbol) alone. Strips are cut from the images
 * that had to be drawn in full and kept for the process; where columns would mix neighbours (very narrow images),
 * every image is drawn in full.
 */
export class SymbolPainter {
  readonly #width: number;
  readonly #height: number;

  constructor(width: number, height: number) {
    this.#width = width;
    this.#height = height;
  }

  paint(symbols: readonly string[]): Image {
    const [width, height] = [this.#width, this.#height];
    const edges = stripEdges(symbols.length, width);
    if (edges === undefined) return drawSymbols(symbols, width, height);
    const key = (symbol: string, index: number) => `${width}x${height}:${symbols.length}:${index}:${symbol}`;
    const strips = symbols.map((symbol, index) => STRIPS.get(key(symbol, index)));
    if (strips.includes(undefined)) {
      const image = drawSymbols(symbols, width, height);
      symbols.forEach((symbol, index) => {
        STRIPS.set(key(symbol, index), cut(image, edges[index] as number, edges[index + 1] as number));
      });
      return image;
    }
    const data = new Uint8Array(width * height * 3);
    strips.forEach((strip, index) => {
      const start = (edges[index] as number) * 3;
      const length = (edges[index + 1] as number) * 3 - start;
      for (let row = 0; row < height; row++) {
        data.set((strip as Uint8Array).subarray(row * length, (row + 1) * length), row * width * 3 + start);
      }
    });
    return new Image(width, height, data);
  }
}

const STRIPS = new Map<string, Uint8Array>();

/** Pixels from the middle of the gap between two symbols to the right one's box, and to the nearest ink on any side. */
const GAP_MIDDLE = 12;
const GAP_REACH = 13;

/** The first column of every strip and the end of the last; undefined when strips would see their neighbours. */
function stripEdges(count: number, width: number): readonly number[] | undefined {
  const scale = naturalWidth(count) / width;
  // The bicubic filter reaches two (scaled) pixels to either side, one pixel more for rounding.
  if (2 * Math.max(1, scale) + 1 > GAP_REACH) return undefined;
  const edges = Array.from({ length: count + 1 }, (_, index) => Math.round((index * PITCH - GAP_MIDDLE) / scale));
  edges[0] = 0;
  edges[count] = width;
  return edges;
}

function cut(image: Image, from: number, to: number): Uint8Array {
  const strip = new Uint8Array((to - from) * 3 * image.height);
  for (let row = 0; row < image.height; row++) {
    const start = row * image.width * 3;
    strip.set(image.data.subarray(start + from * 3, start + to * 3), row * (to - from) * 3);
  }
  return strip;
}

// ---- text ----------------------------------------------------------------------------------------------------------

const TEXT_WIDTH = 5;
const TEXT_HEIGHT = 8;
const LABEL_ROW = 6;

/** Row, column and character of every mark of a segment. Later segments overwrite earlier ones. */
const MARKS: readonly (readonly (readonly [number, number, string])[])[] = [
  [[0, 1, "---"]],
  [1, 2].map((row) => [row, 4, "|"] as const),
  [3, 4].map((row) => [row, 4, "|"] as const),
  [[5, 1, "---"]],
  [3, 4].map((row) => [row, 0, "|"] as const),
  [1, 2].map((row) => [row, 0, "|"] as const),
  [[2, 1, "---"]],
  [1, 2, 3].map((row) => [row, 2, "|"] as const),
  [1, 2, 3].map((at) => [at, at, "\\"] as const),
  [1, 2, 3].map((at) => [at, 4 - at, "/"] as const),
  [1, 2, 3].map((at) => [at, 4 - at, "/"] as const),
  [[1, 1, "---"]],
  [[4, 1, "---"]],
];

/** Eight lines: six of symbols, five characters wide with a blank between, their indices, and an empty one. */
export function writeSymbols(symbols: readonly string[]): string {
  const columns = symbols.length * (TEXT_WIDTH + 1) - 1;
  const rows = Array.from({ length: TEXT_HEIGHT }, () => new Array<string>(columns).fill(" "));
  const write = (row: number, column: number, text: string) => {
    for (const [at, character] of [...text].entries()) (rows[row] as string[])[column + at] = character;
  };
  symbols.forEach((symbol, index) => {
    const left = index * (TEXT_WIDTH + 1);
    for (const segment of segmentsOf(symbol)) {
      for (const [row, column, text] of MARKS[segment] ?? []) write(row, left + column, text);
    }
    const label = String(index);
    write(LABEL_ROW, left + Math.floor((TEXT_WIDTH - label.length) / 2), label);
  });
  return rows.map((row) => row.join("")).join("\n");
}
