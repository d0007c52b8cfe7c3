/** What a worker thread does, in Node and in a page: takes jobs and notes from the pool and answers each job once. */
import { Image } from "../../core/image.ts";
import { soon } from "../../core/platform.ts";
import type { ModelFolder } from "../../model/folder.ts";
import type { Tokenizer, TokenStream } from "../../model/tokenizer.ts";
import type { OnToken, SamplingParams } from "../engine.ts";
import { EngineError } from "../errors.ts";
import type { GrammarMask, Grammars } from "../grammar.ts";
import type {
  Drawn,
  Job,
  JobOf,
  Jobs,
  ModelRef,
  Note,
  Reply,
  Request,
  SampleResult,
  WireError,
  WorkerPlace,
} from "./jobs.ts";
import type { Kernels } from "./kernels/api.ts";
import { computing } from "./kernels/computing.ts";
import { MemoryExhausted } from "./kernels/wasm-memory.ts";
import { Models } from "./models.ts";
import type { ImageFeatures } from "./network.ts";
import { Optimizer } from "./optimizer.ts";
import { runPack } from "./pack.ts";
import { Tape } from "./tape.ts";

type Handlers = { [K in keyof Jobs]: (job: JobOf<K>, id: number) => Jobs[K][1] | Promise<Jobs[K][1]> };
/** Jobs that read and write model folders. */
type FileJob = "load" | "save" | "restore";

/** What differs between a thread of Node and one of a page. */
export type Tools = {
  readonly place: WorkerPlace;
  /** The kernels of this thread; asked for once. */
  attach(place: WorkerPlace): Kernels;
  /** Tokenizer and image processor of a model folder. */
  folder(path: string): Promise<ModelFolder>;
  readonly files: { readonly [K in FileJob]: (models: Models, job: JobOf<K>) => Promise<Jobs[K][1]> };
  /** Grammars of a vocabulary; absent in a page, which asks for none. */
  grammars?(tokenizer: Tokenizer, vocab: number): Grammars;
  /** To the pool. */
  post(messages: readonly (Reply | Drawn)[]): void;
};

export class Workbench {
  readonly #tools: Tools;
  readonly #handlers: Handlers;
  #models: Models | undefined;
  /** Samples that wait for their tokenizer. */
  readonly #opening = new Set<number>();
  readonly #grammars = new WeakMap<Tokenizer, Grammars>();
  /** Samples that end in the same tick are answered in one message: waking the other thread is what costs. */
  #outbox: (Reply | Drawn)[] = [];

  constructor(tools: Tools) {
    this.#tools = tools;
    const { files, place } = tools;
    this.#handlers = {
      kernels: () => place.kernels.info,
      load: (job) => files.load(this.#known(), job),
      save: (job) => files.save(this.#known(), job),
      restore: (job) => files.restore(this.#known(), job),
      preprocess: (job) => this.#preprocess(job),
      see: (job) => this.#see(job),
      pack: (job) => this.#compute(() => runPack(this.#known().network(job.model), this.#known().arena, job)),
      reduce: (job) => this.#compute(() => this.#reduce(job)),
      update: (job) => this.#compute(() => this.#update(job)),
      sample: (job, id) => this.#sample(job, id),
    };
  }

  /** A message of the pool. */
  take(requests: readonly Request[]): void {
    for (const request of requests) {
      if ("note" in request) this.#heed(request);
      else void this.#answer(request.id, request.job).then((reply) => this.#post(reply));
    }
  }

  #known(): Models {
    const { place, attach, folder } = this.#tools;
    this.#models ??= new Models(place, attach(place), folder);
    return this.#models;
  }

  #compute<T>(work: () => T): T {
    return computing(this.#known().kernels, work);
  }

  async #preprocess({ folder, image, features, into }: Jobs["preprocess"][0]): Promise<Jobs["preprocess"][1]> {
    const { processor } = await this.#known().folder(folder);
    return this.#compute(() => {
      if (features !== undefined) {
        const { patches, gridH, gridW } = processor.unpack(features);
        return { patches: share(patches, into), gridH, gridW };
      }
      const shown = new Image(image.width, image.height, image.data);
      const { patches, gridH, gridW } = processor.preprocess(shown);
      return { patches: share(patches, into), gridH, gridW, pixels: shown.hash };
    });
  }

  async #see({ model, images }: JobOf<"see">): Promise<Jobs["see"][1]> {
    const frames = await Promise.all(
      images.map((shown) =>
        "patches" in shown ? shown : this.#preprocess({ folder: model.folder, ...shown }).catch(wireError),
      ),
    );
    const { arena, kernels } = this.#known();
    const tape = new Tape(kernels, arena, "inference");
    try {
      const sound = frames.flatMap((frame) => ("patches" in frame ? [frame] : []));
      const images = sound.map(({ patches, gridH, gridW }) => ({ patches: new Float32Array(patches), gridH, gridW }));
      const levels = this.#compute(() => this.#known().network(model).encode(tape, images));
      const seen = new Map(levels.map((found, i) => [sound[i], found]));
      return frames.map((frame) => {
        if (!("patches" in frame)) return { error: frame };
        const { main, deepstack } = seen.get(frame) as ImageFeatures;
        const features = new SharedArrayBuffer(main.byteLength * (1 + deepstack.length));
        [main, ...deepstack].forEach((level, at) => {
          new Float32Array(features, at * main.byteLength, main.length).set(level);
        });
        return { frame, features };
      });
    } finally {
      tape.release();
    }
  }

  #reduce({ model, gradients, from, to }: JobOf<"reduce">): number[] {
    const { kernels } = this.#known();
    const { layout } = this.#known().network(model).trained;
    const flats = gradients.map((buffer) => new Float32Array(buffer));
    return layout.slice(from, to).map(({ offset, size, trainable }) => {
      if (!trainable) return 0;
      const [total, ...others] = flats.map((flat) => flat.subarray(offset, offset + size));
      if (total === undefined) return 0;
      for (const other of others) kernels.axpy(total, 1, other, size);
      return kernels.sumSquares(total, size);
    });
  }

  #update({ model, gradients, moments, from, to, move }: JobOf<"update">): null {
    const { trained } = this.#known().network(model);
    const part = trained.layout.slice(from, to);
    const flats = gradients.map((buffer) => new Float32Array(buffer));
    const [gradient] = flats;
    if (move !== undefined && gradient !== undefined) {
      const optimizer = new Optimizer(this.#known().kernels, trained, moments);
      optimizer.update(part, gradient, move.optimizer, move.scale, move.step);
    }
    for (const { offset, size } of part) for (const flat of flats) flat.fill(0, offset, offset + size);
    return null;
  }

  async #sample(job: JobOf<"sample">, id: number): Promise<Jobs["sample"][1]> {
    const { model, sequence, ids, spans, params, stream: wanted } = job;
    const decoder = this.#known().decoder(model);
    let stream: TokenStream | undefined;
    let mask: GrammarMask | undefined;
    if (params.stopStrings?.length || params.grammar !== undefined) {
      this.#opening.add(id);
      const { tokenizer } = await this.#known().folder(model.folder);
      if (params.stopStrings?.length) stream = tokenizer.stream();
      if (params.grammar !== undefined) mask = await this.#openMask(model, tokenizer, params);
      if (!this.#opening.delete(id)) {
        mask?.close();
        throw new EngineError("The sample was aborted.");
      }
    }
    const result = new Promise<SampleResult>((resolve, reject) => {
      const onToken: OnToken | undefined = wanted
        ? (drawn, logprob, top) => this.#post({ drawn: id, id: drawn, logprob, ...(top && { top }) })
        : undefined;
      decoder.submit({
        id,
        sequence,
        ids,
        spans,
        params,
        resolve,
        reject,
        ...(stream && { stream }),
        ...(mask && { mask }),
        ...(onToken && { onToken }),
      });
    });
    return mask === undefined ? result : result.finally(() => mask.close());
  }

  async #openMask({ config }: ModelRef, tokenizer: Tokenizer, params: SamplingParams): Promise<GrammarMask> {
    const grammars = this.#grammars.get(tokenizer) ?? this.#tools.grammars?.(tokenizer, config.text.vocabSize);
    if (grammars === undefined) throw new EngineError("Grammars can't be followed here.");
    this.#grammars.set(tokenizer, grammars);
    const mask = await grammars.open(params.grammar ?? "", params.stopIds);
    for (const id of params.grammarIds ?? []) await mask.take(id);
    return mask;
  }

  #heed(note: Note): void {
    const models = this.#models;
    switch (note.note) {
      case "abort":
        this.#opening.delete(note.id);
        models?.knownDecoder(note.model)?.abort(note.id);
        return;
      case "release":
        models?.knownDecoder(note.model)?.release(note.sequence);
        return;
      case "retire":
        models?.retire(note.model);
        return;
      case "forget":
        models?.forget(note.model);
        return;
    }
  }

  async #answer(id: number, job: Job): Promise<Reply> {
    try {
      const handler = this.#handlers[job.kind] as (job: Job, id: number) => unknown;
      return { id, result: await handler(job, id) };
    } catch (error) {
      // Inside a kernel, other threads may still wait for what this one left undone: the pool starts anew.
      if (error instanceof MemoryExhausted) soon(() => void Promise.reject(error));
      return { id, error: wireError(error) };
    }
  }

  #post(message: Reply | Drawn): void {
    this.#outbox.push(message);
    if (this.#outbox.length > 1) return;
    queueMicrotask(() => {
      this.#tools.post(this.#outbox);
      this.#outbox = [];
    });
  }
}

/** A copy in shared memory, in `into` if it has the size. */
function share(values: Float32Array, into?: SharedArrayBuffer): SharedArrayBuffer {
  const buffer = into?.byteLength === values.byteLength ? into : new SharedArrayBuffer(values.byteLength);
  new Float32Array(buffer).set(values);
  return buffer;
}

function wireError(error: unknown): WireError {
  const { name, message, stack } = error instanceof Error ? error : new Error(String(error));
  return { name, message, ...(stack !== undefined && { stack }) };
}
