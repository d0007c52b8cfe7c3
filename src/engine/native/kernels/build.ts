/**
 * Compiles native/ with the system's C++ compiler: plain compiler calls, no node-gyp, nothing fetched. The result is kept in a
 * cache folder (core/cache-folder.ts) under a name that hashes sources, flags, Node ABI and platform, so a stale file can't be loaded, and it is
 * renamed into place, so that processes may build at once. `saccade doctor --build` calls this ahead of time.
 */

import { createHash } from "node:crypto";
import { chmodSync, existsSync, mkdtempSync, readdirSync, readFileSync, renameSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { cacheFolder, mistrust } from "../../../core/cache-folder.ts";
import { errorMessage } from "../../../core/errors.ts";
import { packageFolder } from "../../../core/package-folder.ts";
import { type Compiler, compile, compilerNames, findCompiler, importLibrary } from "./compiler.ts";

export type Build =
  /** Compiler "cache" and 0 seconds when an earlier build was found. */
  { file: string; compiler: string; seconds: number } | { problem: string };

/** Contraction is off: a fused multiply-add happens only where the source writes one. */
export const flags = [
  "-O3",
  "-std=c++17",
  ...(process.platform === "win32" ? [] : ["-fPIC", "-fvisibility=hidden", "-pthread"]),
  "-ffp-contract=off",
  "-Wno-psabi",
  "-DNAPI_VERSION=8",
];

/** About what it takes on two cores. */
export const COMPILE_SECONDS = 10;

/** kernels.cc is compiled once per instruction set; the addon picks at load. */
const variants: { isa: string; flags: string[] }[] = [
  { isa: "generic", flags: [] },
  ...(process.arch === "x64" ? [{ isa: "avx2", flags: ["-mavx2", "-mfma"] }] : []),
];

/** What `compileKernels` would do: nothing, for an earlier build is there; compile with this compiler; or fail. */
export type BuildPlan =
  | { file: string; found: true }
  | { file: string; found: false; compiler: Compiler; sources: string; node: NodeApi }
  | { problem: string };

/** Where a build goes, and whether an earlier one is there. Starts no other program. */
export function earlierBuild(): { file: string; found: boolean; sources: string } | { problem: string } {
  const sources = packageFolder("native");
  if (!sources) return { problem: "the folder native/ with the kernels' sources is missing from this installation" };
  try {
    const file = join(cacheFolder(), `kernels-${sourceKey(sources)}.node`);
    // One that somebody else put there is not loaded but built anew.
    return { file, found: existsSync(file) && mistrust(file) === undefined, sources };
  } catch (error) {
    return { problem: errorMessage(error) };
  }
}

export function planBuild(force = false): BuildPlan {
  const earlier = earlierBuild();
  if ("problem" in earlier) return earlier;
  const { file, found, sources } = earlier;
  if (found && !force) return { file, found };
  const compiler = findCompiler();
  if (!compiler) return { problem: `no C++ compiler found (looked for ${compilerNames().join(", ")})` };
  const node = nodeApi();
  if (!node) return { problem: "the package node-api-headers is missing; run npm install" };
  return { file, found: false, compiler, sources, node };
}

/** Returns the addon's file, compiling it when the cache does not hold it (or with `force`). */
export async function compileKernels(options: { force?: boolean } = {}): Promise<Build> {
  return carryOut(planBuild(options.force));
}

export async function carryOut(plan: BuildPlan): Promise<Build> {
  if ("problem" in plan) return plan;
  if (plan.found) return { file: plan.file, compiler: "cache", seconds: 0 };
  const { file, compiler, sources, node } = plan;
  const start = performance.now();
  const scratch = mkdtempSync(join(dirname(file), "build-"));
  const clear = () => rmSync(scratch, { recursive: true, force: true });
  // Whoever is stopped meanwhile leaves nothing behind either.
  process.once("exit", clear);
  try {
    const object = (name: string) => join(scratch, `${name}.o`);
    const calls = variants.map(({ isa, flags: own }) => [
      ...flags,
      ...own,
      `-DSACCADE_ISA=${isa}`,
      `-I${node.headers}`,
      "-c",
      join(sources, "kernels.cc"),
      "-o",
      object(isa),
    ]);
    const imports = join(scratch, "node_api.lib");
    const problem =
      (await compile(compiler, calls)) ??
      (process.platform === "win32" ? await importLibrary(compiler, node.names, imports) : undefined);
    if (problem) return { problem };
    const built = join(scratch, "kernels.node");
    const link = [
      ...flags,
      ...(variants.length > 1 ? ["-DSACCADE_WITH_AVX2=1"] : []),
      `-I${node.headers}`,
      "-shared",
      ...(process.platform === "darwin" ? ["-undefined", "dynamic_lookup"] : []),
      join(sources, "addon.cc"),
      join(sources, "crew.cc"),
      ...variants.map(({ isa }) => object(isa)),
      // Windows finds no library of a compiler's by itself.
      ...(process.platform === "win32" ? [imports, "-static"] : []),
      "-o",
      built,
    ];
    const broken = await compile(compiler, [link]);
    if (broken) return { problem: broken };
    chmodSync(built, 0o755);
    putInPlace(built, file);
  } finally {
    process.off("exit", clear);
    clear();
  }
  return { file, compiler: compiler.name, seconds: (performance.now() - start) / 1000 };
}

/** Windows does not replace a library that a process has loaded: then it was built meanwhile, from the same sources. */
function putInPlace(built: string, file: string): void {
  try {
    renameSync(built, file);
  } catch (error) {
    if (process.platform !== "win32" || !existsSync(file)) throw error;
  }
}

/** What an addon is compiled against: headers, and for Windows the names that Node exports. */
type NodeApi = { readonly headers: string; readonly names: string };

function nodeApi(): NodeApi | undefined {
  try {
    const folder = dirname(createRequire(import.meta.url).resolve("node-api-headers/package.json"));
    return { headers: join(folder, "include"), names: join(folder, "def", "node_api.def") };
  } catch {
    return undefined;
  }
}

/** Hash of the sources alone: prebuilt kernels name it, too. */
export function sourceHash(sources: string): string {
  const hash = createHash("sha256");
  const names = readdirSync(sources).filter((name) => /\.(cc|h)$/.test(name));
  for (const name of names.sort()) hash.update(`${name}\0`).update(readFileSync(join(sources, name)));
  return hash.digest("hex").slice(0, 32);
}

function sourceKey(sources: string): string {
  const { platform, arch, versions, env } = process;
  const setting = { flags, variants, compiler: env.CXX, abi: versions.modules, platform, arch };
  return createHash("sha256")
    .update(`${sourceHash(sources)}${JSON.stringify(setting)}`)
    .digest("hex")
    .slice(0, 32);
}
