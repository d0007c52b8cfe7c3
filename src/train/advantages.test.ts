import fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  biLevelGae,
  checkEstimatorOptions,
  ESTIMATORS,
  gae,
  grpo,
  maxrl,
  reinforcePlusPlus,
  rloo,
  turnGae,
} from "./advantages.ts";
import { joinedRows, type Play, playsArbitrary, readBack, splitRows } from "./test-rows.ts";
import type { Credit, Estimator, EstimatorOptions, TokenRow } from "./tokens.ts";

fc.configureGlobal({ seed: 4, numRuns: 40 });

const ONES: EstimatorOptions = { gamma: 1, lambda: 1, turnGamma: 1, turnLambda: 1, normalizeStd: true };
const unit = fc.double({ min: 0, max: 1, noNaN: true });
const optionsArbitrary = fc.record({
  gamma: unit,
  lambda: unit,
  turnGamma: unit,
  turnLambda: unit,
  normalizeStd: fc.boolean(),
});
const plain = (play: Play) => play.turns.flatMap((turn) => turn.tokens);
const sum = (numbers: readonly number[]) => numbers.reduce((a, b) => a + b, 0);
const score = (play: Play) => sum(plain(play).map((t) => t.reward));

type Numbers = Map<string, number[]>;
type Brute = { advantages: Numbers; returns?: Numbers };
const each = (plays: readonly Play[], of: (play: Play) => number[]): Numbers =>
  new Map(plays.map((play) => [play.episode, of(play)]));

/** Sum form of GAE: A_t = Σ_l (γλ)^l δ_{t+l}. */
function sumForm(rewards: number[], values: number[], gamma: number, lambda: number): number[] {
  const deltas = rewards.map((r, t) => r + (t + 1 < values.length ? gamma * values[t + 1]! : 0) - values[t]!);
  return rewards.map((_, t) => sum(deltas.slice(t).map((delta, l) => (gamma * lambda) ** l * delta)));
}

function grouped(plays: readonly Play[], formula: (s: number, others: number[], all: number[]) => number): Brute {
  const advantages = each(plays, (play) => {
    const siblings = plays.filter((p) => p.group === play.group);
    const all = siblings.map(score);
    const others = siblings.filter((p) => p !== play).map(score);
    const alike = new Set(all).size === 1;
    return plain(play).map(() => (alike ? 0 : formula(score(play), others, all)));
  });
  return { advantages };
}
const mean = (numbers: readonly number[]) => sum(numbers) / numbers.length;

const BRUTE: Record<string, (plays: readonly Play[], o: EstimatorOptions) => Brute> = {
  grpo: (plays, o) =>
    grouped(plays, (s, _, all) => {
      // Half the mean squared difference of all pairs is the unbiased variance.
      const pairs = all.flatMap((a, i) => all.slice(i + 1).map((b) => (a - b) ** 2 / 2));
      return (s - mean(all)) / (o.normalizeStd ? Math.sqrt(mean(pairs)) + 1e-6 : 1);
    }),
  // Leave one out, literally.
  rloo: (plays) => grouped(plays, (s, others) => s - mean(others)),
  "reinforce++": (plays, o) => {
    const raw = each(plays, (play) => {
      const rewards = plain(play).map((t) => t.reward);
      return rewards.map((_, t) => sum(rewards.slice(t).map((r, l) => o.gamma ** l * r)));
    });
    // What leaves the recursion is single precision; so is what is whitened.
    const all = [...raw.values()].flat().map(Math.fround);
    const m = mean(all);
    const variance = all.length < 2 ? 0 : sum(all.map((x) => (x - m) ** 2)) / (all.length - 1);
    return { advantages: each(plays, (p) => raw.get(p.episode)!.map((x) => (x - m) / Math.sqrt(variance + 1e-8))) };
  },
  gae: (plays, o) => {
    const advantages = each(plays, (play) => {
      const tokens = plain(play);
      return sumForm(
        tokens.map((t) => t.reward),
        tokens.map((t) => t.value),
        o.gamma,
        o.lambda,
      );
    });
    return { advantages, returns: plus(plays, advantages) };
  },
  "turn-gae": (plays, o) => {
    const perTurn = (play: Play) =>
      sumForm(
        play.turns.map((turn) => sum(turn.tokens.map((t) => t.reward))),
        play.turns.map((turn) => turn.tokens[0]!.value),
        o.turnGamma,
        o.turnLambda,
      );
    return {
      advantages: each(plays, (play) => {
        const turns = perTurn(play);
        return play.turns.flatMap((turn, k) => turn.tokens.map(() => turns[k]!));
      }),
      returns: each(plays, (play) => {
        const turns = perTurn(play);
        return play.turns.flatMap((turn, k) =>
          turn.tokens.map(
            (_, i) => turns[k]! + turn.tokens[0]!.value - sum(turn.tokens.slice(0, i).map((t) => t.reward)),
          ),
        );
      }),
    };
  },
  "bi-level-gae": (plays, o) => {
    const advantages = each(plays, (play) => {
      const ends = play.turns.map((turn) => turn.tokens.at(-1)!);
      const before = play.turns.map((turn) => sum(turn.tokens.slice(0, -1).map((t) => t.reward)));
      const high = sumForm(
        ends.map((end, k) => end.reward + o.turnGamma * (before[k + 1] ?? 0)),
        ends.map((end) => end.value),
        o.turnGamma,
        o.turnLambda,
      );
      return play.turns.flatMap((turn, k) => {
        const rewards = turn.tokens.map((t) => t.reward);
        rewards[rewards.length - 1] = high[k]! + ends[k]!.value;
        return sumForm(
          rewards,
          turn.tokens.map((t) => t.value),
          o.gamma,
          o.lambda,
        );
      });
    });
    return { advantages, returns: plus(plays, advantages) };
  },
};
const plus = (plays: readonly Play[], advantages: Numbers) =>
  each(plays, (play) => plain(play).map((t, k) => t.value + advantages.get(play.episode)![k]!));

function expectClose(actual: Numbers, expected: Numbers): void {
  expect([...actual.keys()].sort()).toEqual([...expected.keys()].sort());
  for (const [episode, numbers] of expected) {
    const got = actual.get(episode)!;
    expect(got).toHaveLength(numbers.length);
    for (const [k, x] of numbers.entries()) {
      expect(Math.abs(got[k]! - x)).toBeLessThanOrEqual(2e-4 * (1 + Math.abs(x)));
    }
  }
}
const advantagesOf = (estimator: Estimator, rows: readonly TokenRow[], options: EstimatorOptions) =>
  readBack(rows, estimator.compute(rows, options).advantages);
function expectZeroElsewhere(rows: readonly TokenRow[], credit: Credit): void {
  for (const arrays of [credit.advantages, credit.returns ?? []]) {
    arrays.forEach((array, r) => {
      expect(array).toHaveLength(rows[r]!.sampled.length);
      array.forEach((x, i) => {
        if (rows[r]!.sampled[i] === 0) expect(x).toBe(0);
      });
    });
  }
}

describe("estimators", () => {
  const layouts = [
    ["joined", joinedRows],
    ["split", splitRows],
  ] as const;
  for (const estimator of ESTIMATORS.filter((e) => e !== maxrl)) {
    for (const [layout, rowsOf] of layouts) {
      test(`${estimator.name} equals its brute-force version with turns ${layout}`, () => {
        for (const dense of [false, true]) {
          fc.assert(
            fc.property(playsArbitrary(dense), optionsArbitrary, (plays, options) => {
              const rows = rowsOf(plays);
              const credit = estimator.compute(rows, options);
              const expected = BRUTE[estimator.name]!(plays, options);
              expectClose(readBack(rows, credit.advantages), expected.advantages);
              expect(credit.returns === undefined).toBe(expected.returns === undefined);
              if (credit.returns && expected.returns) expectClose(readBack(rows, credit.returns), expected.returns);
              expectZeroElsewhere(rows, credit);
            }),
            { numRuns: 40 },
          );
        }
      });
    }
    test(`${estimator.name} gives the same numbers, to the bit or nearly, with turns joined and split`, () => {
      fc.assert(
        fc.property(playsArbitrary(true), optionsArbitrary, (plays, options) => {
          const joined = joinedRows(plays);
          const split = splitRows(plays);
          expectClose(advantagesOf(estimator, split, options), advantagesOf(estimator, joined, options));
        }),
        { numRuns: 40 },
      );
    });
  }

  test("maxrl divides what an episode earned above its group's mean by that mean", () => {
    const outcome = fc.array(fc.boolean(), { minLength: 2, maxLength: 8 });
    fc.assert(
      fc.property(outcome, (wins) => {
        const rows = wins.map((won, s) => tinyRow(`e${s}`, won ? 1 : 0));
        const rate = wins.filter(Boolean).length / wins.length;
        const { advantages } = maxrl.compute(rows, ONES);
        wins.forEach((won, s) => {
          const expected = rate === 0 || rate === 1 ? 0 : won ? (1 - rate) / rate : -1;
          expect(advantages[s]![0]!).toBeCloseTo(expected, 3);
        });
      }),
    );
    const unfit = maxrl.compute([tinyRow("a", -1), tinyRow("b", 3)], ONES);
    expect(unfit.advantages.map((numbers) => numbers[0])).toEqual([0, 0]);
    expect(unfit.metrics).toEqual({ "groups/unfit": 1 });
  });
});

const tinyRow = (episode: string, reward: number): TokenRow => ({
  group: "g",
  episode,
  order: 0,
  sampled: Uint8Array.of(1, 0),
  turns: Int32Array.of(0, -1),
  rewards: Float32Array.of(reward, 0),
  samplerLogprobs: new Float32Array(2),
  limits: [],
});

describe("limits", () => {
  test("bi-level with all constants at 1 is token GAE, also with rewards on every token", () => {
    for (const dense of [false, true]) {
      fc.assert(
        fc.property(playsArbitrary(dense), (plays) => {
          const rows = joinedRows(plays);
          expectClose(advantagesOf(biLevelGae, rows, ONES), advantagesOf(gae, rows, ONES));
        }),
      );
    }
  });

  test("with one turn, bi-level is token GAE for any constants", () => {
    fc.assert(
      fc.property(playsArbitrary(true), optionsArbitrary, (plays, options) => {
        const rows = joinedRows(plays.map((play) => ({ ...play, turns: play.turns.slice(0, 1) })));
        expectClose(advantagesOf(biLevelGae, rows, options), advantagesOf(gae, rows, options));
      }),
    );
  });

  test("with one token per turn, both turn-level estimators are token GAE with the constants of turns", () => {
    fc.assert(
      fc.property(playsArbitrary(true), optionsArbitrary, (plays, options) => {
        const rows = joinedRows(
          plays.map((play) => ({ ...play, turns: play.turns.map((t) => ({ ...t, tokens: t.tokens.slice(0, 1) })) })),
        );
        const asTokens = { ...options, gamma: options.turnGamma, lambda: options.turnLambda };
        const expected = advantagesOf(gae, rows, asTokens);
        expectClose(advantagesOf(turnGae, rows, options), expected);
        expectClose(advantagesOf(biLevelGae, rows, options), expected);
      }),
    );
  });

  test("with all constants at 1, turn-gae agrees with token GAE where turns begin, and their returns agree everywhere", () => {
    fc.assert(
      fc.property(playsArbitrary(true), (plays) => {
        const rows = joinedRows(plays);
        const turn = turnGae.compute(rows, ONES);
        const token = gae.compute(rows, ONES);
        const starts = new Map(
          plays.map((p) => [p.episode, p.turns.map((_, k) => sum(p.turns.slice(0, k).map((t) => t.tokens.length)))]),
        );
        const pick = (numbers: Numbers) =>
          new Map([...numbers].map(([e, list]) => [e, starts.get(e)!.map((k) => list[k]!)] as const));
        expectClose(pick(readBack(rows, turn.advantages)), pick(readBack(rows, token.advantages)));
        expectClose(readBack(rows, turn.returns!), readBack(rows, token.returns!));
      }),
    );
  });

  test("equal rewards, and a group of one, give exactly 0", () => {
    for (const estimator of [grpo, rloo, maxrl]) {
      for (const count of [1, 3]) {
        const rows = Array.from({ length: count }, (_, s) => tinyRow(`e${s}`, 0.1));
        for (const array of estimator.compute(rows, ONES).advantages) expect([...array]).toEqual([0, 0]);
      }
    }
  });

  test("equal rewards that were rounded in other places are equal", () => {
    for (const estimator of [grpo, rloo, maxrl]) {
      const rows = [tinyRow("a", 87.5), tinyRow("b", 87.5), tinyRow("c", 87.5)];
      rows[2]!.sampled.fill(1);
      rows[2]!.rewards.set([87.3, 0.2]);
      for (const array of estimator.compute(rows, ONES).advantages) expect([...array]).toEqual([0, 0]);
    }
  });

  test("two episodes, one won: the numbers by hand", () => {
    const rows = [tinyRow("a", 1), tinyRow("b", 0)];
    const first = (e: Estimator, o = ONES) => e.compute(rows, o).advantages.map((a) => a[0]!);
    expect(first(grpo)[0]).toBeCloseTo(Math.SQRT1_2, 5);
    expect(first(grpo, { ...ONES, normalizeStd: false })).toEqual([0.5, -0.5]);
    expect(first(rloo)).toEqual([1, -1]);
    expect(first(maxrl)[0]).toBeCloseTo(1, 5);
    expect(first(reinforcePlusPlus)[0]).toBeCloseTo(Math.SQRT1_2, 5);
  });

  test("a truncated episode bootstraps nothing", () => {
    const row = { ...tinyRow("a", 0.25), values: Float32Array.of(1, 9) };
    for (const estimator of [gae, turnGae, biLevelGae]) {
      const ended = estimator.compute([row], ONES);
      expect(estimator.compute([{ ...row, limits: ["reply", "turns"] }], ONES)).toEqual(ended);
      expect(ended.advantages[0]![0]).toBe(-0.75);
      expect(ended.returns![0]![0]).toBe(0.25);
    }
  });
});

describe("refusals", () => {
  test("an estimator with a critic says so when there are no values", () => {
    expect(() => gae.compute([tinyRow("a", 1)], ONES)).toThrow(/critic/);
  });
  test("a reward on an id that was not sampled, rows of unequal arrays and doubled rows are refused", () => {
    const row = tinyRow("a", 1);
    expect(() => grpo.compute([{ ...row, rewards: Float32Array.of(0, 1) }], ONES)).toThrow(/not sampled/);
    expect(() => grpo.compute([{ ...row, rewards: new Float32Array(3) }], ONES)).toThrow(/one per id/);
    expect(() => grpo.compute([row, row], ONES)).toThrow(/order 0/);
    expect(() => grpo.compute([row, { ...row, order: 1, group: "h" }], ONES)).toThrow(/different groups/);
  });
  test("constants outside 0..1 are refused", () => {
    expect(() => checkEstimatorOptions({ ...ONES, turnGamma: 1.5 })).toThrow(/turnGamma/);
    expect(() => checkEstimatorOptions(ONES)).not.toThrow();
  });
});
