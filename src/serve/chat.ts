/** `/v1/chat/completions`: messages with pictures and tools in, one or several replies out, whole or streamed. */
import { z } from "zod";
import type { JsonObject } from "../core/json.ts";
import type { ModelInput } from "../core/model-input.ts";
import type { TopLogprob } from "../engine/engine.ts";
import type { HttpRequest } from "../http/request.ts";
import { json } from "../http/responses.ts";
import {
  type Ask,
  checkPrompt,
  eventAnswer,
  FINGERPRINT,
  fullUsage,
  holdFor,
  LEAST_LOGPROB,
  logprobNumber,
  newId,
  readJsonBody,
  seconds,
  usageOf,
} from "./ask.ts";
import type { Backend, Finish, Generated } from "./backend.ts";
import type { PendingPrompt } from "./desk.ts";
import { badField, readFields } from "./errors.ts";
import { readSampling, samplingFields, type Wanted } from "./sampling.ts";
import { AnswerText } from "./text.ts";
import { parseToolCalls, ToolGate } from "./tools.ts";

const flag = z.boolean().nullish();
export const chatSchema = z.looseObject({
  ...samplingFields,
  messages: z.array(z.looseObject({ role: z.string() })),
  model: z.string().nullish(),
  max_completion_tokens: z.int().nullish(),
  logprobs: flag,
  top_logprobs: z.int().nullish(),
  prompt_logprobs: z.int().nullish(),
  stream: flag,
  stream_options: z.looseObject({ include_usage: flag, continuous_usage_stats: flag }).nullish(),
  tools: z
    .array(z.looseObject({ type: z.literal("function"), function: z.looseObject({ name: z.string() }) }))
    .nullish(),
  tool_choice: z.union([z.string(), z.looseObject({})]).nullish(),
  add_generation_prompt: flag,
  continue_final_message: flag,
  chat_template: z.string().nullish(),
  // It was parsed, so it is JSON.
  chat_template_kwargs: z.record(z.string(), z.unknown()).nullish(),
  return_token_ids: flag,
  return_tokens_as_token_ids: flag,
});
export type ChatRequest = z.output<typeof chatSchema>;

export async function answerChat({ backend, request }: Ask): Promise<Response> {
  const asked = readFields(chatSchema, await readJsonBody(request));
  const model = backend.resolve(asked.model);
  const prompt = await renderChat(asked, backend, request);
  const wanted = readChatSampling(asked, backend, prompt);
  const choices = new Choices(asked, wanted, backend, model, prompt);
  const id = `chatcmpl-${newId(request)}`;
  return asked.stream ? streamChat(choices, id, request.signal) : wholeChat(choices, id, request.signal);
}

/** Messages to ids and pictures; used by the render route too. */
export async function renderChat(asked: ChatRequest, backend: Backend, request: HttpRequest): Promise<ModelInput> {
  const pending = await renderIds(asked, backend, request);
  const { prompt, release } = await pending.show(request.signal);
  holdFor(request, release);
  return prompt;
}

/** Messages to ids; their pictures are still files. */
export async function renderIds(asked: ChatRequest, backend: Backend, request: HttpRequest): Promise<PendingPrompt> {
  if (asked.chat_template !== undefined && asked.chat_template !== null) {
    throw badField("chat_template", "The model's own chat template is used: leave chat_template out.");
  }
  const generationPrompt = asked.add_generation_prompt ?? true;
  const continueFinal = asked.continue_final_message ?? false;
  if (generationPrompt && continueFinal) {
    throw badField(null, "continue_final_message needs add_generation_prompt: false.");
  }
  if (asked.messages.length === 0) throw badField(null, "A conversation needs at least one message.");
  const variables = {
    ...asked.chat_template_kwargs,
    ...(asked.tools?.length && { tools: asked.tools as unknown as readonly JsonObject[] }),
  } as JsonObject;
  const messages = asked.messages as unknown as readonly JsonObject[];
  const size = Number(request.headers.get("content-length") ?? Number.POSITIVE_INFINITY);
  const options = { generationPrompt, continueFinal, variables };
  const pending = await backend.desk.render(messages, options, size, request.signal);
  checkPrompt({ ids: pending.ids, images: pending.places }, backend);
  return pending;
}

export function readChatSampling(asked: ChatRequest, backend: Backend, prompt: ModelInput): Wanted {
  const { logprobs, top_logprobs: top, stream, stream_options: options, tool_choice: choice, tools } = asked;
  if (options && !stream) throw badField("stream_options", "stream_options need stream: true.");
  if (top && !logprobs) throw badField("top_logprobs", "top_logprobs needs logprobs: true.");
  if (top && top < 0) throw badField("top_logprobs", `top_logprobs is 0 or more, got ${top}.`);
  if (asked.prompt_logprobs && asked.prompt_logprobs > 0) {
    throw badField("prompt_logprobs", "prompt_logprobs gives the prompt's own ids only: use 0.");
  }
  if (typeof choice === "object" && choice !== null) throw badField("tool_choice", "tool_choice is none or auto here.");
  if (choice && !["none", "auto"].includes(choice)) throw badField("tool_choice", "tool_choice is none or auto here.");
  if (choice === "auto" && !tools?.length) throw badField("tool_choice", "tool_choice needs tools.");
  return readSampling(
    { ...asked, max_tokens: asked.max_completion_tokens ?? asked.max_tokens },
    {
      ...backend.samplingContext(prompt),
      top: logprobs ? (top ?? 0) : 0,
    },
  );
}

/** Who speaks next: the assistant, or whoever spoke last where no turn was opened. */
function roleOf(asked: ChatRequest): string {
  return (asked.add_generation_prompt ?? true) ? "assistant" : (asked.messages.at(-1)?.role ?? "assistant");
}

class Choices {
  readonly asked: ChatRequest;
  readonly wanted: Wanted;
  readonly backend: Backend;
  readonly model: string;
  readonly prompt: ModelInput;
  readonly usesTools: boolean;

  constructor(asked: ChatRequest, wanted: Wanted, backend: Backend, model: string, prompt: ModelInput) {
    this.asked = asked;
    this.wanted = wanted;
    this.backend = backend;
    this.model = model;
    this.prompt = prompt;
    this.usesTools = (asked.tools?.length ?? 0) > 0 && asked.tool_choice !== "none";
  }

  /** All of them at once; `take` hears of every id as it is drawn. */
  run(signal: AbortSignal, take?: Parameters<Backend["choices"]>[2]): Promise<Generated[]> {
    const { backend, model, prompt, wanted } = this;
    return backend.choices(wanted.n, { model, prompt, params: wanted.params, signal }, take);
  }

  text(): AnswerText {
    return new AnswerText(this.backend.chat.tokenizer, this.wanted.text);
  }

  /** One token of `logprobs.content`; asked for before the text has taken the id. */
  logprob(text: AnswerText, id: number, logprob: number, top: readonly TopLogprob[]) {
    const { asked } = this;
    const entry = (one: TopLogprob) => {
      const token = text.token(one.id);
      return {
        token: asked.return_tokens_as_token_ids ? `token_id:${one.id}` : token,
        logprob: logprobNumber(one.logprob),
        bytes: [...Buffer.from(token)],
      };
    };
    const likeliest = sampledFirst({ id, logprob }, top).slice(0, asked.top_logprobs ?? 0);
    return { ...entry({ id, logprob }), top_logprobs: likeliest.map(entry) };
  }

  stopReason({ ids, finish }: Generated, text: AnswerText): string | number | null {
    return stopReason(ids, finish, text, this.wanted);
  }
}

/** The sampled id, then the others by likelihood. */
export function sampledFirst(sampled: TopLogprob, top: readonly TopLogprob[]): TopLogprob[] {
  return [sampled, ...top.filter(({ id }) => id !== sampled.id)];
}

/** The stop string or id that was asked for; null where the model ended by itself. */
export function stopReason(
  ids: readonly number[],
  finish: Finish,
  text: AnswerText,
  { eos }: Pick<Wanted, "eos">,
): string | number | null {
  if (finish !== "stop") return null;
  if (text.stopped !== undefined) return text.stopped;
  const last = ids.at(-1);
  return last === undefined || eos.has(last) ? null : last;
}

async function wholeChat(choices: Choices, id: string, signal: AbortSignal): Promise<Response> {
  const { asked, backend, model, prompt } = choices;
  const created = seconds();
  const generated = await choices.run(signal);
  const answers = generated.map((one, index) => {
    const text = choices.text();
    const content = one.ids.map((drawn, i) => {
      const entry = choices.logprob(text, drawn, one.logprobs[i] as number, one.top[i] ?? []);
      text.push(drawn);
      return entry;
    });
    text.end();
    const said = choices.usesTools ? parseToolCalls(text.text) : { content: text.text, calls: [] };
    return {
      index,
      message: {
        role: roleOf(asked),
        content: said.content,
        refusal: null,
        annotations: null,
        audio: null,
        function_call: null,
        ...(said.calls.length > 0 && { tool_calls: said.calls }),
        reasoning: null,
      },
      logprobs: asked.logprobs ? { content } : null,
      finish_reason: said.calls.length > 0 ? "tool_calls" : one.finish,
      stop_reason: choices.stopReason(one, text),
      token_ids: asked.return_token_ids ? one.ids : null,
      routed_experts: null,
    };
  });
  const completion = generated.reduce((sum, { ids }) => sum + ids.length, 0);
  return json({
    id,
    object: "chat.completion",
    created,
    model,
    choices: answers,
    service_tier: null,
    system_fingerprint: FINGERPRINT,
    usage: fullUsage(prompt.ids.length, completion),
    prompt_logprobs: await promptLogprobs(asked.prompt_logprobs, backend, model, prompt),
    prompt_token_ids: asked.return_token_ids ? [...prompt.ids] : null,
    prompt_text: null,
    kv_transfer_params: null,
    ec_transfer_params: null,
    metrics: null,
  });
}

function streamChat(choices: Choices, id: string, signal: AbortSignal): Response {
  const { asked, model, prompt, wanted } = choices;
  const created = seconds();
  const withUsage = asked.stream_options?.include_usage === true;
  const always = withUsage && asked.stream_options?.continuous_usage_stats === true;
  const counts = new Array<number>(wanted.n).fill(0);
  const head = { id, object: "chat.completion.chunk", created, model };
  const usage = (completion: number) =>
    always ? { usage: { ...usageOf(prompt.ids.length, completion), completion_tokens_details: null } } : {};
  return eventAnswer(async (send) => {
    const states = counts.map(() => ({ text: choices.text(), gate: choices.usesTools ? new ToolGate() : undefined }));
    for (const index of states.keys()) {
      send({
        ...head,
        choices: [{ index, delta: { role: roleOf(asked), content: "" }, logprobs: null, finish_reason: null }],
        ...usage(0),
        prompt_token_ids: asked.return_token_ids ? [...prompt.ids] : null,
        prompt_text: null,
      });
    }
    // An id is sent when the next one comes, so that the last can say that it is the last.
    const held: (((last?: Generated) => void) | undefined)[] = counts.map(() => undefined);
    const generated = choices.run(signal, (index, drawn, logprob, top) => {
      const { text, gate } = states[index] as (typeof states)[number];
      const content = asked.logprobs ? { content: [choices.logprob(text, drawn, logprob, top)] } : null;
      const shown = text.push(drawn);
      counts[index] = (counts[index] as number) + 1;
      const completion = counts[index] as number;
      held[index]?.();
      held[index] = (last) => {
        const more = last === undefined ? shown : shown + text.end();
        const through = gate === undefined ? more : gate.push(more);
        const rest = last === undefined ? undefined : gate?.end();
        const calls = rest?.calls ?? [];
        const delta = {
          content: through + (rest?.content ?? ""),
          ...(calls.length > 0 && { tool_calls: calls.map((call, i) => ({ index: i, ...call })) }),
        };
        const end = last && {
          finish_reason: calls.length > 0 ? "tool_calls" : last.finish,
          stop_reason: choices.stopReason(last, text),
        };
        send({
          ...head,
          choices: [
            {
              index,
              delta,
              logprobs: content,
              finish_reason: null,
              ...end,
              token_ids: asked.return_token_ids ? [drawn] : null,
            },
          ],
          ...usage(completion),
          ...(end && !withUsage && { system_fingerprint: FINGERPRINT }),
        });
      };
    });
    for (const [index, one] of (await generated).entries()) {
      const finish = held[index];
      if (finish !== undefined) finish(one);
      // Nothing was drawn: an abort.
      else
        send({
          ...head,
          choices: [{ index, delta: {}, logprobs: null, finish_reason: one.finish, stop_reason: null }],
        });
    }
    if (!withUsage) return;
    const total = counts.reduce((sum, count) => sum + count, 0);
    send({ ...head, choices: [], usage: usageOf(prompt.ids.length, total), system_fingerprint: FINGERPRINT });
  });
}

/** Null for the first, then the prompt's id with its log-probability; its rank is not known. */
export async function promptLogprobs(
  wanted: number | null | undefined,
  backend: Backend,
  model: string,
  prompt: ModelInput,
): Promise<unknown> {
  if (wanted === undefined || wanted === null) return null;
  const logprobs = await backend.promptLogprobs(model, prompt);
  const { tokenizer, ids } = backend.chat;
  return [...prompt.ids].map((id, i) => {
    if (i === 0) return null;
    // Placeholders can't be said.
    const logprob = id === ids.imageToken ? LEAST_LOGPROB : logprobNumber(logprobs[i] as number);
    return { [id]: { logprob, rank: null, decoded_token: tokenizer.decode([id]) } };
  });
}
