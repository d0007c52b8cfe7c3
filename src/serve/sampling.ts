/** The sampling fields of a request: checked as vLLM checks them, turned into what engines take. What an engine can't do is refused by name, never ignored. */
import { randomInt } from "node:crypto";
import { z } from "zod";
import type { SamplingParams } from "../engine/engine.ts";
import { badField, integers, texts } from "./errors.ts";

const MOST_LOGPROBS = 20;
const MOST_CHOICES = 16_384;
/** Each is looked for after every token. */
export const MOST_STOPS = 256;

const number = z.number().nullish();
const whole = z.int().nullish();
const flag = z.boolean().nullish();

/** By vLLM's names. Bounds are checked afterwards: vLLM answers them with other errors than wrong types. */
export const samplingFields = {
  n: whole,
  temperature: number,
  top_p: number,
  top_k: whole,
  min_p: number,
  seed: z.union([z.int(), z.number()]).nullish(),
  stop: z.union([z.string(), texts]).nullish(),
  stop_token_ids: integers.nullish(),
  ignore_eos: flag,
  max_tokens: whole,
  min_tokens: whole,
  presence_penalty: number,
  frequency_penalty: number,
  repetition_penalty: number,
  logit_bias: z.record(z.string(), z.number()).nullish(),
  bad_words: texts.nullish(),
  allowed_token_ids: integers.nullish(),
  structured_outputs: z.unknown().optional(),
  response_format: z.unknown().optional(),
  logprob_token_ids: integers.nullish(),
  skip_special_tokens: flag,
  include_stop_str_in_output: flag,
  detokenize: flag,
};
export const samplingSchema = z.looseObject(samplingFields);
export type SamplingRequest = z.output<typeof samplingSchema>;

export type Wanted = {
  readonly n: number;
  /** For the first choice; the i-th has seed + i. */
  readonly params: SamplingParams;
  /** Ids that end an answer without being its stop reason. */
  readonly eos: ReadonlySet<number>;
  readonly text: { readonly skipSpecial: boolean; readonly stop: readonly string[]; readonly includeStop: boolean };
};

export type SamplingContext = {
  /** Ids that are never sampled: pictures' placeholders and their brackets. */
  readonly banned: ReadonlySet<number>;
  readonly promptLength: number;
  readonly contextLength: number;
  /** Ids with which the model ends. */
  readonly eos: readonly number[];
  /** How many likeliest ids are asked for. */
  readonly top?: number | undefined;
};

/** Values that change nothing, of what engines can't do. */
const NEUTRAL: Readonly<Record<string, (value: unknown, banned: ReadonlySet<number>) => boolean>> = {
  min_tokens: (value) => value === 0,
  presence_penalty: (value) => value === 0,
  frequency_penalty: (value) => value === 0,
  repetition_penalty: (value) => value === 1,
  // What is never sampled may be banned.
  logit_bias: (value, banned) =>
    Object.entries(value as Record<string, number>).every(([id, bias]) => bias < 0 && banned.has(Number(id))),
  bad_words: (value) => (value as unknown[]).length === 0,
  allowed_token_ids: () => false,
  structured_outputs: () => false,
  response_format: (value) => (value as { type?: unknown }).type === "text",
  logprob_token_ids: () => false,
  use_beam_search: (value) => value === false,
};

export function readSampling(request: SamplingRequest, context: SamplingContext): Wanted {
  refuseUnserved(request, context.banned);
  const { n = 1, temperature: heat = 1, top_p: topP, top_k: topK, min_p: minP } = noNulls(request);
  const { top = 0, promptLength, contextLength } = context;
  if (!(heat >= 0)) throw badField("temperature", `temperature is 0 or more, got ${heat}.`);
  if (topP !== undefined && !(topP > 0 && topP <= 1)) {
    throw badField("top_p", `top_p is above 0 and at most 1, got ${topP}.`);
  }
  if (topK !== undefined && topK < -1) throw badField(null, `top_k is 0 or −1 (off), or at least 1, got ${topK}.`);
  if (minP !== undefined && !(minP >= 0 && minP <= 1)) throw badField(null, `min_p is from 0 to 1, got ${minP}.`);
  if (n < 1 || n > MOST_CHOICES) throw badField(null, `n is from 1 to ${MOST_CHOICES}, got ${n}.`);
  if (heat === 0 && n > 1) throw badField(null, `Greedy answers are all the same: n must be 1, got ${n}.`);
  if (top > MOST_LOGPROBS) {
    throw badField("logprobs", `At most ${MOST_LOGPROBS} log-probabilities are given for a token, got ${top}.`);
  }
  const room = contextLength - promptLength;
  const most = request.max_tokens ?? room;
  if (most < 1) throw badField("max_tokens", `max_tokens is at least 1, got ${most}.`);
  if (most > contextLength) {
    throw badField("max_tokens", `max_tokens is ${most}, but the model's context has ${contextLength}.`);
  }
  const stop = [request.stop ?? []].flat().filter((text) => text !== "");
  if (stop.length > MOST_STOPS)
    throw badField("stop", `At most ${MOST_STOPS} stop strings are looked for, got ${stop.length}.`);
  const eos = request.ignore_eos === true ? [] : context.eos;
  const stopIds = [...new Set([...eos, ...(request.stop_token_ids ?? [])])];
  return {
    n,
    eos: new Set(eos),
    params: {
      maxTokens: Math.min(most, room),
      // Below this vLLM's arithmetic does not go.
      temperature: heat > 0 && heat < 0.01 ? 0.01 : heat,
      seed: seedOf(request.seed),
      ...(topK !== undefined && topK > 0 && { topK }),
      ...(topP !== undefined && topP < 1 && { topP }),
      ...(minP !== undefined && minP > 0 && { minP }),
      ...(stopIds.length > 0 && { stopIds }),
      ...(stop.length > 0 && { stopStrings: stop }),
      ...(top > 0 && { topLogprobs: top }),
    },
    text: {
      skipSpecial: request.skip_special_tokens ?? true,
      stop,
      includeStop: request.include_stop_str_in_output ?? false,
    },
  };
}

/** Any number names a stream of its own; absent: a new one. */
function seedOf(seed: number | null | undefined): number {
  if (seed === undefined || seed === null || seed === -1) return randomInt(2 ** 47);
  return Math.abs(Math.trunc(seed)) % 2 ** 52;
}

function refuseUnserved(request: SamplingRequest, banned: ReadonlySet<number>): void {
  for (const [name, isNeutral] of Object.entries(NEUTRAL)) {
    const value = request[name];
    if (value === undefined || value === null || isNeutral(value, banned)) continue;
    throw badField(name, `${name} is not served here: leave it out.`);
  }
}

function noNulls<T extends object>(value: T): { [K in keyof T]?: Exclude<T[K], null | undefined> } {
  return Object.fromEntries(
    Object.entries(value).filter(([, field]) => field !== null && field !== undefined),
  ) as never;
}
