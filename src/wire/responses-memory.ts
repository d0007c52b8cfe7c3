/**
 * Items and conversations of the latest answers on the Responses wire, for clients that name them instead of sending them again. The AI SDK does that by
 * default. What is oldest goes first once there is too much.
 */
import type { JsonObject } from "../core/json.ts";

export type ResponseMemoryOptions = {
  /** Characters of JSON in all; default 64 MiB. */
  readonly maxCharacters?: number;
};

type Kept = { readonly conversation: readonly JsonObject[]; readonly output: readonly JsonObject[]; size: number };

export class ResponseMemory {
  readonly #most: number;
  readonly #responses = new Map<string, Kept>();
  readonly #items = new Map<string, JsonObject>();
  #size = 0;

  constructor({ maxCharacters = 64 * 1024 * 1024 }: ResponseMemoryOptions = {}) {
    this.#most = maxCharacters;
  }

  /** An item that an answer had. */
  item(id: string): JsonObject | undefined {
    return this.#items.get(id);
  }

  /** What was said up to the end of a response. */
  conversation(id: string): readonly JsonObject[] | undefined {
    const kept = this.#responses.get(id);
    return kept && [...kept.conversation, ...kept.output];
  }

  keep(id: string, conversation: readonly JsonObject[], output: readonly JsonObject[]): void {
    const size = JSON.stringify([conversation, output]).length;
    this.#responses.set(id, { conversation, output, size });
    this.#size += size;
    for (const item of output) this.#items.set(String(item.id), item);
    for (const [oldest, { size, output }] of this.#responses) {
      if (this.#size <= this.#most) break;
      this.#responses.delete(oldest);
      this.#size -= size;
      for (const item of output) this.#items.delete(String(item.id));
    }
  }
}
