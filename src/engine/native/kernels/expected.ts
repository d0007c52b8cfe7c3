/**
 * Which kernels the next start will use and why, without compiling or loading any: what `saccade doctor` prints, and the first line of `saccade train`,
 * which must not wait for the rest of Saccade to load. So this file imports little.
 */
import { ConfigError } from "../../../core/errors.ts";
import type { Kernels } from "./api.ts";
import { planBuild } from "./build.ts";
import { findPrebuilt } from "./prebuilt.ts";

/** Training with WebAssembly kernels takes about so many times as long as with compiled ones (docs/internals/engine.md has the measurement). */
export const WASM_SLOWDOWN = 3.5;

export type ExpectedKernels = {
  readonly name: Kernels["name"];
  readonly why: string;
  /** The compiler that has to make them first. */
  readonly compiler?: string;
};

export function expectedKernels(): ExpectedKernels {
  const wanted = wantedKernels();
  if (wanted === "wasm" || wanted === "reference") return { name: wanted, why: `SACCADE_KERNELS=${wanted}` };
  const plan = planBuild();
  if ("found" in plan && plan.found) return { name: "compiled", why: `compiled on this machine: ${plan.file}` };
  const prebuilt = findPrebuilt();
  if ("file" in prebuilt) return { name: "compiled", why: `they came with the package: ${prebuilt.file}` };
  if ("problem" in plan) return { name: "wasm", why: `${prebuilt.problem}, and ${plan.problem}` };
  const compiler = plan.compiler.name;
  return { name: "compiled", why: `${compiler} compiles them at the first start; ${prebuilt.problem}`, compiler };
}

/** What SACCADE_KERNELS asks for; undefined: the fastest. */
export function wantedKernels(): Kernels["name"] | undefined {
  const wanted = process.env.SACCADE_KERNELS || undefined;
  if (wanted === undefined || wanted === "compiled" || wanted === "wasm" || wanted === "reference") return wanted;
  throw new ConfigError(`SACCADE_KERNELS is "${wanted}"; it must be compiled, wasm, reference or empty.`);
}
