/**
 * `/inference/v1/generate`: ids in, ids out, as vLLM 0.32 answers it. Images come processed (`features`) or as files (`content_parts`); each log-probability
 * names its id in both forms that clients read, vLLM's `token_id` and verifiers' `token`.
 */
import { z } from "zod";
import { errorMessage } from "../core/errors.ts";
import type { Image } from "../core/image.ts";
import type { ImageSpan, ModelInput } from "../core/model-input.ts";
import type { TopLogprob } from "../engine/engine.ts";
import type { HttpRequest } from "../http/request.ts";
import { json } from "../http/responses.ts";
import { dataUriBytes } from "../images/openai.ts";
import { standIn } from "../model/image-processor.ts";
import { ApiError, badField, integers, readFields, texts } from "../wire/errors.ts";
import { eventAnswer, HeldBack } from "../wire/events.ts";
import {
  countTokens,
  fullUsage,
  type Generated,
  logprobNumber,
  type OnChoiceToken,
  sampledFirst,
  stopReason,
  usageOf,
} from "../wire/reply.ts";
import { newId, readJsonBody, seconds } from "../wire/request.ts";
import { readSampling, samplingFields, type Wanted } from "../wire/sampling.ts";
import { AnswerText } from "../wire/text.ts";
import { type Ask, checkPrompt, holdFor, promptLogprobs } from "./ask.ts";
import type { Backend } from "./backend.ts";

const flag = z.boolean().nullish();
const place = z.looseObject({ offset: z.int().min(0), length: z.int().min(1) });
const featuresSchema = z.looseObject({
  mm_hashes: z.record(z.string(), texts),
  mm_placeholders: z.record(z.string(), z.array(place)),
  kwargs_data: z.record(z.string(), z.array(z.string().nullable())).nullish(),
});
const partSchema = z.looseObject({ type: z.literal("image_url"), url: z.string() });
const schema = z.looseObject({
  token_ids: integers.refine((ids) => ids.length > 0, "expected at least one id"),
  sampling_params: z.looseObject({}),
  model: z.string().nullish(),
  request_id: z.string().nullish(),
  features: featuresSchema.nullish(),
  content_parts: z.array(partSchema).nullish(),
  stream: flag,
  stream_options: z.looseObject({ include_usage: flag, continuous_usage_stats: flag }).nullish(),
  return_token_ids: flag,
});
const paramsSchema = z.looseObject({
  ...samplingFields,
  logprobs: z.int().nullish(),
  prompt_logprobs: z.int().nullish(),
});
type Params = z.output<typeof paramsSchema>;

export async function answerGenerate({ backend, request }: Ask): Promise<Response> {
  const asked = readFields(schema, await readJsonBody(request));
  const params = readParams(asked.sampling_params);
  const model = backend.resolve(asked.model);
  if (asked.token_ids.some((id) => id < 0)) {
    throw new ApiError(400, "token_ids has a negative id.", { type: "Bad Request", param: "body.token_ids" });
  }
  if (asked.content_parts && asked.features) {
    throw new ApiError(400, "Send content_parts or features, not both.", { type: "Bad Request", param: "body" });
  }
  const prompt: ModelInput = asked.content_parts
    ? await withParts(asked.token_ids, asked.content_parts, backend, request)
    : {
        ids: Int32Array.from(asked.token_ids),
        images: asked.features ? await backend.images.spans(asked.features) : [],
      };
  checkPrompt(prompt, backend);
  if (params.prompt_logprobs && params.prompt_logprobs > 0) {
    throw badField("prompt_logprobs", "prompt_logprobs gives the prompt's own ids only: use 0.");
  }
  // The rank of a sampled id is read off the likeliest ones.
  const top = typeof params.logprobs === "number" ? Math.max(params.logprobs, 1) : 0;
  const wanted = readSampling(params, {
    ...backend.samplingContext(prompt),
    top,
  });
  const context: Context = {
    backend,
    model,
    prompt,
    wanted,
    params,
    id: `generate-tokens-${newId(request, asked.request_id)}`,
    signal: request.signal,
    withIds: asked.return_token_ids === true,
  };
  return asked.stream ? streamed(context, asked.stream_options ?? {}) : whole(context);
}

/** Ids with one placeholder per image, and the images as files: each placeholder grows to as many as its image takes. */
async function withParts(
  ids: readonly number[],
  parts: readonly z.output<typeof partSchema>[],
  backend: Backend,
  request: HttpRequest,
): Promise<ModelInput> {
  const { chat, desk, contextTokens } = backend;
  const { imageToken } = chat.ids;
  const marks = ids.filter((id) => id === imageToken).length;
  if (marks !== parts.length) {
    const message = `token_ids has ${marks} image placeholders for ${parts.length} content_parts: write one for each, as it is before images are expanded.`;
    throw new ApiError(400, message, { type: "Bad Request", param: "body.content_parts" });
  }
  const files = parts.map(({ url }, i) => fileOf(url, `content_parts.${i}.url`));
  const lengths = files.map((file) => {
    const { width, height } = desk.size(file);
    return chat.processor.tokenCount(standIn(width, height));
  });
  // Before anything is written out: a few ids can announce very many.
  const total = lengths.reduce((sum, length) => sum + length - 1, ids.length);
  if (total >= contextTokens) {
    throw badField("input_tokens", `With its images the prompt has ${total} tokens; the context has ${contextTokens}.`);
  }
  const { images, release } = await desk.decode(files, request.signal);
  holdFor(request, release);
  const spans: ImageSpan[] = [];
  const expanded: number[] = [];
  for (const id of ids) {
    const length = id === imageToken ? (lengths[spans.length] as number) : 1;
    if (id === imageToken) spans.push({ start: expanded.length, length, image: images[spans.length] as Image });
    for (let i = 0; i < length; i++) expanded.push(id);
  }
  return { ids: Int32Array.from(expanded), images: spans };
}

function fileOf(url: string, param: string): Uint8Array {
  try {
    return dataUriBytes(url);
  } catch (error) {
    throw new ApiError(400, `${param}: ${errorMessage(error)}`, { type: "Bad Request", param: `body.${param}` });
  }
}

/** A wrong type in here is vLLM's fault of the whole field. */
function readParams(given: object): Params {
  const read = paramsSchema.safeParse(given);
  if (read.success) return read.data;
  const [issue] = read.error.issues;
  const message = `sampling_params.${issue?.path.join(".")}: ${issue?.message}`;
  throw new ApiError(400, message, { type: "Bad Request", param: "body.sampling_params" });
}

type Context = {
  readonly backend: Backend;
  readonly model: string;
  readonly prompt: ModelInput;
  readonly wanted: Wanted;
  readonly params: Params;
  readonly id: string;
  readonly signal: AbortSignal;
  readonly withIds: boolean;
};

function run({ backend, model, prompt, wanted, signal }: Context, take?: OnChoiceToken): Promise<Generated[]> {
  return backend.choices(wanted.n, { model, prompt, params: wanted.params, signal }, take);
}

/** One id of `logprobs.content`. */
function entry({ params }: Context, id: number, logprob: number, top: readonly TopLogprob[]) {
  const rank = (wanted: number) => {
    const at = top.findIndex((one) => one.id === wanted);
    return at < 0 ? null : at + 1;
  };
  const likeliest = sampledFirst({ id, logprob }, top).slice(0, Math.max(params.logprobs ?? 0, 1));
  const wire = (one: TopLogprob) => ({
    token: `token_id:${one.id}`,
    token_id: one.id,
    logprob: logprobNumber(one.logprob),
    rank: rank(one.id),
  });
  return { ...wire({ id, logprob }), top_logprobs: likeliest.map(wire) };
}

/** Only a stop string needs the text. */
function reasonOf({ backend, wanted }: Context, generated: Generated): string | number | null {
  const text = new AnswerText(backend.chat.tokenizer, wanted.text);
  if (wanted.text.stop.length > 0) for (const id of generated.ids) text.push(id);
  return stopReason(generated, text.stopped, wanted);
}

async function whole(context: Context): Promise<Response> {
  const { backend, model, prompt, params, id, withIds } = context;
  const created = seconds();
  const generated = await run(context);
  const hasLogprobs = typeof params.logprobs === "number";
  return json({
    request_id: id,
    model,
    created,
    usage: fullUsage(prompt.ids.length, countTokens(generated)),
    prompt_logprobs: await promptLogprobs(params.prompt_logprobs, backend, model, prompt),
    prompt_token_id_logprobs: null,
    prompt_token_ids: withIds ? [...prompt.ids] : null,
    mm_placeholders:
      withIds && prompt.images.length > 0
        ? { image: prompt.images.map(({ start, length }) => ({ offset: start, length })) }
        : null,
    metrics: null,
    kv_transfer_params: null,
    ec_transfer_params: null,
    output_mode: "tokens",
    choices: generated.map((one, index) => ({
      index,
      finish_reason: one.finish,
      stop_reason: reasonOf(context, one),
      token_ids: one.ids,
      routed_experts: null,
      sampling_mask: null,
      weight_versions: one.versions,
      logprobs: hasLogprobs
        ? { content: one.ids.map((drawn, i) => entry(context, drawn, one.logprobs[i] as number, one.top[i] ?? [])) }
        : null,
    })),
  });
}

function streamed(
  context: Context,
  options: { include_usage?: boolean | null | undefined; continuous_usage_stats?: boolean | null | undefined },
): Response {
  const { prompt, params, id, wanted } = context;
  const hasLogprobs = typeof params.logprobs === "number";
  const always = options.include_usage === true && options.continuous_usage_stats === true;
  return eventAnswer(async (send) => {
    const counts = new Array<number>(wanted.n).fill(0);
    const held = counts.map(() => new HeldBack<Generated>());
    const generated = await run(context, (index, drawn, logprob, top) => {
      counts[index] = (counts[index] as number) + 1;
      const usage = always ? fullUsage(prompt.ids.length, counts[index] as number) : null;
      held[index]?.next((last) =>
        send({
          request_id: id,
          usage,
          output_mode: "tokens",
          choices: [
            {
              index,
              finish_reason: last?.finish ?? null,
              stop_reason: last === undefined ? null : reasonOf(context, last),
              token_ids: [drawn],
              routed_experts: null,
              sampling_mask: null,
              weight_versions: last?.versions ?? null,
              logprobs: hasLogprobs ? { content: [entry(context, drawn, logprob, top)] } : null,
            },
          ],
        }),
      );
    });
    for (const [index, one] of generated.entries()) held[index]?.end(one);
    if (options.include_usage !== true) return;
    const usage = usageOf(prompt.ids.length, countTokens(generated));
    send({ request_id: id, usage, output_mode: "tokens", choices: [] });
  });
}
