/**
 * Compiles native/ with the system's C++ compiler: plain compiler calls, no node-gyp, nothing fetched. The result lies in a
 * cache folder (core/cache-folder.ts) under a name that hashes sources, flags, Node ABI and platform, so a stale file can't be loaded, and it is
 * renamed into place, so that processes may build at once. `saccade doctor --build` calls this ahead of time.
 */

import { spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { chmodSync, existsSync, mkdtempSync, readdirSync, readFileSync, renameSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { cacheFolder, mistrust } from "../../../core/cache-folder.ts";
import { errorMessage } from "../../../core/errors.ts";
import { packageFolder } from "../../../core/package-folder.ts";

export type Build =
  /** Compiler "cache" and 0 seconds when an earlier build was found. */
  { file: string; compiler: string; seconds: number } | { problem: string };

/** Contraction is off: a fused multiply-add happens only where the source writes one. */
const flags = [
  "-O3",
  "-std=c++17",
  "-fPIC",
  "-fvisibility=hidden",
  "-ffp-contract=off",
  "-pthread",
  "-Wno-psabi",
  "-DNAPI_VERSION=8",
];

/** kernels.cc is compiled once per instruction set; the addon picks at load. */
const variants: { isa: string; flags: string[] }[] = [
  { isa: "generic", flags: [] },
  ...(process.arch === "x64" ? [{ isa: "avx2", flags: ["-mavx2", "-mfma"] }] : []),
];

/** Whether `compileKernels` would have to compile, which takes seconds, and could. */
export function compilesFirst(): boolean {
  const sources = packageFolder("native");
  if (sources === undefined) return false;
  const place = builtFile(sources);
  return "file" in place && !isUsable(place.file) && !!findCompiler() && !!headerFolder();
}

function builtFile(sources: string): { file: string } | { problem: string } {
  try {
    return { file: join(cacheFolder(), `kernels-${sourceKey(sources)}.node`) };
  } catch (error) {
    return { problem: errorMessage(error) };
  }
}

/** One that somebody else put there is not loaded but built anew. */
function isUsable(file: string): boolean {
  return existsSync(file) && mistrust(file) === undefined;
}

/** Returns the addon's file, compiling it when the cache does not hold it (or with `force`). */
export function compileKernels(options: { force?: boolean } = {}): Build {
  const sources = packageFolder("native");
  if (!sources) return { problem: "the folder native/ with the kernels' sources is missing from this installation" };
  const place = builtFile(sources);
  if ("problem" in place) return place;
  const { file } = place;
  if (isUsable(file) && !options.force) return { file, compiler: "cache", seconds: 0 };
  const compiler = findCompiler();
  if (!compiler) return { problem: `no C++ compiler found (looked for ${compilerNames().join(", ")})` };
  const headers = headerFolder();
  if (!headers) return { problem: "the package node-api-headers is missing; run npm install" };

  const start = performance.now();
  const scratch = mkdtempSync(join(dirname(file), "build-"));
  try {
    const object = (isa: string) => join(scratch, `${isa}.o`);
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
    const objects = variants.map(({ isa }) => object(isa));
    const broken = runAtOnce(compiler, calls);
    if (broken) return { problem: broken };
    const built = join(scratch, "kernels.node");
    const problem = run(compiler, [
      ...flags,
      ...(variants.length > 1 ? ["-DSACCADE_WITH_AVX2=1"] : []),
      `-I${headers}`,
      "-shared",
      ...(process.platform === "darwin" ? ["-undefined", "dynamic_lookup"] : []),
      join(sources, "addon.cc"),
      join(sources, "crew.cc"),
      ...objects,
      "-o",
      built,
    ]);
    if (problem) return { problem };
    chmodSync(built, 0o755);
    renameSync(built, file);
  } finally {
    rmSync(scratch, { recursive: true, force: true });
  }
  return { file, compiler: compiler, seconds: (performance.now() - start) / 1000 };
}

function compilerNames(): string[] {
  return process.env.CXX ? [process.env.CXX] : ["c++", "g++", "clang++"];
}

function findCompiler(): string | undefined {
  return compilerNames().find((name) => run(name, ["--version"]) === undefined);
}

function headerFolder(): string | undefined {
  try {
    return join(dirname(createRequire(import.meta.url).resolve("node-api-headers/package.json")), "include");
  } catch {
    return undefined;
  }
}

function sourceKey(sources: string): string {
  const hash = createHash("sha256");
  for (const name of readdirSync(sources).sort()) hash.update(`${name}\0`).update(readFileSync(join(sources, name)));
  const { platform, arch, versions, env } = process;
  const setting = { flags, variants, compiler: env.CXX, abi: versions.modules, platform, arch };
  return hash.update(JSON.stringify(setting)).digest("hex").slice(0, 32);
}

/** `command` may carry arguments of its own, like CXX="ccache g++". */
const words = (command: string) => command.trim().split(/\s+/);

/** Calls the compiler. Returns what went wrong. */
function run(command: string, args: readonly string[]): string | undefined {
  const [program = command, ...first] = words(command);
  return problemOf(command, args, spawnSync(program, [...first, ...args], { encoding: "utf8" }));
}

/** The same for several calls at a time, by a shell: Node waits for one process only where nothing may happen meanwhile. */
function runAtOnce(command: string, calls: readonly (readonly string[])[]): string | undefined {
  const quoted = (word: string) => `'${word.replaceAll("'", "'\\''")}'`;
  const lines = calls.map((args, i) => `${[...words(command), ...args].map(quoted).join(" ")} & p${i}=$!`);
  const waits = calls.map((_, i) => `wait $p${i} || failed=1`);
  const script = [...lines, "failed=0", ...waits, "exit $failed"].join("\n");
  return problemOf(command, calls[0] ?? [], spawnSync("/bin/sh", ["-c", script], { encoding: "utf8" }));
}

function problemOf(
  command: string,
  args: readonly string[],
  { status, error, stderr }: ReturnType<typeof spawnSync>,
): string | undefined {
  if (status === 0) return undefined;
  return `${command} failed to compile the kernels\n${args.join(" ")}\n${error ? error.message : String(stderr).trim()}`;
}
