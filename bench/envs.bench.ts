/**
 * Steps per second of every world (`envs-steps.ts`), built as the package is and in a Node of its own: sources that are translated as they
 * are loaded reach each other in a roundabout way, and a larger heap takes longer to be tidied up.
 * `npm run bench -- envs maze` measures only the ids that contain "maze".
 */
import { spawnSync } from "node:child_process";
import { join } from "node:path";
import { build } from "tsdown";

const name = "envs-steps";
// Where imports of packages are found.
const outDir = join(import.meta.dirname, "..", "node_modules", ".cache", "saccade-bench");
await build({
  entry: [join(import.meta.dirname, `${name}.ts`)],
  outDir,
  config: false,
  dts: false,
  logLevel: "error",
  platform: "node",
});
const { status } = spawnSync(process.execPath, [join(outDir, `${name}.mjs`), ...process.argv.slice(3)], {
  stdio: "inherit",
});
process.exitCode = status ?? 1;
