/** The sampling fields of a request, checked as vLLM checks them. A field that engines can't serve is refused by name, never ignored. */
import { randomInt } from "node:crypto";
import { z } from "zod";
import type { SamplingParams } from "../engine/engine.ts";
import { badField, integers, texts } from "./errors.ts";
import { readStructured } from "./structured.ts";

const MAX_LOGPROBS = 20;
const MAX_CHOICES = 16_384;
/** Every token is searched for each of them. */
export const MAX_STOPS = 256;

const number = z.number().nullish();
const whole = z.int().nullish();
const flag = z.boolean().nullish();

/** vLLM's names. Bounds are checked afterwards: vLLM answers them with other errors than wrong types. */
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
  /** Ids that end an answer but are not reported as its stop reason. */
  readonly eos: ReadonlySet<number>;
  readonly text: { readonly skipSpecial: boolean; readonly stop: readonly string[]; readonly includeStop: boolean };
};

export type SamplingContext = {
  /** Ids that are never sampled: the placeholders of images. */
  readonly banned: ReadonlySet<number>;
  readonly promptLength: number;
  readonly contextTokens: number;
  /** Ids that end the model's answer. */
  readonly eos: readonly number[];
  /** How many of the likeliest ids the request asked for. */
  readonly top?: number | undefined;
};

/** Fields that engines can't serve, and the values of them that change nothing. */
const NEUTRAL: Readonly<Record<string, (value: unknown, banned: ReadonlySet<number>) => boolean>> = {
  min_tokens: (value) => value === 0,
  presence_penalty: (value) => value === 0,
  frequency_penalty: (value) => value === 0,
  repetition_penalty: (value) => value === 1,
  // A request may ban what is never sampled anyway.
  logit_bias: (value, banned) =>
    Object.entries(value as Record<string, number>).every(([id, bias]) => bias < 0 && banned.has(Number(id))),
  bad_words: (value) => (value as unknown[]).length === 0,
  allowed_token_ids: () => false,
  response_format: (value) => (value as { type?: unknown }).type === "text",
  logprob_token_ids: () => false,
  use_beam_search: (value) => value === false,
};

export function readSampling(request: SamplingRequest, context: SamplingContext): Wanted {
  refuseUnserved(request, context.banned);
  const { n = 1, temperature: heat = 1, top_p: topP, top_k: topK, min_p: minP } = noNulls(request);
  const { top = 0, promptLength, contextTokens } = context;
  if (!(heat >= 0)) throw badField("temperature", `temperature must be 0 or more, got ${heat}.`);
  if (topP !== undefined && !(topP > 0 && topP <= 1)) {
    throw badField("top_p", `top_p must be above 0 and at most 1, got ${topP}.`);
  }
  if (topK !== undefined && topK < -1) throw badField(null, `top_k must be 0 or −1 (off), or at least 1, got ${topK}.`);
  if (minP !== undefined && !(minP >= 0 && minP <= 1))
    throw badField(null, `min_p must be between 0 and 1, got ${minP}.`);
  if (n < 1 || n > MAX_CHOICES) throw badField(null, `n must be between 1 and ${MAX_CHOICES}, got ${n}.`);
  if (heat === 0 && n > 1) throw badField(null, `Greedy answers are all the same, so n must be 1, got ${n}.`);
  if (top > MAX_LOGPROBS) {
    throw badField("logprobs", `A token gets at most ${MAX_LOGPROBS} log-probabilities, got ${top}.`);
  }
  const room = contextTokens - promptLength;
  const most = request.max_tokens ?? room;
  if (most < 1) throw badField("max_tokens", `max_tokens must be at least 1, got ${most}.`);
  if (most > contextTokens) {
    throw badField("max_tokens", `max_tokens is ${most}, but the model's context is ${contextTokens} tokens.`);
  }
  const stop = [request.stop ?? []].flat().filter((text) => text !== "");
  if (stop.length > MAX_STOPS)
    throw badField("stop", `A request has at most ${MAX_STOPS} stop strings, got ${stop.length}.`);
  const grammar = readStructured(request.structured_outputs);
  const eos = request.ignore_eos === true ? [] : context.eos;
  const stopIds = [...new Set([...eos, ...(request.stop_token_ids ?? [])])];
  return {
    n,
    eos: new Set(eos),
    params: {
      maxTokens: Math.min(most, room),
      // vLLM rounds smaller ones up, too.
      temperature: heat > 0 && heat < 0.01 ? 0.01 : heat,
      seed: seedOf(request.seed),
      ...(topK !== undefined && topK > 0 && { topK }),
      ...(topP !== undefined && topP < 1 && { topP }),
      ...(minP !== undefined && minP > 0 && { minP }),
      ...(stopIds.length > 0 && { stopIds }),
      ...(stop.length > 0 && { stopStrings: stop }),
      ...(top > 0 && { topLogprobs: top }),
      ...(grammar !== undefined && { grammar }),
    },
    text: {
      skipSpecial: request.skip_special_tokens ?? true,
      stop,
      includeStop: request.include_stop_str_in_output ?? false,
    },
  };
}

/** Any number is a seed; without one, or with −1, each request gets its own. */
function seedOf(seed: number | null | undefined): number {
  if (seed === undefined || seed === null || seed === -1) return randomInt(2 ** 47);
  return Math.abs(Math.trunc(seed)) % 2 ** 52;
}

function refuseUnserved(request: SamplingRequest, banned: ReadonlySet<number>): void {
  for (const [name, isNeutral] of Object.entries(NEUTRAL)) {
    const value = request[name];
    if (value === undefined || value === null || isNeutral(value, banned)) continue;
    throw badField(name, `${name} is not supported: leave it out.`);
  }
}

function noNulls<T extends object>(value: T): { [K in keyof T]?: Exclude<T[K], null | undefined> } {
  return Object.fromEntries(
    Object.entries(value).filter(([, field]) => field !== null && field !== undefined),
  ) as never;
}
