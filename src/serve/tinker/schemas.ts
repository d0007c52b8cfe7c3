/** JSON bodies of the Tinker API. Unknown keys are ignored: newer clients send more. */
import { createHash } from "node:crypto";
import { z } from "zod";
import { HttpError } from "../../http/errors.ts";
import { readJsonText } from "../../http/limits.ts";
import type { HttpRequest } from "../../http/request.ts";
import { ADAM_DEFAULTS } from "../../tinker/types.ts";
import { integers, texts } from "../../wire/errors.ts";

/** The most bytes of a body of JSON; batches are protobuf. */
const MAX_JSON_BYTES = 64 * 1024 * 1024;
const text = z.string();
const seq = z.union([z.int(), text]).nullish();
/** Whole numbers beyond 2⁵³ arrive as text (see `parseJson`). */
const metadata = z.record(z.string(), z.unknown()).nullish();

/** A hundred years at most: a date must be able to say when it ends. */
const lifetime = z.number().positive().max(3_155_760_000).nullish();

export const createSession = z.looseObject({
  tags: z.array(text).nullish(),
  user_metadata: metadata,
  display_name: text.nullish(),
  project_id: text.nullish(),
});
export const createModel = z.looseObject({
  session_id: text,
  model_seq_id: z.int(),
  base_model: text,
  user_metadata: metadata,
  lora_config: z
    .looseObject({
      rank: z.int().min(0).max(1024),
      seed: z.union([z.int(), text]).nullish(),
      train_unembed: z.boolean().nullish(),
      train_mlp: z.boolean().nullish(),
      train_attn: z.boolean().nullish(),
    })
    .nullish(),
  optimizer_config: z.looseObject({ type: text }).nullish(),
});
const adam = z.looseObject({
  learning_rate: z.number().min(0),
  beta1: z.number().default(ADAM_DEFAULTS.beta1),
  beta2: z.number().default(ADAM_DEFAULTS.beta2),
  eps: z.number().default(ADAM_DEFAULTS.eps),
  weight_decay: z.number().default(ADAM_DEFAULTS.weight_decay),
  grad_clip_norm: z.number().default(ADAM_DEFAULTS.grad_clip_norm),
});
export const optimStep = z.looseObject({
  model_id: text,
  seq_id: seq,
  adam_params: adam.nullish(),
  optimizer_params: z.looseObject({ type: text.nullish() }).nullish(),
});
export type OptimRequest = z.output<typeof optimStep>;
export const save = z.looseObject({
  model_id: text,
  seq_id: seq,
  path: text.nullish(),
  sampling_session_seq_id: z.int().nullish(),
  ttl_seconds: lifetime,
  user_metadata: metadata,
  overwrite: z.boolean().nullish(),
  age_encryption_recipients: z.array(text).nullish(),
});
export type SaveRequest = z.output<typeof save>;
export const load = z.looseObject({ model_id: text, seq_id: seq, path: text, optimizer: z.boolean().nullish() });
export type LoadRequest = z.output<typeof load>;
export const createSampler = z.looseObject({
  session_id: text,
  sampling_session_seq_id: z.int(),
  base_model: text.nullish(),
  model_path: text.nullish(),
});
const chunk = z.discriminatedUnion("type", [
  z.looseObject({ type: z.literal("encoded_text"), tokens: integers }),
  z.looseObject({ type: z.literal("image"), data: text, format: text.nullish(), expected_tokens: z.int().nullish() }),
]);
const indices = integers.refine((list) => list.every((index) => index >= 0), "expected indices from 0");
const targets = z.looseObject({
  data: integers,
  shape: z.array(z.int().min(0)).min(1).max(8),
  sparse_crow_indices: indices.nullish(),
  sparse_col_indices: indices.nullish(),
});
export type TargetTensor = z.output<typeof targets>;
export const sample = z.looseObject({
  sampling_session_id: text,
  seq_id: seq,
  num_samples: z.int().min(1).max(1024).default(1),
  prompt: z.looseObject({ chunks: z.array(chunk) }),
  sampling_params: z.looseObject({
    max_tokens: z.int().min(1).nullish(),
    temperature: z.number().min(0).default(1),
    top_k: z.int().default(-1),
    top_p: z.number().gt(0).max(1).default(1),
    seed: z.union([z.int(), text]).nullish(),
    stop: z.union([text, texts, integers]).nullish(),
  }),
  prompt_logprobs: z.boolean().nullish(),
  prompt_logprobs_last_n: z.int().min(0).nullish(),
  topk_prompt_logprobs: z.int().min(0).max(64).nullish(),
  topk_sample_logprobs: z.int().min(0).max(64).nullish(),
  prompt_alt_tokens_k: z.int().min(0).max(64).nullish(),
  target_prompt_logprobs: targets.nullish(),
});
export type SampleRequest = z.output<typeof sample>;
export const retrieve = z.looseObject({ request_id: text });
export const modelOnly = z.looseObject({ model_id: text });
export const sessionOnly = z.looseObject({ session_id: text });
export const pathOnly = z.looseObject({ tinker_path: text });
export const ttl = z.looseObject({ ttl_seconds: lifetime });
export const project = z.looseObject({ project_id: text });
const FINISHES = ["success", "errored", "interrupted"] as const;
export const finish = z.looseObject({
  reason: z.looseObject({ type: z.enum(FINISHES) }).default({ type: "success" }),
  detail: text.nullish(),
});
export type Finish = z.output<typeof finish>;
const status = z.discriminatedUnion("type", [
  z.looseObject({ type: z.enum(["active", "cancelled", "failed"]) }),
  z.looseObject({ type: z.literal("client_finished"), reasons: z.array(z.enum(FINISHES)).nullish() }),
]);
export const search = z.looseObject({
  session_id: text.nullish(),
  display_name: text.nullish(),
  project_ids: z.array(text).nullish(),
  user_metadata: z.record(text, text).nullish(),
  owner: z.looseObject({ type: text, owner_urns: z.array(text).nullish() }).nullish(),
  statuses: z.array(status).min(1).nullish(),
  limit: z.int().min(1).max(200).default(50),
  cursor: z.looseObject({ last_created_at: z.iso.datetime({ offset: true }), last_session_id: text }).nullish(),
});
export type Search = z.output<typeof search>;

/** Sequence ids and seeds may be longer than a double holds: those become text. */
export function parseJson(body: string): unknown {
  return JSON.parse(body.replace(/("(?:seq_id|seed)"\s*:\s*)(-?\d{16,})/g, '$1"$2"')) as unknown;
}

/** Seeds have 64 bits here, ours 53: longer ones are mixed. */
export function seedOf(seed: number | string): number {
  if (typeof seed === "number" && seed >= 0 && seed < 2 ** 52) return seed;
  return createHash("sha256").update(String(seed)).digest().readUIntBE(0, 6);
}

export async function readJson<S extends z.ZodType>(request: HttpRequest, schema: S): Promise<z.output<S>> {
  const body = await readJsonText(request, { bytes: MAX_JSON_BYTES });
  let value: unknown;
  try {
    value = parseJson(body);
  } catch {
    throw new HttpError(400, "The request is not JSON.");
  }
  const read = schema.safeParse(value);
  if (read.success) return read.data;
  const [issue] = read.error.issues;
  throw new HttpError(400, `${issue?.path.join(".")}: ${issue?.message}`);
}
