/**
 * PNG in and out, over node:zlib. Every PNG of the standard can be read (all bit depths, palettes, transparency,
 * interlacing); what is transparent is laid over white, and 16-bit samples keep their high byte. Written is 8-bit RGB.
 * The reader is strict: lengths and the checksums of all that it uses must hold, and the size is checked before memory is spent on pixels.
 */
import { constants, crc32, deflateSync, inflateSync } from "node:zlib";
import { ImageError } from "../core/errors.ts";
import { checkSize, Image } from "../core/image.ts";

const SIGNATURE = Uint8Array.of(137, 80, 78, 71, 13, 10, 26, 10);

export type PngOptions = {
  /** zlib's effort, 0 to 9. */
  readonly level?: number;
};

/** A rectangle of an image, in pixels from its upper left corner. */
export type PngPart = { readonly x: number; readonly y: number; readonly width: number; readonly height: number };

/** Bytes of an 8-bit RGB PNG; the same image gives the same bytes. */
export function encodePng(image: Image, options: PngOptions = {}): Uint8Array {
  const packed = deflateSync(filterRows(image), { level: options.level ?? 3, memLevel: 9 });
  const header = Buffer.alloc(13);
  header.writeUInt32BE(image.width, 0);
  header.writeUInt32BE(image.height, 4);
  header.set([8, 2, 0, 0, 0], 8);
  return Buffer.concat([SIGNATURE, chunk("IHDR", header), chunk("IDAT", packed), chunk("IEND", new Uint8Array(0))]);
}

/** Flat images pack fastest and about as small as they are; others as differences to the pixel on the left. */
function filterRows({ width, height, data }: Image): Uint8Array {
  const stride = width * 3;
  const rows = new Uint8Array((stride + 1) * height);
  const filter = isFlat(data) ? 0 : 1;
  for (let y = 0; y < height; y++) {
    const from = y * stride;
    const to = y * (stride + 1) + 1;
    rows[to - 1] = filter;
    rows.set(data.subarray(from, from + (filter === 0 ? stride : 3)), to);
    if (filter === 0) continue;
    for (let i = 3; i < stride; i++) rows[to + i] = (data[from + i] as number) - (data[from + i - 3] as number);
  }
  return rows;
}

/** Whether half of the pixels, sampled, equal their left neighbour. */
function isFlat(data: Uint8Array): boolean {
  let [equal, seen] = [0, 0];
  for (let i = 3; i < data.length; i += 21, seen++) {
    if (data[i] === data[i - 3] && data[i + 1] === data[i - 2] && data[i + 2] === data[i - 1]) equal++;
  }
  return equal * 2 >= seen;
}

function chunk(type: string, body: Uint8Array): Buffer {
  const bytes = Buffer.alloc(body.length + 12);
  bytes.writeUInt32BE(body.length, 0);
  bytes.write(type, 4, "latin1");
  bytes.set(body, 8);
  bytes.writeUInt32BE(crc32(bytes.subarray(4, 8 + body.length)), 8 + body.length);
  return bytes;
}

/** Upper-left pixel and steps of each pass of an interlaced image; any other is one pass over everything. */
const ADAM7 = [
  [0, 0, 8, 8],
  [4, 0, 8, 8],
  [0, 4, 4, 8],
  [2, 0, 4, 4],
  [0, 2, 2, 4],
  [1, 0, 2, 2],
  [0, 1, 1, 2],
] as const;

/** Allowed bit depths and samples per pixel, by PNG colour type. */
const DEPTHS: Readonly<Record<number, readonly number[]>> = {
  0: [1, 2, 4, 8, 16],
  2: [8, 16],
  3: [1, 2, 4, 8],
  4: [8, 16],
  6: [8, 16],
};
const SAMPLES: Readonly<Record<number, number>> = { 0: 1, 2: 3, 3: 1, 4: 2, 6: 4 };

type Header = {
  readonly width: number;
  readonly height: number;
  readonly depth: number;
  readonly colorType: number;
  readonly samples: number;
  readonly interlaced: boolean;
};
type Png = Header & {
  readonly palette: Uint8Array;
  /** The tRNS chunk: alpha of palette entries, or 16 bits per sample of the one colour that is transparent. */
  readonly transparency: Uint8Array;
  readonly packed: Uint8Array;
};

export function isPng(bytes: Uint8Array): boolean {
  return SIGNATURE.every((byte, i) => bytes[i] === byte);
}

/** Size from the header; throws where these bytes do not start a PNG. The rest of the header is left to decoding. */
export function readPngSize(bytes: Uint8Array): { readonly width: number; readonly height: number } {
  if (!isPng(bytes) || bytes.length < 24) throw broken("it ends early");
  const header = new DataView(bytes.buffer, bytes.byteOffset + 16, 8);
  return { width: header.getUint32(0), height: header.getUint32(4) };
}

/** `part`: only these pixels of it, which must lie inside; the work is then about that of reading them alone. */
export function decodePng(bytes: Uint8Array, part?: PngPart): Image {
  const png = readChunks(bytes);
  if (part !== undefined) return decodePart(png, part);
  const { width, height } = png;
  const pixelBits = png.depth * png.samples;
  const passes = (png.interlaced ? ADAM7 : [[0, 0, 1, 1] as const])
    .map(([x, y, stepX, stepY]) => {
      const columns = Math.ceil((width - x) / stepX);
      const stride = Math.ceil((columns * pixelBits) / 8);
      return { x, y, stepX, stepY, columns, stride, rows: Math.ceil((height - y) / stepY) };
    })
    .filter((pass) => pass.columns > 0 && pass.rows > 0);
  const raw = inflate(
    png.packed,
    passes.reduce((sum, pass) => sum + pass.rows * (pass.stride + 1), 0),
  );
  const out = new Uint8Array(width * height * 3);
  const isPlainRgb = png.colorType === 2 && png.depth === 8 && !png.interlaced && png.transparency.length === 0;
  let at = 0;
  for (const pass of passes) {
    unfilter(raw, at, pass.rows, pass.stride, Math.max(1, pixelBits >> 3));
    for (let row = 0; row < pass.rows; row++, at += pass.stride + 1) {
      const line = raw.subarray(at + 1, at + 1 + pass.stride);
      let to = ((pass.y + row * pass.stepY) * width + pass.x) * 3;
      if (isPlainRgb) out.set(line, to);
      else for (let i = 0; i < pass.columns; i++, to += pass.stepX * 3) copyPixel(png, line, i, out, to);
    }
  }
  return new Image(width, height, out);
}

/** What is neither above, nor left of what is below: rows after the part, and what stands right of it, are never undone. */
function decodePart(png: Png, { x, y, width, height }: PngPart): Image {
  const fits = x >= 0 && y >= 0 && x + width <= png.width && y + height <= png.height;
  if (!fits || png.interlaced || png.depth !== 8) {
    throw new ImageError(
      `A part can be read of an 8-bit PNG that is not interlaced and holds it; got ${width}×${height} at ${x}, ${y} of ${png.width}×${png.height}.`,
    );
  }
  const { samples } = png;
  const stride = png.width * samples;
  const raw = inflate(png.packed, png.height * (stride + 1));
  unfilter(raw, 0, y + height, stride, samples, (x + width) * samples);
  const out = new Uint8Array(width * height * 3);
  const isOpaque = png.colorType === 2 && png.transparency.length === 0;
  for (let row = 0, to = 0; row < height; row++) {
    const line = raw.subarray((y + row) * (stride + 1) + 1, (y + row + 1) * (stride + 1));
    for (let column = x; column < x + width; column++, to += 3) {
      const at = column * samples;
      if (isOpaque || (png.colorType === 6 && line[at + 3] === 255)) {
        out[to] = line[at] as number;
        out[to + 1] = line[at + 1] as number;
        out[to + 2] = line[at + 2] as number;
      } else copyPixel(png, line, column, out, to);
    }
  }
  return new Image(width, height, out);
}

function readChunks(bytes: Uint8Array): Png {
  if (!isPng(bytes)) throw new ImageError("These bytes are not a PNG: give a file that starts with the PNG signature.");
  const view = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  let header: Header | undefined;
  let palette: Uint8Array = new Uint8Array(0);
  let transparency: Uint8Array = new Uint8Array(0);
  const packed: Uint8Array[] = [];
  for (let at = 8; ; ) {
    const end = at + 12 <= view.length ? at + 8 + view.readUInt32BE(at) : Infinity;
    if (end + 4 > view.length) throw broken("it ends early");
    const type = view.toString("latin1", at + 4, at + 8);
    // What is not used (colour profiles, comments) may be broken: files in use are, and others show them.
    const isUsed = /^[A-Z]/.test(type) || type === "tRNS";
    if (isUsed && crc32(view.subarray(at + 4, end)) !== view.readUInt32BE(end))
      throw broken(`its ${type} chunk fails its checksum`);
    const body = view.subarray(at + 8, end);
    at = end + 4;
    if (header === undefined) {
      if (type !== "IHDR" || body.length !== 13) throw broken("it does not start with a header");
      header = readHeader(body);
    } else if (type === "PLTE") {
      palette = body;
    } else if (type === "tRNS") {
      transparency = body;
    } else if (type === "IDAT") {
      packed.push(body);
    } else if (type === "IEND") {
      return { ...header, palette, transparency, packed: Buffer.concat(packed) };
    } else if (/^[A-Z]/.test(type)) {
      throw broken(`it needs the unknown chunk ${type}`);
    }
  }
}

function readHeader(body: Buffer): Header {
  const [width, height] = [body.readUInt32BE(0), body.readUInt32BE(4)];
  const [depth = 0, colorType = 0, compression = 0, filter = 0, interlace = 0] = body.subarray(8);
  checkSize(width, height);
  if (!DEPTHS[colorType]?.includes(depth) || compression !== 0 || filter !== 0 || interlace > 1) {
    throw broken(`its header is not valid (colour type ${colorType}, ${depth} bits)`);
  }
  return { width, height, depth, colorType, samples: SAMPLES[colorType] as number, interlaced: interlace === 1 };
}

function inflate(packed: Uint8Array, expected: number): Uint8Array {
  let raw: Uint8Array;
  try {
    // A cut stream is left to the length check; one that holds more than the header announces stops here.
    raw = inflateSync(packed, { maxOutputLength: expected, finishFlush: constants.Z_SYNC_FLUSH });
  } catch (error) {
    throw broken("its pixels can't be unpacked", error);
  }
  if (raw.length !== expected) throw broken(`it holds ${raw.length} of ${expected} bytes of pixels`);
  return raw;
}

/** Undoes the row filters in place; a row is a filter byte and `stride` bytes, of which the first `used` are wanted. `back` is one pixel, in bytes. */
function unfilter(raw: Uint8Array, start: number, rows: number, stride: number, back: number, used = stride): void {
  const at = (i: number) => raw[i] as number;
  for (let row = 0; row < rows; row++) {
    const line = start + row * (stride + 1) + 1;
    const end = line + used;
    const filter = raw[line - 1] as number;
    const above = stride + 1;
    if (filter > 4) throw broken(`a row has the unknown filter ${filter}`);
    if (filter === 0) continue;
    if (filter === 1) {
      for (let i = line + back; i < end; i++) raw[i] = at(i) + at(i - back);
    } else if (filter === 2) {
      if (row > 0) for (let i = line; i < end; i++) raw[i] = at(i) + at(i - above);
    } else {
      for (let i = line; i < end; i++) {
        const left = i - line >= back ? at(i - back) : 0;
        const up = row > 0 ? at(i - above) : 0;
        const corner = i - line >= back && row > 0 ? at(i - above - back) : 0;
        raw[i] = at(i) + (filter === 3 ? (left + up) >> 1 : paeth(left, up, corner));
      }
    }
  }
}

function paeth(left: number, up: number, corner: number): number {
  const toLeft = Math.abs(up - corner);
  const toUp = Math.abs(left - corner);
  const toCorner = Math.abs(left + up - 2 * corner);
  return toLeft <= toUp && toLeft <= toCorner ? left : toUp <= toCorner ? up : corner;
}

/** Writes pixel `column` of an unfiltered row as RGB at byte `to`. */
function copyPixel(png: Png, line: Uint8Array, column: number, out: Uint8Array, to: number): void {
  const { depth, samples, palette, transparency } = png;
  const at = column * samples;
  if (png.colorType === 3) {
    const entry = sampleAt(line, at, depth);
    if (entry * 3 + 2 >= palette.length) throw broken(`a pixel has colour ${entry}, which the palette lacks`);
    const alpha = transparency[entry] ?? 255;
    for (let c = 0; c < 3; c++) out[to + c] = overWhite(palette[entry * 3 + c] as number, alpha);
    return;
  }
  const colors = samples < 3 ? 1 : 3;
  let alpha = samples > colors ? toByte(sampleAt(line, at + colors, depth), depth) : 255;
  if (samples === colors && transparency.length === colors * 2) {
    let clear = true;
    for (let c = 0; c < colors; c++) clear &&= sampleAt(line, at + c, depth) === sampleAt(transparency, c, 16);
    if (clear) alpha = 0;
  }
  for (let c = 0; c < 3; c++) {
    out[to + c] = overWhite(toByte(sampleAt(line, at + (colors === 3 ? c : 0), depth), depth), alpha);
  }
}

function sampleAt(line: Uint8Array, i: number, depth: number): number {
  if (depth === 8) return line[i] as number;
  if (depth === 16) return ((line[i * 2] as number) << 8) | (line[i * 2 + 1] as number);
  const bit = i * depth;
  return ((line[bit >> 3] as number) >> (8 - depth - (bit & 7))) & ((1 << depth) - 1);
}

function toByte(sample: number, depth: number): number {
  return depth === 8 ? sample : depth === 16 ? sample >> 8 : (sample * 255) / ((1 << depth) - 1);
}

function overWhite(value: number, alpha: number): number {
  return alpha === 255 ? value : Math.floor((value * alpha + 255 * (255 - alpha) + 127) / 255);
}

function broken(what: string, cause?: unknown): ImageError {
  return new ImageError(`The PNG is broken: ${what}. Save or download the image again.`, { cause });
}
