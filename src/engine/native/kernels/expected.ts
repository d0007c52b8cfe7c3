/**
 * Which kernels the next start will use and why, without compiling or loading any: what `saccade doctor` prints, and the first line of `saccade train`,
 * which must not wait for the rest of Saccade to load. So this file imports little.
 */
import { ConfigError } from "../../../core/errors.ts";
import type { Kernels } from "./api.ts";
import { earlierBuild, planBuild } from "./build.ts";
import { findPrebuilt } from "./prebuilt.ts";

/** A run with WebAssembly kernels takes about this many times as long as with compiled ones (docs/internals/engine.md: 2.3 for the quickstart). */
export const WASM_SLOWDOWN = 2.5;

export type ExpectedKernels = {
  readonly name: Kernels["name"];
  readonly why: string;
  /** The compiler that has to make them first. */
  readonly compiler?: string;
};

export function expectedKernels(): ExpectedKernels {
  const wanted = wantedKernels();
  if (wanted === "wasm" || wanted === "reference") return { name: wanted, why: `SACCADE_KERNELS=${wanted}` };
  const earlier = earlierBuild();
  if ("found" in earlier && earlier.found)
    return { name: "compiled", why: `compiled on this machine: ${earlier.file}` };
  const prebuilt = findPrebuilt();
  if ("file" in prebuilt) return { name: "compiled", why: `they came with the package: ${prebuilt.file}` };
  // Looking for a compiler starts programs.
  const plan = planBuild();
  if ("problem" in plan) return { name: "wasm", why: `${prebuilt.problem}, and ${plan.problem}` };
  if (plan.found) return { name: "compiled", why: `compiled on this machine: ${plan.file}` };
  const compiler = plan.compiler.name;
  return { name: "compiled", why: `${compiler} compiles them at the first start; ${prebuilt.problem}`, compiler };
}

/** What SACCADE_KERNELS asks for; undefined: the fastest. */
export function wantedKernels(): Kernels["name"] | undefined {
  const wanted = process.env.SACCADE_KERNELS || undefined;
  if (wanted === undefined || wanted === "compiled" || wanted === "wasm" || wanted === "reference") return wanted;
  throw new ConfigError(`SACCADE_KERNELS is "${wanted}"; it must be compiled, wasm, reference or empty.`);
}
