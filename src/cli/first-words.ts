/**
 * The first line of `saccade train`, printed before the rest of Saccade loads, which takes most of a second: what will run, on which kernels, and how long
 * that takes where it is slow. The recipe's file is read as text for that, so only what can be told from it for certain is said.
 */
import { existsSync, readFileSync } from "node:fs";
import { availableParallelism } from "node:os";
import { join } from "node:path";
import { packageFolder } from "../core/package-folder.ts";
import { COMPILE_SECONDS } from "../engine/native/kernels/build.ts";
import { type ExpectedKernels, expectedKernels, WASM_SLOWDOWN } from "../engine/native/kernels/expected.ts";

/** Undefined: this call does not train. */
export function firstWords(words: readonly string[]): string | undefined {
  const [command, name] = words;
  if (command !== "train" || name === undefined || name.startsWith("-")) return undefined;
  if (words.some((word) => ["--help", "-h", "--dry-run"].includes(word))) return undefined;
  const loading = `${name}: loading the recipe`;
  const text = recipeText(name);
  const isEmbedded = text !== undefined && !mentionsEngine(text) && !words.some((word) => /engine/.test(word));
  if (!isEmbedded) return loading;
  try {
    return `${loading}; ${kernelWords(expectedKernels(), timeNeeded(text))}`;
  } catch {
    // What is wrong there is an error in its place, with the way out.
    return loading;
  }
}

function kernelWords({ name, why, compiler }: ExpectedKernels, needed: Need | undefined): string {
  if (compiler !== undefined)
    return `${compiler} compiles the engine's kernels first, once on this machine, about ${COMPILE_SECONDS} seconds`;
  if (name === "compiled") return "its kernels are compiled";
  const reason = why.startsWith("SACCADE_KERNELS") ? why : "no C++ compiler was found";
  if (name === "reference") return `${reason}: TypeScript kernels, a hundred times slower`;
  const minutes = needed && Math.ceil(wasmMinutes(needed, availableParallelism()));
  const time = minutes === undefined ? "two to four times slower" : `about ${minutes} minutes on this machine`;
  return `${reason}: WebAssembly kernels, ${time}`;
}

type Need = { readonly minutes: number; readonly cores: number };

/** Eight times the cores make a run about two and a half times as fast; half of them make it half as fast. */
export function wasmMinutes({ minutes, cores }: Need, available: number): number {
  const share = cores / available;
  return minutes * WASM_SLOWDOWN * (share < 1 ? share ** 0.44 : share);
}

function recipeText(name: string): string | undefined {
  const shipped = packageFolder("recipes");
  const file = [name, ...(shipped === undefined ? [] : [join(shipped, `${name}.ts`)])].find(
    (path) => path.endsWith(".ts") && existsSync(path),
  );
  try {
    return file === undefined ? undefined : readFileSync(file, "utf8");
  } catch {
    return undefined;
  }
}

/** One that takes parts from other files may get its engine from there. */
function mentionsEngine(text: string): boolean {
  return /\bengine\b/.test(text) || /from\s+["']\./.test(text) || /\bimport\s*\(/.test(text);
}

/** `needs: { hardware: "2 CPU cores", time: "5 minutes" }`. */
function timeNeeded(text: string): Need | undefined {
  const found = /hardware:\s*"(\d+) CPU cores?",\s*time:\s*"(\d+) minutes"/.exec(text);
  return found === null ? undefined : { cores: Number(found[1]), minutes: Number(found[2]) };
}
