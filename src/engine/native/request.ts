/** One call of `sample` while it runs in a worker: what was asked, where its prompt stands, and what has been drawn so far. */
import { NumpyRandom } from "../../core/random-numpy.ts";
import type { TokenStream } from "../../model/tokenizer.ts";
import { MAX_MASKED, type OnToken, type Sample, type SamplingParams, type StopReason } from "../engine.ts";
import { RuinedWeights } from "../errors.ts";
import type { GrammarMask } from "../grammar.ts";
import type { SampleResult, SampleSpan } from "./jobs.ts";
import type { F32 } from "./kernels/api.ts";
import { tokenPositions } from "./positions.ts";
import { type Choice, choose, keepAllowed, likeliest, truncates } from "./sampling.ts";

export type SampleRequest = {
  readonly id: number;
  readonly sequence: string;
  readonly ids: Int32Array;
  readonly spans: readonly SampleSpan[];
  readonly params: SamplingParams;
  /** For stop strings. */
  readonly stream?: TokenStream;
  readonly mask?: GrammarMask;
  readonly onToken?: OnToken;
  readonly resolve: (result: SampleResult) => void;
  readonly reject: (error: Error) => void;
};

export class Drawing {
  readonly request: SampleRequest;
  /** Prompt ids that were in the cache. */
  readonly reused: number;
  /** (time, height, width) of the prompt's ids. */
  readonly positions: Int32Array;
  readonly promptLogprobs: Float32Array | undefined;
  readonly #random: NumpyRandom;
  /** Rotary position of the first sampled id. */
  readonly #next: number;
  readonly #ids: number[] = [];
  readonly #logprobs: number[] = [];
  readonly #raw: number[] = [];
  readonly #top: Choice[][] = [];
  readonly #masked: number[] = [];
  #broken: Error | undefined;
  #text = "";
  #stopReason: StopReason | undefined;

  constructor(request: SampleRequest, reused: number, mergeSize: number) {
    const { ids, spans, params } = request;
    this.request = request;
    this.reused = reused;
    this.positions = new Int32Array(ids.length * 3);
    const grids = spans.map(({ start, frame }) => ({ start, gridH: frame.gridH, gridW: frame.gridW }));
    this.#next = tokenPositions(this.positions, ids.length, grids, mergeSize, 0);
    this.#random = new NumpyRandom(params.seed);
    this.promptLogprobs = params.promptLogprobs ? new Float32Array(ids.length) : undefined;
  }

  get done(): boolean {
    return this.#stopReason !== undefined;
  }

  /** The id drawn last, and its rotary position. */
  get last(): { readonly id: number; readonly position: number } {
    return { id: this.#ids.at(-1) as number, position: this.#next + this.#ids.length - 1 };
  }

  /** Draws the next id from rows of log-probabilities at `offset`; `raw` is at temperature 1. */
  draw(logprobs: F32, raw: F32, offset: number, vocab: number): void {
    const { params, mask } = this.request;
    if (this.#broken !== undefined) throw this.#broken;
    if (mask?.isOver) {
      this.#stopReason = "stop";
      return;
    }
    const kept = mask === undefined ? 1 : keepAllowed(logprobs, offset, vocab, mask);
    // One number per id, so that the i-th id depends on the seed and i alone.
    const drawn = choose(logprobs, offset, vocab, params, this.#random.random());
    const { id } = drawn;
    const isMasked = 1 - kept > MAX_MASKED;
    // Where the grammar removed next to nothing, the policy's own log-probability is told.
    const logprob =
      mask === undefined || isMasked || truncates(params, vocab)
        ? drawn.logprob
        : Math.fround(drawn.logprob + Math.log(kept));
    if (id < 0) {
      throw new RuinedWeights(
        "The model gives no valid distribution: its logits are not finite. Load an earlier checkpoint and lower the learning rate.",
      );
    }
    this.#ids.push(id);
    this.#logprobs.push(logprob);
    if (mask !== undefined) {
      this.#masked.push(isMasked ? 1 : 0);
      // What may follow is known before the next tick.
      mask.take(id).catch((error: unknown) => {
        this.#broken = error as Error;
      });
    }
    if (params.rawLogprobs) this.#raw.push(raw[offset + id] as number);
    if (params.topLogprobs !== undefined) {
      this.#top.push(likeliest(logprobs, offset, vocab, params, params.topLogprobs));
    }
    this.request.onToken?.(id, logprob, params.topLogprobs === undefined ? undefined : this.#top.at(-1));
    if (params.stopIds?.includes(id) || this.#endsText(id)) this.#stopReason = "stop";
    else if (this.#ids.length >= params.maxTokens) this.#stopReason = "length";
  }

  result(): SampleResult {
    const { params, ids, mask } = this.request;
    const sample: Omit<Sample, "version"> = {
      ids: Int32Array.from(this.#ids),
      logprobs: Float32Array.from(this.#logprobs),
      stopReason: this.#stopReason ?? "length",
      ...(params.rawLogprobs && { rawLogprobs: Float32Array.from(this.#raw) }),
      ...(this.promptLogprobs && { promptLogprobs: this.promptLogprobs }),
      ...(params.topLogprobs !== undefined && { topLogprobs: this.#top }),
      ...(mask !== undefined && { masked: Uint8Array.from(this.#masked) }),
    };
    return { sample, cached: this.reused, prefilled: ids.length - this.reused };
  }

  #endsText(id: number): boolean {
    const { params, stream } = this.request;
    if (stream === undefined || params.stopStrings === undefined) return false;
    const longest = Math.max(...params.stopStrings.map((stop) => stop.length));
    // A stop string may begin in earlier ids; more than its length never matters.
    this.#text = this.#text.slice(-longest) + stream.push(id);
    return params.stopStrings.some((stop) => this.#text.includes(stop));
  }
}
