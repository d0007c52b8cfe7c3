/** `saccade runs`: the runs in a folder and where they stand. */
import { Command } from "commander";
import { listRuns } from "../run/index.ts";

export function runsCommand(): Command {
  return new Command("runs")
    .description("list training runs")
    .argument("[folder]", "where the run folders are", "runs")
    .option("--json", "as JSON")
    .action(async (folder: string, flags: { json?: boolean }) => {
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
