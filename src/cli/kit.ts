/**
 * `saccade train RECIPE --kit`: a run on somebody's own machine, with a report to send back. Before anything is loaded it checks that the model's files are whole
 * and that the plan fits the GPU; during the first step that sampler and learner agree and that the model looks. What it found stands in the report, passed or not.
 */
import { mkdir, open, readdir, readFile, stat, writeFile } from "node:fs/promises";
import { cpus, release, totalmem } from "node:os";
import { join } from "node:path";
import { ConfigError } from "../core/index.ts";
import { isJsonObject } from "../core/json.ts";
import { sum } from "../core/numbers.ts";
import { defaultPython, findTorch, learnerSettings, type TorchInstall } from "../engine/index.ts";
import { modelPath } from "../model/index.ts";
import { loadEvents, type RunEvent } from "../run/index.ts";
import { episodeGif } from "../train/film.ts";
import { type Recipe, recipeConfig } from "../train/index.ts";
import { curveOf } from "../train/model-card.ts";
import { exportRuns } from "../viewer/export.ts";
import { memoryLine, recipeMemory } from "./scale.ts";

const GIB = 2 ** 30;
/** Mean nats between sampler and learner in the first step. In half precision sound runs have about 0.01. */
const MAX_DRIFT = 0.05;
const REPORT_BYTES = 50 * 2 ** 20;

type Check = { readonly what: string; readonly passed: boolean; readonly found: string };

export class Kit {
  readonly #recipe: Recipe;
  readonly #checks: Check[];
  readonly #machine: Record<string, unknown>;
  #isAgreed = false;
  #isSighted = false;
  /** Why the run should not go on. */
  wrong: string | undefined;

  private constructor(recipe: Recipe, checks: Check[], machine: Record<string, unknown>) {
    this.#recipe = recipe;
    this.#checks = checks;
    this.#machine = machine;
  }

  /** Checks what can be checked before a model is loaded, and throws what to do. */
  static async open(recipe: Recipe): Promise<Kit> {
    const checks: Check[] = [];
    if (typeof recipe.model === "string") checks.push(await checkDownload(modelPath(recipe.model)));
    const settings = learnerSettings(recipe.engine);
    const install = settings === undefined ? undefined : await findTorch(settings.python ?? defaultPython());
    if (install !== undefined)
      checks.push(await checkFit(recipe, settings?.device?.startsWith("cpu") ? [] : install.memories));
    if (recipe.sight.every === 0)
      throw new ConfigError("--kit measures sight: leave sight.every out, or set it to 1 or more.");
    const kit = new Kit(recipe, checks, machineOf(install));
    for (const check of checks) say(check);
    return kit;
  }

  /** Takes the run's events. Returns why it should stop. */
  see({ kind, metrics }: RunEvent): string | undefined {
    const gap = metrics["sight/gap"];
    if (gap !== undefined && !this.#isSighted) {
      this.#isSighted = true;
      const [low, high] = [metrics["sight/gap_low"], metrics["sight/gap_high"]];
      const mismatches = metrics["sight/hash_mismatches"] ?? 0;
      const interval =
        low === undefined || high === undefined ? "" : `, 95 % interval ${low.toFixed(3)} to ${high.toFixed(3)}`;
      this.#add(
        "sight",
        mismatches === 0 && (low ?? gap) > 0,
        `own frames make a reply ${gap.toFixed(3)} nats likelier than others'${interval}; ${mismatches} image hashes differ`,
      );
      if (mismatches > 0)
        this.wrong =
          "Images that were sampled with and those that were trained with differ: please report this as a bug, with the report.";
    }
    const drift = metrics["drift/mean"];
    if (kind === "train" && drift !== undefined && !this.#isAgreed) {
      this.#isAgreed = true;
      const passed = drift <= MAX_DRIFT;
      const largest = metrics["drift/max"] ?? Number.NaN;
      this.#add(
        "drift",
        passed,
        `mean ${drift.toExponential(1)}, largest ${largest.toExponential(1)} nats between sampler and learner; at most ${MAX_DRIFT} on average`,
      );
      if (!passed)
        this.wrong = `Sampler and learner differ by ${drift.toFixed(3)} nats on average. Training on that is not sound: please send the report.`;
    }
    return this.wrong;
  }

  /** A folder next to the run: the whole run as a page, the figures as text, the curve and an episode. */
  async write(run: string, finished: boolean): Promise<void> {
    const folder = `${run}-report`;
    await mkdir(folder, { recursive: true });
    const { events } = await loadEvents(run);
    // An earlier process may have measured what this one did not.
    for (const event of events) this.see(event);
    const config = recipeConfig(this.#recipe);
    const about = {
      finished,
      minutes: sum(events.map(({ metrics }) => metrics["time/step"] ?? 0)) / 60,
      checks: this.#checks,
      machine: this.#machine,
      recipe: config,
    };
    await writeFile(join(folder, "kit.json"), `${JSON.stringify(about, null, 2)}\n`);
    await writeFile(join(folder, "REPORT.md"), this.#text(events, finished));
    const curve = curveOf(events, this.#recipe.name);
    if (curve !== undefined) await writeFile(join(folder, "curve.png"), curve);
    const last = events.findLast(({ kind }) => kind === "eval");
    const film = last && (await episodeGif(run, last.step));
    if (film !== undefined) await writeFile(join(folder, "episode.gif"), film);
    await exportRuns({ folder: run, out: join(folder, "run.html"), maxBytes: REPORT_BYTES });
    process.stderr.write(`report: ${folder} (send the whole folder)\n`);
  }

  #add(what: string, passed: boolean, found: string): void {
    const check = { what, passed, found };
    this.#checks.push(check);
    say(check);
  }

  #text(events: readonly RunEvent[], finished: boolean): string {
    const evaluations = events.filter(({ kind }) => kind === "eval");
    const trained = events.filter(({ kind }) => kind === "train");
    const cell = (event: RunEvent, name: string) => event.metrics[name]?.toFixed(3) ?? "–";
    const names = [
      "eval/success",
      "eval/success_low",
      "eval/success_high",
      "eval/success_greedy",
      "eval/floor",
      "eval/ceiling",
    ];
    const steps = ["train/reward", "train/success", "drift/mean", "time/sample", "time/learn"];
    const table = (of: readonly RunEvent[], columns: readonly string[]) =>
      [
        `| step | ${columns.join(" | ")} |`,
        `| --: | ${columns.map(() => "--:").join(" | ")} |`,
        ...of.map((event) => `| ${event.step} | ${columns.map((name) => cell(event, name)).join(" | ")} |`),
      ].join("\n");
    return [
      `# ${this.#recipe.name}`,
      `${finished ? "The run finished." : "The run was stopped before its end."} ${trained.length} steps, ${evaluations.length} evaluations. \`run.html\` has every episode, \`kit.json\` the machine and the whole recipe.`,
      `## Checks\n\n${this.#checks.map(({ what, passed, found }) => `- ${passed ? "passed" : "FAILED"}: ${what}: ${found}`).join("\n")}`,
      `## Evaluations\n\n${evaluations.length === 0 ? "There was none." : table(evaluations, names)}`,
      `## Steps\n\n${trained.length === 0 ? "There was none." : table(trained, steps)}`,
      `## Machine\n\n${Object.entries(this.#machine)
        .map(([name, value]) => `- ${name}: ${JSON.stringify(value)}`)
        .join("\n")}`,
      "",
    ].join("\n\n");
  }
}

function say({ what, passed, found }: Check): void {
  process.stderr.write(`${passed ? "✓" : "✗"} ${what}: ${found}\n`);
}

function machineOf(install: TorchInstall | undefined): Record<string, unknown> {
  return {
    node: process.version,
    system: `${process.platform} ${release()} ${process.arch}`,
    processor: cpus()[0]?.model.trim() ?? "unknown",
    memoryGiB: Math.round(totalmem() / GIB),
    ...(install && {
      torch: install.torch,
      transformers: install.transformers,
      devices: install.devices,
      deviceGiB: install.memories.map((bytes) => Math.round(bytes / GIB)),
    }),
  };
}

/** Every file of weights is as long as its own head says: a download that broke off is found before it is loaded. */
async function checkDownload(folder: string): Promise<Check> {
  const names = (await readdir(folder)).filter((name) => name.endsWith(".safetensors"));
  const index = await readFile(join(folder, "model.safetensors.index.json"), "utf8").catch(() => undefined);
  const wanted = index === undefined ? names : filesOf(index);
  if (wanted === undefined)
    throw new ConfigError(`${folder}/model.safetensors.index.json is not a list of weights: download the model again.`);
  const missing = [...new Set(wanted)].filter((name) => !names.includes(name));
  if (names.length === 0 || missing.length > 0)
    throw new ConfigError(`${folder} lacks ${missing.join(", ") || "model.safetensors"}: download the model again.`);
  let bytes = 0;
  for (const name of names) {
    const { size } = await stat(join(folder, name));
    const needed = await lengthOf(join(folder, name));
    if (size !== needed) {
      const should = needed === undefined ? "its head is not whole" : `should have ${needed}`;
      throw new ConfigError(`${join(folder, name)} has ${size} bytes, and ${should}: download the model again.`);
    }
    bytes += size;
  }
  return {
    what: "download",
    passed: true,
    found: `${names.length === 1 ? "one file" : `${names.length} files`} of weights, ${(bytes / 1e9).toFixed(2)} GB, each as long as its head says`,
  };
}

/** Files that an index names; undefined: it is none. */
function filesOf(index: string): string[] | undefined {
  try {
    const { weight_map: files } = JSON.parse(index) as { weight_map?: unknown };
    const names = isJsonObject(files) ? Object.values(files) : [];
    return names.length > 0 && names.every((name) => typeof name === "string") ? names : undefined;
  } catch {
    return undefined;
  }
}

/** Bytes of a safetensors file: eight, its head, and the data up to the last tensor's end. */
async function lengthOf(file: string): Promise<number | undefined> {
  const handle = await open(file);
  try {
    const start = Buffer.alloc(8);
    await handle.read(start, 0, 8, 0);
    const length = Number(start.readBigUInt64LE());
    if (length > 100 * 2 ** 20) return undefined;
    const head = Buffer.alloc(length);
    await handle.read(head, 0, length, 8);
    const tensors = JSON.parse(head.toString("utf8")) as Record<string, { data_offsets?: [number, number] }>;
    return 8 + length + Math.max(0, ...Object.values(tensors).map(({ data_offsets }) => data_offsets?.[1] ?? 0));
  } catch {
    return undefined;
  } finally {
    await handle.close();
  }
}

/** `memories`: of the GPUs that may be used. */
async function checkFit(recipe: Recipe, memories: readonly number[]): Promise<Check> {
  const memory = await recipeMemory(recipe);
  const [least] = [...memories].sort((a, b) => a - b);
  if (least === undefined) return { what: "fit", passed: true, found: "no GPU is used, so no memory was compared" };
  if (memory === undefined)
    return {
      what: "fit",
      passed: true,
      found: "the memory of this model's family is not calculated, so it was not compared",
    };
  if (memory.gpus > memories.length)
    throw new ConfigError(
      `The recipe wants ${memory.gpus} GPUs, and there are ${memories.length}: set engine.processes, and see docs/guide/pytorch.md for small GPUs.`,
    );
  if (memory.first > least)
    throw new ConfigError(
      `The plan needs ${(memory.first / GIB).toFixed(1)} GiB and the GPU has ${(least / GIB).toFixed(1)}. Set engine.checkpointing, a lower engine.packTokens or engine.cacheBytes, or lora with engine.base nf4. \`saccade scale memory\` says what fits.`,
    );
  return { what: "fit", passed: true, found: `${memoryLine(memory)}, of ${(least / GIB).toFixed(1)}` };
}
