/** `saccade run pack`: runs as one self-contained page. */
import { Command } from "commander";
import { ConfigError } from "../core/index.ts";
import { exportRuns } from "../viewer/export.ts";
import { checkWritable, isFolder } from "./common.ts";

export function packCommand(): Command {
  return new Command("pack")
    .description("write a run as one HTML page of at most 50 MB that needs no server")
    .argument("<run>", "a run folder, or a folder of runs")
    .requiredOption("--out <file>", "the page to write")
    .action(async (folder: string, { out }: { out: string }) => {
      if (!isFolder(folder)) {
        throw new ConfigError(`There is no folder ${folder}; name a run folder, or a folder of runs.`);
      }
      checkWritable(out, "--out");
      const { bytes, trajectories, leftOut } = await exportRuns({ folder, out });
      const size = `${(bytes / 1024 / 1024).toFixed(1)} MB`;
      process.stdout.write(`${out}: ${size}, ${trajectories} trajectories\n`);
      for (const what of leftOut) process.stdout.write(`left out: ${what}\n`);
    });
}
