/**
 * A model is a Hugging Face folder everywhere. This reads one that the embedded engine can run (its chat side, configuration and weights,
 * all checked against each other), makes a new one from a preset that `transformers` and vLLM load, and saves trained weights beside the
 * files they came with.
 */
import { copyFile, mkdir, readdir, writeFile } from "node:fs/promises";
import { join, resolve } from "node:path";
import { ConfigError, DataError } from "../core/errors.ts";
import { isJsonObject, type Json, type JsonObject } from "../core/json.ts";
import { type ChatFolder, loadChat } from "./chat.ts";
import { checkConfig, configJson, type ModelConfig, parseConfig } from "./config.ts";
import { readJson } from "./files.ts";
import { preprocessorJson } from "./image-processor.ts";
import { initialParameters, parameterShapes } from "./parameters.ts";
import { findPreset, type PresetName } from "./presets.ts";
import { readShardedSafetensors, type Tensor, type Tensors, writeSafetensors } from "./safetensors.ts";
import { configChanges, type ModelShape } from "./shape.ts";
import { CHAT_TEMPLATE } from "./template.ts";
import { Tokenizer } from "./tokenizer.ts";
import { frozenTokenizer, tokenizerConfigJson, trainTokenizer } from "./train-tokenizer.ts";

/** The chat side, and the architecture that the embedded engine runs. */
export type ModelFolder = ChatFolder & { readonly config: ModelConfig };

export async function loadFolder(path: string): Promise<ModelFolder> {
  const config = await readConfig(path);
  return { ...(await loadChat(path)), config };
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

/** A preset and what is changed in it, in the words of `config.json`. */
export type CreateOptions = ModelShape & {
  readonly preset?: PresetName;
  readonly seed?: number;
  /** Text to train the tokenizer on; absent: the presets' frozen one, made for what worlds and protocols say. */
  readonly corpus?: Iterable<string>;
};

/** Writes a complete folder with random weights and returns its configuration. */
export async function createFolder(path: string, options: CreateOptions = {}): Promise<ModelConfig> {
  const preset = findPreset(options.preset ?? "nano");
  await mkdir(path, { recursive: true });
  if ((await readdir(path)).length > 0) {
    throw new ConfigError(`${path} is not empty; name a new folder for the model.`);
  }
  const changes = configChanges(options);
  const vocab = options.vocab_size ?? preset.vocab;
  const tokenizerFile = options.corpus ? trainTokenizer(options.corpus, vocab) : frozenTokenizer(vocab);
  const tokenizer = new Tokenizer(tokenizerFile);
  const text = { ...preset.text, ...changes.text, vocabSize: tokenizer.size };
  const config = checkConfig({
    text,
    vision: { ...preset.vision, ...changes.vision, outHiddenSize: text.hiddenSize },
    ids: {
      imageToken: tokenizer.specialId("<|image_pad|>"),
      videoToken: tokenizer.specialId("<|video_pad|>"),
      visionStart: tokenizer.specialId("<|vision_start|>"),
      visionEnd: tokenizer.specialId("<|vision_end|>"),
      eos: [tokenizer.specialId("<|im_end|>"), tokenizer.specialId("<|endoftext|>")],
      pad: tokenizer.specialId("<|endoftext|>"),
    },
  });
  const token = config.vision.patchSize * config.vision.mergeSize;
  // One token at least; 256 at most, which is 512 × 512 pixels under the presets.
  const processorFile = preprocessorJson(
    config.vision,
    options.min_pixels ?? token ** 2,
    options.max_pixels ?? 256 * token ** 2,
  );
  const json = (name: string, value: Json) => writeFile(join(path, name), `${JSON.stringify(value, null, 2)}\n`);
  await json("tokenizer.json", tokenizerFile);
  await json("tokenizer_config.json", tokenizerConfigJson(config.text.maxPositions));
  await json("preprocessor_config.json", processorFile);
  const { image_processor_type: _, ...frames } = processorFile;
  await json("video_preprocessor_config.json", { ...frames, video_processor_type: "Qwen3VLVideoProcessor" });
  await json("generation_config.json", {
    do_sample: true,
    eos_token_id: config.ids.eos,
    pad_token_id: config.ids.pad as number,
    temperature: 1,
    top_k: 0,
    top_p: 1,
  });
  await writeFile(join(path, "chat_template.jinja"), CHAT_TEMPLATE);
  await writeSafetensors(join(path, "model.safetensors"), initialParameters(config, options.seed ?? 0));
  await json("config.json", configJson(config));
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
