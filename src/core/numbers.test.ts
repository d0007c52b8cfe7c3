import { expect, test } from "vitest";
import { rangeOf } from "./numbers.ts";

test("the smallest and largest of more numbers than a call takes as arguments", () => {
  const many = Float32Array.from({ length: 500_000 }, (_, i) => (i * 7919) % 500_000);
  expect(() => Math.max(...many)).toThrow(RangeError);
  expect(rangeOf(many)).toEqual({ min: 0, max: 499_999 });
});

test("what Math.min and Math.max say of few", () => {
  for (const numbers of [[], [3], [2, -1, 0], [1, Number.NaN, 2], [-0, 0]]) {
    expect(rangeOf(numbers)).toEqual({ min: Math.min(...numbers), max: Math.max(...numbers) });
  }
});
