/**
 * Compiles the kernels for common systems into prebuilt/, which the npm package carries and git does not: `npm run build:native`, or with names for some
 * (`-- linux-x64`). Needs zig (zig.ts), which has the libraries of all of them. Run it before `npm pack`.
 */
import { mkdirSync, mkdtempSync, rmSync, statSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { sourceHash } from "../src/engine/native/kernels/build.ts";
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

function build(zig: Zig, name: string, target: string): void {
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
    const file = join(prebuilt, name, "kernels.node");
    mkdirSync(dirname(file), { recursive: true });
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
      file,
    ]);
    process.stdout.write(`${name}: ${Math.round(statSync(file).size / 1024)} KiB\n`);
  } finally {
    rmSync(scratch, { recursive: true, force: true });
  }
}

const wanted = process.argv.slice(2);
const unknown = wanted.filter((name) => !(name in systems));
if (unknown.length > 0)
  throw new Error(`There is no system ${unknown.join(", ")}; there are ${Object.keys(systems).join(", ")}.`);
const zig = needZig();
// Kernels of other sources must not lie next to these.
if (wanted.length === 0) rmSync(prebuilt, { recursive: true, force: true });
mkdirSync(prebuilt, { recursive: true });
for (const [name, target] of Object.entries(systems)) {
  if (wanted.length === 0 || wanted.includes(name)) build(zig, name, target);
}
writeFileSync(join(prebuilt, "sources.txt"), `${sourceHash(native)}\n`);
