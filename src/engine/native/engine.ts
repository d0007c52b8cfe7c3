/**
 * The native engine: a Qwen3-VL that samples and learns inside this process, on worker threads. One pool of workers and one store of images serve
 * all its learners and samplers.
 */
import { type ChatModel, chatModel } from "../../model/chat.ts";
import { loadFolder } from "../../model/folder.ts";
import type { Capabilities, Engine, Learner, LearnerSpec, Sampler } from "../engine.ts";
import { EngineError } from "../errors.ts";
import { LOSS_SCHEMAS } from "../loss-schemas.ts";
import type { LoadedModel, ModelRef } from "./jobs.ts";
import type { Kernels } from "./kernels/api.ts";
import { type EngineStats, Machine } from "./machine.ts";
import type { Pool } from "./pool.ts";
import { nodeThreads } from "./threads.ts";

export type { EngineStats } from "./machine.ts";

export type NativeEngineOptions = {
  /** Worker threads; absent: as many as the machine runs at once. Results are the same bits whatever it is. */
  readonly threads?: number;
  /** Bytes of images that are kept, cut into patches, and as many of what the network saw in them; default 128 MiB. */
  readonly frameBytes?: number;
  /** Absent: the fastest that this machine can run, or what SACCADE_KERNELS says. */
  readonly kernels?: Kernels["name"];
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
  readonly #machine: Machine;

  constructor({ kernels, ...options }: NativeEngineOptions = {}) {
    const threads = nodeThreads((line) => process.stderr.write(`saccade: ${line}\n`), kernels);
    this.#machine = new Machine(threads, options);
  }

  get pool(): Pool {
    return this.#machine.pool;
  }

  async learner({ folder, head = "lm", freeze, lora, seed }: LearnerSpec): Promise<Learner> {
    const loaded = await this.#load({ folder, head, seed, ...(freeze && { freeze }), ...(lora && { lora }) });
    if (loaded.lora !== undefined && lora === undefined) {
      throw new EngineError(
        `${folder} is an adapter. Name its base model with \`lora\`, then load the adapter into the learner.`,
      );
    }
    return this.#machine.learner({ ...loaded, head, ...(freeze && { freeze }) });
  }

  async sampler(folder: string): Promise<Sampler> {
    return this.#machine.sampler(await this.#load({ folder, head: "lm", seed: 0 }));
  }

  /** Refuses architectures that this engine does not run. */
  async chat(folder: string): Promise<ChatModel> {
    return chatModel(await loadFolder(folder));
  }

  /** What sampling has cost so far. */
  stats(): EngineStats {
    return this.#machine.stats();
  }

  close(): Promise<void> {
    return this.#machine.close();
  }

  async #load(
    job: { folder: string; seed: number } & Pick<ModelRef, "head" | "freeze"> & Pick<LearnerSpec, "lora">,
  ): Promise<LoadedModel> {
    return this.pool.run({ kind: "load", ...job });
  }
}
