import { describe, expect, test } from "vitest";
import { ConfigError } from "../core/errors.ts";
import { NumpyRandom } from "../core/random-numpy.ts";
import { customForwardBackward } from "./custom-loss.ts";
import type { Datum, KlEstimator, Loss } from "./engine.ts";
import { POLICY_LOSSES } from "./loss-schemas.ts";
import {
  checkDatum,
  checkLoss,
  type LossTerms,
  lossFunction,
  meanMetrics,
  mergeMetrics,
  type PolicyLoss,
  policyLoss,
  type ValueLoss,
  valueLoss,
} from "./losses.ts";

const N = 12;
const LOSSES: readonly PolicyLoss[] = [
  { name: "importance-sampling" },
  { name: "ppo", clipLow: 0.9, clipHigh: 1.1, dualClip: 2 },
  { name: "cispo", clipLow: 0.9, clipHigh: 1.1 },
  { name: "gspo", clipLow: 0.9, clipHigh: 1.1 },
  { name: "dro", beta: 0.3 },
];

function randomDatum(seed: number, spread = 0.6): { datum: Datum; logprobs: Float64Array; entropy: Float64Array } {
  const random = new NumpyRandom(seed);
  const floats = (make: () => number) => Float32Array.from({ length: N }, make);
  const logprobs = Float64Array.from({ length: N }, () => -3 * random.random());
  const near = () => floats(() => 0).map((_, i) => (logprobs[i] as number) + spread * (random.random() - 0.5) * 2);
  const datum: Datum = {
    input: { ids: new Int32Array(N), images: [] },
    targets: Int32Array.from({ length: N }, (_, i) => (i === 0 ? -1 : i)),
    weights: floats(() => 2 * random.random() - 0.7).map((w, i) => (i % 4 === 0 ? 0 : w)),
    advantages: floats(() => 4 * random.random() - 2),
    oldLogprobs: near(),
    referenceLogprobs: near(),
    returns: floats(() => 2 * random.random()),
    oldValues: near(),
  };
  return { datum, logprobs, entropy: Float64Array.from({ length: N }, () => 2 * random.random()) };
}

/** Another way to say the same: a scalar function per token, stop-gradients given as the frozen log-probabilities `at`. */
function direct(
  loss: PolicyLoss,
  datum: Datum,
  logprobs: Float64Array,
  at: Float64Array,
  entropy: Float64Array,
): number {
  const clip = (x: number, low: number, high: number) => Math.max(low, Math.min(high, x));
  const active = [...datum.weights.keys()].filter((i) => datum.weights[i] !== 0);
  let total = 0;
  for (const i of active) {
    const w = datum.weights[i]!;
    const logp = logprobs[i]!;
    if (loss.name === "cross-entropy") {
      total += -w * logp;
      continue;
    }
    const a = datum.advantages![i]!;
    const old = datum.oldLogprobs![i]!;
    const r = Math.exp(clip(logp - old, -20, 20));
    if (loss.name === "importance-sampling") total += w * -(r * a);
    if (loss.name === "ppo") {
      const pessimistic = -Math.min(r * a, clip(r, loss.clipLow, loss.clipHigh) * a);
      total += w * (loss.dualClip !== undefined && a < 0 ? Math.min(pessimistic, -a * loss.dualClip) : pessimistic);
    }
    if (loss.name === "cispo") {
      const frozen = clip(Math.exp(at[i]! - old), loss.clipLow, loss.clipHigh);
      total += w * -frozen * a * logp;
    }
    if (loss.name === "gspo") {
      const mean = active.reduce((sum, j) => sum + at[j]! - datum.oldLogprobs![j]!, 0) / active.length;
      const s = Math.exp(Math.min(logp - at[i]! + mean, 10));
      total += w * -Math.min(s * a, clip(s, loss.clipLow, loss.clipHigh) * a);
    }
    if (loss.name === "dro") total += w * -(logp * a - 0.5 * loss.beta * (logp - old) ** 2);
    if (loss.kl) {
      const d = logp - datum.referenceLogprobs![i]!;
      const e = clip(-d, -20, 20);
      const kl = { k1: d, k2: (d * d) / 2, k3: Math.min(Math.exp(e) - e - 1, 10) }[loss.kl.estimator];
      total += loss.kl.coefficient * Math.abs(w) * kl;
    }
    total -= (loss.entropy ?? 0) * Math.abs(w) * entropy[i]!;
  }
  return total;
}

const regularizers = (["k1", "k2", "k3"] as KlEstimator[]).map((estimator) => ({
  kl: { coefficient: 0.3, estimator },
  entropy: 0.05,
}));
const bases: PolicyLoss[] = [
  { name: "importance-sampling" },
  { name: "ppo", clipLow: 0.8, clipHigh: 1.28 },
  { name: "ppo", clipLow: 0.8, clipHigh: 1.2, dualClip: 1.5 },
  { name: "cispo", clipLow: 0.7, clipHigh: 1.4 },
  { name: "gspo", clipLow: 0.9, clipHigh: 1.1 },
  { name: "dro", beta: 0.05 },
];
const table: PolicyLoss[] = [
  { name: "cross-entropy" },
  ...bases,
  ...bases.flatMap((base) => regularizers.map((terms) => ({ ...base, ...terms }) as PolicyLoss)),
];

describe("policy losses", () => {
  test.each(table.map((loss) => [JSON.stringify(loss), loss] as const))(
    "%s equals its formula and its slopes",
    (_, loss) => {
      for (const spread of [0.05, 0.6, 30]) {
        for (let seed = 0; seed < 15; seed++) {
          const { datum, logprobs, entropy } = randomDatum(seed, spread);
          const terms = policyLoss(loss, datum, logprobs, entropy);
          const size = Math.max(1, Math.abs(terms.loss));
          expect(Math.abs(terms.loss - direct(loss, datum, logprobs, logprobs, entropy)) / size).toBeLessThan(1e-12);
          for (let i = 0; i < N; i++) {
            const h = 1e-6;
            const along = (array: Float64Array, delta: number) => array.map((x, j) => (j === i ? x + delta : x));
            const slope =
              (direct(loss, datum, along(logprobs, h), logprobs, entropy) -
                direct(loss, datum, along(logprobs, -h), logprobs, entropy)) /
              (2 * h);
            // A token that sits within h of a kink of its clip has no slope to compare; none does with these seeds.
            expect(Math.abs(terms.slopes[i]! - slope) / Math.max(1, Math.abs(slope), size * 1e-3)).toBeLessThan(1e-5);
            const pull =
              direct(loss, datum, logprobs, logprobs, along(entropy, 1)) -
              direct(loss, datum, logprobs, logprobs, entropy);
            expect(Math.abs((terms.entropySlopes?.[i] ?? 0) - pull)).toBeLessThan(1e-5 * size);
          }
        }
      }
    },
  );

  test("a token without weight is never looked at, whatever its numbers", () => {
    for (const loss of table) {
      const { datum, logprobs, entropy } = randomDatum(3);
      const clean = policyLoss(loss, datum, logprobs, entropy);
      for (const i of [0, 4, 8]) {
        logprobs[i] = -Infinity;
        datum.advantages![i] = Number.NaN;
        datum.oldLogprobs![i] = Number.NaN;
      }
      expect(policyLoss(loss, datum, logprobs, entropy)).toEqual(clean);
      expect(clean.tokens).toBe(9);
    }
  });

  test("cispo and dro ignore an impossible token that has no advantage", () => {
    const { datum, logprobs } = randomDatum(5);
    datum.advantages![1] = 0;
    logprobs[1] = -Infinity;
    expect(policyLoss({ name: "cispo", clipLow: 0, clipHigh: 4 }, datum, logprobs).loss).not.toBeNaN();
  });

  test("clip shares count the tokens whose clip was active", () => {
    const datum = (advantages: number[], old: number[]): Datum => ({
      input: { ids: new Int32Array(4), images: [] },
      targets: new Int32Array(4),
      weights: new Float32Array(4).fill(1),
      advantages: Float32Array.from(advantages),
      oldLogprobs: Float32Array.from(old),
    });
    // Ratios e, e, 1/e, e: high clip needs A > 0, low clip A < 0, dual clip A < 0 beyond c.
    const terms = policyLoss(
      { name: "ppo", clipLow: 0.8, clipHigh: 1.2, dualClip: 2 },
      datum([1, -1, -1, 1], [-2, -2, 0, -2]),
      new Float64Array(4).fill(-1),
    );
    const means = meanMetrics(terms.metrics);
    expect(means.clip_high).toBe(0.5);
    expect(means.clip_low).toBe(0.25);
    expect(means.clip_dual).toBe(0.25);
    expect([...terms.slopes]).toEqual([0, 0, 0, 0]);
  });

  test("metrics of parts add up to those of the whole", () => {
    const loss: Loss = { name: "ppo", clipLow: 0.8, clipHigh: 1.2, kl: { coefficient: 1, estimator: "k3" } };
    const { datum, logprobs, entropy } = randomDatum(8);
    const part = (keep: (i: number) => boolean): LossTerms =>
      policyLoss(loss, { ...datum, weights: datum.weights.map((w, i) => (keep(i) ? w : 0)) }, logprobs, entropy);
    const sums = part((i) => i < 5).metrics;
    mergeMetrics(sums, part((i) => i >= 5).metrics);
    const whole = meanMetrics(part(() => true).metrics);
    const merged = meanMetrics(sums);
    expect(Object.keys(merged)).toEqual(Object.keys(whole));
    for (const [name, value] of Object.entries(whole)) expect(merged[name]).toBeCloseTo(value, 12);
  });
});

describe("value loss", () => {
  test.each([{ name: "value" }, { name: "value", clip: 0.2 }] as ValueLoss[])(
    "%o equals its formula and its slopes",
    (loss) => {
      for (let seed = 0; seed < 30; seed++) {
        const { datum, logprobs: values } = randomDatum(seed);
        const formula = (at: Float64Array) => {
          let total = 0;
          for (let i = 0; i < N; i++) {
            const target = datum.returns![i]!;
            const old = datum.oldValues![i]!;
            const c = loss.clip ?? Infinity;
            const clipped = Math.max(old - c, Math.min(old + c, at[i]!));
            total += datum.weights[i]! * 0.5 * Math.max((at[i]! - target) ** 2, (clipped - target) ** 2);
          }
          return total;
        };
        const terms = valueLoss(loss, datum, values);
        expect(terms.loss).toBeCloseTo(formula(values), 10);
        for (let i = 0; i < N; i++) {
          const h = 1e-6;
          const along = (delta: number) => values.map((x, j) => (j === i ? x + delta : x));
          expect(terms.slopes[i]).toBeCloseTo((formula(along(h)) - formula(along(-h))) / (2 * h), 4);
        }
      }
    },
  );
});

describe("bad losses and data", () => {
  test("clip bounds given as distances from 1 are refused", () => {
    expect(() => checkLoss({ name: "ppo", clipLow: 0.2, clipHigh: 0.2 })).toThrow(/enclose 1/);
    expect(() => checkLoss({ name: "ppo", clipLow: 0.8, clipHigh: 1.2, dualClip: 0.5 })).toThrow(/dualClip/);
    expect(() => checkLoss({ name: "dro", beta: Number.NaN })).toThrow(/beta/);
  });

  test.each<[string, Record<string, unknown>, RegExp]>([
    ["ppo without bounds", { name: "ppo" }, /clipLow is missing; 0.8 is usual/],
    ["gspo without one of them", { name: "gspo", clipLow: 0.999 }, /clipHigh is missing/],
    ["cispo without bounds", { name: "cispo" }, /clipLow is missing/],
    ["dro without beta", { name: "dro" }, /beta is missing/],
    ["a misspelt dualclip", { name: "ppo", clipLow: 0.8, clipHigh: 1.2, dualclip: 3 }, /no "dualclip".*dualClip/],
    ["bounds where there are none", { name: "importance-sampling", clipHigh: 1.2 }, /no "clipHigh"/],
    ["constants of cross entropy", { name: "cross-entropy", entropy: 0.1 }, /no "entropy"/],
    ["a value loss that clips at nothing", { name: "value", clip: 0 }, /clip: must be above 0/],
    ["half a KL", { name: "importance-sampling", kl: { coefficient: 1 } }, /kl.estimator/],
    ["a custom loss without its function", { name: "custom" }, /compute: must be a function/],
    ["a loss that does not exist", { name: "toString" }, /no loss "toString"\. The losses are .*gspo/],
  ])("an engine refuses %s", (_, loss, message) => {
    expect(() => checkLoss(loss as Loss)).toThrow(ConfigError);
    expect(() => checkLoss(loss as Loss)).toThrow(message);
  });

  test("every policy loss is whole with its usual constants", () => {
    for (const [name, schema] of Object.entries(POLICY_LOSSES)) {
      const kl = { coefficient: 0.1, estimator: "k3" } as const;
      expect(() => checkLoss({ name, ...schema.parse({}), kl, entropy: 0.01 } as Loss)).not.toThrow();
    }
  });

  test("missing or short arrays and weights without targets are named", () => {
    const { datum } = randomDatum(1);
    const { advantages: _, ...bare } = datum;
    expect(() => checkDatum(bare, { name: "importance-sampling" })).toThrow(/advantages/);
    expect(() => checkDatum({ ...datum, returns: new Float32Array(3) })).toThrow(/3 returns/);
    expect(() => checkDatum({ ...datum, weights: new Float32Array(N).fill(1) })).toThrow(/Position 0/);
    expect(() => checkDatum({ ...datum, temperature: 0 })).toThrow(/temperature/);
    expect(() => checkDatum(datum, { name: "gspo", clipLow: 0.9, clipHigh: 1.1 })).not.toThrow();
  });
});

describe("custom losses", () => {
  test("reach the learner as cross entropy with the negated gradient as weights", async () => {
    const { datum, logprobs } = randomDatum(2);
    const current = Float32Array.from(logprobs);
    const seen: Datum[] = [];
    const learner = {
      forward: async () => [{ logprobs: current }],
      forwardBackward: async (data: readonly Datum[], loss: Loss) => {
        seen.push(...data);
        const terms = policyLoss(loss as PolicyLoss, data[0]!, current);
        return { loss: terms.loss, finite: true, metrics: {}, outputs: [current], slopes: terms.slopes };
      },
    };
    const gradient = Float32Array.from({ length: N }, (_, i) => i - 4);
    const report = await customForwardBackward(learner, [datum], () => ({
      loss: 7,
      gradients: [gradient],
      metrics: { mine: 1 },
    }));
    expect(report).toMatchObject({ loss: 7, finite: true, metrics: { mine: 1 } });
    // Position 0 has no target, so it has no weight.
    expect(policyLoss({ name: "cross-entropy" }, seen[0]!, current).slopes).toEqual(
      gradient.map((g, i) => (i === 0 ? 0 : g)),
    );
  });

  test("report what every policy loss reports: ratio, KL to the old policy and entropy, unless they say otherwise", async () => {
    const batch = [2, 3].map((seed) => randomDatum(seed));
    const learner = {
      forward: async () =>
        batch.map(({ logprobs, entropy }) => ({
          logprobs: Float32Array.from(logprobs),
          entropy: Float32Array.from(entropy),
        })),
      forwardBackward: async () => ({ loss: 0, finite: true, metrics: { nll: 9 }, outputs: [] }),
    };
    const data = batch.map(({ datum }) => datum);
    const gradients = data.map(() => new Float32Array(N));
    const own: Record<string, number> = { ratio: 7 };
    const { metrics } = await customForwardBackward(learner, data, () => ({ loss: 1, gradients, metrics: own }));
    const sums = {};
    for (const { datum, logprobs, entropy } of batch) {
      mergeMetrics(sums, policyLoss({ name: "importance-sampling" }, datum, logprobs, entropy).metrics);
    }
    const named = meanMetrics(sums);
    expect(Object.keys(metrics).sort()).toEqual(["entropy", "kl_old", "ratio"]);
    expect(metrics.entropy).toBeCloseTo(named.entropy as number, 5);
    expect(metrics.kl_old).toBeCloseTo(named.kl_old as number, 5);
    expect(metrics.ratio).toBe(7);
  });

  test.each(Object.keys(POLICY_LOSSES))(
    "%s as a function has the loss, the slopes and the metrics that it has by name",
    (name) => {
      const loss = LOSSES.find((one) => one.name === name) as PolicyLoss;
      const batch = [4, 5].map((seed) => randomDatum(seed));
      const found = lossFunction(loss)(
        batch.map(({ datum, logprobs }) => ({ datum, logprobs: Float32Array.from(logprobs) })),
      );
      const terms = batch.map(({ datum, logprobs }) => policyLoss(loss, datum, Float32Array.from(logprobs)));
      expect(found.loss).toBe(terms.reduce((sum, one) => sum + one.loss, 0));
      expect(found.gradients).toEqual(terms.map(({ slopes }) => slopes));
      const sums = {};
      for (const { metrics } of terms) mergeMetrics(sums, metrics);
      expect(found.metrics).toEqual(meanMetrics(sums));
    },
  );

  test("a gradient that is not finite is reported and goes nowhere", async () => {
    const { datum, logprobs } = randomDatum(2);
    let calls = 0;
    const learner = {
      forward: async () => [{ logprobs: Float32Array.from(logprobs) }],
      forwardBackward: async () => {
        calls += 1;
        return { loss: 0, finite: true, metrics: {}, outputs: [] };
      },
    };
    const gradients = [new Float32Array(N).fill(Number.NaN)];
    expect((await customForwardBackward(learner, [datum], () => ({ loss: 1, gradients }))).finite).toBe(false);
    expect(calls).toBe(0);
  });
});
