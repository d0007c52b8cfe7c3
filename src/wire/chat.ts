/**
 * OpenAI's Chat Completions wire, with vLLM's extra fields: a request becomes a conversation and sampling settings, sampled tokens become an answer,
 * whole or streamed.
 */
import { z } from "zod";
import type { JsonObject } from "../core/json.ts";
import type { TopLogprob } from "../engine/engine.ts";
import { badField, readFields } from "./errors.ts";
import { eventAnswer, HeldBack } from "./events.ts";
import {
  ChoiceText,
  countTokens,
  FINGERPRINT,
  fullUsage,
  type Generated,
  logprobNumber,
  type Reply,
  type SampleChoices,
  sampledFirst,
  usageOf,
} from "./reply.ts";
import type { Conversation } from "./request.ts";
import { readSampling, type SamplingContext, samplingFields, type Wanted } from "./sampling.ts";

const flag = z.boolean().nullish();
const chatSchema = z.looseObject({
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

export function readChat(body: unknown): ChatRequest {
  return readFields(chatSchema, body);
}

export function chatConversation(asked: ChatRequest): Conversation {
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
  return { messages, options: { generationPrompt, continueFinal, variables } };
}

export function readChatSampling(asked: ChatRequest, context: Omit<SamplingContext, "top">): Wanted {
  const { logprobs, top_logprobs: top, stream, stream_options: options, tool_choice: choice, tools } = asked;
  if (options && !stream) throw badField("stream_options", "stream_options need stream: true.");
  if (top && !logprobs) throw badField("top_logprobs", "top_logprobs needs logprobs: true.");
  if (top && top < 0) throw badField("top_logprobs", `top_logprobs must be 0 or more, got ${top}.`);
  if (asked.prompt_logprobs && asked.prompt_logprobs > 0) {
    throw badField("prompt_logprobs", "prompt_logprobs gives the prompt's own ids only: use 0.");
  }
  if (choice && choice !== "none" && choice !== "auto") {
    throw badField("tool_choice", "tool_choice must be none or auto.");
  }
  if (choice === "auto" && !tools?.length) throw badField("tool_choice", "tool_choice needs tools.");
  return readSampling(
    { ...asked, max_tokens: asked.max_completion_tokens ?? asked.max_tokens },
    { ...context, top: logprobs ? (top ?? 0) : 0 },
  );
}

/** The role of the answer: the assistant, or the last speaker where the request opened no new turn. */
function roleOf(asked: ChatRequest): string {
  return (asked.add_generation_prompt ?? true) ? "assistant" : (asked.messages.at(-1)?.role ?? "assistant");
}

function textOf(asked: ChatRequest, reply: Reply): ChoiceText {
  return new ChoiceText(reply, (asked.tools?.length ?? 0) > 0 && asked.tool_choice !== "none");
}

/** One token of `logprobs.content`. Call it before the text takes the id. */
function logprobEntry(asked: ChatRequest, text: ChoiceText, sampled: TopLogprob, top: readonly TopLogprob[]) {
  const entry = ({ id, logprob }: TopLogprob) => {
    const token = text.token(id);
    return {
      token: asked.return_tokens_as_token_ids ? `token_id:${id}` : token,
      logprob: logprobNumber(logprob),
      bytes: [...Buffer.from(token)],
    };
  };
  const likeliest = sampledFirst(sampled, top).slice(0, asked.top_logprobs ?? 0);
  return { ...entry(sampled), top_logprobs: likeliest.map(entry) };
}

export function chatAnswer(
  asked: ChatRequest,
  reply: Reply,
  generated: readonly Generated[],
  promptLogprobs: unknown = null,
) {
  const { id, created, model, promptIds, wanted } = reply;
  const choices = generated.map((one, index) => {
    const text = textOf(asked, reply);
    const content = one.ids.map((id, i) => {
      const entry = logprobEntry(asked, text, { id, logprob: one.logprobs[i] as number }, one.top[i] ?? []);
      text.push(id);
      return entry;
    });
    const said = text.whole();
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
      stop_reason: text.stopReason(one, wanted),
      token_ids: asked.return_token_ids ? one.ids : null,
      routed_experts: null,
    };
  });
  return {
    id,
    object: "chat.completion",
    created,
    model,
    choices,
    service_tier: null,
    system_fingerprint: FINGERPRINT,
    usage: fullUsage(promptIds.length, countTokens(generated)),
    prompt_logprobs: promptLogprobs,
    prompt_token_ids: asked.return_token_ids ? [...promptIds] : null,
    prompt_text: null,
    kv_transfer_params: null,
    ec_transfer_params: null,
    metrics: null,
  };
}

export function chatStream(asked: ChatRequest, reply: Reply, sample: SampleChoices): Response {
  const { id, created, model, promptIds, wanted } = reply;
  const withUsage = asked.stream_options?.include_usage === true;
  const always = withUsage && asked.stream_options?.continuous_usage_stats === true;
  const head = { id, object: "chat.completion.chunk", created, model };
  const usage = (completion: number) =>
    always ? { usage: { ...usageOf(promptIds.length, completion), completion_tokens_details: null } } : {};
  return eventAnswer(async (send) => {
    const states = Array.from({ length: wanted.n }, () => ({
      text: textOf(asked, reply),
      held: new HeldBack<Generated>(),
      count: 0,
    }));
    for (const index of states.keys()) {
      send({
        ...head,
        choices: [{ index, delta: { role: roleOf(asked), content: "" }, logprobs: null, finish_reason: null }],
        ...usage(0),
        prompt_token_ids: asked.return_token_ids ? [...promptIds] : null,
        prompt_text: null,
      });
    }
    const generated = await sample((index, id, logprob, top) => {
      const state = states[index] as (typeof states)[number];
      const { text, held } = state;
      const content = asked.logprobs ? { content: [logprobEntry(asked, text, { id, logprob }, top)] } : null;
      const shown = text.push(id);
      state.count += 1;
      const counted = usage(state.count);
      held.next((last) => {
        const rest = last && text.end();
        const calls = rest?.calls ?? [];
        const delta = {
          content: shown + (rest?.content ?? ""),
          ...(calls.length > 0 && { tool_calls: calls.map((call, i) => ({ index: i, ...call })) }),
        };
        const end = last && {
          finish_reason: calls.length > 0 ? "tool_calls" : last.finish,
          stop_reason: text.stopReason(last, wanted),
        };
        const token_ids = asked.return_token_ids ? [id] : null;
        send({
          ...head,
          choices: [{ index, delta, logprobs: content, finish_reason: null, ...end, token_ids }],
          ...counted,
          ...(end && !withUsage && { system_fingerprint: FINGERPRINT }),
        });
      });
    });
    for (const [index, one] of generated.entries()) {
      if (states[index]?.held.end(one)) continue;
      // Nothing was sampled: the request was aborted.
      const choice = { index, delta: {}, logprobs: null, finish_reason: one.finish, stop_reason: null };
      send({ ...head, choices: [choice] });
    }
    if (!withUsage) return;
    const usageAtEnd = usageOf(promptIds.length, countTokens(generated));
    send({ ...head, choices: [], usage: usageAtEnd, system_fingerprint: FINGERPRINT });
  });
}
