/** A sampler in the worker: a snapshot of weights that lives as long as the worker's process does. */
import { ConfigError, DataError } from "../../core/errors.ts";
import type { ModelInput } from "../../core/model-input.ts";
import { checkSampling } from "../check-sampling.ts";
import type { Datum, Sample, SampleContext, Sampler, SamplingParams, Scores, WeightOffer } from "../engine.ts";
import { EngineError } from "../errors.ts";
import { checkDatum } from "../losses.ts";
import type { Client, Images } from "./client.ts";
import { type Body, datumBody, floats, inputBody, readSample, reviveError } from "./wire.ts";

type Asked = {
  readonly prompt: ModelInput;
  readonly params: SamplingParams;
  readonly sequence: string;
  readonly onToken?: SampleContext["onToken"];
  readonly signal?: AbortSignal;
  readonly settle: (result: Sample | Error) => void;
};

export class TorchSampler implements Sampler {
  readonly version: number;
  readonly #client: Client;
  readonly #images: Images;
  readonly #id: number;
  readonly #instance: string;
  #asked: Asked[] = [];
  #closed = false;

  constructor(
    client: Client,
    images: Images,
    { id, instance, version }: { readonly id: number; readonly instance: string; readonly version: number },
  ) {
    this.#client = client;
    this.#images = images;
    this.#id = id;
    this.#instance = instance;
    this.version = version;
  }

  async sample(prompt: ModelInput, params: SamplingParams, context: SampleContext): Promise<Sample> {
    this.#checkOpen();
    checkSampling(params);
    if (params.grammar !== undefined) {
      throw new ConfigError("The PyTorch engine can't follow a grammar: use the native engine or vLLM as its sampler.");
    }
    if (prompt.ids.length === 0) throw new DataError("A sequence needs at least one id.");
    const { sequence, signal, onToken } = context;
    signal?.throwIfAborted();
    return new Promise<Sample>((resolve, reject) => {
      const stop = () => {
        reject(signal?.reason);
        this.#tell("abort", sequence);
      };
      signal?.addEventListener("abort", stop, { once: true });
      const settle = (result: Sample | Error) => {
        signal?.removeEventListener("abort", stop);
        if (result instanceof Error) reject(result);
        else resolve(result);
      };
      this.#ask({ prompt, params, sequence, ...(signal && { signal }), ...(onToken && { onToken }), settle });
    });
  }

  /** What is asked in one turn of the event loop travels together: hundreds of episodes are played at once, and a request of its own for each would cost more than its tokens. */
  #ask(asked: Asked): void {
    if (this.#asked.push(asked) === 1) setImmediate(() => this.#send(this.#asked.splice(0)));
  }

  async #send(all: readonly Asked[]): Promise<void> {
    const asked = all.filter(({ signal }) => signal?.aborted !== true);
    if (asked.length === 0) return;
    const open = new Map(asked.entries());
    /** How many ids each was told of, ever and by the answer that comes now: where a connection broke, the same ids come again. */
    const told = asked.map(() => 0);
    let now = asked.map(() => 0);
    const onSent = () => {
      now = asked.map(() => 0);
      // Told to stop while it was on its way, when there was nothing to stop yet.
      for (const { signal, sequence } of open.values()) if (signal?.aborted) this.#tell("abort", sequence);
    };
    const take = (message: Body) => {
      const of = message.of as number;
      const one = open.get(of);
      if (message.id !== undefined) {
        now[of] = (now[of] ?? 0) + 1;
        if ((now[of] ?? 0) <= (told[of] ?? 0)) return;
        told[of] = now[of] ?? 0;
        one?.onToken?.(message.id as number, message.logprob as number);
        return;
      }
      open.delete(message.of as number);
      one?.settle(message.error === undefined ? readSample(message) : reviveError(message.error));
    };
    const body = {
      sampler: this.#id,
      asked: asked.map(({ prompt, params, sequence, onToken }) => ({
        sequence,
        params,
        input: inputBody(prompt, this.#images.keyOf),
        stream: onToken !== undefined,
      })),
    };
    try {
      await this.#client.stream("sample", body, this.#showing(asked.map(({ prompt }) => prompt)), take, onSent);
    } catch (error) {
      for (const one of open.values()) one.settle(error as Error);
    }
  }

  async score(data: readonly Datum[]): Promise<Scores[]> {
    this.#checkOpen();
    for (const datum of data) checkDatum(datum);
    const found: Scores[] = [];
    for (const piece of await this.#client.pieces(data, this.#images)) {
      const body = { sampler: this.#id, data: piece.map((datum) => datumBody(datum, this.#images.keyOf)) };
      const { scores } = await this.#client.call("score", body, this.#showing(piece.map(({ input }) => input)));
      found.push(...(scores as Uint8Array[]).map((bytes) => ({ logprobs: floats(bytes) })));
    }
    return found;
  }

  async offer(takers: number): Promise<WeightOffer> {
    this.#checkOpen();
    const asked = { sampler: this.#id };
    const instance = this.#instance;
    const found = await this.#client.call("offer", { ...asked, takers }, { instance });
    const { offer, ...rest } = found as Body & Omit<WeightOffer, "give">;
    return {
      ...rest,
      give: async () => {
        await this.#client.call("give", { ...asked, offer }, { instance });
      },
    };
  }

  release(sequence: string): void {
    if (!this.#closed) this.#tell("release", sequence);
  }

  async close(): Promise<void> {
    if (this.#closed) return;
    this.#closed = true;
    await this.#client.call("close_sampler", { sampler: this.#id }, { instance: this.#instance }).catch(() => {});
  }

  /** A worker that is gone has done it already. */
  #tell(op: "abort" | "release", sequence: string): void {
    this.#client.call(op, { sampler: this.#id, sequence }, { instance: this.#instance }).catch(() => {});
  }

  #showing(inputs: readonly ModelInput[]) {
    return { inputs, images: this.#images, instance: this.#instance };
  }

  #checkOpen(): void {
    if (this.#closed)
      throw new EngineError(`The sampler of version ${this.version} is closed. Publish or open another.`);
  }
}
