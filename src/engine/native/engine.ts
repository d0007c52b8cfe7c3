/**
 * The embedded engine: a Qwen3-VL that samples and learns inside this process, on worker threads. One pool of workers and one store of images serve
 * all its learners and samplers.
 */
import { type ChatModel, chatModel } from "../../model/chat.ts";
import { loadFolder } from "../../model/folder.ts";
import type { Capabilities, Engine, Learner, LearnerSpec, Sampler } from "../engine.ts";
import { EngineError } from "../errors.ts";
import { LOSS_SCHEMAS } from "../loss-schemas.ts";
import { Frames } from "./frames.ts";
import type { LoadedModel, ModelRef } from "./jobs.ts";
import type { Kernels } from "./kernels/api.ts";
import { NativeLearner } from "./learner.ts";
import { Pool } from "./pool.ts";
import { NativeSampler, type TokenCounts } from "./sampler.ts";

export type NativeEngineOptions = {
  /** Worker threads; absent: as many as the machine runs at once. Results are the same bits whatever it is. */
  readonly threads?: number;
  /** Bytes of images that are kept, cut into patches, and as many of what the network saw in them; default 128 MiB. */
  readonly pictureBytes?: number;
  /** Absent: the fastest that this machine can run, or what SACCADE_KERNELS says. */
  readonly kernels?: Kernels["name"];
};

export type EngineStats = Readonly<TokenCounts> & {
  /** Vision-tower passes for sampling. */
  readonly encoded: number;
  /** Distinct frames, counted anew for each version of the weights. */
  readonly distinctFrames: number;
};

export class NativeEngine implements Engine {
  readonly capabilities: Capabilities = {
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
    exactLogprobs: true,
    losses: Object.keys(LOSS_SCHEMAS),
    regularizers: ["kl", "entropy"],
    optimizers: ["adamw", "muon"],
    weights: "snapshot",
  };
  readonly pool: Pool;
  readonly #frames: Frames;
  readonly #counts: TokenCounts = { cachedTokens: 0, prefilledTokens: 0, decodedTokens: 0 };
  #models = 0;

  constructor(options: NativeEngineOptions = {}) {
    this.pool = new Pool(options.threads, (line) => process.stderr.write(`saccade: ${line}\n`), options.kernels);
    this.#frames = new Frames(this.pool, options.pictureBytes);
  }

  async learner({ folder, head = "lm", freeze, lora, seed }: LearnerSpec): Promise<Learner> {
    const loaded = await this.#load({ folder, head, seed, ...(freeze && { freeze }), ...(lora && { lora }) });
    if (loaded.lora !== undefined && lora === undefined) {
      throw new EngineError(
        `${folder} is an adapter. Name its base model with \`lora\`, then load the adapter into the learner.`,
      );
    }
    const host = {
      pool: this.pool,
      frames: this.#frames,
      nextModelId: () => this.#models++,
      openSampler: (model: ModelRef, version: number, onIdleClose: (model: ModelRef) => void) =>
        this.#open(model, version, onIdleClose),
    };
    return new NativeLearner(host, { ...loaded, head, ...(freeze && { freeze }), id: this.#models++, revision: 0 });
  }

  async sampler(folder: string): Promise<Sampler> {
    const loaded = await this.#load({ folder, head: "lm", seed: 0 });
    return this.#open({ ...loaded, head: "lm", id: this.#models++, revision: 0 }, 0);
  }

  /** Refuses architectures that this engine does not run. */
  async chat(folder: string): Promise<ChatModel> {
    return chatModel(await loadFolder(folder));
  }

  /** What sampling has cost so far. */
  stats(): EngineStats {
    return { ...this.#counts, ...this.#frames.stats };
  }

  close(): Promise<void> {
    return this.pool.close();
  }

  #open(model: ModelRef, version: number, onIdleClose?: (model: ModelRef) => void): Sampler {
    const host = { pool: this.pool, frames: this.#frames, counts: this.#counts };
    return new NativeSampler(host, model, version, onIdleClose);
  }

  async #load(
    job: { folder: string; seed: number } & Pick<ModelRef, "head" | "freeze"> & Pick<LearnerSpec, "lora">,
  ): Promise<LoadedModel> {
    return this.pool.run({ kind: "load", ...job });
  }
}
