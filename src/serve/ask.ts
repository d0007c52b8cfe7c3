/** What every route of the OpenAI and vLLM faces shares: a request with its body read, ids of answers, usage, prompts that fit, streams of events. */
import { randomBytes } from "node:crypto";
import { readJsonText } from "../http/limits.ts";
import type { HttpRequest } from "../http/request.ts";
import { pieces } from "../http/responses.ts";
import type { Backend } from "./backend.ts";
import { ApiError, apiErrorBody, badField } from "./errors.ts";

/** The most bytes of a request: several large images, as features. */
export const MOST_BYTES = 128 * 1024 * 1024;
/** vLLM's wire that is spoken here. */
export const VLLM_VERSION = "0.32.0";
export const FINGERPRINT = "saccade";
/** vLLM's stand-in for a probability of 0. */
export const LEAST_LOGPROB = -9999;

export type Ask = {
  readonly backend: Backend;
  readonly request: HttpRequest;
  readonly query: URLSearchParams;
  /** Weights may be loaded from inside this folder. */
  readonly store: string | undefined;
};

export async function readJsonBody(request: HttpRequest): Promise<unknown> {
  if (!/^application\/([\w.+-]+\+)?json\b/i.test(request.headers.get("content-type") ?? "")) {
    throw new ApiError(400, "Send JSON, with Content-Type: application/json.", { type: "Bad Request" });
  }
  const bad = (what: string) => new ApiError(400, `body: ${what}.`, { type: "Bad Request", param: "body" });
  const text = await readJsonText(request, { bytes: MOST_BYTES }, bad);
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

export type Usage = {
  readonly prompt_tokens: number;
  readonly total_tokens: number;
  readonly completion_tokens: number;
};

export function usageOf(prompt: number, completion: number): Usage {
  return { prompt_tokens: prompt, total_tokens: prompt + completion, completion_tokens: completion };
}

export function fullUsage(prompt: number, completion: number) {
  return { ...usageOf(prompt, completion), prompt_tokens_details: null, completion_tokens_details: null };
}

export function logprobNumber(value: number): number {
  return Number.isFinite(value) ? Math.max(value, LEAST_LOGPROB) : LEAST_LOGPROB;
}

/** Refuses what would only fail once the answer has begun. */
export function checkPrompt(
  { ids, images }: { readonly ids: Int32Array; readonly images: readonly { readonly length: number }[] },
  { chat, contextLength }: Backend,
): void {
  const outside = ids.find((id) => !(id >= 0 && id < chat.vocabSize));
  if (outside !== undefined)
    throw badField(null, `Token id ${outside} is outside the vocabulary of ${chat.vocabSize}.`);
  if (ids.length >= contextLength) {
    throw badField(
      "input_tokens",
      `The prompt has ${ids.length} tokens and leaves no room in the context of ${contextLength}: shorten it.`,
    );
  }
  const pads = ids.reduce((count, id) => count + (id === chat.ids.imageToken ? 1 : 0), 0);
  const covered = images.reduce((sum, { length }) => sum + length, 0);
  if (pads !== covered) {
    throw badField(null, `The prompt has ${pads} placeholders of pictures, but its pictures have ${covered} tokens.`);
  }
}

/** Held until the answer is out. */
export function holdFor({ onEnd }: HttpRequest, release: () => void): void {
  if (onEnd === undefined) release();
  else onEnd(release);
}

/** Server-sent events: `work` sends values; what it throws is the last of them, before the end mark. */
export function eventAnswer(work: (send: (value: unknown) => void) => Promise<void>): Response {
  const queue: string[] = [];
  let wake = () => {};
  let done = false;
  const push = (text: string) => {
    queue.push(`data: ${text}\n\n`);
    wake();
  };
  void work((value) => push(JSON.stringify(value)))
    .catch((error: unknown) => push(JSON.stringify(apiErrorBody(error).body)))
    .finally(() => {
      done = true;
      push("[DONE]");
    });
  async function* source() {
    for (;;) {
      if (queue.length > 0) yield queue.splice(0).join("");
      else if (done) return;
      else
        await new Promise<void>((resolve) => {
          wake = resolve;
        });
    }
  }
  return pieces(source(), { type: "text/event-stream; charset=utf-8" });
}
