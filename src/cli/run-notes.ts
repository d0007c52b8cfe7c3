/** `saccade run star|tag|note|archive|delete`: what people say about runs. A run is named by its folder, or by its name in `runs/`. Only `delete` removes anything, and it asks first. */
import { join } from "node:path";
import { createInterface } from "node:readline/promises";
import { Command } from "commander";
import { ConfigError } from "../core/index.ts";
import { changeNotes, deleteRun, isRun, type RunNotes, readNotes } from "../run/index.ts";
import { EXIT } from "./common.ts";
import { RUNS_FOLDER } from "./runs.ts";

const RUN = "a run folder, or the name of a run in runs/";

export function noteCommands(): Command[] {
  return [
    switchCommand("star", "mark runs with a star", "star"),
    switchCommand("archive", "hide runs from `saccade runs` and the viewer's list; nothing is removed", "archived"),
    new Command("tag")
      .description("add tags to a run; without tags, print them")
      .argument("<run>", RUN)
      .argument("[tags...]", "tags")
      .option("--remove", "remove the tags instead")
      .action(async (run: string, words: string[], { remove }: { remove?: boolean }) => {
        const path = await runFolder(run);
        const { tags } = await readNotes(path);
        const next = remove ? tags.filter((tag) => !words.includes(tag)) : [...tags, ...words];
        const { tags: now } = words.length === 0 ? { tags } : await changeNotes(path, { tags: next });
        process.stdout.write(`${now.length === 0 ? "no tags" : now.join(" ")}\n`);
      }),
    new Command("note")
      .description("write a note about a run; without text, print it")
      .argument("<run>", RUN)
      .argument("[text...]", 'the note; "" removes it')
      .action(async (run: string, words: string[]) => {
        const path = await runFolder(run);
        const { note } =
          words.length === 0 ? await readNotes(path) : await changeNotes(path, { note: words.join(" ") });
        process.stdout.write(`${note || "no note"}\n`);
      }),
    new Command("delete")
      .description("delete runs and all their files, after confirmation")
      .argument("<runs...>", RUN)
      .option("--yes", "do not ask")
      .action(deleteRuns),
  ];
}

function switchCommand(name: string, description: string, field: "star" | "archived"): Command {
  return new Command(name)
    .description(description)
    .argument("<runs...>", RUN)
    .option("--off", "undo")
    .action(async (runs: string[], { off }: { off?: boolean }) => {
      const change: Partial<RunNotes> = field === "star" ? { star: off !== true } : { archived: off !== true };
      for (const path of await Promise.all(runs.map(runFolder))) {
        await changeNotes(path, change);
        process.stdout.write(`${path}: ${off ? "no longer " : ""}${field === "star" ? "starred" : "archived"}\n`);
      }
    });
}

async function deleteRuns(runs: string[], { yes }: { yes?: boolean }): Promise<void> {
  // Every name is looked up before anything goes.
  const paths = await Promise.all(runs.map(runFolder));
  if (!yes) {
    if (!process.stdin.isTTY) throw new ConfigError("Nobody is there to ask: add --yes to delete without a question.");
    const input = createInterface({ input: process.stdin, output: process.stderr });
    const answer = await input.question(`Delete ${paths.join(", ")} with all checkpoints and episodes? [y/N] `);
    input.close();
    if (!/^y(es)?$/i.test(answer.trim())) {
      process.stderr.write("Nothing was deleted.\n");
      process.exitCode = EXIT.failed;
      return;
    }
  }
  for (const path of paths) {
    await deleteRun(path);
    process.stdout.write(`deleted ${path}\n`);
  }
}

export async function runFolder(named: string): Promise<string> {
  for (const path of [named, join(RUNS_FOLDER, named)]) if (await isRun(path)) return path;
  throw new ConfigError(`There is no run "${named}"; saccade runs lists your runs.`);
}
