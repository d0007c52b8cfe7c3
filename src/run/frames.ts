/**
 * `frames/<hash>.png`: every distinct frame once, however many turns, siblings or steps show it. `put` names the frame and returns
 * at once; a few workers encode and write behind it. When the byte budget is spent, the backlog is too long or the disk refuses,
 * frames are dropped and counted: logging never stops training.
 */
import { mkdir, open, readFile, rm, stat } from "node:fs/promises";
import { join } from "node:path";
import { setImmediate as nextTick } from "node:timers/promises";
import { DataError, errorMessage } from "../core/errors.ts";
import type { Image } from "../core/image.ts";
import { decodePng, encodePng } from "../images/png.ts";
import { isMissing, namesIn, removeLeftovers, writeAtomic } from "./files.ts";

export const FRAMES_FOLDER = "frames";

export type FrameOptions = {
  /** Bytes of PNG files the folder may hold. */
  readonly maxBytes?: number;
  /** Bytes of pixels that may wait to be written. */
  readonly maxPendingBytes?: number;
  readonly concurrency?: number;
};

export type FrameCounts = {
  readonly stored: number;
  readonly bytes: number;
  /** Distinct frames that are not stored, by reason. */
  readonly overBudget: number;
  readonly overBacklog: number;
  readonly failed: number;
};

type Job = { readonly image: Image; readonly hash: string; readonly check: boolean };
type DropReason = "overBudget" | "overBacklog" | "failed";

/** The last chunk of every whole PNG: no bytes, "IEND", its checksum. */
const PNG_END = Buffer.from("0000000049454e44ae426082", "hex");
const FRAME_NAME = /^([0-9a-f]{32})\.png$/;

export class FrameStore {
  readonly #folder: string;
  readonly #maxBytes: number;
  readonly #maxPendingBytes: number;
  readonly #concurrency: number;
  /** Stored or about to be. */
  readonly #known = new Set<string>();
  /** Found at opening and not looked into yet; a power cut may have left some empty. */
  readonly #unchecked = new Set<string>();
  readonly #dropped = new Map<string, DropReason>();
  readonly #queue: Job[] = [];
  readonly #workers = new Set<Promise<void>>();
  #pendingBytes = 0;
  #bytes = 0;
  #full = false;
  /** The first refusal of the disk, in words. */
  problem: string | undefined;

  private constructor(folder: string, options: FrameOptions) {
    this.#folder = folder;
    this.#maxBytes = options.maxBytes ?? 256 * 1024 * 1024;
    this.#maxPendingBytes = options.maxPendingBytes ?? 512 * 1024 * 1024;
    this.#concurrency = options.concurrency ?? 4;
  }

  static async open(runPath: string, options: FrameOptions = {}): Promise<FrameStore> {
    const folder = join(runPath, FRAMES_FOLDER);
    await mkdir(folder, { recursive: true });
    await removeLeftovers(folder);
    const store = new FrameStore(folder, options);
    for (const name of await namesIn(folder)) {
      const hash = FRAME_NAME.exec(name)?.[1];
      if (hash === undefined) continue;
      store.#known.add(hash);
      store.#unchecked.add(hash);
      store.#bytes += (await stat(join(folder, name))).size;
    }
    return store;
  }

  /** Names the frame and sees to it that it gets stored. Returns its hash. */
  put(image: Image): string {
    const { hash } = image;
    const check = this.#unchecked.delete(hash);
    if (this.#known.has(hash) && !check) return hash;
    if (this.#full && !check) return this.#dropped.has(hash) ? hash : this.#drop(hash, "overBudget");
    if (this.#pendingBytes + image.data.length > this.#maxPendingBytes) {
      if (!check) return this.#drop(hash, "overBacklog");
      this.#unchecked.add(hash);
      return hash;
    }
    this.#known.add(hash);
    this.#dropped.delete(hash);
    this.#pendingBytes += image.data.length;
    this.#queue.push({ image, hash, check });
    if (this.#workers.size < this.#concurrency) {
      const worker: Promise<void> = this.#work().finally(() => this.#workers.delete(worker));
      this.#workers.add(worker);
    }
    return hash;
  }

  /** Waits until every frame put so far is stored or dropped. */
  async flush(): Promise<void> {
    while (this.#workers.size > 0) await Promise.all(this.#workers);
  }

  get counts(): FrameCounts {
    const drops = { overBudget: 0, overBacklog: 0, failed: 0 };
    for (const reason of this.#dropped.values()) drops[reason]++;
    return { stored: this.#known.size, bytes: this.#bytes, ...drops };
  }

  async #work(): Promise<void> {
    for (let job = this.#queue.shift(); job !== undefined; job = this.#queue.shift()) {
      await nextTick(); // encoding takes the main thread for a moment; let others have it in between
      try {
        await this.#store(job);
      } catch (error) {
        this.problem ??= errorMessage(error);
        this.#drop(job.hash, "failed");
      }
      this.#pendingBytes -= job.image.data.length;
    }
  }

  async #store({ image, hash, check }: Job): Promise<void> {
    const path = framePath(this.#folder, hash);
    if (check) {
      const found = await inspect(path);
      if (found.whole) return;
      await rm(path, { force: true });
      this.#bytes -= found.size;
    }
    const png = encodePng(image);
    if (this.#bytes + png.length > this.#maxBytes) {
      this.#full = true;
      this.#drop(hash, "overBudget");
      return;
    }
    this.#bytes += png.length;
    try {
      await writeAtomic(path, png, false);
    } catch (error) {
      this.#bytes -= png.length;
      throw error;
    }
  }

  #drop(hash: string, reason: DropReason): string {
    this.#known.delete(hash);
    this.#dropped.set(hash, reason);
    return hash;
  }
}

/** The PNG bytes of a stored frame, or undefined when it was dropped or never stored. Throws a DataError when the file is damaged. */
export async function readFrameBytes(runPath: string, hash: string): Promise<Uint8Array | undefined> {
  if (!FRAME_NAME.test(`${hash}.png`))
    throw new DataError(`"${hash}" is not a frame; a frame has 32 hexadecimal digits.`);
  let bytes: Buffer;
  try {
    bytes = await readFile(framePath(join(runPath, FRAMES_FOLDER), hash));
  } catch (error) {
    if (isMissing(error)) return undefined;
    throw error;
  }
  if (!bytes.subarray(-PNG_END.length).equals(PNG_END)) {
    throw new DataError(`Frame ${hash} is cut off after ${bytes.length} bytes; delete frames/${hash}.png.`);
  }
  return bytes;
}

export async function readFrame(runPath: string, hash: string): Promise<Image | undefined> {
  const bytes = await readFrameBytes(runPath, hash);
  return bytes === undefined ? undefined : decodePng(bytes);
}

function framePath(folder: string, hash: string): string {
  return join(folder, `${hash}.png`);
}

async function inspect(path: string): Promise<{ size: number; whole: boolean }> {
  let handle: Awaited<ReturnType<typeof open>>;
  try {
    handle = await open(path, "r");
  } catch (error) {
    if (isMissing(error)) return { size: 0, whole: false };
    throw error;
  }
  try {
    const { size } = await handle.stat();
    const end = Buffer.alloc(PNG_END.length);
    await handle.read(end, 0, end.length, Math.max(0, size - end.length));
    return { size, whole: end.equals(PNG_END) };
  } finally {
    await handle.close();
  }
}
