/**
 * The chat side of a model: tokenizer, chat template and image processor, from any Hugging Face folder of the Qwen-VL family. What the weights compute is
 * not its business: an engine decides which architectures it runs.
 */
import { z } from "zod";
import { ConfigError } from "../core/errors.ts";
import type { Image } from "../core/image.ts";
import { type Awaitable, isJsonObject, type JsonObject } from "../core/json.ts";
import type { Message } from "../core/message.ts";
import type { ModelInput } from "../core/model-input.ts";
import type { ModelIds } from "./config.ts";
import { diskFiles } from "./files.ts";
import { ImageProcessor } from "./image-processor.ts";
import { type DeltaOptions, type PromptOptions, Renderer } from "./renderer.ts";
import { compileTemplate } from "./template.ts";
import { Tokenizer } from "./tokenizer.ts";
import { visionIds } from "./vision-ids.ts";

/** Messages to ids and back, wherever that happens: here, or at a server's render route. Nothing else makes ids. */
export interface ChatRenderer {
  /** The id with which a model ends its turn. */
  readonly endOfTurn: number;
  /** The start of an episode; `variables` is what a template reads beside messages, such as tools. */
  prompt(messages: readonly Message[], options?: Pick<PromptOptions, "variables">): Awaitable<ModelInput>;
  /** What follows a sampled reply: the rest of its turn, these messages, and the opening of the next turn. */
  delta(messages: readonly Message[], options: DeltaOptions): Awaitable<ModelInput>;
  /** The ids of a reply that a demonstration holds, its end included. */
  reply(text: string): Awaitable<Int32Array>;
  /** Text of a reply, special tokens left out, with its length in UTF-16 units after each id. */
  decode(ids: Int32Array): { readonly text: string; readonly offsets: Int32Array };
}

/** How the model's makers mean it to be sampled. */
export type GenerationConfig = {
  /** Ids that end a reply; the end-of-turn id is the first. */
  readonly eos: readonly number[];
  readonly temperature?: number;
  readonly topK?: number;
  readonly topP?: number;
};

/** What it takes to talk with a model. */
export type ChatModel = {
  readonly renderer: ChatRenderer;
  /** The placeholder that image spans are made of. */
  readonly imageToken: number;
  /** Ids that a model can't say: image and video placeholders, their brackets and their padding. */
  readonly visionIds: readonly number[];
  /** The most ids the model can attend to. */
  readonly maxPositions: number;
  readonly generation: GenerationConfig;
  /** False where the folder has no chat template and one was made up for it. */
  readonly verified?: boolean;
  /** What one id reads as, special tokens too. */
  textOf(id: number): string;
  /** A frame as the model gets it; the frame itself where nothing is resized. */
  view(frame: Image): Image;
};

export type ChatFolder = {
  readonly path: string;
  readonly tokenizer: Tokenizer;
  readonly processor: ImageProcessor;
  readonly renderer: Renderer;
  readonly generation: GenerationConfig;
  readonly ids: ModelIds;
  readonly vocabSize: number;
  readonly maxPositions: number;
};

/** `model_type` of the models that speak this way. */
export const CHAT_FAMILY = ["qwen2_vl", "qwen2_5_vl", "qwen3_vl", "qwen3_vl_moe"] as const;

const tokenId = z.int().min(0);
const square = z
  .union([z.int().min(1), z.array(z.int().min(1)).min(1)])
  .transform((side) => [side].flat()[0] as number);
const words = z.looseObject({
  vocab_size: z.int().min(1).optional(),
  max_position_embeddings: z.int().min(1).optional(),
  eos_token_id: z.union([tokenId, z.array(tokenId)]).nullish(),
  pad_token_id: tokenId.nullish(),
});
/** Older folders keep the language model's fields beside the others. */
const schema = words.extend({
  model_type: z.enum(CHAT_FAMILY),
  text_config: words.optional(),
  vision_config: z
    .looseObject({
      patch_size: square.optional(),
      spatial_patch_size: square.optional(),
      temporal_patch_size: square.default(2),
      spatial_merge_size: z.int().min(1).default(2),
    })
    .prefault({}),
  image_token_id: tokenId.default(151655),
  video_token_id: tokenId.default(151656),
  vision_start_token_id: tokenId.default(151652),
  vision_end_token_id: tokenId.default(151653),
});
type ChatConfig = {
  readonly ids: ModelIds;
  readonly vocabSize: number;
  readonly maxPositions: number;
  readonly patches: Pick<ImageProcessor, "patchSize" | "temporalPatchSize" | "mergeSize">;
};

/** The files of a model folder, on disk or in memory. */
export type ModelFiles = {
  /** The folder's name. */
  readonly path: string;
  /** What messages call a file. */
  where(name: string): string;
  /** Undefined where an optional file is not there. */
  json(name: string, optional?: boolean): Promise<unknown>;
  /** Undefined where it is not there. */
  text(name: string): Promise<string | undefined>;
};

/** Whether a folder's chat side is one that `loadChat` reads; a folder that can't be read at all is its to complain about. */
export async function speaksQwen(path: string): Promise<boolean> {
  const json = await diskFiles(path)
    .json("config.json")
    .catch(() => undefined);
  const kind = isJsonObject(json) ? json.model_type : undefined;
  return typeof kind !== "string" || CHAT_FAMILY.some((known) => known === kind);
}

export function loadChat(path: string): Promise<ChatFolder> {
  return readChat(diskFiles(path));
}

export async function readChat(files: ModelFiles): Promise<ChatFolder> {
  const { path } = files;
  const config = await readChatConfig(files);
  const tokenizerConfig = (await files.json("tokenizer_config.json", true)) ?? {};
  const tokenizer = new Tokenizer(await files.json("tokenizer.json"), tokenizerConfig, files.where("tokenizer.json"));
  if (tokenizer.size > config.vocabSize) {
    throw new ConfigError(
      `${path}: tokenizer.json has ${tokenizer.size} tokens, but the model only ${config.vocabSize}. ` +
        "config.json and tokenizer.json must come from the same model.",
    );
  }
  const processor = await readProcessor(files, config);
  const { source, file } = await readTemplate(files, tokenizerConfig);
  const template = compileTemplate(source, namedTokens(tokenizerConfig), file);
  const { ids, vocabSize, maxPositions } = config;
  const renderer = new Renderer({ template, tokenizer, processor, ids });
  const generation = await readGeneration(files, ids, renderer.endOfTurn);
  return { path, tokenizer, processor, renderer, generation, ids, vocabSize, maxPositions };
}

export type ChatParts = Pick<ChatFolder, "renderer" | "tokenizer" | "generation" | "maxPositions"> & {
  readonly ids: Omit<ModelIds, "eos" | "pad">;
  readonly processor: Pick<ImageProcessor, "view">;
};

/** From a folder, as `readChat` or `loadFolder` gives it. */
export function chatModel({ renderer, tokenizer, processor, ids, maxPositions, generation }: ChatParts): ChatModel {
  // Frames come back in later turns and in siblings.
  const seen = new WeakMap<Image, Image>();
  return {
    renderer,
    imageToken: ids.imageToken,
    visionIds: visionIds(ids, tokenizer.special),
    maxPositions,
    generation,
    textOf: (id) => tokenizer.decode([id]),
    view(frame) {
      const known = seen.get(frame) ?? processor.view(frame);
      seen.set(frame, known);
      return known;
    },
  };
}

async function readChatConfig(files: ModelFiles): Promise<ChatConfig> {
  const file = files.where("config.json");
  const json = await files.json("config.json");
  const result = schema.safeParse(json);
  if (!result.success) {
    const found = isJsonObject(json) ? JSON.stringify(json.model_type ?? null) : "none";
    if (result.error.issues.some((issue) => issue.path[0] === "model_type")) {
      throw new ConfigError(
        `${file}: the model_type is ${found}; supported: ${CHAT_FAMILY.join(", ")}. Name a folder of the Qwen-VL family, ` +
          "or make a small one with `saccade model create`.",
      );
    }
    const problems = result.error.issues.map((issue) => `${issue.path.join(".") || "the file"}: ${issue.message}`);
    throw new ConfigError(`${file}: ${problems.join("; ")}.`);
  }
  const { text_config: nested = {}, vision_config: vision, ...top } = result.data;
  const text = { ...top, ...nested };
  const eos = text.eos_token_id ?? [];
  const usual = top.model_type.startsWith("qwen3") ? 16 : 14;
  return {
    ids: {
      imageToken: top.image_token_id,
      videoToken: top.video_token_id,
      visionStart: top.vision_start_token_id,
      visionEnd: top.vision_end_token_id,
      eos: [eos].flat(),
      pad: text.pad_token_id ?? undefined,
    },
    vocabSize: text.vocab_size ?? 151_936,
    maxPositions: text.max_position_embeddings ?? 128_000,
    patches: {
      patchSize: vision.patch_size ?? vision.spatial_patch_size ?? usual,
      temporalPatchSize: vision.temporal_patch_size,
      mergeSize: vision.spatial_merge_size,
    },
  };
}

async function readProcessor(files: ModelFiles, { patches }: ChatConfig): Promise<ImageProcessor> {
  const file = files.where("preprocessor_config.json");
  // transformers 5 saves the image processor inside processor_config.json.
  const combined = (await files.json("processor_config.json", true)) as JsonObject | undefined;
  const json = isJsonObject(combined?.image_processor)
    ? combined.image_processor
    : await files.json("preprocessor_config.json");
  const processor = new ImageProcessor(json, file);
  const { patchSize, temporalPatchSize, mergeSize } = patches;
  const agree =
    processor.patchSize === patchSize &&
    processor.temporalPatchSize === temporalPatchSize &&
    processor.mergeSize === mergeSize;
  if (!agree) {
    throw new ConfigError(
      `${file} cuts patches of ${processor.patchSize} pixels × ${processor.temporalPatchSize} frames, merged by ` +
        `${processor.mergeSize}, but config.json expects ${patchSize} × ${temporalPatchSize}, merged by ${mergeSize}. ` +
        "Both files must come from the same model.",
    );
  }
  return processor;
}

async function readTemplate(files: ModelFiles, tokenizerConfig: unknown): Promise<{ source: string; file: string }> {
  const name = "chat_template.jinja";
  const source = await files.text(name);
  if (source !== undefined) return { source, file: files.where(name) };
  const older = "chat_template.json";
  const found = [
    { json: await files.json(older, true), file: files.where(older) },
    { json: tokenizerConfig, file: files.where("tokenizer_config.json") },
  ].find(({ json }) => isJsonObject(json) && typeof json.chat_template === "string");
  if (found === undefined) {
    throw new ConfigError(`${files.path} has no chat template: put the model's chat_template.jinja there.`);
  }
  return { source: (found.json as { chat_template: string }).chat_template, file: found.file };
}

const generationSchema = z.looseObject({
  eos_token_id: z.union([tokenId, z.array(tokenId)]).nullish(),
  temperature: z.number().min(0).nullish(),
  top_k: z.int().min(0).nullish(),
  top_p: z.number().min(0).max(1).nullish(),
});

async function readGeneration(files: ModelFiles, ids: ModelIds, endOfTurn: number): Promise<GenerationConfig> {
  const file = files.where("generation_config.json");
  const result = generationSchema.safeParse((await files.json("generation_config.json", true)) ?? {});
  if (!result.success) {
    const problems = result.error.issues.map((issue) => `${issue.path.join(".")}: ${issue.message}`);
    throw new ConfigError(`${file}: ${problems.join("; ")}.`);
  }
  const { eos_token_id: eos, temperature, top_k: topK, top_p: topP } = result.data;
  return {
    eos: [...new Set([endOfTurn, ...[eos ?? ids.eos].flat()])],
    ...(typeof temperature === "number" ? { temperature } : {}),
    ...(typeof topK === "number" ? { topK } : {}),
    ...(typeof topP === "number" ? { topP } : {}),
  };
}

/** `bos_token` and its kin, which templates may print; a token is a string or an object with `content`. */
function namedTokens(tokenizerConfig: unknown): Record<string, string> {
  if (!isJsonObject(tokenizerConfig)) return {};
  return Object.fromEntries(
    Object.entries(tokenizerConfig).flatMap(([key, value]) => {
      if (!key.endsWith("_token")) return [];
      const content = isJsonObject(value) ? value.content : value;
      return typeof content === "string" ? [[key, content]] : [];
    }),
  );
}
