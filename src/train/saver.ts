/** Checkpoints of a run: the latest, the best, and their uploads. */
import { join } from "node:path";
import { writeTrained } from "../model/trained.ts";
import { evaluationKey } from "./evaluate.ts";
import { CheckpointUploads } from "./hub.ts";
import { writeCard } from "./model-card.ts";
import { trainedBy } from "./model-folder.ts";
import type { RunParts } from "./parts.ts";
import type { Progress } from "./progress.ts";

/** Of an evaluation; `environments`: success in each, where there are several. */
export type Score = { readonly success: number; readonly environments?: Readonly<Record<string, number>> };

export class Saver {
  readonly #parts: RunParts;
  readonly #uploads: CheckpointUploads | undefined;
  #lastSaved: number;

  constructor(parts: RunParts) {
    const { journal, options, lastSaved } = parts;
    const { recipe, signal } = options;
    const note = (message: string, step: number) => journal.note(message, step);
    this.#parts = parts;
    this.#lastSaved = lastSaved;
    this.#uploads = recipe.hub && new CheckpointUploads(recipe.hub, { note, ...(signal && { signal }) });
  }

  async save(progress: Progress): Promise<void> {
    const { run, learners, options, reference } = this.#parts;
    const step = progress.warm + progress.step;
    if (step === this.#lastSaved) return;
    const { policy, critic } = learners;
    // Saving may remove an older checkpoint, which must not be one that is being uploaded.
    await this.#uploads?.settled();
    const checkpoint = await run.saveCheckpoint(
      step,
      async (folder) => {
        await policy.checkpoint(join(folder, "policy"));
        await writeTrained(join(folder, "policy"), trainedBy(options.recipe));
        await writeCard(join(folder, "policy"), run.path, step);
        await critic?.checkpoint(join(folder, "critic"));
      },
      { ...progress },
    );
    this.#lastSaved = step;
    this.#uploads?.saved(checkpoint);
    const { referenceEvery, checkpoint: kept } = options.recipe;
    if (referenceEvery !== undefined) await reference.drop(progress.reference, kept.keep);
  }

  /** The checkpoint of this step is to be written again. */
  forget(): void {
    this.#lastSaved = -1;
  }

  /** A best of another evaluation is no rival. */
  async offerBest(progress: Progress, { success: score, environments }: Score): Promise<void> {
    const { run, options, data, journal } = this.#parts;
    const step = progress.warm + progress.step;
    const best = await run.checkpoints.bestScore();
    const evaluation = evaluationKey(options.recipe, data.evaluation);
    if (best !== undefined && best.evaluation !== evaluation) {
      const other = `The best so far (step ${best.step}, ${best.score}) is of another evaluation, and no longer compared.`;
      journal.note(other, step);
    } else if (best !== undefined && best.score >= score) return;
    await this.save(progress);
    await run.checkpoints.offerBest(step, score, "eval/success", evaluation, environments);
  }

  /** Waits for uploads that are under way. */
  async settled(): Promise<void> {
    await this.#uploads?.settled();
  }

  async finish(): Promise<void> {
    await this.#uploads?.finish();
  }
}
