/**
 * The native sampler: a snapshot of weights. Each sequence belongs to one worker, where its keys and values stay between turns; its images are
 * encoded before its prompt is handed over.
 */
import type { ModelInput } from "../../core/model-input.ts";
import { checkSampling } from "../check-sampling.ts";
import type { Datum, Sample, SampleContext, Sampler, SamplingParams, Scores } from "../engine.ts";
import { EngineError } from "../errors.ts";
import { checkBatch, checkInput, checkSpan, own, runBatch, type Workshop } from "./batch.ts";
import type { ModelRef, SampleSpan } from "./jobs.ts";

/** Totals over all samplers of an engine. */
export type TokenCounts = { cachedTokens: number; prefilledTokens: number; decodedTokens: number };

export type SamplerHost = Workshop & { readonly counts: TokenCounts };

export class NativeSampler implements Sampler {
  readonly version: number;
  readonly #host: SamplerHost;
  readonly #model: ModelRef;
  /** Which worker has a sequence, and how many each has. */
  readonly #homes = new Map<string, number>();
  readonly #loads: number[];
  readonly #sampling = new Set<string>();
  #closed = false;

  /** Jobs that workers have not answered; an aborted one still runs for a moment. */
  #inFlight = 0;
  readonly #onIdleClose: ((model: ModelRef) => void) | undefined;

  /** `onIdleClose`: called when it is closed while nothing uses its weights any more, so that they may be overwritten. */
  constructor(host: SamplerHost, model: ModelRef, version: number, onIdleClose?: (model: ModelRef) => void) {
    this.#onIdleClose = onIdleClose;
    this.#host = host;
    this.#model = model;
    this.version = version;
    this.#loads = new Array<number>(host.pool.threads).fill(0);
  }

  async sample(prompt: ModelInput, params: SamplingParams, context: SampleContext): Promise<Sample> {
    this.#checkOpen();
    checkSampling(params);
    checkInput(prompt, this.#model);
    const { sequence } = context;
    if (this.#sampling.has(sequence)) {
      throw new EngineError(`Sequence "${sequence}" is already sampling. Wait for it, or name another sequence.`);
    }
    this.#sampling.add(sequence);
    try {
      return await this.#sample(prompt, params, context);
    } finally {
      this.#sampling.delete(sequence);
    }
  }

  async #sample(
    prompt: ModelInput,
    params: SamplingParams,
    { sequence, signal, onSeen, onToken }: SampleContext,
  ): Promise<Sample> {
    signal?.throwIfAborted();
    const room = this.#model.config.text.maxPositions - prompt.ids.length;
    if (room < 1) {
      throw new EngineError(
        `A prompt of ${prompt.ids.length} ids leaves no room in the model's context of ${this.#model.config.text.maxPositions}. Use fewer turns or smaller images.`,
      );
    }
    const spans = await Promise.all(
      prompt.images.map(async ({ start, length, ...shown }): Promise<SampleSpan> => {
        const { frame, features } = await this.#host.frames.features(this.#model, shown);
        checkSpan(length, frame, this.#model);
        return { start, length, frame, features };
      }),
    );
    onSeen?.();
    signal?.throwIfAborted();
    this.#checkOpen();
    const { pool, counts } = this.#host;
    const worker = this.#home(sequence);
    const job = {
      kind: "sample",
      model: this.#model,
      sequence,
      ids: own(prompt.ids),
      spans,
      // A full context ends the sample as maxTokens does.
      params: { ...params, maxTokens: Math.min(params.maxTokens, room) },
      stream: onToken !== undefined,
    } as const;
    const { id, result } = pool.send(worker, job, onToken);
    this.#track(result);
    const { sample, cached, prefilled } = await abortable(result, signal, () =>
      pool.note({ note: "abort", model: this.#model.id, id }, worker),
    );
    counts.cachedTokens += cached;
    counts.prefilledTokens += prefilled;
    counts.decodedTokens += sample.ids.length;
    return { ...sample, version: this.version };
  }

  async score(data: readonly Datum[]): Promise<Scores[]> {
    this.#checkOpen();
    checkBatch(this.#model, data);
    const scored = runBatch(this.#host, this.#model, data);
    this.#track(scored);
    return (await scored).map(({ outputs }) => ({ logprobs: outputs }));
  }

  release(sequence: string): void {
    const worker = this.#homes.get(sequence);
    if (worker === undefined) return;
    this.#homes.delete(sequence);
    this.#loads[worker] = (this.#loads[worker] as number) - 1;
    this.#host.pool.note({ note: "release", model: this.#model.id, sequence }, worker);
  }

  async close(): Promise<void> {
    if (this.#closed) return;
    this.#closed = true;
    this.#homes.clear();
    this.#host.frames.forget(this.#model.id);
    const reusable = this.#onIdleClose !== undefined && this.#inFlight === 0 && this.#sampling.size === 0;
    this.#host.pool.note({ note: reusable ? "retire" : "forget", model: this.#model.id });
    if (reusable) this.#onIdleClose?.(this.#model);
  }

  #track(job: Promise<unknown>): void {
    this.#inFlight += 1;
    const done = () => {
      this.#inFlight -= 1;
    };
    job.then(done, done);
  }

  #home(sequence: string): number {
    const known = this.#homes.get(sequence);
    if (known !== undefined) return known;
    const worker = this.#loads.indexOf(Math.min(...this.#loads));
    this.#homes.set(sequence, worker);
    this.#loads[worker] = (this.#loads[worker] as number) + 1;
    return worker;
  }

  #checkOpen(): void {
    if (this.#closed)
      throw new EngineError(`The sampler of version ${this.version} is closed. Publish or open another.`);
  }
}

/** Rejects with the signal's reason as soon as it aborts. */
function abortable<T>(result: Promise<T>, signal: AbortSignal | undefined, stop: () => void): Promise<T> {
  if (signal === undefined) return result;
  return new Promise((resolve, reject) => {
    const onAbort = () => {
      stop();
      reject(signal.reason);
    };
    signal.addEventListener("abort", onAbort, { once: true });
    result.then(resolve, reject).finally(() => signal.removeEventListener("abort", onAbort));
  });
}
