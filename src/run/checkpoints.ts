/**
 * `checkpoints/step-N/`: made under a temporary name, every file forced to disk and listed with its size in `checkpoint.json`, then
 * renamed; last of all the pointer `latest.json` (and `best.json`) moves, by rename. So at every instant the pointer names a whole
 * checkpoint. Should one be damaged all the same, `latest()` falls back to the newest whole one before it and says so.
 */
import { mkdir, readdir, readFile, rm, stat } from "node:fs/promises";
import { join, relative, sep } from "node:path";
import { DataError, errorMessage } from "../core/errors.ts";
import { isJsonObject, type Json, type JsonObject } from "../core/json.ts";
import { move } from "../core/move.ts";
import { isMissing, namesIn, removeLeftovers, syncFile, syncFolder, temporaryName, writeAtomic } from "./files.ts";

export const CHECKPOINTS_FOLDER = "checkpoints";
const MANIFEST = "checkpoint.json";
/** A checkpoint of the same step that is being replaced; put back if the process died in between. */
const REPLACED = ".old-";

export type Checkpoint = {
  readonly step: number;
  /** Where its files are. */
  readonly path: string;
  /** Milliseconds since 1970. */
  readonly saved: number;
  /** What the saver gave along: random state, position in the data, … */
  readonly state: Json;
  /** In words, when this is not the checkpoint the pointer names. */
  readonly note?: string;
};

export type Best = {
  readonly step: number;
  readonly score: number;
  readonly metric: string;
  /** Names the evaluation that gave the score: only scores of one evaluation are compared. */
  readonly evaluation?: string;
  /** The score of each environment, where there are several. */
  readonly environments?: Readonly<Record<string, number>>;
};

export class CheckpointStore {
  readonly folder: string;
  readonly #keep: number;

  /** `keep`: how many of the newest stay; the best stays besides. Nothing is touched before `recover` or `save`. */
  constructor(runPath: string, { keep = 2 }: { readonly keep?: number } = {}) {
    this.folder = join(runPath, CHECKPOINTS_FOLDER);
    this.#keep = Math.max(1, keep);
  }

  /** Before writing: removes what a killed process left half made. Returns what was done, and what is damaged, in words. */
  async recover(): Promise<string[]> {
    await mkdir(this.folder, { recursive: true });
    const notes: string[] = [];
    for (const name of await namesIn(this.folder)) {
      if (!name.startsWith(REPLACED)) continue;
      const place = join(this.folder, name.slice(REPLACED.length));
      if (await isThere(place)) await rm(join(this.folder, name), { recursive: true, force: true });
      else {
        await move(join(this.folder, name), place);
        notes.push(`checkpoints: ${name.slice(REPLACED.length)} was being replaced; the earlier one was put back.`);
      }
    }
    const left = await removeLeftovers(this.folder);
    if (left > 0) notes.push(`checkpoints: ${left} half-made folder(s) or file(s) of a killed process were removed.`);
    for (const step of await this.steps()) {
      const found = await this.#check(step);
      if (typeof found === "string") notes.push(`checkpoints: step-${step} can't be used: ${found}.`);
    }
    const best = await this.#pointer("best.json");
    if (typeof best === "string" && (await isThere(join(this.folder, "best.json"))))
      notes.push(`checkpoints: ${best}.`);
    return notes;
  }

  /** `write` fills the folder it is given. Steps grow over a run; saving a step again replaces it. */
  async save(step: number, write: (folder: string) => Promise<void>, state: Json = null): Promise<Checkpoint> {
    if (!Number.isSafeInteger(step) || step < 0)
      throw new DataError(`A checkpoint needs a whole step from 0, got ${step}.`);
    await mkdir(this.folder, { recursive: true });
    const path = this.#pathOf(step);
    const making = temporaryName(path);
    const saved = Date.now();
    try {
      await mkdir(making);
      await write(making);
      const { files, folders } = await filesIn(making);
      for (const name of Object.keys(files)) await syncFile(join(making, name));
      await writeAtomic(join(making, MANIFEST), `${JSON.stringify({ step, saved, files, state }, null, 1)}\n`);
      for (const name of folders) await syncFolder(join(making, name));
    } catch (error) {
      await rm(making, { recursive: true, force: true });
      throw error;
    }
    const old = join(this.folder, `${REPLACED}step-${step}`);
    if (await isThere(path)) {
      await rm(old, { recursive: true, force: true });
      await move(path, old);
    }
    await move(making, path);
    await syncFolder(this.folder);
    await writeAtomic(join(this.folder, "latest.json"), `${JSON.stringify({ step })}\n`);
    await rm(old, { recursive: true, force: true });
    await this.#retain();
    return { step, path, saved, state };
  }

  /** Moves `best.json` to a saved step when its score is higher than that of the best so far, or that is of another evaluation. */
  async offerBest(
    step: number,
    score: number,
    metric: string,
    evaluation?: string,
    environments?: Best["environments"],
  ): Promise<boolean> {
    const before = await this.bestScore();
    const isRival = before !== undefined && before.evaluation === evaluation;
    if (!Number.isFinite(score) || (isRival && before.score >= score)) return false;
    const found = await this.#check(step);
    if (typeof found === "string")
      throw new DataError(`step-${step} can't be the best checkpoint: ${found}. Save it first.`);
    await writeAtomic(
      join(this.folder, "best.json"),
      `${JSON.stringify({ step, score, metric, evaluation, environments })}\n`,
    );
    await this.#retain();
    return true;
  }

  /** The checkpoint to go on from; undefined when there is none. */
  async latest(): Promise<Checkpoint | undefined> {
    const pointer = await this.#pointer("latest.json");
    const steps = await this.steps();
    let note = "";
    if (typeof pointer === "string") {
      if (steps.length === 0) return undefined;
      note = pointer;
    }
    const from = typeof pointer === "string" ? Number.POSITIVE_INFINITY : (pointer.step as number);
    const tries = [...steps.filter((step) => step <= from).reverse(), ...steps.filter((step) => step > from)];
    if (typeof pointer !== "string" && !steps.includes(from))
      note = `step-${from}, which latest.json names, is missing`;
    for (const step of tries) {
      const found = await this.#check(step);
      if (typeof found === "string") note += `${note && "; "}step-${step}: ${found}`;
      else return note === "" ? found : { ...found, note: `Continuing from step-${step}: ${note}.` };
    }
    if (tries.length === 0 && note === "") return undefined;
    throw new DataError(
      `No complete checkpoint is left in ${this.folder} (${note}). Start the run again in a new folder, or delete this one.`,
    );
  }

  async best(): Promise<(Checkpoint & Best) | undefined> {
    const best = await this.bestScore();
    if (best === undefined) return undefined;
    const found = await this.#check(best.step);
    return typeof found === "string" ? undefined : { ...found, ...best };
  }

  async bestScore(): Promise<Best | undefined> {
    const pointer = await this.#pointer("best.json");
    if (typeof pointer === "string" || typeof pointer.score !== "number") return undefined;
    return pointer as unknown as Best;
  }

  /** Steps that have a folder, whole or not, ascending. */
  async steps(): Promise<number[]> {
    return (await namesIn(this.folder))
      .flatMap((name) => /^step-(\d+)$/.exec(name)?.[1] ?? [])
      .map(Number)
      .sort((a, b) => a - b);
  }

  #pathOf(step: number): string {
    return join(this.folder, `step-${step}`);
  }

  /** By time of saving, not by step: a run taken back to an earlier step must keep what it saves now. */
  async #retain(): Promise<void> {
    const [best, pointer] = [await this.bestScore(), await this.#pointer("latest.json")];
    const all: { step: number; saved: number }[] = [];
    for (const step of await this.steps()) {
      const found = await this.#check(step);
      all.push({ step, saved: typeof found === "string" ? 0 : found.saved });
    }
    all.sort((a, b) => b.saved - a.saved || b.step - a.step);
    const named = [best?.step, typeof pointer === "string" ? undefined : pointer.step];
    for (const { step } of all.slice(this.#keep)) {
      if (named.includes(step)) continue;
      // Renamed first: a folder half deleted never stands under a checkpoint's name.
      const gone = temporaryName(this.#pathOf(step));
      await move(this.#pathOf(step), gone);
      await rm(gone, { recursive: true, force: true });
    }
  }

  /** The checkpoint, or what is wrong with it. */
  async #check(step: number): Promise<Checkpoint | string> {
    const path = this.#pathOf(step);
    const manifest = await readJson(join(path, MANIFEST));
    if (typeof manifest === "string") return manifest;
    const { files, saved, state } = manifest;
    if (!isJsonObject(files) || typeof saved !== "number") return `${MANIFEST} does not list its files`;
    for (const [name, size] of Object.entries(files)) {
      const found = await sizeOf(join(path, name));
      if (found !== size) {
        return found === undefined ? `${name} is missing` : `${name} has ${found} bytes instead of ${String(size)}`;
      }
    }
    return { step, path, saved, state: state ?? null };
  }

  async #pointer(name: string): Promise<JsonObject | string> {
    const pointer = await readJson(join(this.folder, name));
    return typeof pointer === "string" || typeof pointer.step === "number" ? pointer : `${name} names no step`;
  }
}

/** Sizes by name (with "/"), and all folders, the deepest first and the root ("") last. */
async function filesIn(root: string): Promise<{ files: Record<string, number>; folders: string[] }> {
  const files: Record<string, number> = {};
  const folders: string[] = [];
  const walk = async (folder: string) => {
    for (const entry of await readdir(folder, { withFileTypes: true })) {
      const path = join(folder, entry.name);
      if (entry.isDirectory()) await walk(path);
      else files[relative(root, path).split(sep).join("/")] = (await stat(path)).size;
    }
    folders.push(relative(root, folder));
  };
  await walk(root);
  return { files, folders };
}

async function readJson(path: string): Promise<JsonObject | string> {
  const name = path.slice(path.lastIndexOf(sep) + 1);
  try {
    const value: unknown = JSON.parse(await readFile(path, "utf8"));
    return isJsonObject(value) ? value : `${name} is damaged`;
  } catch (error) {
    if (isMissing(error)) return `${name} is missing`;
    return error instanceof SyntaxError ? `${name} is damaged` : `${name} can't be read (${errorMessage(error)})`;
  }
}

async function sizeOf(path: string): Promise<number | undefined> {
  try {
    return (await stat(path)).size;
  } catch (error) {
    if (isMissing(error)) return undefined;
    throw error;
  }
}

async function isThere(path: string): Promise<boolean> {
  return (await sizeOf(path)) !== undefined;
}
