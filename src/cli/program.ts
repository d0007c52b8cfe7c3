/** The commands of `saccade`, and what happens when one fails. Each has a file of its own; `commands.ts` lists them. */
import { readFileSync } from "node:fs";
import { Command } from "commander";
import { isPath } from "../envs/load.ts";
import { loadCommands } from "./commands.ts";
import { EXIT } from "./common.ts";
import { explainFailure } from "./failure.ts";
import "../../worlds/register.ts";

const { version } = JSON.parse(readFileSync(new URL("../package.json", import.meta.url), "utf8")) as {
  version: string;
};

const program = new Command("saccade")
  .description("Train vision-language agents by multi-turn reinforcement learning.")
  .version(version)
  .option("--debug", "show where an error comes from")
  .showHelpAfterError("(--help lists the options)")
  .exitOverride()
  .addHelpText(
    "after",
    `
Start here:
  saccade train quickstart         teach a tiny model to cross a frozen lake
  saccade view                     look at the run in a browser
  saccade eval runs/quickstart     measure the model that it made
  saccade play maze_2d/easy        play an environment yourself
  saccade recipes                  list what else there is to train
Exit codes: 0 done · 1 failed · 2 wrong usage · 130 interrupted`,
  );

const words = process.argv.slice(2);
const called = words.find((word) => !word.startsWith("-")) ?? "";
// The user's files share this copy of Saccade, all of it; these commands load none unless it is named.
if (!["envs", "play", "data"].includes(called) || words.some(isPath)) await import("../index.ts");

// A reader that has seen enough (`| head`) is not an error.
process.stdout.on("error", (error: NodeJS.ErrnoException) => {
  if (error.code === "EPIPE") process.exit(EXIT.ok);
  throw error;
});

try {
  for (const command of await loadCommands(called)) {
    // Options of the program work after a command too, so its help lists them.
    program.addCommand(command.exitOverride().configureHelp({ showGlobalOptions: true }));
  }
  await program.parseAsync();
} catch (error) {
  const { text, code } = explainFailure(error, program.opts<{ debug?: boolean }>().debug === true);
  process.stderr.write(text);
  process.exitCode = code;
}
