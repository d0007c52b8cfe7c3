/**
 * Processed images on vLLM's wire. What the render route returns can be sent to `generate`: whole or, once it was sent, by its name alone. Clients choose
 * the names, so tensors are compared by their content.
 */
import { createHash } from "node:crypto";
import { DataError } from "../core/errors.ts";
import { Image } from "../core/image.ts";
import type { Features, ImageSpan } from "../core/model-input.ts";
import { turn } from "../core/turns.ts";
import { decodeFeatures } from "../engine/features.ts";
import type { ImageProcessor } from "../model/image-processor.ts";
import { ApiError } from "../wire/errors.ts";
import type { Desk } from "./desk.ts";

/** Stands for an image of which we only have the features. */
const UNSEEN = new Image(1, 1, new Uint8Array(3));
/** Real processed values are a few units. */
const MAX_PIXEL = 1000;
/** 1000 as a 32-bit float; its upper half is 1000 as a bfloat16. */
const MAX_PIXEL_BITS = 0x447a0000;
/** Characters of a processed image beside its pixels: names, shapes, the grid. */
const MAX_HEAD = 4096;
const MAX_BYTES = 256 * 1024 * 1024;

export type WireFeatures = {
  readonly mm_hashes: Readonly<Record<string, readonly string[]>>;
  readonly mm_placeholders: Readonly<Record<string, readonly { readonly offset: number; readonly length: number }[]>>;
  readonly kwargs_data?: Readonly<Record<string, readonly (string | null)[]>> | null | undefined;
};

/** Features that clients sent lately, by the name they gave them. */
export class SentImages {
  readonly #known = new Map<string, Features>();
  readonly #maxBytes: number;
  /** Most characters of base64 that one token's pixels take: four bytes a number. */
  readonly #tokenCharacters: number;
  #bytes = 0;

  constructor({ patchSize, mergeSize, temporalPatchSize }: ImageProcessor, maxBytes = MAX_BYTES) {
    this.#maxBytes = maxBytes;
    this.#tokenCharacters = ((3 * temporalPatchSize * (patchSize * mergeSize) ** 2 * 4) / 3) * 4;
  }

  clear(): void {
    this.#known.clear();
    this.#bytes = 0;
  }

  async spans({ mm_hashes: hashes, mm_placeholders: places, kwargs_data: data }: WireFeatures): Promise<ImageSpan[]> {
    const other = Object.keys(places).find((kind) => kind !== "image");
    if (other !== undefined) throw new DataError(`Only features of images are supported, got ${other}.`);
    const spans: ImageSpan[] = [];
    for (const [i, { offset, length }] of (places.image ?? []).entries()) {
      const name = hashes.image?.[i];
      if (name === undefined) throw new DataError(`Image ${i} has a placeholder but no hash.`);
      const sent = data?.image?.[i];
      if (sent !== undefined && sent !== null) {
        const most = length * this.#tokenCharacters + MAX_HEAD;
        if (sent.length > most) {
          throw new DataError(
            `Image ${i} has ${sent.length} characters of features, and ${length} tokens have at most ${most}.`,
          );
        }
        await turn();
      }
      const features = sent === undefined || sent === null ? this.#known.get(name) : this.#take(name, sent);
      // As in vLLM: the client sends it again, with its data.
      if (features === undefined) throw new ApiError(500, `Image ${name} is not known: send its kwargs_data.`);
      spans.push({ start: offset, length, image: UNSEEN, features });
    }
    return spans.sort((a, b) => a.start - b.start);
  }

  #take(name: string, sent: string): Features {
    const hash = createHash("sha256").update(sent).digest("hex");
    const known = this.#known.get(name);
    if (known?.hash === hash) return known;
    const features = decodeFeatures(sent, hash);
    checkPixels(features);
    this.#forget(name);
    this.#known.set(name, features);
    this.#bytes += features.data.length;
    for (const oldest of this.#known.keys()) {
      if (this.#bytes <= this.#maxBytes) break;
      this.#forget(oldest);
    }
    return features;
  }

  #forget(name: string): void {
    this.#bytes -= this.#known.get(name)?.data.length ?? 0;
    this.#known.delete(name);
  }
}

/** Huge values would leave the model without a distribution, so such a request is refused. */
function checkPixels({ dtype, data }: Features): void {
  if (dtype === "uint8") return;
  const buffer = new Uint8Array(data).buffer;
  // Without the sign, bits are ordered like the numbers, and infinities and NaN come last.
  const [words, most] =
    dtype === "float32" ? [new Uint32Array(buffer), MAX_PIXEL_BITS] : [new Uint16Array(buffer), MAX_PIXEL_BITS >>> 16];
  const size = dtype === "float32" ? 0x7fffffff : 0x7fff;
  for (let i = 0; i < words.length; i++) {
    if (((words[i] as number) & size) <= most) continue;
    throw new DataError(`Processed pixels must be between −${MAX_PIXEL} and ${MAX_PIXEL}.`);
  }
}

/** The features of a rendered prompt; null where it has no image. */
export async function wireFeatures(images: readonly ImageSpan[], desk: Desk, signal: AbortSignal) {
  if (images.length === 0) return null;
  const items: string[] = [];
  const metadata: string[] = [];
  for (const { image } of images) {
    const processed = await desk.features(image, signal);
    items.push(processed.item);
    metadata.push(processed.metadata);
  }
  return {
    mm_hashes: { image: images.map(({ image }) => image.hash) },
    mm_placeholders: { image: images.map(({ start, length }) => ({ offset: start, length })) },
    kwargs_data: { image: items },
    mm_metadata: { image: metadata },
  };
}
