/**
 * The compiled kernels: loads the addon that build.ts made. The addon holds one object of functions per instruction set that this
 * machine can run, with the signatures of `Kernels`, and the crew that its threads form.
 */

import { createRequire } from "node:module";
import { type Crew, type Kernels, ordinaryMemory } from "./api.ts";

type Functions = Omit<Kernels, "name" | "isa" | "crew" | "floats" | "free">;
type Addon = Partial<Record<InstructionSet, Functions>> & { readonly crew: Crew };

/** Instruction sets from fastest to slowest; the addon has those that work here. */
const instructionSets = ["avx2", "generic"] as const;
export type InstructionSet = (typeof instructionSets)[number];

/** The kernels in `file`, for the best instruction set or for the one asked for. */
export function loadCompiled(file: string, isa?: InstructionSet): Kernels {
  const addon = createRequire(import.meta.url)(file) as Addon;
  for (const name of isa ? [isa] : instructionSets) {
    const functions = addon[name];
    if (functions) return { ...functions, ...ordinaryMemory, name: "compiled", isa: name, crew: addon.crew };
  }
  throw new Error(`the kernels in ${file} have no variant for ${isa ?? "this machine"}`);
}
