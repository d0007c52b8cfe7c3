/** The frozen model that KL is measured against: the weights reinforcement learning starts from, or those of the last refresh. */
import { existsSync } from "node:fs";
import { readdir, rm } from "node:fs/promises";
import { join } from "node:path";
import type { Engine, Learner, Sampler } from "../engine/engine.ts";
import { dropUnfinished, replaceFolder } from "./model-folder.ts";

export class Reference {
  readonly #engine: Engine;
  readonly #folder: string;
  #sampler: Sampler | undefined;

  /** `run` is the run's folder. */
  constructor(engine: Engine, run: string) {
    this.#engine = engine;
    this.#folder = join(run, "references");
  }

  get sampler(): Sampler | undefined {
    return this.#sampler;
  }

  /** Removes what a process that died was writing. */
  dropUnfinished(): Promise<void> {
    return dropUnfinished(this.#folder);
  }

  has(step: number): boolean {
    return existsSync(join(this.#folder, `step-${step}`));
  }

  /** The weights of that step; `policy` has them now, or they were written before. */
  async open(step: number, policy?: Learner): Promise<void> {
    const path = join(this.#folder, `step-${step}`);
    if (policy !== undefined) await replaceFolder(path, (folder) => policy.export(folder));
    await this.close();
    this.#sampler = await this.#engine.sampler(path);
  }

  /** One stays as long as a checkpoint that names it; every new one comes with a checkpoint. */
  async drop(newest: number, keep: number): Promise<void> {
    if (!existsSync(this.#folder)) return;
    const steps = (await readdir(this.#folder))
      .flatMap((name) => /^step-(\d+)$/.exec(name)?.[1] ?? [])
      .map(Number)
      .filter((step) => step <= newest)
      .sort((a, b) => b - a);
    for (const step of steps.slice(keep)) {
      await rm(join(this.#folder, `step-${step}`), { recursive: true, force: true });
    }
  }

  async close(): Promise<void> {
    await this.#sampler?.close();
    this.#sampler = undefined;
  }
}
