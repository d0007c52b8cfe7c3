#!/usr/bin/env node
/** The `saccade` command: one file per subcommand, wired together here. */
import { readFileSync } from "node:fs";
import { Command } from "commander";
import { isPath } from "../envs/load.ts";
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

// A command is loaded when it is called: a game in the terminal needs no trainer and no client of hosted models.
const commands: Readonly<Record<string, () => Promise<Command>>> = {
  envs: async () => (await import("./envs.ts")).envsCommand(),
  play: async () => (await import("./play.ts")).playCommand(),
  demos: async () => (await import("./demos.ts")).demosCommand(),
  tickets: async () => (await import("./tickets.ts")).ticketsCommand(),
  model: async () => (await import("./model.ts")).modelCommand(),
  train: async () => (await import("./train.ts")).trainCommand(),
  sft: async () => (await import("./sft.ts")).sftCommand(),
  eval: async () => (await import("./eval.ts")).evalCommand(),
  serve: async () => (await import("./serve.ts")).serveCommand(),
  scale: async () => (await import("./scale.ts")).scaleCommand(),
  view: async () => (await import("./view.ts")).viewCommand(),
  runs: async () => (await import("./runs.ts")).runsCommand(),
  plot: async () => (await import("./plot.ts")).plotCommand(),
  upload: async () => (await import("./upload.ts")).uploadCommand(),
  torch: async () => (await import("./torch.ts")).torchCommand(),
  vllm: async () => (await import("./vllm.ts")).vllmCommand(),
  doctor: async () => (await import("./doctor.ts")).doctorCommand(),
};
const words = process.argv.slice(2);
const asked = words.find((word) => !word.startsWith("-")) ?? "";
// The user's files share this copy of Saccade, all of it; these commands load none unless it is named.
if (!["envs", "play", "demos"].includes(asked) || words.some(isPath)) await import("../index.ts");
const one = commands[asked];
for (const load of one === undefined ? Object.values(commands) : [one]) {
  // Options of the program work after a command too, so its help lists them.
  program.addCommand((await load()).exitOverride().configureHelp({ showGlobalOptions: true }));
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
