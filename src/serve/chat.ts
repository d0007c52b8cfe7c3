/** `/v1/chat/completions`: OpenAI's chat wire in front of the model. */
import type { ModelInput } from "../core/model-input.ts";
import type { HttpRequest } from "../http/request.ts";
import { json } from "../http/responses.ts";
import {
  type ChatRequest,
  chatAnswer,
  chatConversation,
  chatStream,
  readChat,
  readChatSampling,
} from "../wire/chat.ts";
import type { SampleChoices } from "../wire/reply.ts";
import { newId, readJsonBody, seconds } from "../wire/request.ts";
import { type Ask, checkPrompt, holdFor, promptLogprobs } from "./ask.ts";
import type { Backend } from "./backend.ts";
import type { PendingPrompt } from "./desk.ts";

export async function answerChat({ backend, request }: Ask): Promise<Response> {
  const asked = readChat(await readJsonBody(request));
  const model = backend.resolve(asked.model);
  const prompt = await renderChat(asked, backend, request);
  const wanted = readChatSampling(asked, backend.samplingContext(prompt));
  const { tokenizer } = backend.chat;
  const id = `chatcmpl-${newId(request)}`;
  const reply = { id, created: seconds(), model, promptIds: prompt.ids, wanted, tokenizer };
  const { signal } = request;
  const sample: SampleChoices = (take) =>
    backend.choices(wanted.n, { model, prompt, params: wanted.params, signal }, take);
  if (asked.stream) return chatStream(asked, reply, sample);
  const generated = await sample();
  return json(chatAnswer(asked, reply, generated, await promptLogprobs(asked.prompt_logprobs, backend, model, prompt)));
}

/** Messages to ids and images. */
export async function renderChat(asked: ChatRequest, backend: Backend, request: HttpRequest): Promise<ModelInput> {
  const pending = await renderIds(asked, backend, request);
  const { prompt, release } = await pending.show(request.signal);
  holdFor(request, release);
  return prompt;
}

/** Messages to ids; their images stay encoded. */
export async function renderIds(asked: ChatRequest, backend: Backend, request: HttpRequest): Promise<PendingPrompt> {
  const { messages, options } = chatConversation(asked);
  const size = Number(request.headers.get("content-length") ?? Number.POSITIVE_INFINITY);
  const pending = await backend.desk.render(messages, options, size, request.signal);
  checkPrompt({ ids: pending.ids, images: pending.places }, backend);
  return pending;
}
