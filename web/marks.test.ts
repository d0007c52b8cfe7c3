/** Names of marks in a chart keep off its curves. */
import { expect, test } from "vitest";
import { crossings, freest } from "./marks.ts";

const box = (left: number, top: number) => ({ left, right: left + 40, top, bottom: top + 10 });

test("a curve crosses a box where a piece of it goes through, also between its points", () => {
  const rising = [
    [0, 100],
    [100, 0],
  ] as const;
  expect(crossings(box(0, 90), [rising])).toBe(1);
  expect(crossings(box(30, 45), [rising])).toBe(1);
  expect(crossings(box(0, 0), [rising])).toBe(0);
  expect(crossings(box(60, 90), [rising])).toBe(0);
  // A step straight up, and a run with one point.
  expect(
    crossings(box(30, 45), [
      [
        [50, 0],
        [50, 100],
      ],
    ]),
  ).toBe(1);
  expect(crossings(box(30, 45), [[[50, 50]], [[90, 50]]])).toBe(1);
});

test("a name stands where it covers no curve, else at the first place that it covers least", () => {
  const places = [box(0, 80), box(60, 80), box(0, 10)].map((one, i) => ({ name: i, box: one }));
  const low = [
    [0, 85],
    [50, 85],
    [55, 0],
    [100, 0],
  ] as const;
  expect(freest(places, [])?.name).toBe(0);
  expect(freest(places, [low])?.name).toBe(1);
  const flat = [
    [0, 85],
    [100, 85],
  ] as const;
  expect(freest(places, [flat])?.name).toBe(2);
  expect(freest(places.slice(0, 2), [flat])?.name).toBe(0);
});
