import { describe, expect, test } from "vitest";
import { ConfigError } from "../core/errors.ts";
import { expandSeeds } from "./seeds.ts";

const count = <T>(items: T[]) => {
  const counts = new Map<T, number>();
  for (const item of items) counts.set(item, (counts.get(item) ?? 0) + 1);
  return counts;
};

describe("expandSeeds", () => {
  test.each([
    { seed: [7] },
    { seed: [1, 100] },
    { seed: [1, 1000, 1] },
    { seed_list: Array.from({ length: 256 }, (_, i) => 3 * i) },
    {},
  ])("%o gives the same seeds each time", (plan) => {
    const seeds = expandSeeds(plan, 200, 5);
    expect(seeds).toHaveLength(200);
    expect(expandSeeds(plan, 200, 5)).toEqual(seeds);
  });

  test("[x] chooses the stream, not the seeds: draws cover 0..2^31-1", () => {
    const seeds = expandSeeds({ seed: [7] }, 2000);
    expect(expandSeeds({ seed: [8] }, 2000)).not.toEqual(seeds);
    expect(expandSeeds({ seed: [7] }, 2000, 1)).not.toEqual(seeds);
    expect(Math.min(...seeds)).toBeGreaterThanOrEqual(0);
    expect(Math.min(...seeds)).toBeLessThan(2 ** 24);
    expect(Math.max(...seeds)).toBeLessThan(2 ** 31);
    expect(Math.max(...seeds)).toBeGreaterThan(2 ** 31 - 2 ** 24);
  });

  test("[lo, hi] includes both ends and may repeat", () => {
    const seeds = expandSeeds({ seed: [3, 6] }, 200);
    expect([...new Set(seeds)].sort()).toEqual([3, 4, 5, 6]);
  });

  test("[lo, hi, 1] takes every seed of the range once when as many are wanted", () => {
    const seeds = expandSeeds({ seed: [10001, 10256, 1] }, 256);
    expect(seeds.toSorted((a, b) => a - b)).toEqual(Array.from({ length: 256 }, (_, i) => 10001 + i));
    expect(seeds).not.toEqual(seeds.toSorted((a, b) => a - b));
  });

  test("[lo, hi, k] takes no seed more than k times", () => {
    expect([...count(expandSeeds({ seed: [0, 9, 3] }, 30)).values()]).toEqual(Array(10).fill(3));
    expect(Math.max(...count(expandSeeds({ seed: [0, 9, 3] }, 20)).values())).toBeLessThanOrEqual(3);
  });

  test("a range that is too small is refused, one that just fits is not", () => {
    expect(() => expandSeeds({ seed: [1, 10, 2] }, 21)).toThrow("10 seeds, each at most 2 times, but 21");
    expect(expandSeeds({ seed: [1, 10, 2] }, 20)).toHaveLength(20);
  });

  test("seed_list wins over seed, and a list of exactly the wanted length is enough", () => {
    expect(expandSeeds({ seed: [1, 2], seed_list: [9, 4, 4] }, 3)).toEqual([9, 4, 4]);
    expect(expandSeeds({ seed: [1, 1], seed_list: null }, 2)).toEqual([1, 1]);
    expect(() => expandSeeds({ seed_list: [9, 4] }, 3)).toThrow("2 seeds but 3");
  });

  test.each([
    [{ seed: [] }, "[x], [lo, hi] or [lo, hi, k]"],
    [{ seed: [1, 2, 3, 4] }, "[x], [lo, hi] or [lo, hi, k]"],
    [{ seed: [5, 1] }, "lower end first"],
    [{ seed: [-1, 4] }, "whole number"],
    [{ seed: [0.5] }, "whole number"],
    [{ seed_list: [1, -2, 3] }, "whole number"],
    [{ seeds: [1] }, 'not "seeds"'],
  ])("%o is refused", (plan, message) => {
    expect(() => expandSeeds(plan as object, 3)).toThrow(ConfigError);
    expect(() => expandSeeds(plan as object, 3)).toThrow(message);
  });
});
