/** `saccade data`: files to train on and to measure by. */
import { Command } from "commander";
import { exportDataCommand, importDataCommand } from "./atif.ts";
import { demosCommand } from "./demos.ts";
import { episodesCommand } from "./episodes.ts";
import { recordCommand } from "./record.ts";
import { ticketsCommand } from "./tickets.ts";

export function dataCommand(): Command {
  const data = new Command("data").description("write demonstrations and tickets; export and import trajectories");
  for (const command of [
    demosCommand(),
    recordCommand(),
    episodesCommand(),
    ticketsCommand(),
    exportDataCommand(),
    importDataCommand(),
  ])
    data.addCommand(command.exitOverride());
  return data;
}
