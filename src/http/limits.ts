/** How much one request may bring, and how many may be at work: a server that takes everything falls to the first that sends too much. */
import { isTooDeep } from "../core/json.ts";
import { HttpError } from "./errors.ts";
import type { HttpRequest } from "./request.ts";

/** The body, whole; refused with 413 as soon as it is longer than it may be. */
export async function readBody(request: HttpRequest, mostBytes: number): Promise<Uint8Array> {
  const tooLong = () => new HttpError(413, `A request has at most ${mostBytes} bytes.`);
  if (Number(request.headers.get("content-length") ?? 0) > mostBytes) throw tooLong();
  const parts: Uint8Array[] = [];
  let size = 0;
  for await (const part of request.body ?? []) {
    size += part.length;
    if (size > mostBytes) throw tooLong();
    parts.push(part);
  }
  return Buffer.concat(parts);
}

export async function readJson(request: HttpRequest, mostBytes: number): Promise<unknown> {
  // A page of another site can't send this type without asking first.
  if (!/^application\/json\b/i.test(request.headers.get("content-type") ?? "")) {
    throw new HttpError(400, "Send JSON, with Content-Type: application/json.");
  }
  const body = await readBody(request, mostBytes);
  let value: unknown;
  try {
    value = JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(body));
  } catch {
    throw new HttpError(400, "The request is not JSON.");
  }
  if (isTooDeep(value)) throw new HttpError(400, "The request nests too deeply.");
  return value;
}

export type SlotOptions = {
  /** At work at a time. */
  readonly most: number;
  /** Waiting besides; one more is refused with 503. */
  readonly waiting: number;
  readonly retryAfterSeconds?: number;
};

/** So many pieces of work at a time, the others in the order they came. */
export class Slots {
  readonly #options: SlotOptions;
  readonly #queue: (() => void)[] = [];
  #busy = 0;

  constructor(options: SlotOptions) {
    this.#options = options;
  }

  /** Does the work when a slot is free; who has gone by then (`signal`) loses the turn to the next. */
  async run<T>(work: () => Promise<T>, signal?: AbortSignal): Promise<T> {
    await this.#enter(signal);
    try {
      signal?.throwIfAborted();
      return await work();
    } finally {
      // The slot goes from hand to hand, so that nobody slips in between.
      const next = this.#queue.shift();
      if (next === undefined) this.#busy -= 1;
      else next();
    }
  }

  async #enter(signal: AbortSignal | undefined): Promise<void> {
    signal?.throwIfAborted();
    const { most, waiting, retryAfterSeconds = 1 } = this.#options;
    if (this.#busy < most) {
      this.#busy += 1;
      return;
    }
    if (this.#queue.length >= waiting) {
      throw new HttpError(503, "Too many requests are waiting; try again later.", {
        "Retry-After": String(retryAfterSeconds),
      });
    }
    await new Promise<void>((turn, leave) => {
      const enter = () => {
        signal?.removeEventListener("abort", abort);
        turn();
      };
      const abort = () => {
        this.#queue.splice(this.#queue.indexOf(enter), 1);
        leave(signal?.reason);
      };
      this.#queue.push(enter);
      signal?.addEventListener("abort", abort, { once: true });
    });
  }
}
