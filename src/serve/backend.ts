/**
 * The model behind the routes, on whatever engine: the weights that answer now, adapters by name, a limit on requests at work, and the pause in
 * which weights are swapped. A sampler is a snapshot, so a request keeps the weights it began with; one that is kept over a pause goes on with
 * the new ones, from the ids it has.
 */
import { setMaxListeners } from "node:events";
import { stat } from "node:fs/promises";
import { join, resolve } from "node:path";
import type { ModelInput } from "../core/model-input.ts";
import { mixSeed } from "../core/seed.ts";
import type { Datum, Engine, OnToken, Sampler, SamplingParams, TopLogprob } from "../engine/engine.ts";
import { Slots } from "../http/limits.ts";
import { type ChatFolder, loadChat } from "../model/chat.ts";
import { visionIds } from "../model/vision-ids.ts";
import { ApiError, badField } from "../wire/errors.ts";
import type { Finish, Generated, OnChoiceToken, VersionSpan } from "../wire/reply.ts";
import type { SamplingContext } from "../wire/sampling.ts";
import { Desk } from "./desk.ts";
import { SentImages } from "./images.ts";
import { ServeMetrics } from "./metrics.ts";

export type BackendOptions = {
  readonly engine: Engine;
  readonly folder: string;
  /** What requests call it. */
  readonly name: string;
  /** Most ids of a sequence; default: what the model can attend to. */
  readonly contextTokens?: number;
  /** Requests at work at a time, and how many more may wait. */
  readonly concurrency?: number;
  readonly queue?: number;
  /** Bytes of processed images that are kept for requests that only name them; default 512 MiB. */
  readonly imageBytes?: number;
};

export type Generation = {
  /** Absent: the base model. */
  readonly model: string | undefined;
  readonly prompt: ModelInput;
  readonly params: SamplingParams;
  readonly signal: AbortSignal;
  readonly onToken?: OnToken;
};

export type PauseMode = "abort" | "wait" | "keep";

/** A sampler that is closed when it was replaced and nobody uses it any more. */
class Weights {
  readonly path: string;
  readonly created = Math.floor(Date.now() / 1000);
  readonly #sampler: Sampler;
  #users = 0;
  #retired = false;

  constructor(path: string, sampler: Sampler) {
    this.path = path;
    this.#sampler = sampler;
  }

  async use<T>(work: (sampler: Sampler) => Promise<T>): Promise<T> {
    this.#users += 1;
    try {
      return await work(this.#sampler);
    } finally {
      this.#users -= 1;
      if (this.#retired && this.#users === 0) await this.#sampler.close();
    }
  }

  async retire(): Promise<void> {
    if (this.#retired) return;
    this.#retired = true;
    if (this.#users === 0) await this.#sampler.close();
  }
}

export class Backend {
  readonly name: string;
  readonly folder: string;
  readonly chat: ChatFolder;
  readonly contextTokens: number;
  readonly engine: Engine;
  readonly metrics = new ServeMetrics();
  readonly images: SentImages;
  /** Where requests become prompts. */
  readonly desk: Desk;
  /** A label that a trainer gives the weights. */
  version = "default";
  readonly #slots: Slots;
  readonly #most: number;
  readonly #adapters = new Map<string, Weights>();
  readonly #running = new Set<AbortController>();
  #base: Weights;
  #paused: { readonly over: Promise<void>; readonly end: () => void } | undefined;
  #sequences = 0;

  static async open(options: BackendOptions): Promise<Backend> {
    const folder = resolve(options.folder);
    const sampler = await options.engine.sampler(folder);
    return new Backend(options, await loadChat(folder), new Weights(folder, sampler));
  }

  private constructor(options: BackendOptions, chat: ChatFolder, base: Weights) {
    const { concurrency = 256, queue = 4096 } = options;
    this.name = options.name;
    this.folder = base.path;
    this.engine = options.engine;
    this.chat = chat;
    this.contextTokens = Math.min(options.contextTokens ?? chat.maxPositions, chat.maxPositions);
    this.#base = base;
    this.images = new SentImages(options.imageBytes);
    this.#slots = new Slots({ most: concurrency, waiting: queue });
    this.#most = concurrency + queue;
    const { folder, contextTokens } = this;
    this.desk = new Desk({ folder, contextTokens, processor: chat.processor });
  }

  /** Names that requests may use, the base model first. */
  models(): { id: string; root: string; parent: string | null; created: number }[] {
    return [
      { id: this.name, root: this.#base.path, parent: null, created: this.#base.created },
      ...[...this.#adapters].map(([id, { path, created }]) => ({ id, root: path, parent: this.name, created })),
    ];
  }

  /** The name to answer with; 404 when there is no such model. */
  resolve(model: string | null | undefined): string {
    if (model === undefined || model === null || model === "") return this.name;
    this.#find(model);
    return model;
  }

  /** What sampling fields are read against. */
  samplingContext(prompt: ModelInput): Omit<SamplingContext, "top"> {
    const { ids, tokenizer, generation } = this.chat;
    return {
      promptLength: prompt.ids.length,
      contextTokens: this.contextTokens,
      eos: generation.eos,
      banned: new Set(visionIds(ids, tokenizer.special)),
    };
  }

  checkAnswers(count: number): void {
    if (count <= this.#most) return;
    throw badField("n", `A request has at most ${this.#most} answers here, not ${count}.`);
  }

  /** Answers that are worth something only together: the first that fails ends the others, for whom nobody waits any more. */
  async together<T, R>(
    jobs: readonly T[],
    signal: AbortSignal,
    work: (job: T, index: number, signal: AbortSignal) => Promise<R>,
  ): Promise<R[]> {
    this.checkAnswers(jobs.length);
    const end = new AbortController();
    const either = AbortSignal.any([signal, end.signal]);
    // One for every answer.
    setMaxListeners(0, either);
    try {
      return await Promise.all(jobs.map((job, index) => work(job, index, either)));
    } catch (error) {
      end.abort(error);
      throw error;
    }
  }

  /** So many answers to one prompt, the i-th with seed + i; `take` hears of every id as it is drawn. */
  choices(
    count: number,
    { model, prompt, params, signal }: Omit<Generation, "onToken">,
    take: OnChoiceToken = () => {},
  ): Promise<Generated[]> {
    const seeds = Array.from({ length: count }, (_, i) => params.seed + i);
    return this.together(seeds, signal, (seed, choice, either) =>
      this.generate({
        ...{ model, prompt, params: { ...params, seed }, signal: either },
        onToken: (id, logprob, top = []) => take(choice, id, logprob, top),
      }),
    );
  }

  async generate({ model, prompt, params, signal, onToken }: Generation): Promise<Generated> {
    const { metrics } = this;
    const began = performance.now();
    const ids: number[] = [];
    const logprobs: number[] = [];
    const top: (readonly TopLogprob[])[] = [];
    const versions: VersionSpan[] = [];
    const take: OnToken = (id, logprob, likeliest) => {
      if (ids.length === 0) metrics.observe("vllm:time_to_first_token_seconds", (performance.now() - began) / 1000);
      ids.push(id);
      logprobs.push(logprob);
      if (likeliest !== undefined) top.push(likeliest);
      onToken?.(id, logprob, likeliest);
    };
    let finish: Finish | undefined;
    let ended = "error";
    metrics.waiting += 1;
    try {
      await this.#slots.run(async () => {
        while (finish === undefined) {
          await this.#whenOpen(signal);
          const start = ids.length;
          const rest =
            start === 0
              ? params
              : { ...params, maxTokens: params.maxTokens - start, seed: mixSeed("after", params.seed, start) };
          const { version } = this;
          finish = await this.#attempt(model, extended(prompt, ids), rest, signal, take);
          if (ids.length > start) versions.push({ version, start, end: ids.length });
          // Everything was drawn just before the pause.
          if (finish === undefined && ids.length >= params.maxTokens) finish = "length";
        }
      }, signal);
      ended = finish ?? "error";
    } catch (error) {
      if (signal.aborted) ended = "abort";
      throw error;
    } finally {
      metrics.waiting -= 1;
      metrics.finished[ended] = (metrics.finished[ended] ?? 0) + 1;
      metrics.promptTokens += prompt.ids.length;
      metrics.generationTokens += ids.length;
      metrics.observe("vllm:e2e_request_latency_seconds", (performance.now() - began) / 1000);
      metrics.observe("vllm:request_prompt_tokens", prompt.ids.length);
      metrics.observe("vllm:request_generation_tokens", ids.length);
    }
    return { ids, logprobs, top, finish: finish ?? "abort", versions };
  }

  /** Undefined: a pause came between, and the request goes on after it. */
  async #attempt(
    model: string | undefined,
    prompt: ModelInput,
    params: SamplingParams,
    signal: AbortSignal,
    take: OnToken,
  ): Promise<Finish | undefined> {
    const { metrics } = this;
    const stop = new AbortController();
    const sequence = `serve ${this.#sequences++}`;
    let taken = 0;
    let live = true;
    const leave = () => stop.abort(signal.reason);
    signal.addEventListener("abort", leave, { once: true });
    this.#running.add(stop);
    metrics.running += 1;
    metrics.waiting -= 1;
    try {
      return await this.#find(model).use(async (sampler) => {
        try {
          const sample = await sampler.sample(prompt, params, {
            sequence,
            signal: stop.signal,
            onToken: (...drawn) => {
              if (!live) return;
              taken += 1;
              take(...drawn);
            },
          });
          live = false;
          // Engines that do not stream give all at the end.
          for (; taken < sample.ids.length; taken++) {
            take(sample.ids[taken] as number, sample.logprobs[taken] as number, sample.topLogprobs?.[taken]);
          }
          return sample.stopReason;
        } finally {
          live = false;
          sampler.release(sequence);
        }
      });
    } catch (error) {
      if (signal.aborted || !stop.signal.aborted) throw error;
      return stop.signal.reason === "abort" ? "abort" : undefined;
    } finally {
      signal.removeEventListener("abort", leave);
      this.#running.delete(stop);
      metrics.running -= 1;
      metrics.waiting += 1;
    }
  }

  /** Log-probabilities of a prompt's own ids at temperature 1; the first has none, and neither have pictures: 0. */
  async promptLogprobs(model: string | undefined, prompt: ModelInput): Promise<Float32Array> {
    const { length } = prompt.ids;
    const targets = new Int32Array(length).fill(-1);
    const vision = new Set([this.chat.ids.imageToken, this.chat.ids.videoToken]);
    for (let i = 0; i + 1 < length; i++) {
      const next = prompt.ids[i + 1] as number;
      if (!vision.has(next)) targets[i] = next;
    }
    const datum: Datum = { input: prompt, targets, weights: new Float32Array(length), temperature: 1 };
    const [scores] = await this.#find(model).use((sampler) => sampler.score([datum]));
    const logprobs = new Float32Array(length);
    for (let i = 0; i + 1 < length; i++) logprobs[i + 1] = scores?.logprobs[i] ?? 0;
    return logprobs;
  }

  get paused(): boolean {
    return this.#paused !== undefined;
  }

  /** New requests wait. Those at work end with what they have (`abort`), are waited for (`wait`), or go on after the pause (`keep`). */
  async pause(mode: PauseMode): Promise<void> {
    if (this.#paused === undefined) {
      let end = () => {};
      const over = new Promise<void>((done) => {
        end = done;
      });
      this.#paused = { over, end };
    }
    if (mode !== "wait") for (const stop of this.#running) stop.abort(mode);
    while (this.#running.size > 0) await new Promise((done) => setTimeout(done, 5));
  }

  resume(): void {
    this.#paused?.end();
    this.#paused = undefined;
  }

  /** Other weights for the base model; default: its folder, read again. */
  async reload(folder = this.folder): Promise<void> {
    const next = new Weights(folder, await this.engine.sampler(folder));
    const before = this.#base;
    this.#base = next;
    await before.retire();
  }

  async loadAdapter(name: string, path: string, replace: boolean): Promise<void> {
    const known = this.#adapters.get(name);
    if ((known !== undefined && !replace) || name === this.name) {
      throw new ApiError(400, `There is an adapter "${name}" already; set load_inplace to replace it.`, {
        type: "InvalidUserInput",
      });
    }
    if (!(await isFile(join(path, "adapter_config.json")))) {
      throw new ApiError(404, `There is no adapter at ${path}: name a folder with adapter_config.json.`);
    }
    this.#adapters.set(name, new Weights(path, await this.engine.sampler(path)));
    await known?.retire();
  }

  async unloadAdapter(name: string): Promise<void> {
    const known = this.#adapters.get(name);
    if (known === undefined) throw new ApiError(404, `There is no adapter "${name}".`);
    this.#adapters.delete(name);
    await known.retire();
  }

  async close(): Promise<void> {
    this.resume();
    for (const stop of this.#running) stop.abort("abort");
    await Promise.all([this.#base, ...this.#adapters.values()].map((weights) => weights.retire()));
    await this.desk.close();
  }

  #find(model: string | undefined): Weights {
    const found = model === undefined || model === this.name ? this.#base : this.#adapters.get(model);
    if (found !== undefined) return found;
    const names = this.models().map(({ id }) => id);
    throw new ApiError(404, `The model \`${model}\` does not exist; there are: ${names.join(", ")}.`, {
      param: "model",
    });
  }

  async #whenOpen(signal: AbortSignal): Promise<void> {
    while (this.#paused !== undefined) {
      signal.throwIfAborted();
      await new Promise<void>((done, fail) => {
        const abort = () => fail(signal.reason);
        signal.addEventListener("abort", abort, { once: true });
        this.#paused?.over.then(done).finally(() => signal.removeEventListener("abort", abort));
      });
    }
    signal.throwIfAborted();
  }
}

function extended({ ids, images }: ModelInput, more: readonly number[]): ModelInput {
  return more.length === 0 ? { ids, images } : { ids: Int32Array.from([...ids, ...more]), images };
}

function isFile(path: string): Promise<boolean> {
  return stat(path).then(
    (found) => found.isFile(),
    () => false,
  );
}
