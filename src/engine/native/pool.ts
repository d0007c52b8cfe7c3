/**
 * Worker threads that compute, so that the main thread never does. `run` gives a job to the next free worker, one at a time each; `send` talks
 * to a certain worker at once, for sampling, where a worker keeps state. A worker that dies rejects what it was doing with an EngineError and
 * is replaced when the next job comes; jobs carry all they need, so a new worker knows as much as the old one did. WebAssembly kernels share one memory: a
 * worker that dies may leave it in any state, so all workers end with it and a new memory is made.
 */
import { ConfigError, DataError, errorMessage, ImageError } from "../../core/errors.ts";
import { coreCount, soon } from "../../core/platform.ts";
import type { OnToken } from "../engine.ts";
import { EngineError, RuinedWeights } from "../errors.ts";
import type { Drawn, Job, JobResult, Note, Reply, Request, WorkerPlace } from "./jobs.ts";
import type { KernelChoice } from "./kernels/index.ts";
import { openMemory, type WasmThread } from "./kernels/wasm-memory.ts";

/** A thread that takes messages: what Node's `Worker` is. */
export type Thread = {
  postMessage(message: unknown): void;
  terminate(): Promise<unknown>;
  /** Whether the process lives on for its sake. */
  ref(): void;
  unref(): void;
  on(event: "message" | "error" | "exit", heard: (value: unknown) => void): unknown;
};

/** Where threads come from: Node (threads.ts), or a page. */
export type Threads = {
  /** Which kernels they run; asked once a memory. */
  choose(): Promise<KernelChoice>;
  /** Takes lists of `Request`, answers with lists of `Reply` and `Drawn`. */
  worker(place: WorkerPlace): Thread;
  /** Only helps inside WebAssembly kernels. */
  helper(place: WasmThread): Thread;
};

type Pending = {
  readonly resolve: (value: never) => void;
  readonly reject: (error: Error) => void;
  readonly exclusive: boolean;
  readonly onToken?: OnToken;
};
type Queued = { readonly job: Job; readonly resolve: (value: never) => void; readonly reject: (error: Error) => void };

/** What workers compute with; of WebAssembly kernels the memory, a place in it for each worker and then for each helper, and the helpers. */
type Ground = {
  readonly kernels: KernelChoice;
  readonly places: readonly WasmThread[];
  readonly helpers: Thread[];
};

type Slot = {
  readonly index: number;
  worker: Thread | undefined;
  /** Whether a `run` job is under way. */
  busy: boolean;
  readonly pending: Map<number, Pending>;
  /** What `send` was given in this turn of the event loop. */
  sent: Request[];
};

export class Pool {
  /** By which its workers know each other as helpers (native/crew.h). */
  readonly #number = crypto.getRandomValues(new Uint32Array(1))[0] as number;
  readonly #slots: Slot[];
  readonly #queue: Queued[] = [];
  readonly #threads: Threads;
  #starting: Promise<void> | undefined;
  #ground: Ground | undefined;
  #nextId = 0;
  #closed = false;

  constructor(source: Threads, threads = coreCount()) {
    if (!Number.isSafeInteger(threads) || threads < 1) {
      throw new ConfigError(`The number of threads must be a whole number of at least 1, got ${threads}.`);
    }
    this.#threads = source;
    this.#slots = Array.from({ length: threads }, (_, index) => ({
      index,
      worker: undefined,
      busy: false,
      pending: new Map(),
      sent: [],
    }));
  }

  get threads(): number {
    return this.#slots.length;
  }

  /** Runs a job on the next free worker. */
  run<J extends Job>(job: J): Promise<JobResult<J>> {
    return new Promise((resolve, reject) => {
      if (this.#closed) return reject(closedError());
      this.#queue.push({ job, resolve, reject });
      this.#drain();
    });
  }

  /**
   * Gives a job to this worker, beside whatever it does. `id` names it for notes. Episodes end their turns together: jobs of one turn of the event
   * loop go in one message, in which the model that they share is written once.
   */
  send<J extends Job>(worker: number, job: J, onToken?: OnToken): { id: number; result: Promise<JobResult<J>> } {
    const id = this.#nextId++;
    const result = new Promise<JobResult<J>>((resolve, reject) => {
      if (this.#closed) return reject(closedError());
      const slot = this.#slot(worker);
      this.#expect(slot, id, { resolve, reject, exclusive: false, ...(onToken && { onToken }) });
      if (slot.sent.length === 0) soon(() => this.#flush(slot));
      slot.sent.push({ id, job });
    });
    return { id, result };
  }

  /** Tells one worker, or all that live, something that has no answer. */
  note(note: Note, worker?: number): void {
    const slots = worker === undefined ? this.#slots : [this.#slot(worker)];
    for (const slot of slots) this.#post(slot, note);
  }

  /** Ends a worker as a crash would. */
  async kill(worker: number): Promise<void> {
    await this.#slot(worker).worker?.terminate();
  }

  async close(): Promise<void> {
    if (this.#closed) return;
    this.#closed = true;
    for (const { reject } of this.#queue.splice(0)) reject(closedError());
    const workers = [...this.#slots.map((slot) => slot.worker), ...(this.#ground?.helpers ?? [])];
    await Promise.all(workers.map((worker) => worker?.terminate()));
    for (const slot of this.#slots) this.#lose(slot, closedError());
  }

  /** Kernels first, then what waited for them. */
  async #start(): Promise<void> {
    try {
      const kernels = await this.#threads.choose();
      if (this.#closed) return;
      this.#ground = this.#layGround(kernels);
      for (const slot of this.#slots) this.#flush(slot);
    } catch (error) {
      this.#starting = undefined;
      for (const { reject } of this.#queue.splice(0)) reject(error as Error);
      for (const slot of this.#slots) this.#lose(slot, error as Error);
    }
  }

  #layGround(kernels: KernelChoice): Ground {
    const { module } = kernels;
    if (module === undefined) return { kernels, places: [], helpers: [] };
    const places = openMemory(module, 2 * this.threads - 1);
    const ground: Ground = { kernels, places, helpers: [] };
    for (const place of places.slice(this.threads)) {
      const helper = this.#threads.helper(place);
      helper.unref();
      // Closing ends helpers, too; one that ends by itself takes the memory along.
      helper.on("error", () => {});
      helper.on("exit", () => {
        if (this.#ground === ground && !this.#closed) this.#startAnew(ground, deadError("one of its helpers ended"));
      });
      ground.helpers.push(helper);
    }
    return ground;
  }

  #slot(worker: number): Slot {
    return this.#slots[worker] as Slot;
  }

  #drain(): void {
    for (const slot of this.#slots) {
      if (slot.busy) continue;
      const next = this.#queue.shift();
      if (next === undefined) return;
      slot.busy = true;
      const id = this.#nextId++;
      this.#expect(slot, id, { resolve: next.resolve, reject: next.reject, exclusive: true });
      this.#post(slot, { id, job: next.job });
    }
  }

  #expect(slot: Slot, id: number, pending: Pending): void {
    // A worker that waits for nothing lets the process end.
    if (slot.pending.size === 0) slot.worker?.ref();
    slot.pending.set(id, pending);
  }

  /** Now, after all that was sent before. */
  #post(slot: Slot, request: Request): void {
    slot.sent.push(request);
    this.#flush(slot);
  }

  #flush(slot: Slot): void {
    const requests = slot.sent;
    if (requests.length === 0 || this.#closed) return;
    if (this.#ground === undefined) {
      this.#starting ??= this.#start();
      return;
    }
    slot.sent = [];
    // Notes are about things that only a living worker knows.
    if (slot.pending.size > 0) slot.worker ??= this.#spawn(slot, this.#ground);
    slot.worker?.postMessage(requests);
  }

  #spawn(slot: Slot, ground: Ground): Thread {
    const { kernels, places } = ground;
    const wasm = places[slot.index];
    const place: WorkerPlace = { pool: this.#number, threads: this.threads, kernels, ...(wasm && { wasm }) };
    const worker = this.#threads.worker(place);
    if (slot.pending.size === 0) worker.unref();
    let cause = "it ended without a word";
    worker.on("message", (messages) => {
      for (const message of messages as readonly (Reply | Drawn)[]) {
        if ("drawn" in message) slot.pending.get(message.drawn)?.onToken?.(message.id, message.logprob, message.top);
        else this.#settle(slot, message);
      }
    });
    worker.on("error", (error) => {
      cause = errorMessage(error);
    });
    worker.on("exit", () => {
      if (slot.worker !== worker) return;
      slot.worker = undefined;
      const error = this.#closed ? closedError() : deadError(cause);
      if (places.length > 0 && !this.#closed) return this.#startAnew(ground, error);
      this.#lose(slot, error);
      if (!this.#closed) this.#drain();
    });
    return worker;
  }

  /** With a new memory: what all workers were doing fails. */
  #startAnew({ helpers }: Ground, error: Error): void {
    this.#ground = undefined;
    const workers = this.#slots.map((slot) => slot.worker);
    const ended = [...workers, ...helpers].map((worker) => worker?.terminate());
    this.#starting = Promise.all(ended).then(() => (this.#closed ? undefined : this.#start()));
    for (const slot of this.#slots) {
      slot.worker = undefined;
      this.#lose(slot, error);
    }
    this.#drain();
  }

  /** What a worker was doing, or was to do, fails. */
  #lose(slot: Slot, error: Error): void {
    slot.busy = false;
    slot.sent = [];
    const lost = [...slot.pending.values()];
    slot.pending.clear();
    for (const { reject } of lost) reject(error);
  }

  #settle(slot: Slot, reply: Reply): void {
    const pending = slot.pending.get(reply.id);
    if (pending === undefined) return;
    slot.pending.delete(reply.id);
    if (pending.exclusive) slot.busy = false;
    if (reply.error === undefined) pending.resolve(reply.result as never);
    else pending.reject(reviveError(reply.error));
    this.#drain();
    if (slot.pending.size === 0) slot.worker?.unref();
  }
}

function deadError(cause: string): EngineError {
  return new EngineError(
    `A worker of the native engine died (${cause}). The engine replaces it. Try again, with fewer or shorter sequences if memory ran out.`,
  );
}

function closedError(): EngineError {
  return new EngineError("The engine is closed. Make a new one.");
}

/** Errors lose their class between threads. */
export function reviveError({ name, message, stack }: NonNullable<Reply["error"]>): Error {
  const types = { ConfigError, DataError, ImageError, EngineError, RuinedWeights };
  const type = types[name as keyof typeof types];
  const error =
    type === undefined ? new EngineError(`The native engine failed: ${name}: ${message}`) : new type(message);
  if (stack !== undefined) error.stack = stack;
  return error;
}
