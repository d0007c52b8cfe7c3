/**
 * What a failed request means. A provider's refusal and a conversation too long for the model are the model's doing and count; everything
 * else is ours: it is tried again where that can help, and otherwise the episode is set aside and never scored.
 */
import { APICallError } from "ai";
import { errorMessage, SaccadeError } from "../core/errors.ts";
import { isJsonObject } from "../core/json.ts";

export type Failure = {
  /**
   * `again`: rate limits, server and network errors, time-outs, broken bodies. `refused`: a policy filter answered for the model.
   * `too_long`: more than the model can read. `hopeless`: this request always fails. `stop`: every request will (key, quota, model).
   */
  readonly kind: "again" | "refused" | "too_long" | "hopeless" | "stop";
  readonly message: string;
  /** How long the provider asks us to wait. */
  readonly afterMs?: number;
  /** Nobody answered: refused, unknown name, cut or silent connection. */
  readonly unreachable?: boolean;
};

/** No answer within the time that was set. */
export class SilenceError extends SaccadeError {
  override name = "SilenceError";
}

const REFUSED = /content_?filter|content_policy|invalid_prompt|safety system/i;
const TOO_LONG =
  /context_length_exceeded|maximum context length|context (length|window)|prompt is too long|too many (images|tokens)|number of images exceeds|token count .*exceeds/i;
const NO_MORE = /insufficient_quota|API_KEY_INVALID|invalid_api_key|billing_hard_limit/i;
const MAX_SHOWN = 300;

/** `now`: milliseconds since 1970, for waits given as a date. */
export function classify(error: unknown, now: number): Failure {
  if (!APICallError.isInstance(error)) {
    // A time-out of ours, or something the SDK did not expect in an answer.
    const silent = error instanceof SilenceError;
    return { kind: "again", message: errorMessage(error), ...(silent && { unreachable: true }) };
  }
  const body = bodyText(error.responseBody);
  const status = error.statusCode;
  const message = describe(error, body);
  if (status === undefined) return { kind: "again", message, unreachable: true };
  if (status >= 200 && status < 300) return { kind: "again", message };
  if (status < 400) {
    const to = error.responseHeaders?.location ?? "another address";
    const why = `HTTP ${status}: it redirects to ${to}, where the key is not taken. Name the right address.`;
    return { kind: "stop", message: why };
  }
  const said = `${error.message} ${body}`;
  if (NO_MORE.test(said)) return { kind: "stop", message };
  // The Responses API answers 200 with an `error` when generating failed; the SDK reports that as 400.
  if (/"code":\s*"(server_error|rate_limit_exceeded)"/.test(body) || error.isRetryable) {
    const afterMs = askedWait(error.responseHeaders ?? {}, body, now);
    return { kind: "again", message, ...(afterMs !== undefined && { afterMs }) };
  }
  if (status === 413 || TOO_LONG.test(said)) return { kind: "too_long", message };
  if (REFUSED.test(said)) return { kind: "refused", message };
  return { kind: status === 401 || status === 402 || status === 404 ? "stop" : "hopeless", message };
}

/** `Retry-After` in seconds or as a date, its milliseconds form, or Google's `retryDelay`. */
export function askedWait(headers: Readonly<Record<string, string>>, body: string, now: number): number | undefined {
  const exact = Number.parseFloat(headers["retry-after-ms"] ?? "");
  if (exact >= 0) return exact;
  const after = headers["retry-after"]?.trim();
  if (after !== undefined && after !== "") {
    const ms = /^\d+(\.\d+)?$/.test(after) ? Number(after) * 1000 : Date.parse(after) - now;
    if (Number.isFinite(ms)) return Math.max(0, ms);
  }
  const delay = /"retryDelay":\s*"(\d+(?:\.\d+)?)s"/.exec(body)?.[1];
  return delay === undefined ? undefined : Number(delay) * 1000;
}

/** The status and the provider's own words; never the request, which is long and may be private. */
function describe(error: APICallError, body: string): string {
  const status = error.statusCode === undefined ? "" : `HTTP ${error.statusCode}: `;
  if (error.statusCode !== undefined && error.statusCode < 300) {
    return `${status}the answer can't be read (${body.slice(0, 80).replace(/\s+/g, " ")}…)`;
  }
  const network = error.statusCode === undefined ? networkReason(error) : undefined;
  return `${status}${network ?? messageIn(body) ?? error.message}`.slice(0, MAX_SHOWN);
}

/** Why a connection failed, in the words of the innermost cause that has any: fetch itself says only that it failed. */
function networkReason(error: Error): string | undefined {
  let reason: string | undefined;
  for (let at: unknown = error.cause; at instanceof Error; at = at.cause) {
    const inner: unknown = at instanceof AggregateError ? at.errors[0] : at;
    const said = inner instanceof Error ? inner.message || (inner as NodeJS.ErrnoException).code : undefined;
    if (said) reason = said;
  }
  return reason;
}

function messageIn(body: string): string | undefined {
  try {
    const value: unknown = JSON.parse(body);
    const error = isJsonObject(value) ? value.error : undefined;
    if (isJsonObject(error) && typeof error.message === "string") return error.message;
    return typeof error === "string" ? error : undefined;
  } catch {
    return undefined;
  }
}

function bodyText(body: unknown): string {
  return typeof body === "string" ? body : body === undefined ? "" : JSON.stringify(body);
}
