/**
 * The commands by name, in the order of the help: verbs for what people do, plural nouns that list, singular nouns that act. A command is loaded when it is
 * called: a game in the terminal needs no trainer and no client of hosted models.
 */
import type { Command } from "commander";
import { ConfigError } from "../core/errors.ts";
import { closestWord } from "../core/words.ts";

type Entry = { readonly group: string; readonly load: () => Promise<Command> };

const [DO, LIST, ACT, MACHINES] = ["Commands:", "Lists:", "Recipes, runs, models, data:", "Machines:"];

const COMMANDS: Readonly<Record<string, Entry>> = {
  train: { group: DO, load: async () => (await import("./train.ts")).trainCommand() },
  sft: { group: DO, load: async () => (await import("./sft.ts")).sftCommand() },
  sweep: { group: DO, load: async () => (await import("./sweep.ts")).sweepCommand() },
  eval: { group: DO, load: async () => (await import("./eval.ts")).evalCommand() },
  play: { group: DO, load: async () => (await import("./play.ts")).playCommand() },
  serve: { group: DO, load: async () => (await import("./serve.ts")).serveCommand() },
  mcp: { group: DO, load: async () => (await import("./mcp.ts")).mcpCommand() },
  view: { group: DO, load: async () => (await import("./view.ts")).viewCommand() },
  lab: { group: DO, load: async () => (await import("./lab.ts")).labCommand() },
  check: { group: DO, load: async () => (await import("./check.ts")).checkCommand() },
  init: { group: DO, load: async () => (await import("./init.ts")).initCommand() },
  recipes: { group: LIST, load: async () => (await import("./recipes.ts")).recipesCommand() },
  envs: { group: LIST, load: async () => (await import("./envs.ts")).envsCommand() },
  runs: { group: LIST, load: async () => (await import("./runs.ts")).runsCommand() },
  recipe: { group: ACT, load: async () => (await import("./recipes.ts")).recipeCommand() },
  run: { group: ACT, load: async () => (await import("./run.ts")).runCommand() },
  model: { group: ACT, load: async () => (await import("./model.ts")).modelCommand() },
  data: { group: ACT, load: async () => (await import("./data.ts")).dataCommand() },
  torch: { group: MACHINES, load: async () => (await import("./torch.ts")).torchCommand() },
  vllm: { group: MACHINES, load: async () => (await import("./vllm.ts")).vllmCommand() },
  scale: { group: MACHINES, load: async () => (await import("./scale.ts")).scaleCommand() },
  doctor: { group: MACHINES, load: async () => (await import("./doctor.ts")).doctorCommand() },
};

/** The commands that the help lists, or the one that was called. An unknown name is refused with the nearest one. */
export async function loadCommands(called = ""): Promise<Command[]> {
  const one = Object.hasOwn(COMMANDS, called) ? COMMANDS[called] : undefined;
  const entries = one === undefined ? Object.values(COMMANDS) : [one];
  const commands: Command[] = [];
  // One at a time: under a loader of sources, two that share a file would see half of it.
  for (const { group, load } of entries) commands.push((await load()).helpGroup(group));
  if (one === undefined && called !== "" && called !== "help") throw unknownCommand(called, commands);
  return commands;
}

function unknownCommand(called: string, commands: readonly Command[]): ConfigError {
  const names = commands.map((command) => command.name());
  const inner = commands.flatMap((command) =>
    command.commands.map((sub) => ({ name: sub.name(), path: `${command.name()} ${sub.name()}` })),
  );
  const path =
    inner.find(({ name }) => name === called)?.path ??
    closestWord(called, names) ??
    inner.find(
      ({ name }) =>
        name ===
        closestWord(
          called,
          inner.map((sub) => sub.name),
        ),
    )?.path;
  const near = path === undefined ? "" : ` Did you mean: saccade ${path}?`;
  return new ConfigError(`There is no command "${called}".${near} saccade --help lists the commands.`);
}
