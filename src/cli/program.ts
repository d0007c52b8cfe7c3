/** The commands of `saccade`, and what happens when one fails. Each has a file of its own; `commands.ts` lists them. */
import { readFileSync } from "node:fs";
import { Command } from "commander";
import { isPath } from "../envs/load.ts";
import { loadCommands } from "./commands.ts";
import { EXIT, textColumns } from "./common.ts";
import { explainFailure } from "./failure.ts";
import "../../worlds/register.ts";

const { version } = JSON.parse(readFileSync(new URL("../package.json", import.meta.url), "utf8")) as {
  version: string;
};

const program = new Command("saccade")
  .description("Train vision-language agents with multi-turn reinforcement learning.")
  .version(version)
  .option("--debug", "show where an error comes from")
  .showHelpAfterError("(--help lists the options)")
  .exitOverride()
  .addHelpText(
    "after",
    `
Start here:
  saccade train quickstart       a tiny model learns to see
  saccade view                   look at the run
  saccade eval runs/quickstart   measure the trained model
  saccade play maze_2d/easy      play yourself
  saccade recipes                what else you can train

Exit codes:
  0 done, 1 failed, 2 wrong usage, 130 interrupted`,
  );

const words = process.argv.slice(2);
const called = words.find((word) => !word.startsWith("-")) ?? "";
// The user's files share this copy of Saccade, all of it. These commands, and the help, load none unless it is named.
const LOADS_NO_FILES = ["", "envs", "play", "data", "doctor", "init", "runs", "torch", "vllm"];
if (!LOADS_NO_FILES.includes(called) || words.some(isPath)) await import("../index.ts");

// A reader that has seen enough (`| head`) is not an error.
process.stdout.on("error", (error: NodeJS.ErrnoException) => {
  if (error.code === "EPIPE") process.exit(EXIT.ok);
  throw error;
});

/** Help as wide as the terminal, narrow ones too. Options of the program work after a command, so its help lists them. */
function fitHelp(command: Command): Command {
  for (const inner of command.commands) fitHelp(inner);
  const helpWidth = textColumns(process.stdout, 80);
  return command.configureHelp({ showGlobalOptions: command !== program, helpWidth, minWidthToWrap: 16 });
}

try {
  for (const command of await loadCommands(called)) program.addCommand(command.exitOverride());
  fitHelp(program);
  await program.parseAsync();
} catch (error) {
  const { text, code } = explainFailure(error, program.opts<{ debug?: boolean }>().debug === true);
  process.stderr.write(text);
  process.exitCode = code;
}
