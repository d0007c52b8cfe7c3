/**
 * For tests: the real tokenizer, template and renderer of a small model, and a sampler that says what a script tells it. The sampler
 * keeps what it was asked, so that tests can compare what was sampled from with what would be trained.
 */
import { Image } from "../core/image.ts";
import type { ModelInput } from "../core/model-input.ts";
import type { Sample, SampleContext, Sampler, SamplingParams } from "../engine/engine.ts";
import { chatModel } from "../model/chat.ts";
import { ImageProcessor } from "../model/image-processor.ts";
import { Renderer } from "../model/renderer.ts";
import { CHAT_TEMPLATE, compileTemplate } from "../model/template.ts";
import { TINY_CORPUS } from "../model/test-folder.ts";
import { Tokenizer } from "../model/tokenizer.ts";
import { trainTokenizer } from "../model/train-tokenizer.ts";

export const tokenizer = new Tokenizer(trainTokenizer(TINY_CORPUS, 320));
const imageToken = tokenizer.specialId("<|image_pad|>");
const processor = new ImageProcessor({ min_pixels: 1024, max_pixels: 65536 });
const renderer = new Renderer({
  tokenizer,
  template: compileTemplate(CHAT_TEMPLATE),
  processor,
  ids: { imageToken },
});

export const testModel = {
  ...chatModel({
    renderer,
    tokenizer,
    processor,
    ids: {
      imageToken,
      videoToken: tokenizer.specialId("<|video_pad|>"),
      visionStart: tokenizer.specialId("<|vision_start|>"),
      visionEnd: tokenizer.specialId("<|vision_end|>"),
    },
    maxPositions: 4096,
    generation: { eos: [renderer.endOfTurn, tokenizer.specialId("<|endoftext|>")] },
  }),
  renderer,
};

export type Asked = { readonly prompt: ModelInput; readonly params: SamplingParams; readonly sequence: string };
/** Ids, or text that ends its turn. */
export type Script = (asked: Asked, call: number) => string | readonly number[] | Promise<string | readonly number[]>;

export class ScriptedSampler implements Sampler {
  readonly version: number;
  readonly asked: Asked[] = [];
  readonly samples: Sample[] = [];
  readonly released: string[] = [];
  readonly #script: Script;

  constructor(script: Script, version = 1) {
    this.#script = script;
    this.version = version;
  }

  /** Like an engine, it stops at `maxTokens` and gives each id a log-probability of its own. */
  async sample(prompt: ModelInput, params: SamplingParams, { sequence }: SampleContext): Promise<Sample> {
    const asked = { prompt, params, sequence };
    const call = this.asked.push(asked) - 1;
    const said = await this.#script(asked, call);
    const all = typeof said === "string" ? renderer.reply(said) : Int32Array.from(said);
    const ids = all.slice(0, params.maxTokens);
    const stopped = params.stopIds?.includes(ids.at(-1) ?? -1) === true;
    const sample: Sample = {
      ids,
      logprobs: Float32Array.from(ids, (id, i) => -(1 + ((id * 7 + i * 3) % 11)) / 8),
      stopReason: stopped ? "stop" : "length",
      version: this.version,
    };
    this.samples.push(sample);
    return sample;
  }

  async score(): Promise<never> {
    throw new Error("A script can't score.");
  }

  release(sequence: string): void {
    this.released.push(sequence);
  }

  async close(): Promise<void> {}
}

/** A frame of one colour; 32 × 32 pixels are one token. */
export function frame(shade: number, width = 64, height = 64): Image {
  return new Image(width, height, new Uint8Array(width * height * 3).fill(shade));
}
