/**
 * Bytes that several pieces of work may hold together. Each takes all it needs at once, in the order they came, so that no two wait for each other;
 * one that needs more than there is at all is let in when nothing else is held.
 */
import { HttpError } from "./errors.ts";

type Waiting = { readonly bytes: number; readonly enter: () => void };

export class Budget {
  readonly most: number;
  readonly #waitMs: number | undefined;
  readonly #queue: Waiting[] = [];
  #held = 0;

  /** `waitMs`: after so long without room it is refused with 503. */
  constructor(most: number, waitMs?: number) {
    this.most = most;
    this.#waitMs = waitMs;
  }

  get held(): number {
    return this.#held;
  }

  /** Gives back what gives it back, which may be called more than once. */
  async take(bytes: number, signal?: AbortSignal): Promise<() => void> {
    signal?.throwIfAborted();
    if (this.#queue.length > 0 || !this.#fits(bytes)) await this.#wait(bytes, signal);
    else this.#held += bytes;
    let isHeld = true;
    return () => {
      if (!isHeld) return;
      isHeld = false;
      this.#held -= bytes;
      this.#admit();
    };
  }

  #fits(bytes: number): boolean {
    return this.#held === 0 || this.#held + bytes <= this.most;
  }

  #admit(): void {
    for (let next = this.#queue[0]; next !== undefined && this.#fits(next.bytes); next = this.#queue[0]) {
      this.#queue.shift();
      this.#held += next.bytes;
      next.enter();
    }
  }

  #wait(bytes: number, signal: AbortSignal | undefined): Promise<void> {
    return new Promise<void>((enter, leave) => {
      const end = () => {
        clearTimeout(timer);
        signal?.removeEventListener("abort", abort);
      };
      const waiting = {
        bytes,
        enter: () => {
          end();
          enter();
        },
      };
      const giveUp = (error: unknown) => {
        end();
        this.#queue.splice(this.#queue.indexOf(waiting), 1);
        leave(error);
        this.#admit();
      };
      const abort = () => giveUp(signal?.reason);
      const full = () => giveUp(new HttpError(503, "The server is busy; try again later.", { "Retry-After": "1" }));
      const timer = this.#waitMs === undefined ? undefined : setTimeout(full, this.#waitMs).unref();
      this.#queue.push(waiting);
      signal?.addEventListener("abort", abort, { once: true });
    });
  }
}
