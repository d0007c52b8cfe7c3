/**
 * Finds zig, the compiler that builds kernels for other systems and for WebAssembly: $SACCADE_ZIG, `zig` on the path, or Python's package
 * `ziglang` (`pip install ziglang==0.17.0`). The version is fixed, so that the same sources give the same bytes.
 */
import { spawnSync } from "node:child_process";
import { join } from "node:path";
import { cacheFolder } from "../src/core/cache-folder.ts";

export const ZIG_VERSION = "0.17.0";

export type Zig = (args: readonly string[]) => void;

/** Undefined: this machine has none of that version. */
export function findZig(): Zig | undefined {
  const { SACCADE_ZIG } = process.env;
  const candidates = SACCADE_ZIG ? [[SACCADE_ZIG]] : [["zig"], ["python3", "-m", "ziglang"]];
  for (const [program = "", ...first] of candidates) {
    const { stdout } = spawnSync(program, [...first, "version"], { encoding: "utf8" });
    if (stdout?.trim() !== ZIG_VERSION) continue;
    // The libraries that zig compiles for a system are kept from one build to the next, and none are written to the repository.
    const cache = join(cacheFolder(), "zig");
    const env = { ZIG_GLOBAL_CACHE_DIR: cache, ZIG_LOCAL_CACHE_DIR: join(cache, "local"), ...process.env };
    return (args) => {
      const { status, signal, error } = spawnSync(program, [...first, ...args], {
        stdio: ["ignore", "inherit", "inherit"],
        env,
      });
      if (status !== 0) throw new Error(`zig ${args[0]} ended with ${error?.message ?? signal ?? `status ${status}`}`);
    };
  }
  return undefined;
}

export function needZig(): Zig {
  const zig = findZig();
  if (zig === undefined)
    throw new Error(
      `zig ${ZIG_VERSION} was not found. Install it with "pip install ziglang==${ZIG_VERSION}", or set SACCADE_ZIG to its program.`,
    );
  return zig;
}
