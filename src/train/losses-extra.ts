/**
 * Policy losses beyond the engines' own, as functions from log-probabilities to dL/dlogp: they run on every engine. With A the advantage,
 * r = exp(logp − anchor), bounds on the ratio itself (0.8 and 1.2), and everything in sg[…] or a choice of tokens held constant:
 *   sapo −σ(τ(r − 1))·(4/τ)·A, τ by the sign of A · dppo −rA where the probability has not yet moved too far the way A pulls, else 0 ·
 *   rollout-is −sg[r·1(low < r < high)]·A·logp · clip-cov the clipped PPO loss, dropped on a few tokens drawn at random among those with
 *   low < cov < high · kl-cov −rA, plus coefficient·|logp − anchor| on the share of tokens with the largest cov.
 * cov = (A − mean A)(logp − mean logp) over the tokens of one call: give these two losses a whole mini-batch. The anchor is the datum's
 * `oldLogprobs`; losses with anchor "sampler" are defined against the log-probabilities the tokens were drawn with, so put those there.
 * Sums of weight × term, as in the engines' losses; weight 0 means that nothing is looked at.
 */
import { z } from "zod";
import { DataError } from "../core/errors.ts";
import { PythonRandom } from "../core/random-python.ts";
import type { CustomLoss, KlEstimator, LossContext } from "../engine/engine.ts";
import { bounds } from "../engine/loss-schemas.ts";
import { type OptionBag, readOptions } from "../engine/options.ts";
import { klTerm } from "./kl.ts";

/** `schema` says which constants there are; without one there are none. */
export type LossMaker<S extends z.ZodObject = z.ZodObject> = {
  readonly name: string;
  readonly schema?: S;
  /** What the ratio is taken against, and so what `oldLogprobs` must hold. */
  readonly anchor: "learner" | "sampler";
  /** `seed`: for losses that draw; a new one each step. */
  make(options: z.output<S>, seed: number): CustomLoss;
};

type Token = {
  readonly sequence: number;
  readonly index: number;
  readonly weight: number;
  readonly advantage: number;
  readonly logprob: number;
  readonly anchor: number;
  readonly ratio: number;
  /** The ratio still follows logp (it was not limited). */
  readonly live: boolean;
};
type Term = { readonly loss: number; readonly slope: number; readonly clipped?: boolean };

/** exp never sees more than this; the slope beyond is 0. */
const LOG_RATIO_LIMIT = 20;
const SURE = 1e-8;

const share = z.number().min(0).max(1);
const temperature = z.number().positive();

export const sapo = lossMaker({
  name: "sapo",
  anchor: "learner",
  schema: z.strictObject({ positive: temperature.default(1), negative: temperature.default(1.05) }),
  make({ positive, negative }) {
    return perToken(({ advantage, ratio, live }) => {
      const tau = advantage > 0 ? positive : negative;
      const gate = 1 / (1 + Math.exp(-tau * (ratio - 1)));
      return {
        loss: ((-gate * 4) / tau) * advantage,
        slope: live ? -4 * gate * (1 - gate) * ratio * advantage : 0,
      };
    });
  },
});

export const dppo = lossMaker({
  name: "dppo",
  anchor: "sampler",
  schema: z.strictObject({
    divergence: z.enum(["binary-tv", "binary-kl"]).default("binary-tv"),
    low: z.number().min(0).default(0.2),
    high: z.number().min(0).default(0.2),
  }),
  make({ divergence, low, high }) {
    return perToken(({ advantage, logprob, anchor, ratio, live }) => {
      const p = Math.exp(logprob);
      const q = Math.exp(anchor);
      const distance = divergence === "binary-tv" ? Math.abs(p - q) : binaryKl(q, p, anchor - logprob);
      const clipped = (advantage > 0 && p > q && distance > high) || (advantage < 0 && p < q && distance > low);
      if (clipped) return { loss: 0, slope: 0, clipped };
      return { loss: -ratio * advantage, slope: live ? -ratio * advantage : 0, clipped };
    });
  },
});

export const rolloutIs = lossMaker({
  name: "rollout-is",
  anchor: "sampler",
  schema: z.strictObject(bounds(0.8, 1.2)),
  make({ clipLow, clipHigh }) {
    return perToken(({ advantage, logprob, ratio }) => {
      const clipped = !(ratio > clipLow && ratio < clipHigh);
      // Without an advantage nothing is pulled, even where logp is −∞.
      if (clipped || advantage === 0) return { loss: 0, slope: 0, clipped };
      return { loss: -ratio * advantage * logprob, slope: -ratio * advantage, clipped };
    });
  },
});

export const clipCov = lossMaker({
  name: "clip-cov",
  anchor: "learner",
  schema: z.strictObject({
    ...bounds(0.8, 1.2),
    share: share.default(2e-4),
    low: z.number().default(1),
    high: z.number().default(5),
  }),
  make({ clipLow, clipHigh, share, low, high }, seed) {
    return (sequences) => {
      const tokens = tokensOf(sequences);
      const covs = covariances(tokens);
      const terms = tokens.map((token) => clippedTerm(token, clipLow, clipHigh));
      // A clipped token has no slope to take away.
      const candidates = [...tokens.keys()].filter(
        (t) => !terms[t]?.clipped && (covs[t] as number) > low && (covs[t] as number) < high,
      );
      const count = Math.min(candidates.length, Math.max(1, Math.floor(share * tokens.length)));
      const chosen = new Set(new PythonRandom(seed).sample(candidates, count));
      const kept = terms.map((term, t): Term => (chosen.has(t) ? { loss: 0, slope: 0 } : term));
      const metrics = tokens.length === 0 ? {} : { cov_share: count / tokens.length };
      return total(sequences, tokens, kept, metrics);
    };
  },
});

export const klCov = lossMaker({
  name: "kl-cov",
  anchor: "learner",
  schema: z.strictObject({ share: share.default(0.2), coefficient: z.number().min(0).default(1) }),
  make({ share, coefficient }) {
    return (sequences) => {
      const tokens = tokensOf(sequences);
      const covs = covariances(tokens);
      const count = Math.min(tokens.length, Math.max(1, Math.floor(share * tokens.length)));
      const order = [...tokens.keys()].sort((a, b) => (covs[b] as number) - (covs[a] as number) || a - b);
      const chosen = new Set(order.slice(0, count));
      const terms = tokens.map(({ advantage, logprob, anchor, ratio, live }, t): Term => {
        const penalty = chosen.has(t) ? coefficient : 0;
        const delta = logprob - anchor;
        return {
          loss: -ratio * advantage + penalty * Math.abs(delta),
          slope: (live ? -ratio * advantage : 0) + penalty * Math.sign(delta),
        };
      });
      return total(sequences, tokens, terms, {});
    };
  },
});

export const EXTRA_LOSSES: readonly LossMaker[] = [sapo, dppo, rolloutIs, clipCov, klCov];

/** A loss with KL to the reference on top, weighted per token by |weight| as in the engines' own losses. */
export function withKl(
  inner: CustomLoss,
  kl: { readonly coefficient: number; readonly estimator: KlEstimator },
): CustomLoss {
  return (sequences) => {
    const { loss, gradients, metrics } = inner(sequences);
    let extra = 0;
    let sum = 0;
    let count = 0;
    const slopes = sequences.map(({ datum, logprobs }, s) => {
      const { weights, referenceLogprobs } = datum;
      if (referenceLogprobs === undefined) throw new DataError("KL as loss needs referenceLogprobs on every datum.");
      return (gradients[s] as Float32Array).map((slope, i) => {
        const size = Math.abs(weights[i] as number);
        if (size === 0) return slope;
        const term = klTerm(kl.estimator, (logprobs[i] as number) - (referenceLogprobs[i] as number));
        extra += kl.coefficient * size * term.value;
        sum += term.value;
        count += 1;
        return slope + kl.coefficient * size * term.slope;
      });
    });
    return {
      loss: loss + extra,
      gradients: slopes,
      metrics: { ...metrics, ...(count > 0 && { kl_reference: sum / count }) },
    };
  };
}

function perToken(term: (token: Token) => Term): CustomLoss {
  return (sequences) => {
    const tokens = tokensOf(sequences);
    return total(sequences, tokens, tokens.map(term), {});
  };
}

/** The tokens that have a weight, of all sequences. */
function tokensOf(sequences: readonly LossContext[]): Token[] {
  const tokens: Token[] = [];
  sequences.forEach(({ datum, logprobs }, sequence) => {
    const { weights, advantages, oldLogprobs } = datum;
    if (advantages === undefined || oldLogprobs === undefined) {
      throw new DataError("A policy loss needs `advantages` and `oldLogprobs` on every datum.");
    }
    for (let index = 0; index < weights.length; index++) {
      const weight = weights[index] as number;
      if (weight === 0) continue;
      const logprob = logprobs[index] as number;
      const anchor = oldLogprobs[index] as number;
      const logRatio = logprob - anchor;
      const limited = Math.min(Math.max(logRatio, -LOG_RATIO_LIMIT), LOG_RATIO_LIMIT);
      tokens.push({
        sequence,
        index,
        weight,
        advantage: advantages[index] as number,
        logprob,
        anchor,
        ratio: Math.exp(limited),
        live: limited === logRatio,
      });
    }
  });
  return tokens;
}

/** −min(rA, clip(r)A). */
function clippedTerm({ advantage, ratio, live }: Token, low: number, high: number): Term {
  const clipped = (advantage < 0 && ratio < low) || (advantage > 0 && ratio > high);
  const used = clipped ? (advantage < 0 ? low : high) : ratio;
  return { loss: -used * advantage, slope: clipped || !live ? 0 : -ratio * advantage, clipped };
}

/** KL of two coins with chances q and p of the sampled id; `logQuotient` is log(q / p). */
function binaryKl(q: number, p: number, logQuotient: number): number {
  return q * logQuotient + (1 - q) * Math.log((1 - q + SURE) / (1 - p + SURE));
}

function covariances(tokens: readonly Token[]): number[] {
  const mean = (read: (token: Token) => number) =>
    tokens.reduce((sum, token) => sum + read(token), 0) / Math.max(1, tokens.length);
  const meanAdvantage = mean((token) => token.advantage);
  const meanLogprob = mean((token) => token.logprob);
  return tokens.map((token) => (token.advantage - meanAdvantage) * (token.logprob - meanLogprob));
}

function total(
  sequences: readonly LossContext[],
  tokens: readonly Token[],
  terms: readonly Term[],
  metrics: Readonly<Record<string, number>>,
): ReturnType<CustomLoss> {
  const gradients = sequences.map(({ datum }) => new Float32Array(datum.weights.length));
  let loss = 0;
  let ratios = 0;
  let clips = 0;
  tokens.forEach((token, t) => {
    const term = terms[t] as Term;
    loss += token.weight * term.loss;
    (gradients[token.sequence] as Float32Array)[token.index] = token.weight * term.slope;
    ratios += token.ratio;
    clips += term.clipped ? 1 : 0;
  });
  if (tokens.length === 0) return { loss, gradients, metrics };
  const hasClip = terms.some((term) => term.clipped !== undefined);
  return {
    loss,
    gradients,
    metrics: { ratio: ratios / tokens.length, ...(hasClip && { clip_share: clips / tokens.length }), ...metrics },
  };
}

/** A maker that reads its bag itself, so that it is as strict outside of recipes. */
function lossMaker<S extends z.ZodObject>(maker: LossMaker<S> & { readonly schema: S }) {
  return {
    ...maker,
    make: (given: OptionBag, seed: number) =>
      maker.make(readOptions(`Loss "${maker.name}"`, maker.schema, given), seed),
  };
}
