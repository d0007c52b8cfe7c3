/** `saccade run pack`: runs as one self-contained page, not larger than is asked for. */
import { Command, Option } from "commander";
import { ConfigError } from "../core/index.ts";
import { EXPORT_BYTES, exportRuns } from "../viewer/export.ts";
import { checkWritable, isFolder } from "./common.ts";

const MB = 1024 * 1024;

export function packCommand(): Command {
  return new Command("pack")
    .description("pack a run into one HTML page that needs no server")
    .argument("<run>", "a run folder, or a folder of runs")
    .requiredOption("--out <file>", "HTML file to write")
    .addOption(
      new Option("--max-size <size>", "maximum size of the page: 20MB, 500KB, or a number of MB")
        .argParser(readSize)
        .default(EXPORT_BYTES, `${EXPORT_BYTES / MB}MB`),
    )
    .action(async (folder: string, { out, maxSize }: { out: string; maxSize: number }) => {
      if (!isFolder(folder)) {
        throw new ConfigError(`There is no folder ${folder}; name a run folder, or a folder of runs.`);
      }
      checkWritable(out, "--out");
      const { bytes, trajectories, leftOut } = await exportRuns({ folder, out, maxBytes: maxSize });
      const allowed = `${(maxSize / MB).toFixed(1)} MB allowed`;
      process.stdout.write(`${out}: ${(bytes / MB).toFixed(1)} MB (${allowed}), ${trajectories} trajectories\n`);
      for (const what of leftOut) process.stdout.write(`left out: ${what}\n`);
    });
}

export function readSize(text: string): number {
  const [, number = "", unit = "MB"] = /^\s*(\d+(?:\.\d+)?)\s*(KB|MB|GB)?\s*$/i.exec(text) ?? [];
  const bytes = Number(number) * { KB: 1024, MB, GB: 1024 * MB }[unit.toUpperCase() as "KB" | "MB" | "GB"];
  if (bytes > 0) return Math.floor(bytes);
  throw new ConfigError(`--max-size takes a size such as 20MB or 500KB, got "${text}".`);
}
