/**
 * Waiting with limits. What is waited for may hang or ignore its signal: the wait ends all the same, and a late failure of the abandoned
 * work is swallowed. No timer and no listener outlives the wait.
 */

/** Thrown when the time is over. */
export class TimedOut extends Error {
  override name = "TimedOut";
}

/** The result of `work`, or a rejection with `TimedOut` after `ms`, or with the signal's reason once that is aborted. */
export function within<T>(work: () => T | PromiseLike<T>, ms: number, signal?: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    if (signal?.aborted) return reject(signal.reason);
    const finish = (settle: () => void) => {
      clearTimeout(timer);
      signal?.removeEventListener("abort", onAbort);
      settle();
    };
    const onAbort = () => finish(() => reject(signal?.reason));
    const timer = delay(() => finish(() => reject(new TimedOut(`no answer within ${ms} ms`))), ms);
    signal?.addEventListener("abort", onAbort, { once: true });
    // Inside a promise, so that a synchronous throw is a rejection too.
    Promise.resolve()
      .then(work)
      .then(
        (value) => finish(() => resolve(value)),
        (error) => finish(() => reject(error)),
      );
  });
}

/** A controller that aborts when `outer` does, or after `ms` with `TimedOut` and these words; `release` lets go of both. */
export function episodeSignal(
  ms: number,
  outer?: AbortSignal,
  late = `the episode took more than ${ms} ms`,
): { signal: AbortSignal; release: () => void } {
  const controller = new AbortController();
  const onAbort = () => controller.abort(outer?.reason);
  if (outer?.aborted) onAbort();
  outer?.addEventListener("abort", onAbort, { once: true });
  const timer = delay(() => controller.abort(new TimedOut(late)), ms);
  return {
    signal: controller.signal,
    release() {
      clearTimeout(timer);
      outer?.removeEventListener("abort", onAbort);
    },
  };
}

/** setTimeout fires at once for delays beyond 2^31 − 1. */
function delay(callback: () => void, ms: number): NodeJS.Timeout | undefined {
  return ms > 2 ** 31 - 1 ? undefined : setTimeout(callback, ms);
}
