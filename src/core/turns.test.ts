/** Long work of many requests leaves room between its pieces. */
import { expect, test } from "vitest";
import { Pace, turn } from "./turns.ts";

/** Counts rounds of the event loop. */
function rounds() {
  const counted = { count: 0, stop: () => clearImmediate(next) };
  let next = setImmediate(function again() {
    counted.count += 1;
    next = setImmediate(again);
  });
  return counted;
}

test("of turns that were asked for together, no two begin in the same round of the event loop", async () => {
  const loop = rounds();
  const began: number[] = [];
  await Promise.all(
    Array.from({ length: 5 }, async () => {
      await turn();
      began.push(loop.count);
    }),
  );
  loop.stop();
  expect(new Set(began).size).toBe(5);
});

test("a loop gives its turn up when it has worked long enough, and not before", async () => {
  const loop = rounds();
  const pace = new Pace();
  await pace.rest();
  expect(loop.count).toBe(0);
  const until = performance.now() + 15;
  while (performance.now() < until);
  await pace.rest();
  loop.stop();
  expect(loop.count).toBeGreaterThan(0);
});
