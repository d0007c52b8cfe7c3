/**
 * Retries act once. A client that lost an answer sends its request again: with the same `Idempotency-Key`, or, as the SDKs of OpenAI and Anthropic do, with
 * an equal body and `x-stainless-retry-count` above 0. It then gets the answer of the first attempt, or what that attempt still writes. Equal bodies
 * without either are requests of their own.
 *
 * An attempt ends when every client that waits for it has left: what it did not finish, it did not do. Answers that are errors are not remembered.
 */
import { createHash } from "node:crypto";
import { setMaxListeners } from "node:events";
import { canonicalJson } from "../core/json.ts";
import type { HttpRequest } from "../http/request.ts";
import { ApiError } from "./errors.ts";

export type RetryOptions = {
  /** Answers that are remembered at most, and their bytes; default 1024 and 32 MiB. */
  readonly maxAnswers?: number;
  readonly maxBytes?: number;
};

type Act = (request: HttpRequest) => Promise<Response>;

export class Retries {
  readonly #maxAnswers: number;
  readonly #maxBytes: number;
  /** Oldest first. */
  readonly #attempts = new Set<Attempt>();

  constructor({ maxAnswers = 1024, maxBytes = 32 * 1024 * 1024 }: RetryOptions = {}) {
    this.#maxAnswers = maxAnswers;
    this.#maxBytes = maxBytes;
  }

  /** `scope` keeps callers and routes apart. `act` answers the request that it is given, whose signal and end are those of all clients together. */
  async once(request: HttpRequest, body: unknown, scope: string, act: Act): Promise<Response> {
    const key = request.headers.get("idempotency-key");
    const isRetry = Number(request.headers.get("x-stainless-retry-count") ?? 0) > 0;
    const isMarked = key !== null || request.headers.get("x-stainless-retry-count") !== null;
    // A client that never says so never retries.
    if (!isMarked) return act(request);
    const hash = createHash("sha256").update(canonicalJson(body)).digest("hex");
    const name = JSON.stringify([scope, key ?? hash]);
    const known = [...this.#attempts].filter((attempt) => attempt.name === name && !attempt.isGone);
    if (key !== null && known.some((attempt) => attempt.hash !== hash)) {
      throw new ApiError(409, "This Idempotency-Key was used with another body: use a new key for a new request.");
    }
    // An answer that nobody got whole was lost first of all.
    const lost = known.filter((attempt) => key !== null || !attempt.isClaimed);
    const first = lost.find((attempt) => !attempt.isDelivered) ?? lost.at(-1);
    if ((key !== null || isRetry) && first !== undefined) {
      first.isClaimed = true;
      return first.join(request);
    }
    const attempt = new Attempt(name, hash);
    this.#attempts.add(attempt);
    const joined = attempt.join(request);
    void attempt.run(request, act).then(() => this.#trim());
    return joined;
  }

  #trim(): void {
    for (const attempt of this.#attempts) if (attempt.isGone) this.#attempts.delete(attempt);
    let bytes = [...this.#attempts].reduce((sum, attempt) => sum + attempt.bytes, 0);
    for (const attempt of this.#attempts) {
      if (this.#attempts.size <= this.#maxAnswers && bytes <= this.#maxBytes) return;
      if (!attempt.isOver) continue;
      this.#attempts.delete(attempt);
      bytes -= attempt.bytes;
    }
  }
}

/** One time that a request is acted upon, and all that was written for it. */
class Attempt {
  readonly name: string;
  readonly hash: string;
  bytes = 0;
  /** A retry has asked for it. */
  isClaimed = false;
  /** Somebody got all of it. */
  isDelivered = false;
  isOver = false;
  /** It failed, or was given up: it can't be asked for again. */
  isGone = false;
  readonly #stop = new AbortController();
  readonly #ends: (() => void)[] = [];
  readonly #pieces: Uint8Array[] = [];
  #head: Pick<Response, "status" | "headers"> | undefined;
  #error: unknown;
  #clients = 0;
  #wakes: (() => void)[] = [];

  constructor(name: string, hash: string) {
    this.name = name;
    this.hash = hash;
    setMaxListeners(0, this.#stop.signal);
  }

  async run(request: HttpRequest, act: Act): Promise<void> {
    try {
      const onEnd = (then: () => void) => void (this.isOver ? then() : this.#ends.push(then));
      const response = await act({ ...request, headers: request.headers, signal: this.#stop.signal, onEnd });
      if (response.status >= 400) this.isGone = true;
      this.#head = response;
      this.#wake();
      if (response.body !== null) {
        for await (const piece of response.body as unknown as AsyncIterable<Uint8Array>) {
          this.#pieces.push(piece);
          this.bytes += piece.length;
          this.#wake();
        }
      }
    } catch (error) {
      this.#error = error;
      this.isGone = true;
    }
    if (this.#stop.signal.aborted) this.isGone = true;
    this.isOver = true;
    this.#wake();
    for (const then of this.#ends.splice(0)) then();
  }

  /** The answer, from its beginning. */
  async join({ signal }: HttpRequest): Promise<Response> {
    this.#clients += 1;
    const leave = () => {
      this.#clients -= 1;
      if (this.#clients === 0 && !this.isOver) {
        this.isGone = true;
        this.#stop.abort(signal.reason);
      }
    };
    if (signal.aborted) leave();
    else signal.addEventListener("abort", leave, { once: true });
    while (this.#head === undefined && !this.isOver) await this.#change();
    if (this.#head === undefined) throw this.#error ?? signal.reason;
    let sent = 0;
    const body = new ReadableStream<Uint8Array>({
      pull: async (controller) => {
        while (sent >= this.#pieces.length && !this.isOver) await this.#change();
        const piece = this.#pieces[sent++];
        if (piece !== undefined) {
          controller.enqueue(piece);
          return;
        }
        if (this.#error !== undefined) {
          controller.error(this.#error);
          return;
        }
        this.isDelivered = !signal.aborted;
        signal.removeEventListener("abort", leave);
        controller.close();
      },
    });
    return new Response(body, { status: this.#head.status, headers: this.#head.headers });
  }

  #change(): Promise<void> {
    return new Promise((done) => this.#wakes.push(done));
  }

  #wake(): void {
    for (const wake of this.#wakes.splice(0)) wake();
  }
}
