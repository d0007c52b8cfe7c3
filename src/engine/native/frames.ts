/**
 * Images on their way into the network, main-thread side. Patches are kept by frame hash alone, vision features by frame hash and weights: each
 * distinct frame is preprocessed once and, for each version of the weights, encoded once, however many turns, siblings and workers show it.
 * Both stores forget the least recently used. Buffers of patches are large and are used again.
 */

import { ImageError } from "../../core/errors.ts";
import { type ImageSpan, nameOf } from "../../core/model-input.ts";
import { soon } from "../../core/platform.ts";
import type { FeatureRef, FrameRef, FrameShape, ModelRef, RawImage } from "./jobs.ts";
import { type Pool, reviveError } from "./pool.ts";

/** A 4K screen. Larger images would hold up the main thread for no gain: the model shrinks them. */
const MAX_PIXELS = 3840 * 2160;
const MAX_BYTES = 128 * 1024 ** 2;
/** Images in one job: with more, the other sequences of that worker would wait long. */
const MAX_SEEN_AT_ONCE = 16;
/** After so many the counting of distinct frames begins anew. */
const MAX_SEEN = 100_000;

/** An image through the eyes of certain weights. */
export type SeenFrame = { readonly frame: FrameShape; readonly features: FeatureRef };
type Entry = { readonly size: string; users: number; frame: Promise<FrameRef>; ready: FrameRef | undefined };
/** An image, and what a renderer made of it. */
export type ImageInput = Pick<ImageSpan, "image" | "features">;
type Tell = (frame: FrameRef | Error) => void;
type Wish = {
  readonly model: ModelRef;
  readonly shown: ImageInput;
  readonly resolve: (seen: SeenFrame) => void;
  readonly reject: (error: Error) => void;
};

export class Frames {
  readonly #pool: Pool;
  readonly #mostBytes: number;
  /** Both in the order of use. */
  readonly #patches = new Map<string, Entry>();
  readonly #features = new Map<string, { readonly model: number; bytes: number; readonly seen: Promise<SeenFrame> }>();
  /** Buffers that held images of a size. */
  readonly #spare = new Map<string, SharedArrayBuffer[]>();
  #patchBytes = 0;
  #spareBytes = 0;
  #featureBytes = 0;
  /** Images to be seen, asked for in this turn of the event loop. */
  #wishes: Wish[] = [];
  /** Frames seen by each model. */
  readonly #seen = new Map<number, Set<string>>();
  #encoded = 0;
  #distinct = 0;

  /** `mostBytes` of patches, as many of features, and half as many of buffers to be used again. */
  constructor(pool: Pool, mostBytes = MAX_BYTES) {
    this.#pool = pool;
    this.#mostBytes = mostBytes;
  }

  /** Vision-tower passes for sampling, and distinct (frame, weights) pairs: equal unless the store overflowed. */
  get stats(): { readonly encoded: number; readonly distinctFrames: number } {
    return { encoded: this.#encoded, distinctFrames: this.#distinct };
  }

  /** Runs `use` with the patches of these images; they stay put until it ends. */
  async withPatches<T>(
    folder: string,
    images: readonly ImageInput[],
    use: (frames: FrameRef[]) => Promise<T>,
  ): Promise<T> {
    const entries = images.map((shown) => this.#entry(folder, shown));
    for (const entry of entries) entry.users += 1;
    try {
      return await use(await Promise.all(entries.map((entry) => entry.frame)));
    } finally {
      for (const entry of entries) entry.users -= 1;
      this.#trimPatches();
    }
  }

  /** What these weights see in an image. */
  async features(model: ModelRef, shown: ImageInput): Promise<SeenFrame> {
    const name = nameOf(shown);
    const key = `${model.id}:${model.revision}:${name}`;
    const known = this.#features.get(key);
    if (known !== undefined) {
      this.#features.delete(key);
      this.#features.set(key, known);
      return known.seen;
    }
    this.#count(model.id, name);
    const entry = { model: model.id, bytes: 0, seen: this.#encode(model, shown) };
    this.#features.set(key, entry);
    try {
      const found = await entry.seen;
      if (this.#features.get(key) === entry) {
        entry.bytes = found.features.byteLength;
        this.#featureBytes += entry.bytes;
        this.#trimFeatures();
      }
      return found;
    } catch (error) {
      if (this.#features.get(key) === entry) this.#features.delete(key);
      throw error;
    }
  }

  /** These weights are gone. */
  forget(model: number): void {
    this.#seen.delete(model);
    for (const [key, entry] of this.#features) {
      if (entry.model !== model) continue;
      this.#features.delete(key);
      this.#featureBytes -= entry.bytes;
    }
  }

  /** Episodes end their turns together: what they then show goes to the workers in a few jobs, not in one for each image. */
  #encode(model: ModelRef, shown: ImageInput): Promise<SeenFrame> {
    return new Promise((resolve, reject) => {
      if (this.#wishes.length === 0) soon(() => this.#grant());
      this.#wishes.push({ model, shown, resolve, reject });
    });
  }

  #grant(): void {
    const wishes = this.#wishes;
    this.#wishes = [];
    const models = new Map<number, Wish[]>();
    for (const wish of wishes) models.set(wish.model.id, [...(models.get(wish.model.id) ?? []), wish]);
    for (const same of models.values()) {
      const share = Math.min(MAX_SEEN_AT_ONCE, Math.ceil(same.length / this.#pool.threads));
      for (let at = 0; at < same.length; at += share) void this.#see(same.slice(at, at + share));
    }
  }

  /** Settles these wishes, all of one model. */
  async #see(wishes: readonly Wish[]): Promise<void> {
    const { model } = wishes[0] as Wish;
    const held: { readonly wish: Wish; readonly entry: Entry; readonly raw?: RawImage; readonly tell?: Tell }[] = [];
    for (const wish of wishes) {
      try {
        const known = this.#known(model.folder, wish.shown);
        const found = known ? { entry: known } : this.#expect(model.folder, wish.shown);
        found.entry.users += 1;
        held.push({ wish, ...found });
      } catch (error) {
        wish.reject(error as Error);
      }
    }
    try {
      const images = await Promise.all(held.map(({ raw, entry }) => raw ?? entry.frame));
      const seen = images.length === 0 ? [] : await this.#pool.run({ kind: "see", model, images });
      for (const [i, { wish, tell }] of held.entries()) {
        const one = seen[i] as (typeof seen)[number];
        if ("error" in one) {
          const error = reviveError(one.error);
          tell?.(error);
          wish.reject(error);
          continue;
        }
        const hash = nameOf(wish.shown);
        const { patches: _, ...shape } = one.frame;
        tell?.({ hash, ...one.frame });
        wish.resolve({ frame: { hash, ...shape }, features: one.features });
      }
    } catch (error) {
      for (const { wish, tell } of held) {
        tell?.(error as Error);
        wish.reject(error as Error);
      }
    } finally {
      for (const { entry } of held) entry.users -= 1;
      this.#trimPatches();
    }
  }

  #count(model: number, hash: string): void {
    const seen = this.#seen.get(model) ?? new Set();
    this.#seen.set(model, seen);
    if (seen.size >= MAX_SEEN) seen.clear();
    if (!seen.has(hash)) this.#distinct += 1;
    seen.add(hash);
    this.#encoded += 1;
  }

  #entry(folder: string, shown: ImageInput): Entry {
    const known = this.#known(folder, shown);
    if (known !== undefined) return known;
    const { entry, raw, tell } = this.#expect(folder, shown);
    const hash = nameOf(shown);
    this.#pool.run({ kind: "preprocess", folder, ...raw }).then((frame) => tell({ hash, ...frame }), tell);
    return entry;
  }

  /** The patches of an image, used last. */
  #known(folder: string, shown: ImageInput): Entry | undefined {
    const key = `${folder}:${nameOf(shown)}`;
    const entry = this.#patches.get(key);
    if (entry === undefined) return undefined;
    this.#patches.delete(key);
    this.#patches.set(key, entry);
    return entry;
  }

  /** A place for the patches of a new image; `tell` brings them, or why there are none. */
  #expect(folder: string, shown: ImageInput): { readonly entry: Entry; readonly raw: RawImage; readonly tell: Tell } {
    const { image, features } = shown;
    const { width, height } = image;
    if (width * height > MAX_PIXELS) {
      throw new ImageError(
        `A ${width}×${height} image is too large for the native engine, which takes up to ${MAX_PIXELS} pixels. Make it smaller first.`,
      );
    }
    const key = `${folder}:${nameOf(shown)}`;
    const size = `${folder}:${features?.grid.join("x") ?? `${width}x${height}`}`;
    const into = this.#spare.get(size)?.pop();
    this.#spareBytes -= into?.byteLength ?? 0;
    // A view of a larger buffer would take all of it along.
    const data = image.data.byteLength === image.data.buffer.byteLength ? image.data : image.data.slice();
    let tell: Tell = () => {};
    const frame = new Promise<FrameRef>((resolve, reject) => {
      tell = (found) => {
        if (found instanceof Error) return reject(found);
        entry.ready = found;
        this.#patchBytes += found.patches.byteLength;
        resolve(found);
      };
    });
    const entry: Entry = { size, users: 0, ready: undefined, frame };
    this.#patches.set(key, entry);
    frame.catch(() => {
      if (this.#patches.get(key) === entry) this.#patches.delete(key);
    });
    const raw = { image: { width, height, data }, ...(features && { features }), ...(into && { into }) };
    return { entry, raw, tell };
  }

  #trimPatches(): void {
    for (const [key, entry] of this.#patches) {
      if (this.#patchBytes <= this.#mostBytes) return;
      if (entry.users > 0 || entry.ready === undefined) continue;
      this.#patches.delete(key);
      this.#patchBytes -= entry.ready.patches.byteLength;
      if (this.#spareBytes + entry.ready.patches.byteLength > this.#mostBytes / 2) continue;
      const spare = this.#spare.get(entry.size) ?? [];
      this.#spare.set(entry.size, spare);
      spare.push(entry.ready.patches);
      this.#spareBytes += entry.ready.patches.byteLength;
    }
  }

  #trimFeatures(): void {
    for (const [key, entry] of this.#features) {
      if (this.#featureBytes <= this.#mostBytes) return;
      // Still being computed: nothing to gain.
      if (entry.bytes === 0) continue;
      this.#features.delete(key);
      this.#featureBytes -= entry.bytes;
    }
  }
}
