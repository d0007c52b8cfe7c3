/**
 * vLLM's control routes: what a trainer does between steps. Weights are loaded from inside the store only. Samplers are snapshots whose caches
 * belong to their weights, so nothing stale can be served and clearing caches has nothing to do.
 */
import { z } from "zod";
import { json } from "../http/responses.ts";
import { ApiError, badField, readFields } from "../wire/errors.ts";
import { readJsonBody } from "../wire/request.ts";
import type { Ask } from "./ask.ts";
import { inside } from "./boundary.ts";

const modes = z.looseObject({ mode: z.enum(["abort", "wait", "keep"]).default("abort") });
const versionSchema = z.looseObject({ new_version: z.string() });
const callSchema = z.looseObject({
  method: z.string().nullish(),
  kwargs: z.looseObject({ weights_path: z.string().nullish() }).nullish(),
});
const loadSchema = z.looseObject({
  lora_name: z.string().min(1),
  lora_path: z.string().min(1),
  load_inplace: z.boolean().nullish(),
});
const unloadSchema = z.looseObject({ lora_name: z.string().min(1) });

export async function pause({ backend, query }: Ask): Promise<Response> {
  const { mode } = readFields(modes, Object.fromEntries(query), "query");
  await backend.pause(mode);
  return json({ status: "paused" });
}

export function resume({ backend }: Ask): Response {
  backend.resume();
  return json({ status: "resumed" });
}

/** What a trainer asks of a vLLM server before it samples there, in vLLM's place for it. */
export function serverInfo({ backend }: Ask): Response {
  const model = {
    model: backend.models.folder,
    max_model_len: backend.contextTokens,
    logprobs_mode: "processed_logprobs",
  };
  const device = { device: "saccade" };
  return json({ vllm_config: { model_config: model, device_config: device }, vllm_env: {}, system_env: {} });
}

export function isPaused({ backend }: Ask): Response {
  return json({ is_paused: backend.paused });
}

export function weightInfo({ backend }: Ask): Response {
  return json({ weight_version: backend.version });
}

export async function updateWeightVersion({ backend, request }: Ask): Promise<Response> {
  const { new_version: version } = readFields(versionSchema, await readJsonBody(request));
  backend.version = version;
  return json({ success: true, new_version: version });
}

export function resetPrefixCache(): Response {
  return json({ success: true });
}

export function resetFeatures({ backend }: Ask): Response {
  backend.images.clear();
  return new Response(null, { status: 200, headers: { "Content-Length": "0" } });
}

/** Of all that vLLM's workers can be told, only to load other weights. */
export async function collectiveRpc({ backend, request, store }: Ask): Promise<Response> {
  const { method, kwargs } = readFields(callSchema, await readJsonBody(request));
  if (!method) throw new ApiError(400, "Name a method.", { type: "Bad Request" });
  if (method !== "reload_weights") throw badField("method", `Only reload_weights is served, not ${method}.`);
  const path = kwargs?.weights_path;
  await backend.models.reload(path ? await inside(store, path, backend.models.folder) : undefined);
  return json({ results: [null] });
}

export async function loadAdapter({ backend, request, store }: Ask): Promise<Response> {
  const asked = readFields(loadSchema, await readJsonBody(request));
  await backend.models.loadAdapter(
    asked.lora_name,
    await inside(store, asked.lora_path, backend.models.folder),
    asked.load_inplace ?? false,
  );
  return text(`Success: adapter '${asked.lora_name}' is loaded.`);
}

export async function unloadAdapter({ backend, request }: Ask): Promise<Response> {
  const { lora_name: name } = readFields(unloadSchema, await readJsonBody(request));
  await backend.models.unloadAdapter(name);
  return text(`Success: adapter '${name}' is gone.`);
}

function text(words: string): Response {
  return new Response(words, {
    headers: { "Content-Type": "text/plain; charset=utf-8", "Content-Length": String(Buffer.byteLength(words)) },
  });
}
