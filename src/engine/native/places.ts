/**
 * Places for the keys and values of sequences. A place holds a power of two of positions; a sequence that outgrows its place moves to one twice
 * as long. Places of one length lie eight to a block, so that sequences decode together in one kernel call. Blocks are kept for the next
 * sequence, also of the next weights version: sampling allocates nothing once it has run.
 */
import type { ModelConfig } from "../../model/config.ts";
import type { Kernels } from "./kernels/api.ts";
import { KvCache } from "./kv-cache.ts";

const SMALLEST = 256;
const BLOCK = 8;

export type Place = { readonly cache: KvCache; readonly slot: number };

export class Places {
  readonly #config: ModelConfig;
  readonly #kernels: Kernels;
  readonly #free = new Map<number, Place[]>();
  #bytes = 0;

  constructor(config: ModelConfig, kernels: Kernels) {
    this.#config = config;
    this.#kernels = kernels;
  }

  /** Bytes of all blocks, used or free. */
  get bytes(): number {
    return this.#bytes;
  }

  /** A place for at least `length` positions. */
  take(length: number): Place {
    let capacity = SMALLEST;
    while (capacity < length) capacity *= 2;
    const free = this.#free.get(capacity) ?? [];
    this.#free.set(capacity, free);
    if (free.length === 0) {
      // Long sequences get a block of their own: eight would reserve far more than is used.
      const slots = Math.max(1, Math.min(BLOCK, (BLOCK * 1024) / capacity));
      const cache = new KvCache(this.#config, this.#kernels, slots, capacity);
      this.#bytes += cache.bytes;
      for (let slot = slots - 1; slot >= 0; slot--) free.push({ cache, slot });
    }
    return free.pop() as Place;
  }

  /** Whether a place for `length` positions is free without new memory. */
  has(length: number): boolean {
    let capacity = SMALLEST;
    while (capacity < length) capacity *= 2;
    return (this.#free.get(capacity)?.length ?? 0) > 0;
  }

  give(place: Place): void {
    this.#free.get(place.cache.capacity)?.push(place);
  }

  /** A place for at least `length` positions that holds the first `used` of this one, which is given back. */
  grow(place: Place, used: number, length: number): Place {
    if (length <= place.cache.capacity) return place;
    const larger = this.take(length);
    place.cache.copy(place.slot, larger.cache, larger.slot, used);
    this.give(place);
    return larger;
  }
}

/** Models with the same key can share places. */
export function placesKey({ text }: ModelConfig): string {
  return `${text.layers}:${text.kvHeads}:${text.headDim}`;
}
