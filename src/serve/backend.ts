/**
 * The model behind the routes, on any engine: it samples, limits how many requests run at a time, and pauses while weights are swapped. A request that
 * is kept over a pause continues with the new weights, from the ids it has.
 */
import { setMaxListeners } from "node:events";
import { resolve } from "node:path";
import type { ModelInput } from "../core/model-input.ts";
import { mixSeed } from "../core/seed.ts";
import type { Datum, Engine, OnToken, SamplingParams, TopLogprob } from "../engine/engine.ts";
import { Slots } from "../http/limits.ts";
import { type ChatFolder, loadChat } from "../model/chat.ts";
import { visionIds } from "../model/vision-ids.ts";
import { badField } from "../wire/errors.ts";
import type { Finish, Generated, OnChoiceToken, VersionSpan } from "../wire/reply.ts";
import type { SamplingContext } from "../wire/sampling.ts";
import { Desk } from "./desk.ts";
import { Gate } from "./gate.ts";
import { SentImages } from "./images.ts";
import { ServeMetrics } from "./metrics.ts";
import { ServedModels } from "./weights.ts";

export type BackendOptions = {
  readonly engine: Engine;
  readonly folder: string;
  /** The model's name in requests. */
  readonly name: string;
  /** Longest sequence; default: what the model can attend to. */
  readonly contextTokens?: number;
  /** How many requests run at a time, and how many more can wait. */
  readonly concurrency?: number;
  readonly queue?: number;
  /** Bytes of processed images kept for requests that only name them; default 256 MiB. */
  readonly imageBytes?: number;
};

export type Generation = {
  /** Default: the base model. */
  readonly model: string | undefined;
  readonly prompt: ModelInput;
  readonly params: SamplingParams;
  readonly signal: AbortSignal;
  readonly onToken?: OnToken;
};

export type PauseMode = "abort" | "wait" | "keep";

export class Backend {
  readonly models: ServedModels;
  readonly chat: ChatFolder;
  readonly contextTokens: number;
  readonly engine: Engine;
  readonly metrics = new ServeMetrics();
  readonly images: SentImages;
  /** Turns requests into prompts. */
  readonly desk: Desk;
  /** A trainer labels the weights with it. */
  version = "default";
  readonly #slots: Slots;
  readonly #maxAnswers: number;
  readonly #gate = new Gate();
  readonly #running = new Set<AbortController>();
  #sequences = 0;

  static async open(options: BackendOptions): Promise<Backend> {
    const { engine, name } = options;
    const models = await ServedModels.open(engine, name, resolve(options.folder));
    return new Backend(options, models, await loadChat(models.folder));
  }

  private constructor(options: BackendOptions, models: ServedModels, chat: ChatFolder) {
    const { concurrency = 256, queue = 4096, contextTokens = chat.maxPositions } = options;
    this.models = models;
    this.engine = options.engine;
    this.chat = chat;
    this.contextTokens = Math.min(contextTokens, chat.maxPositions);
    this.images = new SentImages(chat.processor, options.imageBytes);
    this.#slots = new Slots({ most: concurrency, waiting: queue });
    this.#maxAnswers = concurrency + queue;
    this.desk = new Desk({ folder: models.folder, contextTokens: this.contextTokens, processor: chat.processor });
  }

  /** The name to answer with; 404 when there is no such model. */
  resolve(model: string | null | undefined): string {
    if (model === undefined || model === null || model === "") return this.models.name;
    this.models.find(model);
    return model;
  }

  /** What sampling fields are checked against. */
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
    if (count <= this.#maxAnswers) return;
    throw badField("n", `A request has at most ${this.#maxAnswers} answers, got ${count}.`);
  }

  /** All answers of a request. The first that fails ends the others. */
  async together<T, R>(
    jobs: readonly T[],
    signal: AbortSignal,
    work: (job: T, index: number, signal: AbortSignal) => Promise<R>,
  ): Promise<R[]> {
    this.checkAnswers(jobs.length);
    const end = new AbortController();
    const either = AbortSignal.any([signal, end.signal]);
    // Every answer listens.
    setMaxListeners(0, either);
    try {
      return await Promise.all(jobs.map((job, index) => work(job, index, either)));
    } catch (error) {
      end.abort(error);
      throw error;
    }
  }

  /** `count` answers to one prompt, the i-th with seed + i. Calls `take` for each id as it is sampled. */
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
          await this.#gate.pass(signal);
          const start = ids.length;
          const rest =
            start === 0
              ? params
              : {
                  ...params,
                  maxTokens: params.maxTokens - start,
                  seed: mixSeed("after", params.seed, start),
                  ...(params.grammar !== undefined && { grammarIds: [...ids] }),
                };
          const { version } = this;
          finish = await this.#attempt(model, extended(prompt, ids), rest, signal, take);
          if (ids.length > start) versions.push({ version, start, end: ids.length });
          // It was complete just before the pause.
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

  /** Undefined: a pause interrupted it, and the request continues afterwards. */
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
      return await this.models.find(model).use(async (sampler) => {
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
          // Engines that do not stream return everything at the end.
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

  /** Log-probabilities of a prompt's own ids at temperature 1; 0 for the first one and for image placeholders. */
  async promptLogprobs(model: string | undefined, prompt: ModelInput): Promise<Float32Array> {
    const { length } = prompt.ids;
    const targets = new Int32Array(length).fill(-1);
    const vision = new Set([this.chat.ids.imageToken, this.chat.ids.videoToken]);
    for (let i = 0; i + 1 < length; i++) {
      const next = prompt.ids[i + 1] as number;
      if (!vision.has(next)) targets[i] = next;
    }
    const datum: Datum = { input: prompt, targets, weights: new Float32Array(length), temperature: 1 };
    const [scores] = await this.models.find(model).use((sampler) => sampler.score([datum]));
    const logprobs = new Float32Array(length);
    for (let i = 0; i + 1 < length; i++) logprobs[i + 1] = scores?.logprobs[i] ?? 0;
    return logprobs;
  }

  get paused(): boolean {
    return this.#gate.isClosed;
  }

  /** New requests wait. Running ones end with what they have (`abort`), run to their end (`wait`), or continue after the pause (`keep`). */
  async pause(mode: PauseMode): Promise<void> {
    this.#gate.close();
    if (mode !== "wait") for (const stop of this.#running) stop.abort(mode);
    while (this.#running.size > 0) await new Promise((done) => setTimeout(done, 5));
  }

  resume(): void {
    this.#gate.open();
  }

  async close(): Promise<void> {
    this.resume();
    for (const stop of this.#running) stop.abort("abort");
    await this.models.close();
    await this.desk.close();
  }
}

function extended({ ids, images }: ModelInput, more: readonly number[]): ModelInput {
  return more.length === 0 ? { ids, images } : { ids: Int32Array.from([...ids, ...more]), images };
}
