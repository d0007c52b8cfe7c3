/**
 * KL(policy ‖ reference) estimated from the sampled tokens, and KL as a part of the reward: each sampled token pays coefficient × KL. With
 * Δ = logp − reference: k1 Δ · k2 ½Δ² · k3 exp(−Δ) + Δ − 1, with the limits the engine's losses have (exp sees ±20, k3 is at most 10).
 * The penalty is taken before estimation, so every estimator feels it; filters on task reward go before it.
 */
import { ConfigError, DataError } from "../core/errors.ts";
import type { KlEstimator } from "../engine/engine.ts";
import type { TokenRow } from "./tokens.ts";

const LOG_RATIO_LIMIT = 20;
const KL_LIMIT = 10;

/** The estimate from one token and its slope in logp; `delta` is logp − reference. */
export function klTerm(estimator: KlEstimator, delta: number): { readonly value: number; readonly slope: number } {
  switch (estimator) {
    case "k1":
      return { value: delta, slope: 1 };
    case "k2":
      return { value: 0.5 * delta * delta, slope: delta };
    case "k3": {
      const limited = Math.min(Math.max(-delta, -LOG_RATIO_LIMIT), LOG_RATIO_LIMIT);
      const value = Math.exp(limited) - limited - 1;
      const flat = value > KL_LIMIT || limited !== -delta;
      return { value: Math.min(value, KL_LIMIT), slope: flat ? 0 : 1 - Math.exp(limited) };
    }
  }
}

/** Per token; 0 where nothing was sampled. */
export function klEstimates(
  estimator: KlEstimator,
  logprobs: Float32Array,
  reference: Float32Array,
  sampled: Uint8Array,
): Float32Array {
  return Float32Array.from(sampled, (flag, i) =>
    flag === 0 ? 0 : klTerm(estimator, (logprobs[i] as number) - (reference[i] as number)).value,
  );
}

export type KlReward = { readonly coefficient: number; readonly estimator: KlEstimator };

/** The rows with the penalty in their rewards, and the mean KL per sampled token. The policy is the learner's, else the sampler's log-probabilities. */
export function applyKlReward(
  rows: readonly TokenRow[],
  options: KlReward,
): { readonly rows: TokenRow[]; readonly kl: number; readonly tokens: number } {
  const { coefficient, estimator } = options;
  if (!(coefficient >= 0 && Number.isFinite(coefficient))) {
    throw new ConfigError(`The KL coefficient must be 0 or more, got ${coefficient}.`);
  }
  let sum = 0;
  let tokens = 0;
  const penalised = rows.map((row) => {
    const { sampled, referenceLogprobs } = row;
    if (referenceLogprobs === undefined) {
      throw new DataError(
        "KL as reward needs referenceLogprobs on every row; score them with a reference model first.",
      );
    }
    const kl = klEstimates(estimator, row.oldLogprobs ?? row.samplerLogprobs, referenceLogprobs, sampled);
    for (let i = 0; i < kl.length; i++) {
      sum += kl[i] as number;
      tokens += sampled[i] === 0 ? 0 : 1;
    }
    return { ...row, rewards: row.rewards.map((reward, i) => reward - coefficient * (kl[i] as number)) };
  });
  return { rows: penalised, kl: tokens === 0 ? 0 : sum / tokens, tokens };
}

export type KlController =
  | { readonly kind: "fixed" }
  /** Moves the coefficient until the KL is `target`; `horizon` episodes are one time constant (usual: 0.1 and 10,000). */
  | { readonly kind: "adaptive"; readonly target: number; readonly horizon: number };

/** The coefficient after a batch of `episodes` whose mean KL was `kl`. The coefficient is all its state: a checkpoint keeps that number. */
export function nextKlCoefficient(coefficient: number, controller: KlController, kl: number, episodes: number): number {
  // A batch without a number is skipped, and says nothing of the next one either.
  if (controller.kind === "fixed" || !Number.isFinite(kl)) return coefficient;
  const error = Math.min(Math.max(kl / controller.target - 1, -0.2), 0.2);
  // One huge batch must not turn the penalty into a bonus.
  return Math.max(0, coefficient * (1 + (error * episodes) / controller.horizon));
}
