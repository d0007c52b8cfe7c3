/**
 * When a request may be sent. Requests are spaced to the rate that was asked for, and all of them wait when the provider says to wait:
 * a limit is on the key, not on one conversation. Time comes from a clock, so that tests need none.
 */
import { setTimeout as delay } from "node:timers/promises";
import { episodeSignal } from "../rollout/deadline.ts";

export type Clock = {
  /** Milliseconds since 1970. */
  now(): number;
  /** Rejects when the signal is aborted. */
  wait(ms: number, signal: AbortSignal): Promise<void>;
  /** A signal that follows `outer` and is also aborted after `ms`; `release` lets go of it. */
  limit(ms: number, outer: AbortSignal): { signal: AbortSignal; release(): void };
  /** 0 to 1. */
  random(): number;
};

export const realClock: Clock = {
  now: Date.now,
  wait: (ms, signal) => delay(Math.min(ms, 2 ** 31 - 1), undefined, { signal }),
  // Not AbortSignal.any with AbortSignal.timeout, which may be collected before it fires.
  limit: episodeSignal,
  random: Math.random,
};

export class RequestGate {
  readonly #clock: Clock;
  /** Milliseconds between two requests. */
  readonly #spacing: number;
  #next = 0;

  constructor(clock: Clock, ratePerMinute = Number.POSITIVE_INFINITY) {
    this.#clock = clock;
    this.#spacing = 60_000 / ratePerMinute;
  }

  /** Returns when the next request may go. */
  async enter(signal: AbortSignal): Promise<void> {
    for (;;) {
      signal.throwIfAborted();
      const now = this.#clock.now();
      if (now >= this.#next) {
        this.#next = now + this.#spacing;
        return;
      }
      await this.#clock.wait(this.#next - now, signal);
    }
  }

  /** Holds everyone back. */
  hold(ms: number): void {
    this.#next = Math.max(this.#next, this.#clock.now() + ms);
  }
}

export type Backoff = { readonly firstMs: number; readonly mostMs: number };

/** Doubles with each attempt up to the most; half of it is random, so that those who failed together do not come back together. */
export function backoffMs(attempt: number, { firstMs, mostMs }: Backoff, random: number): number {
  return Math.min(mostMs, firstMs * 2 ** attempt) * (0.5 + 0.5 * random);
}
