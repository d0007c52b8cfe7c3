/**
 * Renames that work on every system. Windows refuses to replace or move what another process has open, if only for the moment in which a virus scanner
 * looks at a new file or a viewer reads a run. So there a refused rename is tried again, for some seconds. Elsewhere a refusal is an error at once.
 */
import { rename } from "node:fs/promises";
import { setTimeout as delay } from "node:timers/promises";

const REFUSALS = new Set(["EPERM", "EACCES", "EBUSY"]);
/** Between tries, in milliseconds; together about six seconds. */
const WAITS = [10, 20, 40, 80, 160, 320, 640, 1280, 1280, 1280, 1280];

/** A file that is at `to` is replaced. */
export function move(from: string, to: string): Promise<void> {
  return persist(() => rename(from, to), process.platform === "win32" ? WAITS : []);
}

/** Tries again after each wait while the system refuses; its last refusal is thrown. */
export async function persist(attempt: () => Promise<void>, waits: readonly number[]): Promise<void> {
  for (const wait of waits) {
    try {
      return await attempt();
    } catch (error) {
      if (!REFUSALS.has((error as NodeJS.ErrnoException).code ?? "")) throw error;
      await delay(wait);
    }
  }
  await attempt();
}
