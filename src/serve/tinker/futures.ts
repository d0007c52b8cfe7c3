/** Work that was accepted and is asked for later, again and again: a result stays for a while after it was first given out. */

import { errorMessage, SaccadeError } from "../../core/errors.ts";
import { EngineError, RuinedWeights } from "../../engine/errors.ts";
import { json } from "../../http/responses.ts";

/** Below the 45 s after which the SDK takes a silent server for a lost one. */
const HOLD_MS = 25_000;
const KEPT_MS = 600_000;
const SWEEP_MS = 10_000;

export type Outcome = { readonly json: unknown } | { readonly protobuf: Uint8Array };
type Future = { readonly outcome: Promise<Outcome>; givenAt: number | undefined };

export class Futures {
  readonly #futures = new Map<string, Future>();
  #pending = 0;
  #sweptAt = 0;

  add(id: string, work: Promise<Outcome>): void {
    const outcome = work.catch(failure);
    this.#futures.set(id, { outcome, givenAt: undefined });
    this.#pending += 1;
    void outcome.finally(() => {
      this.#pending -= 1;
    });
  }

  has(id: string): boolean {
    return this.#futures.has(id);
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
    future.givenAt ??= Date.now();
    if ("json" in outcome) return json(outcome.json);
    const { protobuf } = outcome;
    return new Response(protobuf as Uint8Array<ArrayBuffer>, {
      headers: { "Content-Type": "application/x-protobuf", "Content-Length": String(protobuf.length) },
    });
  }

  #forgetOld(): void {
    if (Date.now() < this.#sweptAt + SWEEP_MS) return;
    this.#sweptAt = Date.now();
    const before = this.#sweptAt - KEPT_MS;
    for (const [id, { givenAt }] of this.#futures)
      if (givenAt !== undefined && givenAt < before) this.#futures.delete(id);
  }
}

/** In the form that the SDK turns into an exception at once. */
export function failure(error: unknown): Outcome {
  const theirs = error instanceof SaccadeError && (!(error instanceof EngineError) || error instanceof RuinedWeights);
  const category = theirs ? "user" : "server";
  return { json: { error: errorMessage(error), category } };
}
