/**
 * Pictures on their way into the network, main-thread side. Patches are kept by frame hash alone, vision features by frame hash and weights: each
 * distinct frame is preprocessed once and, for each version of the weights, encoded once, however many turns, siblings and workers show it.
 * Both stores forget the least recently used. Buffers of patches are large and are used again.
 */
import type { Image } from "../../core/image.ts";
import { EngineError } from "../errors.ts";
import type { FeatureRef, FrameRef, FrameShape, ModelRef } from "./jobs.ts";
import type { Pool } from "./pool.ts";

/** A 4K screen. Larger pictures would hold up the main thread for no gain: the model shrinks them. */
const MOST_PIXELS = 3840 * 2160;
const PATCH_BYTES = 128 * 1024 ** 2;
const FEATURE_BYTES = 128 * 1024 ** 2;
const SPARE_BYTES = 64 * 1024 ** 2;
/** After so many the counting of distinct frames begins anew. */
const MOST_SEEN = 100_000;

/** A picture through the eyes of certain weights. */
export type SeenFrame = { readonly frame: FrameShape; readonly features: FeatureRef };
type Entry = { readonly size: string; users: number; frame: Promise<FrameRef>; ready: FrameRef | undefined };

export class Frames {
  readonly #pool: Pool;
  /** Both in the order of use. */
  readonly #patches = new Map<string, Entry>();
  readonly #features = new Map<string, { readonly model: number; bytes: number; readonly seen: Promise<SeenFrame> }>();
  /** Buffers that held pictures of a size. */
  readonly #spare = new Map<string, SharedArrayBuffer[]>();
  #patchBytes = 0;
  #spareBytes = 0;
  #featureBytes = 0;
  /** Frames seen by each model. */
  readonly #seen = new Map<number, Set<string>>();
  #encoded = 0;
  #distinct = 0;

  constructor(pool: Pool) {
    this.#pool = pool;
  }

  /** Vision-tower passes for sampling, and distinct (frame, weights) pairs: equal unless the store overflowed. */
  get stats(): { readonly encoded: number; readonly distinctFrames: number } {
    return { encoded: this.#encoded, distinctFrames: this.#distinct };
  }

  /** Runs `use` with the patches of these pictures; they stay put until it ends. */
  async withPatches<T>(folder: string, images: readonly Image[], use: (frames: FrameRef[]) => Promise<T>): Promise<T> {
    const entries = images.map((image) => this.#entry(folder, image));
    for (const entry of entries) entry.users += 1;
    try {
      return await use(await Promise.all(entries.map((entry) => entry.frame)));
    } finally {
      for (const entry of entries) entry.users -= 1;
      this.#trimPatches();
    }
  }

  /** What these weights see in a picture. */
  async features(model: ModelRef, image: Image): Promise<SeenFrame> {
    const key = `${model.id}:${model.revision}:${image.hash}`;
    const known = this.#features.get(key);
    if (known !== undefined) {
      this.#features.delete(key);
      this.#features.set(key, known);
      return known.seen;
    }
    this.#count(model.id, image.hash);
    const entry = { model: model.id, bytes: 0, seen: this.#encode(model, image) };
    this.#features.set(key, entry);
    try {
      const found = await entry.seen;
      if (this.#features.get(key) === entry) {
        for (const level of found.features) entry.bytes += level.byteLength;
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

  #encode(model: ModelRef, image: Image): Promise<SeenFrame> {
    return this.withPatches(model.folder, [image], async ([frame]) => {
      const { patches, ...shape } = frame as FrameRef;
      return { frame: shape, features: await this.#pool.run({ kind: "encode", model, frame: { ...shape, patches } }) };
    });
  }

  #count(model: number, hash: string): void {
    const seen = this.#seen.get(model) ?? new Set();
    this.#seen.set(model, seen);
    if (seen.size >= MOST_SEEN) seen.clear();
    if (!seen.has(hash)) this.#distinct += 1;
    seen.add(hash);
    this.#encoded += 1;
  }

  #entry(folder: string, image: Image): Entry {
    if (image.width * image.height > MOST_PIXELS) {
      throw new EngineError(
        `A ${image.width}×${image.height} picture is too large for the embedded engine, which takes up to ${MOST_PIXELS} pixels. Make it smaller first.`,
      );
    }
    const key = `${folder}:${image.hash}`;
    let entry = this.#patches.get(key);
    if (entry !== undefined) this.#patches.delete(key);
    else entry = this.#preprocess(folder, image, key);
    this.#patches.set(key, entry);
    return entry;
  }

  #preprocess(folder: string, image: Image, key: string): Entry {
    const { width, height, hash } = image;
    const size = `${folder}:${width}x${height}`;
    const into = this.#spare.get(size)?.pop();
    this.#spareBytes -= into?.byteLength ?? 0;
    // A view of a larger buffer would take all of it along.
    const data = image.data.byteLength === image.data.buffer.byteLength ? image.data : image.data.slice();
    const job = this.#pool.run({ kind: "preprocess", folder, image: { width, height, data }, ...(into && { into }) });
    const entry: Entry = {
      size,
      users: 0,
      ready: undefined,
      frame: job.then((frame) => {
        entry.ready = { hash, ...frame };
        this.#patchBytes += frame.patches.byteLength;
        return entry.ready;
      }),
    };
    entry.frame.catch(() => {
      if (this.#patches.get(key) === entry) this.#patches.delete(key);
    });
    return entry;
  }

  #trimPatches(): void {
    for (const [key, entry] of this.#patches) {
      if (this.#patchBytes <= PATCH_BYTES) return;
      if (entry.users > 0 || entry.ready === undefined) continue;
      this.#patches.delete(key);
      this.#patchBytes -= entry.ready.patches.byteLength;
      if (this.#spareBytes + entry.ready.patches.byteLength > SPARE_BYTES) continue;
      const spare = this.#spare.get(entry.size) ?? [];
      this.#spare.set(entry.size, spare);
      spare.push(entry.ready.patches);
      this.#spareBytes += entry.ready.patches.byteLength;
    }
  }

  #trimFeatures(): void {
    for (const [key, entry] of this.#features) {
      if (this.#featureBytes <= FEATURE_BYTES) return;
      // Still being computed: nothing to gain.
      if (entry.bytes === 0) continue;
      this.#features.delete(key);
      this.#featureBytes -= entry.bytes;
    }
  }
}
