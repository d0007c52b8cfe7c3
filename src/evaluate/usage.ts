/**
 * What an episode cost: requests, retries and tokens, as the provider (or the native engine) counts them. Attempts that failed for our
 * reasons cost too, so every attempt has its own count and the report adds them all up. Prices are the caller's: they change, so none
 * is written down here.
 */
import type { Sequence } from "../rollout/trajectory.ts";

export type Usage = {
  /** Sent, failed ones included; of those, the ones sent again. */
  requests: number;
  retries: number;
  /** All tokens read, cached ones included. */
  inputTokens: number;
  cachedTokens: number;
  /** All tokens written, reasoning included. */
  outputTokens: number;
  reasoningTokens: number;
  /** Answers whose tokens the provider did not count. */
  unmetered: number;
  /** Replies that were a refusal or a filter's cut, and replies without text. */
  refusals: number;
  emptyReplies: number;
};

export function noUsage(): Usage {
  return {
    requests: 0,
    retries: 0,
    inputTokens: 0,
    cachedTokens: 0,
    outputTokens: 0,
    reasoningTokens: 0,
    unmetered: 0,
    refusals: 0,
    emptyReplies: 0,
  };
}

export function addUsage(total: Usage, more: Readonly<Usage>): Usage {
  for (const name of Object.keys(total) as (keyof Usage)[]) total[name] += more[name];
  return total;
}

/** Of token sequences, counted as a provider would: each reply is one request that reads everything before it. */
export function sequenceUsage(sequences: readonly Sequence[], emptyReplies = 0): Usage {
  const usage = { ...noUsage(), emptyReplies };
  for (const { replies } of sequences) {
    for (const { start, end } of replies) {
      usage.requests += 1;
      usage.inputTokens += start;
      usage.outputTokens += end - start;
    }
  }
  return usage;
}

/** Per million tokens, in whatever currency the caller thinks in. */
export type Price = { readonly input: number; readonly output: number };

export function costOf(usage: Pick<Usage, "inputTokens" | "outputTokens">, price: Price): number {
  return (usage.inputTokens * price.input + usage.outputTokens * price.output) / 1e6;
}
