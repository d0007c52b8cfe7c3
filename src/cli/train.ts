/** `saccade train`: a recipe, from its warm start to its last checkpoint. Interrupted, it saves; called again, it goes on. */
import { writeFileSync } from "node:fs";
import { join, relative, resolve } from "node:path";
import { Command } from "commander";
import { ConfigError } from "../core/index.ts";
import { checkEngineConfig, type EngineConfig, nameOfEngine } from "../engine/index.ts";
import { CheckpointStore, loadEvents, type RunEvent } from "../run/index.ts";
import { episodeGif } from "../train/film.ts";
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
import { collect, EXIT, onInterrupt, parseSettings } from "./common.ts";
import { ENGINE_FLAG, withEngine } from "./engine.ts";
import { prepareKernels } from "./kernels.ts";
import { LiveView } from "./live.ts";
import { endWithParent } from "./parent.ts";
import { memoryLine, recipeMemory } from "./scale.ts";

type Flags = {
  set: string[];
  engine?: EngineConfig;
  model?: string;
  tokenizer?: string;
  out?: string;
  resume?: boolean;
  new?: boolean;
  dryRun?: boolean;
};

export function trainCommand(): Command {
  return new Command("train")
    .description("train a model by a recipe")
    .argument("<recipe>", "a name that `saccade recipes` lists, or a file such as ./my-recipe.ts")
    .option("--set <key=value>", "change a field of the recipe (repeat), for example --set steps=50", collect, [])
    .option(...ENGINE_FLAG)
    .option("--model <name>", "a model folder or a run; with --engine tinker the base model's name at the server")
    .option("--tokenizer <folder>", "with --engine tinker: a folder with the model's tokenizer files")
    .option("--out <folder>", "run folder (default runs/<name>, and runs/<name>-2 for a changed recipe)")
    .option("--resume", "only go on with a run that is there, or go further with a finished one")
    .option("--new", "start a new run, whatever is there")
    .option("--dry-run", "check the recipe and print it whole, do nothing")
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
  await runRecipe(recipe, { ...flags, mode: flags.resume ? "resume" : flags.new ? "new" : "either" });
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

/** Trains, shows it, and prints what came out. `out`: the run folder, where it is not `runs/<name>`, or `<name>-2` for a changed recipe. */
export async function runRecipe(
  recipe: Recipe,
  { out, mode }: { readonly out?: string; readonly mode: "new" | "resume" | "either" },
): Promise<void> {
  const wanted = resolve(out ?? join("runs", recipe.name));
  const { folder, what, note } = await chooseRun(recipe, wanted, { mode, named: out !== undefined });
  if (note !== undefined) process.stderr.write(`${note}\n`);
  if (what === "finished") {
    process.stderr.write(
      `${folder} is finished, and the recipe is the same, so nothing runs. This is what came out. Start anew with --new; go further with --resume --set steps=N.\n`,
    );
    const latest = await new CheckpointStore(folder).latest();
    return report(folder, latest === undefined ? folder : join(latest.path, "policy"));
  }
  const before = what === "resume" ? (await loadEvents(folder)).events : [];
  const saved = what === "resume" ? await new CheckpointStore(folder).latest() : undefined;
  const warm = await warmStartUpdates(recipe.warmStart);
  if (what === "resume") process.stderr.write(`${goesOn(saved, warm, recipe.steps)}\n`);
  const view = new LiveView({ name: recipe.name, warm, steps: recipe.steps, before });
  process.stderr.write(`${recipe.name}: ${recipe.expect || "no expected curve is recorded"}\nrun folder: ${folder}\n`);
  const abort = new AbortController();
  let isTraining = false;
  onInterrupt(() => {
    if (!isTraining) {
      process.stderr.write("\nStopped before the run began.\n");
      process.exit(EXIT.interrupted);
    }
    view.stopping();
    abort.abort();
  });
  await prepareKernels(recipe.engine);
  isTraining = true;
  const result = await train({
    recipe,
    folder,
    mode: what,
    signal: abort.signal,
    onEvent: (event) => view.see(event),
    onPhase: (phase) => view.enter(phase),
  }).finally(() => view.close());
  if (!result.finished) {
    process.stderr.write(`Stopped after ${view.where}. The same command goes on from there.\n`);
    process.exitCode = EXIT.interrupted;
    return;
  }
  await report(folder, result.model);
}

/** In the counts that the panel uses: updates of the warm start, then steps. */
function goesOn(saved: { readonly step: number } | undefined, warm: number, steps: number): string {
  if (saved === undefined) return "The run has no checkpoint yet, so it begins again.";
  const { step } = saved;
  if (step < warm) return `The run goes on after update ${step} of ${warm} of the warm start.`;
  return `The run goes on after step ${step - warm} of ${steps}.`;
}

/** Before and after, beside floor and ceiling, and one episode as an animation. */
async function report(folder: string, model: string): Promise<void> {
  const { events } = await loadEvents(folder);
  const evaluations = events.filter((event) => event.kind === "eval");
  // One that failed and was made up when the run went on is in the file twice.
  const first = evaluations.findLast(({ step }) => step === evaluations[0]?.step);
  const last = evaluations.at(-1);
  if (first !== undefined && last !== undefined) process.stdout.write(`\n${table(first, last)}\n`);
  const sights = events.filter((event) => event.kind === "sight").at(-1)?.metrics;
  if (sights?.["sight/gap"] !== undefined) {
    const [gap, low, high] = ["sight/gap", "sight/gap_low", "sight/gap_high"].map((name) => sights[name]?.toFixed(3));
    const [seeing, grey] = ["sight/success", "sight/success_grey"].map((name) => sights[name]?.toFixed(3));
    const blind = grey === undefined ? "" : `; success ${seeing} with its frames, ${grey} with grey ones`;
    const interval = low === undefined ? "one episode, so no interval" : `95 % interval ${low} to ${high}`;
    process.stdout.write(
      `\nsight: own frames make a reply ${gap} nats likelier than another episode's (${interval})${blind}\n`,
    );
  }
  const film = last && (await episodeGif(folder, last.step));
  const gif = join(folder, "episode.gif");
  if (film !== undefined) writeFileSync(gif, film);
  process.stdout.write(`model: ${model}\n${film ? `episode: ${gif}\n` : ""}`);
  const run = relative(process.cwd(), folder) || ".";
  const env = Object.keys(last?.metrics ?? {}).flatMap((name) => /^eval\/success\/(.+)$/.exec(name)?.[1] ?? [])[0];
  process.stdout.write(
    [
      "\nNext:",
      "  saccade view                      look at the run in a browser",
      ...(env === undefined ? [] : [`  saccade play ${env} --agent ${run}   watch the model play`]),
      `  saccade eval ${run}   measure it again`,
      "",
    ].join("\n"),
  );
}

function table(first: RunEvent, last: RunEvent): string {
  // A supervised run is evaluated once, at its end.
  const events = first === last ? [last] : [first, last];
  const row = (label: string, cell: (event: RunEvent) => string) => `| ${[label, ...events.map(cell)].join(" | ")} |`;
  const value = (name: string) => (event: RunEvent) => event.metrics[name]?.toFixed(3) ?? "–";
  const withFailed = (name: string, failed: string) => (event: RunEvent) =>
    `${value(name)(event)}${event.metrics[failed] ? ` (${event.metrics[failed]} failed)` : ""}`;
  return [
    row(
      `${last.metrics["eval/asked"] ?? ""} held-out episodes`,
      (event) => `${event === last ? "after" : "before"} (step ${event.step})`,
    ),
    row("---", () => "---"),
    row("asked, played, failed", (event) =>
      ["asked", "episodes", "failed"].map((name) => event.metrics[`eval/${name}`] ?? "–").join(", "),
    ),
    row("success, sampled", value("eval/success")),
    row("95 % interval", (event) => `${value("eval/success_low")(event)}–${value("eval/success_high")(event)}`),
    row("success, greedy", withFailed("eval/success_greedy", "eval/failed_greedy")),
    row("floor: stop at once", withFailed("eval/floor", "eval/floor_failed")),
    row("floor: random play", withFailed("eval/random", "eval/random_failed")),
    row("ceiling: oracle", withFailed("eval/ceiling", "eval/ceiling_failed")),
  ].join("\n");
}
