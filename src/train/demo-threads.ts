/** Threads that play demonstrations, a batch each at a time, so that the main thread has only to hand them on. */
import { setTimeout as delay } from "node:timers/promises";
import type { Worker } from "node:worker_threads";
import { ConfigError, DataError, EnvError, errorMessage } from "../core/errors.ts";
import { startThread } from "../core/workers.ts";
import type { DemoEpisode, Demos } from "./demo-player.ts";
import { type DemoCall, type DemoReply, type DemoWorkerData, unpackBatch } from "./demo-wire.ts";
import type { Imitated } from "./taught-decisions.ts";

const CLOSE_MS = 2000;

type Waiting = { readonly resolve: (batch: Imitated[]) => void; readonly reject: (error: Error) => void };

export class DemoThreads implements Demos {
  readonly #threads: Thread[];
  #next = 0;

  constructor(threads: number, data: DemoWorkerData) {
    this.#threads = Array.from({ length: threads }, () => new Thread(data));
  }

  play(episodes: readonly DemoEpisode[]): Promise<Imitated[]> {
    return (this.#threads[this.#next++ % this.#threads.length] as Thread).play(episodes);
  }

  async close(): Promise<void> {
    await Promise.all(this.#threads.map((thread) => thread.close()));
  }
}

class Thread {
  readonly #worker: Worker;
  readonly #waiting = new Map<number, Waiting>();
  #calls = 0;
  #dead: Error | undefined;

  constructor(data: DemoWorkerData) {
    this.#worker = startThread("train/demo-worker", { workerData: data });
    this.#worker.on("message", ({ id, batch, error }: DemoReply) => {
      const waiting = this.#waiting.get(id);
      this.#waiting.delete(id);
      if (batch !== undefined) waiting?.resolve(unpackBatch(batch));
      else if (error !== undefined) waiting?.reject(revived(error));
    });
    this.#worker.on("error", (error) => this.#end(errorMessage(error)));
    this.#worker.on("exit", () => this.#end("it ended"));
  }

  play(episodes: readonly DemoEpisode[]): Promise<Imitated[]> {
    return new Promise((resolve, reject) => {
      if (this.#dead !== undefined) return reject(this.#dead);
      const id = this.#calls++;
      this.#waiting.set(id, { resolve, reject });
      this.#worker.postMessage({ id, episodes });
    });
  }

  /** Worlds may hold processes or sessions elsewhere, which they are given the time to end. */
  async close(): Promise<void> {
    const gone = new Promise<void>((resolve) => this.#worker.once("exit", () => resolve()));
    if (this.#dead === undefined) {
      this.#worker.postMessage("close" satisfies DemoCall);
      await Promise.race([gone, delay(CLOSE_MS, undefined, { ref: false })]);
    }
    await this.#worker.terminate();
  }

  #end(cause: string): void {
    this.#dead ??= new EnvError(`A thread that plays demonstrations died: ${cause}.`);
    for (const { reject } of this.#waiting.values()) reject(this.#dead);
    this.#waiting.clear();
  }
}

/** Errors lose their class on the way. */
function revived({ name, message }: NonNullable<DemoReply["error"]>): Error {
  const type = { ConfigError, DataError }[name] ?? EnvError;
  return new type(message);
}
