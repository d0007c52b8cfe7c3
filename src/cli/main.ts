#!/usr/bin/env node
/** The `saccade` command: one file per subcommand, wired together here. */
import { readFileSync } from "node:fs";
import { Command } from "commander";
import "../index.ts"; // shares this copy of Saccade with the user's files
import { EXIT } from "./common.ts";
import { demosCommand } from "./demos.ts";
import { doctorCommand } from "./doctor.ts";
import { envsCommand } from "./envs.ts";
import { evalCommand } from "./eval.ts";
import { explainFailure } from "./failure.ts";
import { modelCommand } from "./model.ts";
import { playCommand } from "./play.ts";
import { plotCommand } from "./plot.ts";
import { runsCommand } from "./runs.ts";
import { scaleCommand } from "./scale.ts";
import { serveCommand } from "./serve.ts";
import { sftCommand } from "./sft.ts";
import { ticketsCommand } from "./tickets.ts";
import { torchCommand } from "./torch.ts";
import { trainCommand } from "./train.ts";
import { uploadCommand } from "./upload.ts";
import { viewCommand } from "./view.ts";
import { vllmCommand } from "./vllm.ts";

const { version } = JSON.parse(readFileSync(new URL("../package.json", import.meta.url), "utf8")) as {
  version: string;
};

const program = new Command("saccade")
  .description("Train vision-language agents by multi-turn reinforcement learning.")
  .version(version)
  .option("--debug", "show where an error comes from")
  .showHelpAfterError("(--help shows what there is)")
  .exitOverride()
  .addHelpText(
    "after",
    `
Start here:
  saccade envs                                          list environments
  saccade play maze_2d/easy                             play one in the terminal
  saccade play sokoban --oracle --gif solved.gif        watch the oracle solve it
  saccade demos frozen_lake --episodes 100 --out d.jsonl   demonstrations for supervised training
  saccade train quickstart                              teach a tiny model to cross a frozen lake
  saccade view                                          look at the runs in a browser
  saccade eval ./my-model --env maze_2d/easy --seeds 0..69   measure any model
  saccade serve --model ./my-model                      answer as OpenAI's and vLLM's servers do
Exit codes: 0 done · 1 failed · 2 wrong usage · 130 interrupted`,
  );

for (const command of [
  envsCommand(),
  playCommand(),
  demosCommand(),
  ticketsCommand(),
  modelCommand(),
  trainCommand(),
  sftCommand(),
  evalCommand(),
  serveCommand(),
  scaleCommand(),
  viewCommand(),
  runsCommand(),
  plotCommand(),
  uploadCommand(),
  torchCommand(),
  vllmCommand(),
  doctorCommand(),
]) {
  // Options of the program work after a command too, so its help lists them.
  program.addCommand(command.exitOverride().configureHelp({ showGlobalOptions: true }));
}

// A reader that has seen enough (`| head`) is not an error.
process.stdout.on("error", (error: NodeJS.ErrnoException) => {
  if (error.code === "EPIPE") process.exit(EXIT.ok);
  throw error;
});

try {
  await program.parseAsync();
} catch (error) {
  const { text, code } = explainFailure(error, program.opts<{ debug?: boolean }>().debug === true);
  process.stderr.write(text);
  process.exitCode = code;
}
