/**
 * Runs inside a desk thread: text to ids, conversations to prompts, files to pixels, pixels to features. It checks lengths and headers before it decodes anything.
 */
import { parentPort, workerData } from "node:worker_threads";
import { DataError, errorMessage, SaccadeError } from "../core/errors.ts";
import { Image } from "../core/image.ts";
import { imagesOf, textOf } from "../core/message.ts";
import { encodeFeatures, encodeMetadata, processedFeatures } from "../engine/features.ts";
import { decodeImage, readImageSize } from "../images/decode.ts";
import { dataUriBytes, fromOpenAI } from "../images/openai.ts";
import { type ChatFolder, loadChat } from "../model/chat.ts";
import { standIn } from "../model/image-processor.ts";
import {
  type Decoded,
  type DeskCall,
  type DeskData,
  type DeskJob,
  type DeskReply,
  type Encoded,
  MAX_CHARACTERS,
  MAX_PIXELS,
  MAX_REQUEST_CHARACTERS,
  type Processed,
  type Rendered,
} from "./desk-wire.ts";

const { folder, contextTokens } = workerData as DeskData;
const opened = loadChat(folder);

async function work(job: DeskJob): Promise<Encoded | Rendered | Decoded | Processed> {
  const chat = await opened;
  switch (job.kind) {
    case "encode":
      return encode(job.texts, chat);
    case "render":
      return render(job, chat);
    case "image":
      return decode(job.file, chat);
    case "features":
      return process(job.image, chat);
  }
}

function encode(texts: readonly string[], { tokenizer }: ChatFolder): Encoded {
  const most = maxCharacters(tokenizer.longest);
  for (const text of texts) checkLength(text.length, most);
  checkTogether(texts.reduce((sum, { length }) => sum + length, 0));
  return { ids: texts.map((text) => tokenizer.encode(text)) };
}

async function render(
  { messages: wire, options }: Extract<DeskJob, { kind: "render" }>,
  { tokenizer, processor, renderer }: ChatFolder,
): Promise<Rendered> {
  const files = new Map<Image, Uint8Array>();
  let seen = 0;
  const messages = await fromOpenAI(wire, async (url) => {
    const file = dataUriBytes(url);
    const { width, height } = readImageSize(file, MAX_PIXELS);
    const image = standIn(width, height);
    seen += processor.tokenCount(image);
    if (seen >= contextTokens) {
      throw new DataError(`the images up to this one take ${seen} tokens; the context has ${contextTokens}.`);
    }
    files.set(image, file);
    return image;
  });
  const said = messages.reduce((sum, message) => sum + textOf(message).length, 0);
  checkLength(said + JSON.stringify(options.variables ?? {}).length, maxCharacters(tokenizer.longest));
  const { ids, images } = renderer.prompt(messages, options);
  return {
    ids,
    places: images.map(({ start, length }) => ({ start, length })),
    files: messages.flatMap(imagesOf).map((image) => files.get(image) as Uint8Array),
  };
}

async function decode(file: Uint8Array, { processor }: ChatFolder): Promise<Decoded> {
  const image = await decodeImage(file, MAX_PIXELS);
  const { hash } = image;
  const view = processor.view(image);
  // What is enlarged is enlarged where it is used.
  const { width, height, data } = view.data.length < image.data.length ? view : image;
  return { width, height, data, hash };
}

function process({ width, height, data, hash }: Decoded, { processor }: ChatFolder): Processed {
  const features = processedFeatures(new Image(width, height, data, hash), processor);
  return { item: encodeFeatures(features), metadata: encodeMetadata(features) };
}

/** No token stands for more bytes than the longest, and no text has fewer bytes than characters; composing accents can make three characters one. */
function maxCharacters(longest: number): number {
  return Math.min(MAX_CHARACTERS, contextTokens * longest * 3);
}

function checkLength(length: number, most: number): void {
  if (length <= most) return;
  throw new DataError(
    `The prompt has ${length} characters, more than the ${most} that a context of ${contextTokens} tokens can hold: shorten it.`,
  );
}

function checkTogether(length: number): void {
  if (length <= MAX_REQUEST_CHARACTERS) return;
  throw new DataError(`The prompts have ${length} characters; a request has at most ${MAX_REQUEST_CHARACTERS}.`);
}

async function answer({ id, job }: DeskCall): Promise<void> {
  try {
    const result = await work(job);
    const buffers = "files" in result ? result.files : "data" in result ? [result.data] : [];
    // A buffer of its own can move; small ones share Node's pool.
    const moved = buffers.map(({ buffer }) => buffer).filter((buffer) => buffer.byteLength > 65_536);
    parentPort?.postMessage({ id, result } satisfies DeskReply, [...new Set(moved)] as ArrayBuffer[]);
  } catch (error) {
    const isOurs = error instanceof SaccadeError;
    parentPort?.postMessage({ id, error: { message: errorMessage(error), isOurs } } satisfies DeskReply);
  }
}

parentPort?.on("message", answer);
