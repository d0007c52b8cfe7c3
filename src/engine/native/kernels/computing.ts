/** A thread of a pool at work: while it computes, threads of its crew that have nothing to do help it. */
import type { Kernels } from "./api.ts";

/** Runs work that keeps this thread busy: threads of its crew that have none help it, as many as are left. */
export function computing<T>({ crew }: Kernels, work: () => T): T {
  crew.begin();
  try {
    return work();
  } finally {
    crew.end();
  }
}
