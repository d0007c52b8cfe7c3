/** `/v1/chat/completions`, `/v1/responses` and `/v1/messages`: three wires in front of the model. */
import type { ModelInput } from "../core/model-input.ts";
import { keyOf } from "../http/guard.ts";
import type { HttpRequest } from "../http/request.ts";
import { json } from "../http/responses.ts";
import { respond } from "../wire/answer.ts";
import { readWanted } from "../wire/format.ts";
import { messagesWire, readCount } from "../wire/messages.ts";
import type { SampleChoices } from "../wire/reply.ts";
import { newId, readJsonBody, seconds } from "../wire/request.ts";
import type { Wire, WireRequest } from "../wire/wire.ts";
import { type Ask, checkPrompt, holdFor, promptLogprobs } from "./ask.ts";
import type { Backend } from "./backend.ts";
import type { PendingPrompt } from "./desk.ts";

/** Errors are in the vendor's form. */
export async function answerWire(wire: Wire, ask: Ask): Promise<Response> {
  try {
    return await answer(wire, ask);
  } catch (error) {
    return wire.error(error);
  }
}

async function answer(wire: Wire, { backend, request, retries }: Ask): Promise<Response> {
  const body = await readJsonBody(request);
  const scope = JSON.stringify([wire.name, keyOf(request) ?? request.headers.get("x-api-key")]);
  return retries.once(request, body, scope, (attempt) => sampled(wire, body, backend, attempt));
}

async function sampled(wire: Wire, body: unknown, backend: Backend, request: HttpRequest): Promise<Response> {
  const asked = wire.parse(body);
  const model = backend.resolve(asked.model);
  const prompt = await renderChat(asked, backend, request);
  const wanted = readWanted(asked, backend.samplingContext(prompt));
  const { tokenizer } = backend.chat;
  const reply = { id: newId(request), created: seconds(), model, promptIds: prompt.ids, wanted, tokenizer };
  const { signal } = request;
  const sample: SampleChoices = (take) =>
    backend.choices(wanted.n, { model, prompt, params: wanted.params, signal }, take);
  const scored = asked.sampling.prompt_logprobs as number | null | undefined;
  return respond(asked, reply, sample, { promptLogprobs: () => promptLogprobs(scored, backend, model, prompt) });
}

/** `/v1/messages/count_tokens`: ids of the prompt, images included. */
export async function answerCount({ backend, request }: Ask): Promise<Response> {
  try {
    const asked = readCount(await readJsonBody(request));
    backend.resolve(asked.model);
    const { ids } = await renderIds(asked, backend, request);
    return json({ input_tokens: ids.length });
  } catch (error) {
    return messagesWire.error(error);
  }
}

type Rendered = Pick<WireRequest, "messages" | "options">;

/** Messages to ids and images. */
export async function renderChat(asked: Rendered, backend: Backend, request: HttpRequest): Promise<ModelInput> {
  const pending = await renderIds(asked, backend, request);
  const { prompt, release } = await pending.show(request.signal);
  holdFor(request, release);
  return prompt;
}

/** Messages to ids; their images stay encoded. */
export async function renderIds(
  { messages, options }: Rendered,
  backend: Backend,
  request: HttpRequest,
): Promise<PendingPrompt> {
  const size = Number(request.headers.get("content-length") ?? Number.POSITIVE_INFINITY);
  const pending = await backend.desk.render(messages, options, size, request.signal);
  checkPrompt({ ids: pending.ids, images: pending.places }, backend);
  return pending;
}
