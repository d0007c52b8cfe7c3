import { describe, expect, test } from "vitest";
import { NumpyRandom } from "../core/random-numpy.ts";
import type { Datum, LossContext } from "../engine/engine.ts";
import { policyLoss } from "../engine/losses.ts";
import { clipCov, dppo, EXTRA_LOSSES, klCov, rolloutIs, sapo, withKl } from "./losses-extra.ts";

type Numbers = readonly number[][];

/** Sequences whose tokens lie on both sides of every bound. */
function batch(seed: number, sequences = 3, length = 14): LossContext[] {
  const random = new NumpyRandom(seed);
  const floats = (make: () => number) => Float32Array.from({ length }, make);
  return Array.from({ length: sequences }, () => {
    const logprobs = floats(() => -2.5 * random.random() - 0.02);
    const near = () => logprobs.map((x) => Math.min(-0.01, x + 0.8 * (random.random() - 0.5)));
    const datum: Datum = {
      input: { ids: new Int32Array(length), images: [] },
      targets: new Int32Array(length).fill(1),
      weights: floats(() => random.random() + 0.1).map((w, i) => (i % 5 === 0 ? 0 : w)),
      advantages: floats(() => 6 * random.random() - 3),
      oldLogprobs: near(),
      referenceLogprobs: near(),
    };
    return { datum, logprobs };
  });
}

const sigmoid = (x: number) => 1 / (1 + Math.exp(-x));
const clip = (x: number, low: number, high: number) => Math.min(high, Math.max(low, x));

/** The tokens with a weight, and the loss again as a scalar function of log-probabilities `at`, with what is held constant read off the batch. */
function tokens(sequences: readonly LossContext[]) {
  return sequences.flatMap(({ datum, logprobs }, s) =>
    [...datum.weights].flatMap((w, i) =>
      w === 0 ? [] : [{ s, i, w, a: datum.advantages![i]!, old: datum.oldLogprobs![i]!, logp: logprobs[i]! }],
    ),
  );
}
function covOf(sequences: readonly LossContext[]): number[] {
  const list = tokens(sequences);
  const mean = (of: (t: (typeof list)[number]) => number) => list.reduce((sum, t) => sum + of(t), 0) / list.length;
  const [ma, ml] = [mean((t) => t.a), mean((t) => t.logp)];
  return list.map((t) => (t.a - ma) * (t.logp - ml));
}
type Direct = (sequences: readonly LossContext[], at: Numbers) => number;
const perToken =
  (term: (logp: number, t: ReturnType<typeof tokens>[number], k: number) => number): Direct =>
  (sequences, at) =>
    tokens(sequences).reduce((sum, t, k) => sum + t.w * term(at[t.s]![t.i]!, t, k), 0);

const DIRECT: Record<string, Direct> = {
  sapo: perToken((x, { a, old }) => {
    const tau = a > 0 ? 1 : 1.05;
    return -sigmoid(tau * (Math.exp(x - old) - 1)) * (4 / tau) * a;
  }),
  dppo: perToken((x, { a, old, logp }) => {
    const [p, q] = [Math.exp(logp), Math.exp(old)];
    const masked = (a > 0 && p - q > 0.2) || (a < 0 && q - p > 0.2);
    return masked ? 0 : -Math.exp(x - old) * a;
  }),
  "rollout-is": perToken((x, { a, old, logp }) => {
    const r = Math.exp(logp - old);
    return r > 0.8 && r < 1.2 ? -r * a * x : 0;
  }),
  "kl-cov": (sequences, at) => {
    const cov = covOf(sequences);
    const bar = [...cov].sort((x, y) => y - x)[Math.floor(0.2 * cov.length) - 1]!;
    return perToken((x, { a, old }, k) => -Math.exp(x - old) * a + (cov[k]! >= bar ? Math.abs(x - old) : 0))(
      sequences,
      at,
    );
  },
};

function expectSlopes(sequences: readonly LossContext[], direct: Direct, gradients: readonly Float32Array[]): void {
  const h = 1e-5;
  for (const [s, { logprobs }] of sequences.entries()) {
    for (const i of logprobs.keys()) {
      const moved = (by: number) =>
        sequences.map((c, k) => [...c.logprobs].map((x, j) => (k === s && j === i ? x + by : x)));
      const slope = (direct(sequences, moved(h)) - direct(sequences, moved(-h))) / (2 * h);
      expect(gradients[s]![i]!).toBeCloseTo(slope, 3);
    }
  }
}
const asNumbers = (sequences: readonly LossContext[]): Numbers => sequences.map((c) => [...c.logprobs]);

describe("extra losses", () => {
  for (const maker of [sapo, dppo, rolloutIs, klCov]) {
    test(`${maker.name} equals its formula, and its slopes the finite differences`, () => {
      for (const seed of [1, 2, 3]) {
        const sequences = batch(seed);
        const direct = DIRECT[maker.name]!;
        const { loss, gradients, metrics } = maker.make({}, 0)(sequences);
        expect(loss).toBeCloseTo(direct(sequences, asNumbers(sequences)), 5);
        expectSlopes(sequences, direct, gradients);
        expect(metrics!.ratio).toBeGreaterThan(0);
      }
    });
  }

  test("dppo with binary KL masks where the coins differ too much, on the side the advantage pulls to", () => {
    for (const seed of [4, 5, 6]) {
      const sequences = batch(seed);
      let masked = 0;
      const direct = perToken((x, { a, old, logp }) => {
        const [p, q] = [Math.exp(logp), Math.exp(old)];
        const kl = q * Math.log(q / p) + (1 - q) * Math.log((1 - q + 1e-8) / (1 - p + 1e-8));
        const off = kl > 0.02 && ((a > 0 && p > q) || (a < 0 && p < q));
        masked += off ? 1 : 0;
        return off ? 0 : -Math.exp(x - old) * a;
      });
      const { loss, gradients, metrics } = dppo.make({ divergence: "binary-kl", low: 0.02, high: 0.02 }, 0)(sequences);
      expect(loss).toBeCloseTo(direct(sequences, asNumbers(sequences)), 5);
      expect(metrics!.clip_share).toBeCloseTo(masked / tokens(sequences).length, 9);
      expect(masked).toBeGreaterThan(0);
      expectSlopes(sequences, direct, gradients);
    }
  });

  test("clip-cov is the engines' PPO, less the tokens it drew among those with a covariance in its band", () => {
    for (const seed of [7, 8, 9]) {
      const sequences = batch(seed);
      const ppo = sequences.map(({ datum, logprobs }) =>
        policyLoss({ name: "ppo", clipLow: 0.8, clipHigh: 1.2 }, datum, logprobs),
      );
      const { gradients, loss, metrics } = clipCov.make({ share: 0.1, low: 0.1, high: 5 }, seed)(sequences);
      const cov = covOf(sequences);
      const list = tokens(sequences);
      const gone = [...list.keys()].filter(
        (k) => gradients[list[k]!.s]![list[k]!.i] === 0 && ppo[list[k]!.s]!.slopes[list[k]!.i] !== 0,
      );
      expect(gone).toHaveLength(Math.floor(0.1 * list.length));
      for (const k of gone) expect(cov[k]! > 0.1 && cov[k]! < 5).toBe(true);
      const dropped = gone.reduce(
        (sum, k) => sum - list[k]!.w * Math.exp(list[k]!.logp - list[k]!.old) * list[k]!.a,
        0,
      );
      expect(loss).toBeCloseTo(ppo.reduce((sum, p) => sum + p.loss, 0) - dropped, 4);
      expect(metrics!.cov_share).toBeCloseTo(gone.length / list.length, 9);
      const direct = perToken((x, { a, old }, k) =>
        gone.includes(k) ? 0 : -Math.min(Math.exp(x - old) * a, clip(Math.exp(x - old), 0.8, 1.2) * a),
      );
      expectSlopes(sequences, direct, gradients);
    }
  });

  test("clip-cov draws the same tokens from the same seed, and others from another", () => {
    const sequences = batch(10, 6, 30);
    const drawn = (seed: number) => clipCov.make({ share: 0.05, low: 0.05, high: 5 }, seed)(sequences).gradients;
    expect(drawn(1)).toEqual(drawn(1));
    expect(drawn(1)).not.toEqual(drawn(2));
  });

  test("every loss looks at nothing with weight 0, and survives tokens that moved beyond all bounds", () => {
    for (const maker of EXTRA_LOSSES) {
      const sequences = batch(11).map(({ datum, logprobs }) => ({
        datum: { ...datum, oldLogprobs: datum.oldLogprobs!.map((x, i) => (i === 1 ? -400 : i === 2 ? x + 300 : x)) },
        logprobs: logprobs.map((x, i) => (i % 5 === 0 ? Number.NaN : x)),
      }));
      const { loss, gradients } = maker.make({}, 3)(sequences);
      expect(Number.isFinite(loss)).toBe(true);
      for (const gradient of gradients) {
        for (const [i, slope] of gradient.entries()) {
          expect(Number.isFinite(slope)).toBe(true);
          if (i % 5 === 0) expect(slope).toBe(0);
        }
      }
    }
  });

  test("on policy, every slope is −weight × advantage where it is the plain policy gradient", () => {
    const sequences = batch(12).map(({ datum, logprobs }) => ({
      datum: { ...datum, oldLogprobs: logprobs },
      logprobs,
    }));
    for (const maker of [sapo, dppo, rolloutIs, klCov]) {
      const { gradients } = maker.make({}, 0)(sequences);
      for (const { s, i, w, a } of tokens(sequences)) expect(gradients[s]![i]).toBeCloseTo(-w * a, 5);
    }
  });

  test("an empty batch has loss 0 and no metrics of nothing", () => {
    for (const maker of EXTRA_LOSSES) expect(maker.make({}, 0)([])).toMatchObject({ loss: 0, gradients: [] });
  });

  test("bad constants and data without advantages are refused", () => {
    expect(() => sapo.make({ positive: 0 }, 0)).toThrow(/positive.*>0/);
    expect(() => rolloutIs.make({ clipLow: 1.1 }, 0)).toThrow(/enclose 1/);
    expect(() => dppo.make({ divergence: "tv" }, 0)).toThrow(/binary-tv.*binary-kl/);
    expect(() => klCov.make({ share: 2 }, 0)).toThrow(/share/);
    expect(() => clipCov.make({ shares: 0.1 }, 0)).toThrow(/clipLow, clipHigh, share/);
    const { datum, logprobs } = batch(1)[0]!;
    const { advantages: _, ...bare } = datum;
    expect(() => sapo.make({}, 0)([{ datum: bare, logprobs }])).toThrow(/advantages/);
  });
});

describe("KL on top", () => {
  test("adds what the engines' own losses add", () => {
    for (const estimator of ["k1", "k2", "k3"] as const) {
      const sequences = batch(13);
      const kl = { coefficient: 0.3, estimator };
      const plain = dppo.make({ low: 9, high: 9 }, 0);
      const { loss, gradients, metrics } = withKl(plain, kl)(sequences);
      const engine = sequences.map(({ datum, logprobs }) =>
        policyLoss({ name: "importance-sampling", kl }, datum, logprobs),
      );
      expect(loss).toBeCloseTo(
        engine.reduce((sum, e) => sum + e.loss, 0),
        5,
      );
      for (const [s, gradient] of gradients.entries()) {
        for (const [i, slope] of gradient.entries()) expect(slope).toBeCloseTo(engine[s]!.slopes[i]!, 5);
      }
      const sums = engine.map((e) => e.metrics.kl_reference!);
      const mean = sums.reduce((a, m) => a + m.sum, 0) / sums.reduce((a, m) => a + m.count, 0);
      expect(metrics!.kl_reference).toBeCloseTo(mean, 9);
    }
  });
});
