/**
 * The weights that requests can name: the base model and its adapters. A sampler is a snapshot, so a request keeps the weights that it began with. Replaced
 * weights are closed when the last request that uses them ends.
 */
import { stat } from "node:fs/promises";
import { join } from "node:path";
import type { Engine, Sampler } from "../engine/engine.ts";
import { ApiError } from "../wire/errors.ts";
import { seconds } from "../wire/request.ts";

export class Weights {
  readonly path: string;
  readonly created = seconds();
  readonly #sampler: Sampler;
  #users = 0;
  #retired = false;

  constructor(path: string, sampler: Sampler) {
    this.path = path;
    this.#sampler = sampler;
  }

  async use<T>(work: (sampler: Sampler) => Promise<T>): Promise<T> {
    this.#users += 1;
    try {
      return await work(this.#sampler);
    } finally {
      this.#users -= 1;
      if (this.#retired && this.#users === 0) await this.#sampler.close();
    }
  }

  async retire(): Promise<void> {
    if (this.#retired) return;
    this.#retired = true;
    if (this.#users === 0) await this.#sampler.close();
  }
}

export class ServedModels {
  /** The base model's name in requests. */
  readonly name: string;
  readonly folder: string;
  readonly #engine: Engine;
  readonly #adapters = new Map<string, Weights>();
  #base: Weights;

  static async open(engine: Engine, name: string, folder: string): Promise<ServedModels> {
    return new ServedModels(engine, name, folder, await engine.sampler(folder));
  }

  private constructor(engine: Engine, name: string, folder: string, sampler: Sampler) {
    this.#engine = engine;
    this.name = name;
    this.folder = folder;
    this.#base = new Weights(folder, sampler);
  }

  /** Every name that requests can use, the base model first. */
  list(): { id: string; root: string; parent: string | null; created: number }[] {
    return [
      { id: this.name, root: this.#base.path, parent: null, created: this.#base.created },
      ...[...this.#adapters].map(([id, { path, created }]) => ({ id, root: path, parent: this.name, created })),
    ];
  }

  /** Throws 404 where there is no such model. Without a name: the base model. */
  find(model: string | undefined): Weights {
    const found = model === undefined || model === this.name ? this.#base : this.#adapters.get(model);
    if (found !== undefined) return found;
    const names = this.list().map(({ id }) => id);
    throw new ApiError(404, `The model \`${model}\` does not exist. The models are ${names.join(", ")}.`, {
      param: "model",
    });
  }

  /** New weights for the base model; by default its own folder, read again. */
  async reload(folder = this.folder): Promise<void> {
    const before = this.#base;
    this.#base = new Weights(folder, await this.#engine.sampler(folder));
    await before.retire();
  }

  async loadAdapter(name: string, path: string, replace: boolean): Promise<void> {
    const known = this.#adapters.get(name);
    if ((known !== undefined && !replace) || name === this.name) {
      throw new ApiError(400, `There is already an adapter "${name}": set load_inplace to replace it.`, {
        type: "InvalidUserInput",
      });
    }
    const config = await stat(join(path, "adapter_config.json")).catch(() => undefined);
    if (!config?.isFile()) {
      throw new ApiError(404, `There is no adapter in ${path}: name a folder with adapter_config.json.`);
    }
    this.#adapters.set(name, new Weights(path, await this.#engine.sampler(path)));
    await known?.retire();
  }

  async unloadAdapter(name: string): Promise<void> {
    const known = this.#adapters.get(name);
    if (known === undefined) throw new ApiError(404, `There is no adapter "${name}".`);
    this.#adapters.delete(name);
    await known.retire();
  }

  async close(): Promise<void> {
    await Promise.all([this.#base, ...this.#adapters.values()].map((weights) => weights.retire()));
  }
}
