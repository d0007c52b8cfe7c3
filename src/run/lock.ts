/**
 * One writer per run folder. `run.lock` names the process that writes; when that process is gone (a kill leaves the file behind) the
 * lock is void. On Linux the start time of the process is compared too, because small process ids come back after a restart.
 */
import { randomUUID } from "node:crypto";
import { readFileSync } from "node:fs";
import { open, readFile, rm } from "node:fs/promises";
import { join } from "node:path";
import { ConfigError } from "../core/errors.ts";
import { isMissing, writeAtomic } from "./files.ts";

export const LOCK_FILE = "run.lock";
type Holder = { readonly pid: number; readonly started: string | null; readonly token: string };

/** Takes the lock, or throws when a living process has it. Returns how to give it back. */
export async function lockRun(runPath: string): Promise<() => Promise<void>> {
  const path = join(runPath, LOCK_FILE);
  const holder: Holder = { pid: process.pid, started: startOf(process.pid), token: randomUUID() };
  if (!(await createNew(path, holder))) {
    const other = await readHolder(path);
    if (other !== undefined && isAlive(other)) {
      throw new ConfigError(
        `Process ${other.pid} is writing to ${runPath}. Wait for it, stop it, or choose another folder; ` +
          `if no such run exists, delete ${path}.`,
      );
    }
    await writeAtomic(path, JSON.stringify(holder));
  }
  return async () => {
    if ((await readHolder(path))?.token === holder.token) await rm(path, { force: true });
  };
}

/** Whether a living process writes to this folder. */
export async function isLocked(runPath: string): Promise<boolean> {
  const holder = await readHolder(join(runPath, LOCK_FILE));
  return holder !== undefined && isAlive(holder);
}

async function createNew(path: string, holder: Holder): Promise<boolean> {
  try {
    const handle = await open(path, "wx");
    await handle.writeFile(JSON.stringify(holder));
    await handle.close();
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "EEXIST") return false;
    throw error;
  }
}

/** Undefined when there is no lock, or one that was cut off while it was written. */
async function readHolder(path: string): Promise<Holder | undefined> {
  try {
    const value = JSON.parse(await readFile(path, "utf8")) as Partial<Holder> | null;
    return typeof value?.pid === "number" && value.pid > 0 ? (value as Holder) : undefined;
  } catch (error) {
    if (isMissing(error) || error instanceof SyntaxError) return undefined;
    throw error;
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
    return line.slice(line.lastIndexOf(")") + 2).split(" ")[19] ?? null;
  } catch {
    return null;
  }
}
