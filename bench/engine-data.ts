/** What the engine's benchmarks compute on: random images and sequences that both sides take, and episodes of real worlds. */
import { writeFileSync } from "node:fs";
import {
  type Datum,
  Image,
  type ImageSpan,
  image,
  type ModelFolder,
  type ModelInput,
  makeWorldEnv,
  mixSeed,
  NumpyRandom,
  text,
  user,
} from "./saccade.ts";

/** An image that no other seed gives: stripes and noise. */
export function noiseImage(seed: number, side = 128): Image {
  const data = new Uint8Array(side * side * 3);
  let state = mixSeed("bench picture", seed) | 1;
  for (let i = 0; i < data.length; i++) {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    data[i] = ((i >> 6) & 1 ? 160 : 40) + (state >>> 26);
  }
  return new Image(side, side, data);
}

/** Random text of exactly `length` ids around `count` 128×128 images, all of them distinct. */
export function randomInput(folder: ModelFolder, seed: number, length: number, count: number): ModelInput {
  const random = new NumpyRandom(seed);
  const special = new Set(folder.tokenizer.special.values());
  const { ids: known } = folder.config;
  const ids = new Int32Array(length);
  for (let i = 0; i < length; i++) {
    do ids[i] = random.integers(0, folder.tokenizer.size);
    while (special.has(ids[i]!));
  }
  const images: ImageSpan[] = Array.from({ length: count }, (_, i) => {
    const shown = noiseImage(seed * 100 + i);
    const tokens = folder.processor.tokenCount(shown);
    const start = Math.floor((length / count) * i) + 8;
    ids[start - 1] = known.visionStart;
    ids.fill(known.imageToken, start, start + tokens);
    ids[start + tokens] = known.visionEnd;
    return { start, length: tokens, image: shown };
  });
  return { ids, images };
}

/** Every text id is learned; the weights make the loss of the whole batch a mean. */
export function toData(folder: ModelFolder, inputs: readonly ModelInput[]): Datum[] {
  const special = new Set(folder.tokenizer.special.values());
  const targets = inputs.map(({ ids }) =>
    ids.map((_, i) => (i + 1 < ids.length && !special.has(ids[i + 1]!) ? ids[i + 1]! : -1)),
  );
  const tokens = targets.reduce((sum, row) => sum + row.filter((id) => id >= 0).length, 0);
  return inputs.map((input, i) => ({
    input,
    targets: targets[i]!,
    weights: Float32Array.from(targets[i]!, (id) => (id >= 0 ? 1 / tokens : 0)),
  }));
}

/** The same for the peer; its patches go to `file`. */
export function forPeer(folder: ModelFolder, inputs: readonly ModelInput[], file: string) {
  const patches = inputs.flatMap(({ images }) => images.map(({ image }) => folder.processor.preprocess(image)));
  writeFileSync(file, Buffer.concat(patches.map(({ patches: values }) => Buffer.from(values.buffer))));
  return {
    ids: inputs.map(({ ids }) => [...ids]),
    pixels: file,
    grids: patches.map(({ gridH, gridW }) => [gridH, gridW]),
  };
}

/** Ids that our distribution leaves out. */
export function maskedIds({ config: { ids }, tokenizer }: ModelFolder): number[] {
  const padding = tokenizer.special.get("<|vision_pad|>");
  return [ids.imageToken, ids.videoToken, ids.visionStart, ids.visionEnd, ...(padding === undefined ? [] : [padding])];
}

/** An episode as its ids grow: prompt, reply, observation, reply … */
export class Conversation {
  ids: Int32Array = new Int32Array();
  images: ImageSpan[] = [];
  /** 1 where the id was a reply's. */
  sampled: number[] = [];
  logprobs: number[] = [];

  append({ ids, images }: ModelInput): void {
    this.images.push(...images.map((span) => ({ ...span, start: span.start + this.ids.length })));
    this.#push(ids, 0);
  }

  reply(ids: Int32Array, logprobs?: Float32Array): void {
    this.#push(ids, 1, logprobs);
  }

  get input(): ModelInput {
    return { ids: this.ids, images: this.images };
  }

  /** Learns the replies. */
  datum(weight = 1): Datum {
    const shifted = (values: readonly number[], none: number) => [...values.slice(1), none];
    const sampled = shifted(this.sampled, 0);
    return {
      input: this.input,
      targets: Int32Array.from(sampled, (is, i) => (is ? this.ids[i + 1]! : -1)),
      weights: Float32Array.from(sampled, (is) => is * weight),
      advantages: Float32Array.from(sampled),
      oldLogprobs: Float32Array.from(shifted(this.logprobs, 0)),
    };
  }

  #push(ids: Int32Array, sampled: 0 | 1, logprobs?: Float32Array): void {
    this.ids = Int32Array.from([...this.ids, ...ids]);
    for (let i = 0; i < ids.length; i++) {
      this.sampled.push(sampled);
      this.logprobs.push(logprobs?.[i] ?? 0);
    }
  }
}

/** What a made-up world says each turn: a new image and a few words. */
export function observation(seed: number, turn: number) {
  return [
    user(text(`You moved. Turn ${turn} of 24. Look at the image and move again.`), image(noiseImage(seed * 64 + turn))),
  ];
}

const WORLDS = ["maze_2d/easy", "frozen_lake", "sokoban", "sliding_block/easy", "matchstick_equation/easy"];

/** Episodes by the oracle and at random, rendered for the model; their lengths are what a training batch has. */
export async function realEpisodes({ renderer }: ModelFolder, count: number): Promise<Datum[]> {
  const data: Datum[] = [];
  for (let i = 0; data.length < count; i++) {
    const env = await makeWorldEnv(WORLDS[i % WORLDS.length]!, { maxLongSide: 128, maxTurns: 12 });
    const random = new NumpyRandom(i);
    const episode = new Conversation();
    episode.append(renderer.prompt(await env.reset(i)));
    for (let over = false; !over; ) {
      const reply = i % 2 === 0 ? await env.oracleReply() : env.randomReply(random);
      episode.reply(renderer.reply(reply));
      const step = await env.step(reply);
      over = step.terminated || step.truncated;
      if (!over) episode.append(renderer.delta(step.observation, { ended: true }));
    }
    data.push(episode.datum(1 / count));
  }
  return data;
}

/** The same sequences, all as long as the longest. */
export function padded(data: readonly Datum[], pad: number): Datum[] {
  const longest = Math.max(...data.map(({ targets }) => targets.length));
  const fill = <A extends Int32Array | Float32Array>(from: A, into: A) => {
    into.set(from);
    return into;
  };
  return data.map(({ input, targets, weights }) => ({
    input: { ids: fill(input.ids, new Int32Array(longest).fill(pad)), images: input.images },
    targets: fill(targets, new Int32Array(longest).fill(-1)),
    weights: fill(weights, new Float32Array(longest)),
  }));
}
