/**
 * What the three wires share: OpenAI's Chat Completions, OpenAI's Responses and Anthropic's Messages. Each reads its vendor's request into a `WireRequest`
 * and writes a `WireAnswer` in its vendor's form, whole or as events. Whoever samples sees neither vendor: `saccade serve` and an episode's endpoint use
 * the same functions.
 *
 * Messages are in OpenAI's chat form with images as data URIs, so that they can be decoded late and elsewhere: `fromOpenAI` makes `Message`s of them.
 */
import type { Json, JsonObject } from "../core/json.ts";
import type { PromptOptions } from "../model/renderer.ts";
import type { Send } from "./events.ts";
import type { Finish } from "./reply.ts";
import type { SamplingRequest } from "./sampling.ts";
import type { WireCall } from "./tools.ts";

export type WireName = "chat" | "responses" | "messages";

export type WireTool = {
  readonly name: string;
  readonly description?: string;
  /** A JSON schema; absent: any object. */
  readonly parameters?: JsonObject;
};
/** `required`: at least one call of any tool. A name: calls of that tool alone. */
export type ToolChoice = "auto" | "none" | "required" | { readonly name: string };
export type AnswerFormat =
  | { readonly type: "text" }
  /** A JSON value of this schema and nothing else. */
  | { readonly type: "schema"; readonly name?: string; readonly schema: Json };

export type WireRequest = {
  readonly wire: WireName;
  readonly model: string | undefined;
  /** In OpenAI's chat form; `reasoning_content` holds what an assistant thought. */
  readonly messages: readonly JsonObject[];
  /** How the chat template renders them; `variables.tools` are the tools as the template reads them. */
  readonly options: PromptOptions;
  readonly tools: readonly WireTool[];
  readonly toolChoice: ToolChoice;
  /** False: at most one call in an answer. */
  readonly parallelCalls: boolean;
  readonly format: AnswerFormat;
  /** Sampling fields under vLLM's names, `n` and `max_tokens` among them. */
  readonly sampling: SamplingRequest;
  /** The likeliest ids to report at each position; undefined: no log-probabilities at all. */
  readonly topLogprobs: number | undefined;
  readonly stream: boolean;
  readonly writer: AnswerWriter;
};

export type TokenLogprob = { readonly id: number; readonly token: string; readonly logprob: number };
export type TokenEntry = TokenLogprob & { readonly top: readonly TokenLogprob[] };

export type AnswerHead = {
  /** Without the prefix that a wire gives it. */
  readonly id: string;
  /** Seconds since 1970. */
  readonly created: number;
  readonly model: string;
  readonly promptTokens: number;
  /** For clients that ask for it. */
  readonly promptIds?: Int32Array;
};

export type WireChoice = {
  /** Null: there are only calls. */
  readonly text: string | null;
  readonly calls: readonly WireCall[];
  readonly finish: Finish;
  /** The stop string or id that ended it; null: the model ended by itself, or the limit did. */
  readonly stopReason: string | number | null;
  /** How many tokens were sampled. */
  readonly tokens: number;
  readonly ids?: readonly number[];
  readonly logprobs?: readonly TokenEntry[];
};
export type WireAnswer = AnswerHead & {
  readonly choices: readonly WireChoice[];
  /** Chat alone, where `prompt_logprobs` asks for it. */
  readonly promptLogprobs?: unknown;
};

/** What a choice says next: usually one token's text, which may be empty. */
export type WirePiece = {
  readonly choice: number;
  readonly text: string;
  readonly calls: readonly WireCall[];
  /** Tokens of this choice up to here. */
  readonly tokens: number;
  readonly ids: readonly number[];
  readonly logprobs: readonly TokenEntry[] | undefined;
  /** With the last piece of a choice. */
  readonly last?: Pick<WireChoice, "finish" | "stopReason">;
};

export interface AnswerWriter {
  whole(answer: WireAnswer): JsonObject;
  /** Sends what comes before the first token. */
  begin(head: AnswerHead, send: Send): AnswerEvents;
  /** The bare text that ends a stream. */
  readonly terminator?: string;
}
export interface AnswerEvents {
  piece(piece: WirePiece): void;
  /** Sends what comes after the last token of every choice. */
  end(answer: WireAnswer): void;
  /** In place of `end`. */
  fail(error: unknown): void;
}

export interface Wire {
  readonly name: WireName;
  /** Of a body that was parsed as JSON. Throws an `ApiError`. */
  parse(body: unknown): WireRequest;
  /** Anything thrown, in the vendor's form. */
  error(error: unknown): Response;
}

export function tokensOf({ choices }: Pick<WireAnswer, "choices">): number {
  return choices.reduce((sum, { tokens }) => sum + tokens, 0);
}
