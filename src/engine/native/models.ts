/** What one worker keeps of models between jobs: networks over shared weights, their decoders, and the small files of their folders. */
import { makeOnce } from "../../core/make-once.ts";
import type { ModelFolder } from "../../model/folder.ts";
import { EngineError } from "../errors.ts";
import { Decoder } from "./decode.ts";
import type { ModelRef, WorkerPlace } from "./jobs.ts";
import type { Kernels } from "./kernels/api.ts";
import { Network } from "./network.ts";
import { Places, placesKey } from "./places.ts";
import { Arena } from "./tape.ts";
import { viewParameters } from "./weights.ts";

type Known = { revision: number; retired: boolean; readonly network: Network; decoder: Decoder | undefined };

export class Models {
  readonly kernels: Kernels;
  readonly arena: Arena;
  readonly #known = new Map<number, Known>();
  readonly #places = new Map<string, Places>();
  /** Late jobs must not bring a closed model back. */
  readonly #forgotten = new Set<number>();
  readonly #folders = new Map<string, Promise<ModelFolder>>();

  readonly #openFolder: (path: string) => Promise<ModelFolder>;

  constructor(
    { pool, threads }: Pick<WorkerPlace, "pool" | "threads">,
    kernels: Kernels,
    openFolder: (path: string) => Promise<ModelFolder>,
  ) {
    this.kernels = kernels;
    this.#openFolder = openFolder;
    this.kernels.crew.join(pool, threads);
    this.arena = new Arena(undefined, this.kernels);
  }

  /** The network over these weights, as they are now. */
  network(ref: ModelRef): Network {
    return this.#find(ref).network;
  }

  decoder(ref: ModelRef): Decoder {
    const known = this.#find(ref);
    const key = placesKey(ref.config);
    const places = this.#places.get(key) ?? new Places(ref.config, this.kernels);
    this.#places.set(key, places);
    known.decoder ??= new Decoder(known.network, places, this.arena);
    return known.decoder;
  }

  /** Undefined when this worker never sampled from it. */
  knownDecoder(id: number): Decoder | undefined {
    return this.#known.get(id)?.decoder;
  }

  /** Keeps the network with its large buffers for the next weights in the same place. */
  retire(id: number): void {
    const known = this.#known.get(id);
    if (known === undefined) return;
    known.decoder?.close();
    known.decoder = undefined;
    known.retired = true;
  }

  forget(id: number): void {
    const known = this.#known.get(id);
    known?.decoder?.close();
    known?.network.close();
    this.#known.delete(id);
    this.#forgotten.add(id);
  }

  /** Tokenizer and image processor of a folder. */
  folder(path: string): Promise<ModelFolder> {
    return makeOnce(this.#folders, path, () => this.#openFolder(path));
  }

  #find(ref: ModelRef): Known {
    let known = this.#known.get(ref.id);
    if (known === undefined) {
      if (this.#forgotten.has(ref.id)) throw new EngineError("These weights were closed while a job on them waited.");
      known = { revision: ref.revision, retired: false, network: buildNetwork(ref, this.kernels), decoder: undefined };
      this.#known.set(ref.id, known);
    } else if (known.revision !== ref.revision) {
      known.network.invalidate();
      known.revision = ref.revision;
      known.retired = false;
    } else if (known.retired) {
      throw new EngineError("These weights were closed while a job on them waited.");
    }
    return known;
  }
}

function buildNetwork(ref: ModelRef, kernels: Kernels): Network {
  const { base, adapter } = viewParameters(ref);
  return new Network(ref.config, kernels, base, {
    head: ref.head,
    maskedIds: ref.maskedIds,
    ...(adapter && ref.lora && { lora: { parameters: adapter, scaling: ref.lora.scaling } }),
  });
}
