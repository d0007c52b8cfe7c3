/**
 * Who answers the requests of a program that brings its own loop. One that samples keeps conversations of ids and can be trained; one that speaks text (a
 * hosted model, an oracle) writes its calls as `<tool_call>` text, which is read back as that of a model would be.
 */
import type { Message } from "../core/message.ts";
import type { ChatModel } from "../model/chat.ts";
import type { TokenReader } from "../wire/text.ts";
import type { WireRequest } from "../wire/wire.ts";
import type { Conversations } from "./conversations.ts";
import { givenKey, joinTurns, type Said, saidBy, saidKey } from "./matching.ts";

export type TokenConverser = {
  readonly kind: "tokens";
  readonly conversations: Conversations;
  readonly model: ChatModel;
  readonly maxTokens: number;
  readonly clientLimits: "refuse" | "exclude";
  /** Says what a demonstration replies; absent: the model is sampled. */
  readonly recite?: (messages: readonly Message[]) => Promise<Int32Array>;
};

export type TextAsked = {
  readonly messages: readonly Message[];
  readonly request: Pick<WireRequest, "tools" | "toolChoice" | "format" | "sampling">;
};
/** `promptTokens` and `tokens` where they were counted. */
export type TextAnswer = {
  readonly text: string;
  readonly cut: boolean;
  readonly promptTokens?: number;
  readonly tokens?: number;
};
export type TextConverser = {
  readonly kind: "text";
  answer(asked: TextAsked, signal: AbortSignal): Promise<TextAnswer>;
};

export type Converser = TokenConverser | TextConverser;

/** Reads ids as a wire wants them read. */
export function tokenReader({ renderer }: Pick<ChatModel, "renderer">): TokenReader {
  const special = new Map<number, boolean>();
  return {
    decode: (ids) => renderer.decode(Int32Array.from(ids)).text,
    isSpecial(id) {
      const known = special.get(id) ?? renderer.decode(Int32Array.of(id)).text === "";
      special.set(id, known);
      return known;
    },
  };
}

/** The conversations of an episode that is answered in text: which request goes on with which, by the rules of `matching.ts`. */
export class Threads {
  readonly #threads: string[][] = [];

  /** The conversation that a request goes on with (a new one where there is none), and its messages that are new to it. */
  find(asked: readonly Message[]): { readonly thread: number; readonly given: readonly Message[] } {
    const messages = joinTurns(asked);
    let best = -1;
    for (const [i, entries] of this.#threads.entries()) {
      const same = entries.length <= messages.length && entries.every((key, k) => keysOf(messages[k]).includes(key));
      if (same && entries.length > (this.#threads[best]?.length ?? 0)) best = i;
    }
    if (best < 0) return { thread: -1, given: messages };
    return { thread: best, given: messages.slice(this.#threads[best]?.length) };
  }

  /** Keeps an answer, and returns the conversation it is in. */
  keep(found: { readonly thread: number; readonly given: readonly Message[] }, said: Said): number {
    const entries = this.#threads[found.thread] ?? [];
    const thread = found.thread < 0 ? this.#threads.push(entries) - 1 : found.thread;
    entries.push(...found.given.map(givenKey), saidKey(said));
    return thread;
  }
}

const keysOf = (message: Message | undefined) =>
  message === undefined ? [] : [givenKey(message), ...(message.role === "assistant" ? [saidKey(saidBy(message))] : [])];
