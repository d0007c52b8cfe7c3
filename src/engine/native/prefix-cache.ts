/**
 * Which ids lie in which place. A sequence keeps its place between turns until it is released; a new one starts from a copy of the longest prefix
 * that any other has (siblings share their prompt). Placeholder ids look alike whatever the image, so images are compared by hash.
 */
import type { Span } from "./jobs.ts";
import type { Place, Places } from "./places.ts";

/** Above this, sequences that wait for their next turn lose their places, least recently used first. */
const CACHE_BYTES = 1024 ** 3;

/** The first `filled` of `ids`, with their images, lie in `place`. */
export type Cached = {
  ids: Int32Array;
  filled: number;
  readonly spans: readonly Span<{ readonly hash: string }>[];
  place: Place;
  /** In use by a sample: stays where it is. */
  active: boolean;
  /** The episode is over: goes when it is no longer active. */
  released: boolean;
};

export type Prompt = { readonly ids: Int32Array; readonly spans: readonly Span<{ readonly hash: string }>[] };
export type Prefix = { readonly length: number; readonly source: Cached | undefined };

export class PrefixCache {
  readonly #places: Places;
  /** In the order of their last turn. */
  readonly #sequences = new Map<string, Cached>();

  constructor(places: Places) {
    this.#places = places;
  }

  isActive(sequence: string): boolean {
    return this.#sequences.get(sequence)?.active === true;
  }

  /** The longest part of a prompt that lies in some place, less its last id, which is always computed for its logits. */
  find(sequence: string, prompt: Prompt): Prefix {
    let best: Prefix = { length: 0, source: undefined };
    const consider = (cached: Cached) => {
      const length = Math.min(sharedPrefix(cached, prompt, cached.filled), prompt.ids.length - 1);
      if (length > best.length) best = { length, source: cached };
    };
    const own = this.#sequences.get(sequence);
    if (own !== undefined) consider(own);
    // Its own place has nearly all of a next turn; looking further is for new sequences.
    if (best.length === 0) for (const cached of this.#sequences.values()) consider(cached);
    return best;
  }

  /** Gives the sequence a place that holds this prefix of the prompt. */
  open(sequence: string, prompt: Prompt, { length, source }: Prefix): Cached {
    const own = this.#sequences.get(sequence);
    let place: Place;
    if (own !== undefined && (source === own || source === undefined)) {
      place = own.place;
      this.#sequences.delete(sequence);
    } else {
      if (own !== undefined) this.#drop(sequence, own);
      this.#makeRoom(prompt.ids.length, source);
      place = this.#places.take(prompt.ids.length);
      source?.place.cache.copy(source.place.slot, place.cache, place.slot, length);
    }
    const ids = new Int32Array(place.cache.capacity);
    ids.set(prompt.ids.subarray(0, length));
    const spans = prompt.spans.map(({ start, length, frame }) => ({ start, length, frame: { hash: frame.hash } }));
    const cached: Cached = { ids, filled: length, spans, place, active: true, released: false };
    this.#sequences.set(sequence, cached);
    return cached;
  }

  /** Makes the place long enough for `length` ids. */
  extend(cached: Cached, length: number): void {
    cached.place = this.#places.grow(cached.place, cached.filled, length);
    const { capacity } = cached.place.cache;
    if (cached.ids.length >= capacity) return;
    const longer = new Int32Array(capacity);
    longer.set(cached.ids.subarray(0, cached.filled));
    cached.ids = longer;
  }

  /** The sample is over. After an error nobody knows what the place holds. */
  settle(sequence: string, cached: Cached, failed: boolean): void {
    cached.active = false;
    if (failed || cached.released) this.#drop(sequence, cached);
  }

  release(sequence: string): void {
    const cached = this.#sequences.get(sequence);
    if (cached === undefined) return;
    cached.released = true;
    if (!cached.active) this.#drop(sequence, cached);
  }

  clear(): void {
    for (const [sequence, cached] of this.#sequences) this.#drop(sequence, cached);
  }

  #makeRoom(length: number, keep: Cached | undefined): void {
    if (this.#places.bytes < CACHE_BYTES) return;
    for (const [sequence, cached] of this.#sequences) {
      if (this.#places.has(length)) return;
      if (!cached.active && cached !== keep) this.#drop(sequence, cached);
    }
  }

  #drop(sequence: string, cached: Cached): void {
    if (this.#sequences.get(sequence) !== cached) return;
    this.#sequences.delete(sequence);
    this.#places.give(cached.place);
  }
}

/** How many of the first ids are equal, images included. `limit` bounds the first prompt. */
export function sharedPrefix(a: Prompt, b: Prompt, limit = a.ids.length): number {
  const end = Math.min(limit, b.ids.length);
  let length = 0;
  while (length < end && a.ids[length] === b.ids[length]) length++;
  for (let i = 0; ; i++) {
    const left = a.spans[i];
    const right = b.spans[i];
    const start = Math.min(left?.start ?? length, right?.start ?? length);
    if (start >= length) return length;
    const same =
      left?.start === right?.start && left?.length === right?.length && left?.frame.hash === right?.frame.hash;
    if (!same) return start;
  }
}
