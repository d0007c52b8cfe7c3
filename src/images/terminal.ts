/** An image as coloured text: each cell holds two pixels, the upper as the half block's colour, the lower behind it. */
import { ConfigError } from "../core/errors.ts";
import type { Image } from "../core/image.ts";
import { resize } from "./resize.ts";

export type HalfBlockOptions = {
  /** The most cells a line may take; wider images are shrunk. */
  readonly columns: number;
  /** 24-bit colours; false uses the 256-colour palette. Default true. */
  readonly truecolor?: boolean;
};

/** Lines that each end in a reset, joined by newlines. */
export function halfBlocks(image: Image, options: HalfBlockOptions): string {
  const { columns, truecolor = true } = options;
  if (!Number.isInteger(columns) || columns < 1) {
    throw new ConfigError(`An image needs at least 1 column of text, got ${columns}.`);
  }
  const width = Math.min(columns, image.width);
  const height = Math.max(1, Math.round((image.height * width) / image.width));
  const small = resize(image, width, height, "bilinear");
  const paint = truecolor ? rgbCode : paletteCode;
  const lines: string[] = [];
  for (let y = 0; y < height; y += 2) {
    let line = "";
    let before = "";
    for (let x = 0; x < width; x++) {
      const lower = y + 1 < height ? `;48;${paint(small, x, y + 1)}` : "";
      const code = `\x1b[38;${paint(small, x, y)}${lower}m`;
      line += code === before ? "▀" : `${code}▀`;
      before = code;
    }
    lines.push(`${line}\x1b[0m`);
  }
  return lines.join("\n");
}

/** From dark to bright. */
const SHADES = " .:-=+*#%@";

/** An image as plain characters, the brighter the fuller; a character stands for a place twice as high as wide. */
export function shades(image: Image, columns: number): string {
  const rows = Math.max(1, Math.round((image.height * columns) / image.width / 2));
  const { data } = resize(image, columns, rows, "bilinear");
  const lines: string[] = [];
  for (let row = 0; row < rows; row++) {
    let line = "";
    for (let i = row * columns * 3; i < (row + 1) * columns * 3; i += 3) {
      const light = 0.299 * (data[i] as number) + 0.587 * (data[i + 1] as number) + 0.114 * (data[i + 2] as number);
      line += SHADES[Math.min(SHADES.length - 1, Math.floor((light * SHADES.length) / 256))];
    }
    lines.push(line);
  }
  return lines.join("\n");
}

function rgbCode(image: Image, x: number, y: number): string {
  const at = (y * image.width + x) * 3;
  return `2;${image.data[at]};${image.data[at + 1]};${image.data[at + 2]}`;
}

/** The nearest of the 6×6×6 colour cube, whose levels are 0, 95, 135, 175, 215, 255. */
function paletteCode(image: Image, x: number, y: number): string {
  const at = (y * image.width + x) * 3;
  const level = (value: number) => (value < 48 ? 0 : value < 115 ? 1 : Math.min(5, Math.floor((value - 35) / 40)));
  const [r = 0, g = 0, b = 0] = image.data.subarray(at, at + 3);
  return `5;${16 + 36 * level(r) + 6 * level(g) + level(b)}`;
}
