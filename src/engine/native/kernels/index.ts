/**
 * Which kernels run. Compiled ones where a C++ compiler exists (built on the first call, never on import), the TypeScript
 * reference otherwise, and then one line on stderr says how to get the fast ones. SACCADE_KERNELS=compiled|reference forces either.
 */

import { isMainThread } from "node:worker_threads";
import { ConfigError, errorMessage } from "../../../core/errors.ts";
import { EngineError } from "../../errors.ts";
import type { Kernels } from "./api.ts";
import { compileKernels } from "./build.ts";
import { loadCompiled } from "./compiled.ts";
import { referenceKernels } from "./reference.ts";

export type { F32, Flag, I32, Kernels } from "./api.ts";
export { type Build, compileKernels, compilesFirst } from "./build.ts";

export interface KernelInfo {
  name: Kernels["name"];
  isa: string;
  /** The addon's file and compiler, when compiled. */
  file?: string;
  compiler?: string;
  /** Why the compiled ones do not run, when they do not. */
  problem?: string;
}

interface Choice {
  kernels: Kernels;
  info: KernelInfo;
}

let chosen: Choice | undefined;

/** The kernels of this process (thread). The first call may compile for some seconds. */
export function loadKernels(): Kernels {
  return choose().kernels;
}

/** Runs work that keeps this thread busy: threads of its crew that have none help it, as many as are left. */
export function computing<T>({ crew }: Kernels, work: () => T): T {
  crew.begin();
  try {
    return work();
  } finally {
    crew.end();
  }
}

/** What `saccade doctor` prints. Loads the kernels, so it may compile too. */
export function kernelInfo(): KernelInfo {
  return choose().info;
}

function choose(): Choice {
  if (!chosen) {
    const forced = process.env.SACCADE_KERNELS || undefined;
    if (forced !== undefined && forced !== "compiled" && forced !== "reference")
      throw new ConfigError(`SACCADE_KERNELS is "${forced}"; it must be compiled, reference or empty.`);
    chosen =
      forced === "reference" ? reference("SACCADE_KERNELS asks for the reference") : compiled(forced === "compiled");
  }
  return chosen;
}

function compiled(required: boolean): Choice {
  const found = build();
  if (!("problem" in found)) return found;
  const { problem } = found;
  if (required)
    throw new EngineError(
      `SACCADE_KERNELS=compiled, but the kernels can't be compiled. Install g++ or clang++ (or set CXX), or unset the variable.\n${problem}`,
    );
  if (isMainThread)
    process.stderr.write(
      `saccade: running the slow TypeScript kernels (${problem.split("\n")[0]}). Install g++ or clang++, then run "saccade doctor --build".\n`,
    );
  return reference(problem);
}

function build(): Choice | { problem: string } {
  const made = compileKernels();
  if ("problem" in made) return { problem: made.problem };
  try {
    const kernels = loadCompiled(made.file);
    return { kernels, info: { name: "compiled", isa: kernels.isa, file: made.file, compiler: made.compiler } };
  } catch (error) {
    return { problem: errorMessage(error) };
  }
}

function reference(problem: string): Choice {
  return { kernels: referenceKernels, info: { name: "reference", isa: referenceKernels.isa, problem } };
}
