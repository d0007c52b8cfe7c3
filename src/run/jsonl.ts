/**
 * Files of JSON objects, one a line, that only grow. The writer takes lines without waiting and keeps one write in flight;
 * the reader streams, and survives a line cut in half: it goes on with the next one and says in words what is missing.
 * Lines are split at the byte 0x0A, so a cut inside a UTF-8 character harms only its own line.
 */
import { type FileHandle, open } from "node:fs/promises";
import { basename } from "node:path";
import { setImmediate as nextTick } from "node:timers/promises";
import { DataError, errorMessage } from "../core/errors.ts";
import { isJsonObject, type JsonObject } from "../core/json.ts";
import { isMissing, PRIVATE } from "./files.ts";

const NEWLINE = 0x0a;
const CHUNK = 256 * 1024;
/** Characters that may wait for a disk that does not answer; beyond, the oldest lines are given up and counted. */
const MAX_WAITING = 64 * 1024 * 1024;
/** Damaged lines named one by one; more are only counted. */
const MAX_NAMED = 5;

export class LineWriter {
  readonly #path: string;
  readonly #handle: FileHandle;
  /** Bytes of the file that are known to be whole lines. Writes go there, so one that failed half way is written over. */
  #position: number;
  #waiting: string[] = [];
  #waitingLength = 0;
  /** What a failed write still has to put at `#position`. */
  #batch: Buffer | undefined;
  #running: Promise<void> | undefined;
  #problem: unknown;
  #closed = false;
  /** Lines given up because the disk did not take them. */
  lost = 0;

  private constructor(path: string, handle: FileHandle, position: number) {
    this.#path = path;
    this.#handle = handle;
    this.#position = position;
  }

  /** Opens for appending. `repaired` says what a killed writer had left half written, if anything. */
  static async open(path: string): Promise<{ writer: LineWriter; repaired?: string }> {
    const repaired = await repairTail(path);
    const handle = await open(path, "r+");
    const { size } = await handle.stat();
    return { writer: new LineWriter(path, handle, size), ...(repaired !== undefined && { repaired }) };
  }

  /** Bytes on disk: exact after `flush`. */
  get position(): number {
    return this.#position;
  }

  /** Takes a line and returns at once. */
  append(value: object): void {
    if (this.#closed) throw new DataError(`${basename(this.#path)} is closed; open the run folder again to write on.`);
    const line = `${JSON.stringify(value)}\n`;
    this.#waiting.push(line);
    this.#waitingLength += line.length;
    while (this.#waitingLength > MAX_WAITING && this.#waiting.length > 1) {
      this.#waitingLength -= (this.#waiting.shift() as string).length;
      this.lost++;
    }
    this.#start();
  }

  /** Waits until everything appended so far is in the file. Throws when the disk refuses. */
  async flush(durable = false): Promise<void> {
    this.#problem = undefined;
    while (this.#pending && this.#problem === undefined) {
      this.#start();
      await this.#running;
    }
    if (this.#problem !== undefined) {
      throw new DataError(
        `${this.#path} can't be written (${errorMessage(this.#problem)}). Free some disk space or check its permissions; ` +
          "the lines are kept in memory and are written when it works again.",
      );
    }
    if (durable) await this.#handle.datasync();
  }

  async close(): Promise<void> {
    if (this.#closed) return;
    try {
      await this.flush(true);
    } finally {
      this.#closed = true;
      await this.#handle.close();
    }
  }

  get #pending(): boolean {
    return this.#batch !== undefined || this.#waiting.length > 0;
  }

  #start(): void {
    this.#running ??= this.#drain();
  }

  async #drain(): Promise<void> {
    try {
      await nextTick(); // lines of one moment become one write
      while (this.#pending) {
        this.#batch ??= this.#takeWaiting();
        let written = 0;
        while (written < this.#batch.length) {
          const left = this.#batch.length - written;
          written += (await this.#handle.write(this.#batch, written, left, this.#position + written)).bytesWritten;
        }
        this.#position += written;
        this.#batch = undefined;
      }
    } catch (error) {
      this.#problem = error;
    } finally {
      this.#running = undefined;
    }
  }

  #takeWaiting(): Buffer {
    const batch = Buffer.from(this.#waiting.join(""));
    this.#waiting = [];
    this.#waitingLength = 0;
    return batch;
  }
}

/** `start` and `end` are bytes of the file; reading on from `end` continues after this line. */
export type Line = { readonly value: JsonObject; readonly start: number; readonly end: number };

/** Streams the objects of a file from byte `from`, which must be the start or end of a line. Adds to `missing` what could not be read. */
export async function* readLines(path: string, missing: string[] = [], from = 0): AsyncGenerator<Line, void, void> {
  const handle = await openToRead(path, missing);
  if (handle === undefined) return;
  const damage = new Damage(basename(path), missing);
  try {
    let pieces: Buffer[] = [];
    let start = from;
    let position = from;
    for (;;) {
      const chunk = Buffer.allocUnsafe(CHUNK);
      const { bytesRead } = await handle.read(chunk, 0, CHUNK, position);
      if (bytesRead === 0) break;
      let rest = chunk.subarray(0, bytesRead);
      position += bytesRead;
      for (let at = rest.indexOf(NEWLINE); at >= 0; at = rest.indexOf(NEWLINE)) {
        const bytes = pieces.length === 0 ? rest.subarray(0, at) : Buffer.concat([...pieces, rest.subarray(0, at)]);
        pieces = [];
        rest = rest.subarray(at + 1);
        const end = start + bytes.length + 1;
        const value = parse(bytes);
        if (value !== undefined) yield { value, start, end };
        else if (bytes.length > 0) damage.add(`${bytes.length} bytes at byte ${start} are not a whole line`);
        start = end;
      }
      if (rest.length > 0) pieces.push(rest);
    }
    if (pieces.length > 0) {
      const bytes = Buffer.concat(pieces);
      const value = parse(bytes); // whole when only the newline was cut off
      if (value !== undefined) yield { value, start, end: start + bytes.length };
      else damage.add(`the last line is cut off after ${bytes.length} bytes, at byte ${start}`);
    }
  } finally {
    damage.finish();
    await handle.close();
  }
}

/** The byte at which the last `bytes` of a file begin, moved on to the start of a line. 0 when the file is shorter or not there. */
export async function tailStart(path: string, bytes: number): Promise<number> {
  const handle = await openToRead(path, []);
  if (handle === undefined) return 0;
  try {
    const { size } = await handle.stat();
    if (size <= bytes) return 0;
    const chunk = Buffer.alloc(bytes);
    const { bytesRead } = await handle.read(chunk, 0, bytes, size - bytes);
    const at = chunk.subarray(0, bytesRead).indexOf(NEWLINE);
    return at < 0 ? size : size - bytes + at + 1;
  } finally {
    await handle.close();
  }
}

/** Makes a file end after a whole line (and exist), so that it can be appended to. Returns what was removed, in words. */
export async function repairTail(path: string): Promise<string | undefined> {
  const handle = await openOrCreate(path);
  try {
    const { size } = await handle.stat();
    let tail: Buffer = Buffer.alloc(0);
    let start = size;
    while (start > 0) {
      const length = Math.min(size === start ? 1 : CHUNK, start);
      const chunk = Buffer.alloc(length);
      await handle.read(chunk, 0, length, start - length);
      const at = chunk.lastIndexOf(NEWLINE);
      tail = Buffer.concat([chunk.subarray(at + 1), tail]);
      start -= length - (at + 1);
      if (at >= 0) break;
    }
    if (tail.length === 0) return undefined;
    if (parse(tail) !== undefined) {
      await handle.write("\n", size);
      return undefined;
    }
    await handle.truncate(start);
    return `${basename(path)}: the last line was cut off after ${tail.length} bytes (a killed process); it was removed.`;
  } finally {
    await handle.close();
  }
}

function parse(bytes: Buffer): JsonObject | undefined {
  try {
    const value: unknown = JSON.parse(bytes.toString("utf8"));
    return isJsonObject(value) ? value : undefined;
  } catch {
    return undefined;
  }
}

async function openToRead(path: string, missing: string[]): Promise<FileHandle | undefined> {
  try {
    return await open(path, "r");
  } catch (error) {
    if (!isMissing(error)) throw error;
    missing.push(`${basename(path)} is missing.`);
    return undefined;
  }
}

/** For reading and writing anywhere in it. */
async function openOrCreate(path: string): Promise<FileHandle> {
  try {
    return await open(path, "r+");
  } catch (error) {
    if (!isMissing(error)) throw error;
    return open(path, "w+", PRIVATE);
  }
}

class Damage {
  readonly #file: string;
  readonly #missing: string[];
  #count = 0;

  constructor(file: string, missing: string[]) {
    this.#file = file;
    this.#missing = missing;
  }

  add(what: string): void {
    if (++this.#count <= MAX_NAMED) this.#missing.push(`${this.#file}: ${what}; it is left out.`);
  }

  finish(): void {
    const more = this.#count - MAX_NAMED;
    if (more > 0) this.#missing.push(`${this.#file}: ${more} more damaged lines are left out.`);
  }
}
