/** Sampling for the Tinker API: several samples of one prompt, and the prompt's own log-probabilities at temperature 1. */
import { randomInt } from "node:crypto";
import { DataError } from "../../core/errors.ts";
import type { ModelInput } from "../../core/model-input.ts";
import { mixSeed } from "../../core/seed.ts";
import type { Datum, Sample, SampleContext, Sampler, SamplingParams, TopLogprob } from "../../engine/engine.ts";
import { HttpError } from "../../http/errors.ts";
import type { ChatFolder } from "../../model/chat.ts";
import { visionIds } from "../../model/vision-ids.ts";
import { encodeSamples } from "../../tinker/messages.ts";
import type { TensorData } from "../../tinker/types.ts";
import { MAX_STOPS } from "../../wire/sampling.ts";
import type { Outcome } from "./futures.ts";
import { type PromptShop, promptsOf } from "./prompt.ts";
import { type SampleRequest, seedOf, type TargetTensor } from "./schemas.ts";
import type { Sequences } from "./sequences.ts";

const MAX_TARGETS = 64;

/** `release`: nothing shows the prompt's images any more. */
export type Prepared = { readonly prompt: ModelInput; readonly params: SamplingParams; readonly release: () => void };

/** Everything that can be wrong with a request, before it is accepted. */
export async function prepare(request: SampleRequest, shop: PromptShop): Promise<Prepared> {
  const { chat, contextTokens } = shop;
  const { prompts, release } = await promptsOf(
    [
      request.prompt.chunks.map((chunk) =>
        chunk.type === "encoded_text"
          ? { type: "encoded_text", tokens: Int32Array.from(chunk.tokens) }
          : {
              type: "image",
              data: Buffer.from(chunk.data, "base64"),
              ...(typeof chunk.expected_tokens === "number" && { expected_tokens: chunk.expected_tokens }),
            },
      ),
    ],
    shop,
  );
  const prompt = prompts[0] as ModelInput;
  try {
    return { prompt, params: readParams(request, prompt, chat, contextTokens), release };
  } catch (error) {
    release();
    throw error;
  }
}

function readParams(
  request: SampleRequest,
  prompt: ModelInput,
  chat: ChatFolder,
  contextTokens: number,
): SamplingParams {
  const { sampling_params: given } = request;
  const room = contextTokens - prompt.ids.length;
  const most = given.max_tokens ?? room;
  if (most < 1 || most > room) {
    throw new HttpError(
      400,
      `The prompt and max_tokens are ${prompt.ids.length} + ${most}; the context has ${contextTokens}.`,
    );
  }
  const stop = typeof given.stop === "string" ? [given.stop] : given.stop;
  const words = stop?.filter((one): one is string => typeof one === "string") ?? [];
  // An empty list means that nothing stops it.
  const ids =
    stop?.length === 0 ? [] : [...chat.generation.eos, ...(stop?.filter((one) => typeof one === "number") ?? [])];
  if (words.length > MAX_STOPS)
    throw new DataError(`At most ${MAX_STOPS} stop strings are allowed, got ${words.length}.`);
  return {
    maxTokens: most,
    temperature: given.temperature,
    seed: given.seed === undefined || given.seed === null ? randomInt(2 ** 47) : seedOf(given.seed),
    ...(given.top_k > 0 && { topK: given.top_k }),
    ...(given.top_p < 1 && { topP: given.top_p }),
    ...(ids.length > 0 && { stopIds: ids }),
    ...(words.length > 0 && { stopStrings: words }),
    ...(request.topk_sample_logprobs && { topLogprobs: request.topk_sample_logprobs }),
  };
}

export async function draw(
  sampler: Sampler,
  sequences: Sequences,
  request: SampleRequest,
  { prompt, params }: Prepared,
  { name, chat, signal }: { readonly name: string; readonly chat: ChatFolder; readonly signal: AbortSignal },
): Promise<Outcome> {
  const drawn = Array.from({ length: request.num_samples }, (_, i) =>
    sequences.sample(sampler, prompt, { ...params, seed: params.seed + i }, signal),
  );
  const topCount = request.topk_prompt_logprobs ?? 0;
  const likeliest =
    topCount > 0 ? topOfPrompt(sampler, prompt, topCount, { sequence: `${name}:prompt`, signal }, chat) : undefined;
  const { target_prompt_logprobs: asked, prompt_alt_tokens_k: altCount } = request;
  const others = altCount
    ? drawInPrompt(sampler, prompt, params, altCount, { sequence: `${name}:others`, signal }, chat)
    : undefined;
  const targeted = asked ? scoreTargets(sampler, prompt, asked, chat) : undefined;
  const wanted = request.prompt_logprobs === true || (request.prompt_logprobs_last_n ?? 0) > 0;
  const scored = wanted ? score(sampler, prompt, chat, request.prompt_logprobs_last_n ?? undefined) : undefined;
  // Waited for together: where all of them fail, an error that nobody waits for would end the server.
  const [found, prompts, top, targets, drawnInPrompt] = await Promise.all([
    Promise.all(drawn),
    scored,
    likeliest,
    targeted,
    others,
  ]);
  const samples = found.map((sample) => ({
    stop: sample.stopReason,
    ids: sample.ids,
    logprobs: sample.logprobs,
    ...(sample.topLogprobs && { top: sample.topLogprobs }),
  }));
  const more = { prompt: prompts, top, topCount, targets, others: drawnInPrompt };
  return { protobuf: encodeSamples(samples, params.topLogprobs ?? 0, more) };
}

/** Row i: the likeliest ids at place i, at temperature 1; none at the first. */
async function topOfPrompt(
  sampler: Sampler,
  input: ModelInput,
  count: number,
  context: SampleContext,
  chat: ChatFolder,
): Promise<TopLogprob[][]> {
  const params = { maxTokens: 1, temperature: 1, seed: 0, topLogprobs: count };
  const rows = await alongPrompt(sampler, input, context, chat, async (sample) => [
    ...((await sample(params)).topLogprobs?.[0] ?? []),
  ]);
  // Nothing predicts an image; a row must not be empty.
  return [[], ...rows.map((row, i) => row ?? [{ id: input.ids[i + 1] as number, logprob: 0 }])];
}

/** Row i: ids sampled for place i + 1, independently, at the request's temperature. The places of an image stay as they are. */
async function drawInPrompt(
  sampler: Sampler,
  input: ModelInput,
  { temperature, seed }: SamplingParams,
  count: number,
  context: SampleContext,
  chat: ChatFolder,
): Promise<TopLogprob[][]> {
  const rows = await alongPrompt(sampler, input, context, chat, async (sample, at) => {
    const row: TopLogprob[] = [];
    for (let k = 0; k < count; k++) {
      const { ids, logprobs } = await sample({ maxTokens: 1, temperature, seed: mixSeed("other", seed, at, k) });
      row.push({ id: ids[0] as number, logprob: logprobs[0] as number });
    }
    return row;
  });
  return rows.map(
    (row, i) => row ?? Array.from({ length: count }, () => ({ id: input.ids[i + 1] as number, logprob: 0 })),
  );
}

/** For each place after the first, with what comes before it; undefined at images. One id more each time, so every id is computed once. */
async function alongPrompt<T>(
  sampler: Sampler,
  { ids, images }: ModelInput,
  context: SampleContext,
  chat: ChatFolder,
  look: (sample: (params: SamplingParams) => Promise<Sample>, at: number) => Promise<T>,
): Promise<(T | undefined)[]> {
  const vision = new Set(visionIds(chat.ids, chat.tokenizer.special));
  const rows: (T | undefined)[] = [];
  try {
    for (let at = 1; at < ids.length; at++) {
      const prompt = { ids: ids.subarray(0, at), images: images.filter(({ start }) => start < at) };
      const sample = (params: SamplingParams) => sampler.sample(prompt, params, context);
      rows.push(vision.has(ids[at] as number) ? undefined : await look(sample, at));
    }
  } finally {
    sampler.release(context.sequence);
  }
  return rows;
}

/** Log-probabilities of ids that the client names for each place after the first, in the layout in which it asks; 0 where it names none. */
async function scoreTargets(
  sampler: Sampler,
  input: ModelInput,
  asked: TargetTensor,
  chat: ChatFolder,
): Promise<TensorData> {
  const { shape, data, sparse_crow_indices: starts, sparse_col_indices: columns } = asked;
  const [rows = 0, width = 1] = shape;
  const sparse = starts && columns ? { starts, columns } : undefined;
  const fits = sparse
    ? starts?.length === rows + 1 && columns?.length === data.length && starts.at(-1) === data.length
    : data.length === rows * width;
  if (rows > input.ids.length || shape.length > 2 || !fits) {
    throw new DataError(`target_prompt_logprobs of [${shape}] does not fit a prompt of ${input.ids.length}.`);
  }
  const vision = new Set(visionIds(chat.ids, chat.tokenizer.special));
  const from = (row: number) => (sparse ? (sparse.starts[row] as number) : row * width);
  const most = Math.max(0, ...Array.from({ length: rows }, (_, row) => from(row + 1) - from(row)));
  if (most > MAX_TARGETS)
    throw new DataError(`target_prompt_logprobs names ${most} ids at a position; the limit is ${MAX_TARGETS}.`);
  // The k-th id of every place makes one sequence.
  const datums = Array.from({ length: most }, (_, k): Datum => {
    const targets = Int32Array.from(input.ids, (_, row) => {
      const cell = row < rows && from(row) + k < from(row + 1) ? data[from(row) + k] : undefined;
      return cell === undefined || cell < 0 || vision.has(cell) ? -1 : cell;
    });
    return { input, targets, weights: new Float32Array(input.ids.length), temperature: 1 };
  });
  const scores = await sampler.score(datums);
  const values = new Float32Array(data.length);
  for (let row = 0; row < rows; row++) {
    for (let cell = from(row); cell < from(row + 1); cell++)
      values[cell] = scores[cell - from(row)]?.logprobs[row] ?? 0;
  }
  return {
    data: values,
    dtype: "float32",
    shape,
    ...(sparse && { sparse_crow_indices: sparse.starts, sparse_col_indices: sparse.columns }),
  };
}

/** NaN for the first and before the last `last`; 0 at images, which nothing predicts. */
async function score(
  sampler: Sampler,
  input: ModelInput,
  chat: ChatFolder,
  last: number | undefined,
): Promise<Float32Array> {
  const { length } = input.ids;
  const vision = new Set(visionIds(chat.ids, chat.tokenizer.special));
  const targets = Int32Array.from(input.ids, (_, i) => {
    const next = input.ids[i + 1];
    return next === undefined || vision.has(next) ? -1 : next;
  });
  const datum: Datum = { input, targets, weights: new Float32Array(length), temperature: 1 };
  const [scores] = await sampler.score([datum]);
  const from = Math.max(1, last === undefined ? 1 : length - last);
  return Float32Array.from(input.ids, (_, i) => (i < from ? Number.NaN : (scores?.logprobs[i - 1] ?? 0)));
}
