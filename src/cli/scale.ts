/** `saccade scale`: what a run takes before it is started. */
import { join } from "node:path";
import { Command, Option } from "commander";
import { ConfigError } from "../core/index.ts";
import { gpusNeeded, learnerSettings, type Memory, type MemoryPlan, memoryOf } from "../engine/index.ts";
import { readJson } from "../model/files.ts";
import { hasKnownSize, KNOWN_MODELS, type ModelSize, modelPath, modelSize } from "../model/index.ts";
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
  base?: "nf4" | "int8";
  moments?: "int8";
  cacheGib: number;
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
    .description("calculate the GPU memory of a run with the PyTorch engine")
    .argument("[models...]", `folders with a config.json, hf:names, or ${Object.keys(KNOWN_MODELS).join(", ")} (all)`)
    .option("--gpus <n>", "number of GPUs for the learner (default: the fewest that suffice)", wholeNumber("--gpus", 1))
    .option("--gpu-memory <GiB>", "memory of one GPU, in GiB", wholeNumber("--gpu-memory", 1), 80)
    .option("--lora <rank>", "train an adapter of this rank instead of all weights", wholeNumber("--lora", 1))
    .option("--freeze-vision", "do not train the vision tower")
    .addOption(
      new Option("--dtype <name>", "number format of the computation")
        .choices(["bfloat16", "float32"])
        .default("bfloat16"),
    )
    .option(
      "--pack-tokens <n>",
      "tokens in one pass of the learner",
      wholeNumber("--pack-tokens", 1),
      DEFAULTS.packTokens,
    )
    .option("--checkpointing", "recompute activations instead of storing them")
    .option("--offload", "keep 32-bit weights, gradients and moments in host memory")
    .addOption(
      new Option("--base <kind>", "keep frozen layers under an adapter in 4 or 8 bits").choices(["nf4", "int8"]),
    )
    .addOption(new Option("--moments <kind>", "keep the optimizer's moments in 8 bits").choices(["int8"]))
    .option(
      "--cache-gib <GiB>",
      "maximum size of the sampler's cache, in GiB",
      wholeNumber("--cache-gib", 1),
      DEFAULTS.cacheBytes / GIB,
    )
    .option("--critic", "include a critic")
    .option("--kl", "include a reference model for KL")
    .addOption(
      new Option("--sampler <where>", "where replies are sampled: by the worker, or by separate servers (`apart`)")
        .choices(["worker", "apart"])
        .default("worker"),
    )
    .option("--staleness <n>", "the recipe's maxStaleness", wholeNumber("--staleness"), 0)
    .option("--live <n>", "episodes at a time", wholeNumber("--live", 1), 64)
    .option("--context-tokens <n>", "longest sequence in tokens", wholeNumber("--context-tokens", 1), 8192)
    .option("--json", "print JSON")
    .action(runMemory);
  const samplers = new Command("samplers")
    .description("simulate how many samplers a learner needs, with the measured times of an earlier run")
    .argument("<run>", "a run folder; a synchronous run with one sampler tells the most")
    .option("--env-ms <ms>", "time that an environment takes per turn, in milliseconds", wholeNumber("--env-ms"), 5)
    .option("--most <n>", "largest number of samplers to simulate", wholeNumber("--most", 1), 16)
    .action(runSamplers);
  const scale = new Command("scale").description("plan a run: GPU memory, number of samplers");
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

/** What learns on a small GPU, the most first. */
const SMALL_WAYS: readonly { readonly name: string; readonly change: Partial<MemoryPlan> }[] = [
  { name: "all weights", change: {} },
  { name: "all weights, 8-bit moments", change: { moments: "int8" } },
  { name: "LoRA", change: { lora: 32 } },
  { name: "LoRA over 8 bits", change: { lora: 32, base: "int8" } },
  { name: "LoRA over 4 bits", change: { lora: 32, base: "nf4" } },
];
const SMALL_GPUS = [12, 16, 24, 48, 80];
/** The settings of that table, which its last line names. */
const SMALL_PLAN = { packTokens: 4096, checkpointing: true, cacheBytes: 2 * GIB, contextTokens: 4096, gpus: 1 };

/** What learns on one GPU of each size. */
function smallTable(
  models: readonly { readonly model: string; readonly size: ModelSize }[],
  flags: MemoryFlags,
): string {
  // The ways say what learns, and over what.
  const plan = { ...planOf(flags, 1), lora: undefined, base: undefined, moments: undefined, offload: false };
  const lines = models.map(({ model, size }) => [
    model,
    ...SMALL_GPUS.map((gpu) => {
      for (const { name, change } of SMALL_WAYS) {
        const { first } = memoryOf(size, { ...plan, ...SMALL_PLAN, freezeVision: "lora" in change, ...change });
        if (first <= gpu * GIB) return `${name} (${gib(first)})`;
      }
      return "–";
    }),
  ]);
  return `${table(["model", ...SMALL_GPUS.map((gpu) => `${gpu} GiB`)], lines)}

The most that learns on one GPU, and the GiB it takes by calculation; –: nothing does. With engine.checkpointing, engine.packTokens 4096,
engine.cacheBytes 2 GiB, contexts of 4,096 tokens; adapters of rank 32 with freeze "vision"; 8 bits: engine.base int8; 4 bits: nf4.
`;
}

async function runMemory(named: string[], flags: MemoryFlags): Promise<void> {
  if (flags.base !== undefined && flags.lora === undefined)
    throw new ConfigError(`A base of ${flags.base} is frozen and can't learn: add --lora, or leave --base out.`);
  if (flags.base !== undefined && flags.offload)
    throw new ConfigError("A quantised base stays on its device: leave --offload or --base out.");
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
    process.stdout.write(" ¹ The worker runs mixtures of experts in one process only, without offload.");
  process.stdout.write("\n");
  if (flags.gpus === undefined) process.stdout.write(`\n${smallTable(rows, flags)}`);
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
  // As the worker: through transformers' modules weights stay in one piece.
  const isWhole = size.modelType === "qwen3_vl_moe";
  if (isWhole && (flags.offload || (flags.gpus ?? 1) > 1)) return { gpus: undefined, needs: [], memory: undefined };
  if (flags.gpus !== undefined) {
    return { gpus: flags.gpus, needs: [], memory: memoryOf(size, planOf(flags, flags.gpus)) };
  }
  let [tried, needs]: [MemoryFlags, string[]] = [flags, []];
  for (const relief of [undefined, ...RELIEFS]) {
    if (relief?.change.offload && (isWhole || flags.base !== undefined)) continue;
    const next = { ...tried, ...relief?.change };
    if (relief !== undefined) {
      // One that was asked for anyway, or a smaller pass.
      if (JSON.stringify(next) === JSON.stringify(tried) || next.packTokens > tried.packTokens) continue;
      [tried, needs] = [next, [...needs, relief.flag]];
    }
    const plan = planOf(tried, 1);
    const gpus = gpusNeeded(size, plan, flags.gpuMemory * GIB, isWhole ? 1 : undefined);
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
    images: FRAME_SHARE,
    checkpointing,
    offload,
    critic: flags.critic ?? false,
    reference: flags.kl ?? false,
    sampler: flags.sampler,
    staleness: flags.staleness,
    live: flags.live,
    contextTokens: flags.contextTokens,
    cacheBytes: flags.cacheGib * GIB,
    base: flags.base,
    moments: flags.moments,
  };
}

/** Where the PyTorch engine trains a model that is there, of a family whose size is known. */
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
    images: FRAME_SHARE,
    checkpointing: settings.checkpointing ?? false,
    offload: settings.offload ?? false,
    base: settings.base,
    moments: settings.moments,
    critic: recipe.critic !== undefined,
    reference: recipe.kl !== undefined,
    sampler: settings.samples ? "worker" : "apart",
    staleness: recipe.maxStaleness,
    live: recipe.rollout.live,
    contextTokens: recipe.sampling.contextTokens,
    cacheBytes: settings.cacheBytes ?? DEFAULTS.cacheBytes,
  };
  const isKnown = Object.hasOwn(KNOWN_MODELS, model) || hasKnownSize(await readJson(configOf(model), true));
  return isKnown ? { gpus: plan.gpus, ...memoryOf(await sizeOf(model), plan) } : undefined;
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

const configOf = (model: string) => join(modelPath(model), "config.json");

async function sizeOf(model: string): Promise<ModelSize> {
  if (Object.hasOwn(KNOWN_MODELS, model)) return modelSize(KNOWN_MODELS[model], model);
  const file = configOf(model);
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
