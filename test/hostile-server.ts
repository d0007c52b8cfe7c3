/** For tests: a server that is assailed, in a process of its own: `serve` (model, Tinker and environments) or `view`. Says its port. */
import { mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import "../worlds/register.ts";
import { serveTiny } from "../src/serve/test-serve.ts";
import { startViewer } from "../src/viewer/server.ts";
import { writeRun } from "../src/viewer/test-viewer.ts";

const [kind, key = ""] = process.argv.slice(-2);

async function start(): Promise<number> {
  if (kind === "serve") {
    const environments = { names: ["frozen_lake"], idleSeconds: 5 };
    return (await serveTiny({ host: "0.0.0.0", key, environments })).port;
  }
  const folder = mkdtempSync(join(tmpdir(), "saccade-hostile-"));
  // Closed: a file that is left open is closed by the garbage collector, with a warning.
  await (await writeRun(join(folder, "small"))).close("finished");
  return (await startViewer({ folder, host: "0.0.0.0", key: key })).port;
}

process.on("disconnect", () => process.exit());
process.send?.(await start());
