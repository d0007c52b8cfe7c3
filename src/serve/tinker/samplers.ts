/** Weights that are sampled from, by folder. The ones used last stay open; the others come back from their folders when they are asked for. */
import { stat } from "node:fs/promises";
import { basename } from "node:path";
import type { Engine, Sampler } from "../../engine/engine.ts";
import { HttpError } from "../../http/errors.ts";
import { Sequences } from "./sequences.ts";

const MOST_OPEN = 16;

type Entry = { readonly opening: Promise<Sampler>; users: number; isOut: boolean };

export class Samplers {
  readonly sequences = new Sequences();
  readonly #engine: Engine;
  /** The one used last is last. */
  readonly #entries = new Map<string, Entry>();

  constructor(engine: Engine) {
    this.#engine = engine;
  }

  /** One that is open already: what was just published. */
  put(folder: string, sampler: Sampler): void {
    this.#keep(folder, { opening: Promise.resolve(sampler), users: 0, isOut: false });
  }

  async use<T>(folder: string, work: (sampler: Sampler) => Promise<T>): Promise<T> {
    const entry = this.#entries.get(folder) ?? { opening: this.#open(folder), users: 0, isOut: false };
    entry.users += 1;
    this.#keep(folder, entry);
    try {
      return await work(await entry.opening);
    } finally {
      entry.users -= 1;
      this.#closeIdle(entry);
    }
  }

  /** When nobody uses it any more. */
  drop(folder: string): void {
    const entry = this.#entries.get(folder);
    if (entry === undefined) return;
    this.#entries.delete(folder);
    entry.isOut = true;
    this.#closeIdle(entry);
  }

  async close(): Promise<void> {
    const open = await Promise.allSettled([...this.#entries.values()].map(({ opening }) => opening));
    this.#entries.clear();
    await Promise.allSettled(open.map((one) => (one.status === "fulfilled" ? this.#close(one.value) : undefined)));
  }

  async #open(folder: string): Promise<Sampler> {
    const isThere = await stat(folder).then(
      () => true,
      () => false,
    );
    if (!isThere)
      throw new HttpError(404, `The weights ${basename(folder)} of this sampler are gone: save them again.`);
    return this.#engine.sampler(folder);
  }

  #keep(folder: string, entry: Entry): void {
    this.#entries.delete(folder);
    this.#entries.set(folder, entry);
    // What could not be opened may be there later.
    entry.opening.catch(() => this.#entries.get(folder) === entry && this.#entries.delete(folder));
    for (const [other] of this.#entries) {
      if (this.#entries.size <= MOST_OPEN) break;
      this.drop(other);
    }
  }

  #closeIdle(entry: Entry): void {
    if (!entry.isOut || entry.users > 0) return;
    entry.opening.then((sampler) => this.#close(sampler)).catch(() => {});
  }

  #close(sampler: Sampler): Promise<void> {
    this.sequences.forget(sampler);
    return sampler.close();
  }
}
