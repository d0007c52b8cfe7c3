/**
 * A model of ours at the board. It is given the conversation as it was trained to see it (all turns joined, or the first and the last few), whoever said
 * the replies, so that a person may take over and hand back. What it thinks is told in numbers: the probability of each action after the words that it
 * begins its reply with, and, patch by patch, how its reply's log-probability falls when that part of the newest frame is grey.
 */
import { Image } from "../core/image.ts";
import type { Message } from "../core/message.ts";
import type { ImageSpan, ModelInput } from "../core/model-input.ts";
import type { Datum, Engine, Sampler } from "../engine/engine.ts";
import type { ChatModel } from "../model/chat.ts";
import type { Trained } from "../model/trained.ts";
import { TokenLedger } from "../rollout/ledger.ts";
import type { Played } from "./models.ts";

const GREY = 128;
/** Patches along the longer side of a frame. */
const MAX_SIDE = 12;
/** Sequences that are scored at once. */
const BATCH = 16;

export type Said = { readonly text: string; readonly ids: Int32Array };

export class LocalPlayer {
  readonly #engine: Engine;
  readonly #model: ChatModel;
  readonly #sampler: Sampler;
  readonly #trained: Trained | undefined;

  private constructor(engine: Engine, model: ChatModel, sampler: Sampler, trained: Trained | undefined) {
    this.#engine = engine;
    this.#model = model;
    this.#sampler = sampler;
    this.#trained = trained;
  }

  static async open(engine: Engine, folder: string, trained?: Trained): Promise<LocalPlayer> {
    return new LocalPlayer(engine, await engine.chat(folder), await engine.sampler(folder), trained);
  }

  /** What it is asked with: the conversation as ids. */
  async prompt(played: readonly Played[], seen: readonly Message[]): Promise<ModelInput> {
    const { renderer, imageToken, visionIds, maxPositions } = this.#model;
    const turns: ModelInput[][] = [];
    for (const [i, turn] of played.entries()) {
      const given = i === 0 ? await renderer.prompt(turn.seen) : await renderer.delta(turn.seen, { ended: true });
      turns.push([given, { ids: turn.ids ?? (await renderer.reply(turn.reply)), images: [] }]);
    }
    const now = played.length === 0 ? await renderer.prompt(seen) : await renderer.delta(seen, { ended: true });
    const history = this.#trained?.history;
    const kept =
      history === undefined ? turns : [...turns.slice(0, 1), ...turns.slice(Math.max(1, turns.length - history))];
    const ledger = new TokenLedger({ imageToken, visionIds, contextTokens: maxPositions });
    for (const piece of [...kept.flat(), now]) ledger.give(piece);
    return ledger.prompt();
  }

  async reply(
    prompt: ModelInput,
    { greedy, seed }: { greedy: boolean; seed: number },
    signal: AbortSignal,
  ): Promise<Said> {
    const { generation, renderer } = this.#model;
    const { temperature = 1, maxTokens = 256 } = this.#trained?.sampling ?? {};
    const sequence = `play~${made++}`;
    try {
      const sample = await this.#sampler.sample(
        prompt,
        { temperature: greedy ? 0 : temperature, maxTokens, seed, stopIds: generation.eos },
        { sequence, signal },
      );
      const { text } = renderer.decode(sample.ids);
      const whole = sample.ids.at(-1) === renderer.endOfTurn;
      return { text, ids: whole ? sample.ids : Int32Array.from([...sample.ids, renderer.endOfTurn]) };
    } finally {
      this.#sampler.release(sequence);
    }
  }

  /**
   * How likely each of these replies is, after what all of them begin with: so replies that differ only in their action are compared by their action, and
   * what is missing to 1 is what else the model might have said there.
   */
  async probabilities(prompt: ModelInput, replies: readonly string[]): Promise<number[]> {
    const ids = await Promise.all(replies.map((text) => this.#model.renderer.reply(text)));
    const shared = commonStart(ids);
    const scores = await this.#score(ids.length, (i) => [prompt, ids[i] as Int32Array], shared);
    return scores.map(Math.exp);
  }

  /** For each patch of the newest frame, row by row: the log-probability of the reply's end (from id `from` on) less what it is with the patch greyed. */
  async occlusion(prompt: ModelInput, reply: Int32Array, from: number) {
    const span = prompt.images.at(-1);
    if (span === undefined) return undefined;
    const { columns, rows } = gridOf(span);
    // The first is the frame as it is.
    const asked = (i: number) =>
      i === 0 ? prompt : withImage(prompt, span, greyPatch(span.image, columns, rows, i - 1));
    const [whole = 0, ...without] = await this.#score(columns * rows + 1, (i) => [asked(i), reply], from);
    return { hash: span.image.hash, columns, rows, values: without.map((score) => whole - score), logprob: whole };
  }

  /** Ids that a list of replies begins with alike. */
  async sharedStart(replies: readonly string[]): Promise<number> {
    return commonStart(await Promise.all(replies.map((text) => this.#model.renderer.reply(text))));
  }

  async close(): Promise<void> {
    await this.#sampler.close();
    await this.#engine.close();
  }

  /** `asked`: a prompt and a reply, made when they are scored. */
  async #score(
    count: number,
    asked: (i: number) => readonly [ModelInput, Int32Array],
    from: number,
  ): Promise<number[]> {
    const temperature = this.#trained?.sampling.temperature;
    const sums: number[] = [];
    for (let at = 0; at < count; at += BATCH) {
      const here = Array.from({ length: Math.min(BATCH, count - at) }, (_, i) => asked(at + i));
      const data = here.map(([input, reply]) => datumOf(input, reply, from, temperature));
      for (const { logprobs } of await this.#sampler.score(data))
        sums.push(logprobs.reduce((sum, one) => sum + one, 0));
    }
    return sums;
  }
}

let made = 0;

/** Scores the reply's ids from `from` on. */
function datumOf(prompt: ModelInput, reply: Int32Array, from: number, temperature = 1): Datum {
  const ids = new Int32Array(prompt.ids.length + reply.length);
  ids.set(prompt.ids);
  ids.set(reply, prompt.ids.length);
  const targets = new Int32Array(ids.length).fill(-1);
  const weights = new Float32Array(ids.length);
  for (let i = prompt.ids.length + from; i < ids.length; i++) {
    targets[i - 1] = ids[i] as number;
    weights[i - 1] = 1;
  }
  return { input: { ids, images: prompt.images }, targets, weights, temperature: temperature > 0 ? temperature : 1 };
}

function commonStart(lists: readonly Int32Array[]): number {
  const [first = new Int32Array()] = lists;
  const shortest = Math.min(...lists.map(({ length }) => length));
  let length = 0;
  while (length < shortest && lists.every((ids) => ids[length] === first[length])) length++;
  // One reply has nothing to part from: all of it counts.
  return lists.length < 2 ? 0 : Math.min(length, shortest - 1);
}

/** About one patch for each of the model's image tokens, in the frame's own proportions. */
function gridOf({ image, length }: ImageSpan): { columns: number; rows: number } {
  const side = Math.sqrt((image.width * image.height) / Math.max(1, length));
  const cells = (pixels: number) => Math.max(1, Math.min(MAX_SIDE, Math.round(pixels / side)));
  return { columns: cells(image.width), rows: cells(image.height) };
}

function greyPatch({ width, height, data }: Image, columns: number, rows: number, cell: number): Image {
  const copy = new Uint8Array(data);
  const [x, y] = [cell % columns, Math.floor(cell / columns)];
  const [left, right] = [x, x + 1].map((edge) => Math.round((edge * width) / columns)) as [number, number];
  const [top, bottom] = [y, y + 1].map((edge) => Math.round((edge * height) / rows)) as [number, number];
  for (let row = top; row < bottom; row++) copy.fill(GREY, (row * width + left) * 3, (row * width + right) * 3);
  return new Image(width, height, copy);
}

function withImage({ ids, images }: ModelInput, old: ImageSpan, image: Image): ModelInput {
  const { features: _, ...bare } = old;
  return { ids, images: images.map((span) => (span === old ? { ...bare, image } : span)) };
}
