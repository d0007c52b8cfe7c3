/** The WebAssembly kernels in the repository are those of the sources. */
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { buildWasm, WASM_FILE } from "../scripts/wasm.ts";
import { findZig } from "../scripts/zig.ts";

const zig = findZig();

test.runIf(zig !== undefined || process.env.SACCADE_REQUIRE?.includes("zig"))(
  "native/wasm/kernels.wasm is what its sources compile to (npm run build:wasm)",
  () => {
    if (zig === undefined) throw new Error("zig is required, and not here");
    const folder = mkdtempSync(join(tmpdir(), "saccade-wasm-"));
    try {
      const file = join(folder, "kernels.wasm");
      buildWasm(zig, file);
      expect(readFileSync(file).equals(readFileSync(WASM_FILE))).toBe(true);
    } finally {
      rmSync(folder, { recursive: true, force: true });
    }
  },
);
