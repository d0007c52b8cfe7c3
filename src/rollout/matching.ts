/**
 * When are two messages the same? A program sends its whole conversation with every request, and clients rewrite what they were given. What a program said
 * itself must come back exactly: role, text, tool results, images by their pixels. What the model said may come back trimmed, without its thoughts, with
 * the arguments of its calls printed anew, in several pieces and with other ids of calls; its sampled ids stay what they are. Anything else is another history.
 */
import { canonicalJson, type Json } from "../core/json.ts";
import { type Message, type Part, textOf } from "../core/message.ts";

/** What the model said, as clients are told it. */
export type Said = {
  readonly text: string | null;
  readonly calls: readonly { readonly name: string; readonly arguments: string }[];
};

/** The message as it must come back where a program wrote it. */
export function givenKey({ role, content, name, toolCallId, toolCalls }: Message): string {
  return JSON.stringify([
    role,
    name ?? null,
    toolCallId ?? null,
    joinTexts(content),
    (toolCalls ?? []).map((call) => [call.id, call.name, call.arguments]),
  ]);
}

/** The message as it may come back where the model said it. */
export function saidKey({ text, calls }: Said): string {
  return JSON.stringify([
    withoutThoughts(text ?? "").trim(),
    calls.map((call) => [call.name, readArguments(call.arguments)]),
  ]);
}

export function saidBy(message: Message): Said {
  return { text: textOf(message), calls: message.toolCalls ?? [] };
}

/** An assistant's turn may come in several messages, its text and each of its calls apart; a template would make a turn of each. */
export function joinTurns(messages: readonly Message[]): Message[] {
  const joined: Message[] = [];
  for (const message of messages) {
    const last = joined.at(-1);
    const goesOn =
      last?.role === "assistant" &&
      message.role === "assistant" &&
      (last.toolCalls !== undefined || message.toolCalls !== undefined);
    if (!goesOn) joined.push(message);
    else {
      const toolCalls = [...(last.toolCalls ?? []), ...(message.toolCalls ?? [])];
      joined.splice(-1, 1, { ...last, content: [...last.content, ...message.content], toolCalls });
    }
  }
  return joined;
}

/** Neighbouring texts read as one. */
function joinTexts(content: readonly Part[]): (string | { readonly image: string })[] {
  const parts: (string | { readonly image: string })[] = [];
  for (const part of content) {
    const last = parts.at(-1);
    if (part.type === "image") parts.push({ image: part.image.hash });
    else if (typeof last === "string") parts.splice(-1, 1, last + part.text);
    else parts.push(part.text);
  }
  return parts.filter((part) => part !== "");
}

const OPEN = "<think>";
const CLOSE = "</think>";

/** Templates may open a thought themselves, so that a reply begins inside one. */
export function withoutThoughts(text: string): string {
  let rest = text;
  const first = rest.indexOf(CLOSE);
  const opened = rest.indexOf(OPEN);
  if (first >= 0 && (opened < 0 || opened > first)) rest = rest.slice(first + CLOSE.length);
  for (let open = rest.indexOf(OPEN); open >= 0; open = rest.indexOf(OPEN)) {
    const close = rest.indexOf(CLOSE, open);
    if (close < 0) break;
    rest = rest.slice(0, open) + rest.slice(close + CLOSE.length);
  }
  return rest;
}

function readArguments(text: string): string {
  try {
    return canonicalJson(JSON.parse(text === "" ? "{}" : text) as Json);
  } catch {
    return text.trim();
  }
}
