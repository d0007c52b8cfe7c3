/** `saccade runs`: the runs in a folder and where they stand. */
import { Command } from "commander";
import { ConfigError } from "../core/index.ts";
import { listRuns } from "../run/index.ts";
import { isFolder } from "./common.ts";

const DEFAULT_FOLDER = "runs";

export function runsCommand(): Command {
  return new Command("runs")
    .description("list training runs")
    .argument("[folder]", "where the run folders are", DEFAULT_FOLDER)
    .option("--json", "as JSON")
    .action(async (folder: string, flags: { json?: boolean }) => {
      // The default may be missing; a folder that somebody named may not.
      if (folder !== DEFAULT_FOLDER && !isFolder(folder)) {
        throw new ConfigError(`There is no folder ${folder}; name the folder that your runs are in.`);
      }
      const runs = await listRuns(folder);
      if (flags.json) {
        process.stdout.write(`${JSON.stringify(runs, null, 2)}\n`);
        return;
      }
      if (runs.length === 0)
        process.stdout.write(`There are no runs in ${folder}; start one with: saccade train quickstart\n`);
      for (const { name, status, step, metrics, path } of runs) {
        const figures = ["eval/success", "eval/success_greedy", "eval/floor", "eval/ceiling"].flatMap((metric) =>
          metrics[metric] === undefined ? [] : [`${metric} ${metrics[metric].toFixed(2)}`],
        );
        process.stdout.write(
          `${name.padEnd(20)} ${status.padEnd(12)} step ${String(step).padStart(5)}  ${figures.join("  ")}  ${path}\n`,
        );
      }
    });
}
