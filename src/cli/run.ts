/** `saccade run`: what can be done with a finished or running run. */
import { Command } from "commander";
import { exportCommand } from "./export.ts";
import { packCommand } from "./pack.ts";
import { plotCommand } from "./plot.ts";
import { noteCommands } from "./run-notes.ts";
import { uploadCommand } from "./upload.ts";

export function runCommand(): Command {
  const run = new Command("run").description("plot, export, pack, upload and organize runs");
  for (const command of [plotCommand(), exportCommand(), packCommand(), uploadCommand(), ...noteCommands()])
    run.addCommand(command.exitOverride());
  return run;
}
