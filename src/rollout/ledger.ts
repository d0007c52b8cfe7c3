/**
 * The one truth of an episode: the ids that were given, forced and sampled, in the order they came. Ids only enter at the end and
 * never change, so what is trained is what was sampled from, and the prompt of every turn is a prefix of the whole.
 *
 * What enters is checked here, once: image spans hold exactly their placeholders and nothing else does, a sample has a
 * log-probability for every id and no vision id, and nothing passes the context's end. An observation that does not fit is
 * refused whole (ask `room` first); nothing is ever cut.
 */
import { DataError } from "../core/errors.ts";
import type { ImageSpan, ModelInput } from "../core/model-input.ts";
import type { Sample } from "../engine/engine.ts";
import { EngineError } from "../engine/errors.ts";
import type { Sequence } from "./trajectory.ts";

export type LedgerLimits = {
  /** Most ids the ledger may hold. */
  readonly contextTokens: number;
  /** The placeholder that image spans are made of. */
  readonly imageToken: number;
  /** Ids that a model can't say: image and video placeholders and their brackets. */
  readonly visionIds: readonly number[];
};

/** What a ledger takes; the spans' starts count from its first id. */
export type Given = ModelInput & {
  /** Places of ids that were forced, in a span of another ledger. */
  readonly forced?: readonly number[];
};

export class TokenLedger {
  readonly #limits: LedgerLimits;
  readonly #visionIds: ReadonlySet<number>;
  readonly #images: ImageSpan[] = [];
  readonly #replies: { turn: number; start: number; end: number }[] = [];
  readonly #forced: number[] = [];
  #ids = new Int32Array(256);
  #sampled = new Uint8Array(256);
  #logprobs = new Float32Array(256);
  #versions = new Int32Array(256).fill(-1);
  #length = 0;

  constructor(limits: LedgerLimits) {
    this.#limits = limits;
    this.#visionIds = new Set(limits.visionIds);
  }

  get length(): number {
    return this.#length;
  }

  /** Ids that may still be appended. */
  get room(): number {
    return this.#limits.contextTokens - this.#length;
  }

  /** Whether any id was sampled. */
  get hasReplies(): boolean {
    return this.#replies.length > 0;
  }

  /** Appends ids that were rendered: a prompt, an observation, or a span of another ledger; spans count from its first id. They carry no loss. */
  give(given: Given): void {
    this.#checkRoom(given.ids.length);
    this.#checkImages(given);
    const start = this.#append(given.ids);
    for (const span of given.images) {
      this.#images.push({ ...span, start: start + span.start });
    }
    for (const at of given.forced ?? []) this.#forced.push(start + at);
  }

  /** Appends an id the model should have said and did not, such as the end of its turn. It carries no loss. */
  force(id: number): void {
    this.#checkRoom(1);
    if (this.#visionIds.has(id)) throw new DataError(`The vision placeholder ${id} can't be forced.`);
    this.#forced.push(this.#append([id]));
  }

  /** Appends what the model said: these ids, and only these, carry loss, less those that a grammar's mask decided. */
  sample(sample: Sample, turn: number): void {
    const { ids, logprobs, version, versions, masked } = sample;
    if (ids.length === 0) throw new EngineError("The sampler gave no ids; ask for at least one.");
    this.#checkRoom(ids.length);
    if (logprobs.length !== ids.length) {
      throw new EngineError(
        `The sampler gave ${ids.length} ids with ${logprobs.length} log-probabilities; each id needs its own.`,
      );
    }
    const wrong = logprobs.findIndex((logprob) => !Number.isFinite(logprob) || logprob > 1e-3);
    if (wrong >= 0) {
      throw new EngineError(
        `The sampler gave id ${ids[wrong]} the log-probability ${logprobs[wrong]}: load an earlier checkpoint.`,
      );
    }
    if (versions !== undefined && versions.length !== ids.length) {
      throw new EngineError(
        `The sampler gave ${ids.length} ids with ${versions.length} versions; each id needs its own.`,
      );
    }
    const vision = ids.find((id) => this.#visionIds.has(id));
    if (vision !== undefined) {
      throw new EngineError(`The sampler drew the vision placeholder ${vision}; it must mask vision ids.`);
    }
    const start = this.#append(ids);
    this.#sampled.fill(1, start, this.#length);
    this.#logprobs.set(logprobs, start);
    masked?.forEach((flag, i) => {
      if (flag === 0) return;
      this.#sampled[start + i] = 0;
      this.#logprobs[start + i] = 0;
    });
    if (versions === undefined) this.#versions.fill(version, start, this.#length);
    else this.#versions.set(versions, start);
    this.#replies.push({ turn, start, end: this.#length });
  }

  /** Everything so far, as a sampler takes it. A copy: no one else writes here. */
  prompt(): ModelInput {
    return { ids: this.#ids.slice(0, this.#length), images: [...this.#images] };
  }

  /** Ids start..end-1 for another ledger. Images are inside or outside, never halved. */
  span(start: number, end: number): Given {
    if (!(start >= 0 && start <= end && end <= this.#length)) {
      throw new DataError(`The ledger has ids 0..${this.#length - 1}; ${start}..${end - 1} are not all there.`);
    }
    const touched = this.#images.filter((image) => image.start < end && image.start + image.length > start);
    const cut = touched.find((image) => image.start < start || image.start + image.length > end);
    if (cut !== undefined) {
      throw new DataError(
        `Ids ${start}..${end - 1} cut the image at ${cut.start}; choose a span that contains all of it.`,
      );
    }
    return {
      ids: this.#ids.slice(start, end),
      images: touched.map((image) => ({ ...image, start: image.start - start })),
      forced: this.#forced.filter((at) => at >= start && at < end).map((at) => at - start),
    };
  }

  /** What will be trained. */
  sequence(): Sequence {
    return {
      ...this.prompt(),
      sampled: this.#sampled.slice(0, this.#length),
      samplerLogprobs: this.#logprobs.slice(0, this.#length),
      versions: this.#versions.slice(0, this.#length),
      forced: [...this.#forced],
      replies: this.#replies.map((reply) => ({ ...reply })),
    };
  }

  /** Writes behind the last id and returns where. The only place that writes ids. */
  #append(ids: ArrayLike<number>): number {
    const start = this.#length;
    const end = start + ids.length;
    if (end > this.#ids.length) this.#grow(Math.max(end, 2 * this.#ids.length));
    this.#ids.set(ids, start);
    this.#length = end;
    return start;
  }

  #grow(capacity: number): void {
    const ids = new Int32Array(capacity);
    const sampled = new Uint8Array(capacity);
    const logprobs = new Float32Array(capacity);
    const versions = new Int32Array(capacity).fill(-1);
    ids.set(this.#ids);
    sampled.set(this.#sampled);
    logprobs.set(this.#logprobs);
    versions.set(this.#versions);
    this.#ids = ids;
    this.#sampled = sampled;
    this.#logprobs = logprobs;
    this.#versions = versions;
  }

  #checkRoom(count: number): void {
    if (count > this.room) {
      throw new DataError(
        `${count} ids do not fit: ${this.#length} of ${this.#limits.contextTokens} are taken. End the episode instead.`,
      );
    }
  }

  /**
   * Each span is whole, begins and ends with a placeholder, and there is no placeholder outside the spans. Between the placeholders of an image some
   * families write other tokens, such as the ends of its rows; the engine knows how many placeholders there must be.
   */
  #checkImages({ ids, images }: ModelInput): void {
    const { imageToken } = this.#limits;
    const placeholders = (some: Int32Array) => some.reduce((count, id) => count + (id === imageToken ? 1 : 0), 0);
    let end = 0;
    let announced = 0;
    for (const span of images) {
      const whole = Number.isInteger(span.start) && span.length >= 1 && span.start >= end;
      end = span.start + span.length;
      if (!whole || end > ids.length || ids[span.start] !== imageToken || ids[end - 1] !== imageToken) {
        throw new DataError(
          `The image at ids ${span.start}..${end - 1} does not have its own ${span.length} placeholders; ` +
            "the renderer and the model do not belong together.",
        );
      }
      announced += placeholders(ids.subarray(span.start, end));
    }
    const found = placeholders(ids);
    if (found !== announced) {
      throw new DataError(
        `The ids hold ${found} image placeholders, but their images have ${announced}; ` +
          "the renderer and the model do not belong together.",
      );
    }
  }
}
