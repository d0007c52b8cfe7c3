/**
 * Keys and values of sequences that are being decoded: `slots` places of `capacity` positions each, for every layer. Which slot
 * belongs to which sequence is the sampler's affair. The layout inside a slot is the kernels'.
 */
import type { ModelConfig } from "../../model/config.ts";
import type { F32, Kernels } from "./kernels/api.ts";

export class KvCache {
  readonly capacity: number;
  readonly slots: number;
  /** One array per layer. */
  readonly keys: readonly F32[];
  readonly values: readonly F32[];
  readonly #kernels: Kernels;
  readonly #slotFloats: number;
  readonly #kvHeads: number;
  readonly #headDim: number;

  constructor(config: ModelConfig, kernels: Kernels, slots: number, capacity: number) {
    const { layers, kvHeads, headDim } = config.text;
    this.capacity = capacity;
    this.slots = slots;
    this.#kernels = kernels;
    this.#slotFloats = kernels.cacheSize(capacity, kvHeads, headDim);
    this.#kvHeads = kvHeads;
    this.#headDim = headDim;
    const make = () => Array.from({ length: layers }, () => kernels.floats(slots * this.#slotFloats));
    this.keys = make();
    this.values = make();
  }

  get bytes(): number {
    return 2 * this.keys.length * this.slots * this.#slotFloats * 4;
  }

  /** Where a slot begins in the arrays, in floats. */
  offset(slot: number): number {
    return slot * this.#slotFloats;
  }

  /** Copies the first `length` positions of a slot to a slot of this or another cache. */
  copy(slot: number, to: KvCache, toSlot: number, length: number): void {
    for (const layer of this.keys.keys()) {
      this.#kernels.cacheCopy(
        to.keys[layer] as F32,
        to.values[layer] as F32,
        to.offset(toSlot),
        to.capacity,
        this.keys[layer] as F32,
        this.values[layer] as F32,
        this.offset(slot),
        this.capacity,
        length,
        this.#kvHeads,
        this.#headDim,
      );
    }
  }
}
