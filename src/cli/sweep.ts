/**
 * `saccade sweep`: one recipe with every combination of the values that `--set` lists, each with several seeds, and one report. Every run is a process of its own
 * (`saccade train`) in a folder named after its settings; so whatever is killed, the same command plays on with what is missing and reports the same numbers.
 */
import { spawn } from "node:child_process";
import { closeSync, existsSync, mkdirSync, openSync, readFileSync } from "node:fs";
import { availableParallelism } from "node:os";
import { join, resolve } from "node:path";
import { Command } from "commander";
import { ConfigError } from "../core/index.ts";
import { printable } from "../core/printable.ts";
import { nameOfEngine } from "../engine/index.ts";
import { writeAtomic } from "../run/files.ts";
import { readManifest } from "../run/index.ts";
import { checkRecipe, loadRecipe, type Recipe } from "../train/index.ts";
import { collect, EXIT, onInterrupt, parseSettings, parseValue, sizeOf, wholeNumber } from "./common.ts";
import { duration } from "./panel.ts";
import { WITH_PARENT } from "./parent.ts";
import { markdownReport, measureSweep, reportTable } from "./sweep-report.ts";

type Flags = { set: string[]; seeds: number; jobs: number; out?: string; metric: string; report?: boolean };

export type SweepRun = {
  /** Names its folder, too. */
  readonly name: string;
  readonly setting: string;
  readonly seed: number;
  /** As `--set` takes them. */
  readonly pairs: readonly string[];
};

export function sweepCommand(): Command {
  return new Command("sweep")
    .description("train a recipe with several settings and seeds, and compare them")
    .argument("<recipe>", "a name that `saccade recipes` lists, or a file such as ./my-recipe.ts")
    .option(
      "--set <key=values>",
      "a field and its values as a JSON list, 'optimizer.learningRate=[1e-3,3e-3]' (repeat for every combination); a single value applies to all runs",
      collect,
      [],
    )
    .option(
      "--seeds <n>",
      "number of seeds per setting, counting up from the recipe's seed",
      wholeNumber("--seeds", 1),
      1,
    )
    .option("--jobs <n>", "runs at a time; they share the cores", wholeNumber("--jobs", 1), 1)
    .option("--out <folder>", "folder for the runs and the report (default sweeps/<recipe>)")
    .option("--metric <name>", "metric to compare, by its last value in each run", "eval/success")
    .option("--report", "only write the report of existing runs")
    .action(runSweep);
}

async function runSweep(name: string, flags: Flags): Promise<void> {
  // A field that every run sets may be missing in the recipe itself.
  const [first] = planSweep(flags.set, 1, 0) as [SweepRun];
  const recipe = loadRecipe(name, parseSettings(first.pairs.slice(0, -1)));
  const runs = planSweep(flags.set, flags.seeds, recipe.seed);
  // Every setting is checked before the first run, which may take hours.
  for (const { pairs } of runs) checkRecipe(loadRecipe(name, parseSettings(pairs)));
  const folder = resolve(flags.out ?? join("sweeps", recipe.name));
  await keepPlan(folder, name, runs);
  const failed = flags.report ? [] : await playAll(name, recipe, runs, folder, flags.jobs);
  const measured = await measureSweep(runs, folder, flags.metric);
  const text = markdownReport(recipe.name, flags.metric, measured);
  await writeAtomic(join(folder, "report.md"), text);
  await writeAtomic(join(folder, "report.json"), `${JSON.stringify({ metric: flags.metric, ...measured }, null, 2)}\n`);
  const width = process.stdout.isTTY ? sizeOf(process.stdout).columns - 1 : Number.MAX_SAFE_INTEGER;
  process.stdout.write(`\n${reportTable(flags.metric, measured, width).join("\n")}\n`);
  process.stdout.write(`report: ${join(folder, "report.md")}\ncurves: saccade view ${folder}\n`);
  if (failed.length > 0) {
    process.stderr.write(
      `${failed.length} of ${runs.length} runs did not finish; the same command goes on with them.\n`,
    );
    process.exitCode = failed.includes("interrupted") ? EXIT.interrupted : EXIT.failed;
  }
}

/** Every combination of the listed values, seeds innermost. */
export function planSweep(sets: readonly string[], seeds: number, firstSeed: number): SweepRun[] {
  const axes = sets.map((pair) => {
    const at = pair.indexOf("=");
    if (at < 1) throw new ConfigError(`--set takes key=value or key=[value, …], got "${pair}".`);
    const [key, value] = [pair.slice(0, at), parseValue(pair.slice(at + 1))];
    if (key === "seed")
      throw new ConfigError("--set seed: use --seeds, so that the report can take the mean over them.");
    const values = Array.isArray(value) ? value : undefined;
    if (values?.length === 0) throw new ConfigError(`--set ${pair}: the list is empty.`);
    return {
      key,
      swept: values !== undefined,
      texts: values?.map((one) => JSON.stringify(one)) ?? [pair.slice(at + 1)],
    };
  });
  const repeated = axes.find(({ key }, i) => axes.findIndex((axis) => axis.key === key) !== i);
  if (repeated !== undefined) throw new ConfigError(`--set ${repeated.key} is there twice: list its values in one.`);
  let points: { readonly pairs: string[]; readonly label: string[] }[] = [{ pairs: [], label: [] }];
  for (const { key, swept, texts } of axes) {
    points = points.flatMap(({ pairs, label }) =>
      texts.map((text) => ({
        pairs: [...pairs, `${key}=${text}`],
        label: swept ? [...label, `${key}=${text.replaceAll('"', "")}`] : label,
      })),
    );
  }
  const runs = points.flatMap(({ pairs, label }) =>
    Array.from({ length: seeds }, (_, i): SweepRun => {
      const seed = firstSeed + i;
      const setting = label.join(" ") || "as it is";
      const name = [...label.map(fileName), `seed=${seed}`].join(",");
      return { name, setting, seed, pairs: [...pairs, `seed=${seed}`] };
    }),
  );
  // Two values that a file name can't tell apart get numbers.
  return runs.map((run, i) =>
    runs.some(({ name }, j) => j < i && name === run.name) ? { ...run, name: `${run.name}-${i}` } : run,
  );
}

/** `optimizer.learningRate=0.001` → `learningRate=0.001`, with nothing that a file system minds. */
const fileName = (label: string) =>
  label
    .replace(/^[^=]*\./, "")
    .replaceAll(/[^\w.=+-]/g, "_")
    .slice(0, 60);

/** A folder belongs to one sweep: the runs of another would be mixed into its report. */
async function keepPlan(folder: string, recipe: string, runs: readonly SweepRun[]): Promise<void> {
  const file = join(folder, "sweep.json");
  const plan = `${JSON.stringify({ recipe, runs: runs.map(({ name, pairs }) => ({ name, pairs })) }, null, 2)}\n`;
  if (existsSync(file) && readFileSync(file, "utf8") !== plan) {
    throw new ConfigError(
      `${folder} holds another sweep (see sweep.json): repeat its command to go on with it, or name another --out.`,
    );
  }
  mkdirSync(join(folder, "logs"), { recursive: true });
  await writeAtomic(file, plan);
}

/** Returns how each run that did not finish ended. */
async function playAll(
  recipeName: string,
  recipe: Recipe,
  runs: readonly SweepRun[],
  folder: string,
  jobs: number,
): Promise<("failed" | "interrupted")[]> {
  const waiting: SweepRun[] = [];
  for (const run of runs) {
    const { manifest } = await readManifest(join(folder, run.name));
    if (manifest?.status !== "finished") waiting.push(run);
  }
  const there = runs.length - waiting.length;
  process.stderr.write(`${runs.length} runs in ${folder}${there > 0 ? `, ${there} of them finished already` : ""}\n`);
  const interrupt = onInterrupt(() =>
    process.stderr.write("\nfinishing the steps that are under way, again to stop now\n"),
  );
  const share = Math.max(1, Math.floor(availableParallelism() / jobs));
  const threads =
    jobs > 1 && nameOfEngine(recipe.engine) === "native"
      ? ["--set", `engine.name="native"`, "--set", `engine.threads=${share}`]
      : [];
  const unfinished: ("failed" | "interrupted")[] = [];
  const took: number[] = [];
  const left = () => {
    const running = Math.min(jobs, runs.length) - 1;
    const mean = took.reduce((sum, ms) => sum + ms, 0) / Math.max(1, took.length);
    // Those that run beside this one are half done, as far as anybody knows.
    const rest = (mean * (waiting.length + Math.max(0, running) / 2)) / jobs;
    return waiting.length === 0 ? "" : `, about ${duration(rest)} left`;
  };
  const lane = async () => {
    for (let run = waiting.shift(); run !== undefined && !interrupt.interrupted; run = waiting.shift()) {
      const number = `[${runs.indexOf(run) + 1}/${runs.length}] ${run.name}`;
      const started = performance.now();
      process.stderr.write(`${number}: started\n`);
      const log = join(folder, "logs", `${run.name}.log`);
      const code = await trainOne(
        [recipeName, ...run.pairs.flatMap((pair) => ["--set", pair]), ...threads, "--out", join(folder, run.name)],
        log,
      );
      const ms = performance.now() - started;
      if (code === EXIT.ok) {
        took.push(ms);
        process.stderr.write(`${number}: done after ${duration(ms)}${left()}\n`);
      } else {
        unfinished.push(code === EXIT.interrupted ? "interrupted" : "failed");
        const why = code === EXIT.interrupted ? "stopped" : `failed: ${lastLine(log)} (see ${log})`;
        process.stderr.write(`${number}: ${why}\n`);
      }
    }
  };
  await Promise.all(Array.from({ length: Math.min(jobs, waiting.length) }, lane));
  return [...unfinished, ...waiting.map(() => "interrupted" as const)];
}

/** Output goes to the log. The channel tells the run when this process is gone, however it went: nothing trains on behind somebody's back. */
function trainOne(words: readonly string[], log: string): Promise<number> {
  const file = openSync(log, "a");
  const program = process.argv[1] as string;
  const child = spawn(process.execPath, [...process.execArgv, program, "train", ...words], {
    stdio: ["ignore", file, file, "ipc"],
    env: { ...process.env, [WITH_PARENT]: "1" },
  });
  closeSync(file);
  return new Promise((done, fail) => {
    child.once("error", fail);
    child.once("exit", (code) => done(code ?? EXIT.failed));
  });
}

function lastLine(file: string): string {
  return printable(readFileSync(file, "utf8").trim().split("\n").at(-1) ?? "");
}
