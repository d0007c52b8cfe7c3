/** Answers on the Responses wire: one object, or its typed events. Text and each call are items of their own; the text item opens with its first letter. */
import { randomBytes } from "node:crypto";
import type { JsonObject } from "../core/json.ts";
import { apiErrorBody } from "./errors.ts";
import type { Send } from "./events.ts";
import type { ResponsesRequest } from "./responses.ts";
import type { ResponseMemory } from "./responses-memory.ts";
import type { WireCall } from "./tools.ts";
import {
  type AnswerEvents,
  type AnswerHead,
  type AnswerWriter,
  type TokenEntry,
  type TokenLogprob,
  tokensOf,
  type WireAnswer,
} from "./wire.ts";

const newItem = (prefix: string) => `${prefix}_${randomBytes(16).toString("hex")}`;

export class ResponseWriter implements AnswerWriter {
  readonly #asked: ResponsesRequest;
  readonly #input: readonly JsonObject[];
  readonly #memory: ResponseMemory;

  constructor(asked: ResponsesRequest, input: readonly JsonObject[], memory: ResponseMemory) {
    this.#asked = asked;
    this.#input = input;
    this.#memory = memory;
  }

  whole(answer: WireAnswer): JsonObject {
    const [choice] = answer.choices;
    const output: JsonObject[] = [];
    const calls = choice?.calls ?? [];
    const status = choice?.finish === "stop" ? "completed" : "incomplete";
    if (choice !== undefined && (choice.text || calls.length === 0)) {
      output.push(messageItem(newItem("msg"), choice.text ?? "", status, choice.logprobs));
    }
    for (const call of calls) output.push(callItem(newItem("fc"), call, "completed"));
    this.#keep(answer, output);
    return this.#response(answer, output, answer);
  }

  begin(head: AnswerHead, send: Send): AnswerEvents {
    let sequence = 0;
    const emit = (type: string, fields: object) => send({ type, ...fields, sequence_number: sequence++ }, type);
    const output: JsonObject[] = [];
    let message: { readonly item_id: string; readonly output_index: number; text: string } | undefined;
    const entries: TokenEntry[] = [];
    emit("response.created", { response: this.#response(head, []) });
    emit("response.in_progress", { response: this.#response(head, []) });
    const open = () => {
      if (message !== undefined) return message;
      message = { item_id: newItem("msg"), output_index: output.length, text: "" };
      const { text: _, ...place } = message;
      const item = { ...messageItem(place.item_id, "", "in_progress"), content: [] };
      emit("response.output_item.added", { output_index: place.output_index, item });
      emit("response.content_part.added", { ...place, content_index: 0, part: textPart("") });
      return message;
    };
    const close = (status: string) => {
      if (message === undefined) return;
      const { text, ...place } = message;
      const logprobs = entries.map(logprobOf);
      emit("response.output_text.done", { ...place, content_index: 0, text, logprobs });
      emit("response.content_part.done", { ...place, content_index: 0, part: textPart(text, entries) });
      const item = messageItem(place.item_id, text, status, entries);
      emit("response.output_item.done", { output_index: place.output_index, item });
      output.push(item);
      message = undefined;
    };
    const sendCall = (call: WireCall) => {
      const item_id = newItem("fc");
      const place = { item_id, output_index: output.length };
      const blank = { ...call, function: { ...call.function, arguments: "" } };
      const { name, arguments: written } = call.function;
      emit("response.output_item.added", {
        output_index: place.output_index,
        item: callItem(item_id, blank, "in_progress"),
      });
      emit("response.function_call_arguments.delta", { ...place, delta: written });
      emit("response.function_call_arguments.done", { ...place, name, arguments: written });
      const item = callItem(item_id, call, "completed");
      emit("response.output_item.done", { output_index: place.output_index, item });
      output.push(item);
    };
    return {
      piece: ({ text, calls, logprobs, last }) => {
        if (logprobs !== undefined) entries.push(...logprobs);
        if (text !== "") {
          const into = open();
          into.text += text;
          const { item_id, output_index } = into;
          const delta = { item_id, output_index, content_index: 0, delta: text };
          emit("response.output_text.delta", { ...delta, logprobs: (logprobs ?? []).map(logprobOf) });
        }
        if (last === undefined) return;
        if (calls.length === 0) open();
        close(last.finish === "stop" ? "completed" : "incomplete");
        for (const call of calls) sendCall(call);
      },
      end: (answer) => {
        this.#keep(answer, output);
        const response = this.#response(answer, output, answer);
        emit(`response.${response.status}`, { response });
      },
      fail: (error) => {
        const { error: told } = apiErrorBody(error).body as { error: { message: string; type: string } };
        emit("error", { code: told.type, message: told.message, param: null });
        const failed = { code: "server_error", message: told.message };
        emit("response.failed", { response: { ...this.#response(head, output), status: "failed", error: failed } });
      },
    };
  }

  #keep({ id }: AnswerHead, output: readonly JsonObject[]): void {
    if (this.#asked.store !== false) this.#memory.keep(`resp_${id}`, this.#input, output);
  }

  /** Without an answer it is in progress. */
  #response({ id, created, model }: AnswerHead, output: readonly JsonObject[], answer?: WireAnswer): JsonObject {
    const asked = this.#asked;
    const finish = answer?.choices[0]?.finish;
    const status = finish === undefined ? "in_progress" : finish === "stop" ? "completed" : "incomplete";
    return {
      id: `resp_${id}`,
      object: "response",
      created_at: created,
      status,
      background: false,
      error: null,
      incomplete_details:
        status === "incomplete" ? { reason: finish === "length" ? "max_output_tokens" : "aborted" } : null,
      instructions: asked.instructions ?? null,
      max_output_tokens: asked.max_output_tokens ?? null,
      metadata: (asked.metadata ?? {}) as JsonObject,
      model,
      output,
      parallel_tool_calls: asked.parallel_tool_calls ?? true,
      previous_response_id: asked.previous_response_id ?? null,
      reasoning: { effort: null, summary: null },
      service_tier: "default",
      store: asked.store ?? true,
      temperature: asked.temperature ?? 1,
      text: (asked.text ?? { format: { type: "text" } }) as JsonObject,
      tool_choice: (asked.tool_choice ?? "auto") as JsonObject | string,
      tools: (asked.tools ?? []) as unknown as readonly JsonObject[],
      top_logprobs: asked.top_logprobs ?? 0,
      top_p: asked.top_p ?? 1,
      truncation: "disabled",
      usage: answer === undefined ? null : usage(answer),
    };
  }
}

function usage(answer: WireAnswer): JsonObject {
  const sampled = tokensOf(answer);
  return {
    input_tokens: answer.promptTokens,
    input_tokens_details: { cached_tokens: 0 },
    output_tokens: sampled,
    output_tokens_details: { reasoning_tokens: 0 },
    total_tokens: answer.promptTokens + sampled,
  };
}

function messageItem(id: string, text: string, status: string, entries?: readonly TokenEntry[]): JsonObject {
  return { id, type: "message", status, role: "assistant", content: [textPart(text, entries)] };
}

function textPart(text: string, entries: readonly TokenEntry[] = []): JsonObject {
  return { type: "output_text", text, annotations: [], logprobs: entries.map(logprobOf) };
}

function callItem(id: string, call: WireCall, status: string): JsonObject {
  return { id, type: "function_call", status, call_id: call.id, ...call.function };
}

function logprobOf({ top, ...sampled }: TokenEntry): JsonObject {
  const written = ({ token, logprob }: TokenLogprob) => ({ token, logprob, bytes: [...Buffer.from(token)] });
  return { ...written(sampled), top_logprobs: top.map(written) };
}
