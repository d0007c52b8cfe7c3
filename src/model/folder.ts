/**
 * A model is a Hugging Face folder everywhere. This reads one that the native engine can run (its chat side, configuration and weights,
 * all checked against each other), makes a new one from a preset that `transformers` and vLLM load, and saves trained weights beside the
 * files they came with.
 */
import { copyFile, mkdir, readdir, writeFile } from "node:fs/promises";
import { join, resolve } from "node:path";
import { ConfigError, DataError } from "../core/errors.ts";
import { isJsonObject, type Json, type JsonObject } from "../core/json.ts";
import { type ModelConfig, parseConfig } from "./config.ts";
import { diskFiles, readJson } from "./files.ts";
import { type CreateOptions, type ModelFolder, newModel, readFolder } from "./new-model.ts";
import { parameterShapes } from "./parameters.ts";
import { readShardedSafetensors, type Tensor, type Tensors, writeSafetensors } from "./safetensors.ts";

export type { CreateOptions, ModelFolder } from "./new-model.ts";

export async function loadFolder(path: string): Promise<ModelFolder> {
  return readFolder(diskFiles(path));
}

export async function readConfig(path: string): Promise<ModelConfig> {
  const file = join(path, "config.json");
  return parseConfig(await readJson(file), file);
}

/** All parameters in the order of `parameterShapes`, names and shapes checked. */
export async function readWeights(path: string, config?: ModelConfig): Promise<Tensors> {
  return orderWeights(await readShardedSafetensors(path), config ?? (await readConfig(path)), path);
}

/** Checks names and shapes against the configuration and returns the tensors in the order of `parameterShapes`. */
export function orderWeights(tensors: Tensors, config: ModelConfig, path = "The weights"): Tensors {
  const shapes = parameterShapes(config);
  const missing = [...shapes.keys()].filter((name) => !tensors.has(name));
  // A tied head may be stored all the same; it is the embedding.
  const unexpected = [...tensors.keys()].filter((name) => !shapes.has(name) && name !== "lm_head.weight");
  const misshapen = [...shapes].flatMap(([name, shape]) => {
    const found = tensors.get(name)?.shape;
    if (found === undefined || (found.length === shape.length && found.every((side, i) => side === shape[i])))
      return [];
    return [`${name} is [${found.join(", ")}] and should be [${shape.join(", ")}]`];
  });
  const problems = [list("missing", missing), list("unexpected", unexpected), list("wrong shape", misshapen)];
  if (problems.some((problem) => problem !== "")) {
    throw new DataError(
      `${path}: the weights do not fit config.json. ${problems.filter((problem) => problem !== "").join(" ")} ` +
        "config.json and the weights must come from the same model.",
    );
  }
  return new Map([...shapes.keys()].map((name) => [name, tensors.get(name) as Tensor]));
}

/** Writes a complete folder with random weights and returns its configuration. */
export async function createFolder(path: string, options: CreateOptions = {}): Promise<ModelConfig> {
  const { config, files, weights } = newModel(options);
  await mkdir(path, { recursive: true });
  if ((await readdir(path)).length > 0) {
    throw new ConfigError(`${path} is not empty; name a new folder for the model.`);
  }
  // The configuration comes last: what has one is whole.
  const { "config.json": last, ...others } = files;
  for (const [name, text] of Object.entries(others)) await writeFile(join(path, name), text);
  await writeSafetensors(join(path, "model.safetensors"), weights());
  await writeFile(join(path, "config.json"), last);
  return config;
}

/** Files of a model folder that are neither weights nor configuration. */
const COMPANIONS = [
  "generation_config.json",
  "tokenizer.json",
  "tokenizer_config.json",
  "special_tokens_map.json",
  "added_tokens.json",
  "vocab.json",
  "merges.txt",
  "chat_template.jinja",
  "chat_template.json",
  "preprocessor_config.json",
  "processor_config.json",
  "video_preprocessor_config.json",
];

/** Writes `weights` to the folder `to` with the other files of the folder `from`; `config.json` comes last. */
export async function saveFolder(to: string, from: string, weights: Tensors): Promise<void> {
  const file = join(from, "config.json");
  const source = await readJson(file);
  const ordered = orderWeights(weights, parseConfig(source, file), to);
  await mkdir(to, { recursive: true });
  if (resolve(to) !== resolve(from)) {
    const there = new Set(await readdir(from));
    for (const name of COMPANIONS) if (there.has(name)) await copyFile(join(from, name), join(to, name));
  }
  await writeSafetensors(join(to, "model.safetensors"), ordered);
  await writeFile(join(to, "config.json"), `${JSON.stringify(asFloat32(source), null, 2)}\n`);
}

/** What we save is 32-bit whatever was loaded, and `transformers` believes the configuration's dtype. */
function asFloat32(json: unknown): Json {
  if (!isJsonObject(json)) return json as Json;
  const entries = Object.entries(json).map(([key, value]) => {
    if (key === "dtype" || key === "torch_dtype") return [key, "float32"];
    return [key, isJsonObject(value) ? asFloat32(value) : value];
  });
  return Object.fromEntries(entries) as JsonObject;
}

function list(what: string, names: readonly string[]): string {
  if (names.length === 0) return "";
  const more = names.length > 3 ? ` and ${names.length - 3} more` : "";
  return `${what}: ${names.slice(0, 3).join(", ")}${more}.`;
}
