/** Builds native/wasm/kernels.wasm, which is kept in the repository: `npm run build:wasm`. Needs zig (zig.ts). */
import { join, resolve } from "node:path";
import { needZig, type Zig } from "./zig.ts";

const native = resolve(import.meta.dirname, "..", "native");
export const WASM_FILE = join(native, "wasm", "kernels.wasm");

/** The threads of a pool import one shared memory; JavaScript gives each its stack and thread-local variables (wasm-memory.ts). */
const flags = [
  "-target",
  "wasm32-wasi",
  "-mexec-model=reactor",
  "-O3",
  "-std=c++17",
  "-ffp-contract=off",
  "-fno-exceptions",
  "-fno-rtti",
  "-msimd128",
  "-matomics",
  "-mbulk-memory",
  "-DSACCADE_ISA=wasm",
  "-Wno-psabi",
  "-Wno-return-type-c-linkage",
  // Sizes are checked as 64-bit numbers before they become 32-bit ones.
  "-Wno-c++11-narrowing",
  "-Wl,--import-memory",
  "-Wl,--shared-memory",
  "-Wl,--max-memory=4294901760",
  "-Wl,-z,stack-size=65536",
  "-Wl,--export=__stack_pointer",
  "-Wl,--export=__wasm_init_tls",
  "-Wl,--export=__tls_size",
  "-Wl,--strip-all",
];

export function buildWasm(zig: Zig, file: string): void {
  const sources = ["kernels.cc", "wasm/crew.cc", "wasm/memory.cc"].map((name) => join(native, name));
  zig(["c++", ...flags, ...sources, "-o", file]);
}

if (process.argv[1] !== undefined && resolve(process.argv[1]) === resolve(import.meta.filename)) {
  buildWasm(needZig(), WASM_FILE);
}
