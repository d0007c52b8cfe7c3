/**
 * Adapters in PEFT's format: for each adapted module `base_model.model.<module>.lora_A.weight` [rank, in] and `…lora_B.weight`
 * [out, rank], added to the module as (alpha / rank) · B·A. A starts as PEFT starts it (uniform within 1/√in), B at zero, so a new
 * adapter changes nothing. On disk: adapter_model.safetensors and adapter_config.json, which `PeftModel.from_pretrained` loads.
 *
 * The language head and the patch embedding are not adapted (PEFT's "all-linear" leaves them out too). A critic's value head is
 * trained whole and saved beside the adapter, as PEFT does with `modules_to_save`.
 */
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { ConfigError, DataError, errorMessage } from "../../core/errors.ts";
import { isJsonObject } from "../../core/json.ts";
import { NumpyRandom } from "../../core/random-numpy.ts";
import { mixSeed } from "../../core/seed.ts";
import type { ModelConfig } from "../../model/config.ts";
import { parameterShapes, VISION_PREFIX } from "../../model/parameters.ts";
import { readSafetensors, writeSafetensors } from "../../model/safetensors.ts";
import type { LoraSpec } from "../engine.ts";
import { type Freeze, type Head, layOut, type Parameter, Parameters, VALUE_HEAD } from "./parameters.ts";

export const ADAPTER_PREFIX = "base_model.model.";
const WEIGHTS = "adapter_model.safetensors";
const CONFIG = "adapter_config.json";

type AdapterOptions = { readonly head: Head; readonly freeze?: Freeze };

/** Modules that can be adapted, with their [out, in], in the order of the model. */
function linearModules(config: ModelConfig): Map<string, readonly number[]> {
  const modules = new Map<string, readonly number[]>();
  for (const [name, shape] of parameterShapes(config)) {
    if (shape.length !== 2 || /embed|^lm_head/.test(name)) continue;
    modules.set(name.slice(0, -".weight".length), shape);
  }
  return modules;
}

function lastPart(module: string): string {
  return module.slice(module.lastIndexOf(".") + 1);
}

/** Low-rank matrices beside a base that stays as it is. */
export type Adapter = { readonly spec: LoraSpec; readonly scaling: number; readonly parameters: Parameters };

/** The adapter's parameters. Adapters take AdamW: orthogonalising the factors would not orthogonalise their product. */
export function adapterLayout(config: ModelConfig, spec: LoraSpec, options: AdapterOptions): Parameter[] {
  const { rank, alpha, targets } = spec;
  if (!Number.isSafeInteger(rank) || rank < 1)
    throw new ConfigError(`LoRA rank must be a whole number ≥ 1, got ${rank}.`);
  if (!(alpha > 0)) throw new ConfigError(`LoRA alpha must be positive, got ${alpha}.`);
  const modules = [...linearModules(config)];
  const known = new Set(modules.map(([module]) => lastPart(module)));
  for (const target of targets ?? []) {
    if (!known.has(target)) {
      throw new ConfigError(`LoRA target "${target}" names no linear layer. The names are ${[...known].join(", ")}.`);
    }
  }
  const chosen = modules.filter(([module]) => {
    const sees = module.startsWith(VISION_PREFIX);
    const held = options.freeze === "vision" ? sees : options.freeze === "language" ? !sees : false;
    return !held && (targets === undefined || targets.includes(lastPart(module)));
  });
  if (chosen.length === 0)
    throw new ConfigError("No LoRA target is left: they are all in the frozen part of the model.");
  const matrices = chosen.flatMap(([module, [out = 0, from = 0]]) => [
    { name: `${ADAPTER_PREFIX}${module}.lora_A.weight`, shape: [rank, from] },
    { name: `${ADAPTER_PREFIX}${module}.lora_B.weight`, shape: [out, rank] },
  ]);
  const rest = { matrix: false, trainable: true };
  const score = {
    name: `${ADAPTER_PREFIX}${VALUE_HEAD}`,
    shape: [1, config.text.hiddenSize],
    group: "head",
    ...rest,
  } as const;
  return layOut([
    ...matrices.map((matrix) => ({ ...matrix, group: "lora" as const, ...rest })),
    ...(options.head === "value" ? [score] : []),
  ]);
}

export function createAdapter(
  config: ModelConfig,
  spec: LoraSpec,
  options: AdapterOptions & { readonly seed: number },
): Adapter {
  const parameters = new Parameters(adapterLayout(config, spec, options));
  for (const { name, shape } of parameters.layout) {
    if (!name.endsWith("lora_A.weight")) continue;
    const bound = 1 / Math.sqrt(shape[1] as number);
    // A stream per matrix: other targets do not change this one.
    const random = new NumpyRandom(mixSeed("lora", options.seed, name));
    const values = parameters.view(name);
    for (let i = 0; i < values.length; i++) values[i] = random.uniform(-bound, bound);
  }
  return { spec, scaling: spec.alpha / spec.rank, parameters };
}

/** Writes the two files of an adapter; `base` is the folder or name of the model it belongs to. */
export async function saveAdapter(folder: string, adapter: Adapter, base: string | null): Promise<void> {
  const { rank, alpha } = adapter.spec;
  const names = adapter.parameters.layout.map(({ name }) => name);
  const modules = names
    .filter((name) => name.endsWith(".lora_A.weight"))
    .map((name) => lastPart(name.slice(0, -".lora_A.weight".length)));
  const json = {
    base_model_name_or_path: base,
    bias: "none",
    fan_in_fan_out: false,
    inference_mode: true,
    init_lora_weights: true,
    lora_alpha: alpha,
    lora_dropout: 0,
    modules_to_save: names.includes(`${ADAPTER_PREFIX}${VALUE_HEAD}`) ? ["score"] : null,
    peft_type: "LORA",
    r: rank,
    // "proj" alone would also be the patch embedding, which is a convolution.
    target_modules: [...new Set(modules)].map((module) => (module === "proj" ? "attn.proj" : module)).sort(),
    task_type: null,
    use_dora: false,
    use_rslora: false,
  };
  await mkdir(folder, { recursive: true });
  await writeSafetensors(join(folder, WEIGHTS), adapter.parameters.tensors());
  await writeFile(join(folder, CONFIG), `${JSON.stringify(json, null, 2)}\n`);
}

/** Reads an adapter that we or PEFT wrote for this model. */
export async function loadAdapter(folder: string, config: ModelConfig, options: AdapterOptions): Promise<Adapter> {
  const file = join(folder, CONFIG);
  let json: unknown;
  try {
    json = JSON.parse(await readFile(file, "utf8"));
  } catch (error) {
    throw new DataError(
      `Can't read the adapter ${file}: ${errorMessage(error)}. Name a folder that PEFT or Saccade wrote.`,
    );
  }
  if (!isJsonObject(json) || json.peft_type !== "LORA") throw new DataError(`${file} is not a LoRA adapter of PEFT.`);
  const { r: rank, lora_alpha: alpha } = json;
  if (typeof rank !== "number" || typeof alpha !== "number") throw new DataError(`${file} lacks r or lora_alpha.`);
  const patterns = [json.rank_pattern, json.alpha_pattern].some((x) => isJsonObject(x) && Object.keys(x).length > 0);
  if (json.use_dora === true || (json.bias ?? "none") !== "none" || patterns) {
    throw new DataError(`${file}: DoRA, biases and ranks that differ by layer are not supported. Train a plain LoRA.`);
  }
  const tensors = await readSafetensors(join(folder, WEIGHTS));
  const modules = linearModules(config);
  const targets = new Set<string>();
  for (const name of tensors.keys()) {
    const module = name.slice(ADAPTER_PREFIX.length).replace(/\.lora_[AB]\.weight$/, "");
    if (modules.has(module)) targets.add(lastPart(module));
  }
  const spec = { rank, alpha, targets: [...targets] };
  const parameters = new Parameters(adapterLayout(config, spec, options));
  parameters.load(tensors);
  return { spec, scaling: json.use_rslora === true ? alpha / Math.sqrt(rank) : alpha / rank, parameters };
}
