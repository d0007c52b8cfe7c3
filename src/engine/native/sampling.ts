/**
 * From a row of log-probabilities to one id. The i-th draw of a request depends on its seed and i alone, never on the batch it ran in.
 *
 * Reported log-probabilities are those of the distribution that was sampled: tempered, vision ids removed, and, with top-k, top-p or min-p,
 * renormalised over what is left. Greedy choice (temperature 0) is no draw: it reports the log-probability at temperature 1.
 * Prompts are scored at the same temperature.
 */
import type { SamplingParams } from "../engine.ts";
import type { F32 } from "./kernels/api.ts";

/** So many likeliest ids are picked out one by one; for more all are sorted. */
const FEW = 64;

export type Choice = { readonly id: number; readonly logprob: number };

/** The temperature at which log-probabilities are computed and reported. */
export function reportedTemperature(params: SamplingParams): number {
  return params.temperature === 0 ? 1 : params.temperature;
}

/** Whether ids are removed beyond the vision ids. */
export function truncates({ temperature, topK, topP, minP }: SamplingParams, vocab: number): boolean {
  return temperature > 0 && ((topK ?? vocab) < vocab || (topP ?? 1) < 1 || (minP ?? 0) > 0);
}

/**
 * Removes what a mask does not allow from the row, which is a whole distribution again afterwards. Returns how much of the probability was left; with 0
 * nothing is possible.
 */
export function keepAllowed(
  logprobs: F32,
  offset: number,
  vocab: number,
  mask: { allows(id: number): boolean },
): number {
  let kept = 0;
  let removed = 0;
  for (let id = 0; id < vocab; id++) {
    const probability = Math.exp(logprobs[offset + id] as number);
    if (mask.allows(id)) kept += probability;
    else {
      removed += probability;
      logprobs[offset + id] = Number.NEGATIVE_INFINITY;
    }
  }
  if (removed === 0 || kept === 0) return removed === 0 ? 1 : 0;
  const share = kept / (kept + removed);
  const scale = Math.log(share);
  for (let id = 0; id < vocab; id++) logprobs[offset + id] = (logprobs[offset + id] as number) - scale;
  return share;
}

/** Chooses from the row of `vocab` log-probabilities (−∞: impossible) at `offset`; `uniform` is a real in [0, 1). */
export function choose(logprobs: F32, offset: number, vocab: number, params: SamplingParams, uniform: number): Choice {
  if (params.temperature === 0) return greedy(logprobs, offset, vocab);
  if (truncates(params, vocab)) {
    const kept = keep(logprobs, offset, vocab, params);
    return drawFrom(kept, uniform);
  }
  // Ids in ascending order; rounding may leave the sum a little under 1, then the last possible id takes the rest.
  let sum = 0;
  let last = -1;
  for (let id = 0; id < vocab; id++) {
    const probability = Math.exp(logprobs[offset + id] as number);
    if (!(probability > 0)) continue;
    sum += probability;
    last = id;
    if (sum > uniform) break;
  }
  return { id: last, logprob: last < 0 ? Number.NaN : (logprobs[offset + last] as number) };
}

/** The `count` likeliest ids of the distribution that is sampled, likeliest first. */
export function likeliest(
  logprobs: F32,
  offset: number,
  vocab: number,
  params: SamplingParams,
  count: number,
): Choice[] {
  return truncates(params, vocab)
    ? keep(logprobs, offset, vocab, params).slice(0, count)
    : first(logprobs, offset, vocab, count);
}

function greedy(logprobs: F32, offset: number, vocab: number): Choice {
  let id = -1;
  let best = Number.NEGATIVE_INFINITY;
  for (let i = 0; i < vocab; i++) {
    const logprob = logprobs[offset + i] as number;
    if (logprob > best) [id, best] = [i, logprob];
  }
  return { id, logprob: id < 0 ? Number.NaN : best };
}

/** Possible ids, likeliest first; ties by id. */
function sorted(logprobs: F32, offset: number, vocab: number): Choice[] {
  const all: Choice[] = [];
  for (let id = 0; id < vocab; id++) {
    const logprob = logprobs[offset + id] as number;
    if (logprob > Number.NEGATIVE_INFINITY) all.push({ id, logprob });
  }
  return all.sort((a, b) => b.logprob - a.logprob || a.id - b.id);
}

/** The first `count` of `sorted`; few of them are found without sorting, which takes longer than the network of a small model. */
function first(logprobs: F32, offset: number, vocab: number, count: number): Choice[] {
  if (count > FEW) return sorted(logprobs, offset, vocab).slice(0, count);
  const found: Choice[] = [];
  let least = count === 0 ? Number.POSITIVE_INFINITY : Number.NEGATIVE_INFINITY;
  for (let id = 0; id < vocab; id++) {
    const logprob = logprobs[offset + id] as number;
    if (!(logprob > least)) continue;
    let at = found.length;
    while (at > 0 && (found[at - 1] as Choice).logprob < logprob) at -= 1;
    found.splice(at, 0, { id, logprob });
    if (found.length > count) found.pop();
    if (found.length === count) least = (found[count - 1] as Choice).logprob;
  }
  return found;
}

/** Top-k, then the smallest set with top-p of what is left, then min-p relative to the likeliest; renormalised. */
function keep(logprobs: F32, offset: number, vocab: number, { topK, topP, minP }: SamplingParams): Choice[] {
  let kept = first(logprobs, offset, vocab, topK ?? vocab);
  if (topP !== undefined && topP < 1) {
    const enough = topP * mass(kept);
    let sum = 0;
    const end = kept.findIndex(({ logprob }) => {
      sum += Math.exp(logprob);
      return sum >= enough;
    });
    if (end >= 0) kept = kept.slice(0, end + 1);
  }
  if (minP !== undefined && minP > 0) {
    const least = (kept[0]?.logprob ?? 0) + Math.log(minP);
    kept = kept.filter(({ logprob }, index) => index === 0 || logprob >= least);
  }
  const total = Math.log(mass(kept));
  return kept.map(({ id, logprob }) => ({ id, logprob: Math.fround(logprob - total) }));
}

function mass(choices: readonly Choice[]): number {
  return choices.reduce((sum, { logprob }) => sum + Math.exp(logprob), 0);
}

function drawFrom(kept: readonly Choice[], uniform: number): Choice {
  let sum = 0;
  for (const choice of kept) {
    sum += Math.exp(choice.logprob);
    if (sum > uniform) return choice;
  }
  return kept.at(-1) ?? { id: -1, logprob: Number.NaN };
}
