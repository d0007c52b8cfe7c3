/** Every implementation of the kernels that this machine can run, for tables of tests. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { packageFolder } from "../../../core/package-folder.ts";
import type { Kernels } from "./api.ts";
import { compileKernels } from "./build.ts";
import { type InstructionSet, loadCompiled } from "./compiled.ts";
import { findPrebuilt } from "./prebuilt.ts";
import { referenceKernels } from "./reference.ts";
import { attachWasm } from "./wasm.ts";
import { compileModule, openMemory, type WasmThread } from "./wasm-memory.ts";

export const build = await compileKernels();

/** Compiled here, else the package's, for each instruction set. */
const prebuilt = findPrebuilt();
export const compiledVariants: readonly Kernels[] =
  "file" in build ? variantsOf(build.file) : "file" in prebuilt ? variantsOf(prebuilt.file) : [];

export const wasmModule = compileModule(
  readFileSync(join(packageFolder("native") as string, "wasm", "kernels.wasm")) as Uint8Array,
);
export const wasmKernels: Kernels = attachWasm(openMemory(wasmModule, 1)[0] as WasmThread);

/** All but the reference, which says what they must compute. */
export const fastVariants: readonly Kernels[] = [...compiledVariants, wasmKernels];
export const everyVariant: readonly Kernels[] = [referenceKernels, ...fastVariants];
/** One of each name. */
export const byName: readonly { readonly which: string; readonly kernels: Kernels }[] = everyVariant
  .filter(({ name }, i, all) => all.findIndex((other) => other.name === name) === i)
  .map((kernels) => ({ which: kernels.name, kernels }));

function variantsOf(file: string): Kernels[] {
  const sets: InstructionSet[] = loadCompiled(file).isa === "avx2" ? ["avx2", "generic"] : ["generic"];
  return sets.map((isa) => loadCompiled(file, isa));
}
