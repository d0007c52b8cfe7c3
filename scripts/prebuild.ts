/**
 * Compiles the kernels for common systems into prebuilt/, which the npm package carries and git does not: `npm run build:native`, or with names for some
 * (`-- linux-x64`). Needs zig (zig.ts), which has the libraries of all of them. Run it before `npm pack`. What comes out is read again (binary.ts): each library must
 * offer what Node calls, and need only what its system has. For a system that is new to it, zig compiles a C++ library first, which takes minutes.
 */
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { sourceHash } from "../src/engine/native/kernels/build.ts";
import { readLibrary } from "./binary.ts";
import { needZig, type Zig } from "./zig.ts";

const root = resolve(import.meta.dirname, "..");
const native = join(root, "native");
const prebuilt = join(root, "prebuilt");
const api = dirname(createRequire(import.meta.url).resolve("node-api-headers/package.json"));

/** Names as in kernels/prebuilt.ts; glibc 2.28 is that of Node's own builds. */
const systems: Readonly<Record<string, string>> = {
  "linux-x64": "x86_64-linux-gnu.2.28",
  "linux-arm64": "aarch64-linux-gnu.2.28",
  "linux-x64-musl": "x86_64-linux-musl",
  "linux-arm64-musl": "aarch64-linux-musl",
  "darwin-x64": "x86_64-macos",
  "darwin-arm64": "aarch64-macos",
  "win32-x64": "x86_64-windows-gnu",
};

/** The flags of kernels/build.ts. */
const flags = [
  "-O3",
  "-std=c++17",
  "-fvisibility=hidden",
  "-ffp-contract=off",
  "-Wno-psabi",
  "-DNAPI_VERSION=8",
  `-I${join(api, "include")}`,
];

/** What Node calls in a library. */
const entries = ["napi_register_module_v1", "node_api_module_get_api_version_v1"];

/** Libraries that a system has when it can run Node. */
const present: Readonly<Record<string, RegExp>> = {
  linux: /^(lib(c|m|dl|rt|pthread)\.so(\.\d+)?|ld-linux-(x86-64|aarch64)\.so\.[12]|libc\.musl-\w+\.so\.1)$/,
  darwin: /^\/usr\/lib\/libSystem\.B\.dylib$/,
  win32: /^(node\.exe|kernel32\.dll|ntdll\.dll|msvcrt\.dll|ucrtbase\.dll|advapi32\.dll|api-ms-win-crt-[\w-]+\.dll)$/i,
};
const GLIBC = 28;

function check(name: string, file: string): string {
  const bytes = readFileSync(file);
  const { format, exports, needs, versions } = readLibrary(bytes);
  const lacking = entries.filter((entry) => !exports.includes(entry));
  if (lacking.length > 0) throw new Error(`it does not export ${lacking.join(", ")}`);
  const foreign = needs.filter((need) => !present[name.split("-")[0] as string]?.test(need));
  if (foreign.length > 0) throw new Error(`it needs ${foreign.join(", ")}, which not every machine has`);
  const newer = versions.filter((version) => Number(/^GLIBC_2\.(\d+)/.exec(version)?.[1] ?? 0) > GLIBC);
  if (newer.length > 0) throw new Error(`it needs ${newer.join(", ")}, newer than glibc 2.${GLIBC}`);
  // zig's C++ library shows its own operators new and delete, which hurt nobody.
  const shown = exports.filter((name) => !/^(_Z(n|d)[aAlLwW]|__dso_handle|_mh_)/.test(name));
  return `${Math.round(bytes.length / 1024)} KiB, ${format}; exports ${shown.join(", ")}; needs ${needs.join(", ") || "nothing"}`;
}

function build(zig: Zig, name: string, target: string): string {
  const scratch = mkdtempSync(join(tmpdir(), "saccade-prebuild-"));
  try {
    const isWindows = name.startsWith("win32");
    const common = ["c++", "-target", target, ...flags, ...(isWindows ? [] : ["-fPIC", "-pthread"])];
    const hasAvx2 = name.includes("x64");
    const object = (isa: string) => join(scratch, `${isa}.o`);
    const isas = ["generic", ...(hasAvx2 ? ["avx2"] : [])];
    for (const isa of isas) {
      const own = isa === "avx2" ? ["-mavx2", "-mfma"] : [];
      zig([...common, ...own, `-DSACCADE_ISA=${isa}`, "-c", join(native, "kernels.cc"), "-o", object(isa)]);
    }
    const host: string[] = [];
    if (isWindows) {
      // What Node exports, as a library to link with.
      host.push(join(scratch, "node_api.lib"));
      zig(["dlltool", "-m", "i386:x86-64", "-d", join(api, "def", "node_api.def"), "-l", host[0] as string]);
    }
    const made = join(scratch, "kernels.node");
    zig([
      ...common,
      ...(hasAvx2 ? ["-DSACCADE_WITH_AVX2=1"] : []),
      "-shared",
      "-s",
      ...(name.startsWith("darwin") ? ["-Wl,-undefined,dynamic_lookup"] : []),
      join(native, "addon.cc"),
      join(native, "crew.cc"),
      ...isas.map(object),
      ...host,
      "-o",
      made,
    ]);
    const found = check(name, made);
    mkdirSync(join(prebuilt, name), { recursive: true });
    writeFileSync(join(prebuilt, name, "kernels.node"), readFileSync(made), { mode: 0o755 });
    return found;
  } finally {
    rmSync(scratch, { recursive: true, force: true });
  }
}

const wanted = process.argv.slice(2);
const unknown = wanted.filter((name) => !(name in systems));
if (unknown.length > 0)
  throw new Error(`There is no system ${unknown.join(", ")}; there are ${Object.keys(systems).join(", ")}.`);
const zig = needZig();
const sources = sourceHash(native);
const sourcesFile = join(prebuilt, "sources.txt");
// Kernels of other sources must not stand next to these.
if (wanted.length === 0 || readText(sourcesFile) !== sources) rmSync(prebuilt, { recursive: true, force: true });
mkdirSync(prebuilt, { recursive: true });
writeFileSync(sourcesFile, `${sources}\n`);
let failed = 0;
for (const [name, target] of Object.entries(systems)) {
  if (wanted.length > 0 && !wanted.includes(name)) continue;
  const start = performance.now();
  try {
    const found = build(zig, name, target);
    process.stdout.write(`${name}: ${found} (${Math.round((performance.now() - start) / 1000)} s)\n`);
  } catch (error) {
    failed += 1;
    process.stderr.write(`${name}: FAILED, ${error instanceof Error ? error.message : String(error)}\n`);
  }
}
const built = readdirSync(prebuilt).filter((name) => name in systems);
process.stdout.write(`prebuilt/ has ${built.length} of ${Object.keys(systems).length} systems\n`);
if (failed > 0) process.exitCode = 1;

function readText(file: string): string | undefined {
  try {
    return readFileSync(file, "utf8").trim();
  } catch {
    return undefined;
  }
}
