/**
 * `saccade model`: make a small model from a preset, look at a model folder, talk to it. A chat keeps its ids append-only, as an episode
 * does: every turn adds the delta of what was said, and nothing is rendered again.
 */
import { readdir, readFile, stat } from "node:fs/promises";
import { join, resolve } from "node:path";
import { createInterface } from "node:readline";
import type { Readable, Writable } from "node:stream";
import { Command, Option } from "commander";
import { ConfigError, type Image, ImageError, type ImageSpan, image, mixSeed, text, user } from "../core/index.ts";
import { printable, printableJson } from "../core/printable.ts";
import { type EngineConfig, openEngine, type Sampler } from "../engine/index.ts";
import { decodeImage } from "../images/index.ts";
import { speaksQwen } from "../model/chat.ts";
import {
  ARCHITECTURES,
  type ChatModel,
  type CreateOptions,
  createFolder,
  elementCount,
  loadFolder,
  type ModelConfig,
  type ModelFolder,
  modelShape,
  PRESET_NAMES,
  type PresetName,
  parameterCount,
  parameterShapes,
  VISION_PREFIX,
  weightsHash,
} from "../model/index.ts";
import { checkModel, type Finding } from "../train/index.ts";
import { recipeProblems } from "../train/recipe-errors.ts";
import { line } from "./check.ts";
import { chosenModel } from "./chosen-model.ts";
import { collect, EXIT, parseSettings, wholeNumber } from "./common.ts";
import { ENGINE_FLAG } from "./engine.ts";

export type CreateFlags = { preset: PresetName; seed: number; set: string[] };
export type InfoFlags = { json?: boolean };
export type CheckFlags = { json?: boolean; engine?: EngineConfig };
export type ChatFlags = {
  image: string[];
  engine?: EngineConfig;
  temperature?: number;
  maxTokens: number;
  seed: number;
};
type Streams = { readonly input: Readable; readonly output: Writable };

export function modelCommand(): Command {
  const folder = ["<folder>", "a model folder (Hugging Face layout), or a run: its best checkpoint"] as const;
  const create = new Command("create")
    .description("create a model with random weights, as a Hugging Face folder")
    .argument("<folder>", "folder to create")
    .addOption(
      new Option("--preset <name>", "size: about 0.4, 0.8, 3 or 20 million parameters")
        .choices(PRESET_NAMES)
        .makeOptionMandatory(),
    )
    .option("--seed <n>", "seed of the weights", wholeNumber("--seed"), 0)
    .option(
      "--set <key=value>",
      "change a field of config.json (repeat), for example --set text.num_hidden_layers=8",
      collect,
      [],
    )
    .action((path: string, flags: CreateFlags) => runCreate(path, flags));
  const info = new Command("info")
    .description("describe a model folder")
    .argument(...folder)
    .option("--json", "as JSON")
    .action((path: string, flags: InfoFlags) => runInfo(path, flags));
  const check = new Command("check")
    .description("check whether Saccade can train a model: its template, images, weights, sampling and sight")
    .argument(...folder)
    .option(...ENGINE_FLAG)
    .option("--json", "print the findings as a JSON array")
    .addHelpText("after", "\nExit code 1 means that something is wrong (✗). Notes (·) are for you to judge.")
    .action((path: string, flags: CheckFlags) => runCheck(path, flags));
  const chat = new Command("chat")
    .description("talk to a model, one line of standard input per turn")
    .argument(...folder)
    .option("--image <file>", "PNG or JPEG to show with the first line (repeat)", collect, [])
    .option(
      "--temperature <t>",
      "sampling temperature; 0 is greedy (default: from the model's generation_config.json)",
      nonNegative,
    )
    .option("--max-tokens <n>", "maximum length of a reply, in tokens", wholeNumber("--max-tokens", 1), 256)
    .option(...ENGINE_FLAG)
    .option(
      "--seed <n>",
      "seed of the sampling: the same seed and lines give the same replies",
      wholeNumber("--seed"),
      0,
    )
    .action((path: string, flags: ChatFlags) => runChat(path, flags));
  const model = new Command("model").description("create, describe, check and talk to models");
  for (const command of [create, info, check, chat]) model.addCommand(command.exitOverride());
  return model;
}

export async function runCreate(path: string, flags: CreateFlags, output: Writable = process.stdout): Promise<void> {
  const options = createOptions(flags);
  const found = await stat(path).catch(() => undefined);
  if (found !== undefined && (!found.isDirectory() || (await readdir(path)).length > 0)) {
    throw new ConfigError(`${path} exists already: name a new folder, or remove it.`);
  }
  const config = await createFolder(path, options);
  output.write(`${path}: ${count(parameterCount(config))} parameters, ${config.text.vocabSize} tokens\n`);
}

export async function runInfo(path: string, flags: InfoFlags, output: Writable = process.stdout): Promise<void> {
  const info = await describe(await loadFolder(await chosenModel(path)));
  output.write(flags.json ? `${printableJson(info, 2)}\n` : printable(print(info)));
}

export async function runCheck(path: string, flags: CheckFlags, output: Writable = process.stdout): Promise<void> {
  const folder = await chosenModel(path);
  const engine = await openEngine(flags.engine ?? ((await speaksQwen(folder)) ? undefined : "torch"));
  const findings: Finding[] = [];
  try {
    for await (const finding of checkModel(engine, folder)) {
      findings.push(finding);
      if (!flags.json) output.write(line(finding));
    }
  } finally {
    await engine.close();
  }
  if (flags.json) output.write(`${printableJson(findings, 2)}\n`);
  if (findings.some(({ verdict }) => verdict === "bad")) process.exitCode = EXIT.failed;
  else if (!flags.json) output.write(`\nNothing is wrong. Train it: saccade train <recipe> --model ${path}\n`);
}

export async function runChat(
  path: string,
  flags: ChatFlags,
  { input, output }: Streams = { input: process.stdin, output: process.stdout },
): Promise<void> {
  const folder = await chosenModel(path);
  let images = await Promise.all(flags.image.map(readImageFile));
  const engine = await openEngine(flags.engine);
  try {
    const chat = new Chat(await engine.chat(folder), await engine.sampler(folder), flags);
    const prompt = () => (input === process.stdin && process.stdin.isTTY ? output.write("> ") : false);
    prompt();
    for await (const line of createInterface({ input })) {
      await chat.say(line, images, (piece) => output.write(printable(piece)));
      output.write("\n");
      images = [];
      prompt();
    }
  } finally {
    await engine.close();
  }
}

class Chat {
  readonly #model: ChatModel;
  readonly #sampler: Sampler;
  readonly #flags: ChatFlags;
  #ids: number[] = [];
  #images: ImageSpan[] = [];
  #ended = false;

  constructor(model: ChatModel, sampler: Sampler, flags: ChatFlags) {
    this.#model = model;
    this.#sampler = sampler;
    this.#flags = flags;
  }

  /** One turn; text shows as it comes. */
  async say(line: string, images: readonly Image[], show: (piece: string) => void): Promise<void> {
    const { renderer, generation } = this.#model;
    const message = [user(...images.map(image), text(line))];
    const added = await (this.#ids.length === 0
      ? renderer.prompt(message)
      : renderer.delta(message, { ended: this.#ended }));
    this.#images.push(...added.images.map((span) => ({ ...span, start: span.start + this.#ids.length })));
    this.#ids.push(...added.ids);
    const { temperature = 1, topK = 0, topP = 1 } = generation;
    const params = {
      maxTokens: this.#flags.maxTokens,
      seed: mixSeed("chat", this.#flags.seed, this.#ids.length),
      temperature: this.#flags.temperature ?? temperature,
      stopIds: generation.eos,
      ...(topK > 0 && { topK }),
      ...(topP < 1 && { topP }),
    };
    const drawn: number[] = [];
    let shown = 0;
    const sayMore = (whole: boolean) => {
      const { text: said } = renderer.decode(Int32Array.from(drawn));
      // The end of an unfinished character reads as U+FFFD until the rest has come.
      if (!whole && said.endsWith("\uFFFD")) return;
      show(said.slice(shown));
      shown = said.length;
    };
    const onToken = (id: number) => {
      drawn.push(id);
      sayMore(false);
    };
    const prompt = { ids: Int32Array.from(this.#ids), images: this.#images };
    const { ids } = await this.#sampler.sample(prompt, params, { sequence: "chat", onToken });
    drawn.splice(0, drawn.length, ...ids);
    sayMore(true);
    this.#ids.push(...ids);
    this.#ended = ids.at(-1) === renderer.endOfTurn;
  }
}

async function readImageFile(file: string): Promise<Image> {
  const bytes = await readFile(file).catch(() => {
    throw new ConfigError(`--image ${file}: there is no such file, or it can't be read.`);
  });
  return decodeImage(bytes).catch((error: Error) => {
    throw new ImageError(`--image ${file}: ${error.message}`);
  });
}

function createOptions({ preset, seed, set }: CreateFlags): CreateOptions {
  const given = parseSettings(set);
  const result = modelShape.safeParse(given);
  if (!result.success) {
    const problems = recipeProblems(result.error.issues, { schema: modelShape, value: given, overrides: given });
    throw new ConfigError(`The model can't be made: ${problems.join("; ")}.`);
  }
  return { preset, seed, ...result.data };
}

type Info = Awaited<ReturnType<typeof describe>>;

async function describe({ path, config, tokenizer, processor, generation, renderer }: ModelFolder) {
  const { vision, text: language, ids } = config;
  return {
    path: resolve(path),
    architecture: ARCHITECTURES[0],
    parameters: parametersByPart(config),
    language,
    vision,
    pixels: {
      least: processor.minPixels,
      most: processor.maxPixels,
      perToken: (vision.patchSize * vision.mergeSize) ** 2,
    },
    vocabulary: tokenizer.size,
    special: Object.fromEntries(tokenizer.special),
    ids: {
      image: ids.imageToken,
      visionStart: ids.visionStart,
      visionEnd: ids.visionEnd,
      endOfTurn: renderer.endOfTurn,
    },
    generation,
    weights: await weightsHash(path),
    files: await filesOf(path),
  };
}

function parametersByPart(config: ModelConfig) {
  const parts = { total: 0, vision: 0, mergers: 0, embedding: 0, language: 0, head: 0 };
  for (const [name, shape] of parameterShapes(config)) {
    const size = elementCount(shape);
    parts.total += size;
    if (name === "lm_head.weight") parts.head += size;
    else if (name.includes("embed_tokens")) parts.embedding += size;
    else if (!name.startsWith(VISION_PREFIX)) parts.language += size;
    else if (name.includes("merger")) parts.mergers += size;
    else parts.vision += size;
  }
  return parts;
}

async function filesOf(path: string): Promise<{ name: string; bytes: number }[]> {
  const names = (await readdir(path)).sort();
  const found = await Promise.all(names.map(async (name) => ({ name, stats: await stat(join(path, name)) })));
  return found.filter(({ stats }) => stats.isFile()).map(({ name, stats }) => ({ name, bytes: stats.size }));
}

function print({ path, architecture, parameters, language, vision, pixels, ...info }: Info): string {
  const { total, ...parts } = parameters;
  const shares = Object.entries(parts)
    .filter(([, size]) => size > 0)
    .map(([part, size]) => `${part} ${count(size)}`);
  const heads = `${language.heads} heads over ${language.kvHeads}, ${language.headDim} wide`;
  const most = Math.floor(pixels.most / pixels.perToken);
  const lines: [string, string][] = [
    ["folder", path],
    ["architecture", architecture],
    ["parameters", `${count(total)}: ${shares.join(", ")}${language.tied ? " (the head is the embedding)" : ""}`],
    [
      "language",
      `${layers(language.layers)}, width ${language.hiddenSize}, ${heads}, feed-forward ${language.intermediateSize}`,
    ],
    ["context", `${language.maxPositions} tokens`],
    [
      "vision",
      `${layers(vision.depth)}, width ${vision.hiddenSize}, ${vision.heads} heads, DeepStack after layer ${vision.deepstackIndexes.join(" and ") || "none"}`,
    ],
    [
      "images",
      `one token is ${Math.sqrt(pixels.perToken)}×${Math.sqrt(pixels.perToken)} pixels; at most ${most} tokens`,
    ],
    ["vocabulary", `${info.vocabulary} tokens`],
    [
      "special",
      Object.entries(info.special)
        .map(([token, id]) => `${token} ${id}`)
        .join(", "),
    ],
    ["a reply ends", `with ${info.generation.eos.join(" or ")}`],
    ["weights", `sha256 ${info.weights}`],
    ["files", info.files.map(({ name, bytes }) => `${name} (${size(bytes)})`).join(", ")],
  ];
  return lines.map(([name, value]) => `${name.padEnd(13)} ${value}\n`).join("");
}

const layers = (count: number) => `${count} ${count === 1 ? "layer" : "layers"}`;

function count(parameters: number): string {
  return parameters < 1e6 ? `${(parameters / 1e3).toFixed(1)} thousand` : `${(parameters / 1e6).toFixed(2)} million`;
}

function size(bytes: number): string {
  return bytes < 2 ** 20 ? `${(bytes / 2 ** 10).toFixed(1)} KiB` : `${(bytes / 2 ** 20).toFixed(1)} MiB`;
}

function nonNegative(value: string): number {
  const number = Number(value);
  if (value.trim() === "" || !Number.isFinite(number) || number < 0) {
    throw new ConfigError(`--temperature takes a number of at least 0, got "${value}".`);
  }
  return number;
}
