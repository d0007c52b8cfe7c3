/**
 * What is said in an episode. A message is a role and a list of parts; a part is text or an image.
 * The OpenAI form (with `image_url` data URIs) exists only at the edges, see `images/openai.ts`.
 */
import { EnvError } from "./errors.ts";
import { type Image, imageHint, isImage } from "./image.ts";
import type { JsonObject } from "./json.ts";
import { given } from "./words.ts";

export type Role = "system" | "developer" | "user" | "assistant" | "tool";

export type TextPart = { readonly type: "text"; readonly text: string; readonly extra?: JsonObject };
export type ImagePart = {
  readonly type: "image";
  readonly image: Image;
  /** OpenAI's resolution hint, carried along. */
  readonly detail?: string;
  readonly extra?: JsonObject;
};
export type Part = TextPart | ImagePart;

export type ToolCall = {
  readonly id: string;
  readonly name: string;
  /** JSON text, exactly as the model wrote it. */
  readonly arguments: string;
  readonly extra?: JsonObject;
};

export type Message = {
  readonly role: Role;
  readonly content: readonly Part[];
  readonly name?: string;
  readonly toolCalls?: readonly ToolCall[];
  readonly toolCallId?: string;
  /** How the content stood on the wire. Absent: a lone text part is written as a string. */
  readonly form?: "string" | "parts" | "null" | "absent";
  /** Fields of the wire form that Saccade does not use. */
  readonly extra?: JsonObject;
};

export function text(value: string): TextPart {
  return { type: "text", text: value };
}

export function image(value: Image): ImagePart {
  if (!isImage(value)) throw new EnvError(`image() takes an Image; got ${given(value)}.${imageHint(value)}`);
  return { type: "image", image: value };
}

export function user(...content: Part[]): Message {
  return { role: "user", content };
}

export function assistant(reply: string): Message {
  return { role: "assistant", content: [text(reply)] };
}

/** All text of a message, its parts joined. */
export function textOf(message: Message): string {
  return message.content.map((part) => (part.type === "text" ? part.text : "")).join("");
}

export function imagesOf(message: Message): Image[] {
  return message.content.flatMap((part) => (part.type === "image" ? [part.image] : []));
}
