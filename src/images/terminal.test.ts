import { describe, expect, test } from "vitest";
import { ConfigError } from "../core/errors.ts";
import { Image } from "../core/image.ts";
import { halfBlocks } from "./terminal.ts";

const ESC = "\x1b[";

describe("halfBlocks", () => {
  test("shows two pixels a cell: the upper in front, the lower behind", () => {
    const image = new Image(2, 2, Uint8Array.of(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12));
    expect(halfBlocks(image, { columns: 80 })).toBe(
      `${ESC}38;2;1;2;3;48;2;7;8;9m▀${ESC}38;2;4;5;6;48;2;10;11;12m▀${ESC}0m`,
    );
  });

  test("leaves the lower half of an odd last row to the terminal", () => {
    const image = new Image(1, 3, Uint8Array.of(1, 1, 1, 2, 2, 2, 3, 3, 3));
    expect(halfBlocks(image, { columns: 80 })).toBe(
      `${ESC}38;2;1;1;1;48;2;2;2;2m▀${ESC}0m\n${ESC}38;2;3;3;3m▀${ESC}0m`,
    );
  });

  test("says a colour once for a run of equal cells", () => {
    const text = halfBlocks(new Image(5, 2, new Uint8Array(30).fill(9)), { columns: 80 });
    expect(text).toBe(`${ESC}38;2;9;9;9;48;2;9;9;9m▀▀▀▀▀${ESC}0m`);
  });

  test("shrinks wide images to the columns, keeps their shape, and ends each line with a reset", () => {
    const lines = halfBlocks(new Image(200, 100, new Uint8Array(60000)), { columns: 40 }).split("\n");
    expect(lines).toHaveLength(10);
    for (const line of lines) {
      expect(line.match(/▀/g)).toHaveLength(40);
      expect(line.endsWith(`${ESC}0m`)).toBe(true);
    }
  });

  test("falls back to the nearest of 256 colours when asked", () => {
    const image = new Image(1, 2, Uint8Array.of(250, 100, 0, 130, 130, 255));
    expect(halfBlocks(image, { columns: 1, truecolor: false })).toBe(`${ESC}38;5;202;48;5;105m▀${ESC}0m`);
  });

  test("refuses to draw in no columns", () => {
    expect(() => halfBlocks(new Image(1, 1, new Uint8Array(3)), { columns: 0 })).toThrow(ConfigError);
  });
});
