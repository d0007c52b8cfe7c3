/**
 * From a name to a model that can play: a folder or a run (the native engine), one that comes with Saccade, `provider:name`, `url#name` for any OpenAI-compatible server, or
 * `agent:name` for one that a world brings along.
 * Each has an identity, what tells it from every other model, and resolved sampling settings; results are kept under both. A folder's
 * identity is the content of its files, so a checkpoint that was trained on is another model.
 */
import { createHash } from "node:crypto";
import { createReadStream, existsSync } from "node:fs";
import { readdir } from "node:fs/promises";
import { resolve } from "node:path";
import { createAnthropic } from "@ai-sdk/anthropic";
import { createGoogleGenerativeAI } from "@ai-sdk/google";
import { createOpenAI } from "@ai-sdk/openai";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import type { LanguageModel } from "ai";
import { ConfigError } from "../core/errors.ts";
import type { Json, JsonObject } from "../core/json.ts";
import { type EngineConfig, nameOfEngine, openEngine } from "../engine/registry.ts";
import { findModel } from "../model/find.ts";
import { shippedModel, shippedModels } from "../model/trained.ts";
import { type AgentContext, tokenAgent } from "../rollout/agents.ts";
import { builtinAgent } from "../rollout/builtin-agents.ts";
import type { View } from "../rollout/trajectory-records.ts";
import { ChatAgent, ChatClient, type ChatOptions, type ChatSettings, type MeteredAgent } from "./chat-agent.ts";
import { withComputerTool } from "./computer-tool.ts";
import { noUsage, sequenceUsage } from "./usage.ts";

export type ModelSpec =
  | { readonly kind: "folder"; readonly path: string }
  | { readonly kind: "provider"; readonly provider: Provider; readonly name: string }
  | { readonly kind: "server"; readonly url: string; readonly name: string }
  | { readonly kind: "agent"; readonly name: (typeof AGENTS)[number] };

export type Sampling = {
  /** 0 is greedy; absent: the provider's own, or the folder's `generation_config.json`. */
  readonly temperature?: number;
  /** Most tokens of a reply; default 4096 for hosted models, 512 for folders. */
  readonly maxTokens?: number;
};

export type ModelOptions = Sampling &
  Pick<
    ChatSettings,
    "history" | "ratePerMinute" | "retries" | "timeoutMs" | "backoff" | "clock" | "onHopeless" | "onTrouble"
  > & {
    /** Where the provider is, instead of its usual address. */
    readonly baseUrl?: string;
    /** Environment variable that holds the key of a `url#name` server; absent: none is sent. */
    readonly keyVariable?: string;
    readonly environment?: Readonly<Record<string, string | undefined>>;
    /** The model acts through its provider's computer tool; the environment speaks `computer_use`. */
    readonly computerUse?: boolean;
    /** Who runs a folder; default: the native engine. */
    readonly engine?: EngineConfig;
  };

export type EvalModel = {
  /** As it was asked for. */
  readonly name: string;
  readonly identity: JsonObject;
  readonly sampling: JsonObject;
  agent(context: AgentContext): MeteredAgent;
  /** What an id reads as, of models whose tokens we have. */
  textOf?(id: number): string;
  /** A frame as the model gets it, where it is known. */
  readonly view?: View;
  /** Worth knowing when reading the numbers: settings a provider ignored, who answered. */
  notes(): string[];
  close(): Promise<void>;
};

type Provider = keyof typeof PROVIDERS;

const PROVIDERS = {
  openai: { keys: ["OPENAI_API_KEY"], urls: ["OPENAI_BASE_URL"] },
  anthropic: { keys: ["ANTHROPIC_API_KEY"], urls: ["ANTHROPIC_BASE_URL"] },
  google: { keys: ["GOOGLE_GENERATIVE_AI_API_KEY", "GEMINI_API_KEY", "GOOGLE_API_KEY"], urls: [] },
} as const;

const AGENTS = ["oracle", "random", "stop"] as const;

export function parseModel(text: string): ModelSpec {
  const server = /^(https?:\/\/[^#\s]+)#(\S+)$/.exec(text);
  if (server !== null) return { kind: "server", url: server[1] as string, name: server[2] as string };
  if (/^https?:/.test(text)) {
    throw new ConfigError(`"${text}" names no model: write url#name, for example http://127.0.0.1:8000/v1#my-model.`);
  }
  const [, provider = "", name = ""] = /^([a-z]{2,}):(.+)$/.exec(text) ?? [];
  if (Object.hasOwn(PROVIDERS, provider)) return { kind: "provider", provider: provider as Provider, name };
  const agent = AGENTS.find((known) => text === `agent:${known}`);
  if (agent !== undefined) return { kind: "agent", name: agent };
  const path = existsSync(text) ? text : shippedModel(text);
  if (path !== undefined) return { kind: "folder", path };
  throw new ConfigError(
    `There is no model "${text}". A model is a folder that exists, provider:name (${Object.keys(PROVIDERS).join(", ")}), ` +
      "url#name (an OpenAI-compatible server, such as http://127.0.0.1:8000/v1#my-model), agent:name " +
      `(${AGENTS.join(", ")}) or one that comes with Saccade (${shippedModels().join(", ")}).`,
  );
}

export async function openModel(text: string, options: ModelOptions = {}): Promise<EvalModel> {
  const spec = parseModel(text);
  switch (spec.kind) {
    case "folder":
      return openFolder(text, spec.path, options);
    case "agent":
      return openAgent(text, spec.name);
    default:
      return openChat(text, spec, options);
  }
}

function openAgent(text: string, name: (typeof AGENTS)[number]): EvalModel {
  const make = builtinAgent(name);
  return {
    name: text,
    identity: { agent: name },
    sampling: {},
    agent: (context) => ({ ...make(context), usage: noUsage }),
    notes: () => [],
    close: async () => {},
  };
}

function openChat(
  text: string,
  spec: Extract<ModelSpec, { kind: "provider" | "server" }>,
  options: ModelOptions,
): EvalModel {
  const { temperature, maxTokens = 4096 } = options;
  const { model, identity, ...more } =
    spec.kind === "server" ? serverModel(spec, options) : providerModel(spec, options);
  const client = new ChatClient({ ...options, ...more, model, maxTokens });
  return {
    name: text,
    identity,
    sampling: { maxTokens, ...(temperature !== undefined && { temperature }) },
    agent: () => new ChatAgent(client),
    notes: () => [
      ...[...client.warnings].map((warning) => `The provider says: ${warning}`),
      ...[...client.answeredBy].map((name) => `Answered by ${name}.`),
    ],
    close: async () => {},
  };
}

type Hosted = Pick<ChatOptions, "model" | "providerOptions"> & { readonly identity: JsonObject };

function serverModel({ url, name }: { url: string; name: string }, options: ModelOptions): Hosted {
  const { keyVariable, baseUrl, environment = process.env } = options;
  if (baseUrl !== undefined) throw new ConfigError("url#name already has an address: leave --base-url out.");
  if (options.computerUse) throw new ConfigError("--computer-use works only with openai:name.");
  const apiKey = keyVariable === undefined ? undefined : environment[keyVariable];
  if (keyVariable !== undefined && !apiKey)
    throw new ConfigError(`Put the server's key into ${keyVariable}, or leave --key-variable out.`);
  const server = createOpenAICompatible({
    name: "server",
    baseURL: url,
    fetch: stayHere,
    ...(apiKey !== undefined && { apiKey }),
  });
  return { model: server.chatModel(name), identity: { server: url, name } };
}

function providerModel({ provider, name }: { provider: Provider; name: string }, options: ModelOptions): Hosted {
  const { environment = process.env, keyVariable } = options;
  if (keyVariable !== undefined)
    throw new ConfigError("--key-variable is for url#name; a provider's key has its own variable.");
  const { keys, urls } = PROVIDERS[provider];
  const apiKey = keys.map((key) => environment[key]).find((key) => key);
  if (apiKey === undefined)
    throw new ConfigError(`Put your key for ${provider} into the environment variable ${keys[0]}.`);
  const baseURL = options.baseUrl ?? urls.map((url) => environment[url]).find((url) => url);
  if (options.computerUse && provider !== "openai")
    throw new ConfigError(`--computer-use is for OpenAI's models; ${provider}:${name} gets the same actions as text.`);
  const send = options.computerUse ? withComputerTool(stayHere) : stayHere;
  const settings = { apiKey, fetch: send, ...(baseURL !== undefined && { baseURL }) };
  const identity = {
    provider,
    name,
    ...(baseURL !== undefined && { server: baseURL }),
    ...(options.computerUse && { tool: "computer" }),
  };
  const make: Record<Provider, () => LanguageModel> = {
    openai: () => createOpenAI(settings).responses(name),
    anthropic: () => createAnthropic(settings)(name),
    google: () => createGoogleGenerativeAI(settings)(name),
  };
  // Conversations of an evaluation are not for the provider to keep.
  return { model: make[provider](), identity, providerOptions: { openai: { store: false } } };
}

/** A redirect is answered, not followed: it would take the key to wherever it points, in headers that no client drops on the way. */
const stayHere: typeof fetch = (input, init) => fetch(input, { ...init, redirect: "manual" });

async function openFolder(text: string, named: string, options: ModelOptions): Promise<EvalModel> {
  const { path, note } = await findModel(named);
  for (const name of ["ratePerMinute", "baseUrl", "keyVariable", "computerUse"] as const) {
    if (options[name] !== undefined)
      throw new ConfigError(`${name} is for hosted models; ${text} is a folder. Leave it out.`);
  }
  // Our own engine gives the same bits with any settings; what others give is theirs.
  const identity = {
    files: await fingerprint(path),
    ...(nameOfEngine(options.engine ?? "native") !== "native" && {
      engine: JSON.parse(JSON.stringify(options.engine)) as Json,
    }),
  };
  const engine = await openEngine(options.engine);
  try {
    const model = await engine.chat(path);
    const { temperature: usual = 1, topK = 0, topP = 1 } = model.generation;
    const { temperature = usual, maxTokens = 512, history } = options;
    const sampling = { ...(topK > 0 && { topK }), ...(topP < 1 && { topP }) };
    const sampler = await engine.sampler(path);
    const make = tokenAgent({
      model,
      sampler: () => sampler,
      temperature,
      maxTokens,
      sampling,
      ...(history !== undefined && { turns: "split", history }),
    });
    return {
      name: text,
      identity,
      sampling: { temperature, maxTokens, ...sampling },
      agent: (context) => metered(make(context)),
      textOf: model.textOf,
      view: model.view,
      notes: () => (note === undefined ? [] : [`${note}.`]),
      close: async () => {
        await sampler.close();
        await engine.close();
      },
    };
  } catch (error) {
    await engine.close();
    throw error;
  }
}

function metered(agent: ReturnType<ReturnType<typeof tokenAgent>>): MeteredAgent {
  let empty = 0;
  const converse = agent.converse?.bind(agent);
  return {
    ...(converse && { converse }),
    get stopReason() {
      return agent.stopReason ?? "stop";
    },
    temperature: agent.temperature ?? 1,
    async reply(messages, signal) {
      const text = await agent.reply(messages, signal);
      empty += text.trim() === "" ? 1 : 0;
      return text;
    },
    sequences: () => agent.sequences?.() ?? [],
    usage: () => sequenceUsage(agent.sequences?.() ?? [], empty),
    close: () => agent.close?.(),
  };
}

/** SHA-256 over the files that make the model what it is. */
export async function fingerprint(folder: string): Promise<string> {
  const hash = createHash("sha256");
  const names = (await readdir(folder)).filter((name) => /\.(json|jinja|txt|safetensors)$/.test(name)).sort();
  for (const name of names) {
    hash.update(`\0${name}\0`);
    for await (const chunk of createReadStream(resolve(folder, name))) hash.update(chunk as Buffer);
  }
  return hash.digest("hex").slice(0, 32);
}
