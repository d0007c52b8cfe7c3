/**
 * Which kernels run: those that were compiled here before, else prebuilt ones of the package, else compiled now if there is a C++ compiler, else
 * WebAssembly, two to four times slower. SACCADE_KERNELS=compiled|wasm|reference decides otherwise. The main thread chooses once
 * (`chooseKernels`), and its workers load what it chose (`attachKernels`).
 */

import { readFileSync } from "node:fs";
import { join } from "node:path";
import { errorMessage } from "../../../core/errors.ts";
import { packageFolder } from "../../../core/package-folder.ts";
import { EngineError } from "../../errors.ts";
import type { Kernels } from "./api.ts";
import { COMPILE_SECONDS, carryOut, earlierBuild, planBuild } from "./build.ts";
import { loadCompiled } from "./compiled.ts";
import { wantedKernels } from "./expected.ts";
import { findPrebuilt } from "./prebuilt.ts";
import { referenceKernels } from "./reference.ts";
import { attachWasm } from "./wasm.ts";
import { compileModule, openMemory, type WasmModule, type WasmThread } from "./wasm-memory.ts";

export type { F32, Flag, I32, Kernels } from "./api.ts";
export { type Build, compileKernels } from "./build.ts";
export { type ExpectedKernels, expectedKernels } from "./expected.ts";
export { MemoryExhausted } from "./wasm-memory.ts";

export interface KernelInfo {
  readonly name: Kernels["name"];
  readonly isa: string;
  /** Compiled ones: the addon's file, and its compiler, "cache" or "prebuilt". */
  readonly file?: string;
  readonly compiler?: string;
  /** Why faster ones do not run, when they do not. */
  readonly problem?: string;
}

/** Travels to worker threads. */
export type KernelChoice = { readonly info: KernelInfo; readonly module?: WasmModule };

const chosen = new Map<Kernels["name"] | undefined, Promise<KernelChoice>>();

/**
 * The choice for this process, or these kernels and no others. The first call may compile for some seconds. `tell` hears what it is about to do if
 * that takes time, or is slow.
 */
export function chooseKernels(
  tell: (line: string) => void = () => {},
  wanted: Kernels["name"] | undefined = wantedKernels(),
): Promise<KernelChoice> {
  const known = chosen.get(wanted) ?? choose(tell, wanted);
  chosen.set(wanted, known);
  return known;
}

/** The kernels that were chosen, for this thread; `thread`: its place in the memory of WebAssembly kernels. */
export function attachKernels({ info, module }: KernelChoice, thread?: WasmThread): Kernels {
  if (info.file !== undefined) return loadCompiled(info.file);
  if (module === undefined) return referenceKernels;
  return attachWasm(thread ?? (openMemory(module, 1)[0] as WasmThread));
}

/** The chosen kernels for use in this thread alone. */
export async function loadKernels(): Promise<Kernels> {
  return attachKernels(await chooseKernels());
}

/** Those that were chosen. May compile, too. */
export async function kernelInfo(): Promise<KernelInfo> {
  return (await chooseKernels()).info;
}

async function choose(tell: (line: string) => void, wanted: Kernels["name"] | undefined): Promise<KernelChoice> {
  if (wanted === "reference")
    return { info: { name: "reference", isa: "typescript", problem: "SACCADE_KERNELS asks for the reference" } };
  if (wanted === "wasm") return wasmChoice("SACCADE_KERNELS asks for WebAssembly");
  const found = await compiledChoice(tell);
  if ("info" in found) return found;
  const { problem } = found;
  if (wanted === "compiled")
    throw new EngineError(
      `SACCADE_KERNELS=compiled, but there are no compiled kernels for this machine. Install g++ or clang++ (or set CXX), or unset the variable.\n${problem}`,
    );
  tell(
    `running WebAssembly kernels (${problem.split("\n")[0]}). Training takes two to four times as long as with compiled ones. Install g++ or clang++ to make it faster.`,
  );
  return wasmChoice(problem);
}

/** From an earlier build, the package, or the compiler; or why from none of them. */
async function compiledChoice(tell: (line: string) => void): Promise<KernelChoice | { problem: string }> {
  const earlier = earlierBuild();
  const problems: string[] = [];
  const attempt = (file: string, compiler: string): KernelChoice | undefined => {
    try {
      return { info: { name: "compiled", isa: loadCompiled(file).isa, file, compiler } };
    } catch (error) {
      problems.push(errorMessage(error));
      return undefined;
    }
  };
  const isThere = "found" in earlier && earlier.found;
  const before = isThere ? attempt(earlier.file, "cache") : undefined;
  if (before !== undefined) return before;
  const prebuilt = findPrebuilt();
  const ready = "file" in prebuilt ? attempt(prebuilt.file, "prebuilt") : undefined;
  if (ready !== undefined) return ready;
  // Only now is a compiler looked for. One that does not load (a disk was full, a library is gone) is made anew.
  const plan = planBuild(isThere);
  if ("found" in plan && !plan.found)
    tell(
      `compiling the native engine's kernels with ${plan.compiler.name}, once on this machine; about ${COMPILE_SECONDS} seconds`,
    );
  const built = await carryOut(plan);
  if ("problem" in built) return { problem: [built.problem, ...problems].join("\n") };
  return attempt(built.file, built.compiler) ?? { problem: problems.join("\n") };
}

function wasmChoice(problem: string): KernelChoice {
  const folder = packageFolder("native");
  if (folder === undefined)
    throw new EngineError("The folder native/ with the kernels is missing from this installation; install it again.");
  const module = compileModule(readFileSync(join(folder, "wasm", "kernels.wasm")));
  return { info: { name: "wasm", isa: "simd128", problem }, module };
}
