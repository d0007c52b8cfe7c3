/** Weights that are sampled from, by folder. The ones used last stay open; the others come back from their folders when they are asked for. */
import { readFile, stat } from "node:fs/promises";
import { basename, join } from "node:path";
import type { Engine, Sampler } from "../../engine/engine.ts";
import { HttpError } from "../../http/errors.ts";
import { writeAtomic } from "../../run/files.ts";
import { Sequences } from "./sequences.ts";

const MAX_OPEN = 16;

type Entry = { readonly opening: Promise<Sampler>; users: number; isOut: boolean };

/** An adapter names its base model's folder; when that was moved, it is the one that is served now. */
async function rebase(folder: string, base: string): Promise<void> {
  const file = join(folder, "adapter_config.json");
  const text = await readFile(file, "utf8").catch(() => undefined);
  if (text === undefined) return;
  const config = JSON.parse(text) as { base_model_name_or_path?: unknown };
  const named = config.base_model_name_or_path;
  if (typeof named === "string" && (await isThere(named))) return;
  await writeAtomic(file, `${JSON.stringify({ ...config, base_model_name_or_path: base }, null, 2)}\n`);
}

function isThere(path: string): Promise<boolean> {
  return stat(path).then(
    () => true,
    () => false,
  );
}

export class Samplers {
  readonly sequences = new Sequences();
  readonly #engine: Engine;
  /** The one used last is last. */
  readonly #entries = new Map<string, Entry>();

  readonly #base: string;

  /** `base`: the served model, on which adapters lie. */
  constructor(engine: Engine, base: string) {
    this.#engine = engine;
    this.#base = base;
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
    if (!(await isThere(folder)))
      throw new HttpError(404, `The weights ${basename(folder)} of this sampler are gone: save them again.`);
    await rebase(folder, this.#base);
    return this.#engine.sampler(folder);
  }

  #keep(folder: string, entry: Entry): void {
    this.#entries.delete(folder);
    this.#entries.set(folder, entry);
    // What could not be opened may be there later.
    entry.opening.catch(() => this.#entries.get(folder) === entry && this.#entries.delete(folder));
    for (const [other] of this.#entries) {
      if (this.#entries.size <= MAX_OPEN) break;
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
