import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { type Reduction, tokenWeights } from "./reductions.ts";
import { joinedRows, type Play, playsArbitrary, readBack, splitRows } from "./test-rows.ts";
import { whiten } from "./whiten.ts";

fc.configureGlobal({ seed: 6, numRuns: 40 });
const size = (play: Play) => play.turns.reduce((sum, turn) => sum + turn.tokens.length, 0);
const sum = (numbers: Iterable<number>) => [...numbers].reduce((a, b) => a + b, 0);

/** What one token of a play weighs. */
const DIRECT: Record<Reduction["name"], (play: Play, plays: readonly Play[]) => number> = {
  "token-mean": (_, plays) => 1 / sum(plays.map(size)),
  "sequence-mean": (play, plays) => 1 / plays.length / size(play),
  "constant-length": (_, plays) => 1 / plays.length / 50,
  "prompt-mean": (play, plays) => {
    const groups = new Set(plays.map((p) => p.group)).size;
    return 1 / groups / sum(plays.filter((p) => p.group === play.group).map(size));
  },
};
const reductionOf = (name: Reduction["name"]): Reduction =>
  name === "constant-length" ? { name, length: 50 } : { name };

describe("reductions", () => {
  for (const name of Object.keys(DIRECT) as Reduction["name"][]) {
    test(`${name} gives its weight to each sampled token, sums to what it promises, and is the same in both layouts`, () => {
      fc.assert(
        fc.property(playsArbitrary(false), (plays) => {
          for (const rows of [joinedRows(plays), splitRows(plays)]) {
            const weights = tokenWeights(rows, reductionOf(name));
            const total = name === "constant-length" ? sum(plays.map(size)) / (plays.length * 50) : 1;
            expect(sum(weights.flatMap((w) => [...w]))).toBeCloseTo(total, 5);
            for (const [r, row] of rows.entries()) {
              for (const [i, w] of weights[r]!.entries()) expect(w !== 0).toBe(row.sampled[i] === 1);
            }
            const read = readBack(rows, weights);
            for (const play of plays)
              for (const w of read.get(play.episode)!) expect(w).toBeCloseTo(DIRECT[name](play, plays), 6);
          }
        }),
      );
    });
  }

  test("an episode without a sampled token does not count, and an empty batch is no error", () => {
    const play = { group: "g" };
    const token = { reward: 0, value: 0, sampler: 0, learner: 0, reference: 0 };
    const rows = joinedRows([
      { ...play, episode: "a", turns: [{ given: 1, tokens: [token, token] }] },
      { ...play, episode: "b", turns: [{ given: 2, tokens: [] }] },
    ]);
    expect(tokenWeights(rows, { name: "sequence-mean" }).map((w) => [...w])).toEqual([
      [0, 0.5, 0.5],
      [0, 0],
    ]);
    for (const name of Object.keys(DIRECT) as Reduction["name"][])
      expect(tokenWeights([], reductionOf(name))).toEqual([]);
  });

  test("a constant length of 0 is refused", () => {
    expect(() => tokenWeights([], { name: "constant-length", length: 0 })).toThrow(/above 0/);
  });
});

describe("whitening", () => {
  test("leaves mean 0 and variance 1 over the sampled tokens, keeps their proportions, and gives 0 where nothing was sampled", () => {
    fc.assert(
      fc.property(playsArbitrary(true), (plays) => {
        const rows = joinedRows(plays);
        const before = rows.map((row) => row.rewards.map((x, i) => (row.sampled[i] === 1 ? x * 10 : 99)));
        const all = (arrays: readonly Float32Array[]) => [...readBack(rows, arrays).values()].flat();
        const raw = all(before);
        fc.pre(Math.max(...raw) - Math.min(...raw) > 1);
        const white = whiten(rows, before);
        const numbers = all(white);
        const mean = sum(numbers) / numbers.length;
        expect(mean).toBeCloseTo(0, 4);
        expect(sum(numbers.map((x) => (x - mean) ** 2)) / (numbers.length - 1)).toBeCloseTo(1, 4);
        for (const [r, row] of rows.entries()) {
          for (const [i, x] of white[r]!.entries()) if (row.sampled[i] === 0) expect(x).toBe(0);
        }
        const [low, high] = [Math.min(...raw), Math.max(...raw)];
        const [whiteLow, whiteHigh] = [Math.min(...numbers), Math.max(...numbers)];
        for (const [k, x] of numbers.entries()) {
          expect((x - whiteLow) / (whiteHigh - whiteLow)).toBeCloseTo((raw[k]! - low) / (high - low), 4);
        }
      }),
    );
  });

  test("a batch of one token, or of equal ones, comes out as 0", () => {
    const rows = joinedRows([
      {
        group: "g",
        episode: "e",
        turns: [{ given: 0, tokens: [{ reward: 2, value: 0, sampler: 0, learner: 0, reference: 0 }] }],
      },
    ]);
    expect(whiten(rows, [Float32Array.of(3)])).toEqual([Float32Array.of(0)]);
    expect(whiten([], [])).toEqual([]);
  });
});
