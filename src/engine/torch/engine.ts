/**
 * The PyTorch engine: models in a Python worker (python/saccade_torch), on whatever device that has. Saccade starts the worker and watches it, or attaches to
 * one that runs elsewhere. It computes what the native engine computes, of larger models and of other families too; see docs/guide/pytorch.md.
 */
import { z } from "zod";
import { ConfigError } from "../../core/errors.ts";
import { makeOnce } from "../../core/make-once.ts";
import { type ChatModel, chatModel, loadChat, speaksQwen } from "../../model/chat.ts";
import type { Capabilities, Engine, Learner, LearnerSpec, Sampler } from "../engine.ts";
import { LOSS_SCHEMAS } from "../loss-schemas.ts";
import type { EngineConfig, EngineDefinition } from "../registry.ts";
import { Bundles } from "./bundle.ts";
import { Client, Images } from "./client.ts";
import { TorchLearner } from "./learner.ts";
import { LocalWorker, RemoteWorker, type WorkerSettings, type WorkerSource } from "./process.ts";
import { workerChat } from "./renderer.ts";
import { TorchSampler } from "./sampler.ts";

const CAPABILITIES: Capabilities = {
  critic: true,
  lora: true,
  fullTuning: true,
  temperature: true,
  visionMask: true,
  entropy: true,
  discard: true,
  groupRates: true,
  gradientClipping: true,
  freshOptimizer: true,
  start: "folder",
  exactLogprobs: false,
  losses: Object.keys(LOSS_SCHEMAS),
  regularizers: ["kl", "entropy"],
  optimizers: ["adamw", "muon"],
  weights: "snapshot",
};

export class TorchEngine implements Engine {
  readonly capabilities: Capabilities;
  readonly #client: Client;
  readonly #bundles: Bundles;
  readonly #images = new Map<string, Promise<Images>>();

  /** `adaptersOnly`: the base is quantised, and can't learn. */
  constructor(source: WorkerSource, adaptersOnly = false) {
    this.capabilities = { ...CAPABILITIES, fullTuning: !adaptersOnly };
    this.#client = new Client(source);
    this.#bundles = new Bundles(source);
  }

  async learner(spec: LearnerSpec): Promise<Learner> {
    const host = { client: this.#client, bundles: this.#bundles };
    return TorchLearner.open(host, spec, await this.#seeing(spec.folder));
  }

  async sampler(folder: string): Promise<Sampler> {
    const images = await this.#seeing(await this.#bundles.home(folder));
    const { instance } = await this.#client.link();
    const place = await this.#bundles.send(folder, { keep: true });
    const base = await this.#bundles.base(folder);
    const { sampler, version } = await this.#client.call("open_sampler", { folder: place, base }, { instance });
    return new TorchSampler(this.#client, images, { id: sampler as number, instance, version: version as number });
  }

  async chat(folder: string): Promise<ChatModel> {
    const home = await this.#bundles.home(folder);
    if (await speaksQwen(home)) return chatModel(await loadChat(home));
    return workerChat(this.#client, await this.#bundles.send(home, { keep: true }), await this.#seeing(home));
  }

  /** What the worker is and has done: its device, dtype, versions, counts of tokens. */
  async health(): Promise<Readonly<Record<string, unknown>>> {
    return (await this.#client.link()).connection.health();
  }

  async close(): Promise<void> {
    await this.#client.close();
  }

  /** Of the folder that has the tokenizer and the processor. */
  #seeing(folder: string): Promise<Images> {
    return makeOnce(this.#images, folder, () => Images.of(folder));
  }
}

const count = z.int().min(1).optional();
const settings = z.strictObject({
  python: z.string().min(1).optional(),
  device: z.string().min(1).optional(),
  dtype: z.enum(["float32", "bfloat16"]).optional(),
  packTokens: count,
  cacheBytes: count,
  frameBytes: count,
  compile: z.boolean().optional(),
  checkpointing: z.boolean().optional(),
  offload: z.boolean().optional(),
  base: z.enum(["nf4", "int8"]).optional(),
  moments: z.enum(["int8"]).optional(),
  processes: count,
  samplers: z.enum(["all", "first"]).optional(),
  threads: count,
}) satisfies z.ZodType<WorkerSettings>;

export const torchEngine: EngineDefinition<typeof settings> = {
  attachable: true,
  settings,
  open(settings, address) {
    if (address === undefined) return new TorchEngine(new LocalWorker(settings), settings.base !== undefined);
    const given = Object.keys(settings);
    if (given.length > 0) {
      throw new ConfigError(
        `torch@${address} runs with its own settings: leave ${given.join(", ")} out, and start that worker with them.`,
      );
    }
    const key = process.env.SACCADE_TORCH_KEY;
    if (!key) throw new ConfigError("Set SACCADE_TORCH_KEY to the key that the worker was started with.");
    return new TorchEngine(new RemoteWorker(address, key));
  },
};

/** The learner where servers sample: its other processes need no copy of the newest weights. */
export function withoutSamplers(learner: EngineConfig): EngineConfig {
  if (learner === "torch") return { name: "torch", samplers: "first" };
  return typeof learner === "object" && "name" in learner && learner.name === "torch"
    ? { samplers: "first", ...learner }
    : learner;
}

/** What the learner of a configuration is told, where a worker of ours is it, and whether it samples too. */
export function learnerSettings(config: EngineConfig): (WorkerSettings & { readonly samples: boolean }) | undefined {
  const apart = typeof config === "object" && "sampler" in config;
  const learner = apart ? config.learner : config;
  const { name = "native", ...given } = (typeof learner === "string" ? { name: learner } : learner) as {
    name?: string;
  };
  const read = settings.safeParse(given);
  return name === "torch" && read.success ? { ...read.data, samples: !apart } : undefined;
}
