/**
 * Models on disk, worker side. A model is a Hugging Face folder (under LoRA, a PEFT adapter folder) with nothing of ours in it: vLLM takes every
 * `*.safetensors` there for weights. What only we need lies beside the folder `policy`: a critic's value head in `policy.value_head.safetensors`, the
 * learner's state in `policy.state.safetensors`. Folders of earlier versions, which held both, still load.
 * A folder is written beside its place and moved there when it is complete.
 */
import { mkdir, mkdtemp, readdir, readFile, rm, stat } from "node:fs/promises";
import { basename, dirname, join, resolve } from "node:path";
import { ConfigError, DataError } from "../../core/errors.ts";
import { move } from "../../core/move.ts";
import { NumpyRandom } from "../../core/random-numpy.ts";
import { mixSeed } from "../../core/seed.ts";
import { readWeights, saveFolder } from "../../model/folder.ts";
import { readSafetensors, type Tensors, writeSafetensors } from "../../model/safetensors.ts";
import { visionIds } from "../../model/vision-ids.ts";
import type { JobOf, LearnerState, LoadedModel, ModelRef } from "./jobs.ts";
import { ADAPTER_PREFIX, createAdapter, loadAdapter, saveAdapter } from "./lora.ts";
import type { Models } from "./models.ts";
import { Optimizer } from "./optimizer.ts";
import { modelLayout, Parameters, VALUE_HEAD } from "./parameters.ts";
import { viewParameters } from "./weights.ts";

const VALUE_FILE = "value_head.safetensors";
const STATE_FILE = "state.safetensors";
/** Where the state of an earlier version lay, inside the folder. */
const OLD_STATE_FILE = "optimizer.safetensors";
const ADAPTER_FILE = "adapter_config.json";
const OUTPUT_HEAD = "lm_head.weight";

export async function loadModel(models: Models, job: JobOf<"load">): Promise<LoadedModel> {
  const given = resolve(job.folder);
  const isAdapter = await exists(join(given, ADAPTER_FILE));
  const folder = isAdapter ? await baseOf(given) : given;
  const { config, tokenizer } = await models.folder(folder);
  const options = { head: job.head, ...(job.freeze && { freeze: job.freeze }) };
  const layout = modelLayout(config, { ...options, frozen: job.lora !== undefined || isAdapter });
  const parameters = new Parameters(layout);
  await readBase(parameters, folder, config);
  const head = parameters.find(VALUE_HEAD) && parameters.view(VALUE_HEAD);
  if (head !== undefined && !(await readValueHead(head, folder))) initialValueHead(head, job.seed);
  const maskedIds = visionIds(config.ids, tokenizer.special);
  const model = { config, folder, weights: parameters.buffer, maskedIds };
  if (isAdapter) {
    if (job.lora !== undefined) {
      throw new ConfigError(
        `${given} is an adapter. Name its base model as the folder, and load the adapter into the learner.`,
      );
    }
    const { spec, scaling, parameters: adapter } = await loadAdapter(given, config, options);
    return { ...model, lora: { spec, scaling, weights: adapter.buffer } };
  }
  if (job.lora === undefined) return model;
  const { scaling, parameters: adapter } = createAdapter(config, job.lora, { ...options, seed: job.seed });
  const score = `${ADAPTER_PREFIX}${VALUE_HEAD}`;
  if (head !== undefined && adapter.find(score)) adapter.view(score).set(head);
  return { ...model, lora: { spec: job.lora, scaling, weights: adapter.buffer } };
}

export async function saveModel(models: Models, { model, folder, state }: JobOf<"save">): Promise<null> {
  await writeWhole(resolve(folder), async (to, beside) => {
    const { base, adapter } = viewParameters(model);
    if (adapter !== undefined && model.lora !== undefined) {
      await saveAdapter(to, { ...model.lora, parameters: adapter }, model.folder);
    } else {
      const weights = base.tensors();
      const head = weights.get(VALUE_HEAD);
      if (head !== undefined) {
        weights.delete(VALUE_HEAD);
        if (state !== undefined) await writeSafetensors(beside(VALUE_FILE), [[VALUE_HEAD, head]]);
        if (!model.config.text.tied) {
          const kept = (await readWeights(model.folder, model.config)).get(OUTPUT_HEAD);
          if (kept !== undefined) weights.set(OUTPUT_HEAD, kept);
        }
      }
      await saveFolder(to, model.folder, weights);
    }
    if (state === undefined) return;
    const tensors = new Optimizer(models.kernels, adapter ?? base, state.moments).tensors();
    const counters = { step: state.step, version: state.version, moved: state.moved ? 1 : 0 };
    for (const [name, value] of Object.entries(counters)) {
      tensors.set(name, { shape: [1], data: Float32Array.of(value) });
    }
    await writeSafetensors(beside(STATE_FILE), tensors);
  });
  return null;
}

export async function restoreModel(
  models: Models,
  { model, folder, moments }: JobOf<"restore">,
): Promise<LearnerState> {
  const { base, adapter } = viewParameters(model);
  const trained = adapter ?? base;
  // Everything is read and checked before anything is overwritten.
  const fresh = new Parameters(trained.layout);
  if (adapter !== undefined && model.lora !== undefined) {
    const options = { head: model.head, ...(model.freeze && { freeze: model.freeze }) };
    const loaded = await loadAdapter(folder, model.config, options);
    const { rank, alpha } = model.lora.spec;
    if (loaded.spec.rank !== rank || loaded.scaling !== model.lora.scaling) {
      throw new DataError(
        `The adapter in ${folder} has rank ${loaded.spec.rank}, alpha ${loaded.spec.alpha}; this learner has ${rank} and ${alpha}.`,
      );
    }
    fresh.load(loaded.parameters.tensors());
  } else {
    await readBase(fresh, folder, model.config);
    const head = fresh.find(VALUE_HEAD) && fresh.view(VALUE_HEAD);
    if (head !== undefined && !(await readValueHead(head, folder))) {
      throw new DataError(`There is no value head next to ${folder}: it is not the checkpoint of a critic.`);
    }
  }
  const optimizer = new Optimizer(models.kernels, fresh);
  const file = await firstOf(besidePath(resolve(folder), STATE_FILE), join(folder, OLD_STATE_FILE));
  const state: Tensors = file === undefined ? new Map() : await readSafetensors(file);
  if (file !== undefined) optimizer.load(state);
  trained.flat.set(fresh.flat);
  new Float32Array(moments.first).set(optimizer.first);
  new Float32Array(moments.second).set(optimizer.second);
  const counter = (name: string, otherwise: number) => state.get(name)?.data[0] ?? otherwise;
  return { step: optimizer.step, version: counter("version", 0), moved: counter("moved", 1) === 1 };
}

/** A critic has no language head, and its value head is not among the weights. */
async function readBase(into: Parameters, folder: string, config: ModelRef["config"]): Promise<void> {
  const tensors: Tensors = await readWeights(folder, config);
  into.load(tensors, [OUTPUT_HEAD, VALUE_HEAD]);
}

async function readValueHead(into: Float32Array, folder: string): Promise<boolean> {
  const file = await firstOf(besidePath(resolve(folder), VALUE_FILE), join(folder, VALUE_FILE));
  if (file === undefined) return false;
  const tensor = (await readSafetensors(file)).get(VALUE_HEAD);
  if (tensor?.data.length !== into.length)
    throw new DataError(`${file} does not fit this model; it needs ${VALUE_HEAD} of ${into.length} numbers.`);
  into.set(tensor.data);
  return true;
}

/** Normal with deviation 1 / (width + 1): values begin near 0. */
function initialValueHead(into: Float32Array, seed: number): void {
  const random = new NumpyRandom(mixSeed("value head", seed));
  for (let i = 0; i < into.length; i++) {
    const radius = Math.sqrt(-2 * Math.log(1 - random.random()));
    into[i] = (radius * Math.cos(2 * Math.PI * random.random())) / (into.length + 1);
  }
}

async function baseOf(adapter: string): Promise<string> {
  const file = join(adapter, ADAPTER_FILE);
  const json = JSON.parse(await readFile(file, "utf8")) as { base_model_name_or_path?: unknown };
  const base = json.base_model_name_or_path;
  if (typeof base === "string" && (await exists(base))) return resolve(base);
  throw new ConfigError(
    `${file}: its base model ${JSON.stringify(base)} is not a folder here. Set base_model_name_or_path.`,
  );
}

/**
 * Runs `write` in folders of its own, then puts what it wrote in place: the model at once where nothing is there, else file by file; what lies
 * beside it last.
 */
async function writeWhole(
  folder: string,
  write: (to: string, beside: (name: string) => string) => Promise<void>,
): Promise<void> {
  await mkdir(dirname(folder), { recursive: true });
  const draft = await mkdtemp(join(dirname(folder), `.${basename(folder)}-`));
  const to = join(draft, "model");
  const companions: string[] = [];
  try {
    await mkdir(to);
    await write(to, (name) => {
      companions.push(name);
      return join(draft, name);
    });
    // State that belongs to older weights must not be found beside new ones.
    for (const name of [VALUE_FILE, STATE_FILE]) await rm(besidePath(folder, name), { force: true });
    if (await exists(folder)) {
      for (const name of [VALUE_FILE, OLD_STATE_FILE]) await rm(join(folder, name), { force: true });
      for (const name of await readdir(to)) await move(join(to, name), join(folder, name));
    } else {
      await move(to, folder);
    }
    for (const name of companions) await move(join(draft, name), besidePath(folder, name));
  } finally {
    await rm(draft, { recursive: true, force: true });
  }
}

/** `…/policy` and `state.safetensors` make `…/policy.state.safetensors`. */
function besidePath(folder: string, name: string): string {
  return `${folder}.${name}`;
}

async function firstOf(...files: readonly string[]): Promise<string | undefined> {
  for (const file of files) if (await exists(file)) return file;
  return undefined;
}

function exists(path: string): Promise<boolean> {
  return stat(path).then(
    () => true,
    () => false,
  );
}
