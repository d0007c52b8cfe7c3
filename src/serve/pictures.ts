/**
 * Processed pictures on the wire. What the render route gives out can be sent back with `generate`, whole or, once it was sent, by its name alone; the
 * names are the client's, so tensors are told apart by their content.
 */
import { createHash } from "node:crypto";
import { setImmediate } from "node:timers/promises";
import { DataError } from "../core/errors.ts";
import { Image } from "../core/image.ts";
import type { Features, ImageSpan } from "../core/model-input.ts";
import { decodeFeatures, encodeFeatures } from "../engine/vllm/features.ts";
import { pack, unpack } from "../engine/vllm/msgpack.ts";
import type { ImageProcessor } from "../model/image-processor.ts";
import { ApiError } from "../wire/errors.ts";

/** Stands for a picture of which only the numbers are known. */
const UNSEEN = new Image(1, 1, new Uint8Array(3));
/** Of a processed value; real ones are a few units. */
const MOST_PIXEL = 1000;
/** 1000 as a 32-bit float; its upper half is 1000 as a bfloat16. */
const MOST_BITS = 0x447a0000;
const MOST_BYTES = 256 * 1024 * 1024;

export type WireFeatures = {
  readonly mm_hashes: Readonly<Record<string, readonly string[]>>;
  readonly mm_placeholders: Readonly<Record<string, readonly { readonly offset: number; readonly length: number }[]>>;
  readonly kwargs_data?: Readonly<Record<string, readonly (string | null)[]>> | null | undefined;
};

/** What was sent lately, by the name the client gave it. */
export class Pictures {
  readonly #known = new Map<string, Features>();
  readonly #mostBytes: number;
  #bytes = 0;

  constructor(mostBytes = MOST_BYTES) {
    this.#mostBytes = mostBytes;
  }

  clear(): void {
    this.#known.clear();
    this.#bytes = 0;
  }

  async spans({ mm_hashes: hashes, mm_placeholders: places, kwargs_data: data }: WireFeatures): Promise<ImageSpan[]> {
    const other = Object.keys(places).find((kind) => kind !== "image");
    if (other !== undefined) throw new DataError(`Features of ${other} are not served, only of image.`);
    const spans: ImageSpan[] = [];
    for (const [i, { offset, length }] of (places.image ?? []).entries()) {
      const name = hashes.image?.[i];
      if (name === undefined) throw new DataError(`Picture ${i} has a place but no hash.`);
      const sent = data?.image?.[i];
      // Others are answered between two pictures.
      if (sent !== undefined && sent !== null) await setImmediate();
      const features = sent === undefined || sent === null ? this.#known.get(name) : this.#take(name, sent);
      // As vLLM: the client sends it again, with its data.
      if (features === undefined) throw new ApiError(500, `Picture ${name} is not known here: send its kwargs_data.`);
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
      if (this.#bytes <= this.#mostBytes) break;
      this.#forget(oldest);
    }
    return features;
  }

  #forget(name: string): void {
    this.#bytes -= this.#known.get(name)?.data.length ?? 0;
    this.#known.delete(name);
  }
}

/** Numbers that no picture has would leave the model without a distribution: a fault of the request, found before it is served. */
function checkPixels({ dtype, data }: Features): void {
  if (dtype === "uint8") return;
  const buffer = new Uint8Array(data).buffer;
  // Without its sign, a number's bits are in the order of its size, and infinities and NaN come last.
  const [words, most] =
    dtype === "float32" ? [new Uint32Array(buffer), MOST_BITS] : [new Uint16Array(buffer), MOST_BITS >>> 16];
  const size = dtype === "float32" ? 0x7fffffff : 0x7fff;
  for (let i = 0; i < words.length; i++) {
    if (((words[i] as number) & size) <= most) continue;
    throw new DataError(`Processed pixels lie between −${MOST_PIXEL} and ${MOST_PIXEL}; these do not.`);
  }
}

/** The features of a rendered prompt; null where it has no picture. */
export async function wireFeatures(images: readonly ImageSpan[], processor: ImageProcessor) {
  if (images.length === 0) return null;
  const items: string[] = [];
  for (const { image } of images) {
    // Others are answered between two pictures.
    await setImmediate();
    const { patches, gridH, gridW } = processor.preprocess(image);
    const data = new Uint8Array(patches.buffer, patches.byteOffset, patches.byteLength);
    items.push(encodeFeatures({ hash: image.hash, grid: [1, gridH, gridW], dtype: "float32", data }));
  }
  return {
    mm_hashes: { image: images.map(({ image }) => image.hash) },
    mm_placeholders: { image: images.map(({ start, length }) => ({ offset: start, length })) },
    kwargs_data: { image: items },
    mm_metadata: { image: items.map(withoutPixels) },
  };
}

function withoutPixels(item: string): string {
  const fields = unpack(Buffer.from(item, "base64"));
  const kept = fields instanceof Map ? new Map([...fields].filter(([name]) => name !== "pixel_values")) : fields;
  return Buffer.from(pack(kept)).toString("base64");
}
