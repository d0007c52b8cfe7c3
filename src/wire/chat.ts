/** OpenAI's Chat Completions wire, with vLLM's extra fields. Answers are vLLM's, field by field. */
import { z } from "zod";
import type { JsonObject } from "../core/json.ts";
import { apiErrorBody, apiErrorResponse, badField, readFields } from "./errors.ts";
import type { Send } from "./events.ts";
import { namedTool, readFormat } from "./format.ts";
import { FINGERPRINT, fullUsage, usageOf } from "./reply.ts";
import { samplingFields } from "./sampling.ts";
import {
  type AnswerEvents,
  type AnswerHead,
  type AnswerWriter,
  type TokenEntry,
  type TokenLogprob,
  type ToolChoice,
  tokensOf,
  type Wire,
  type WireAnswer,
  type WireRequest,
  type WireTool,
} from "./wire.ts";

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
    .array(
      z.looseObject({
        type: z.literal("function"),
        function: z.looseObject({
          name: z.string(),
          description: z.string().nullish(),
          parameters: z.looseObject({}).nullish(),
        }),
      }),
    )
    .nullish(),
  tool_choice: z.union([z.string(), z.looseObject({})]).nullish(),
  parallel_tool_calls: flag,
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

export const chatWire: Wire = {
  name: "chat",
  parse: (body) => chatRequest(readChat(body)),
  error: apiErrorResponse,
};

export function chatRequest(asked: ChatRequest): WireRequest {
  const { logprobs, top_logprobs: top, stream, stream_options: streaming } = asked;
  if (streaming && !stream) throw badField("stream_options", "stream_options need stream: true.");
  if (top && !logprobs) throw badField("top_logprobs", "top_logprobs needs logprobs: true.");
  if (top && top < 0) throw badField("top_logprobs", `top_logprobs must be 0 or more, got ${top}.`);
  if (asked.prompt_logprobs && asked.prompt_logprobs > 0) {
    throw badField("prompt_logprobs", "prompt_logprobs gives the prompt's own ids only: use 0.");
  }
  const { response_format: format, ...sampling } = asked;
  const tools = (asked.tools ?? []).map(
    ({ function: { name, description, parameters } }): WireTool => ({
      name,
      ...(description && { description }),
      ...(parameters && { parameters: parameters as JsonObject }),
    }),
  );
  return {
    wire: "chat",
    model: asked.model ?? undefined,
    messages: asked.messages as unknown as readonly JsonObject[],
    options: promptOptions(asked),
    tools,
    toolChoice: toolChoice(asked, tools),
    parallelCalls: asked.parallel_tool_calls ?? true,
    format: readFormat("response_format", format, (given) => given.json_schema),
    sampling: { ...sampling, max_tokens: asked.max_completion_tokens ?? asked.max_tokens },
    topLogprobs: logprobs ? (top ?? 0) : undefined,
    stream: stream === true,
    writer: new ChatWriter(asked),
  };
}

function promptOptions(asked: ChatRequest): WireRequest["options"] {
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
  return { generationPrompt, continueFinal, variables };
}

const namedSchema = z.looseObject({
  type: z.literal("function"),
  function: z.looseObject({ name: z.string() }),
});

function toolChoice({ tool_choice: choice }: ChatRequest, tools: readonly WireTool[]): ToolChoice {
  if (choice === undefined || choice === null) return "auto";
  if (choice === "none") return choice;
  if (tools.length === 0) throw badField("tool_choice", "tool_choice needs tools.");
  if (choice === "auto" || choice === "required") return choice;
  const named = namedSchema.safeParse(choice);
  if (!named.success) {
    throw badField("tool_choice", "tool_choice must be none, auto, required or the name of a function.");
  }
  return namedTool("tool_choice", named.data.function.name, tools);
}

class ChatWriter implements AnswerWriter {
  readonly terminator = "[DONE]";
  readonly #asked: ChatRequest;

  constructor(asked: ChatRequest) {
    this.#asked = asked;
  }

  whole(answer: WireAnswer): JsonObject {
    const { logprobs, return_token_ids: withIds } = this.#asked;
    const { created, model, promptTokens, promptIds, choices } = answer;
    const written = choices.map((choice, index) => ({
      index,
      message: {
        role: this.#role,
        content: choice.text,
        refusal: null,
        annotations: null,
        audio: null,
        function_call: null,
        ...(choice.calls.length > 0 && { tool_calls: choice.calls }),
        reasoning: null,
      },
      logprobs: logprobs ? { content: (choice.logprobs ?? []).map((entry) => this.#entry(entry)) } : null,
      finish_reason: choice.calls.length > 0 ? "tool_calls" : choice.finish,
      stop_reason: choice.stopReason,
      token_ids: withIds ? (choice.ids ?? []) : null,
      routed_experts: null,
    }));
    return {
      id: `chatcmpl-${answer.id}`,
      object: "chat.completion",
      created,
      model,
      choices: written,
      service_tier: null,
      system_fingerprint: FINGERPRINT,
      usage: fullUsage(promptTokens, tokensOf(answer)),
      prompt_logprobs: (answer.promptLogprobs ?? null) as null,
      prompt_token_ids: withIds && promptIds ? [...promptIds] : null,
      prompt_text: null,
      kv_transfer_params: null,
      ec_transfer_params: null,
      metrics: null,
    };
  }

  begin({ id, created, model, promptTokens, promptIds }: AnswerHead, send: Send): AnswerEvents {
    const { n, stream_options: options, return_token_ids: withIds, logprobs } = this.#asked;
    const withUsage = options?.include_usage === true;
    const always = withUsage && options?.continuous_usage_stats === true;
    const head = { id: `chatcmpl-${id}`, object: "chat.completion.chunk", created, model };
    const usage = (completion: number) =>
      always ? { usage: { ...usageOf(promptTokens, completion), completion_tokens_details: null } } : {};
    for (let index = 0; index < (n ?? 1); index++) {
      send({
        ...head,
        choices: [{ index, delta: { role: this.#role, content: "" }, logprobs: null, finish_reason: null }],
        ...usage(0),
        prompt_token_ids: withIds && promptIds ? [...promptIds] : null,
        prompt_text: null,
      });
    }
    return {
      piece: ({ choice: index, text, calls, tokens, ids, logprobs: entries, last }) => {
        const end = last && {
          finish_reason: calls.length > 0 ? "tool_calls" : last.finish,
          stop_reason: last.stopReason,
        };
        if (tokens === 0 && text === "" && calls.length === 0) {
          send({ ...head, choices: [{ index, delta: {}, logprobs: null, finish_reason: null, ...end }] });
          return;
        }
        const delta = {
          content: text,
          ...(calls.length > 0 && { tool_calls: calls.map((call, i) => ({ index: i, ...call })) }),
        };
        const content = logprobs ? { content: (entries ?? []).map((entry) => this.#entry(entry)) } : null;
        const token_ids = withIds ? ids : null;
        send({
          ...head,
          choices: [{ index, delta, logprobs: content, finish_reason: null, ...end, token_ids }],
          ...usage(tokens),
          ...(end && !withUsage && { system_fingerprint: FINGERPRINT }),
        });
      },
      end(answer) {
        if (!withUsage) return;
        const usageAtEnd = usageOf(promptTokens, tokensOf(answer));
        send({ ...head, choices: [], usage: usageAtEnd, system_fingerprint: FINGERPRINT });
      },
      fail: (error) => send(apiErrorBody(error).body),
    };
  }

  /** The role of the answer: the assistant, or the last speaker where the request opened no new turn. */
  get #role(): string {
    const { add_generation_prompt: opens, messages } = this.#asked;
    return (opens ?? true) ? "assistant" : (messages.at(-1)?.role ?? "assistant");
  }

  /** One token of `logprobs.content`. */
  #entry({ top, ...sampled }: TokenEntry) {
    const written = ({ id, token, logprob }: TokenLogprob) => ({
      token: this.#asked.return_tokens_as_token_ids ? `token_id:${id}` : token,
      logprob,
      bytes: [...Buffer.from(token)],
    });
    return { ...written(sampled), top_logprobs: top.map(written) };
  }
}
