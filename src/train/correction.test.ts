import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { type Correction, foldFactors, offPolicyFactors } from "./correction.ts";
import { joinedRows, type Play, playsArbitrary, readBack, splitRows } from "./test-rows.ts";

fc.configureGlobal({ seed: 8, numRuns: 40 });

/** Token by token, from the probabilities. */
function direct(play: Play, c: Correction): number[] {
  const ratios = play.turns.flatMap((turn) => turn.tokens.map((t) => Math.exp(t.learner) / Math.exp(t.sampler)));
  const product = ratios.reduce((a, b) => a * b, 1);
  const inside = (x: number, b: { low: number; high: number }) => x >= b.low && x <= b.high;
  return ratios.map((ratio) => {
    let factor = 1;
    if (c.truncate) factor *= Math.min(c.truncate.level === "token" ? ratio : product, c.truncate.cap);
    if (c.sequenceMask) {
      const x = c.sequenceMask.of === "product" ? product : product ** (1 / ratios.length);
      if (!inside(x, c.sequenceMask)) factor = 0;
    }
    if (c.tokenMask && !inside(ratio, c.tokenMask)) factor = 0;
    if (c.outliers && ratios.some((x) => !inside(x, c.outliers!))) factor = 0;
    return factor;
  });
}

const CASES: Record<string, Correction> = {
  "no correction": {},
  "truncation per token": { truncate: { level: "token", cap: 2 } },
  "truncation per sequence": { truncate: { level: "sequence", cap: 5 } },
  "a geometric sequence mask": { sequenceMask: { of: "geometric", low: 0.6, high: 1.7 } },
  "a product sequence mask": { sequenceMask: { of: "product", low: 0.2, high: 5 } },
  "a token mask": { tokenMask: { low: 0.5, high: 2 } },
  "an outlier mask": { outliers: { low: 0.05, high: 10 } },
  "all together": {
    truncate: { level: "token", cap: 1.5 },
    sequenceMask: { of: "geometric", low: 0.4, high: 2.5 },
    tokenMask: { low: 0.2, high: 4 },
    outliers: { low: 0.05, high: 10 },
  },
};

describe("off-policy correction", () => {
  for (const [name, correction] of Object.entries(CASES)) {
    test(`${name} equals its direct form in both layouts, and its metrics are shares`, () => {
      fc.assert(
        fc.property(playsArbitrary(false), (plays) => {
          for (const rows of [joinedRows(plays), splitRows(plays)]) {
            const { factors, metrics } = offPolicyFactors(rows, correction);
            const read = readBack(rows, factors);
            for (const play of plays) {
              const expected = direct(play, correction);
              for (const [k, x] of read.get(play.episode)!.entries()) {
                expect(Math.abs(x - expected[k]!)).toBeLessThanOrEqual(1e-4 * (1 + expected[k]!));
              }
            }
            for (const [r, row] of rows.entries()) {
              for (const [i, x] of factors[r]!.entries()) if (row.sampled[i] === 0) expect(x).toBe(0);
            }
            expect(metrics.ratio_min!).toBeLessThanOrEqual(metrics.ratio_mean!);
            expect(metrics.ratio_mean!).toBeLessThanOrEqual(metrics.ratio_max! + 1e-9);
            for (const [key, share] of Object.entries(metrics)) {
              if (!key.startsWith("ratio")) expect(share >= 0 && share <= 1).toBe(true);
            }
          }
        }),
        { numRuns: 40 },
      );
    });

    test(`${name} is exactly 1 on policy`, () => {
      fc.assert(
        fc.property(playsArbitrary(false), (plays) => {
          const rows = joinedRows(plays).map((row) => ({ ...row, oldLogprobs: row.samplerLogprobs }));
          const { factors, metrics } = offPolicyFactors(rows, correction);
          expect(
            foldFactors(
              rows.map((row) => row.rewards),
              factors,
            ),
          ).toEqual(rows.map((row) => row.rewards));
          expect(metrics).toMatchObject({ ratio_mean: 1, ratio_std: 0, ratio_min: 1, ratio_max: 1 });
        }),
        { numRuns: 20 },
      );
    });
  }

  test("counts what it did", () => {
    const token = { reward: 0, value: 0, reference: 0, sampler: -1 };
    const play = (episode: string, ...learner: number[]): Play => ({
      group: "g",
      episode,
      turns: [{ given: 1, tokens: learner.map((x) => ({ ...token, learner: x })) }],
    });
    const rows = joinedRows([play("high", 0, 0), play("low", -3, -1), play("same", -1, -1), play("still", -1, -1)]);
    const { metrics } = offPolicyFactors(rows, {
      truncate: { level: "token", cap: 2 },
      sequenceMask: { of: "product", low: 0.5, high: 2 },
      tokenMask: { low: 0.5, high: 2 },
      outliers: { low: 0.2, high: 100 },
    });
    expect(metrics).toMatchObject({
      truncated_tokens: 2 / 8,
      masked_tokens: 3 / 8,
      masked_sequences_low: 1 / 4,
      masked_sequences_high: 1 / 4,
      outlier_sequences: 1 / 4,
    });
  });

  test("one impossible token can't overflow", () => {
    const token = { reward: 0, value: 0, reference: 0, sampler: -500, learner: 0 };
    const rows = joinedRows([{ group: "g", episode: "e", turns: [{ given: 0, tokens: Array(60).fill(token) }] }]);
    const { factors } = offPolicyFactors(rows, { truncate: { level: "sequence", cap: 5 } });
    expect([...factors[0]!]).toEqual(Array(60).fill(5));
  });

  test("folding multiplies by the factors and the scale", () => {
    const advantages = [Float32Array.of(1, -2)];
    expect(foldFactors(advantages, [Float32Array.of(0.5, 2)], 0.5)).toEqual([Float32Array.of(0.25, -2)]);
    expect(foldFactors(advantages, undefined, 0.5)).toEqual([Float32Array.of(0.5, -1)]);
  });

  test("rows the learner has not scored and bounds that exclude 1 are refused", () => {
    const { oldLogprobs: _, ...row } = joinedRows([{ group: "g", episode: "e", turns: [] }])[0]!;
    expect(() => offPolicyFactors([row], {})).toThrow(/oldLogprobs/);
    expect(() => offPolicyFactors([], { tokenMask: { low: 1.2, high: 2 } })).toThrow(/enclose 1/);
    expect(() => offPolicyFactors([], { truncate: { level: "token", cap: 0 } })).toThrow(/above 0/);
  });
});
