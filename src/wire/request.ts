/** A request as the wires read it: its JSON body, its id, and the conversation that every wire turns it into. */
import { randomBytes } from "node:crypto";
import type { JsonObject } from "../core/json.ts";
import { readJsonText } from "../http/limits.ts";
import type { HttpRequest } from "../http/request.ts";
import type { PromptOptions } from "../model/renderer.ts";
import { ApiError } from "./errors.ts";

/** Enough for several large images, as features. */
export const MAX_BODY_BYTES = 128 * 1024 * 1024;

/** Messages in OpenAI's form, which is ours at the edges, and how the chat template renders them. */
export type Conversation = { readonly messages: readonly JsonObject[]; readonly options: PromptOptions };

export async function readJsonBody(request: HttpRequest): Promise<unknown> {
  if (!/^application\/([\w.+-]+\+)?json\b/i.test(request.headers.get("content-type") ?? "")) {
    throw new ApiError(400, "Send JSON, with Content-Type: application/json.", { type: "Bad Request" });
  }
  const bad = (what: string) => new ApiError(400, `body: ${what}.`, { type: "Bad Request", param: "body" });
  const text = await readJsonText(request, { bytes: MAX_BODY_BYTES }, bad);
  try {
    return JSON.parse(text);
  } catch {
    throw bad("this is not JSON");
  }
}

export function newId(request: HttpRequest, given?: string | null): string {
  return request.headers.get("x-request-id") ?? given ?? randomBytes(8).toString("hex");
}

export function seconds(): number {
  return Math.floor(Date.now() / 1000);
}
