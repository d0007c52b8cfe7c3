import { describe, expect, test } from "vitest";
import { positionTaps, TextRotary, tokenPositions, VisionRotary } from "./positions.ts";

function positionsOf(count: number, spans: { start: number; gridH: number; gridW: number }[], next = 0) {
  const out = new Int32Array(count * 3);
  const after = tokenPositions(out, count, spans, 2, next);
  return { rows: Array.from({ length: count }, (_, i) => [...out.subarray(i * 3, i * 3 + 3)].join(" ")), after };
}

describe("token positions", () => {
  test("text counts up on all axes", () => {
    expect(positionsOf(3, [], 5)).toEqual({ rows: ["5 5 5", "6 6 6", "7 7 7"], after: 8 });
  });

  test("an image spreads over height and width, and text goes on after its longer side", () => {
    const { rows, after } = positionsOf(9, [{ start: 1, gridH: 4, gridW: 6 }]);
    expect(rows).toEqual(["0 0 0", "1 1 1", "1 1 2", "1 1 3", "1 2 1", "1 2 2", "1 2 3", "4 4 4", "5 5 5"]);
    expect(after).toBe(6);
  });

  test("appending to a prefix gives what the whole gives", () => {
    const spans = [
      { start: 2, gridH: 2, gridW: 4 },
      { start: 7, gridH: 6, gridW: 2 },
    ];
    const whole = positionsOf(12, spans);
    const prefix = positionsOf(5, spans.slice(0, 1));
    const rest = positionsOf(7, [{ start: 2, gridH: 6, gridW: 2 }], prefix.after);
    expect([...prefix.rows, ...rest.rows]).toEqual(whole.rows);
    expect(rest.after).toBe(whole.after);
  });
});

describe("rotary angles", () => {
  test("frequencies take turns between time, height and width as far as the sections reach", () => {
    const rotary = new TextRotary(100, 16, [4, 2, 2]);
    const cos = new Float32Array(8);
    const sin = new Float32Array(8);
    rotary.fill(cos, sin, Int32Array.of(1, 20, 300), 1);
    const axis = [1, 20, 300, 1, 20, 300, 1, 1];
    for (const [i, position] of axis.entries()) {
      expect(cos[i]).toBeCloseTo(Math.cos(position * 100 ** (-i / 8)), 4);
      expect(sin[i]).toBeCloseTo(Math.sin(position * 100 ** (-i / 8)), 4);
    }
  });

  test("angles do not depend on what was asked before", () => {
    const ask = (rotary: TextRotary, position: number) => {
      const cos = new Float32Array(4);
      rotary.fill(cos, new Float32Array(4), Int32Array.of(position, position, position), 1);
      return [...cos];
    };
    const grown = new TextRotary(10_000, 8, [2, 1, 1]);
    ask(grown, 3);
    ask(grown, 900);
    for (const position of [0, 3, 64, 500])
      expect(ask(grown, position)).toEqual(ask(new TextRotary(10_000, 8, [2, 1, 1]), position));
  });

  test("patches turn by row, then by column, block by block", () => {
    const cos = new Float32Array(8 * 4);
    new VisionRotary(100, 8).fill(cos, new Float32Array(8 * 4), 2, 4, 2);
    const places = [
      [0, 0],
      [0, 1],
      [1, 0],
      [1, 1],
      [0, 2],
      [0, 3],
      [1, 2],
      [1, 3],
    ] as const;
    for (const [patch, [row, column]] of places.entries()) {
      const angles = [row, row * 0.1, column, column * 0.1];
      for (const [i, angle] of angles.entries()) expect(cos[patch * 4 + i]).toBeCloseTo(Math.cos(angle), 6);
    }
  });
});

describe("the stretched position table", () => {
  const taps = (side: number, gridH: number, gridW: number) => {
    const ids = new Int32Array(gridH * gridW * 4);
    const weights = new Float32Array(gridH * gridW * 4);
    positionTaps(ids, weights, side, gridH, gridW, 2);
    // What a table that holds its own row and column would give.
    return Array.from({ length: gridH * gridW }, (_, patch) => {
      let [row, column, sum] = [0, 0, 0];
      for (let j = 0; j < 4; j++) {
        const weight = weights[patch * 4 + j]!;
        row += weight * Math.floor(ids[patch * 4 + j]! / side);
        column += weight * (ids[patch * 4 + j]! % side);
        sum += weight;
      }
      return { row, column, sum };
    });
  };

  test("corners lie on corners and steps are even", () => {
    const found = taps(5, 4, 2);
    const rows = [0, 0, 4 / 3, 4 / 3, 8 / 3, 8 / 3, 4, 4];
    const columns = [0, 4, 0, 4, 0, 4, 0, 4];
    for (const [patch, { row, column, sum }] of found.entries()) {
      expect(row).toBeCloseTo(rows[patch]!, 5);
      expect(column).toBeCloseTo(columns[patch]!, 5);
      expect(sum).toBeCloseTo(1, 6);
    }
  });

  test("a grid of the table's size takes the table as it is", () => {
    expect(taps(2, 2, 2).map(({ row, column }) => [row, column])).toEqual([
      [0, 0],
      [0, 1],
      [1, 0],
      [1, 1],
    ]);
  });
});
