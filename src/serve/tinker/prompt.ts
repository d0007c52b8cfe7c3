/** Chunks to what a model is given: an image chunk stands for its placeholders alone; their brackets are ids of the text around it. */
import { createHash } from "node:crypto";
import { DataError } from "../../core/errors.ts";
import type { Image } from "../../core/image.ts";
import type { ImageSpan, ModelInput } from "../../core/model-input.ts";
import { decodeImage } from "../../images/decode.ts";
import type { ChatFolder } from "../../model/chat.ts";
import type { WireChunk } from "./messages.ts";

/** A frame comes turn after turn, and again to be learned from. Those used last are last. */
const pictures = new Map<string, Image>();
const MOST_BYTES = 64 * 1024 * 1024;
let bytes = 0;

async function pictureOf(file: Uint8Array): Promise<Image> {
  const key = createHash("sha256").update(file).digest("base64");
  const image = pictures.get(key) ?? (await decodeImage(file));
  if (!pictures.delete(key)) bytes += image.data.length;
  pictures.set(key, image);
  for (const [oldest, { data }] of pictures) {
    if (bytes <= MOST_BYTES) break;
    pictures.delete(oldest);
    bytes -= data.length;
  }
  return image;
}

export async function promptOf(
  chunks: readonly WireChunk[],
  { processor, ids: names, vocabSize }: ChatFolder,
): Promise<ModelInput> {
  const ids: number[] = [];
  const images: ImageSpan[] = [];
  for (const chunk of chunks) {
    if (chunk.type === "text") {
      for (const id of chunk.ids) {
        if (!(id >= 0 && id < vocabSize) || id === names.imageToken) {
          throw new DataError(
            `Token ${id} is no text of a vocabulary of ${vocabSize}; images are chunks of their own.`,
          );
        }
        ids.push(id);
      }
      continue;
    }
    const image = await pictureOf(chunk.data);
    const length = processor.tokenCount(image);
    if (chunk.expected !== undefined && chunk.expected !== length) {
      throw new DataError(`An image was expected to take ${chunk.expected} tokens, but it takes ${length}.`);
    }
    images.push({ start: ids.length, length, image });
    for (let i = 0; i < length; i++) ids.push(names.imageToken);
  }
  if (ids.length === 0) throw new DataError("A model_input has at least one token.");
  return { ids: Int32Array.from(ids), images };
}

/** Placeholders of pictures and their brackets, which have no probability. */
export function visionIds({ ids, tokenizer }: ChatFolder): Set<number> {
  const padding = tokenizer.special.get("<|vision_pad|>");
  return new Set([
    ids.imageToken,
    ids.videoToken,
    ids.visionStart,
    ids.visionEnd,
    ...(padding === undefined ? [] : [padding]),
  ]);
}
