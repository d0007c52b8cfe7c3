/** The three wires, with a memory of their own: one set for each server or episode. */
import { chatWire } from "./chat.ts";
import { messagesWire } from "./messages.ts";
import { responsesWire } from "./responses.ts";
import { ResponseMemory, type ResponseMemoryOptions } from "./responses-memory.ts";
import type { Wire } from "./wire.ts";

/** By route. */
export type Wires = Readonly<Record<"/v1/chat/completions" | "/v1/responses" | "/v1/messages", Wire>>;

export function createWires(options: ResponseMemoryOptions = {}): Wires {
  return {
    "/v1/chat/completions": chatWire,
    "/v1/responses": responsesWire(new ResponseMemory(options)),
    "/v1/messages": messagesWire,
  };
}
