/** Work that was accepted and is asked for later, again and again: a result stays for a while after it was first given out. */

import { DataError, errorMessage, SaccadeError } from "../../core/errors.ts";
import { EngineError, RuinedWeights } from "../../engine/errors.ts";
import { json } from "../../http/responses.ts";

/** Below the 45 s after which the SDK takes a silent server for a lost one. */
const HOLD_MS = 25_000;
const MAX_KEPT_MS = 600_000;
/** Who asks for it may be away for long, but not for ever. */
const UNFETCHED_MS = 24 * 3_600_000;
const SWEEP_MS = 10_000;

export type Outcome = { readonly json: unknown } | { readonly protobuf: Uint8Array };
/** `since`: when it was done, then when it was first given out. */
type Future = {
  readonly outcome: Promise<Outcome>;
  readonly stop: AbortController | undefined;
  since: number | undefined;
  given: boolean;
};

export class Futures {
  readonly #futures = new Map<string, Future>();
  #pending = 0;
  #sweptAt = 0;

  /** `stop`: ends the work, where it can be cancelled. */
  add(id: string, work: Promise<Outcome>, stop?: AbortController): void {
    const outcome = work.catch(failure);
    const future: Future = { outcome, stop, since: undefined, given: false };
    this.#futures.set(id, future);
    this.#pending += 1;
    void outcome.finally(() => {
      this.#pending -= 1;
      future.since ??= Date.now();
    });
    this.#forgetOld();
  }

  has(id: string): boolean {
    return this.#futures.has(id);
  }

  cancel(id: string): void {
    this.#futures.get(id)?.stop?.abort(new DataError("The client cancelled this sample."));
  }

  get pending(): number {
    return this.#pending;
  }

  /** Undefined: there is none of that name. */
  async retrieve(id: string, signal: AbortSignal): Promise<Response | undefined> {
    this.#forgetOld();
    const future = this.#futures.get(id);
    if (future === undefined) return undefined;
    let timer: NodeJS.Timeout | undefined;
    const patience = new Promise<undefined>((done) => {
      timer = setTimeout(() => done(undefined), HOLD_MS);
      signal.addEventListener("abort", () => done(undefined), { once: true });
    });
    const outcome = await Promise.race([future.outcome, patience]);
    clearTimeout(timer);
    if (outcome === undefined) return json({ queue_state: "active" }, { status: 408 });
    if (!future.given) future.since = Date.now();
    future.given = true;
    if ("json" in outcome) return json(outcome.json);
    const { protobuf } = outcome;
    return new Response(protobuf as Uint8Array<ArrayBuffer>, {
      headers: { "Content-Type": "application/x-protobuf", "Content-Length": String(protobuf.length) },
    });
  }

  #forgetOld(): void {
    if (Date.now() < this.#sweptAt + SWEEP_MS) return;
    this.#sweptAt = Date.now();
    for (const [id, { since, given }] of this.#futures)
      if (since !== undefined && since < this.#sweptAt - (given ? MAX_KEPT_MS : UNFETCHED_MS)) this.#futures.delete(id);
  }
}

/** In the form that the SDK turns into an exception at once. */
export function failure(error: unknown): Outcome {
  const theirs = error instanceof SaccadeError && (!(error instanceof EngineError) || error instanceof RuinedWeights);
  const category = theirs ? "user" : "server";
  return { json: { error: errorMessage(error), category } };
}
