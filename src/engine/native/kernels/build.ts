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
import { type Compiler, compile, compilerNames, findCompiler } from "./compiler.ts";

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

/** kernels.cc is compiled once per instruction set; the addon picks at load. */
const variants: { isa: string; flags: string[] }[] = [
  { isa: "generic", flags: [] },
  ...(process.arch === "x64" ? [{ isa: "avx2", flags: ["-mavx2", "-mfma"] }] : []),
];

/** What `compileKernels` would do: nothing, for an earlier build is there; compile with this compiler; or fail. */
export type BuildPlan =
  | { file: string; found: true }
  | { file: string; found: false; compiler: Compiler; sources: string; headers: string }
  | { problem: string };

export function planBuild(force = false): BuildPlan {
  const sources = packageFolder("native");
  if (!sources) return { problem: "the folder native/ with the kernels' sources is missing from this installation" };
  let file: string;
  try {
    file = join(cacheFolder(), `kernels-${sourceKey(sources)}.node`);
  } catch (error) {
    return { problem: errorMessage(error) };
  }
  // One that somebody else put there is not loaded but built anew.
  if (!force && existsSync(file) && mistrust(file) === undefined) return { file, found: true };
  const compiler = findCompiler();
  if (!compiler) return { problem: `no C++ compiler found (looked for ${compilerNames().join(", ")})` };
  const headers = headerFolder();
  if (!headers) return { problem: "the package node-api-headers is missing; run npm install" };
  return { file, found: false, compiler, sources, headers };
}

/** Returns the addon's file, compiling it when the cache does not hold it (or with `force`). */
export async function compileKernels(options: { force?: boolean } = {}): Promise<Build> {
  return carryOut(planBuild(options.force));
}

export async function carryOut(plan: BuildPlan): Promise<Build> {
  if ("problem" in plan) return plan;
  if (plan.found) return { file: plan.file, compiler: "cache", seconds: 0 };
  const { file, compiler, sources, headers } = plan;
  const start = performance.now();
  const scratch = mkdtempSync(join(dirname(file), "build-"));
  try {
    const object = (name: string) => join(scratch, `${name}.o`);
    const calls = variants.map(({ isa, flags: own }) => [
      ...flags,
      ...own,
      `-DSACCADE_ISA=${isa}`,
      `-I${headers}`,
      "-c",
      join(sources, "kernels.cc"),
      "-o",
      object(isa),
    ]);
    const problem = await compile(compiler, calls);
    if (problem) return { problem };
    const built = join(scratch, "kernels.node");
    const link = [
      ...flags,
      ...(variants.length > 1 ? ["-DSACCADE_WITH_AVX2=1"] : []),
      `-I${headers}`,
      "-shared",
      ...(process.platform === "darwin" ? ["-undefined", "dynamic_lookup"] : []),
      join(sources, "addon.cc"),
      join(sources, "crew.cc"),
      ...variants.map(({ isa }) => object(isa)),
      "-o",
      built,
    ];
    const broken = await compile(compiler, [link]);
    if (broken) return { problem: broken };
    chmodSync(built, 0o755);
    renameSync(built, file);
  } finally {
    rmSync(scratch, { recursive: true, force: true });
  }
  return { file, compiler: compiler.name, seconds: (performance.now() - start) / 1000 };
}

function headerFolder(): string | undefined {
  try {
    return join(dirname(createRequire(import.meta.url).resolve("node-api-headers/package.json")), "include");
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
