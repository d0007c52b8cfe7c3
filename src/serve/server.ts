/**
 * `saccade serve`: one model of one engine, answered as OpenAI's and vLLM's servers answer. Every request passes the guard first; beyond this
 * machine every route but `/health` needs the key.
 */
import { resolve } from "node:path";
import type { Engine } from "../engine/engine.ts";
import { HttpError } from "../http/errors.ts";
import { Guard, keyOf } from "../http/guard.ts";
import { json } from "../http/responses.ts";
import { listen } from "../http/server.ts";
import { type Ask, VLLM_VERSION } from "./ask.ts";
import { Backend, type BackendOptions } from "./backend.ts";
import { answerChat } from "./chat.ts";
import { answerCompletion } from "./completions.ts";
import * as control from "./control.ts";
import { apiErrorResponse, NoRoute } from "./errors.ts";
import { answerGenerate } from "./generate.ts";
import { renderChatRequest, renderCompletionRequest } from "./render.ts";
import { TINKER_PREFIX, Tinker } from "./tinker/tinker.ts";
import { answerDetokenize, answerTokenize } from "./tokens.ts";

export type ServeOptions = Omit<BackendOptions, "engine"> & {
  readonly engine: Engine;
  /** Default 127.0.0.1. Anything that is not this machine alone needs a key. */
  readonly host?: string;
  /** Default 0: any free one. */
  readonly port?: number;
  readonly key?: string;
  /** Weights that requests name are loaded from inside this folder only; absent: none are. */
  readonly store?: string;
};

export type ServeServer = {
  readonly url: string;
  readonly port: number;
  /** Ends connections and samplers; the engine is the caller's. */
  close(): Promise<void>;
};

type Route = (ask: Ask) => Response | Promise<Response>;

const ROUTES: Readonly<Record<string, Route>> = {
  "GET /health": () => new Response(null, { status: 200, headers: { "Content-Length": "0" } }),
  "GET /version": () => json({ version: VLLM_VERSION }),
  "GET /metrics": ({ backend }) =>
    new Response(backend.metrics.text(backend.name), {
      headers: { "Content-Type": "text/plain; version=0.0.4; charset=utf-8" },
    }),
  "GET /v1/models": answerModels,
  "POST /v1/chat/completions": answerChat,
  "POST /v1/completions": answerCompletion,
  "POST /tokenize": answerTokenize,
  "POST /detokenize": answerDetokenize,
  "POST /v1/chat/completions/render": renderChatRequest,
  "POST /v1/completions/render": renderCompletionRequest,
  "POST /inference/v1/generate": answerGenerate,
  "GET /weight_info": control.weightInfo,
  "POST /update_weight_version": control.updateWeightVersion,
  "POST /pause": control.pause,
  "POST /resume": control.resume,
  "GET /is_paused": control.isPaused,
  "POST /reset_prefix_cache": control.resetPrefixCache,
  "POST /reset_mm_cache": control.resetFeatures,
  "POST /reset_encoder_cache": control.resetFeatures,
  "POST /collective_rpc": control.collectiveRpc,
  "POST /v1/load_lora_adapter": control.loadAdapter,
  "POST /v1/unload_lora_adapter": control.unloadAdapter,
};

const PATHS = new Set(Object.keys(ROUTES).map((route) => route.split(" ")[1]));

export async function startServer(options: ServeOptions): Promise<ServeServer> {
  const { host = "127.0.0.1", port = 0, key, store } = options;
  const guard = new Guard({ host, called: { word: "key", flag: "--api-key-file" }, ...(key !== undefined && { key }) });
  const backend = await Backend.open(options);
  const root = store === undefined ? undefined : resolve(store);
  const { engine, chat, folder, name, contextLength } = backend;
  const tinker =
    root === undefined ? undefined : await Tinker.open({ engine, chat, folder, name, contextLength, store: root });
  const shared = { backend, store: root };
  const handle = (request: Request) => serve(request, guard, shared, tinker);
  const server = await listen({ host, port, handle, onError: apiErrorResponse }).catch(async (error: unknown) => {
    await backend.close();
    throw error;
  });
  return {
    url: server.url,
    port: server.port,
    async close() {
      await backend.close();
      await server.close();
      await tinker?.close();
    },
  };
}

async function serve(
  request: Request,
  guard: Guard,
  shared: Pick<Ask, "backend" | "store">,
  tinker: Tinker | undefined,
): Promise<Response> {
  const { pathname, searchParams: query } = new URL(request.url);
  guard.checkSource(request, true);
  const key = keyOf(request) ?? request.headers.get("x-api-key") ?? undefined;
  const isOpen = pathname === "/health" || Tinker.isOpen(pathname);
  if (!isOpen && !guard.isKey(key)) throw new HttpError(401, "This server needs its key.");
  if (pathname.startsWith(TINKER_PREFIX)) {
    if (tinker === undefined) throw new NoRoute(404, "Start the server with --store to train and keep checkpoints.");
    return tinker.answer(request);
  }
  const route = Object.hasOwn(ROUTES, `${request.method} ${pathname}`)
    ? ROUTES[`${request.method} ${pathname}`]
    : undefined;
  if (route !== undefined) return route({ ...shared, request, query });
  throw PATHS.has(pathname) ? new NoRoute(405, "Method Not Allowed") : new NoRoute(404, "Not Found");
}

function answerModels({ backend }: Ask): Response {
  const data = backend.models().map(({ id, root, parent, created }) => ({
    id,
    object: "model",
    created,
    owned_by: "saccade",
    root,
    parent,
    max_model_len: parent === null ? backend.contextLength : null,
    permission: [],
  }));
  return json({ object: "list", data });
}
