/** For tests: a complete tiny model folder, random images, and episodes of several turns as a rollout would make them. */
import { rm } from "node:fs/promises";
import { join } from "node:path";
import { Image } from "../../core/image.ts";
import type { ImageSpan, ModelInput } from "../../core/model-input.ts";
import { NumpyRandom } from "../../core/random-numpy.ts";
import type { ModelConfig } from "../../model/config.ts";
import { createFolder } from "../../model/folder.ts";
import { TINY_CORPUS, temporaryFolder } from "../../model/test-folder.ts";
import type { Datum, Sampler, SamplingParams } from "../engine.ts";

export type TestModel = {
  readonly folder: string;
  readonly config: ModelConfig;
  readonly root: string;
  remove(): Promise<void>;
};

export async function tinyModel(seed = 1, tied = true): Promise<TestModel> {
  const root = await temporaryFolder();
  const folder = join(root, "model");
  const config = await createFolder(folder, {
    corpus: TINY_CORPUS,
    vocab_size: 300,
    seed,
    text: {
      hidden_size: 32,
      intermediate_size: 48,
      num_hidden_layers: 2,
      num_attention_heads: 4,
      num_key_value_heads: 2,
      head_dim: 8,
      mrope_section: [2, 1, 1],
      max_position_embeddings: 600,
      tie_word_embeddings: tied,
      // Large weights, so that distributions are far from even.
      initializer_range: 0.3,
    },
    vision: {
      depth: 1,
      hidden_size: 16,
      intermediate_size: 24,
      num_heads: 2,
      num_position_embeddings: 16,
      initializer_range: 0.3,
    },
  });
  return { folder, config, root, remove: () => rm(root, { recursive: true, force: true }) };
}

/** A few distinct images of 1 to 4 tokens. */
export function tinyImages(count: number, seed = 0): Image[] {
  const random = new NumpyRandom(seed);
  return Array.from({ length: count }, () => {
    const width = 32 * random.integers(1, 3);
    const height = 32 * random.integers(1, 3);
    return new Image(width, height, Uint8Array.from(random.integers(0, 256, width * height * 3)));
  });
}

/** Ids and spans that grow, as a ledger's do. */
export class Growing {
  readonly ids: number[] = [];
  readonly images: ImageSpan[] = [];
  readonly #config: ModelConfig;

  constructor(config: ModelConfig) {
    this.#config = config;
  }

  words(random: NumpyRandom, count: number): this {
    // The first ids are plain bytes, in every vocabulary.
    this.ids.push(...random.integers(0, 200, count));
    return this;
  }

  show(image: Image): this {
    const { imageToken, visionStart, visionEnd } = this.#config.ids;
    const length = (image.width * image.height) / 32 ** 2;
    this.ids.push(visionStart);
    this.images.push({ start: this.ids.length, length, image });
    this.ids.push(...new Array<number>(length).fill(imageToken), visionEnd);
    return this;
  }

  input(): ModelInput {
    return { ids: Int32Array.from(this.ids), images: [...this.images] };
  }
}

export type Played = {
  readonly datum: Datum /** Log-probabilities the sampler gave, at the positions that predict its ids. */;
  readonly sampled: Float32Array;
};

/** Plays one episode of random turns and returns it as a datum whose weighted positions are the sampled ids. */
export async function playEpisode(
  sampler: Sampler,
  config: ModelConfig,
  images: readonly Image[],
  seed: number,
  options: Partial<SamplingParams> & { readonly turns?: number; readonly sequence?: string } = {},
): Promise<Played> {
  const random = new NumpyRandom(seed);
  const { turns = random.integers(1, 5), sequence = `episode ${seed}`, ...params } = options;
  const temperature = params.temperature ?? random.choice([0.5, 0.7, 1, 1.3]);
  const growing = new Growing(config);
  const marks: { at: number; logprob: number }[] = [];
  for (let turn = 0; turn < turns; turn++) {
    growing.words(random, random.integers(1, 12));
    for (let i = random.integers(0, 3); i > 0; i--)
      growing.show(random.choice(images)).words(random, random.integers(1, 4));
    const sample = await sampler.sample(
      growing.input(),
      { maxTokens: random.integers(1, 9), temperature, seed: seed * 100 + turn, ...params },
      { sequence },
    );
    for (const [i, id] of sample.ids.entries()) {
      marks.push({ at: growing.ids.length - 1, logprob: sample.logprobs[i] as number });
      growing.ids.push(id);
    }
  }
  sampler.release(sequence);
  const input = growing.input();
  const targets = new Int32Array(input.ids.length).fill(-1);
  const weights = new Float32Array(input.ids.length);
  const sampled = new Float32Array(input.ids.length);
  for (const { at, logprob } of marks) {
    targets[at] = input.ids[at + 1] as number;
    weights[at] = 1;
    sampled[at] = logprob;
  }
  return { datum: { input, targets, weights, temperature }, sampled };
}
