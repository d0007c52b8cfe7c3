/**
 * What an OpenEnv observation shows. OpenEnv has no form for images, so all that are in use are known: nested lists of rows, pixels and channels, data URIs,
 * base64 of a PNG or JPEG file, and MCP's image content. Everything else is text: a lone string as it is, several fields as JSON, with a mark for each image.
 */
import { DataError } from "../core/errors.ts";
import { Image } from "../core/image.ts";
import { isJsonObject, type Json, type JsonObject } from "../core/json.ts";
import { image, type Part, text } from "../core/message.ts";
import { decodeImage } from "../images/decode.ts";

/** Smaller lists are boards or features, not frames. */
const MIN_SIDE = 8;
const MAX_PIXELS = 16 * 1024 * 1024;
const MAX_DEPTH = 50;
/** The first bytes of PNG and JPEG files, in base64. */
const FILE = /^(iVBORw0KGgo|\/9j\/)[A-Za-z0-9+/=\s]+$/;
const DATA_URI = /^data:image\/(png|jpe?g);base64,/i;
/** What the wire says besides, and what is never shown. */
const HIDDEN = ["metadata", "done", "reward"];
const MARK = "<image>";

/** `fields`: the names of fields that are images; absent: whatever looks like one. */
export async function observationParts(seen: JsonObject, fields?: readonly string[]): Promise<Part[]> {
  const images: Image[] = [];
  const walk = async (value: Json, name: string, depth: number): Promise<Json> => {
    if (depth > MAX_DEPTH) return value;
    if (fields === undefined || fields.includes(name)) {
      const found = await imageIn(value, name, fields !== undefined);
      if (found !== undefined) {
        images.push(found);
        return `${MARK} ${images.length}`;
      }
    }
    if (Array.isArray(value)) {
      const walked: Json[] = [];
      // A long list of numbers has nothing to find.
      if (typeof value[0] === "number") return value;
      for (const one of value) walked.push(await walk(one, name, depth + 1));
      return walked;
    }
    if (!isJsonObject(value)) return value;
    const walked: Record<string, Json> = {};
    for (const [key, one] of Object.entries(value)) walked[key] = await walk(one, key, depth + 1);
    return walked;
  };
  const rest = (await walk(
    Object.fromEntries(Object.entries(seen).filter(([name]) => !HIDDEN.includes(name))),
    "",
    0,
  )) as JsonObject;
  return arranged(textOf(rest, images.length), images);
}

/** Fields that hold nothing but images have nothing to tell. */
function textOf(rest: JsonObject, count: number): string {
  const isMark = (value: Json): boolean =>
    Array.isArray(value)
      ? value.length > 0 && value.every(isMark)
      : typeof value === "string" && /^<image> \d+$/.test(value);
  const left = Object.entries(rest).filter(([, value]) => !isMark(value) && value !== null && value !== "");
  const [only] = left;
  if (left.length === 1 && typeof only?.[1] === "string") return only[1];
  if (left.length === 0) return "";
  return JSON.stringify(count > 0 ? rest : Object.fromEntries(left));
}

/** A text with a mark for every image has them in their places; otherwise they follow it. */
function arranged(words: string, images: readonly Image[]): Part[] {
  const pieces = words.split(MARK);
  const say = (piece: string) => (piece.trim() === "" ? [] : [text(piece)]);
  if (images.length > 0 && pieces.length === images.length + 1 && !/^\s*\d/.test(pieces[1] ?? "")) {
    return pieces.flatMap((piece, i) => [...(i > 0 ? [image(images[i - 1] as Image)] : []), ...say(piece)]);
  }
  const parts = [...say(words), ...images.map((one) => image(one))];
  return parts.length > 0 ? parts : [text("(nothing)")];
}

async function imageIn(value: Json, name: string, isNamed: boolean): Promise<Image | undefined> {
  if (typeof value === "string") {
    const base64 = DATA_URI.test(value) ? value.slice(value.indexOf(",") + 1) : FILE.test(value) ? value : undefined;
    if (base64 !== undefined) return decodeImage(Buffer.from(base64, "base64"), MAX_PIXELS);
  }
  if (isJsonObject(value) && value.type === "image" && typeof value.data === "string") {
    return decodeImage(Buffer.from(value.data, "base64"), MAX_PIXELS);
  }
  const found = Array.isArray(value) ? fromLists(value, isNamed ? 1 : MIN_SIDE) : undefined;
  if (found === undefined && isNamed && value !== null && Array.isArray(value) && typeof value[0] === "number") {
    throw new DataError(`The field ${name} should be an image, but it is a list of numbers.`);
  }
  return found;
}

/** Rows of pixels of 1, 3 or 4 channels: whole numbers up to 255, or shares of 1. */
function fromLists(rows: readonly Json[], minSide: number): Image | undefined {
  const [first] = rows;
  if (!Array.isArray(first) || rows.length < minSide || first.length < minSide) return undefined;
  const [height, width] = [rows.length, first.length];
  const channels = Array.isArray(first[0]) ? first[0].length : 0;
  if (![1, 3, 4].includes(channels) || width * height > MAX_PIXELS) return undefined;
  const values = new Float64Array(width * height * channels);
  let at = 0;
  for (const row of rows) {
    if (!Array.isArray(row) || row.length !== width) return undefined;
    for (const pixel of row) {
      if (!Array.isArray(pixel) || pixel.length !== channels) return undefined;
      for (const value of pixel) {
        if (typeof value !== "number" || !(value >= 0 && value <= 255)) return undefined;
        values[at++] = value;
      }
    }
  }
  const isShare = values.some((value) => !Number.isInteger(value));
  if (isShare && values.some((value) => value > 1)) return undefined;
  const scale = isShare ? 255 : 1;
  const data = new Uint8Array(width * height * 3);
  for (let i = 0; i < width * height; i++) {
    for (let c = 0; c < 3; c++) {
      data[i * 3 + c] = Math.round((values[i * channels + (channels === 1 ? 0 : c)] as number) * scale);
    }
  }
  return new Image(width, height, data);
}
