/** Sampling for the Tinker API: several samples of one prompt, and the prompt's own log-probabilities at temperature 1. */
import { createHash, randomInt } from "node:crypto";
import { DataError } from "../../core/errors.ts";
import type { ModelInput } from "../../core/model-input.ts";
import type { Datum, Sampler, SamplingParams } from "../../engine/engine.ts";
import { HttpError } from "../../http/errors.ts";
import type { ChatFolder } from "../../model/chat.ts";
import type { Outcome } from "./futures.ts";
import { encodeSamples } from "./messages.ts";
import { promptOf, visionIds } from "./prompt.ts";
import type { SampleRequest } from "./schemas.ts";

export type Prepared = { readonly prompt: ModelInput; readonly params: SamplingParams };

/** Everything that can be wrong with a request, before it is accepted. */
export async function prepare(request: SampleRequest, chat: ChatFolder, contextLength: number): Promise<Prepared> {
  for (const name of ["topk_prompt_logprobs", "prompt_alt_tokens_k"] as const) {
    if (request[name]) throw new DataError(`${name} is not served here.`);
  }
  if (request.target_prompt_logprobs !== undefined && request.target_prompt_logprobs !== null) {
    throw new DataError("target_prompt_logprobs is not served here.");
  }
  const prompt = await promptOf(
    request.prompt.chunks.map((chunk) =>
      chunk.type === "encoded_text"
        ? { type: "text", ids: Int32Array.from(chunk.tokens) }
        : {
            type: "image",
            data: Buffer.from(chunk.data, "base64"),
            ...(typeof chunk.expected_tokens === "number" && { expected: chunk.expected_tokens }),
          },
    ),
    chat,
  );
  const { sampling_params: given } = request;
  const room = contextLength - prompt.ids.length;
  const most = given.max_tokens ?? room;
  if (most < 1 || most > room) {
    throw new HttpError(
      400,
      `The prompt and max_tokens are ${prompt.ids.length} + ${most}; the context has ${contextLength}.`,
    );
  }
  const stop = typeof given.stop === "string" ? [given.stop] : given.stop;
  const words = stop?.filter((one): one is string => typeof one === "string") ?? [];
  // An empty list means that nothing stops it.
  const ids =
    stop?.length === 0 ? [] : [...chat.generation.eos, ...(stop?.filter((one) => typeof one === "number") ?? [])];
  const params: SamplingParams = {
    maxTokens: most,
    temperature: given.temperature,
    seed: seedOf(given.seed),
    ...(given.top_k > 0 && { topK: given.top_k }),
    ...(given.top_p < 1 && { topP: given.top_p }),
    ...(ids.length > 0 && { stopIds: ids }),
    ...(words.length > 0 && { stopStrings: words }),
    ...(request.topk_sample_logprobs && { topLogprobs: request.topk_sample_logprobs }),
  };
  return { prompt, params };
}

export async function draw(
  sampler: Sampler,
  request: SampleRequest,
  { prompt, params }: Prepared,
  name: string,
  chat: ChatFolder,
): Promise<Outcome> {
  const drawn = Array.from({ length: request.num_samples }, async (_, i) => {
    const sequence = `${name}:${i}`;
    try {
      return await sampler.sample(prompt, { ...params, seed: params.seed + i }, { sequence });
    } finally {
      sampler.release(sequence);
    }
  });
  const wanted = request.prompt_logprobs === true || (request.prompt_logprobs_last_n ?? 0) > 0;
  const scored = wanted ? score(sampler, prompt, chat, request.prompt_logprobs_last_n ?? undefined) : undefined;
  const sequences = (await Promise.all(drawn)).map((sample) => ({
    stop: sample.stopReason,
    ids: sample.ids,
    logprobs: sample.logprobs,
    ...(sample.topLogprobs && { top: sample.topLogprobs }),
  }));
  return { protobuf: encodeSamples(sequences, await scored, params.topLogprobs ?? 0) };
}

/** NaN for the first and before the last `last`; 0 at pictures, which nothing predicts. */
async function score(
  sampler: Sampler,
  input: ModelInput,
  chat: ChatFolder,
  last: number | undefined,
): Promise<Float32Array> {
  const { length } = input.ids;
  const vision = visionIds(chat);
  const targets = Int32Array.from(input.ids, (_, i) => {
    const next = input.ids[i + 1];
    return next === undefined || vision.has(next) ? -1 : next;
  });
  const datum: Datum = { input, targets, weights: new Float32Array(length), temperature: 1 };
  const [scores] = await sampler.score([datum]);
  const from = Math.max(1, last === undefined ? 1 : length - last);
  return Float32Array.from(input.ids, (_, i) => (i < from ? Number.NaN : (scores?.logprobs[i - 1] ?? 0)));
}

/** Seeds have 64 bits here, ours 53: longer ones are mixed. */
function seedOf(seed: number | string | null | undefined): number {
  if (seed === undefined || seed === null) return randomInt(2 ** 47);
  if (typeof seed === "number" && seed >= 0 && seed < 2 ** 52) return seed;
  return createHash("sha256").update(String(seed)).digest().readUIntBE(0, 6);
}
