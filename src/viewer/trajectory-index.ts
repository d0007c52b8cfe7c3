/**
 * An index of a run's trajectories on disk, so that a large run opens at once and its lists are filtered without reading it again.
 * `.view/index.jsonl` in the run folder only grows: a line holds the rows of a stretch of one `step-N.jsonl` (with their bytes there),
 * or says that the rows of a step are void because its file was made anew. `.view/text.txt` holds what text search looks in; a row
 * knows its part. In memory stay the small rows; records and texts are read where they are needed.
 * One process keeps the files; another viewer of the same run, or one that may not write there, uses a folder of its own.
 */
import { constants, lstat, mkdir, mkdtemp, open, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { ConfigError, DataError, errorMessage } from "../core/errors.ts";
import { isMissing, PRIVATE } from "../run/files.ts";
import { LineWriter, readLines } from "../run/jsonl.ts";
import { LOCK_FILE, lockRun } from "../run/lock.ts";
import { TRAJECTORIES_FOLDER, type TrajectoryRecord, trajectorySteps } from "../run/trajectories.ts";
import type { TrajectoryRow } from "./api.ts";
import { isInside } from "./paths.ts";
import { searchText } from "./query.ts";
import { keyOf, rowOf } from "./row.ts";

export const INDEX_FOLDER = ".view";
const INDEX_FILE = "index.jsonl";
const TEXT_FILE = "text.txt";
/** Grows when rows or texts change; an index of another format is made anew. */
const FORMAT = 2;
const BATCH_ROWS = 256;
const BATCH_TEXT = 4 * 1024 * 1024;
const SEARCH_CHUNK = 4 * 1024 * 1024;
/** Files whose end is looked at every time; all others only change with a resume. */
const HOT_FILES = 3;
const MAX_KEPT_SEARCHES = 8;

/** A row with its bytes in `step-N.jsonl` and in the text file. */
type Entry = {
  readonly row: TrajectoryRow;
  readonly start: number;
  readonly end: number;
  readonly text: readonly [number, number];
};

type StepFile = {
  /** Tells a file from a new one of the same name. */
  readonly identity: string;
  /** Bytes that are indexed. */
  end: number;
  readonly entries: Map<string, Entry>;
  /** What can't be read, in words: for good, and at the end of the file as far as it is written. */
  readonly damage: string[];
  tail: string[];
};

type Batch = { step: number; identity: string; end: number; textEnd: number; entries: Entry[]; damage: string[] };

export class TrajectoryIndex {
  readonly #runPath: string;
  readonly #folder: string;
  readonly #lines: LineWriter;
  readonly #release: () => Promise<void>;
  readonly #files = new Map<number, StepFile>();
  readonly #byKey = new Map<string, Entry>();
  /** In the order of the text file; void ones included. */
  readonly #texts: Entry[] = [];
  #textEnd = 0;
  #generation = 0;
  /** In words, when the index is not kept. */
  readonly #note: string | undefined;
  #problem: string | undefined;
  /** Steps that were among the last files at the last refresh. */
  #hot: ReadonlySet<number> = new Set();
  #running: Promise<number[]> | undefined;
  #progress: { done: number; total: number } | undefined;
  readonly #searches = new Map<string, ReadonlySet<string>>();

  private constructor(runPath: string, place: Place, lines: LineWriter) {
    this.#runPath = runPath;
    this.#folder = place.folder;
    this.#release = place.release;
    this.#note = place.note;
    this.#lines = lines;
  }

  static async open(runPath: string): Promise<TrajectoryIndex> {
    const place = await findPlace(runPath);
    let lines: LineWriter | undefined;
    try {
      const batches = await load(place.folder);
      if (batches === undefined) {
        await rm(join(place.folder, INDEX_FILE), { force: true });
        await writeFile(join(place.folder, TEXT_FILE), "", { mode: PRIVATE });
      }
      lines = (await LineWriter.open(join(place.folder, INDEX_FILE))).writer;
      if (batches === undefined) lines.append({ format: FORMAT });
      const index = new TrajectoryIndex(runPath, place, lines);
      for (const batch of batches ?? []) {
        if ("void" in batch) index.#forget(batch.void);
        else index.#add(batch);
      }
      return index;
    } catch (error) {
      await lines?.close().catch(() => {});
      await place.release();
      throw error;
    }
  }

  async close(): Promise<void> {
    await this.#running?.catch(() => {});
    await this.#lines.close().catch(() => {});
    await this.#release();
  }

  /** Goes up when rows change. */
  get generation(): number {
    return this.#generation;
  }

  get size(): number {
    return this.#byKey.size;
  }

  /** While `refresh` reads: bytes of bytes. */
  get progress(): { readonly done: number; readonly total: number } | undefined {
    return this.#progress;
  }

  get missing(): string[] {
    const files = this.#steps().map((step) => this.#files.get(step) as StepFile);
    const notes = [this.#note, this.#problem].filter((note) => note !== undefined);
    return [...notes, ...files.flatMap(({ damage, tail }) => [...damage, ...tail])];
  }

  /** In the order of the run. */
  *rows(): Generator<TrajectoryRow, void, void> {
    for (const step of this.#steps())
      for (const { row } of (this.#files.get(step) as StepFile).entries.values()) yield row;
  }

  row(key: string): TrajectoryRow | undefined {
    return this.#byKey.get(key)?.row;
  }

  /** The whole record, from its file. Undefined when there is none, or its file was replaced meanwhile. */
  async record(key: string): Promise<TrajectoryRecord | undefined> {
    const entry = this.#byKey.get(key);
    if (entry === undefined) return undefined;
    try {
      const bytes = await readBytes(this.#stepPath(entry.row.step), entry.start, entry.end);
      const record = JSON.parse(bytes.toString("utf8")) as TrajectoryRecord;
      return keyOf(record) === key ? record : undefined;
    } catch (error) {
      if (isMissing(error) || error instanceof SyntaxError) return undefined;
      throw error;
    }
  }

  /**
   * Reads what was written since. Returns the steps that changed. `all`: looks at every file again, as needed at first and after a
   * run was resumed; otherwise at new ones and the last few.
   */
  refresh(all = false): Promise<number[]> {
    if (this.#running !== undefined) return all ? this.#running.then(() => this.refresh(true)) : this.#running;
    this.#running = this.#refresh(all).finally(() => {
      this.#running = undefined;
      this.#progress = undefined;
    });
    return this.#running;
  }

  /** Keys of the trajectories whose text has `needle` in any case. */
  async search(needle: string): Promise<ReadonlySet<string>> {
    const wanted = needle.toLowerCase();
    const known = this.#searches.get(wanted);
    if (known !== undefined) return known;
    const found = await this.#search(Buffer.from(wanted));
    this.#searches.set(wanted, found);
    for (const oldest of [...this.#searches.keys()].slice(0, -MAX_KEPT_SEARCHES)) this.#searches.delete(oldest);
    return found;
  }

  async #search(needle: Buffer): Promise<Set<string>> {
    const found = new Set<string>();
    const texts = this.#texts.slice();
    const handle = await open(this.#textPath, "r");
    try {
      const chunk = Buffer.allocUnsafe(SEARCH_CHUNK + needle.length);
      for (let position = 0; position < this.#textEnd; ) {
        const { bytesRead } = await handle.read(chunk, 0, chunk.length, position);
        if (bytesRead < needle.length) break;
        const bytes = chunk.subarray(0, bytesRead);
        // Matches that begin in the last bytes are found again in the next chunk, which starts there.
        let next = position + bytesRead - needle.length + 1;
        for (let at = bytes.indexOf(needle); at >= 0; ) {
          const entry = entryAt(texts, position + at);
          if (entry === undefined) break;
          const whole = position + at + needle.length <= entry.text[1];
          if (whole && this.#byKey.get(entry.row.key) === entry) found.add(entry.row.key);
          const from = whole ? entry.text[1] : position + at + 1;
          next = Math.max(next, from);
          at = from - position >= bytesRead ? -1 : bytes.indexOf(needle, from - position);
        }
        position = next;
      }
    } finally {
      await handle.close();
    }
    return found;
  }

  async #refresh(all: boolean): Promise<number[]> {
    this.#problem = undefined;
    const folder = join(this.#runPath, TRAJECTORIES_FOLDER);
    const steps = (await isInside(this.#runPath, folder)) ? await trajectorySteps(this.#runPath) : [];
    const there = new Set(steps);
    const changed = new Set<number>();
    for (const step of this.#steps()) if (!there.has(step)) this.#drop(step, changed);
    // A file that was among the last ones may have grown before it ceased to be: it is looked at once more.
    const hot = new Set(steps.slice(-HOT_FILES));
    const grown: { step: number; identity: string; size: number }[] = [];
    for (const step of steps) {
      const known = this.#files.get(step);
      if (known !== undefined && !all && !hot.has(step) && !this.#hot.has(step)) continue;
      // A link is never followed: it may lead out of the run.
      const info = await lstat(this.#stepPath(step)).catch(() => undefined);
      if (info === undefined || !info.isFile()) {
        if (info !== undefined) this.#problem = `step-${step}.jsonl is not a plain file; it is left out.`;
        if (known !== undefined) this.#drop(step, changed);
        continue;
      }
      const identity = `${info.ino}:${info.birthtimeMs}`;
      if (known !== undefined && (known.identity !== identity || info.size < known.end)) this.#drop(step, changed);
      if (info.size > (this.#files.get(step)?.end ?? -1)) grown.push({ step, identity, size: info.size });
    }
    this.#hot = hot;
    const total = grown.reduce((sum, { step, size }) => sum + size - (this.#files.get(step)?.end ?? 0), 0);
    this.#progress = { done: 0, total };
    for (const { step, identity } of grown) await this.#read(step, identity, changed);
    if (changed.size > 0) this.#searches.clear();
    return [...changed].sort((a, b) => a - b);
  }

  async #read(step: number, identity: string, changed: Set<number>): Promise<void> {
    const missing: string[] = [];
    const path = this.#stepPath(step);
    const from = this.#files.get(step)?.end ?? 0;
    let batch = this.#emptyBatch(step, identity, from);
    let texts: Buffer[] = [];
    let named = 0;
    let read = from;
    for await (const { value, start, end } of readLines(path, missing, from)) {
      const record = value as unknown as TrajectoryRecord;
      const row = rowOf(record);
      if (this.#progress !== undefined) this.#progress.done += end - read;
      read = end;
      if (row === undefined) missing.push(`step-${step}.jsonl: the line at byte ${start} is not a trajectory.`);
      else {
        // The zero keeps a search from running over the end of a text.
        const text = Buffer.from(`${searchText(record)}\0`);
        const at = batch.textEnd;
        texts.push(text);
        batch.textEnd = at + text.length;
        batch.entries.push({ row, start, end, text: [at, batch.textEnd - 1] });
      }
      batch.end = end;
      // What was said before a whole line is for good; what comes after the last may still be being written.
      for (const damage of missing.slice(named)) batch.damage.push(damage);
      named = missing.length;
      if (batch.entries.length < BATCH_ROWS && batch.textEnd - this.#textEnd < BATCH_TEXT) continue;
      await this.#commit(batch, texts);
      changed.add(step);
      batch = this.#emptyBatch(step, identity, end);
      texts = [];
    }
    if (batch.entries.length > 0 || batch.damage.length > 0) {
      await this.#commit(batch, texts);
      changed.add(step);
    }
    const file = this.#files.get(step) ?? this.#file(step, identity);
    file.tail = missing.slice(named);
  }

  #emptyBatch(step: number, identity: string, end: number): Batch {
    return { step, identity, end, textEnd: this.#textEnd, entries: [], damage: [] };
  }

  /** Texts first: a line of the index never names text that is not there. */
  async #commit(batch: Batch, texts: readonly Buffer[]): Promise<void> {
    const handle = await open(this.#textPath, "r+");
    try {
      const bytes = Buffer.concat(texts);
      if (bytes.length > 0) await handle.write(bytes, 0, bytes.length, this.#textEnd);
    } finally {
      await handle.close();
    }
    this.#lines.append(batch);
    await this.#lines.flush();
    this.#add(batch);
  }

  #add({ step, identity, end, textEnd, entries, damage }: Batch): void {
    const file = this.#files.get(step) ?? this.#file(step, identity);
    this.#generation++;
    file.end = end;
    for (const one of damage) file.damage.push(one);
    for (const entry of entries) {
      file.entries.set(entry.row.key, entry);
      this.#byKey.set(entry.row.key, entry);
      this.#texts.push(entry);
    }
    this.#textEnd = textEnd;
  }

  #file(step: number, identity: string): StepFile {
    const file: StepFile = { identity, end: 0, entries: new Map(), damage: [], tail: [] };
    this.#files.set(step, file);
    return file;
  }

  #drop(step: number, changed: Set<number>): void {
    this.#lines.append({ void: step });
    this.#forget(step);
    changed.add(step);
  }

  #forget(step: number): void {
    this.#generation++;
    for (const key of this.#files.get(step)?.entries.keys() ?? []) this.#byKey.delete(key);
    this.#files.delete(step);
  }

  #steps(): number[] {
    return [...this.#files.keys()].sort((a, b) => a - b);
  }

  #stepPath(step: number): string {
    return join(this.#runPath, TRAJECTORIES_FOLDER, `step-${step}.jsonl`);
  }

  get #textPath(): string {
    return join(this.#folder, TEXT_FILE);
  }
}

/** What an earlier viewer left; undefined when there is nothing to go on from. */
async function load(folder: string): Promise<(Batch | { void: number })[] | undefined> {
  const textSize = await stat(join(folder, TEXT_FILE)).then(
    ({ size }) => size,
    () => -1,
  );
  const missing: string[] = [];
  const batches: (Batch | { void: number })[] = [];
  let textEnd = 0;
  for await (const { value, start } of readLines(join(folder, INDEX_FILE), missing)) {
    // Damage before a whole line; at the very end it is only a killed viewer, and writing goes on from there.
    if (missing.length > 0) return undefined;
    if (start === 0) {
      if (value.format !== FORMAT) return undefined;
      continue;
    }
    if (typeof value.void === "number") batches.push({ void: value.void });
    else {
      const batch = value as unknown as Batch;
      textEnd = batch.textEnd;
      batches.push(batch);
    }
  }
  return batches.length > 0 && textEnd <= textSize ? batches : undefined;
}

type Place = { readonly folder: string; readonly release: () => Promise<void>; readonly note?: string };

async function findPlace(runPath: string): Promise<Place> {
  const folder = join(runPath, INDEX_FOLDER);
  try {
    await mkdir(folder, { recursive: true });
    for (const name of ["", INDEX_FILE, TEXT_FILE, LOCK_FILE]) {
      const info = await lstat(join(folder, name)).catch(() => undefined);
      if (info?.isSymbolicLink()) throw new DataError(`${join(INDEX_FOLDER, name)} is a link; delete it`);
    }
    return { folder, release: await lockRun(folder) };
  } catch (error) {
    const own = await mkdtemp(join(tmpdir(), "saccade-view-"));
    return {
      folder: own,
      release: () => rm(own, { recursive: true, force: true }),
      // Another viewer on the same run is nothing to worry about.
      ...(!(error instanceof ConfigError) && { note: `The index is not kept with the run: ${errorMessage(error)}.` }),
    };
  }
}

/** The text that holds this byte, or the first after it. */
function entryAt(texts: readonly Entry[], position: number): Entry | undefined {
  let [low, high] = [0, texts.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((texts[middle] as Entry).text[1] <= position) low = middle + 1;
    else high = middle;
  }
  return texts[low];
}

async function readBytes(path: string, start: number, end: number): Promise<Buffer> {
  const handle = await open(path, constants.O_RDONLY | (constants.O_NOFOLLOW ?? 0));
  try {
    const bytes = Buffer.alloc(end - start);
    const { bytesRead } = await handle.read(bytes, 0, bytes.length, start);
    return bytes.subarray(0, bytesRead);
  } finally {
    await handle.close();
  }
}
