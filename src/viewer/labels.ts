/**
 * What people say of single episodes: a label and a comment for each, in `labels.json` of the run folder. Written whole; read again when the file
 * has changed. A file that can't be read counts as none.
 */
import { lstat, readFile } from "node:fs/promises";
import { join } from "node:path";
import { DataError } from "../core/errors.ts";
import { isJsonObject } from "../core/json.ts";
import { isMissing, writeAtomic } from "../run/files.ts";
import type { EpisodeNote } from "./api.ts";

export const LABELS_FILE = "labels.json";
const [LABEL_LENGTH, COMMENT_LENGTH, MOST] = [40, 4000, 20_000];

export class EpisodeLabels {
  readonly #path: string;
  #notes: ReadonlyMap<string, EpisodeNote> = new Map();
  #seen = "";
  #last: Promise<unknown> = Promise.resolve();

  constructor(runPath: string) {
    this.#path = join(runPath, LABELS_FILE);
  }

  /** By the trajectory's key. */
  async all(): Promise<ReadonlyMap<string, EpisodeNote>> {
    const info = await lstat(this.#path).catch(() => undefined);
    const seen = info?.isFile() ? `${info.ino}:${info.mtimeMs}:${info.size}` : "";
    if (seen === this.#seen) return this.#notes;
    this.#notes = seen === "" ? new Map() : await this.#read();
    this.#seen = seen;
    return this.#notes;
  }

  /** Changes the fields that are given; a note that says nothing is gone. */
  set(key: string, change: Partial<EpisodeNote>): Promise<EpisodeNote> {
    const done = this.#last.then(async () => {
      const notes = new Map(await this.all());
      const note: EpisodeNote = { label: "", comment: "", ...notes.get(key), ...change };
      const label = note.label.trim();
      if (label.length > LABEL_LENGTH) throw new DataError(`A label has at most ${LABEL_LENGTH} characters.`);
      if (note.comment.length > COMMENT_LENGTH)
        throw new DataError(`A comment has at most ${COMMENT_LENGTH} characters.`);
      if (label === "" && note.comment === "") notes.delete(key);
      else notes.set(key, { ...note, label });
      if (notes.size > MOST) throw new DataError(`A run takes labels of at most ${MOST} episodes.`);
      await writeAtomic(this.#path, `${JSON.stringify(Object.fromEntries(notes), null, 1)}\n`);
      this.#seen = "";
      return { ...note, label };
    });
    this.#last = done.catch(() => {});
    return done;
  }

  async #read(): Promise<Map<string, EpisodeNote>> {
    try {
      const value: unknown = JSON.parse(await readFile(this.#path, "utf8"));
      const found = new Map<string, EpisodeNote>();
      for (const [key, note] of Object.entries(isJsonObject(value) ? value : {})) {
        if (!isJsonObject(note)) continue;
        const [label, comment] = [note.label, note.comment].map((text) => (typeof text === "string" ? text : ""));
        found.set(key, { label: label ?? "", comment: comment ?? "" });
      }
      return found;
    } catch (error) {
      if (isMissing(error) || error instanceof SyntaxError) return new Map();
      throw error;
    }
  }
}
