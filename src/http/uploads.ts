/**
 * Bodies on their way in, of all requests together. A body is read when there is room for all of it; until then it waits in the network, not in
 * memory. Short ones have room of their own, so that long uploads never keep a plain question waiting. One that stops coming is ended.
 */
import type { IncomingMessage } from "node:http";
import { Budget } from "./budget.ts";
import { HttpError } from "./errors.ts";

const MIB = 1024 * 1024;

export type UploadOptions = {
  /** Bytes of a body that counts as short; default 4 MiB. */
  readonly short?: number;
  /** Bytes of all short ones, and of all others, from their first byte to the end of the answer; default 64 and 192 MiB. */
  readonly maxShort?: number;
  readonly maxLong?: number;
  /** Bytes of one that does not say how long it is; default 8 MiB. */
  readonly maxUnsized?: number;
  /** Milliseconds without a byte after which it is ended with 408; default 20 s. */
  readonly stallMs?: number;
  /** Milliseconds after which one that finds no room is told to come back; default 60 s. */
  readonly waitMs?: number;
};

export class Uploads {
  readonly #short: number;
  readonly #maxUnsized: number;
  readonly #stallMs: number;
  readonly #shorts: Budget;
  readonly #longs: Budget;

  constructor(options: UploadOptions = {}) {
    const { short = 4 * MIB, maxShort = 64 * MIB, maxLong = 192 * MIB, maxUnsized = 8 * MIB } = options;
    const { stallMs = 20_000, waitMs = 60_000 } = options;
    this.#short = short;
    this.#maxUnsized = maxUnsized;
    this.#stallMs = stallMs;
    this.#shorts = new Budget(maxShort, waitMs);
    this.#longs = new Budget(maxLong, waitMs);
  }

  /** The parts of a body. Its room is given back by `onEnd`, since what was read lives on in what was made of it. */
  async *read(
    incoming: IncomingMessage,
    signal: AbortSignal,
    onEnd: (then: () => void) => void,
  ): AsyncGenerator<Uint8Array, void, void> {
    const length = incoming.headers["content-length"];
    const most = length === undefined ? this.#maxUnsized : Number(length);
    onEnd(await (most > this.#short ? this.#longs : this.#shorts).take(most, signal));
    // Who stops reading still answers, over the same connection.
    const parts = incoming.iterator({ destroyOnReturn: false });
    let stop: (error: Error) => void = () => {};
    const stalled = new Promise<never>((_, fail) => {
      stop = fail;
    });
    stalled.catch(() => {});
    const late = () => stop(new HttpError(408, `No byte of the request came for ${this.#stallMs / 1000} seconds.`));
    const timer = setTimeout(late, this.#stallMs);
    try {
      for (let size = 0; ; ) {
        const { value, done } = await Promise.race([parts.next(), stalled]);
        if (done) return;
        timer.refresh();
        size += value.length;
        if (size > most) {
          throw new HttpError(413, `A request without Content-Length has at most ${most} bytes: send its length.`);
        }
        yield value;
      }
    } finally {
      clearTimeout(timer);
    }
  }
}
