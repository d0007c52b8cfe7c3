/**
 * Learns with one engine and samples on inference servers. After an update the learner writes its weights into a folder that the servers can read
 * (`exchange`), and they load them: all of them in place, or, under LoRA, an adapter per version, so that episodes under way keep theirs.
 */
import { randomBytes } from "node:crypto";
import { mkdir, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { z } from "zod";
import { ConfigError } from "../../core/errors.ts";
import type { ChatFolder, ChatModel } from "../../model/chat.ts";
import { chatModel, loadChat } from "../../model/chat.ts";
import type { Capabilities, Engine, Learner, LearnerSpec, Sampler } from "../engine.ts";
import { Fleet, type Weights } from "./fleet.ts";
import { VllmRenderer } from "./renderer.ts";
import { VllmSampler } from "./sampler.ts";
import { VllmServer } from "./server.ts";
import { SglangServer } from "./sglang.ts";

const address = z.url({ protocol: /^https?$/ });

/** `sampler` of a recipe's engine. */
export const samplerSettings = z
  .strictObject({
    vllm: z.array(address).min(1).optional(),
    sglang: z.array(address).min(1).optional(),
    /** Servers that render, where they stand apart (`vllm launch render`). */
    render: z.array(address).min(1).optional(),
    /** Who makes ids and pixels: vLLM servers (default), or the model folder's own template and processor here. */
    renderer: z.enum(["server", "own"]).optional(),
    /** A folder that this process and every server see under the same path; default: a temporary one. */
    exchange: z.string().min(1).optional(),
    /** New weights go from the learner's memory to the servers', not through files; `host`: how they reach the learner's machine. */
    transfer: z.strictObject({ host: z.string().min(1).default("127.0.0.1") }).optional(),
    /** Requests in flight at each server. */
    concurrency: z.int().min(1).default(256),
    /** Most milliseconds for one reply. */
    timeoutMs: z.int().min(1000).default(3_600_000),
    /** How long to wait for a server when all are gone. */
    patienceMs: z.int().min(0).default(600_000),
    /** Learner and servers share a GPU: the servers sleep while it learns. */
    sleep: z.boolean().default(false),
  })
  .superRefine(({ vllm, sglang, render, renderer, transfer }, context) => {
    if ((vllm === undefined) === (sglang === undefined)) context.addIssue("name servers as vllm or as sglang");
    if (sglang !== undefined && (render !== undefined || renderer === "server")) {
      context.addIssue("SGLang servers process images themselves: leave render and renderer out");
    }
    if (sglang !== undefined && transfer !== undefined) {
      context.addIssue("SGLang servers get their weights from a folder here: leave transfer out");
    }
  });
export type SamplerSettings = z.output<typeof samplerSettings>;

export class VllmEngine implements Engine {
  readonly capabilities: Capabilities;
  readonly #learner: Engine;
  readonly #settings: SamplerSettings;
  /** None: the model folder renders. */
  readonly #renderServers: readonly VllmServer[];
  readonly #fleet: Fleet;
  #contextTokens = Number.POSITIVE_INFINITY;
  #made: string | undefined;

  private constructor(learner: Engine, settings: SamplerSettings) {
    this.#learner = learner;
    this.#settings = settings;
    const key = process.env.VLLM_API_KEY;
    const options = { ...settings, ...(key !== undefined && { key }) };
    const { vllm, sglang = [], render, renderer } = settings;
    const connect = (urls: readonly string[]) => urls.map((url) => new VllmServer(url, options));
    const servers = vllm && connect(vllm);
    this.#fleet = new Fleet(servers ?? sglang.map((url) => new SglangServer(url, options)), settings);
    const asked = renderer === "own" ? undefined : servers;
    this.#renderServers = (asked && render && connect(render)) ?? asked ?? [];
    this.capabilities = { ...learner.capabilities, visionMask: true, exactLogprobs: false, weights: "inPlace" };
  }

  /** The servers must be up. */
  static async open(learner: Engine, settings: SamplerSettings): Promise<VllmEngine> {
    const engine = new VllmEngine(learner, settings);
    try {
      engine.#contextTokens = (await engine.#fleet.probe()).contextTokens;
      return engine;
    } catch (error) {
      await engine.close();
      throw error;
    }
  }

  async learner(spec: LearnerSpec): Promise<Learner> {
    if (spec.head === "value") return this.#learner.learner(spec);
    if (spec.lora !== undefined && spec.freeze !== "vision") {
      throw new ConfigError('vLLM serves adapters of the language part only: with lora, also set freeze to "vision".');
    }
    if (spec.lora !== undefined && this.#settings.transfer !== undefined) {
      throw new ConfigError("Adapters are exchanged as files: with lora, leave transfer out.");
    }
    const inner = await this.#learner.learner(spec);
    const exchange = await this.#exchange();
    const chat = await loadChat(spec.folder);
    this.#fleet.forgetInPlace();
    return new ServingLearner(inner, {
      fleet: this.#fleet,
      chat,
      exchange,
      ...(spec.lora !== undefined && { base: resolve(spec.folder) }),
      ...(this.#settings.transfer && { giver: this.#settings.transfer.host }),
      sleeps: this.#settings.sleep,
    });
  }

  /** Of weights that stay as they are, the learner's engine samples and scores. */
  sampler(folder: string): Promise<Sampler> {
    return this.#learner.sampler(folder);
  }

  async chat(folder: string): Promise<ChatModel> {
    const chat = await loadChat(folder);
    const model = chatModel(chat);
    // Servers that render apart may have a smaller limit than those that sample.
    const apart = this.#settings.render === undefined ? [] : this.#renderServers;
    const limits = await Promise.all(apart.map(async (server) => (await server.probe("render")).contextTokens));
    const contextTokens = Math.min(this.#contextTokens, ...limits);
    const maxPositions = Math.min(model.maxPositions, contextTokens);
    if (this.#renderServers.length === 0) return { ...model, maxPositions };
    const renderer = await VllmRenderer.open(this.#renderServers, chat, { ...this.#settings, contextTokens });
    return { ...model, maxPositions, renderer };
  }

  async close(): Promise<void> {
    this.#fleet.close();
    for (const server of this.#renderServers) server.close();
    await this.#learner.close();
    if (this.#made !== undefined) await rm(this.#made, { recursive: true, force: true });
  }

  async #exchange(): Promise<string> {
    const { exchange } = this.#settings;
    if (exchange !== undefined) {
      await mkdir(exchange, { recursive: true });
      return resolve(exchange);
    }
    this.#made ??= await mkdtemp(join(tmpdir(), "saccade-exchange-"));
    return this.#made;
  }
}

type Serving = {
  readonly fleet: Fleet;
  readonly chat: ChatFolder;
  readonly exchange: string;
  /** Under LoRA, the model that adapters are for. */
  readonly base?: string;
  /** Where weights go from memory to memory, the learner's machine. */
  readonly giver?: string;
  readonly sleeps: boolean;
};

/** A learner that publishes to servers; all else is the inner one's. */
class ServingLearner implements Learner {
  readonly #inner: Learner;
  readonly #serving: Serving;
  readonly #tag = randomBytes(3).toString("hex");
  /** The newest weights that were written. */
  #newest: Weights | undefined;
  /** How many samplers of an adapter are open. */
  readonly #users = new Map<Weights, number>();
  #asleep = false;
  #room: Promise<void> = Promise.resolve();

  constructor(inner: Learner, serving: Serving) {
    this.#inner = inner;
    this.#serving = serving;
  }

  forward(...args: Parameters<Learner["forward"]>) {
    return this.#inOrder(() => this.#inner.forward(...args), true);
  }

  forwardBackward(...args: Parameters<Learner["forwardBackward"]>) {
    return this.#inOrder(() => this.#inner.forwardBackward(...args), true);
  }

  step(...args: Parameters<Learner["step"]>) {
    return this.#inOrder(() => this.#inner.step(...args));
  }

  discard(): void {
    this.#inOrder(async () => this.#inner.discard()).catch(() => undefined);
  }

  freshOptimizer(): Promise<void> {
    return this.#inOrder(() => this.#inner.freshOptimizer());
  }

  async publish(): Promise<Sampler> {
    const { fleet, chat, base } = this.#serving;
    const own = await this.#inner.publish();
    try {
      const before = this.#newest;
      const weights = await this.#weights(own);
      this.#newest = weights;
      if (this.#asleep) await fleet.wake();
      this.#asleep = false;
      await fleet.load(weights);
      // In place there is one set of weights, and a server that was away gets the newest. An adapter stays until its samplers are closed.
      const inPlace = base === undefined;
      if (before?.kind === "reload" && before !== weights) await rm(before.folder, { recursive: true, force: true });
      if (before?.kind === "adapter") await this.#dropUnused(before);
      this.#users.set(weights, (this.#users.get(weights) ?? 0) + 1);
      return new VllmSampler({
        fleet,
        own,
        weights: inPlace ? () => this.#newest as Weights : () => weights,
        processor: chat.processor,
        visionIds: chatModel(chat).visionIds,
        ...(!inPlace && {
          onClose: async () => {
            this.#users.set(weights, (this.#users.get(weights) ?? 0) - 1);
            await this.#dropUnused(weights);
          },
        }),
      });
    } catch (error) {
      await own.close();
      throw error;
    }
  }

  /** The newest stay: another sampler of them may be asked for. */
  async #dropUnused(weights: Weights): Promise<void> {
    if (this.#newest === weights || (this.#users.get(weights) ?? 0) > 0) return;
    this.#users.delete(weights);
    await this.#serving.fleet.unloadAdapter(weights);
    if (weights.kind === "adapter") await rm(weights.folder, { recursive: true, force: true });
  }

  /** Written, unless they were already, or on offer in memory. */
  async #weights(own: Sampler): Promise<Weights> {
    const { exchange, base, giver } = this.#serving;
    const { version } = own;
    if (giver !== undefined) {
      const { offer } = own;
      if (offer === undefined) {
        throw new ConfigError(
          "This learner publishes its weights as files: leave transfer out, or use the torch learner.",
        );
      }
      return { kind: "transfer", version, offer: { host: giver, to: offer.bind(own) } };
    }
    if (this.#newest?.version === version) return this.#newest;
    const folder = join(exchange, `version-${version}`);
    await rm(folder, { recursive: true, force: true });
    await this.#inner.export(folder);
    return base === undefined
      ? { kind: "reload", version, folder }
      : { kind: "adapter", version, folder, base, learner: this.#tag };
  }

  export(folder: string): Promise<void> {
    return this.#inner.export(folder);
  }

  checkpoint(folder: string): Promise<void> {
    return this.#inner.checkpoint(folder);
  }

  restore(folder: string): Promise<void> {
    return this.#inner.restore(folder);
  }

  close(): Promise<void> {
    return this.#inner.close();
  }

  /** A gradient may have to wait until the servers made room; a step that was asked for right after it must not overtake it meanwhile. */
  #inOrder<T>(work: () => Promise<T>, needsRoom = false): Promise<T> {
    const room = this.#room.then(() => (needsRoom ? this.#makeRoom() : undefined));
    this.#room = room.catch(() => undefined);
    return room.then(work);
  }

  /** Before the first gradient after a publication, where both share a GPU. */
  async #makeRoom(): Promise<void> {
    if (!this.#serving.sleeps || this.#asleep || this.#newest === undefined) return;
    this.#asleep = true;
    await this.#serving.fleet.sleep();
  }
}
