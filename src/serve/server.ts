/**
 * `saccade serve`: one model of one engine, answered as OpenAI's and vLLM's servers answer, and environments to be played over HTTP: either, or both.
 * Every request passes the guard first; beyond this machine every route but `/health` needs the key.
 */
import { resolve } from "node:path";
import { ConfigError } from "../core/errors.ts";
import { HttpError } from "../http/errors.ts";
import { Guard, keyOf } from "../http/guard.ts";
import type { HttpRequest } from "../http/request.ts";
import { json } from "../http/responses.ts";
import { listen } from "../http/server.ts";
import { apiErrorResponse, NoRoute } from "../wire/errors.ts";
import { Retries } from "../wire/retries.ts";
import { createWires, type Wires } from "../wire/wires.ts";
import { type Ask, VLLM_VERSION } from "./ask.ts";
import { Backend, type BackendOptions } from "./backend.ts";
import { answerCount, answerWire } from "./chat.ts";
import { answerCompletion } from "./completions.ts";
import * as control from "./control.ts";
import { Environments, type EnvironmentsOptions } from "./environments.ts";
import { answerGenerate } from "./generate.ts";
import { OpenEnv } from "./openenv.ts";
import { Recorder, type RecordOptions } from "./record.ts";
import { renderChatRequest, renderCompletionRequest } from "./render.ts";
import { TINKER_PREFIX, Tinker } from "./tinker/tinker.ts";
import { answerDetokenize, answerTokenize } from "./tokens.ts";

export type ServeOptions = (BackendOptions | { readonly folder?: undefined }) & {
  /** Default 127.0.0.1. Anything that is not this machine alone needs a key. */
  readonly host?: string;
  /** Default 0: any free one. */
  readonly port?: number;
  readonly key?: string;
  /** DNS names under which others reach it; see `Guard`. */
  readonly allowHosts?: readonly string[];
  /** Weights that requests name are loaded from inside this folder only; absent: none are. */
  readonly store?: string;
  /** Records the episodes of agents that others start; then the chat routes are the only ones, and `model` of these answers. */
  readonly record?: RecordOptions;
  /** `openenv`: also as an OpenEnv server. */
  readonly environments?: EnvironmentsOptions & { readonly openenv?: boolean };
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
    new Response(backend.metrics.text(backend.models.name), {
      headers: { "Content-Type": "text/plain; version=0.0.4; charset=utf-8" },
    }),
  "GET /v1/models": answerModels,
  "POST /v1/chat/completions": (ask) => answerWire(ask.wires["/v1/chat/completions"], ask),
  "POST /v1/responses": (ask) => answerWire(ask.wires["/v1/responses"], ask),
  "POST /v1/messages": (ask) => answerWire(ask.wires["/v1/messages"], ask),
  "POST /v1/messages/count_tokens": answerCount,
  "POST /v1/completions": answerCompletion,
  "POST /tokenize": answerTokenize,
  "POST /detokenize": answerDetokenize,
  "POST /v1/chat/completions/render": renderChatRequest,
  "POST /v1/completions/render": renderCompletionRequest,
  "POST /inference/v1/generate": answerGenerate,
  "GET /weight_info": control.weightInfo,
  "POST /update_weight_version": control.updateWeightVersion,
  "GET /server_info": control.serverInfo,
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

type EnvRoute = (environments: Environments, request: HttpRequest) => Response | Promise<Response>;

const ENV_ROUTES: Readonly<Record<string, EnvRoute>> = {
  "POST /connect": (environments, request) => environments.connect(request),
  "POST /call": (environments, request) => environments.call(request),
  "GET /sessions": (environments) => environments.list(),
};

type Served = {
  readonly guard: Guard;
  readonly backend: Backend | undefined;
  readonly wires: Wires;
  readonly retries: Retries;
  readonly tinker: Tinker | undefined;
  readonly environments: Environments | undefined;
  readonly openenv: OpenEnv | undefined;
  readonly store: string | undefined;
};

export async function startServer(options: ServeOptions): Promise<ServeServer> {
  const { host = "127.0.0.1", port = 0, key, store } = options;
  if (options.record !== undefined) return startRecorder(options, options.record);
  if (options.folder === undefined && options.environments === undefined) {
    throw new ConfigError("There is nothing to serve: name a model, environments, or both.");
  }
  const { allowHosts: names = [] } = options;
  const guard = new Guard({ host, names, ...(key !== undefined && { key }) });
  const environments = options.environments && new Environments(options.environments);
  const backend = options.folder === undefined ? undefined : await Backend.open(options);
  const root = store === undefined ? undefined : resolve(store);
  const tinker = root === undefined || backend === undefined ? undefined : await openTinker(backend, root);
  const openenv = environments && options.environments?.openenv ? new OpenEnv(environments) : undefined;
  const served: Served = {
    guard,
    backend,
    wires: createWires(),
    retries: new Retries(),
    tinker,
    environments,
    openenv,
    store: root,
  };
  const handle = (request: HttpRequest) => serve(request, served);
  const socket = (request: HttpRequest) => {
    checkCaller(request, guard);
    const conversation = openenv?.conversation(new URL(request.url).pathname);
    if (conversation === undefined) throw new NoRoute(404, "Not Found");
    return conversation;
  };
  const server = await listen({ host, port, handle, socket, onError: apiErrorResponse }).catch(
    async (error: unknown) => {
      await backend?.close();
      await environments?.close();
      throw error;
    },
  );
  return {
    url: server.url,
    port: server.port,
    async close() {
      await backend?.close();
      await server.close();
      await environments?.close();
      await tinker?.close();
    },
  };
}

async function startRecorder(options: ServeOptions, record: RecordOptions): Promise<ServeServer> {
  const { host = "127.0.0.1", port = 0, key, allowHosts: names = [] } = options;
  const guard = new Guard({ host, names, ...(key !== undefined && { key }) });
  const recorder = await Recorder.open(record);
  const handle = async (request: HttpRequest) => {
    checkCaller(request, guard);
    return recorder.answer(request);
  };
  const server = await listen({ host, port, handle, onError: apiErrorResponse }).catch(async (error: unknown) => {
    await recorder.close();
    throw error;
  });
  return {
    url: server.url,
    port: server.port,
    async close() {
      await server.close();
      await recorder.close();
    },
  };
}

function openTinker({ engine, chat, desk, models, contextTokens }: Backend, store: string): Promise<Tinker> {
  const { folder, name } = models;
  return Tinker.open({ engine, chat, desk, folder, name, contextTokens, store });
}

/** Refuses a page of another site, and whoever lacks the key where one is needed. */
function checkCaller(request: HttpRequest, guard: Guard): void {
  guard.checkSource(request, true);
  const { pathname } = new URL(request.url);
  const key = keyOf(request) ?? request.headers.get("x-api-key") ?? undefined;
  const isOpen = pathname === "/health" || Tinker.isOpen(pathname);
  if (!isOpen && !guard.isKey(key)) throw new HttpError(401, "This server needs its key.");
}

async function serve(request: HttpRequest, served: Served): Promise<Response> {
  const { guard, backend, wires, retries, tinker, environments, openenv, store } = served;
  const { pathname, searchParams: query } = new URL(request.url);
  checkCaller(request, guard);
  if (pathname.startsWith(TINKER_PREFIX) && backend !== undefined) {
    if (tinker === undefined) throw new NoRoute(404, "Start the server with --store to train and keep checkpoints.");
    return tinker.answer(request);
  }
  const route = `${request.method} ${pathname}`;
  const spoken = openenv?.answer(request);
  if (spoken !== undefined) return spoken;
  if (environments !== undefined && Object.hasOwn(ENV_ROUTES, route)) {
    return (ENV_ROUTES[route] as EnvRoute)(environments, request);
  }
  if (backend !== undefined && Object.hasOwn(ROUTES, route)) {
    return (ROUTES[route] as Route)({ backend, wires, retries, store, request, query });
  }
  if (environments !== undefined && route === "GET /health") {
    return json({ ok: true, service: "saccade", max_inflight: environments.maxInflight });
  }
  const known = { ...(backend && ROUTES), ...(environments && ENV_ROUTES) };
  const isKnown = Object.keys(known).some((one) => one.split(" ")[1] === pathname);
  throw isKnown ? new NoRoute(405, "Method Not Allowed") : new NoRoute(404, "Not Found");
}

function answerModels({ backend }: Ask): Response {
  const data = backend.models.list().map(({ id, root, parent, created }) => ({
    id,
    object: "model",
    created,
    owned_by: "saccade",
    root,
    parent,
    max_model_len: parent === null ? backend.contextTokens : null,
    permission: [],
  }));
  return json({ object: "list", data });
}
