import { expect, test } from "vitest";
import { cos, sin } from "../core/exact-math.ts";
import { NumpyRandom } from "../core/random-numpy.ts";
import { Turner } from "./turn.ts";

/** A disc of noise with `side` pixels, black around it. */
function noise(side: number, seed: number) {
  const random = new NumpyRandom(seed);
  const spans = Array.from({ length: side }, (_, y) => {
    const half = Math.floor(Math.sqrt((side / 2) ** 2 - (y - side / 2) ** 2));
    return [Math.max(0, Math.ceil(side / 2 - half)), Math.min(side - 1, Math.floor(side / 2 + half))] as const;
  });
  const pixels = new Uint8Array(side * side * 3);
  spans.forEach(([from, to], y) => {
    for (let i = (y * side + from) * 3; i < (y * side + to + 1) * 3; i++) pixels[i] = random.integers(0, 256);
  });
  return { spans, pixels };
}

/** The same in plain words: where a pixel comes from, and the four around that place by their shares. */
function expected(side: number, { spans, pixels }: ReturnType<typeof noise>, degrees: number): Uint8Array {
  const [c, s] = [cos((degrees * Math.PI) / 180) * 1024, sin((degrees * Math.PI) / 180) * 1024];
  const at = (x: number, y: number, k: number) =>
    x < 0 || y < 0 || x >= side || y >= side ? 0 : pixels[(y * side + x) * 3 + k]!;
  const out = new Uint8Array(side * side * 6);
  const middle = side / 2;
  spans.forEach(([from, to], row) => {
    out.set(pixels.subarray(row * side * 3, (row + 1) * side * 3), row * side * 6);
    for (let column = from; column <= to; column++) {
      const place = (along: number, across: number) =>
        (Math.round(middle * 1024 + across * (row - middle)) + 16 + Math.round(along * (column - middle))) >> 5;
      const [u, v] = [place(c, s), place(-s, c)];
      const [fx, fy, x, y] = [u & 31, v & 31, u >> 5, v >> 5];
      for (let k = 0; k < 3; k++) {
        const upper = at(x, y, k) * (32 - fx) + at(x + 1, y, k) * fx;
        const lower = at(x, y + 1, k) * (32 - fx) + at(x + 1, y + 1, k) * fx;
        out[((2 * row + 1) * side + column) * 3 + k] = (upper * (32 - fy) + lower * fy + 512) >> 10;
      }
    }
  });
  return out;
}

test.each([16, 65, 128])("a disc of %i pixels is turned as whole numbers say, to the bit", (side) => {
  const [first, second] = [noise(side, 1), noise(side, 2)];
  const turner = new Turner(side, first.spans);
  // Two in turn: one must leave nothing behind for the other.
  const [one, other] = [turner.prepare(first.pixels), turner.prepare(second.pixels)];
  for (const degrees of [0, 1, 44, 45, 90, 133, 180, 270, 359]) {
    expect(Buffer.compare(turner.turn(one, degrees), expected(side, first, degrees)), `${degrees}`).toBe(0);
    expect(Buffer.compare(turner.turn(other, degrees), expected(side, second, degrees)), `${degrees}`).toBe(0);
  }
});
