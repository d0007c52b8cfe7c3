/** How much one request may bring, and how many may be at work: a server that takes everything falls to the first that sends too much. */
import { JSON_LIMITS, type JsonLimits, JsonScan } from "../core/json.ts";
import { turn } from "../core/turns.ts";
import { HttpError } from "./errors.ts";
import type { HttpRequest } from "./request.ts";

/** Gives the parts of a body to `take` as they come; refused with 413 as soon as it is longer than it may be. */
async function eachPart(
  request: HttpRequest,
  maxBytes: number,
  take: (part: Uint8Array, before: number) => void,
): Promise<number> {
  const tooLong = () => new HttpError(413, `A request has at most ${maxBytes} bytes.`);
  if (announced(request) > maxBytes) throw tooLong();
  let size = 0;
  for await (const part of request.body ?? []) {
    if (size + part.length > maxBytes) throw tooLong();
    take(part, size);
    size += part.length;
  }
  return size;
}

const announced = ({ headers }: HttpRequest) => Number(headers.get("content-length") ?? 0);

/** The body, whole. */
export async function readBody(request: HttpRequest, maxBytes: number): Promise<Uint8Array> {
  // Where its length is known, the body is never in memory twice.
  const length = announced(request);
  const whole = length > 0 && length <= maxBytes ? Buffer.allocUnsafeSlow(length) : undefined;
  const parts: Uint8Array[] = [];
  const size = await eachPart(request, maxBytes, (part, before) => {
    if (whole === undefined) parts.push(part);
    else whole.set(part, before);
  });
  return whole === undefined ? Buffer.concat(parts) : whole.subarray(0, size);
}

/** Bytes that take more than a few milliseconds to parse. */
const LONG = 256 * 1024;

export type TextOptions = { readonly bytes: number; readonly json?: JsonLimits };

/** The text of a body of JSON that is neither too long nor too much to be parsed; `refuse` words why it is not taken. */
export async function readJsonText(
  request: HttpRequest,
  { bytes, json = JSON_LIMITS }: TextOptions,
  refuse: (what: string) => HttpError = (what) => new HttpError(400, `The request can't be read: ${what}.`),
): Promise<string> {
  const scan = new JsonScan(json);
  const decoder = new TextDecoder("utf-8", { fatal: true });
  const decode = (part?: Uint8Array) => {
    try {
      return part === undefined ? decoder.decode() : decoder.decode(part, { stream: true });
    } catch {
      throw refuse("it is not UTF-8");
    }
  };
  // Decoded as it comes: a hundred megabytes at once would keep everybody else waiting.
  let text = "";
  const size = await eachPart(request, bytes, (part) => {
    const wrong = scan.push(part);
    if (wrong !== undefined) throw refuse(wrong);
    text += decode(part);
  });
  text += decode();
  if (!scan.isClosed) throw refuse("this is not JSON");
  if (size > LONG) await turn();
  return text;
}

export async function readJson(request: HttpRequest, maxBytes: number): Promise<unknown> {
  // A page of another site can't send this type without asking first.
  if (!/^application\/json\b/i.test(request.headers.get("content-type") ?? "")) {
    throw new HttpError(400, "Send JSON, with Content-Type: application/json.");
  }
  const text = await readJsonText(request, { bytes: maxBytes });
  try {
    return JSON.parse(text);
  } catch {
    throw new HttpError(400, "The request is not JSON.");
  }
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
