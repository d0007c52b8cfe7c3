/** What a failed request means, and how long to wait. */
import { APICallError } from "ai";
import { describe, expect, test } from "vitest";
import { askedWait, classify } from "./failures.ts";
import { backoffMs, type Clock, RequestGate, realClock } from "./gate.ts";

const NOW = Date.parse("2026-11-15T10:00:00Z");

function failed(statusCode: number | undefined, body = "", headers: Record<string, string> = {}): APICallError {
  const status = statusCode === undefined ? {} : { statusCode };
  return new APICallError({
    message: "said the SDK",
    url: "http://x",
    requestBodyValues: { secret: "prompt" },
    ...status,
    responseBody: body,
    responseHeaders: headers,
  });
}

const google = (message: string, details: object[] = []) =>
  JSON.stringify({ error: { code: 400, message, status: "INVALID_ARGUMENT", details } });
const openai = (message: string, code: string) => JSON.stringify({ error: { message, type: "x", param: null, code } });
const anthropic = (message: string, type: string) => JSON.stringify({ type: "error", error: { type, message } });

describe("A failed request", () => {
  test.each([
    ["a rate limit", 429, openai("slow down", "rate_limit_exceeded"), "again"],
    ["an overloaded server", 529, anthropic("Overloaded", "overloaded_error"), "again"],
    ["a request time-out", 408, "", "again"],
    ["no connection", undefined, "", "again"],
    ["half an answer", 200, '{"id": "1', "again"],
    ["a failure inside a 200 of the Responses API", 400, '{"error":{"code":"server_error","message":"x"}}', "again"],
    ["a redirect", 307, "", "stop"],
    ["an empty account", 429, openai("pay", "insufficient_quota"), "stop"],
    ["a wrong key", 401, anthropic("invalid x-api-key", "authentication_error"), "stop"],
    ["a wrong key at Google", 400, google("API key not valid.", [{ reason: "API_KEY_INVALID" }]), "stop"],
    ["no such model", 404, anthropic("model: x", "not_found_error"), "stop"],
    ["OpenAI's context limit", 400, openai("too long", "context_length_exceeded"), "too_long"],
    ["vLLM's context limit", 400, openai("This model's maximum context length is 4096 tokens.", "400"), "too_long"],
    [
      "Anthropic's context limit",
      400,
      anthropic("prompt is too long: 210000 tokens > 200000 maximum", "invalid_request_error"),
      "too_long",
    ],
    [
      "Google's context limit",
      400,
      google("The input token count (1200000) exceeds the maximum number of tokens allowed"),
      "too_long",
    ],
    ["a body too large", 413, anthropic("Request exceeds the maximum size", "request_too_large"), "too_long"],
    ["a content filter", 400, openai("flagged", "content_filter"), "refused"],
    ["anything else that is our mistake", 400, openai("unknown parameter", "unknown_parameter"), "hopeless"],
    ["a forbidden request", 403, openai("no", "forbidden"), "hopeless"],
  ])("%s", (_, status, body, kind) => {
    expect(classify(failed(status, body), NOW).kind).toBe(kind);
  });

  test("is told in the provider's words and never shows the request", () => {
    const { message } = classify(failed(400, openai("unknown parameter: x", "y")), NOW);
    expect(message).toBe("HTTP 400: unknown parameter: x");
    expect(classify(new Error("boom"), NOW)).toEqual({ kind: "again", message: "boom" });
  });
});

describe("The wait a provider asks for", () => {
  test.each<[string, Record<string, string>, string, number | undefined]>([
    ["seconds", { "retry-after": "12" }, "", 12_000],
    ["a date", { "retry-after": "Sun, 15 Nov 2026 10:00:30 GMT" }, "", 30_000],
    ["a date gone by", { "retry-after": "Sun, 15 Nov 2026 09:00:00 GMT" }, "", 0],
    ["milliseconds, which win", { "retry-after-ms": "250", "retry-after": "9" }, "", 250],
    ["Google's delay", {}, '{"error":{"details":[{"retryDelay": "34.5s"}]}}', 34_500],
    ["nothing", {}, "{}", undefined],
    ["something unreadable", { "retry-after": "soon" }, "", undefined],
  ])("as %s", (_, headers, body, expected) => {
    expect(askedWait(headers, body, NOW)).toBe(expected);
  });
});

describe("Waiting", () => {
  test("backoff doubles up to its most, half of it random", () => {
    const backoff = { firstMs: 1000, mostMs: 60_000 };
    expect([0, 1, 2, 5, 6, 20].map((attempt) => backoffMs(attempt, backoff, 1))).toEqual([
      1000, 2000, 4000, 32_000, 60_000, 60_000,
    ]);
    expect(backoffMs(3, backoff, 0)).toBe(4000);
  });

  test("the gate spaces requests and holds everyone back when told to", async () => {
    let now = 0;
    const clock: Clock = {
      ...realClock,
      now: () => now,
      async wait(ms) {
        now += ms;
      },
    };
    const gate = new RequestGate(clock, 60);
    const { signal } = new AbortController();
    const entered: number[] = [];
    for (let i = 0; i < 4; i++) {
      await gate.enter(signal);
      entered.push(now);
      if (i === 2) gate.hold(10_000);
    }
    expect(entered).toEqual([0, 1000, 2000, 12_000]);
    await expect(gate.enter(AbortSignal.abort(new Error("stopped")))).rejects.toThrow("stopped");
  });
});
