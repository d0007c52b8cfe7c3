/**
 * What people say about a run: tags, a note, a star, and whether it is put away. Stored in `notes.json` of the run folder, apart from what the run writes
 * itself, so the terminal and the viewer may change it while the run trains. Written whole; of two writers the last one wins. A file that can't be read
 * counts as none: it never hides a run.
 */
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { ConfigError } from "../core/errors.ts";
import { isJsonObject } from "../core/json.ts";
import { isMissing, writeAtomic } from "./files.ts";
import { isRun } from "./manifest.ts";

export const NOTES_FILE = "notes.json";

export type RunNotes = {
  readonly tags: readonly string[];
  readonly note: string;
  readonly star: boolean;
  readonly archived: boolean;
};

export const NO_NOTES: RunNotes = { tags: [], note: "", star: false, archived: false };

/** So that one tag fits a table's cell, and a note a page. */
const [TAG_LENGTH, TAGS, NOTE_LENGTH] = [40, 20, 10_000];

export async function readNotes(runPath: string): Promise<RunNotes> {
  try {
    const value: unknown = JSON.parse(await readFile(join(runPath, NOTES_FILE), "utf8"));
    return isJsonObject(value) ? known(value) : NO_NOTES;
  } catch (error) {
    if (isMissing(error) || error instanceof SyntaxError) return NO_NOTES;
    throw error;
  }
}

/** Changes the fields that are given and returns all of them. Tags are trimmed, each once. */
export async function changeNotes(runPath: string, change: Partial<RunNotes>): Promise<RunNotes> {
  if (!(await isRun(runPath))) throw new ConfigError(`${runPath} is not a run folder.`);
  const notes = { ...(await readNotes(runPath)), ...change };
  const tags = [...new Set(notes.tags.map((tag) => tag.trim()).filter((tag) => tag !== ""))];
  const long = tags.find((tag) => tag.length > TAG_LENGTH || /\s|,/.test(tag));
  if (long !== undefined)
    throw new ConfigError(`A tag is one word of at most ${TAG_LENGTH} characters without a comma, got "${long}".`);
  if (tags.length > TAGS) throw new ConfigError(`A run takes at most ${TAGS} tags, got ${tags.length}.`);
  if (notes.note.length > NOTE_LENGTH)
    throw new ConfigError(`A note takes at most ${NOTE_LENGTH} characters, got ${notes.note.length}.`);
  const whole: RunNotes = { ...notes, tags };
  await writeAtomic(join(runPath, NOTES_FILE), `${JSON.stringify(whole, null, 2)}\n`);
  return whole;
}

function known({ tags, note, star, archived }: Record<string, unknown>): RunNotes {
  return {
    tags: Array.isArray(tags) ? tags.filter((tag): tag is string => typeof tag === "string") : [],
    note: typeof note === "string" ? note : "",
    star: star === true,
    archived: archived === true,
  };
}
