/** Tool calls, written as `<tool_call>{"name": …, "arguments": {…}}</tool_call>` by Qwen's chat templates and ours. */
import { randomBytes } from "node:crypto";
import { isJsonObject, type Json } from "../core/json.ts";

const OPEN = "<tool_call>";
const CLOSE = "</tool_call>";
export const CALL_TAGS = { open: OPEN, close: CLOSE };

export type WireCall = {
  readonly id: string;
  readonly type: "function";
  readonly function: { readonly name: string; readonly arguments: string };
};

/** The calls of a reply and the text before the first one. A reply whose calls can't be read is all text: it is data, not an error. */
export function parseToolCalls(text: string): { readonly content: string | null; readonly calls: readonly WireCall[] } {
  const start = text.indexOf(OPEN);
  if (start < 0) return { content: text, calls: [] };
  const calls: WireCall[] = [];
  for (const piece of text.slice(start).split(OPEN).slice(1)) {
    const call = readCall(piece.split(CLOSE, 1)[0] as string);
    if (call === undefined) return { content: text, calls: [] };
    calls.push(call);
  }
  return { content: text.slice(0, start).trim() === "" ? null : text.slice(0, start), calls };
}

function readCall(text: string): WireCall | undefined {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return undefined;
  }
  if (!isJsonObject(value) || typeof value.name !== "string") return undefined;
  const given: Json = value.arguments ?? {};
  const written = typeof given === "string" ? given : JSON.stringify(given);
  const id = `chatcmpl-tool-${randomBytes(8).toString("hex")}`;
  return { id, type: "function", function: { name: value.name, arguments: written } };
}

/** Lets text through until a call may have begun. The rest is read at the end of the reply. */
export class ToolGate {
  #held = "";

  push(text: string): string {
    this.#held += text;
    const at = this.#held.indexOf(OPEN);
    let safe = at < 0 ? this.#held.length : at;
    // The text may end with the beginning of a call.
    for (let length = OPEN.length - 1; at < 0 && length > 0; length--) {
      if (this.#held.endsWith(OPEN.slice(0, length))) {
        safe = this.#held.length - length;
        break;
      }
    }
    const shown = this.#held.slice(0, safe);
    this.#held = this.#held.slice(safe);
    return shown;
  }

  end(): { readonly content: string; readonly calls: readonly WireCall[] } {
    const { content, calls } = parseToolCalls(this.#held);
    return { content: calls.length > 0 ? "" : (content ?? ""), calls };
  }
}
