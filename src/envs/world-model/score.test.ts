import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { type Placed, readClaims } from "./reader.ts";
import { assign, baselineOf, matchClaims, placedOf } from "./score.ts";

const WEIGHTS = { goal: 0.7, hole: 0.3 };
const things = { goal: [], hole: [] };
const goal: Placed = { kind: "goal", vertical: "above", horizontal: "left" };
const holes: Placed[] = [
  { kind: "hole", vertical: "below", horizontal: "same column" },
  { kind: "hole", vertical: "same row", horizontal: "right" },
];
const scored = (text: string) => matchClaims(readClaims(text, things), [goal, ...holes], WEIGHTS);

describe("F1 of claims", () => {
  test.each([
    ["The goal is above and left of me. Holes: straight below me, in my row to the right.", 1],
    // One goal with both axes right, no hole: 0.7.
    ["The goal is above and left of me.", 0.7],
    // Half a goal: 0.7 · 0.5.
    ["The goal is above me.", 0.35],
    ["The goal is above and right of me.", 0.35],
    // Two goals were claimed and one is there: 2·1/3.
    ["A goal is above and left of me. Another goal is below and right of me.", 0.7 * (2 / 3)],
    // One hole of two: 2·1/3; and the goal is missing.
    ["A hole is straight below me.", 0.3 * (2 / 3)],
    ["Nothing to see.", 0],
  ])("%s", (text, f1) => {
    expect(scored(text).f1).toBeCloseTo(f1, 12);
  });

  test("each claim is matched with the thing that it fits best, and is right when all that it says is so", () => {
    const { right } = scored("A hole is to my right in my row. A hole is above me. The goal is above me.");
    expect(right).toEqual([true, false, true]);
  });

  test("a kind that is not there counts only when it is spoken of", () => {
    const alone = [goal];
    expect(matchClaims(readClaims("goal above left", things), alone, WEIGHTS).f1).toBe(1);
    expect(matchClaims(readClaims("goal above left, hole below left", things), alone, WEIGHTS).f1).toBeCloseTo(0.7, 12);
  });

  test("facts between other things are left out, numbered things are of one kind", () => {
    expect(
      placedOf([
        { subject: "box 2", relations: ["above", "left"], object: "player" },
        { subject: "box 2", relations: ["above", "left"], object: "target 1" },
      ]),
    ).toEqual([{ kind: "box", vertical: "above", horizontal: "left" }]);
  });
});

test("the assignment is the best of all", () => {
  const best = (likeness: readonly (readonly number[])[], row = 0, taken: readonly number[] = []): number => {
    if (row === likeness.length) return 0;
    const skip = best(likeness, row + 1, taken);
    const free = (likeness[row] ?? []).map((value, c) =>
      taken.includes(c) ? 0 : value + best(likeness, row + 1, [...taken, c]),
    );
    return Math.max(skip, ...free);
  };
  const matrix = fc.tuple(fc.integer({ min: 1, max: 5 }), fc.integer({ min: 1, max: 5 })).chain(([rows, columns]) =>
    fc.array(fc.array(fc.constantFrom(0, 0.5, 1), { minLength: columns, maxLength: columns }), {
      minLength: rows,
      maxLength: rows,
    }),
  );
  fc.assert(
    fc.property(matrix, (likeness) => {
      const partner = assign(likeness);
      const used = partner.filter((column) => column >= 0);
      expect(new Set(used).size).toBe(used.length);
      const sum = partner.reduce((total, column, row) => total + (likeness[row]?.[column] ?? 0), 0);
      expect(sum).toBeCloseTo(best(likeness), 12);
    }),
    { numRuns: 300 },
  );
});

test("the baseline finds what a constant answer earns, here by hand", () => {
  // Three of four goals are above and left, the fourth below and right: always saying the first earns 3/4.
  const other: Placed = { kind: "goal", vertical: "below", horizontal: "right" };
  const states = Array.from({ length: 400 }, (_, i) => [i % 4 === 0 ? other : goal]);
  const { constant, answer, chance, base } = baselineOf(states, { goal: 1 });
  expect(constant).toBe(0.75);
  expect(answer).toEqual([goal]);
  // Either axis by luck: one in three.
  expect(chance).toBeGreaterThan(0.26);
  expect(chance).toBeLessThan(0.41);
  expect(base).toBeGreaterThan(0.75);
  expect(base).toBeLessThan(0.8);
});
