/**
 * One writer per folder: of a run, or of a server's store. `run.lock` (`store.lock`) names the process that writes; when that process is gone (a kill leaves the file behind) the
 * lock is void. On Linux the start time of the process is compared too, because small process ids come back after a restart.
 */
import { createHash, randomUUID } from "node:crypto";
import { readFileSync } from "node:fs";
import { link, readFile, rm, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { ConfigError } from "../core/errors.ts";
import { isMissing, writeAtomic } from "./files.ts";

export const LOCK_FILE = "run.lock";
type Holder = { readonly pid: number; readonly started: string | null; readonly token: string };

/** Takes the lock, or throws when a living process has it. Returns how to give it back. */
export function lockRun(runPath: string): Promise<() => Promise<void>> {
  return lockFolder(runPath, LOCK_FILE, runInUse);
}

/** `inUse` says what to do about a living holder, whose process id is not known where it is just being replaced. */
export async function lockFolder(
  folder: string,
  file: string,
  inUse: (path: string, pid: number | undefined) => ConfigError,
): Promise<() => Promise<void>> {
  const path = join(folder, file);
  const holder: Holder = { pid: process.pid, started: startOf(process.pid), token: randomUUID() };
  const giveBack = async () => {
    if ((await readHolder(path))?.token === holder.token) await rm(path, { force: true });
  };
  for (let tries = 0; tries < 3; tries++) {
    if (await createNew(path, holder)) return giveBack;
    const text = await wholeText(path);
    // Given back just now.
    if (text === undefined) continue;
    const other = holderIn(text);
    if (other !== undefined && isAlive(other)) throw inUse(path, other.pid);
    const taken = await replaceVoid(path, text, holder);
    if (!taken.isOurs) throw inUse(path, taken.by?.pid);
    return giveBack;
  }
  throw inUse(path, undefined);
}

/** Whether a living process writes to this folder. */
export async function isLocked(runPath: string): Promise<boolean> {
  const holder = await readHolder(join(runPath, LOCK_FILE));
  return holder !== undefined && isAlive(holder);
}

/** Whole or not at all, where the file system has links; otherwise it is empty for a moment. */
async function createNew(path: string, holder: Holder): Promise<boolean> {
  const text = JSON.stringify(holder);
  const beside = `${path}.${holder.token}`;
  try {
    await writeFile(beside, text);
    await link(beside, path).catch((error: NodeJS.ErrnoException) => {
      if (error.code === "EEXIST") throw error;
      return writeFile(path, text, { flag: "wx" });
    });
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "EEXIST") return false;
    throw error;
  } finally {
    await rm(beside, { force: true });
  }
}

/** Of several who find the same void lock, the one that gets the claim to it may replace it, as long as it is still that one. */
async function replaceVoid(
  path: string,
  text: string,
  holder: Holder,
): Promise<{ isOurs: true } | { isOurs: false; by: Holder | undefined }> {
  const claim = `${path}.void-${createHash("sha256").update(text).digest("hex").slice(0, 16)}`;
  if (!(await createNew(claim, holder))) {
    const claimer = await readHolder(claim);
    // One that was killed in this very moment is in the way of the next start, and of no other.
    if (claimer !== undefined && !isAlive(claimer)) await rm(claim, { force: true });
    return { isOurs: false, by: claimer };
  }
  try {
    if ((await readText(path)) !== text) return { isOurs: false, by: await readHolder(path) };
    await writeAtomic(path, JSON.stringify(holder));
    return { isOurs: true };
  } finally {
    await rm(claim, { force: true });
  }
}

function runInUse(path: string, pid: number | undefined): ConfigError {
  const who = pid === undefined ? "Another process" : `Process ${pid}`;
  return new ConfigError(
    `${who} is writing to ${dirname(path)}. Wait for it, stop it, or choose another folder; ` +
      `if no such run exists, delete ${path}.`,
  );
}

/** What is in a lock, after a moment in which whoever is writing it may end; undefined when there is none. */
async function wholeText(path: string): Promise<string | undefined> {
  for (let tries = 0; ; tries++) {
    const text = await readText(path);
    if (text === undefined || holderIn(text) !== undefined || tries === 5) return text;
    await delay(50);
  }
}

async function readText(path: string): Promise<string | undefined> {
  try {
    return await readFile(path, "utf8");
  } catch (error) {
    if (isMissing(error)) return undefined;
    throw error;
  }
}

/** Undefined when there is no lock, or one that was cut off while it was written. */
async function readHolder(path: string): Promise<Holder | undefined> {
  return holderIn((await readText(path)) ?? "");
}

function holderIn(text: string): Holder | undefined {
  try {
    const value = JSON.parse(text) as Partial<Holder> | null;
    return typeof value?.pid === "number" && value.pid > 0 ? (value as Holder) : undefined;
  } catch {
    return undefined;
  }
}

function isAlive({ pid, started }: Holder): boolean {
  try {
    process.kill(pid, 0);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "EPERM") return false;
  }
  return started === null || startOf(pid) === started;
}

/** When a process started, in clock ticks since boot; null where the system does not say. */
function startOf(pid: number): string | null {
  try {
    const line = readFileSync(`/proc/${pid}/stat`, "utf8");
    // The name before ")" may hold spaces; the start is the 22nd field, the 20th after it.
    const fields = line.slice(line.lastIndexOf(")") + 2).split(" ");
    // One that was killed and that nobody has asked about yet writes no more.
    return fields[0] === "Z" ? "ended" : (fields[19] ?? null);
  } catch {
    return null;
  }
}
