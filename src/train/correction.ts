/**
 * Off-policy correction: the sampler that drew the tokens and the learner that trains on them may differ (another engine, older weights).
 * With ρ = exp(learner − sampler) per token, factors ≥ 0 that are folded into the advantages, so no loss needs to know:
 *   truncate  min(ρ, cap) per token, or min(Πρ, cap) per sequence · sequenceMask  0 unless the geometric mean (or product) of ρ lies within
 *   bounds · tokenMask  0 unless ρ lies within bounds · outliers  0 for a sequence with any ρ outside bounds.
 * They multiply. A sequence is an episode, so joined and split turns get the same factors. On policy all factors are exactly 1.
 */
import { ConfigError, DataError } from "../core/errors.ts";
import { episodesOf, gather, scatter, zerosLike } from "./episodes.ts";
import type { TokenRow } from "./tokens.ts";

type Bounds = { readonly low: number; readonly high: number };
export type Correction = {
  /** Usual caps: 2 per token, 5 per sequence. */
  readonly truncate?: { readonly level: "token" | "sequence"; readonly cap: number };
  /** Usual bounds: 0.99 and 1.01 for the geometric mean, 0.5 and 2 for the product. */
  readonly sequenceMask?: { readonly of: "geometric" | "product" } & Bounds;
  readonly tokenMask?: Bounds;
  /** Usual bounds: 1e-4 and 100. */
  readonly outliers?: Bounds;
};

export type CorrectionReport = {
  /** Per token; 0 where nothing was sampled. */
  readonly factors: readonly Float32Array[];
  /** `ratio_{mean,std,min,max}` over tokens; the rest are shares, of tokens or (`…sequence…`) of sequences. */
  readonly metrics: Readonly<Record<string, number>>;
};

/** exp never sees more than this. */
const LOG_RATIO_LIMIT = 20;

export function checkCorrection(correction: Correction): void {
  const { truncate, sequenceMask, tokenMask, outliers } = correction;
  if (truncate !== undefined && !(truncate.cap > 0)) {
    throw new ConfigError(`truncate.cap must be above 0, got ${truncate.cap}.`);
  }
  for (const [name, bounds] of Object.entries({ sequenceMask, tokenMask, outliers })) {
    if (bounds !== undefined && !(bounds.low >= 0 && bounds.low <= 1 && bounds.high >= 1)) {
      throw new ConfigError(`${name}: low ${bounds.low} and high ${bounds.high} bound a ratio and must enclose 1.`);
    }
  }
}

export function offPolicyFactors(rows: readonly TokenRow[], correction: Correction): CorrectionReport {
  checkCorrection(correction);
  const learner = rows.map((row) => {
    if (row.oldLogprobs === undefined) {
      throw new DataError("Off-policy correction needs oldLogprobs on every row; score them with the learner first.");
    }
    return row.oldLogprobs;
  });
  const sampler = rows.map((row) => row.samplerLogprobs);
  const factors = zerosLike(rows);
  const tally = new Tally(correction);
  for (const episode of episodesOf(rows)) {
    if (episode.length === 0) continue;
    const drawn = gather(episode, sampler);
    const logRatios = gather(episode, learner).map((logprob, k) =>
      Math.min(Math.max(logprob - (drawn[k] as number), -LOG_RATIO_LIMIT), LOG_RATIO_LIMIT),
    );
    scatter(episode, episodeFactors(logRatios, correction, tally), factors);
  }
  return { factors, metrics: tally.metrics() };
}

/** The advantages times the factors (none: 1), and times a filter's scale. */
export function foldFactors(
  advantages: readonly Float32Array[],
  factors: readonly Float32Array[] | undefined,
  scale = 1,
): Float32Array[] {
  return advantages.map((row, r) => row.map((advantage, i) => advantage * scale * (factors?.[r]?.[i] ?? 1)));
}

function episodeFactors(logRatios: Float64Array, correction: Correction, tally: Tally): Float64Array {
  const { truncate, sequenceMask, tokenMask, outliers } = correction;
  const ratios = logRatios.map(Math.exp);
  const logProduct = logRatios.reduce((sum, logRatio) => sum + logRatio, 0);
  tally.sequences += 1;
  for (const ratio of ratios) tally.ratio(ratio);

  let whole = 1;
  if (truncate?.level === "sequence") {
    const product = Math.exp(logProduct);
    whole = Math.min(product, truncate.cap);
    tally.count("truncated_sequences", product > truncate.cap);
  }
  if (sequenceMask !== undefined) {
    const size = Math.exp(sequenceMask.of === "geometric" ? logProduct / logRatios.length : logProduct);
    tally.count("masked_sequences_low", size < sequenceMask.low);
    tally.count("masked_sequences_high", size > sequenceMask.high);
    if (outside(size, sequenceMask)) whole = 0;
  }
  if (outliers !== undefined) {
    const odd = ratios.some((ratio) => outside(ratio, outliers));
    tally.count("outlier_sequences", odd);
    if (odd) whole = 0;
  }
  return ratios.map((ratio) => {
    let factor = whole;
    if (truncate?.level === "token") {
      tally.count("truncated_tokens", ratio > truncate.cap);
      factor *= Math.min(ratio, truncate.cap);
    }
    if (tokenMask !== undefined) {
      tally.count("masked_tokens", outside(ratio, tokenMask));
      if (outside(ratio, tokenMask)) factor = 0;
    }
    return factor;
  });
}

function outside(ratio: number, { low, high }: Bounds): boolean {
  return ratio < low || ratio > high;
}

class Tally {
  sequences = 0;
  private tokens = 0;
  private sum = 0;
  private squares = 0;
  private min = Number.POSITIVE_INFINITY;
  private max = 0;
  private readonly counts: Record<string, number> = {};

  constructor({ truncate, sequenceMask, tokenMask, outliers }: Correction) {
    const names = [
      ...(truncate === undefined ? [] : [truncate.level === "token" ? "truncated_tokens" : "truncated_sequences"]),
      ...(sequenceMask === undefined ? [] : ["masked_sequences_low", "masked_sequences_high"]),
      ...(tokenMask === undefined ? [] : ["masked_tokens"]),
      ...(outliers === undefined ? [] : ["outlier_sequences"]),
    ];
    for (const name of names) this.counts[name] = 0;
  }

  ratio(ratio: number): void {
    this.tokens += 1;
    this.sum += ratio;
    this.squares += ratio * ratio;
    this.min = Math.min(this.min, ratio);
    this.max = Math.max(this.max, ratio);
  }

  count(name: string, happened: boolean): void {
    this.counts[name] = (this.counts[name] ?? 0) + (happened ? 1 : 0);
  }

  metrics(): Record<string, number> {
    if (this.tokens === 0) return {};
    const mean = this.sum / this.tokens;
    const shares = Object.entries(this.counts).map(([name, count]): [string, number] => [
      name,
      count / (name.includes("sequences") ? this.sequences : this.tokens),
    ]);
    return {
      ratio_mean: mean,
      ratio_std: Math.sqrt(Math.max(0, this.squares / this.tokens - mean * mean)),
      ratio_min: this.min,
      ratio_max: this.max,
      ...Object.fromEntries(shares),
    };
  }
}
