/**
 * What computes: one pool of workers and one store of images, which serve all learners and samplers of an engine. It knows no files: an engine (or a page)
 * brings the weights.
 */
import type { Learner, Sampler } from "../engine.ts";
import { Frames } from "./frames.ts";
import type { LoadedModel, ModelRef } from "./jobs.ts";
import { NativeLearner } from "./learner.ts";
import { Pool, type Threads } from "./pool.ts";
import { NativeSampler, type TokenCounts } from "./sampler.ts";

export type EngineStats = Readonly<TokenCounts> & {
  /** Vision-tower passes for sampling. */
  readonly encoded: number;
  /** Distinct frames, counted anew for each version of the weights. */
  readonly distinctFrames: number;
};

export type MachineOptions = {
  /** Absent: as many as the machine runs at once. */
  readonly threads?: number;
  readonly frameBytes?: number;
};

export class Machine {
  readonly pool: Pool;
  readonly #frames: Frames;
  readonly #counts: TokenCounts = { cachedTokens: 0, prefilledTokens: 0, decodedTokens: 0 };
  #models = 0;

  constructor(source: Threads, { threads, frameBytes }: MachineOptions = {}) {
    this.pool = new Pool(source, threads);
    this.#frames = new Frames(this.pool, frameBytes);
  }

  learner(loaded: LoadedModel & Pick<ModelRef, "head" | "freeze">): Learner {
    const host = {
      pool: this.pool,
      frames: this.#frames,
      nextModelId: () => this.#models++,
      openSampler: (model: ModelRef, version: number, onIdleClose: (model: ModelRef) => void) =>
        this.#open(model, version, onIdleClose),
    };
    return new NativeLearner(host, { ...loaded, id: this.#models++, revision: 0 });
  }

  sampler(loaded: LoadedModel): Sampler {
    return this.#open({ ...loaded, head: "lm", id: this.#models++, revision: 0 }, 0);
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
}
