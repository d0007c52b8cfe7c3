/** `saccade scale`: what a run takes before it is started. */
import { join } from "node:path";
import { Command, Option } from "commander";
import { ConfigError } from "../core/index.ts";
import { gpusNeeded, learnerSettings, type Memory, type MemoryPlan, memoryOf } from "../engine/index.ts";
import { readJson } from "../model/files.ts";
import { KNOWN_MODELS, type ModelSize, modelPath, modelSize } from "../model/index.ts";
import { loadEvents, readManifest } from "../run/index.ts";
import { costsOfRun, type Recipe, resolveRecipe, samplersNeeded, simulateLoop } from "../train/index.ts";
import { wholeNumber } from "./common.ts";

const GIB = 2 ** 30;
/** What the worker takes on CUDA when nothing is said. */
const DEFAULTS = { packTokens: 16_384, cacheBytes: 32 * GIB };
/** Share of an episode's tokens that are of its frames. */
const FRAME_SHARE = 0.5;

type MemoryFlags = {
  gpus?: number;
  gpuMemory: number;
  lora?: number;
  freezeVision?: boolean;
  dtype: MemoryPlan["dtype"];
  packTokens: number;
  checkpointing?: boolean;
  offload?: boolean;
  critic?: boolean;
  kl?: boolean;
  sampler: MemoryPlan["sampler"];
  staleness: number;
  live: number;
  contextTokens: number;
  json?: boolean;
};

export function scaleCommand(): Command {
  const memory = new Command("memory")
    .description("GPU memory of a run with the PyTorch engine, by calculation")
    .argument("[models...]", `folders with a config.json, hf:names, or ${Object.keys(KNOWN_MODELS).join(", ")} (all)`)
    .option("--gpus <n>", "GPUs of the learner (default: the fewest that suffice)", wholeNumber("--gpus", 1))
    .option("--gpu-memory <GiB>", "of one GPU", wholeNumber("--gpu-memory", 1), 80)
    .option("--lora <rank>", "an adapter learns instead of all weights", wholeNumber("--lora", 1))
    .option("--freeze-vision", "the tower does not learn")
    .addOption(new Option("--dtype <name>", "of the computation").choices(["bfloat16", "float32"]).default("bfloat16"))
    .option("--pack-tokens <n>", "tokens in one pass", wholeNumber("--pack-tokens", 1), DEFAULTS.packTokens)
    .option("--checkpointing", "activations are computed again")
    .option("--offload", "masters, gradients and moments lie in host memory")
    .option("--critic", "with a critic")
    .option("--kl", "with a reference for KL")
    .addOption(
      new Option("--sampler <where>", "replies are sampled by the worker, or by servers apart")
        .choices(["worker", "apart"])
        .default("worker"),
    )
    .option("--staleness <n>", "maxStaleness of the recipe", wholeNumber("--staleness"), 0)
    .option("--live <n>", "episodes at a time", wholeNumber("--live", 1), 64)
    .option("--context-tokens <n>", "longest sequence in tokens", wholeNumber("--context-tokens", 1), 8192)
    .option("--json", "as JSON")
    .action(runMemory);
  const samplers = new Command("samplers")
    .description(
      "how many samplers a learner needs: the asynchronous loop played through with the costs of a run that was made",
    )
    .argument("<run>", "a run folder; a synchronous run with one sampler tells most")
    .option("--env-ms <ms>", "what an environment takes for a turn", wholeNumber("--env-ms"), 5)
    .option("--most <n>", "samplers to try", wholeNumber("--most", 1), 16)
    .action(runSamplers);
  const scale = new Command("scale").description("what a run takes, before it is started");
  for (const command of [memory, samplers]) scale.addCommand(command.exitOverride());
  return scale;
}

async function runSamplers(run: string, flags: { envMs: number; most: number }): Promise<void> {
  const { events } = await loadEvents(run);
  const steps = events.flatMap(({ kind, metrics }) => (kind === "train" ? [metrics] : []));
  if (steps.length < 3) throw new ConfigError(`${run} has ${steps.length} steps; name a run of three or more.`);
  const { manifest, problem } = await readManifest(run);
  if (manifest === undefined) throw new ConfigError(problem ?? `${run} has no run.json: name a run folder.`);
  const { groups, siblings, maxStaleness, rollout } = resolveRecipe(manifest.config);
  const recipe = { groups, siblings, maxStaleness, live: rollout.live };
  const costs = costsOfRun(steps, recipe, flags.envMs / 1000);
  const counts = [1, 2, 4, 8, 16, 32, 64, 128].filter((count) => count <= flags.most);
  const lines = [0, 1, 2, 4].flatMap((staleness) =>
    counts.map((count) => {
      const { step, wait, busy } = simulateLoop({ ...costs, maxStaleness: staleness, samplers: count });
      return [String(staleness), String(count), step.toFixed(2), wait.toFixed(2), `${Math.round(100 * busy)} %`];
    }),
  );
  const head = ["maxStaleness", "samplers", "a step, s", "learner waits, s", "samplers busy"];
  process.stdout.write(`${table(head, lines)}\n\n`);
  const needed = samplersNeeded({ ...costs, maxStaleness: 1 }, 0.1, flags.most);
  process.stdout.write(
    needed === undefined
      ? `With maxStaleness 1 no number up to ${flags.most} keeps the learner from waiting: episodes alone take longer than an update.\n`
      : `With maxStaleness 1, ${needed} keep the learner from waiting more than a tenth of its time.\n`,
  );
}

async function runMemory(named: string[], flags: MemoryFlags): Promise<void> {
  const models = named.length > 0 ? named : Object.keys(KNOWN_MODELS);
  const rows = await Promise.all(
    models.map(async (model) => {
      const size = await sizeOf(model);
      return { model, size, ...fitted(size, flags) };
    }),
  );
  if (flags.json) {
    process.stdout.write(
      `${JSON.stringify(
        rows.map(({ model, gpus, needs, memory }) => ({ model, gpus, needs, ...memory })),
        null,
        2,
      )}\n`,
    );
    return;
  }
  const parts = ["weights", "gradients", "moments", "activations", "sampler", "cache", "reference"] as const;
  const lines = rows.map(({ model, size, gpus, needs, memory }) => {
    const parameters = Object.values(size.parameters).reduce((sum, count) => sum + count, 0);
    const name = `${model}${size.modelType === "qwen3_vl_moe" ? " ¹" : ""}`;
    const billions = (parameters / 1e9).toFixed(1);
    if (memory === undefined || gpus === undefined)
      return [name, billions, "–", ...parts.map(() => "–"), "–", "–", "–", "–"];
    const fits = memory.first <= flags.gpuMemory * GIB;
    return [
      name,
      billions,
      String(gpus),
      ...parts.map((part) => gib(memory.parts[part])),
      `${gib(memory.first)}${fits ? "" : " !"}`,
      gib(memory.others),
      gib(memory.host),
      needs.join(" "),
    ];
  });
  const head = ["model", "billions", "GPUs", ...parts, "first GPU", "other GPUs", "host, each", "needs"];
  process.stdout.write(`${table(head, lines)}\n\nGiB on the first GPU, of ${flags.gpuMemory} that there are.`);
  if (rows.some(({ gpus }) => gpus === undefined))
    process.stdout.write(" –: neither more GPUs nor these settings help.");
  if (rows.some(({ size }) => size.modelType === "qwen3_vl_moe"))
    process.stdout.write(" ¹ Experts are not run by our worker: the other road of docs/guide/scaling.md.");
  process.stdout.write("\n");
}

/** Settings that make a model fit where it otherwise would not, each with those before it: the cheapest first. */
const RELIEFS: readonly { readonly flag: string; readonly change: Partial<MemoryFlags> }[] = [
  { flag: "--checkpointing", change: { checkpointing: true } },
  { flag: "--pack-tokens 8192", change: { packTokens: 8192 } },
  { flag: "--sampler apart", change: { sampler: "apart" } },
  { flag: "--offload", change: { offload: true } },
];

/** The fewest GPUs that suffice, with as few further settings as that takes; with `--gpus`, exactly what was asked for. */
function fitted(size: ModelSize, flags: MemoryFlags) {
  if (flags.gpus !== undefined) {
    return { gpus: flags.gpus, needs: [], memory: memoryOf(size, planOf(flags, flags.gpus)) };
  }
  let [tried, needs]: [MemoryFlags, string[]] = [flags, []];
  for (const relief of [undefined, ...RELIEFS]) {
    const next = { ...tried, ...relief?.change };
    if (relief !== undefined) {
      // One that was asked for anyway, or a smaller pass.
      if (JSON.stringify(next) === JSON.stringify(tried) || next.packTokens > tried.packTokens) continue;
      [tried, needs] = [next, [...needs, relief.flag]];
    }
    const plan = planOf(tried, 1);
    const gpus = gpusNeeded(size, plan, flags.gpuMemory * GIB);
    if (gpus !== undefined) return { gpus, needs, memory: memoryOf(size, { ...plan, gpus }) };
  }
  return { gpus: undefined, needs: [], memory: undefined };
}

function planOf(flags: MemoryFlags, gpus: number): MemoryPlan {
  const { lora, freezeVision = false, dtype, packTokens, checkpointing = false, offload = false } = flags;
  return {
    gpus,
    lora,
    freezeVision,
    dtype,
    packTokens,
    pictures: FRAME_SHARE,
    checkpointing,
    offload,
    critic: flags.critic ?? false,
    reference: flags.kl ?? false,
    sampler: flags.sampler,
    staleness: flags.staleness,
    live: flags.live,
    contextTokens: flags.contextTokens,
    cacheBytes: DEFAULTS.cacheBytes,
  };
}

/** Where the PyTorch engine trains a model that is there. */
export async function recipeMemory(recipe: Recipe): Promise<(Memory & { readonly gpus: number }) | undefined> {
  const settings = learnerSettings(recipe.engine);
  const { model } = recipe;
  if (settings === undefined || typeof model !== "string") return undefined;
  const plan: MemoryPlan = {
    gpus: settings.processes ?? 1,
    lora: recipe.lora?.rank,
    freezeVision: recipe.freeze === "vision",
    dtype: settings.dtype ?? "bfloat16",
    packTokens: settings.packTokens ?? DEFAULTS.packTokens,
    pictures: FRAME_SHARE,
    checkpointing: settings.checkpointing ?? false,
    offload: settings.offload ?? false,
    critic: recipe.critic !== undefined,
    reference: recipe.kl !== undefined,
    sampler: settings.samples ? "worker" : "apart",
    staleness: recipe.maxStaleness,
    live: recipe.rollout.live,
    contextTokens: recipe.sampling.contextTokens,
    cacheBytes: settings.cacheBytes ?? DEFAULTS.cacheBytes,
  };
  return { gpus: plan.gpus, ...memoryOf(await sizeOf(model), plan) };
}

/** One line for `--dry-run`. */
export function memoryLine({
  gpus,
  first,
  others,
  host,
}: NonNullable<Awaited<ReturnType<typeof recipeMemory>>>): string {
  const rest = gpus > 1 ? `, ${gib(others)} on the ${gpus - 1} others` : "";
  return `memory by calculation: ${gib(first)} GiB on the first GPU${rest}${host > 0 ? `, ${gib(host)} GiB of host memory for each` : ""}`;
}

async function sizeOf(model: string): Promise<ModelSize> {
  if (Object.hasOwn(KNOWN_MODELS, model)) return modelSize(KNOWN_MODELS[model], model);
  const file = join(modelPath(model), "config.json");
  const json = await readJson(file, true);
  if (json === undefined) {
    throw new ConfigError(
      `There is no ${file}. Name a model folder, hf:NAME, or one of ${Object.keys(KNOWN_MODELS).join(", ")}.`,
    );
  }
  return modelSize(json, file);
}

const gib = (bytes: number) => (bytes / GIB).toFixed(bytes < 10 * GIB ? 1 : 0);

export function table(head: readonly string[], lines: readonly (readonly string[])[]): string {
  const row = (cells: readonly string[]) => `| ${cells.join(" | ")} |`;
  return [row(head), row(head.map((_, i) => (i === 0 ? "---" : "--:"))), ...lines.map(row)].join("\n");
}
