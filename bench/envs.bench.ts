/**
 * Steps per second of every world (`envs-steps.ts`), built as the package is and each in a Node of its own: sources that are translated as they
 * are loaded reach each other in a roundabout way, and what other worlds left on the heap is looked through and goes to waste.
 * `npm run bench -- envs maze` measures only the ids that contain "maze".
 */
import "../worlds/register.ts";
import { spawnSync } from "node:child_process";
import { join } from "node:path";
import { build } from "tsdown";
import { listEnvs } from "../src/envs/index.ts";

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
const wanted = process.argv[3] ?? "";
console.log(
  "| world | frame | steps/s | VisGym (Python) | ratio | starts/s | hashes/s | PNG/s |\n|---|---|---|---|---|---|---|---|",
);
for (const { id, kind, needs } of await listEnvs()) {
  if (kind !== "world" || needs !== undefined || !id.includes(wanted)) continue;
  const { status } = spawnSync(process.execPath, [join(outDir, `${name}.mjs`), id], { stdio: "inherit" });
  if (status !== 0) process.exitCode = 1;
}
