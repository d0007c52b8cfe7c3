/** A sampler in the worker: a snapshot of weights that lives as long as the worker's process does. */
import { DataError } from "../../core/errors.ts";
import type { ModelInput } from "../../core/model-input.ts";
import type { Datum, Sample, SampleContext, Sampler, SamplingParams, Scores, WeightOffer } from "../engine.ts";
import { EngineError } from "../errors.ts";
import { checkDatum } from "../losses.ts";
import { checkSampling } from "../native/sampling.ts";
import type { Client, Pictures } from "./client.ts";
import { type Body, datumBody, floats, inputBody, readSample } from "./wire.ts";

export class TorchSampler implements Sampler {
  readonly version: number;
  readonly #client: Client;
  readonly #pictures: Pictures;
  readonly #id: number;
  readonly #instance: string;
  #closed = false;

  constructor(
    client: Client,
    pictures: Pictures,
    { id, instance, version }: { readonly id: number; readonly instance: string; readonly version: number },
  ) {
    this.#client = client;
    this.#pictures = pictures;
    this.#id = id;
    this.#instance = instance;
    this.version = version;
  }

  async sample(prompt: ModelInput, params: SamplingParams, context: SampleContext): Promise<Sample> {
    this.#checkOpen();
    checkSampling(params);
    if (prompt.ids.length === 0) throw new DataError("A sequence needs at least one id.");
    const { sequence, signal, onToken, onSeen } = context;
    signal?.throwIfAborted();
    const body = { sampler: this.#id, sequence, params, input: inputBody(prompt, this.#pictures.keyOf) };
    const found = await this.#client.call("sample", body, {
      ...this.#showing([prompt]),
      ...(signal && { signal }),
      ...(onToken && { onMessage: ({ id, logprob }) => onToken(id as number, logprob as number) }),
    });
    onSeen?.();
    return readSample(found);
  }

  async score(data: readonly Datum[]): Promise<Scores[]> {
    this.#checkOpen();
    for (const datum of data) checkDatum(datum);
    const body = { sampler: this.#id, data: data.map((datum) => datumBody(datum, this.#pictures.keyOf)) };
    const { scores } = await this.#client.call("score", body, this.#showing(data.map(({ input }) => input)));
    return (scores as Uint8Array[]).map((bytes) => ({ logprobs: floats(bytes) }));
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
    if (this.#closed) return;
    // A worker that is gone has released it already.
    this.#client.call("release", { sampler: this.#id, sequence }, { instance: this.#instance }).catch(() => {});
  }

  async close(): Promise<void> {
    if (this.#closed) return;
    this.#closed = true;
    await this.#client.call("close_sampler", { sampler: this.#id }, { instance: this.#instance }).catch(() => {});
  }

  #showing(inputs: readonly ModelInput[]) {
    return { inputs, pictures: this.#pictures, instance: this.#instance };
  }

  #checkOpen(): void {
    if (this.#closed)
      throw new EngineError(`The sampler of version ${this.version} is closed. Publish or open another.`);
  }
}
