/**
 * OpenEnv's wire (0.10), said of our environments: the action is the reply's text, the observation what the agent is told and shown. Frames are PNG data
 * URIs or, where a reset asks for `frames: "lists"`, nested lists of rows, pixels and channels.
 */
import { z } from "zod";
import { ConfigError, DataError, EnvError, errorMessage, SaccadeError } from "../core/errors.ts";
import type { JsonObject } from "../core/json.ts";
import type { Parcel } from "../envs/remote-wire.ts";
import { HttpError } from "../http/errors.ts";
import { decodeImage } from "../images/decode.ts";
import type { ResetOptions } from "./seat.ts";

export const FRAME_FORMS = ["uris", "lists"] as const;
export type FrameForm = (typeof FRAME_FORMS)[number];

const resetSchema = z.looseObject({
  seed: z.int().min(0).nullish(),
  episode_id: z.string().max(255).nullish(),
  env: z.string().nullish(),
  frames: z.enum(FRAME_FORMS).nullish(),
});
export const actionSchema = z.strictObject({
  action_str: z.string(),
  metadata: z.record(z.string(), z.unknown()).optional(),
});

export class WireError extends SaccadeError {
  override name = "WireError";
  readonly code: string;
  readonly errors: readonly unknown[];

  constructor(code: string, message: string, errors: readonly unknown[] = []) {
    super(message);
    this.code = code;
    this.errors = errors;
  }
}

/** Parses with a schema; what does not fit is a VALIDATION_ERROR that names each field. */
export function readWire<T>(schema: z.ZodType<T>, value: unknown, what: string): T {
  const read = schema.safeParse(value);
  if (read.success) return read.data;
  const errors = read.error.issues.map(({ path, message }) => ({ loc: path, msg: message, type: "value_error" }));
  const [first] = read.error.issues;
  throw new WireError("VALIDATION_ERROR", `${[what, ...(first?.path ?? [])].join(".")}: ${first?.message}`, errors);
}

/** Whatever else a reset carries is an option of the environment. */
export function readReset(data: unknown): ResetOptions & { readonly frames: FrameForm } {
  const { seed, episode_id: episodeId, env, frames, ...options } = readWire(resetSchema, data ?? {}, "data");
  return {
    env: env ?? undefined,
    seed: seed ?? undefined,
    episodeId: episodeId ?? undefined,
    options: options as JsonObject,
    frames: frames ?? "uris",
  };
}

async function lists(png: Uint8Array): Promise<number[][][]> {
  const { width, height, data } = await decodeImage(png);
  return Array.from({ length: height }, (_, y) =>
    Array.from({ length: width }, (_, x) => [...data.subarray((y * width + x) * 3, (y * width + x) * 3 + 3)]),
  );
}

/** What is told and shown. `<image>` in the text stands where an image is, in order. */
export async function wireObservation({ data, images }: Parcel, frames: FrameForm): Promise<JsonObject> {
  const shown: unknown[] = [];
  for (const png of images) {
    shown.push(frames === "lists" ? await lists(png) : `data:image/png;base64,${Buffer.from(png).toString("base64")}`);
  }
  const { rewards, terminated, truncated, success, info } = data;
  const metadata = terminated === undefined ? {} : { rewards, terminated, truncated, success: success ?? null, info };
  const done = data.done === true;
  return {
    observation: { text: data.obs, images: shown, metadata },
    reward: data.reward ?? null,
    done,
    ...(terminated !== undefined && { metadata }),
  } as JsonObject;
}

export const SCHEMAS = {
  action: {
    title: "Reply",
    type: "object",
    additionalProperties: false,
    required: ["action_str"],
    properties: {
      action_str: {
        type: "string",
        description: "The reply to what was told, in the format that the first text asks for.",
      },
      metadata: { type: "object", additionalProperties: true },
    },
  },
  observation: {
    title: "Turn",
    type: "object",
    additionalProperties: false,
    required: ["text", "images"],
    properties: {
      text: { type: "string", description: "What the agent is told; <image> stands where an image is shown." },
      images: {
        type: "array",
        description:
          'The images of the text, in order: PNG data URIs, or nested lists after a reset with frames: "lists".',
        items: {
          anyOf: [
            { type: "string", format: "uri", contentEncoding: "base64", contentMediaType: "image/png" },
            {
              type: "array",
              items: { type: "array", items: { type: "array", items: { type: "integer", minimum: 0, maximum: 255 } } },
            },
          ],
        },
      },
      done: { type: "boolean", default: false },
      reward: { anyOf: [{ type: "number" }, { type: "null" }], default: null },
      metadata: { type: "object", additionalProperties: true },
    },
  },
  state: {
    title: "State",
    type: "object",
    additionalProperties: true,
    properties: {
      episode_id: { anyOf: [{ type: "string" }, { type: "null" }] },
      step_count: { type: "integer", minimum: 0 },
      env: { anyOf: [{ type: "string" }, { type: "null" }] },
      seed: { anyOf: [{ type: "integer" }, { type: "null" }] },
    },
  },
} as const;

/** An error as OpenEnv's clients read it. */
export function wireError(error: unknown): JsonObject {
  const { code, errors } = error instanceof WireError ? error : { code: codeOf(error), errors: [] };
  return { message: errorMessage(error), code, errors: errors as JsonObject[] };
}

function codeOf(error: unknown): string {
  if (error instanceof HttpError) {
    if (error.status === 503) return "CAPACITY_REACHED";
    return error.status === 404 ? "SESSION_ERROR" : "EXECUTION_ERROR";
  }
  if (error instanceof EnvError) return "EXECUTION_ERROR";
  return error instanceof ConfigError || error instanceof DataError ? "VALIDATION_ERROR" : "EXECUTION_ERROR";
}
