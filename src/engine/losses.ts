/**
 * The losses, as pure functions of one sequence's numbers: from current log-probabilities (and entropies, or values) to the loss, its slopes
 * and metrics. Sums and per-token weights only: normalisation is the caller's, inside `weights` or `advantages`. Everything is computed in double.
 *
 * `clipLow` and `clipHigh` are bounds on the ratio itself, as in Tinker (0.8 and 1.2, not 0.2 and 0.2). With A the advantage, r = exp(logp − old):
 *   cross-entropy −logp · importance-sampling −rA · ppo −min(rA, clip(r)A), with dual clip no more than −cA where A < 0 ·
 *   cispo −sg[clip(r)]·A·logp · gspo: ppo with exp(mean over the sequence of logp − old) for r, its slope spread over the tokens ·
 *   dro −(A·logp − ½β(logp − old)²) · value ½ max((V − R)², (clip(V, old ± c) − R)²).
 * A token's term is multiplied by its weight; the KL and entropy terms by the weight's absolute value. Weight 0 means that nothing is looked at.
 */
import { ConfigError, DataError } from "../core/errors.ts";
import type { CustomLoss, Datum, KlEstimator, Loss, LossContext, Regularizers } from "./engine.ts";
import { LOSS_SCHEMAS } from "./loss-schemas.ts";
import { type OptionBag, readOptions } from "./options.ts";

export type PolicyLoss = Exclude<Loss, { name: "value" | "custom" }>;
export type ValueLoss = Extract<Loss, { name: "value" }>;

/** A datum without its input: all that a loss reads. */
export type LossArrays = Omit<Datum, "input">;

/** Sums with their counts, so that sequences and shards merge by addition. */
export type MetricSums = Record<string, { sum: number; count: number }>;

export type LossTerms = {
  readonly loss: number;
  /** dL/dlogp for a policy loss, dL/dvalue for a value loss. */
  readonly slopes: Float32Array;
  /** dL/dentropy; absent when the loss has no entropy term. */
  readonly entropySlopes?: Float32Array;
  /** Tokens with a weight. */
  readonly tokens: number;
  readonly metrics: MetricSums;
};

type Numbers = { readonly length: number; readonly [index: number]: number };

/** exp never sees more than this, so that one wild token can't overflow a batch; the slope beyond is 0. */
const LOG_RATIO_LIMIT = 20;
const SEQUENCE_LOG_RATIO_LIMIT = 10;
const KL_LIMIT = 10;

/**
 * Checks a loss on its way into an engine: every constant there, none that the loss does not have. Engines fill nothing in; the usual
 * constants are a recipe's to take (`POLICY_LOSSES`). A learner says its head, which must fit. Called once per batch.
 */
export function checkLoss(loss: Loss, head?: "lm" | "value"): void {
  const { name, ...given } = loss;
  const schema = Object.hasOwn(LOSS_SCHEMAS, name) ? LOSS_SCHEMAS[name] : undefined;
  if (schema === undefined) {
    throw new ConfigError(`There is no loss "${name}". The losses are ${Object.keys(LOSS_SCHEMAS).join(", ")}.`);
  }
  const read: OptionBag = readOptions(`Loss "${name}"`, schema, given);
  for (const [key, usual] of Object.entries(read)) {
    if (!Object.hasOwn(given, key)) throw new ConfigError(`Loss "${name}": ${key} is missing; ${usual} is usual.`);
  }
  if (head === "value" && name !== "value") {
    throw new ConfigError(`A critic learns with the loss "value", not "${name}".`);
  }
  if (head === "lm" && name === "value") throw new ConfigError('The loss "value" needs a learner with head "value".');
}

/** Checks that a datum's arrays have one length and that the loss finds what it needs. */
export function checkDatum(datum: Datum, loss?: Loss): void {
  const length = datum.input.ids.length;
  if (length === 0) throw new DataError("A datum needs at least one id.");
  const needs = loss === undefined ? [] : neededArrays(loss);
  for (const name of ["targets", "weights", ...OPTIONAL_ARRAYS] as const) {
    const array = datum[name];
    if (array === undefined) {
      if (!needs.includes(name)) continue;
      throw new DataError(`Loss "${loss?.name}" needs \`${name}\` on every datum.`);
    }
    if (array.length !== length) {
      throw new DataError(
        `A datum of ${length} ids has ${array.length} ${name}; every array must be as long as the ids.`,
      );
    }
  }
  const { temperature } = datum;
  if (temperature !== undefined && !(temperature > 0 && Number.isFinite(temperature))) {
    throw new DataError(`A datum's temperature must be above 0, got ${temperature}; for greedy samples use 1.`);
  }
  for (let i = 0; i < length; i++) {
    if ((datum.targets[i] as number) < 0 && datum.weights[i] !== 0) {
      throw new DataError(`Position ${i} has a weight but no target; give weight 0 where the target is −1.`);
    }
  }
}

const OPTIONAL_ARRAYS = ["advantages", "oldLogprobs", "referenceLogprobs", "returns", "oldValues"] as const;

function neededArrays(loss: Loss): readonly string[] {
  if (loss.name === "cross-entropy" || loss.name === "custom") return [];
  if (loss.name === "value") return loss.clip === undefined ? ["returns"] : ["returns", "oldValues"];
  return ["advantages", "oldLogprobs", ...(loss.kl === undefined ? [] : ["referenceLogprobs"])];
}

/**
 * `entropy` is read only where the loss has an entropy term; metrics report it where it is given. `sequenceLogRatio`: GSPO's, where a sequence is more than
 * this datum.
 */
export function policyLoss(
  loss: PolicyLoss,
  datum: LossArrays,
  logprobs: Numbers,
  entropy?: Numbers,
  sequenceLogRatio = loss.name === "gspo" ? meanLogRatio([{ datum, logprobs }]) : 0,
): LossTerms {
  const { weights } = datum;
  const slopes = new Float32Array(weights.length);
  const regularizers: Regularizers = loss.name === "cross-entropy" ? {} : loss;
  const entropyCoefficient = regularizers.entropy ?? 0;
  const entropySlopes = entropyCoefficient === 0 ? undefined : new Float32Array(weights.length);
  const metrics: MetricSums = {};
  const term: Term = { loss: 0, slope: 0 };
  let total = 0;
  let tokens = 0;
  for (let i = 0; i < weights.length; i++) {
    const weight = weights[i] as number;
    if (weight === 0) continue;
    tokens += 1;
    const logprob = logprobs[i] as number;
    if (loss.name === "cross-entropy") {
      term.loss = -logprob;
      term.slope = -1;
      add(metrics, "nll", -logprob);
    } else {
      const advantage = read(datum.advantages, i);
      const logRatio = logprob - read(datum.oldLogprobs, i);
      policyTerm(term, metrics, loss, advantage, logprob, logRatio, sequenceLogRatio);
    }
    let tokenLoss = weight * term.loss;
    let slope = weight * term.slope;
    const size = Math.abs(weight);
    if (regularizers.kl !== undefined) {
      klTerm(term, regularizers.kl.estimator, logprob - read(datum.referenceLogprobs, i));
      tokenLoss += regularizers.kl.coefficient * size * term.loss;
      slope += regularizers.kl.coefficient * size * term.slope;
      add(metrics, "kl_reference", term.loss);
    }
    if (entropy !== undefined) {
      add(metrics, "entropy", entropy[i] as number);
      if (entropySlopes !== undefined) {
        tokenLoss -= entropyCoefficient * size * (entropy[i] as number);
        entropySlopes[i] = -entropyCoefficient * size;
      }
    }
    total += tokenLoss;
    slopes[i] = slope;
  }
  return { loss: total, slopes, ...(entropySlopes && { entropySlopes }), tokens, metrics };
}

export function valueLoss(loss: ValueLoss, datum: LossArrays, values: Numbers): LossTerms {
  const { weights } = datum;
  const slopes = new Float32Array(weights.length);
  const metrics: MetricSums = {};
  let total = 0;
  let tokens = 0;
  for (let i = 0; i < weights.length; i++) {
    const weight = weights[i] as number;
    if (weight === 0) continue;
    tokens += 1;
    const value = values[i] as number;
    const target = read(datum.returns, i);
    const error = value - target;
    let worst = error;
    let slope = error;
    if (loss.clip !== undefined) {
      const old = read(datum.oldValues, i);
      const clippedError = Math.min(Math.max(value, old - loss.clip), old + loss.clip) - target;
      const clipped = clippedError * clippedError > error * error;
      // A clipped value is a constant: nothing to learn from.
      if (clipped) [worst, slope] = [clippedError, 0];
      add(metrics, "clip_value", clipped ? 1 : 0);
    }
    total += weight * 0.5 * worst * worst;
    slopes[i] = weight * slope;
    add(metrics, "value", value);
    add(metrics, "return", target);
    add(metrics, "value_error", error * error);
  }
  return { loss: total, slopes, tokens, metrics };
}

/**
 * A policy loss as a function, for engines that do not know it and for what their forms of it can't say. `wholeOf`: what a datum is a part of; GSPO's
 * ratio is over all of that.
 */
export function lossFunction(loss: PolicyLoss, wholeOf: (datum: Datum) => unknown = (datum) => datum): CustomLoss {
  if ("entropy" in loss && loss.entropy) {
    throw new ConfigError(
      `Loss "${loss.name}" runs as a function on this engine, without an entropy bonus: leave loss.entropy out.`,
    );
  }
  return (sequences) => {
    const wholes = new Map<unknown, LossContext[]>();
    for (const sequence of sequences) {
      const whole = wholeOf(sequence.datum);
      wholes.set(whole, [...(wholes.get(whole) ?? []), sequence]);
    }
    const ratios = new Map([...wholes].map(([whole, parts]) => [whole, meanLogRatio(parts)]));
    const metrics: MetricSums = {};
    let total = 0;
    const gradients = sequences.map(({ datum, logprobs }) => {
      const terms = policyLoss(loss, datum, logprobs, undefined, ratios.get(wholeOf(datum)));
      total += terms.loss;
      mergeMetrics(metrics, terms.metrics);
      return terms.slopes;
    });
    return { loss: total, gradients, metrics: meanMetrics(metrics) };
  };
}

/** What every policy loss reports of a sequence, as far as it is known: how far it moved, and how unsure it is. */
export function policyMetrics({ weights, oldLogprobs }: LossArrays, logprobs: Numbers, entropy?: Numbers): MetricSums {
  const metrics: MetricSums = {};
  for (let i = 0; i < weights.length; i++) {
    if (weights[i] === 0) continue;
    if (oldLogprobs !== undefined) addRatio(metrics, (logprobs[i] as number) - (oldLogprobs[i] as number));
    if (entropy !== undefined) add(metrics, "entropy", entropy[i] as number);
  }
  return metrics;
}

/** Adds `from` to `into`. */
export function mergeMetrics(into: MetricSums, from: MetricSums): void {
  for (const [name, { sum, count }] of Object.entries(from)) add(into, name, sum, count);
}

/** Sums to means. */
export function meanMetrics(sums: MetricSums): Record<string, number> {
  return Object.fromEntries(Object.entries(sums).map(([name, { sum, count }]) => [name, sum / count]));
}

type Term = { loss: number; slope: number };
type ClipBounds = { readonly clipLow: number; readonly clipHigh: number; readonly dualClip?: number };

/** Writes one token's loss and slope, before its weight. */
function policyTerm(
  term: Term,
  metrics: MetricSums,
  loss: Exclude<PolicyLoss, { name: "cross-entropy" }>,
  advantage: number,
  logprob: number,
  logRatio: number,
  sequenceLogRatio: number,
): void {
  const { limited, ratio } = addRatio(metrics, logRatio);
  switch (loss.name) {
    case "importance-sampling":
      term.loss = -ratio * advantage;
      term.slope = limited === logRatio ? term.loss : 0;
      return;
    case "ppo":
      clippedTerm(term, metrics, loss, advantage, ratio, limited === logRatio);
      return;
    case "gspo": {
      const sequenceLimited = Math.min(sequenceLogRatio, SEQUENCE_LOG_RATIO_LIMIT);
      clippedTerm(term, metrics, loss, advantage, Math.exp(sequenceLimited), sequenceLimited === sequenceLogRatio);
      return;
    }
    case "cispo": {
      const clipped = Math.min(Math.max(ratio, loss.clipLow), loss.clipHigh);
      add(metrics, "clip_low", ratio < loss.clipLow ? 1 : 0);
      add(metrics, "clip_high", ratio > loss.clipHigh ? 1 : 0);
      // Without an advantage nothing is pulled, even where logp is −∞.
      term.loss = advantage === 0 ? 0 : -clipped * advantage * logprob;
      term.slope = advantage === 0 ? 0 : -clipped * advantage;
      return;
    }
    case "dro":
      term.loss = (advantage === 0 ? 0 : -advantage * logprob) + 0.5 * loss.beta * logRatio * logRatio;
      term.slope = -advantage + loss.beta * logRatio;
      return;
  }
}

function addRatio(metrics: MetricSums, logRatio: number): { readonly limited: number; readonly ratio: number } {
  const limited = clamp(logRatio, LOG_RATIO_LIMIT);
  const ratio = Math.exp(limited);
  add(metrics, "ratio", ratio);
  add(metrics, "kl_old", ratio - 1 - limited);
  return { limited, ratio };
}

/** −min(rA, clip(r)A), no more than −cA where A < 0. `live` says that r still follows logp. */
function clippedTerm(
  term: Term,
  metrics: MetricSums,
  loss: ClipBounds,
  advantage: number,
  ratio: number,
  live: boolean,
): void {
  const clip = clipOf(loss, advantage, ratio);
  add(metrics, "clip_low", clip === "low" ? 1 : 0);
  add(metrics, "clip_high", clip === "high" ? 1 : 0);
  if (loss.dualClip !== undefined) add(metrics, "clip_dual", clip === "dual" ? 1 : 0);
  const bounds = { low: loss.clipLow, high: loss.clipHigh, dual: loss.dualClip as number };
  term.loss = -(clip === undefined ? ratio : bounds[clip]) * advantage;
  term.slope = clip !== undefined || !live ? 0 : -ratio * advantage;
}

/** Which bound of the PPO objective holds a token; undefined: none. */
function clipOf(loss: ClipBounds, advantage: number, ratio: number): "low" | "high" | "dual" | undefined {
  if (advantage < 0 && ratio < loss.clipLow) return "low";
  if (advantage > 0 && ratio > loss.clipHigh) return "high";
  return loss.dualClip !== undefined && advantage < 0 && ratio > loss.dualClip ? "dual" : undefined;
}

/** Positions (aligned to predictions) whose ratio met a bound of the loss; undefined where the loss has none that we know. */
export function clippedPositions(loss: Loss, datum: LossArrays, logprobs: Numbers): number[] | undefined {
  if (loss.name !== "ppo" && loss.name !== "gspo" && loss.name !== "cispo") return undefined;
  const whole = loss.name === "gspo" ? meanLogRatio([{ datum, logprobs }]) : undefined;
  const found: number[] = [];
  for (let i = 0; i < datum.weights.length; i++) {
    if (datum.weights[i] === 0) continue;
    const ratio = Math.exp(whole ?? (logprobs[i] as number) - read(datum.oldLogprobs, i));
    const clipped =
      loss.name === "cispo"
        ? ratio < loss.clipLow || ratio > loss.clipHigh
        : clipOf(loss, read(datum.advantages, i), ratio) !== undefined;
    if (clipped) found.push(i);
  }
  return found;
}

/** KL(policy ‖ reference) from one sample; `delta` is logp − reference. */
function klTerm(term: Term, estimator: KlEstimator, delta: number): void {
  switch (estimator) {
    case "k1":
      term.loss = delta;
      term.slope = 1;
      return;
    case "k2":
      term.loss = 0.5 * delta * delta;
      term.slope = delta;
      return;
    case "k3": {
      const limited = clamp(-delta, LOG_RATIO_LIMIT);
      const value = Math.exp(limited) - limited - 1;
      term.loss = Math.min(value, KL_LIMIT);
      term.slope = value > KL_LIMIT || limited !== -delta ? 0 : 1 - Math.exp(limited);
      return;
    }
  }
}

/** Mean of logp − old over the tokens that have a weight, of all parts of a sequence. */
function meanLogRatio(parts: readonly { readonly datum: LossArrays; readonly logprobs: Numbers }[]): number {
  let sum = 0;
  let count = 0;
  for (const { datum, logprobs } of parts) {
    for (let i = 0; i < datum.weights.length; i++) {
      if (datum.weights[i] === 0) continue;
      sum += (logprobs[i] as number) - read(datum.oldLogprobs, i);
      count += 1;
    }
  }
  return count === 0 ? 0 : sum / count;
}

function read(array: Float32Array | undefined, index: number): number {
  return array?.[index] ?? 0;
}

function clamp(value: number, limit: number): number {
  return Math.min(Math.max(value, -limit), limit);
}

function add(metrics: MetricSums, name: string, sum: number, count = 1): void {
  const entry = metrics[name];
  if (entry === undefined) metrics[name] = { sum, count };
  else {
    entry.sum += sum;
    entry.count += count;
  }
}
