/** `saccade train`: a recipe, from its warm start to its last checkpoint. Interrupted, it saves; called again, it goes on. */
import { join, resolve } from "node:path";
import { Command } from "commander";
import { ConfigError, DataError } from "../core/index.ts";
import { checkEngineConfig, type EngineConfig, nameOfEngine } from "../engine/index.ts";
import { CheckpointStore, isRun, loadEvents } from "../run/index.ts";
import {
  checkRecipe,
  checkSources,
  chooseRun,
  loadRecipe,
  pinModel,
  type Recipe,
  recipeConfig,
  train,
  warmStartUpdates,
} from "../train/index.ts";
import { collect, EXIT, onInterrupt, parseSettings, sizeOf } from "./common.ts";
import { ENGINE_FLAG, withEngine } from "./engine.ts";
import { prepareKernels } from "./kernels.ts";
import { Kit } from "./kit.ts";
import { LiveView } from "./live.ts";
import { wrapText } from "./panel.ts";
import { endWithParent } from "./parent.ts";
import { RUNS_FOLDER } from "./runs.ts";
import { memoryLine, recipeMemory } from "./scale.ts";
import { printReport } from "./train-report.ts";

type Flags = {
  set: string[];
  engine?: EngineConfig;
  model?: string;
  tokenizer?: string;
  out?: string;
  resume?: boolean;
  new?: boolean;
  dryRun?: boolean;
  kit?: boolean;
};

export function trainCommand(): Command {
  return new Command("train")
    .description("train a model with a recipe")
    .argument("<recipe>", "a name that `saccade recipes` lists, or a file such as ./my-recipe.ts")
    .option("--set <key=value>", "change a field of the recipe (repeat), for example --set steps=50", collect, [])
    .option(...ENGINE_FLAG)
    .option("--model <name>", "model folder or run; with --engine tinker, the base model's name on the server")
    .option("--tokenizer <folder>", "with --engine tinker: folder with the model's tokenizer files")
    .option("--out <folder>", "run folder (default runs/<name>, and runs/<name>-2 for a changed recipe)")
    .option("--resume", "only continue an existing run, or extend a finished one")
    .option("--new", "always start a new run")
    .option("--kit", "check download, memory, sight and drift, and write a report that you can send to us")
    .option("--dry-run", "check the recipe and print all of it, without training")
    .action(runTrain);
}

async function runTrain(name: string, flags: Flags): Promise<void> {
  endWithParent();
  const recipe = await pinModel(loadRecipe(name, withModel(withEngine(parseSettings(flags.set), flags.engine), flags)));
  if (flags.resume && flags.new) throw new ConfigError("Choose one of --resume and --new.");
  checkRecipe(recipe);
  checkEngineConfig(recipe.engine);
  await checkSources(recipe);
  if (flags.dryRun) {
    process.stdout.write(`${JSON.stringify(recipeConfig(recipe), null, 2)}\n`);
    const memory = await recipeMemory(recipe);
    if (memory !== undefined) process.stderr.write(`${memoryLine(memory)}\n`);
    return;
  }
  const kit = flags.kit ? await Kit.open(recipe) : undefined;
  await runRecipe(recipe, { ...flags, kit, mode: flags.resume ? "resume" : flags.new ? "new" : "either" });
}

/** A server has the weights, and a folder the tokenizer: then `model` of the recipe is that folder. */
function withModel(settings: Record<string, unknown>, { engine, model, tokenizer }: Flags): Record<string, unknown> {
  if (model === undefined && tokenizer === undefined) return settings;
  const remote = engine !== undefined && /^tinker(@|$)/.test(nameOfEngine(engine));
  if (!remote) {
    if (tokenizer !== undefined)
      throw new ConfigError("--tokenizer is for --engine tinker: a model folder has its own.");
    return { ...settings, model: resolve(model as string) };
  }
  const given = settings.engine as Record<string, unknown>;
  return {
    ...settings,
    ...(tokenizer !== undefined && { model: resolve(tokenizer) }),
    engine: { ...given, ...(model !== undefined && { model }) },
  };
}

/** A terminal would break the line inside a word. */
function fitted(text: string): string {
  return process.stderr.isTTY ? wrapText(text, sizeOf(process.stderr).columns - 1).join("\n") : text;
}

/** Trains, shows it, and prints what came out. `out`: the run folder, where it is not `runs/<name>`, or `<name>-2` for a changed recipe. */
export async function runRecipe(
  recipe: Recipe,
  {
    out,
    mode,
    kit,
  }: { readonly out?: string; readonly mode: "new" | "resume" | "either"; readonly kit?: Kit | undefined },
): Promise<void> {
  const wanted = resolve(out ?? join(RUNS_FOLDER, recipe.name));
  const { folder, what, note } = await chooseRun(recipe, wanted, { mode, named: out !== undefined });
  if (note !== undefined) process.stderr.write(`${note}\n`);
  if (what === "finished") {
    process.stderr.write(
      `${folder} is finished, and the recipe is the same, so nothing runs. This is what came out. Start anew with --new; go further with --resume --set steps=N.\n`,
    );
    const latest = await new CheckpointStore(folder).latest();
    await kit?.write(folder, true);
    return printReport(folder, latest === undefined ? folder : join(latest.path, "policy"));
  }
  const before = what === "resume" ? (await loadEvents(folder)).events : [];
  const saved = what === "resume" ? await new CheckpointStore(folder).latest() : undefined;
  const warm = await warmStartUpdates(recipe.warmStart);
  if (what === "resume") process.stderr.write(`${fitted(goesOn(saved, warm, recipe.steps))}\n`);
  const { name, steps, groups, siblings, warmStart } = recipe;
  const plan = { warm, warmEpisodes: warmStart?.batch ?? 0, steps, stepEpisodes: groups * siblings };
  if (recipe.expect) process.stderr.write(`${fitted(`expected: ${recipe.expect}`)}\n`);
  process.stderr.write(`run folder: ${folder}\n`);
  const abort = new AbortController();
  let stopping: () => void = () => {
    process.stderr.write("\nStopped before the run began.\n");
    process.exit(EXIT.interrupted);
  };
  onInterrupt(() => {
    stopping();
    abort.abort();
  });
  await prepareKernels(recipe.engine);
  // Only now: its panel redraws itself, and would draw over the line about the compiler.
  const view = new LiveView({ name, plan, before });
  stopping = () => view.stopping();
  let finished = false;
  // A folder that holds a run already is refused: its report stays.
  const isTaken = what === "new" && (await isRun(folder));
  const result = await train({
    recipe,
    folder,
    mode: what,
    signal: abort.signal,
    onEvent: (event) => {
      view.see(event);
      const wrong = kit?.see(event);
      if (wrong !== undefined) {
        view.stopping();
        abort.abort();
      }
    },
    onPhase: (phase) => view.enter(phase),
  })
    .then((result) => {
      finished = result.finished;
      return result;
    })
    .finally(async () => {
      view.close();
      if (isTaken) return;
      // What the run came to, or ended with, counts more than its report.
      await kit?.write(folder, finished).catch((error: Error) => {
        process.stderr.write(`The report was not written: ${error.message}\n`);
      });
    });
  if (kit?.wrong !== undefined) throw new DataError(kit.wrong);
  if (!result.finished) {
    process.stderr.write(`${fitted(`Stopped after ${view.where}. The same command goes on from there.`)}\n`);
    process.exitCode = EXIT.interrupted;
    return;
  }
  await printReport(folder, result.model);
}

/** In the counts that the panel uses: updates of the warm start, then steps. */
function goesOn(saved: { readonly step: number } | undefined, warm: number, steps: number): string {
  if (saved === undefined) return "The run has no checkpoint yet, so it begins again.";
  const { step } = saved;
  if (step < warm) return `The run goes on after update ${step} of ${warm} of the warm start.`;
  return `The run goes on after step ${step - warm} of ${steps}.`;
}
