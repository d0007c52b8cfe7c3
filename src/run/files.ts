/**
 * How a file comes to be whole or not at all: it is written beside its place under a temporary name, forced to disk, and renamed.
 * A killed process leaves at most a temporary name behind, which the next opening removes.
 */
import { open, readdir, rm } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { move } from "../core/move.ts";

export const TEMPORARY = ".tmp-";
/** Episodes are conversations, and settings may say where things are: files of a run are for whoever runs it. */
export const PRIVATE = 0o600;
let counter = 0;

/** A name beside `path` that readers ignore and `removeLeftovers` deletes. */
export function temporaryName(path: string): string {
  return join(dirname(path), `${TEMPORARY}${process.pid}-${counter++}-${basename(path)}`);
}

/** `durable`: survives a power cut too, at the price of a wait for the disk. Without it a kill is still harmless. */
export async function writeAtomic(path: string, data: string | Uint8Array, durable = true): Promise<void> {
  const temporary = temporaryName(path);
  try {
    const handle = await open(temporary, "w", PRIVATE);
    try {
      await handle.writeFile(data);
      if (durable) await handle.sync();
    } finally {
      await handle.close();
    }
    await move(temporary, path);
  } catch (error) {
    await rm(temporary, { force: true });
    throw error;
  }
  if (durable) await syncFolder(dirname(path));
}

export function syncFile(path: string): Promise<void> {
  return sync(path, "r+");
}

/** Makes renames inside a folder durable. Windows has no such call and needs none. */
export async function syncFolder(path: string): Promise<void> {
  if (process.platform !== "win32") await sync(path, "r");
}

async function sync(path: string, flags: string): Promise<void> {
  const handle = await open(path, flags);
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}

/** Deletes what killed writers left in `folder`; returns how many things that were. */
export async function removeLeftovers(folder: string): Promise<number> {
  const left = (await namesIn(folder)).filter((name) => name.startsWith(TEMPORARY));
  for (const name of left) await rm(join(folder, name), { recursive: true, force: true });
  return left.length;
}

/** Names in a folder, sorted; none when it is not there. */
export async function namesIn(folder: string): Promise<string[]> {
  try {
    return (await readdir(folder)).sort();
  } catch (error) {
    if (isMissing(error)) return [];
    throw error;
  }
}

export function isMissing(error: unknown): boolean {
  const code = (error as NodeJS.ErrnoException | null)?.code;
  return code === "ENOENT" || code === "ENOTDIR";
}
