/**
 * How much slower other programs make this one. Linux counts for each thread how long it ran and how long it waited for a processor; of that waiting, the share
 * counts that others had of the busy time, since threads of one program also wait for each other. Other systems do not tell, so there the share is unknown.
 */
import { readdirSync, readFileSync } from "node:fs";
import { cpus } from "node:os";

export type ProcessorReading = {
  /** Nanoseconds by thread. */
  readonly threads: ReadonlyMap<string, { readonly ran: number; readonly waited: number }>;
  /** Milliseconds that all processors were busy, and those of this process. */
  readonly busy: number;
  readonly own: number;
};

export function readProcessor(): ProcessorReading {
  const { user, system } = process.cpuUsage();
  const busy = cpus().reduce((sum, { times }) => sum + times.user + times.nice + times.sys + times.irq, 0);
  return { threads: threadsOf("/proc/self/task"), busy, own: (user + system) / 1000 };
}

/** 1: it had the machine to itself; 0.25: it would have been four times as fast alone. Undefined where the system does not tell. */
export function processorShare(before: ProcessorReading, after: ProcessorReading): number | undefined {
  let [ran, waited] = [0, 0];
  for (const [id, then] of before.threads) {
    const now = after.threads.get(id);
    if (now === undefined) continue;
    ran += now.ran - then.ran;
    waited += now.waited - then.waited;
  }
  const busy = after.busy - before.busy;
  if (ran <= 0 || busy <= 0) return undefined;
  const others = Math.min(1, Math.max(0, 1 - (after.own - before.own) / busy));
  return ran / (ran + waited * others);
}

function threadsOf(folder: string): ProcessorReading["threads"] {
  const threads = new Map<string, { ran: number; waited: number }>();
  let ids: string[] = [];
  try {
    ids = readdirSync(folder);
  } catch {
    // No Linux.
  }
  for (const id of ids) {
    try {
      const [ran = 0, waited = 0] = readFileSync(`${folder}/${id}/schedstat`, "utf8").split(" ").map(Number);
      threads.set(id, { ran, waited });
    } catch {
      // A thread that ended meanwhile; the others count.
    }
  }
  return threads;
}
