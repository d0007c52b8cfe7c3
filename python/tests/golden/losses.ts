/**
 * Writes losses.json: what src/engine/losses.ts says of random sequences, for test_losses.py. Run: npx jiti python/tests/golden/losses.ts
 * Numbers include ratios far outside every bound, so that each limit is met.
 */
import { writeFileSync } from "node:fs";
import { NumpyRandom } from "../../../src/core/random-numpy.ts";
import type { Loss } from "../../../src/engine/engine.ts";
import { meanMetrics, mergeMetrics, policyLoss, valueLoss } from "../../../src/engine/losses.ts";

const random = new NumpyRandom(7);
const spread = [0.1, 0.5, 3, 25];
const normal = () => random.random() + random.random() + random.random() - 1.5;
const array = (length: number, make: () => number) => Float32Array.from({ length }, make);

const sequences = spread.flatMap((scale) =>
  [1, 7, 12].map((length) => {
    const logprobs = array(length, () => -3 + 2 * normal());
    const near = (values: Float32Array) => values.map((value) => value + scale * normal());
    return {
      logprobs,
      entropy: array(length, () => 2 + normal()),
      values: array(length, normal),
      datum: {
        targets: new Int32Array(length),
        weights: array(length, () => (random.random() < 0.2 ? 0 : normal())),
        advantages: array(length, () => (random.random() < 0.2 ? 0 : normal())),
        oldLogprobs: near(logprobs),
        referenceLogprobs: near(logprobs),
        returns: array(length, normal),
        oldValues: array(length, () => 0.3 * normal()),
      },
    };
  }),
);

const kl = (estimator: "k1" | "k2" | "k3") => ({ kl: { coefficient: 0.3, estimator } });
const losses: Exclude<Loss, { name: "custom" }>[] = [
  { name: "cross-entropy" },
  { name: "importance-sampling" },
  { name: "importance-sampling", entropy: 0.2, ...kl("k1") },
  { name: "ppo", clipLow: 0.8, clipHigh: 1.28 },
  { name: "ppo", clipLow: 0.8, clipHigh: 1.2, dualClip: 1.5, entropy: -0.1, ...kl("k3") },
  { name: "cispo", clipLow: 0.5, clipHigh: 1.5, ...kl("k2") },
  { name: "gspo", clipLow: 0.9, clipHigh: 1.1, entropy: 0.01 },
  { name: "dro", beta: 0.05 },
  { name: "value" },
  { name: "value", clip: 0.2 },
];

const cases = losses.map((loss) => {
  const sums = {};
  let total = 0;
  let tokens = 0;
  const found = sequences.map(({ datum, logprobs, entropy, values }) => {
    const terms =
      loss.name === "value" ? valueLoss(loss, datum, values) : policyLoss(loss, datum, logprobs, entropy);
    total += terms.loss;
    tokens += terms.tokens;
    mergeMetrics(sums, terms.metrics);
    return { slopes: [...terms.slopes], entropySlopes: terms.entropySlopes && [...terms.entropySlopes] };
  });
  return { loss, total, tokens, metrics: meanMetrics(sums), found };
});

const plain = sequences.map(({ datum, ...rest }) => ({
  ...Object.fromEntries(Object.entries(rest).map(([name, values]) => [name, [...values]])),
  ...Object.fromEntries(Object.entries(datum).map(([name, values]) => [name, [...values]])),
}));
writeFileSync(new URL("losses.json", import.meta.url), `${JSON.stringify({ sequences: plain, cases })}\n`);
