/** `saccade run export`: a run's metrics for other tools: TensorBoard's event files, CSV or Parquet. */
import { writeFile } from "node:fs/promises";
import { basename, resolve } from "node:path";
import { Command, Option } from "commander";
import { ConfigError } from "../core/index.ts";
import { Follower, isRun, loadEvents, metricTable, TensorBoardTracker, toCsv, toParquet } from "../run/index.ts";

const FORMATS = ["tensorboard", "csv", "parquet"] as const;
type Flags = { readonly format: (typeof FORMATS)[number]; readonly out?: string };

export function exportCommand(): Command {
  return new Command("export")
    .description("export a run's metrics for other tools")
    .argument("<run>", "run folder")
    .addOption(
      new Option("--format <name>", "file format; `tensorboard` also has images, texts and histograms")
        .choices(FORMATS)
        .makeOptionMandatory(),
    )
    .option(
      "--out <path>",
      "folder (tensorboard) or file to write (default: named after the run, in the current folder)",
    )
    .action(async (folder: string, { format, out }: Flags) => {
      if (!(await isRun(folder))) {
        throw new ConfigError(`${folder} is not a run folder; saccade runs lists your runs.`);
      }
      const name = basename(resolve(folder));
      const path = resolve(out ?? (format === "tensorboard" ? `${name}-tensorboard` : `${name}.${format}`));
      if (format === "tensorboard") {
        const follower = new Follower(resolve(folder), new TensorBoardTracker(path));
        await follower.catchUp();
        await follower.close("finished");
      } else {
        const table = metricTable((await loadEvents(folder)).events);
        await writeFile(path, format === "csv" ? toCsv(table) : await toParquet(table));
      }
      process.stdout.write(`${path}\n`);
    });
}
