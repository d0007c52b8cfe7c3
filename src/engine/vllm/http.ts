/**
 * Requests to inference servers. node:http instead of fetch, for three reasons: fetch gives up on an answer after five minutes, a long generation takes
 * longer; its idle connections outlive vLLM's (5 s), so that a request can meet one that is just being closed; and its pool has no limit.
 */
import http from "node:http";
import https from "node:https";
import type { z } from "zod";
import { errorMessage } from "../../core/errors.ts";
import { EngineError } from "../errors.ts";

/** Idle connections are closed before the server closes them. */
const IDLE_MS = 2000;
const CONTROL_SOCKETS = 8;

/** A server that could not be reached, was too slow, or broke down: the same request may succeed elsewhere or later. */
export class ServerLost extends EngineError {
  override name = "ServerLost";
}

/** A server that answered with an error. 5xx are its own doing. */
export class ServerRefused extends EngineError {
  override name = "ServerRefused";
  readonly status: number;
  /** `error.param` of the answer: the field that is wrong. */
  readonly param: string | undefined;
  constructor(url: string, status: number, body: string) {
    const { message, param } = explain(body);
    super(`${url} answered ${status}: ${message}`);
    this.status = status;
    this.param = param;
  }
}

export type RequestOptions = {
  readonly headers?: Readonly<Record<string, string>>;
  readonly signal?: AbortSignal;
  /** Asked of the server itself, as everything that is got. */
  readonly control?: boolean;
  /** Most milliseconds until the whole answer is here. */
  readonly timeoutMs: number;
  /** Takes a good answer piece by piece as it arrives; what it throws ends the request. */
  readonly onText?: (text: string) => void;
};

export class HttpClient {
  /** Without a slash at its end. */
  readonly url: string;
  readonly #agent: http.Agent;
  /** What is asked of the server itself does not wait behind hundreds of answers that are being drawn. */
  readonly #control: http.Agent;
  readonly #request: typeof http.request;
  readonly #key: string | undefined;

  constructor(url: string, { concurrency, key }: { readonly concurrency: number; readonly key?: string }) {
    const parsed = URL.canParse(url) ? new URL(url) : undefined;
    if (parsed === undefined || !/^https?:$/.test(parsed.protocol)) {
      throw new EngineError(`Name a server by its address, such as http://127.0.0.1:8000; got "${url}".`);
    }
    this.url = url.replace(/\/+$/, "");
    this.#key = key;
    const { Agent, request } = parsed.protocol === "https:" ? https : http;
    this.#request = request;
    this.#agent = new Agent({ keepAlive: true, maxSockets: concurrency, timeout: IDLE_MS });
    this.#control = new Agent({ keepAlive: true, maxSockets: CONTROL_SOCKETS, timeout: IDLE_MS });
  }

  async get(path: string, options: RequestOptions): Promise<unknown> {
    return parse(this.url, await this.#send("GET", path, undefined, { ...options, control: true }));
  }

  /** An empty answer is undefined. */
  async post(path: string, body: unknown, options: RequestOptions): Promise<unknown> {
    return parse(this.url, await this.#send("POST", path, body === undefined ? "" : JSON.stringify(body), options));
  }

  close(): void {
    this.#agent.destroy();
    this.#control.destroy();
  }

  /**
   * A connection that the server closed while it was idle says nothing about the server: one more try on a new one, and not on another of the agent's, which
   * may have been closed as well.
   */
  async #send(method: string, path: string, body: string | undefined, options: RequestOptions): Promise<string> {
    const stale = { found: false };
    try {
      return await this.#once(method, path, body, options, options.control ? this.#control : this.#agent, stale);
    } catch (error) {
      if (!stale.found) throw error;
      return this.#once(method, path, body, options, false, { found: false });
    }
  }

  #once(
    method: string,
    path: string,
    body: string | undefined,
    { headers, signal, timeoutMs, onText }: RequestOptions,
    agent: http.Agent | false,
    stale: { found: boolean },
  ): Promise<string> {
    return new Promise((resolve, reject) => {
      if (signal?.aborted) {
        reject(signal.reason);
        return;
      }
      const request = this.#request(`${this.url}${path}`, {
        method,
        agent,
        headers: {
          ...(body !== undefined && { "content-type": "application/json", "content-length": Buffer.byteLength(body) }),
          ...(this.#key !== undefined && { authorization: `Bearer ${this.#key}` }),
          ...headers,
        },
      });
      let answered = false;
      const timer = setTimeout(() => {
        fail(new ServerLost(`${this.url}${path} did not answer within ${Math.round(timeoutMs / 1000)} s.`));
      }, timeoutMs);
      const onAbort = () => fail(signal?.reason);
      const settle = () => {
        clearTimeout(timer);
        signal?.removeEventListener("abort", onAbort);
      };
      // Closing the connection is how a request is taken back.
      const fail = (reason: unknown) => {
        settle();
        reject(reason);
        request.destroy();
      };
      const lost = (error: Error) => {
        stale.found = !answered && request.reusedSocket && "code" in error && error.code === "ECONNRESET";
        fail(new ServerLost(`${this.url} was lost: ${errorMessage(error) || "no connection"}`));
      };
      signal?.addEventListener("abort", onAbort, { once: true });
      request.on("error", lost);
      request.on("response", (response) => {
        answered = true;
        const status = response.statusCode ?? 0;
        const good = status >= 200 && status < 300;
        const texts: string[] = [];
        response.setEncoding("utf8").on("data", (text: string) => {
          if (!good || onText === undefined) {
            texts.push(text);
            return;
          }
          try {
            onText(text);
          } catch (error) {
            fail(error);
          }
        });
        response.on("error", lost);
        response.on("end", () => {
          settle();
          const text = texts.join("");
          if (good) resolve(text);
          else reject(new ServerRefused(`${this.url}${path}`, status, text));
        });
      });
      request.end(body);
    });
  }
}

/** An answer in the form that this kind of server promises. */
export function readAnswer<T>(schema: z.ZodType<T>, answer: unknown, url: string, kind: string): T {
  const read = schema.safeParse(answer);
  if (read.success) return read.data;
  const [issue] = read.error.issues;
  throw new EngineError(
    `${url} answered in another format than ${kind}'s: ${issue?.path.join(".")}: ${issue?.message}.`,
  );
}

/** Server-sent events out of pieces of text: `take` gets the data of each. */
export function eventReader(take: (data: string) => void): (text: string) => void {
  let rest = "";
  return (text) => {
    const lines = (rest + text).split("\n");
    rest = lines.pop() ?? "";
    for (const line of lines) if (line.startsWith("data:")) take(line.slice(5).trim());
  };
}

function parse(url: string, text: string): unknown {
  if (text === "") return undefined;
  try {
    return JSON.parse(text);
  } catch {
    // Some routes say a word of success.
    if (text.length < 1000 && !/^\s*[{[]/.test(text)) return text;
    throw new ServerLost(`${url} answered with half a JSON body.`);
  }
}

/** The forms in which servers say what is wrong. */
function explain(body: string): { message: string; param?: string } {
  try {
    const { error, detail, message } = JSON.parse(body) as { error?: unknown; detail?: unknown; message?: unknown };
    if (typeof error === "object" && error !== null && "message" in error) {
      const param = "param" in error && typeof error.param === "string" ? error.param : undefined;
      return { message: String(error.message), ...(param !== undefined && { param }) };
    }
    return { message: String(error ?? detail ?? message ?? body) };
  } catch {
    return { message: body.slice(0, 500) || "nothing" };
  }
}
