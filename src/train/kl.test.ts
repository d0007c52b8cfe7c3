import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { grpo, turnGae } from "./advantages.ts";
import { applyKlReward, klEstimates, klTerm, nextKlCoefficient } from "./kl.ts";
import { joinedRows, playsArbitrary, readBack, splitRows } from "./test-rows.ts";

fc.configureGlobal({ seed: 5, numRuns: 40 });
const ESTIMATORS = ["k1", "k2", "k3"] as const;
/** The textbook forms. */
const TEXTBOOK = {
  k1: (p: number, q: number) => Math.log(p / q),
  k2: (p: number, q: number) => Math.log(p / q) ** 2 / 2,
  k3: (p: number, q: number) => q / p - 1 - Math.log(q / p),
};

describe("KL estimators", () => {
  test("k1, k2 and k3 are their textbook forms, with the slopes of finite differences", () => {
    fc.assert(
      fc.property(
        fc.double({ min: 0.05, max: 1, noNaN: true }),
        fc.double({ min: 0.05, max: 1, noNaN: true }),
        (p, q) => {
          const h = 1e-6;
          for (const name of ESTIMATORS) {
            const delta = Math.log(p) - Math.log(q);
            const limited = Math.min(TEXTBOOK[name](p, q), name === "k3" ? 10 : Number.POSITIVE_INFINITY);
            expect(klTerm(name, delta).value).toBeCloseTo(limited, 9);
            if (Math.abs(limited - 10) < 1e-3) continue;
            const slope = (klTerm(name, delta + h).value - klTerm(name, delta - h).value) / (2 * h);
            expect(klTerm(name, delta).slope).toBeCloseTo(slope, 4);
          }
        },
      ),
    );
  });

  test("the mean of k1 and of k3 over a distribution is its KL", () => {
    const p = [0.5, 0.3, 0.2];
    const q = [0.2, 0.2, 0.6];
    const kl = p.reduce((sum, x, i) => sum + x * Math.log(x / q[i]!), 0);
    for (const name of ["k1", "k3"] as const) {
      const mean = p.reduce((sum, x, i) => sum + x * klTerm(name, Math.log(x) - Math.log(q[i]!)).value, 0);
      expect(mean).toBeCloseTo(kl, 12);
    }
  });

  test("k3 stays within its limit however far the two are apart", () => {
    expect(klTerm("k3", -500)).toEqual({ value: 10, slope: 0 });
    expect(klTerm("k3", 500)).toEqual({ value: 10, slope: 0 });
  });

  test("tokens that were not sampled have none", () => {
    expect([...klEstimates("k1", Float32Array.of(-1, -1), Float32Array.of(-2, -3), Uint8Array.of(1, 0))]).toEqual([
      1, 0,
    ]);
  });
});

describe("KL as reward", () => {
  test("each sampled token pays coefficient × KL, the mean is over sampled tokens, and both layouts agree", () => {
    fc.assert(
      fc.property(playsArbitrary(false), fc.constantFrom(...ESTIMATORS), (plays, estimator) => {
        const tokens = plays.flatMap((play) => play.turns.flatMap((turn) => turn.tokens));
        const cost = (t: { learner: number; reference: number }) =>
          Math.min(TEXTBOOK[estimator](Math.exp(t.learner), Math.exp(t.reference)), estimator === "k3" ? 10 : 1e9);
        const mean = tokens.reduce((sum, t) => sum + cost(t), 0) / tokens.length;
        for (const rows of [joinedRows(plays), splitRows(plays)]) {
          const result = applyKlReward(rows, { coefficient: 0.1, estimator });
          expect(result.tokens).toBe(tokens.length);
          expect(result.kl).toBeCloseTo(mean, 4);
          const paid = readBack(
            result.rows,
            result.rows.map((row) => row.rewards),
          );
          for (const play of plays) {
            const list = play.turns.flatMap((turn) => turn.tokens);
            for (const [k, t] of list.entries()) {
              expect(paid.get(play.episode)![k]!).toBeCloseTo(t.reward - 0.1 * cost(t), 4);
            }
          }
        }
      }),
    );
  });

  test("every estimator feels the penalty, the turn-level one included", () => {
    const options = { gamma: 1, lambda: 1, turnGamma: 1, turnLambda: 1, normalizeStd: false };
    fc.assert(
      fc.property(playsArbitrary(false), (plays) => {
        const rows = splitRows(plays);
        const far = rows.map((row, r) => ({
          ...row,
          referenceLogprobs: row.oldLogprobs!.map((x) => x - (r % 2) - 0.5),
        }));
        const taxed = applyKlReward(far, { coefficient: 1, estimator: "k1" }).rows;
        const before = turnGae.compute(rows, options).advantages;
        for (const [r, array] of turnGae.compute(taxed, options).advantages.entries()) {
          for (const [i, x] of array.entries()) if (rows[r]!.sampled[i] === 1) expect(x).toBeLessThan(before[r]![i]!);
        }
      }),
      { numRuns: 30 },
    );
    const [near, away] = ["near", "away"].map((episode) => ({
      group: "g",
      episode,
      order: 0,
      sampled: Uint8Array.of(1),
      turns: Int32Array.of(0),
      rewards: Float32Array.of(1),
      samplerLogprobs: Float32Array.of(-1),
      referenceLogprobs: Float32Array.of(episode === "near" ? -1 : -3),
      limits: [],
    }));
    const { rows } = applyKlReward([near!, away!], { coefficient: 0.5, estimator: "k1" });
    expect(grpo.compute(rows, options).advantages.map((a) => a[0])).toEqual([0.5, -0.5]);
  });

  test("rows without a reference and a negative coefficient are refused", () => {
    const row = { ...joinedRows([{ group: "g", episode: "e", turns: [] }])[0]! };
    const { referenceLogprobs: _, ...bare } = row;
    expect(() => applyKlReward([bare], { coefficient: 0.1, estimator: "k1" })).toThrow(/reference/);
    expect(() => applyKlReward([row], { coefficient: -1, estimator: "k1" })).toThrow(/0 or more/);
  });
});

describe("the coefficient", () => {
  const adaptive = { kind: "adaptive", target: 0.1, horizon: 10_000 } as const;
  test("fixed never moves; adaptive rises above the target, falls below it, at most 20 % per horizon, and rests on it", () => {
    expect(nextKlCoefficient(0.02, { kind: "fixed" }, 5, 64)).toBe(0.02);
    expect(nextKlCoefficient(0.02, adaptive, 0.1, 64)).toBe(0.02);
    expect(nextKlCoefficient(0.02, adaptive, 0.11, 1000)).toBeCloseTo(0.02 * (1 + 0.1 * 0.1), 12);
    expect(nextKlCoefficient(0.02, adaptive, 9, 10_000)).toBeCloseTo(0.024, 12);
    expect(nextKlCoefficient(0.02, adaptive, 0, 10_000)).toBeCloseTo(0.016, 12);
    expect(nextKlCoefficient(0.02, adaptive, 0, 1e9)).toBe(0);
  });
  test("stays where it is after a batch whose KL is no number", () => {
    for (const kl of [Number.NaN, Number.POSITIVE_INFINITY])
      expect(nextKlCoefficient(0.02, adaptive, kl, 64)).toBe(0.02);
  });
  test("an impossible controller is refused", () => {});
});
