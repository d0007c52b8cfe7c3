import { describe, expect, test } from "vitest";
import { NumpyRandom } from "../../core/random-numpy.ts";
import type { SamplingParams } from "../engine.ts";
import { choose, likeliest } from "./sampling.ts";

const base: SamplingParams = { maxTokens: 1, temperature: 1, seed: 0 };
const probabilities = [0.05, 0.4, 0, 0.3, 0.15, 0.1];
const row = Float32Array.from([9, ...probabilities.map(Math.log)]);

function shares(params: Partial<SamplingParams>, draws = 4000): number[] {
  const counts = new Array<number>(6).fill(0);
  for (let i = 0; i < draws; i++) {
    const { id } = choose(row, 1, 6, { ...base, ...params }, (i + 0.5) / draws);
    counts[id]! += 1 / draws;
  }
  return counts;
}

describe("choose", () => {
  test("draws each id as often as its probability, and reports that probability's bits", () => {
    for (const [id, share] of shares({}).entries()) expect(share).toBeCloseTo(probabilities[id]!, 3);
    const choice = choose(row, 1, 6, base, 0.5);
    expect(choice).toEqual({ id: 3, logprob: row[4] });
  });

  test.each([
    [{ topK: 2 }, [0, 4 / 7, 0, 3 / 7, 0, 0]],
    [{ topP: 0.69 }, [0, 4 / 7, 0, 3 / 7, 0, 0]],
    [{ topP: 0.71 }, [0, 8 / 17, 0, 6 / 17, 3 / 17, 0]],
    [{ minP: 0.3 }, [0, 8 / 17, 0, 6 / 17, 3 / 17, 0]],
    [{ topK: 3, topP: 0.5, minP: 0.5 }, [0, 4 / 7, 0, 3 / 7, 0, 0]],
    [{ topK: 1 }, [0, 1, 0, 0, 0, 0]],
  ] as [Partial<SamplingParams>, number[]][])("%o renormalises what it leaves", (params, expected) => {
    for (const [id, share] of shares(params).entries()) expect(share).toBeCloseTo(expected[id]!, 3);
    const top = likeliest(row, 1, 6, { ...base, ...params }, 9);
    for (const { id, logprob } of top) expect(logprob).toBeCloseTo(Math.log(expected[id]!), 5);
    expect(top).toHaveLength(expected.filter((p) => p > 0).length);
  });

  test("greedy takes the likeliest, the lowest id of equals", () => {
    expect(choose(row, 1, 6, { ...base, temperature: 0, topK: 1 }, 0.99).id).toBe(1);
    expect(choose(new Float32Array(4), 0, 4, { ...base, temperature: 0 }, 0.99).id).toBe(0);
  });

  test("the likeliest ids are the same ones, in the same order, however many are asked for", () => {
    const random = new NumpyRandom(3);
    // Many equals and some that are impossible.
    const wide = Float32Array.from({ length: 300 }, () => Math.log(Math.floor(random.random() * 20)));
    const all = likeliest(wide, 0, 300, base, 300);
    const ranked = [...wide.keys()].filter((id) => wide[id] !== -Infinity).sort((a, b) => wide[b]! - wide[a]! || a - b);
    expect(all.map(({ id }) => id)).toEqual(ranked);
    for (const count of [0, 1, 2, 20, 64, 65])
      expect(likeliest(wide, 0, 300, base, count)).toEqual(all.slice(0, count));
  });

  test("an impossible id is never drawn, not even when rounding leaves the sum short", () => {
    const random = new NumpyRandom(0);
    for (let i = 0; i < 500; i++) expect(choose(row, 1, 6, base, random.random()).id).not.toBe(2);
    expect(choose(row, 1, 3, base, 0.9999).id).toBe(1);
  });

  test("a row of nothing but NaN gives no id", () => {
    expect(choose(new Float32Array(3).fill(Number.NaN), 0, 3, base, 0.1).id).toBe(-1);
    expect(choose(new Float32Array(3).fill(Number.NaN), 0, 3, { ...base, temperature: 0 }, 0.1).id).toBe(-1);
  });
});
