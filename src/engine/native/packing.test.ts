import { describe, expect, test } from "vitest";
import { NumpyRandom } from "../../core/random-numpy.ts";
import { PACK_TOKENS, planShards, SHARDS } from "./packing.ts";

describe("planShards", () => {
  test("every sequence lies in exactly one pack, and packs keep to their size", () => {
    const random = new NumpyRandom(1);
    for (let round = 0; round < 50; round++) {
      const sizes = Array.from({ length: random.integers(0, 40) }, () => ({
        tokens: random.integers(1, 5000),
        patches: random.integers(0, 4000),
      }));
      const plan = planShards(sizes, SHARDS);
      expect(plan).toHaveLength(SHARDS);
      expect(plan.flat(2).sort((a, b) => a - b)).toEqual(sizes.map((_, i) => i));
      for (const pack of plan.flat()) {
        const tokens = pack.reduce((sum, i) => sum + sizes[i]!.tokens, 0);
        expect(pack.length === 1 || tokens <= PACK_TOKENS).toBe(true);
      }
    }
  });

  test("equal sequences spread evenly, in order", () => {
    const sizes = Array.from({ length: 2 * SHARDS }, () => ({ tokens: 10, patches: 0 }));
    expect(planShards(sizes, SHARDS)).toEqual(Array.from({ length: SHARDS }, (_, i) => [[i, i + SHARDS]]));
  });

  test("few sequences leave shards empty", () => {
    expect(planShards([{ tokens: 5, patches: 0 }]).filter((packs) => packs.length > 0)).toEqual([[[0]]]);
  });

  test("work is balanced within the longest sequence", () => {
    const random = new NumpyRandom(2);
    const sizes = Array.from({ length: 64 }, () => ({ tokens: random.integers(50, 900), patches: 0 }));
    const loads = planShards(sizes, SHARDS).map((packs) => packs.flat().reduce((sum, i) => sum + sizes[i]!.tokens, 0));
    expect(Math.max(...loads) - Math.min(...loads)).toBeLessThan(900);
  });
});

describe("the number of shards", () => {
  test("grows with the batch, in powers of two, and never depends on anything else", () => {
    const shards = (tokens: number) => planShards([{ tokens, patches: 0 }]).length;
    expect([10, 700, 1000, 1200, 2000, 2300, 4000, 5000, 1e6].map(shards)).toEqual([2, 2, 2, 4, 4, 8, 8, 16, 16]);
  });
});
