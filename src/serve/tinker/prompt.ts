/** Chunks to what a model is given: an image chunk stands for its placeholders alone; their brackets are ids of the text around it. */
import { createHash } from "node:crypto";
import { DataError } from "../../core/errors.ts";
import type { Image } from "../../core/image.ts";
import type { ModelInput } from "../../core/model-input.ts";
import type { ChatFolder } from "../../model/chat.ts";
import { standIn } from "../../model/image-processor.ts";
import type { InputChunk } from "../../tinker/messages.ts";
import type { Desk } from "../desk.ts";

/** A frame comes turn after turn, and again to be learned from. Those used last are last. */
const frames = new Map<string, Image>();
const MAX_BYTES = 64 * 1024 * 1024;
/** Of the distinct images of one batch, as the model sees them: 128 megapixels. */
const MAX_IMAGE_BYTES = 3 * 128 * 1024 * 1024;
let bytes = 0;

function remember(key: string, image: Image): void {
  if (!frames.delete(key)) bytes += image.data.length;
  frames.set(key, image);
  for (const [oldest, { data }] of frames) {
    if (bytes <= MAX_BYTES) break;
    frames.delete(oldest);
    bytes -= data.length;
  }
}

/** What prompts are made with. */
export type PromptShop = { readonly chat: ChatFolder; readonly desk: Desk; readonly contextTokens: number };
/** `release` gives the room of their pixels back. */
export type Prompts = { readonly prompts: readonly ModelInput[]; readonly release: () => void };

type Place = { readonly start: number; readonly length: number; readonly key: string };
type Outline = { readonly ids: Int32Array; readonly places: readonly Place[] };

/** Lengths and headers of all are checked before one image is decoded. */
export async function promptsOf(
  lists: readonly (readonly InputChunk[])[],
  shop: PromptShop,
  signal?: AbortSignal,
): Promise<Prompts> {
  const files = new Map<string, Uint8Array>();
  const outlines = lists.map((chunks) => outline(chunks, shop, files));
  const size = [...files.values()].reduce((sum, file) => sum + shop.desk.bytesOf(file), 0);
  if (size > MAX_IMAGE_BYTES) {
    throw new DataError(
      `The batch shows ${Math.ceil(size / 3)} pixels of different images; ${MAX_IMAGE_BYTES / 3} are the most: send it in parts.`,
    );
  }
  const found = new Map<string, Image>();
  for (const key of files.keys()) {
    const known = frames.get(key);
    if (known !== undefined) found.set(key, known);
  }
  const missing = [...files].filter(([key]) => !found.has(key));
  const decoded = await shop.desk.decode(
    missing.map(([, file]) => file),
    signal,
  );
  for (const [i, [key]] of missing.entries()) found.set(key, decoded.images[i] as Image);
  for (const [key, image] of found) remember(key, image);
  return {
    prompts: outlines.map(({ ids, places }) => ({
      ids,
      images: places.map(({ start, length, key }) => ({ start, length, image: found.get(key) as Image })),
    })),
    release: decoded.release,
  };
}

function outline(
  chunks: readonly InputChunk[],
  { chat: { processor, ids: names, vocabSize }, desk, contextTokens }: PromptShop,
  files: Map<string, Uint8Array>,
): Outline {
  const ids: number[] = [];
  const places: Place[] = [];
  const checkRoom = (more: number) => {
    if (ids.length + more <= contextTokens) return;
    throw new DataError(`A model_input has ${ids.length + more} tokens or more; the context has ${contextTokens}.`);
  };
  for (const chunk of chunks) {
    if (chunk.type === "encoded_text") {
      checkRoom(chunk.tokens.length);
      for (const id of Array.from(chunk.tokens)) {
        if (!(id >= 0 && id < vocabSize) || id === names.imageToken) {
          throw new DataError(
            `Token ${id} is not a text token of a vocabulary of ${vocabSize}; send images as separate chunks.`,
          );
        }
        ids.push(id);
      }
      continue;
    }
    const { width, height } = desk.size(chunk.data);
    const length = processor.tokenCount(standIn(width, height));
    const { expected_tokens: expected = length } = chunk;
    if (expected !== length) {
      throw new DataError(`An image was expected to take ${expected} tokens, but it takes ${length}.`);
    }
    checkRoom(length);
    const key = createHash("sha256").update(chunk.data).digest("base64");
    files.set(key, chunk.data);
    places.push({ start: ids.length, length, key });
    for (let i = 0; i < length; i++) ids.push(names.imageToken);
  }
  if (ids.length === 0) throw new DataError("A model_input has at least one token.");
  return { ids: Int32Array.from(ids), places };
}
