/** vLLM's render routes: they turn a conversation or a prompt into a request for `generate`, with processed images. Nothing is sampled. */
import { z } from "zod";
import type { ModelInput } from "../core/model-input.ts";
import { json } from "../http/responses.ts";
import type { Tokenizer } from "../model/tokenizer.ts";
import { chatRequest, readChat } from "../wire/chat.ts";
import { readFields } from "../wire/errors.ts";
import { readWanted } from "../wire/format.ts";
import { newId, readJsonBody } from "../wire/request.ts";
import type { SamplingRequest, Wanted } from "../wire/sampling.ts";
import type { Ask } from "./ask.ts";
import { renderChat } from "./chat.ts";
import { completionSchema, readCompletionSampling, readPrompts } from "./completions.ts";
import { wireFeatures } from "./images.ts";

const extras = z.looseObject({
  return_token_offsets: z.boolean().nullish(),
  cache_salt: z.string().nullish(),
  priority: z.int().nullish(),
  stream: z.boolean().nullish(),
  stream_options: z.looseObject({}).nullish(),
});

export async function renderChatRequest({ backend, request }: Ask): Promise<Response> {
  const body = await readJsonBody(request);
  const asked = readChat(body);
  const model = backend.resolve(asked.model);
  const chat = chatRequest(asked);
  const prompt = await renderChat(chat, backend, request);
  const wanted = readWanted(chat, backend.samplingContext(prompt));
  const logprobs = asked.logprobs ? (asked.top_logprobs ?? 0) : undefined;
  const { tokenizer } = backend.chat;
  return json({
    ...rendered(`chatcmpl-${newId(request)}`, model, prompt, body),
    token_offsets: wantsOffsets(body) && prompt.images.length === 0 ? offsets(prompt.ids, tokenizer) : null,
    features: await wireFeatures(prompt.images, backend.desk, request.signal),
    sampling_params: samplingParams(asked, wanted, logprobs, asked.prompt_logprobs),
  });
}

export async function renderCompletionRequest({ backend, request }: Ask): Promise<Response> {
  const body = await readJsonBody(request);
  const asked = readFields(completionSchema, body);
  const model = backend.resolve(asked.model);
  const id = newId(request);
  const prompts = await readPrompts(asked, backend, request);
  const answers = prompts.map((prompt, i) => ({
    ...rendered(`cmpl-${id}-${i}`, model, prompt, body),
    token_offsets:
      wantsOffsets(body) && typeof asked.prompt === "string" ? offsets(prompt.ids, backend.chat.tokenizer) : null,
    sampling_params: samplingParams(
      asked,
      readCompletionSampling(asked, backend, prompt),
      asked.logprobs,
      asked.prompt_logprobs,
    ),
  }));
  return json(answers);
}

const wantsOffsets = (body: unknown) => readFields(extras, body).return_token_offsets === true;

function rendered(id: string, model: string, prompt: ModelInput, body: unknown) {
  const { cache_salt: salt, priority, stream, stream_options: options } = readFields(extras, body);
  return {
    request_id: id,
    token_ids: [...prompt.ids],
    token_offsets: null as unknown,
    features: null as unknown,
    content_parts: null,
    sampling_params: null as unknown,
    model,
    reasoning_ended: null,
    reasoning_parser_kwargs: null,
    return_token_ids: null,
    output_mode: "tokens",
    stream: stream ?? false,
    stream_options: options ?? null,
    cache_salt: salt ?? null,
    priority: priority ?? 0,
    kv_transfer_params: null,
    ec_transfer_params: null,
  };
}

/** Under the names that `generate` reads. */
function samplingParams(
  asked: SamplingRequest & { readonly stream?: boolean | null | undefined },
  { params, n }: Wanted,
  logprobs: number | null | undefined,
  promptLogprobs: number | null | undefined,
) {
  return {
    ...(n > 1 && { n }),
    presence_penalty: 0,
    frequency_penalty: 0,
    repetition_penalty: 1,
    temperature: params.temperature,
    ...(params.temperature > 0 && { top_p: params.topP ?? 1, min_p: params.minP ?? 0 }),
    ...(params.topK !== undefined && { top_k: params.topK }),
    ...(typeof asked.seed === "number" && { seed: asked.seed }),
    stop: params.stopStrings ?? [],
    stop_token_ids: asked.stop_token_ids ?? [],
    ...(asked.ignore_eos && { ignore_eos: true }),
    max_tokens: params.maxTokens,
    ...(typeof logprobs === "number" && { logprobs }),
    ...(typeof promptLogprobs === "number" && { prompt_logprobs: promptLogprobs }),
    output_kind: asked.stream ? 1 : 2,
    skip_clone: true,
    bad_words: [],
    skip_reading_prefix_cache: typeof promptLogprobs === "number",
  };
}

/** Where each id lies in the rendered text, in characters; ids that share a character share its place. */
function offsets(ids: Int32Array, tokenizer: Tokenizer): [number, number][] {
  const found: [number, number][] = [];
  let characters = 0;
  for (const id of ids) {
    const bytes = tokenizer.decodeBytes([id]);
    // Bytes 10xxxxxx go on with a character that has begun.
    const begun = bytes.reduce((count, byte) => count + ((byte & 0xc0) === 0x80 ? 0 : 1), 0);
    const inside = bytes.length > 0 && ((bytes[0] as number) & 0xc0) === 0x80;
    found.push([inside ? characters - 1 : characters, characters + begun]);
    characters += begun;
  }
  return found;
}
