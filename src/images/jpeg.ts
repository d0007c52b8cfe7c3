/**
 * JPEG in, through mozjpeg compiled to WebAssembly (`@jsquash/jpeg`), loaded when first needed. The package fetches its
 * .wasm by URL in browsers; here we read the file and hand it over. The header is read by us first, so that the size
 * is checked before memory is spent. Pixels are as stored: EXIF orientation is not applied (nor does Pillow apply it).
 */
import { readFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { ImageError } from "../core/errors.ts";
import { checkSize, Image } from "../core/image.ts";

type Rgba = { readonly width: number; readonly height: number; readonly data: Uint8ClampedArray };
type Decoder = {
  decode(bytes: Uint8Array): Promise<Rgba>;
  /** What libjpeg said since it was last emptied. */
  readonly said: string[];
};

let decoder: Promise<Decoder> | undefined;
let queue: Promise<unknown> = Promise.resolve();

export function isJpeg(bytes: Uint8Array): boolean {
  return bytes[0] === 0xff && bytes[1] === 0xd8 && bytes[2] === 0xff;
}

/** One at a time: libjpeg's complaints reach us through one channel, and must be matched to their image. */
export function decodeJpeg(bytes: Uint8Array): Promise<Image> {
  const result = queue.then(() => decodeNext(bytes));
  queue = result.catch(() => undefined);
  return result;
}

async function decodeNext(bytes: Uint8Array): Promise<Image> {
  const { width, height } = readJpegSize(bytes);
  const hadImageData = "ImageData" in globalThis;
  decoder ??= load();
  const { decode, said } = await decoder;
  said.length = 0;
  let rgba: Rgba;
  try {
    rgba = await decode(bytes);
  } catch (error) {
    // libjpeg gave up in mid-air; its memory can't be trusted, so the next image gets a new one.
    decoder = undefined;
    throw broken(said.at(-1) ?? "it can't be decoded", error);
  } finally {
    // The package puts a stand-in on the global object when it loads, and holds on to it once it has decoded.
    if (!hadImageData) Reflect.deleteProperty(globalThis, "ImageData");
  }
  if (said.some((line) => line.includes("Premature end"))) throw broken("it ends early");
  if (rgba.width !== width || rgba.height !== height) throw broken("its size differs from its header");
  const out = new Uint8Array(width * height * 3);
  for (let i = 0, from = 0; i < out.length; i += 3, from += 4) {
    out[i] = rgba.data[from] as number;
    out[i + 1] = rgba.data[from + 1] as number;
    out[i + 2] = rgba.data[from + 2] as number;
  }
  return new Image(width, height, out);
}

async function load(): Promise<Decoder> {
  const wasm = createRequire(import.meta.url).resolve("@jsquash/jpeg/codec/dec/mozjpeg_dec.wasm");
  const [wasmBinary, codec] = await Promise.all([readFile(wasm), import("@jsquash/jpeg/decode.js")]);
  const said: string[] = [];
  const options = { noInitialRun: true, wasmBinary, printErr: (line: string) => said.push(line) };
  await codec.init(options);
  const decode = codec.default as unknown as (bytes: Uint8Array) => Promise<Rgba>;
  return { decode, said };
}

/** Size from the frame header; throws unless these bytes start a grey or colour JPEG of a size we hold. */
export function readJpegSize(bytes: Uint8Array): { width: number; height: number } {
  if (!isJpeg(bytes)) throw new ImageError("These bytes are not a JPEG: give a file that starts with the JPEG marker.");
  const word = (at: number) => ((bytes[at] as number) << 8) | (bytes[at + 1] as number);
  for (let at = 2; at + 9 < bytes.length; ) {
    if (bytes[at] !== 0xff) throw broken("its segments are out of step");
    const marker = bytes[at + 1] as number;
    if (marker === 0xff) {
      at += 1;
    } else if (marker === 0x01 || (marker >= 0xd0 && marker <= 0xd8)) {
      at += 2;
    } else if (marker === 0xda || marker === 0xd9) {
      break;
    } else if (marker >= 0xc0 && marker <= 0xcf && marker !== 0xc4 && marker !== 0xc8 && marker !== 0xcc) {
      const size = { width: word(at + 7), height: word(at + 5) };
      checkSize(size.width, size.height);
      const components = bytes[at + 9];
      if (components !== 1 && components !== 3) {
        throw new ImageError(`This JPEG has ${components} colour channels (CMYK?): save it as RGB or grey.`);
      }
      return size;
    } else {
      at += 2 + word(at + 2);
    }
  }
  throw broken("it has no frame header");
}

function broken(what: string, cause?: unknown): ImageError {
  return new ImageError(`The JPEG is broken: ${what}. Save or download the image again.`, { cause });
}
