/**
 * A loss written in TypeScript, on any Learner: one forward gives the log-probabilities, the function gives dL/dlogp, and a second pass
 * differentiates Σ g·logp, which is cross entropy with weights −g. What every policy loss reports (ratio, KL to the old policy, entropy) is reported of it too.
 */
import { DataError } from "../core/errors.ts";
import type { CustomLoss, Datum, Learner, LossReport } from "./engine.ts";
import { type MetricSums, meanMetrics, mergeMetrics, policyMetrics } from "./losses.ts";

export async function customForwardBackward(
  learner: Pick<Learner, "forward" | "forwardBackward">,
  data: readonly Datum[],
  compute: CustomLoss,
): Promise<LossReport> {
  const forwards = await learner.forward(data);
  const sequences = data.map((datum, index) => {
    const logprobs = forwards[index]?.logprobs;
    if (logprobs === undefined) throw new DataError("A custom loss needs a learner with a language head.");
    return { datum, logprobs };
  });
  const { loss, gradients, metrics: own } = compute(sequences);
  const sums: MetricSums = {};
  sequences.forEach(({ datum, logprobs }, i) => {
    mergeMetrics(sums, policyMetrics(datum, logprobs, forwards[i]?.entropy));
  });
  const metrics = { ...meanMetrics(sums), ...own };
  if (gradients.length !== data.length) {
    throw new DataError(
      `The custom loss gave ${gradients.length} gradients for ${data.length} sequences; give one each.`,
    );
  }
  let finite = Number.isFinite(loss);
  const second = data.map((datum, index) => {
    const gradient = gradients[index] as Float32Array;
    const { targets } = datum;
    if (gradient.length !== targets.length) {
      throw new DataError(
        `The custom loss's gradient ${index} has ${gradient.length} numbers for ${targets.length} positions; give one per position.`,
      );
    }
    const weights = new Float32Array(targets.length);
    for (let i = 0; i < weights.length; i++) {
      const slope = gradient[i] as number;
      if (!Number.isFinite(slope)) finite = false;
      if ((targets[i] as number) >= 0) weights[i] = -slope;
    }
    return { ...datum, weights };
  });
  const outputs = sequences.map((sequence) => sequence.logprobs);
  // Nothing of a broken loss reaches the gradients.
  if (!finite) return { loss, finite, metrics, outputs };
  const report = await learner.forwardBackward(second, { name: "cross-entropy" });
  return { ...report, loss, metrics };
}
