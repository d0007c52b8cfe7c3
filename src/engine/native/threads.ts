/** The threads of a pool in Node: `worker_threads` that load the kernels this machine was found to have. */
import { startThread } from "../../core/workers.ts";
import { chooseKernels, type Kernels } from "./kernels/index.ts";
import type { Threads } from "./pool.ts";

/** Workers make few objects; a small nursery is swept often, so that large buffers which died do not linger. */
const LIMITS = { maxYoungGenerationSizeMb: 16 };

/** `tell` hears what a first start has to do before it computes; `wanted`: these kernels and no others. */
export function nodeThreads(tell: (line: string) => void = () => {}, wanted?: Kernels["name"]): Threads {
  return {
    choose: () => chooseKernels(tell, wanted),
    worker: (workerData) => startThread("engine/native/native-worker", { workerData, resourceLimits: LIMITS }),
    helper: (workerData) => startThread("engine/native/native-helper", { workerData, resourceLimits: LIMITS }),
  };
}
