/**
 * One server: its address and key, requests that are sent again while it is away, results that are polled. A request that has a sequence id may be sent
 * again whatever became of the first: the server does it once. One that has none is sent again only where it can't have arrived.
 */
import * as zlib from "node:zlib";
import { ConfigError, errorMessage } from "../core/errors.ts";
import { APIConnectionError, APIStatusError, RequestFailedError, TinkerError } from "./errors.ts";

export const HOSTED_URL = "https://tinker.thinkingmachines.dev/services/tinker-prod";
/** The version of the SDK whose wire this is. */
export const SDK_VERSION = "0.36.0";

export type ConnectionOptions = {
  /** Default: TINKER_BASE_URL, else the hosted service. */
  readonly base_url?: string;
  /** Default: TINKER_API_KEY. */
  readonly api_key?: string;
  /** How long a server may be away before a request fails, in milliseconds (default 5 minutes). */
  readonly patience_ms?: number;
};

export type ClientConfig = {
  readonly pjwt_auth_enabled?: boolean;
  readonly proto_compress_fwdbwd?: boolean;
  readonly fwdbwd_max_chunk_len?: number;
  readonly fwdbwd_max_chunk_bytes_count?: number;
  readonly sample_max_concurrent_requests?: number;
  /** Saccade's own servers say what they can do beyond the API. */
  readonly saccade?: Readonly<Record<string, unknown>>;
};

type DynamicConfig = { readonly sample_cancel_enabled?: boolean };

export type Ask = {
  readonly method?: "GET" | "POST" | "PUT" | "DELETE";
  /** JSON, or protobuf as bytes. */
  readonly body?: unknown;
  readonly headers?: Readonly<Record<string, string>>;
  readonly signal?: AbortSignal;
  /** `once`: not sent again where it may have arrived. `never`: not sent again. */
  readonly again?: "always" | "once" | "never";
};
type Answer = { readonly status: number; readonly type: string; readonly bytes: Uint8Array };
export type Retrieved = { readonly json: Readonly<Record<string, unknown>> } | { readonly protobuf: Uint8Array };

const POLL_MS = 60_000;
const REQUEST_MS = 120_000;
const JWT_MARGIN_MS = 300_000;

export class Connection {
  readonly url: string;
  readonly #key: string;
  readonly #patience: number;
  #config: Promise<ClientConfig> | undefined;
  #dynamic = false;
  #cancels = false;
  #jwt: { readonly token: string; readonly until: number } | undefined;
  #form: Promise<"protobuf" | "json"> | undefined;

  constructor({ base_url, api_key, patience_ms = 300_000 }: ConnectionOptions = {}) {
    this.url = (base_url ?? process.env.TINKER_BASE_URL ?? HOSTED_URL).replace(/\/+$/, "");
    if (!URL.canParse(this.url) || !/^https?:/.test(this.url)) {
      throw new ConfigError(`base_url is an address such as http://127.0.0.1:8000, got "${this.url}".`);
    }
    const key = api_key ?? process.env.TINKER_API_KEY ?? "";
    if (!/^(tml-|eyJ)/.test(key)) {
      throw new ConfigError("Set TINKER_API_KEY to a key of the server's, which begins with tml-.");
    }
    this.#key = key;
    this.#patience = patience_ms;
  }

  get hosted(): boolean {
    return this.url === HOSTED_URL;
  }

  /** What the server wants of its clients, asked once. */
  config(): Promise<ClientConfig> {
    this.#config ??= this.#handshake().catch((error) => {
      this.#config = undefined;
      throw error;
    });
    return this.#config;
  }

  /** Batches travel as protobuf, or, at servers that know neither it nor the newer handshake, as JSON. */
  form(empty: Uint8Array): Promise<"protobuf" | "json"> {
    this.#form ??= this.#askForm(empty).catch((error) => {
      this.#form = undefined;
      throw error;
    });
    return this.#form;
  }

  async json<T>(route: string, ask: Ask = {}): Promise<T> {
    await this.config();
    return readJson<T>(route, await this.#send(route, ask));
  }

  /** Of a result: as it came. */
  async retrieve(request: string, kind: string, signal?: AbortSignal): Promise<Retrieved> {
    const binary = kind === "Sample" || kind === "ForwardBackward" || kind === "Forward";
    let lastSeen = performance.now();
    for (let iteration = 0, failures = 0; ; iteration++) {
      signal?.throwIfAborted();
      let answer: Answer;
      try {
        answer = await this.#fetch("retrieve_future", {
          body: { request_id: request, allow_metadata_only: false },
          headers: {
            "X-Tinker-Request-Iteration": String(iteration),
            "X-Tinker-Request-Type": kind,
            ...(binary && { Accept: "application/x-protobuf, application/json" }),
          },
          ...(signal && { signal }),
          ms: POLL_MS,
        });
      } catch (error) {
        if (error instanceof TinkerError) throw error;
        signal?.throwIfAborted();
        if (isTimeout(error)) continue;
        this.#checkPatience(lastSeen, error);
        await pause(backoff(failures++));
        continue;
      }
      if (answer.status === 429 || answer.status >= 500) {
        this.#checkPatience(lastSeen, statusError("retrieve_future", answer));
        await pause(backoff(failures++));
        continue;
      }
      lastSeen = performance.now();
      failures = 0;
      if (answer.status === 408) continue;
      if (answer.status >= 300) throw statusError("retrieve_future", answer);
      if (answer.type.includes("application/x-protobuf")) return { protobuf: answer.bytes };
      const json = readJson<Record<string, unknown>>("retrieve_future", answer);
      if (json.type === "try_again") continue;
      if (json.error !== undefined && json.error !== null)
        throw new RequestFailedError(String(json.error), json.category);
      return { json };
    }
  }

  /** Nobody waits for a sample any more: servers that can are told to stop it. */
  cancel(request: string): void {
    if (!this.#cancels) return;
    void this.#fetch("cancel_future", { body: { request_id: request }, ms: REQUEST_MS }).catch(() => {});
  }

  /** Files of an export have addresses of their own, without a key. */
  async download(url: string): Promise<Uint8Array> {
    const answer = await fetch(url);
    if (!answer.ok) throw new APIStatusError(answer.status, `${url} answered ${answer.status}.`);
    return new Uint8Array(await answer.arrayBuffer());
  }

  async #handshake(): Promise<ClientConfig> {
    const asked = { body: { sdk_version: SDK_VERSION } };
    const config = readJson<ClientConfig>("client/config", await this.#send("client/config", asked));
    const dynamic = await this.#fetch("client/dynamic_config", { ...asked, ms: REQUEST_MS }).catch(() => undefined);
    this.#dynamic = dynamic !== undefined && dynamic.status < 300;
    const { sample_cancel_enabled: cancels } =
      this.#dynamic && dynamic ? readJson<DynamicConfig>("client/dynamic_config", dynamic) : {};
    this.#cancels = cancels === true;
    if (config.pjwt_auth_enabled === true) await this.#login();
    return config;
  }

  async #askForm(empty: Uint8Array): Promise<"protobuf" | "json"> {
    await this.config();
    if (this.#dynamic) return "protobuf";
    const { status } = await this.#patiently(() => this.#fetch("forward_backward", { body: empty, ms: REQUEST_MS }));
    return status === 415 || status === 422 || status >= 500 ? "json" : "protobuf";
  }

  async #login(): Promise<void> {
    this.#jwt = undefined;
    const { jwt } = readJson<{ jwt: string }>("auth/token", await this.#send("auth/token", { body: {} }));
    const claims = JSON.parse(Buffer.from(jwt.split(".")[1] ?? "", "base64url").toString() || "{}") as { exp?: number };
    this.#jwt = { token: jwt, until: (claims.exp ?? Number.POSITIVE_INFINITY) * 1000 };
  }

  async #send(route: string, { again = "always", ...ask }: Ask): Promise<Answer> {
    if (this.#jwt && route !== "auth/token" && Date.now() > this.#jwt.until - JWT_MARGIN_MS) await this.#login();
    const started = performance.now();
    for (let failures = 0; ; failures++) {
      ask.signal?.throwIfAborted();
      let wait = backoff(failures);
      try {
        const answer = await this.#fetch(route, { ...ask, ms: REQUEST_MS });
        if (answer.status < 300) return answer;
        const refused = statusError(route, answer);
        const passing = [408, 409, 429].includes(answer.status) || answer.status >= 500;
        if (!passing || again === "never" || (again === "once" && answer.status !== 429)) throw refused;
        this.#checkPatience(started, refused);
        wait = Math.max(wait, answer.status === 429 ? 500 : 0);
      } catch (error) {
        if (error instanceof TinkerError) throw error;
        ask.signal?.throwIfAborted();
        if (again === "once" && !neverArrived(error)) {
          throw new APIConnectionError(
            `The connection broke while sending ${route}. This server does not recognize repeats, so the client can't know whether it was executed, and does not retry.`,
          );
        }
        this.#checkPatience(again === "never" ? Number.NEGATIVE_INFINITY : started, error);
      }
      await pause(wait);
    }
  }

  async #patiently(work: () => Promise<Answer>): Promise<Answer> {
    const started = performance.now();
    for (let failures = 0; ; failures++) {
      try {
        return await work();
      } catch (error) {
        if (error instanceof TinkerError) throw error;
        this.#checkPatience(started, error);
        await pause(backoff(failures));
      }
    }
  }

  #checkPatience(since: number, error: unknown): void {
    if (performance.now() - since < this.#patience) return;
    if (error instanceof APIStatusError) throw error;
    throw new APIConnectionError(`${this.url} can't be reached: ${causeOf(error)}. Is the server up?`);
  }

  async #fetch(route: string, ask: Omit<Ask, "again"> & { readonly ms: number }): Promise<Answer> {
    const { method = "POST", body, headers, signal, ms } = ask;
    const binary = body instanceof Uint8Array;
    const { data, encoding } = binary
      ? await this.#packed(body)
      : { data: body === undefined ? "" : text(body), encoding: {} };
    const timeout = AbortSignal.timeout(ms);
    const response = await fetch(`${this.url}/api/v1/${route}`, {
      method,
      headers: {
        "X-API-Key": this.#jwt?.token ?? this.#key,
        Accept: "application/json",
        "User-Agent": `saccade (tinker ${SDK_VERSION})`,
        ...(method !== "GET" && { "Content-Type": binary ? "application/x-protobuf" : "application/json" }),
        ...encoding,
        ...headers,
      },
      ...(method !== "GET" && { body: data }),
      // Following would take the key to wherever the answer points.
      redirect: "manual",
      signal: signal ? AbortSignal.any([signal, timeout]) : timeout,
    });
    const elsewhere = response.headers.get("location");
    if (response.status >= 300 && response.status < 400 && elsewhere !== null) {
      await response.body?.cancel();
      throw new APIStatusError(
        response.status,
        `${this.url} answers ${route} with a redirect to ${new URL(elsewhere, response.url).origin}, which is not followed: the key is for ${this.url} alone. Set base_url to the server's own address.`,
      );
    }
    return {
      status: response.status,
      type: response.headers.get("content-type") ?? "",
      bytes: new Uint8Array(await response.arrayBuffer()),
    };
  }

  /** Compressed where the server asks for it and this Node can. */
  async #packed(body: Uint8Array): Promise<{ data: Uint8Array<ArrayBuffer>; encoding: Record<string, string> }> {
    const whole = body as Uint8Array<ArrayBuffer>;
    const { zstdCompressSync: compress } = zlib as {
      zstdCompressSync?: (bytes: Uint8Array) => Uint8Array<ArrayBuffer>;
    };
    const wanted = (await this.#config)?.proto_compress_fwdbwd === true;
    if (!wanted || compress === undefined) return { data: whole, encoding: {} };
    return { data: compress(whole), encoding: { "Content-Encoding": "zstd" } };
  }
}

/** JSON in which whole numbers of 64 bits are numbers. */
function text(body: unknown): string {
  return JSON.stringify(body, (_, value: unknown) => (typeof value === "bigint" ? `\u0001${value}` : value)).replace(
    /"\\u0001(-?\d+)"/g,
    "$1",
  );
}

function readJson<T>(route: string, { bytes }: Answer): T {
  if (bytes.length === 0) return {} as T;
  try {
    return JSON.parse(Buffer.from(bytes).toString("utf8")) as T;
  } catch {
    throw new TinkerError(`The server's answer to ${route} is not JSON.`);
  }
}

function statusError(route: string, { status, bytes }: Answer): APIStatusError {
  const said = Buffer.from(bytes).toString("utf8").slice(0, 2000);
  let detail: unknown = said;
  try {
    const parsed = JSON.parse(said) as { detail?: unknown; error?: unknown; message?: unknown };
    detail = parsed.detail ?? parsed.error ?? parsed.message ?? said;
  } catch {}
  const words = typeof detail === "string" ? detail : JSON.stringify(detail);
  return new APIStatusError(status, `${route} was answered with ${status}: ${words || "nothing"}`);
}

function codeOf(error: unknown): string | undefined {
  const cause = error instanceof Error ? (error.cause as { code?: string } | undefined) : undefined;
  return cause?.code;
}

function causeOf(error: unknown): string {
  const cause = error instanceof Error ? error.cause : undefined;
  return cause instanceof Error ? cause.message || (codeOf(error) ?? "") : errorMessage(error);
}

function neverArrived(error: unknown): boolean {
  return ["ECONNREFUSED", "ENOTFOUND", "EAI_AGAIN", "UND_ERR_CONNECT_TIMEOUT"].includes(codeOf(error) ?? "");
}

function isTimeout(error: unknown): boolean {
  return error instanceof Error && error.name === "TimeoutError";
}

function backoff(failures: number): number {
  return Math.min(100 * 2 ** failures, 10_000) * (0.75 + 0.25 * Math.random());
}

function pause(ms: number): Promise<void> {
  return new Promise((done) => setTimeout(done, ms));
}
