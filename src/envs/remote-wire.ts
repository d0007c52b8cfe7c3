/**
 * What is said on the wire of remote environments: VAGEN's, so that its servers and clients can be talked to, and more beside it where both ends are
 * ours. A body is multipart: one part `data` of JSON, and images as PNG in parts `images`, in the order in which they are seen. `obs` is text with
 * `<image>` where an image stands; `messages` say the same with roles.
 */
import { randomBytes } from "node:crypto";
import { DataError } from "../core/errors.ts";
import { isJsonObject, type Json, type JsonLimits, type JsonObject, JsonScan } from "../core/json.ts";
import { type Message, text, user } from "../core/message.ts";
import { decodeImage } from "../images/decode.ts";
import { fromOpenAI, toOpenAI } from "../images/openai.ts";
import { encodePng } from "../images/png.ts";
import type { RewardPart, Step, StepInfo } from "./env.ts";

export type Parcel = { readonly data: JsonObject; readonly images: readonly Uint8Array[] };
export type Packed = { readonly type: string; readonly body: Buffer<ArrayBuffer> };

/** Beyond VAGEN's methods; a server says which it has when a session begins. */
export const MORE_METHODS = ["truncate", "builtin"] as const;
const MARK = "<image>";
const MAX_PARTS = 1000;
/** Words and settings, never data. */
const LIMITS: JsonLimits = { values: 2 ** 16, structures: 2 ** 14, nesting: 100 };

/** `form-data` asks, `mixed` answers. */
export function packParcel({ data, images }: Parcel, kind: "form-data" | "mixed"): Packed {
  const boundary = `saccade_${randomBytes(16).toString("hex")}`;
  const part = (name: string, type: string, content: Uint8Array, file = "") => [
    Buffer.from(
      `--${boundary}\r\nContent-Disposition: form-data; name="${name}"${file}\r\nContent-Type: ${type}\r\n\r\n`,
    ),
    content,
    Buffer.from("\r\n"),
  ];
  const body = Buffer.concat([
    ...part("data", "application/json", Buffer.from(JSON.stringify(data))),
    ...images.flatMap((png, i) => part("images", "image/png", png, `; filename="image_${i}.png"`)),
    Buffer.from(`--${boundary}--\r\n`),
  ]);
  return { type: `multipart/${kind}; boundary=${boundary}`, body };
}

export function unpackParcel(body: Uint8Array, type: string | null): Parcel {
  const found = /^multipart\/(?:form-data|mixed)\b.*;\s*boundary=(?:"([^"]{1,200})"|([^\s;]{1,200}))/i.exec(type ?? "");
  if (found === null) throw new DataError("Send multipart/form-data with a part named data, which holds JSON.");
  const bytes = Buffer.from(body.buffer, body.byteOffset, body.byteLength);
  const mark = `--${found[1] ?? found[2]}`;
  const images: Uint8Array[] = [];
  let data: JsonObject | undefined;
  let at = bytes.indexOf(mark);
  for (let parts = 0; ; parts++) {
    const start = at + mark.length;
    if (at < 0 || parts > MAX_PARTS) throw new DataError("The multipart body is cut off, or has too many parts.");
    if (bytes.toString("latin1", start, start + 2) === "--") break;
    const head = bytes.indexOf("\r\n\r\n", start);
    at = head < 0 ? -1 : bytes.indexOf(`\r\n${mark}`, head + 2);
    if (at < 0) continue;
    const name = /\bname="?([^";\r\n]*)"?/i.exec(bytes.toString("latin1", start, head))?.[1];
    const content = bytes.subarray(Math.min(head + 4, at), at);
    at += 2;
    if (name === "images") images.push(content);
    else if (name === "data") data = readJson(content);
  }
  if (data === undefined) throw new DataError("The multipart body has no part named data.");
  return { data, images };
}

function readJson(content: Uint8Array): JsonObject {
  const wrong = new JsonScan(LIMITS).push(content);
  if (wrong !== undefined) throw new DataError(`The part data is too much: ${wrong}.`);
  let value: unknown;
  try {
    value = JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(content));
  } catch {
    throw new DataError("The part data is not JSON.");
  }
  if (!isJsonObject(value)) throw new DataError("The part data must be a JSON object.");
  return value;
}

export function packMessages(messages: readonly Message[]): Parcel {
  const images: Uint8Array[] = [];
  const wire = toOpenAI(messages, { imageUrl: (image) => `image:${images.push(encodePng(image)) - 1}` });
  const words = messages.map(({ content }) =>
    content.map((part) => (part.type === "text" ? part.text : MARK)).join(""),
  );
  return { data: { obs: words.join("\n\n"), messages: wire }, images };
}

export function packStep(step: Step): Parcel {
  const { data, images } = packMessages(step.observation);
  const { rewards, terminated, truncated, success, info } = step;
  const reward = rewards.reduce((sum, { value }) => sum + value, 0);
  const done = terminated || truncated;
  const said = { rewards, terminated, truncated, ...(success !== undefined && { success }), info };
  return { data: { ...data, reward, done, ...(JSON.parse(JSON.stringify(said)) as JsonObject) }, images };
}

/** Messages as they were said; from a server that only knows `obs`, one message of the user. */
export async function unpackMessages({ data, images }: Parcel): Promise<Message[]> {
  const readImage = async (i: number) => {
    const png = images[i];
    if (png === undefined)
      throw new DataError(`The answer refers to image ${i} but contains only ${images.length} images.`);
    return decodeImage(png);
  };
  if (data.messages !== undefined) {
    return fromOpenAI(data.messages, (url) => readImage(Number(/^image:(\d+)$/.exec(url)?.[1] ?? -1)));
  }
  if (typeof data.obs !== "string") throw new DataError("The answer has neither messages nor obs, a string.");
  const texts = data.obs.split(MARK);
  const shown = await Promise.all(texts.slice(1).map((_, i) => readImage(i)));
  const parts = texts.flatMap((words, i) => [
    ...(i > 0 ? [{ type: "image" as const, image: shown[i - 1] as (typeof shown)[number] }] : []),
    ...(words === "" ? [] : [text(words)]),
  ]);
  return [user(...parts)];
}

export async function unpackStep(parcel: Parcel): Promise<Step> {
  const { data } = parcel;
  const given: JsonObject = isJsonObject(data.info) ? data.info : {};
  const { reward, done, rewards, terminated = done, truncated = false } = data;
  if (typeof terminated !== "boolean" || typeof truncated !== "boolean") {
    throw new DataError("A step's answer says done, or terminated and truncated: true or false.");
  }
  if (rewards === undefined && typeof reward !== "number") throw new DataError("A step's answer has reward, a number.");
  const success = data.success ?? given.success;
  const info: StepInfo = { actions: [], parsed: true, wellFormed: true, valid: true, ...(given as Partial<StepInfo>) };
  return {
    observation: await unpackMessages(parcel),
    // Checked where every environment's rewards are.
    rewards: (rewards as Json as unknown as RewardPart[] | undefined) ?? [{ name: "task", value: Number(reward) }],
    terminated,
    truncated,
    ...(typeof success === "boolean" && { success }),
    info,
  };
}
