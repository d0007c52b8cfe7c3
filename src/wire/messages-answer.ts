/** Answers and errors on Anthropic's wire. */
import { errorMessage } from "../core/errors.ts";
import { isJsonObject, type Json, type JsonObject } from "../core/json.ts";
import { HttpError } from "../http/errors.ts";
import { json } from "../http/responses.ts";
import { statusOf } from "./errors.ts";
import type { Send } from "./events.ts";
import type { WireCall } from "./tools.ts";
import {
  type AnswerEvents,
  type AnswerHead,
  type AnswerWriter,
  tokensOf,
  type WireAnswer,
  type WireChoice,
} from "./wire.ts";

const TYPES: Readonly<Record<number, string>> = {
  400: "invalid_request_error",
  401: "authentication_error",
  403: "permission_error",
  404: "not_found_error",
  413: "request_too_large",
  429: "rate_limit_error",
  503: "overloaded_error",
  529: "overloaded_error",
};

const STOPPED = { stop: "end_turn", length: "max_tokens", abort: "pause_turn" } as const;

function errorBody(error: unknown): { readonly status: number; readonly body: JsonObject } {
  const status = statusOf(error);
  const type = TYPES[status] ?? (status < 500 ? "invalid_request_error" : "api_error");
  return { status, body: { type: "error", error: { type, message: errorMessage(error) } } };
}

export function messagesError(error: unknown): Response {
  const { status, body } = errorBody(error);
  return json(body, { status, headers: error instanceof HttpError ? error.headers : {} });
}

export class MessagesWriter implements AnswerWriter {
  whole(answer: WireAnswer): JsonObject {
    const [choice] = answer.choices;
    const content: JsonObject[] = [];
    if (choice !== undefined && (choice.text || choice.calls.length === 0)) {
      content.push({ type: "text", text: choice.text ?? "" });
    }
    for (const call of choice?.calls ?? []) content.push({ ...toolUse(call), input: inputOf(call) });
    return {
      ...message(answer),
      content,
      ...(choice && stopped(choice, choice.calls.length > 0)),
      usage: usage(answer.promptTokens, tokensOf(answer)),
    };
  }

  begin(head: AnswerHead, send: Send): AnswerEvents {
    const emit = (type: string, fields: object = {}) => send({ type, ...fields }, type);
    let index = 0;
    let isOpen = false;
    let called = false;
    const start = {
      ...message(head),
      content: [],
      stop_reason: null,
      stop_sequence: null,
      usage: usage(head.promptTokens, 0),
    };
    emit("message_start", { message: start });
    const open = () => {
      if (isOpen) return;
      isOpen = true;
      emit("content_block_start", { index, content_block: { type: "text", text: "" } });
    };
    const close = () => {
      if (isOpen) emit("content_block_stop", { index: index++ });
      isOpen = false;
    };
    return {
      piece({ text, calls, last }) {
        if (text !== "") {
          open();
          emit("content_block_delta", { index, delta: { type: "text_delta", text } });
        }
        if (last === undefined) return;
        called = calls.length > 0;
        if (index === 0 && !called) open();
        close();
        for (const call of calls) {
          emit("content_block_start", { index, content_block: { ...toolUse(call), input: {} } });
          const delta = { type: "input_json_delta", partial_json: JSON.stringify(inputOf(call)) };
          emit("content_block_delta", { index, delta });
          emit("content_block_stop", { index: index++ });
        }
      },
      end(answer) {
        const [choice] = answer.choices;
        emit("message_delta", {
          delta: choice === undefined ? {} : stopped(choice, called),
          usage: usage(answer.promptTokens, tokensOf(answer)),
        });
        emit("message_stop");
      },
      fail: (error) => send(errorBody(error).body, "error"),
    };
  }
}

function message({ id, model }: AnswerHead): JsonObject {
  return { id: `msg_${id}`, type: "message", role: "assistant", model };
}

function usage(input: number, output: number): JsonObject {
  return {
    input_tokens: input,
    cache_creation_input_tokens: 0,
    cache_read_input_tokens: 0,
    output_tokens: output,
  };
}

function stopped({ finish, stopReason }: WireChoice, called: boolean): JsonObject {
  const sequence = typeof stopReason === "string" ? stopReason : null;
  const reason = called ? "tool_use" : sequence === null ? STOPPED[finish] : "stop_sequence";
  return { stop_reason: reason, stop_sequence: called ? null : sequence };
}

function toolUse({ id, function: { name } }: WireCall): JsonObject {
  return { type: "tool_use", id, name };
}

/** Anthropic's clients want an object; what else the model wrote is kept under a name. */
function inputOf({ function: { arguments: written } }: WireCall): JsonObject {
  try {
    const value = JSON.parse(written) as Json;
    return isJsonObject(value) ? value : { value };
  } catch {
    return { value: written };
  }
}
