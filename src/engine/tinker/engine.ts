/**
 * Trains and samples at a server of the Tinker API: hosted, SkyRL's, or ours. The weights are the server's; the folder that a recipe names has the tokenizer,
 * the chat template and the image processor of its model, and ids are made here. See docs/guide/tinker.md.
 */
import { readFile } from "node:fs/promises";
import { join, resolve, sep } from "node:path";
import { z } from "zod";
import { ConfigError } from "../../core/errors.ts";
import { isJsonObject } from "../../core/json.ts";
import { type ChatModel, chatModel, loadChat } from "../../model/chat.ts";
import { type SaveOptions, ServiceClient } from "../../tinker/index.ts";
import type { Bill, Capabilities, Engine, Learner, LearnerSpec, Sampler, Tokens } from "../engine.ts";
import type { EngineDefinition } from "../registry.ts";
import { readPlace, TinkerLearner } from "./learner.ts";
import { TinkerSampler } from "./sampler.ts";
import { asEngine, TinkerServer } from "./server.ts";

const price = z.number().min(0);
const settings = z.strictObject({
  /** Default: TINKER_BASE_URL, else the hosted service. */
  url: z.url({ protocol: /^https?$/ }).optional(),
  /** The base model's name at the server; may be left out where it serves one. */
  model: z.string().min(1).optional(),
  /** What the tokenizer folder is, where its name does not say it. */
  tokenizerId: z.string().min(1).optional(),
  /** Dollars per million tokens. */
  prices: z.strictObject({ prefill: price, sample: price, train: price }).optional(),
  /** How long checkpoints are kept; default: for good. */
  ttlSeconds: z.int().min(3600).optional(),
  /** How long the server may be away. */
  patienceMs: z.int().min(0).default(600_000),
});
export type TinkerSettings = z.output<typeof settings>;

const MILLION = 1e6;

export class TinkerEngine implements Engine {
  readonly capabilities: Capabilities;
  readonly bill: Bill;
  readonly #server: TinkerServer;
  readonly #settings: TinkerSettings;

  private constructor(server: TinkerServer, settings: TinkerSettings) {
    this.#server = server;
    this.#settings = settings;
    const { prices } = settings;
    this.bill = {
      used: () => ({ ...server.used }),
      cost: ({ prefill, sample, train }: Tokens) =>
        prices && (prefill * prices.prefill + sample * prices.sample + train * prices.train) / MILLION,
    };
    const newer = server.form === "protobuf";
    this.capabilities = {
      critic: false,
      lora: true,
      fullTuning: !server.service.connection.hosted,
      temperature: false,
      visionMask: server.own !== undefined,
      entropy: false,
      discard: false,
      exactLogprobs: server.own?.exact_logprobs === true,
      groupRates: false,
      gradientClipping: newer,
      freshOptimizer: newer,
      start: "server",
      // Older servers average, which takes away the sign of weights: no loss of one's own there. The API's dro has no weights, and pulls at every
      // position, those without a target too: only our own server's has.
      losses: [
        "cross-entropy",
        "importance-sampling",
        "ppo",
        "cispo",
        ...(newer ? ["gspo", "custom"] : []),
        ...(newer && server.own ? ["dro"] : []),
      ],
      regularizers: [],
      optimizers: ["adamw"],
      weights: "snapshot",
    };
  }

  static async open(settings: TinkerSettings): Promise<TinkerEngine> {
    const { url, patienceMs, model } = settings;
    const service = new ServiceClient({
      ...(url !== undefined && { base_url: url }),
      patience_ms: patienceMs,
      display_name: "saccade",
    });
    try {
      return new TinkerEngine(await TinkerServer.open(service, model), settings);
    } catch (error) {
      await service.close("errored");
      throw error;
    }
  }

  async learner(spec: LearnerSpec): Promise<Learner> {
    if (spec.head === "value") throw new ConfigError("Tinker has no critic: leave critic out.");
    if (spec.freeze === "language" || (spec.freeze === "vision" && spec.lora === undefined))
      throw new ConfigError("Tinker freezes only what is outside its adapters: leave freeze out, or set lora.");
    const { ttlSeconds } = this.#settings;
    const saving: SaveOptions = ttlSeconds === undefined ? {} : { ttl_seconds: ttlSeconds };
    const learner = await TinkerLearner.open(this.#server, spec, saving);
    await checkTokenizer(spec.folder, await learner.tokenizerId(), this.#settings.tokenizerId);
    return learner;
  }

  /** Of a checkpoint or export of a Tinker run; of any other folder: the base model. */
  async sampler(folder: string): Promise<Sampler> {
    const place = await readPlace(folder);
    const { service, model } = this.#server;
    const of = place === undefined ? { base_model: model } : { model_path: place.sampler };
    return new TinkerSampler(this.#server, await asEngine(service.createSamplingClient(of)), place?.version ?? 0);
  }

  async chat(folder: string): Promise<ChatModel> {
    const home = (await readPlace(folder))?.tokenizer ?? folder;
    const chat = chatModel(await loadChat(home));
    const { contextTokens = chat.maxPositions } = this.#server;
    return { ...chat, maxPositions: Math.min(chat.maxPositions, contextTokens) };
  }

  async close(): Promise<void> {
    await this.#server.service.close();
  }
}

/** Ids that another tokenizer made are noise to a model, and nothing downstream would say so. */
export async function checkTokenizer(folder: string, wanted: string, declared?: string): Promise<void> {
  const file = "tokenizer.json";
  const theirs = await readFile(join(wanted, file)).catch(() => undefined);
  if (theirs !== undefined) {
    if (theirs.equals(await readFile(join(folder, file)))) return;
    throw new ConfigError(`The server's tokenizer is ${wanted}, but ${folder} has another: set --tokenizer ${wanted}.`);
  }
  const last = (name: string) => (name.split("/").at(-1) as string).toLowerCase();
  const names = declared === undefined ? await namesOf(folder) : [declared];
  if (names.map(last).includes(last(wanted))) return;
  throw new ConfigError(
    `The server's tokenizer is "${wanted}", and ${folder} seems to be ${names.map((name) => `"${name}"`).join(" or ")}: ` +
      `name a folder with the tokenizer files of "${wanted}" (--tokenizer). If it is the right tokenizer, add --set engine.tokenizerId=${wanted}.`,
  );
}

/** What a folder may be called: its own name, those above it in a hub's cache, what its files say. */
async function namesOf(folder: string): Promise<string[]> {
  const path = resolve(folder).split(sep).slice(-3);
  const names = path
    .map((part) => (part.startsWith("models--") ? part.split("--").slice(1).join("/") : part))
    .reverse();
  for (const file of ["config.json", "tokenizer_config.json"]) {
    const json: unknown = JSON.parse(await readFile(join(folder, file), "utf8").catch(() => "null"));
    for (const key of ["_name_or_path", "name_or_path"]) {
      const name = isJsonObject(json) ? json[key] : undefined;
      if (typeof name === "string" && name !== "") names.push(name);
    }
  }
  return [...new Set(names)];
}

export const tinkerEngine: EngineDefinition<typeof settings> = {
  attachable: true,
  settings,
  open(settings, address) {
    if (address !== undefined && settings.url !== undefined)
      throw new ConfigError(`Name the server once: tinker@${address}, or engine.url.`);
    return TinkerEngine.open(address === undefined ? settings : { ...settings, url: `http://${address}` });
  },
};
