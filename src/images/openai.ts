/**
 * Messages as the world outside writes them: OpenAI's chat JSON, images as `image_url` data URIs. Reading and writing
 * lose nothing: how content stood (string, parts, null, absent) is kept in `form`, fields we do not use in `extra`.
 * Images are written as PNG and read as PNG or JPEG; nothing is ever downloaded. Errors name the path of the culprit.
 */
import { DataError, errorMessage } from "../core/errors.ts";
import type { Image } from "../core/image.ts";
import { isJsonObject, type Json, type JsonObject } from "../core/json.ts";
import type { ImagePart, Message, Part, Role, ToolCall } from "../core/message.ts";
import { given } from "../core/words.ts";
import { decodeImage } from "./decode.ts";
import { encodePng } from "./png.ts";

export type WireTextPart = JsonObject & { readonly type: "text"; readonly text: string };
export type WireImagePart = JsonObject & {
  readonly type: "image_url";
  readonly image_url: JsonObject & { readonly url: string };
};
export type WirePart = WireTextPart | WireImagePart;
export type WireToolCall = JsonObject & {
  readonly id: string;
  readonly type: "function";
  readonly function: JsonObject & { readonly name: string; readonly arguments: string };
};
export type WireMessage = JsonObject & {
  readonly role: Role;
  readonly content?: string | null | readonly WirePart[];
  readonly tool_calls?: readonly WireToolCall[];
};

/** `data:image/png;base64` and perhaps a parameter. */
const MAX_URI_HEAD = 256;
const ROLES: readonly string[] = ["system", "developer", "user", "assistant", "tool"] satisfies Role[];

/** `imageUrl` says where an image is found; by default it travels inside, as a PNG data URI. */
export function toOpenAI(
  messages: readonly Message[],
  { imageUrl = pngDataUri }: { imageUrl?: (image: Image) => string } = {},
): WireMessage[] {
  return messages.map((message) => {
    const content = writeContent(message, imageUrl);
    return {
      ...message.extra,
      role: message.role,
      ...(content !== undefined && { content }),
      ...(message.name !== undefined && { name: message.name }),
      ...(message.toolCalls !== undefined && { tool_calls: message.toolCalls.map(writeToolCall) }),
      ...(message.toolCallId !== undefined && { tool_call_id: message.toolCallId }),
    };
  });
}

function writeContent(
  { content, form, toolCalls }: Message,
  imageUrl: (image: Image) => string,
): string | null | WirePart[] | undefined {
  if (content.length === 0) {
    if (form === "absent") return undefined;
    if (form === "parts") return [];
    return form === "null" || (form === undefined && toolCalls !== undefined) ? null : "";
  }
  const [first] = content;
  const isPlainText = content.length === 1 && first?.type === "text" && first.extra === undefined;
  return isPlainText && form !== "parts" ? first.text : content.map((part) => writePart(part, imageUrl));
}

export function pngDataUri(image: Image): string {
  return `data:image/png;base64,${Buffer.from(encodePng(image)).toString("base64")}`;
}

function writePart(part: Part, imageUrl: (image: Image) => string): WirePart {
  if (part.type === "text") return { ...part.extra, type: "text", text: part.text };
  const url = imageUrl(part.image);
  const detail = part.detail === undefined ? {} : { detail: part.detail };
  return { ...part.extra, type: "image_url", image_url: { ...nested(part.extra, "image_url"), url, ...detail } };
}

function writeToolCall(call: ToolCall): WireToolCall {
  const written = { ...nested(call.extra, "function"), name: call.name, arguments: call.arguments };
  return { ...call.extra, id: call.id, type: "function", function: written };
}

/** Unused fields of an inner object are kept in `extra` under that object's name. */
function nested(extra: JsonObject | undefined, key: string): JsonObject {
  const value = extra?.[key];
  return isJsonObject(value) ? value : {};
}

type ReadImage = (url: string) => Promise<Image>;

/** `readImage` finds an image by its address; by default it must be inside, as a data URI. */
export async function fromOpenAI(wire: unknown, readImage: ReadImage = (url) => readDataUri(url)): Promise<Message[]> {
  if (!Array.isArray(wire)) throw new DataError(`messages must be a list of chat messages; got ${given(wire)}.`);
  return Promise.all(wire.map((message, i) => readMessage(message, `messages[${i}]`, readImage)));
}

async function readMessage(wire: unknown, path: string, readImage: ReadImage): Promise<Message> {
  const fields = new Fields(wire, path);
  const role = fields.string("role");
  if (!ROLES.includes(role)) {
    throw new DataError(`${path}.role is '${role}'; it must be one of ${ROLES.join(", ")}.`);
  }
  const content = await readContent(fields, path, readImage);
  const name = fields.optionalString("name");
  const toolCallId = fields.optionalString("tool_call_id");
  const toolCalls = fields.optionalList("tool_calls")?.map((call, i) => readToolCall(call, `${path}.tool_calls[${i}]`));
  // Without calls, empty content is written as ""; with them as null. `form` is kept only where that would be wrong.
  const form = content.form === "null" && toolCalls !== undefined ? {} : content.form && { form: content.form };
  return {
    role: role as Role,
    content: content.parts,
    ...(name !== undefined && { name }),
    ...(toolCalls !== undefined && { toolCalls }),
    ...(toolCallId !== undefined && { toolCallId }),
    ...form,
    ...fields.rest(),
  };
}

async function readContent(
  fields: Fields,
  path: string,
  readImage: ReadImage,
): Promise<{ parts: Part[]; form?: "parts" | "null" | "absent" }> {
  const content = fields.take("content");
  if (content === undefined) return { parts: [], form: "absent" };
  if (content === null) return { parts: [], form: "null" };
  if (typeof content === "string") return { parts: [{ type: "text", text: content }] };
  if (!Array.isArray(content)) throw new DataError(`${path}.content must be a string, a list of parts or null.`);
  const parts = await Promise.all(content.map((part, i) => readPart(part, `${path}.content[${i}]`, readImage)));
  return parts.length <= 1 ? { parts, form: "parts" } : { parts };
}

async function readPart(wire: unknown, path: string, readImage: ReadImage): Promise<Part> {
  const fields = new Fields(wire, path);
  const type = fields.string("type");
  if (type === "text") return { type, text: fields.string("text"), ...fields.rest() };
  if (type === "image_url") return readImagePart(fields, path, readImage);
  throw new DataError(`${path}.type is '${type}'; only text and image_url parts can be read.`);
}

async function readImagePart(fields: Fields, path: string, readImage: ReadImage): Promise<ImagePart> {
  const inner = new Fields(fields.take("image_url"), `${path}.image_url`);
  const url = inner.string("url");
  const detail = inner.optionalString("detail");
  const image = await readImage(url).catch((error: unknown) => {
    throw new DataError(`${path}.image_url.url: ${errorMessage(error)}`, { cause: error });
  });
  return { type: "image", image, ...(detail !== undefined && { detail }), ...fields.rest("image_url", inner) };
}

/** The image in a data URI. */
export async function readDataUri(url: string, mostPixels?: number): Promise<Image> {
  return decodeImage(dataUriBytes(url), mostPixels);
}

/** The file in a data URI. */
export function dataUriBytes(url: string): Uint8Array<ArrayBuffer> {
  if (/^https?:/i.test(url)) {
    throw new DataError("this is a web address, and Saccade downloads nothing: embed the image as a data URI.");
  }
  const comma = url.indexOf(",");
  if (comma < 0 || comma > MAX_URI_HEAD || !/^data:[^,]*;base64$/i.test(url.slice(0, comma))) {
    throw new DataError(`this must be a data URI, data:image/png;base64,… (or image/jpeg); got ${given(url)}.`);
  }
  return Buffer.from(url.slice(comma + 1), "base64");
}

function readToolCall(wire: unknown, path: string): ToolCall {
  const fields = new Fields(wire, path);
  const id = fields.string("id");
  const type = fields.string("type");
  if (type !== "function") throw new DataError(`${path}.type is '${type}'; only function calls can be read.`);
  const inner = new Fields(fields.take("function"), `${path}.function`);
  const call = { id, name: inner.string("name"), arguments: inner.string("arguments") };
  return { ...call, ...fields.rest("function", inner) };
}

/** Takes known fields out of a JSON object one by one; what is left at the end is `extra`. */
class Fields {
  readonly #left: Map<string, Json>;
  readonly #path: string;

  constructor(value: unknown, path: string) {
    if (!isJsonObject(value)) throw new DataError(`${path} must be an object.`);
    this.#left = new Map(Object.entries(value).filter(([, field]) => field !== undefined));
    this.#path = path;
  }

  take(key: string): Json | undefined {
    const value = this.#left.get(key);
    this.#left.delete(key);
    return value;
  }

  string(key: string): string {
    const value = this.take(key);
    if (typeof value !== "string") {
      throw new DataError(`${this.#path}.${key} ${value === undefined ? "is missing; it must" : "must"} be a string.`);
    }
    return value;
  }

  /** A field that is null stays where it is, and so ends in `extra`. */
  optionalString(key: string): string | undefined {
    const value = this.#left.get(key);
    return value === undefined || value === null ? undefined : this.string(key);
  }

  optionalList(key: string): readonly Json[] | undefined {
    const value = this.#left.get(key);
    if (value === undefined || value === null) return undefined;
    if (!Array.isArray(value)) throw new DataError(`${this.#path}.${key} must be a list.`);
    this.#left.delete(key);
    return value;
  }

  /** The fields nobody took, with those of an inner object under its name. */
  rest(innerKey?: string, inner?: Fields): { extra?: JsonObject } {
    if (innerKey !== undefined && inner !== undefined && inner.#left.size > 0) {
      this.#left.set(innerKey, Object.fromEntries(inner.#left));
    }
    return this.#left.size === 0 ? {} : { extra: Object.fromEntries(this.#left) };
  }
}
