/**
 * The models that clients train, and the work that was accepted for them: written to the journal first, done once however often it is sent, found again by
 * its future after a restart.
 */
import { createHash, randomUUID } from "node:crypto";
import { setMaxListeners } from "node:events";
import { HttpError } from "../../http/errors.ts";
import { json } from "../../http/responses.ts";
import type { ReceivedBatch } from "../../tinker/messages.ts";
import { findModel } from "./find.ts";
import { Futures, failure, type Outcome } from "./futures.ts";
import { type ModelRow, now, type OperationRow } from "./journal.ts";
import { readOutcome, recordOutcome, TrainedModel, type Workshop } from "./training.ts";

const MAX_PENDING = 4096;
/** Bodies of accepted work wait in memory. */
const MAX_PENDING_BYTES = 256 * 1024 * 1024;
/** A model that nobody asked for this long leaves memory; it comes back from its snapshot and the journal. */
const IDLE_SECONDS = 3600;

export class Models {
  readonly #shop: Workshop;
  readonly #futures = new Futures();
  readonly #models = new Map<string, Promise<TrainedModel>>();
  readonly #loaded = new Map<string, TrainedModel>();
  #isClosed = false;
  #pendingBytes = 0;

  constructor(shop: Workshop) {
    this.#shop = shop;
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    const models = await Promise.allSettled(this.#models.values());
    await Promise.allSettled(models.map((model) => (model.status === "fulfilled" ? model.value.close() : undefined)));
  }

  /** One that the journal has. */
  open(id: string): Response {
    this.closeIf(({ used }) => used < now() - IDLE_SECONDS);
    return accepted(this.#futureOf(id));
  }

  /** Accepted once, however often it is sent. */
  submit(kind: string, model: string, seq: string | null, body: Uint8Array, batch?: ReceivedBatch): Response {
    const { journal } = this.#shop;
    const opening = this.#model(model);
    const digest = createHash("sha256").update(kind).update(body).digest("hex");
    const known = journal.one<{ request: string; digest: string }>(
      "SELECT request, digest FROM operations WHERE model = ? AND seq = ?",
      ...[model, seq],
    );
    if (known !== undefined) {
      if (known.digest !== digest)
        throw new HttpError(400, `Operation ${seq} of ${model} was already used for something else.`);
      return accepted(known.request);
    }
    this.#checkRoom();
    if (this.#pendingBytes > 0 && this.#pendingBytes + body.length > MAX_PENDING_BYTES) {
      throw new HttpError(429, `More than ${MAX_PENDING_BYTES} bytes are waiting for training; send them later.`);
    }
    const request = `${kind}:${randomUUID()}`;
    journal.together(() => {
      journal.run(
        "INSERT INTO operations (request, model, seq, kind, body, digest) VALUES (?, ?, ?, ?, ?, ?)",
        ...[request, model, seq, kind, body, digest],
      );
      journal.run("UPDATE models SET used = ? WHERE id = ?", now(), model);
    });
    const { position } = journal.one<{ position: number }>(
      "SELECT position FROM operations WHERE request = ?",
      request,
    ) ?? { position: 0 };
    this.#pendingBytes += body.length;
    const work = opening.then(
      (trained) => trained.run({ position, request, model, kind, body, outcome: null, ...(batch && { batch }) }),
      (error) => {
        // Told once, it stays so: whoever opens the model later must not do what a client believes undone.
        const outcome = failure(error);
        recordOutcome(journal, position, outcome);
        return outcome;
      },
    );
    const done = work.finally(() => {
      this.#pendingBytes -= body.length;
    });
    this.#futures.add(request, done);
    return accepted(request);
  }

  /** Samples are not journalled: they can be drawn again. `prepare` may refuse; what it returns is the work. */
  async sample(request: string, prepare: () => Promise<(signal: AbortSignal) => Promise<Outcome>>): Promise<void> {
    if (this.#futures.has(request)) return;
    this.#checkRoom();
    const work = await prepare();
    if (this.#futures.has(request)) return;
    const stop = new AbortController();
    // As many samples as one request may ask for listen to it.
    setMaxListeners(0, stop.signal);
    this.#futures.add(request, work(stop.signal), stop);
  }

  /** A sample that nobody waits for; training is in the journal and goes on. */
  cancel(request: string): void {
    this.#futures.cancel(request);
  }

  async retrieve(id: string, signal: AbortSignal): Promise<Response> {
    if (!this.#futures.has(id)) await this.#recall(id);
    const answer = await this.#futures.retrieve(id, signal);
    if (answer !== undefined) return answer;
    // A sample can be drawn again; what a training operation said long ago is gone.
    throw new HttpError(id.startsWith("sample:") ? 410 : 404, "There is no such future, or its result has expired.");
  }

  /** Those that fit and have nothing to do leave memory, once everything that was accepted has reached its model. */
  closeIf(fits: (row: ModelRow) => boolean): void {
    setImmediate(() => {
      for (const [id, model] of this.#loaded) {
        if (!model.isIdle || this.#isClosed || !fits(findModel(this.#shop.journal, id))) continue;
        this.#models.delete(id);
        this.#loaded.delete(id);
        void model.close();
      }
    });
  }

  #checkRoom(): void {
    if (this.#futures.pending >= MAX_PENDING) throw new HttpError(429, "Too many requests are waiting.");
  }

  #futureOf(id: string): string {
    const request = `create:${id}`;
    if (!this.#futures.has(request)) {
      const opening = this.#model(id).then(() => ({ json: { model_id: id, type: "create_model" } }));
      this.#futures.add(request, opening);
    }
    return request;
  }

  /** Loaded when it is first needed; what the journal has beyond the last snapshot is done again, in order. */
  #model(id: string): Promise<TrainedModel> {
    const known = this.#models.get(id);
    if (known !== undefined) return known;
    const { journal } = this.#shop;
    const row = findModel(journal, id);
    // Read at once: what is accepted from now on is run by who accepts it.
    const pending = journal.all<OperationRow>(
      "SELECT position, request, model, kind, body, outcome FROM operations WHERE model = ? AND position > ? ORDER BY position",
      ...[id, row.position],
    );
    const opening = TrainedModel.open(this.#shop, row).then((model) => {
      this.#loaded.set(id, model);
      for (const operation of pending) this.#futures.add(operation.request, model.run(operation));
      return model;
    });
    this.#models.set(id, opening);
    // A model that could not be opened may be opened later.
    opening.catch(() => this.#models.delete(id));
    return opening;
  }

  /** After a restart: what the journal knows comes back with its model. */
  async #recall(id: string): Promise<void> {
    const { journal } = this.#shop;
    if (id.startsWith("create:")) {
      const model = id.slice("create:".length);
      if (journal.one("SELECT id FROM models WHERE id = ?", model) !== undefined) this.#futureOf(model);
      return;
    }
    const found = journal.one<OperationRow>("SELECT position, model, outcome FROM operations WHERE request = ?", id);
    if (found === undefined) return;
    const outcome = readOutcome(found);
    if (outcome !== undefined) this.#futures.add(id, Promise.resolve(outcome));
    else await this.#model(found.model);
  }
}

function accepted(request: string): Response {
  return json({ request_id: request, model_id: null });
}
