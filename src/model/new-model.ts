/**
 * A new model from a preset, in memory: the files of a Hugging Face folder that `transformers` and vLLM load, and random weights. `createFolder` writes it to
 * disk; a page, which has no disk, uses it as it is.
 */
import { ConfigError } from "../core/errors.ts";
import type { Json } from "../core/json.ts";
import { type ChatFolder, type ModelFiles, readChat } from "./chat.ts";
import { checkConfig, configJson, type ModelConfig, parseConfig } from "./config.ts";
import { preprocessorJson } from "./image-processor.ts";
import { initialParameters } from "./parameters.ts";
import { findPreset, type PresetName } from "./presets.ts";
import type { Tensors } from "./safetensors.ts";
import { configChanges, type ModelShape } from "./shape.ts";
import { CHAT_TEMPLATE } from "./template.ts";
import { Tokenizer } from "./tokenizer.ts";
import { frozenTokenizer, tokenizerConfigJson, trainTokenizer } from "./train-tokenizer.ts";

/** The chat side, and the architecture that the native engine runs. */
export type ModelFolder = ChatFolder & { readonly config: ModelConfig };

export async function readFolder(files: ModelFiles): Promise<ModelFolder> {
  const config = parseConfig(await files.json("config.json"), files.where("config.json"));
  return { ...(await readChat(files)), config };
}

/** A preset and what is changed in it, in the words of `config.json`. */
export type CreateOptions = ModelShape & {
  readonly preset?: PresetName;
  readonly seed?: number;
  /** Text to train the tokenizer on; absent: the presets' frozen one, made for what worlds and protocols say. */
  readonly corpus?: Iterable<string>;
};

export type NewModel = {
  readonly config: ModelConfig;
  /** The text of every file but the weights. */
  readonly files: { readonly [name: string]: string; readonly "config.json": string };
  /** Drawn from the seed, all anew at each call. */
  weights(): Tensors;
};

export function newModel(options: CreateOptions = {}): NewModel {
  const preset = findPreset(options.preset ?? "nano");
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
    options.image_mean,
  );
  const json = (value: Json) => `${JSON.stringify(value, null, 2)}\n`;
  const { image_processor_type: _, ...frames } = processorFile;
  return {
    config,
    files: {
      "tokenizer.json": json(tokenizerFile),
      "tokenizer_config.json": json(tokenizerConfigJson(config.text.maxPositions)),
      "preprocessor_config.json": json(processorFile),
      "video_preprocessor_config.json": json({ ...frames, video_processor_type: "Qwen3VLVideoProcessor" }),
      "generation_config.json": json({
        do_sample: true,
        eos_token_id: config.ids.eos,
        pad_token_id: config.ids.pad as number,
        temperature: 1,
        top_k: 0,
        top_p: 1,
      }),
      "chat_template.jinja": CHAT_TEMPLATE,
      "config.json": json(configJson(config)),
    },
    weights: () => initialParameters(config, options.seed ?? 0, options.position_range),
  };
}

/** Its files as those of a folder of that name. */
export function memoryFiles(path: string, files: Readonly<Record<string, string>>): ModelFiles {
  const where = (name: string) => `${path}/${name}`;
  return {
    path,
    where,
    text: async (name) => files[name],
    async json(name, optional = false) {
      const text = files[name];
      if (text !== undefined) return JSON.parse(text);
      if (optional) return undefined;
      throw new ConfigError(`The model has no ${where(name)}. Make it with newModel().`);
    },
  };
}
