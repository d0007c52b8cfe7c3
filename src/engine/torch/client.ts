/**
 * All calls of an engine to its worker. Pictures go ahead of what names them, each once; when a worker does not have one (it was restarted, or forgot), it
 * is sent again. A call whose connection broke is asked again as long as the same process answers: learners' calls are numbered, so that none is done twice.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { type ModelInput, nameOf } from "../../core/model-input.ts";
import { type ChatFolder, loadChat } from "../../model/chat.ts";
import { EngineError } from "../errors.ts";
import { Gone, WorkerLost } from "./lost.ts";
import type { Link, WorkerSource } from "./process.ts";
import { type Body, MissingFrames } from "./wire.ts";

type Span = ModelInput["images"][number];
type Processor = ChatFolder["processor"];

/** Bytes of pictures in one request. */
const FRAME_BYTES = 32 * 1024 ** 2;
const ATTEMPTS = 6;
const WAIT_MS = 500;
/** After so many the client forgets what it sent; the worker says if something is missing. */
const MOST_KNOWN = 100_000;

/** Which pictures a call shows, and how this model's processor sees them. */
export class Pictures {
  readonly #processor: Processor;

  private constructor(processor: Processor) {
    this.#processor = processor;
  }

  static async of(folder: string): Promise<Pictures> {
    return new Pictures((await loadChat(folder)).processor);
  }

  /** The pixels a model gets depend on the picture and on the size its processor chooses. */
  readonly keyOf = (span: Span): string => {
    if (span.features !== undefined) return nameOf(span);
    const { width, height } = this.#processor.targetSize(span.image.width, span.image.height);
    return `${span.image.hash}:${width}x${height}`;
  };

  /** Of the picture that a key names, whatever size it was shown in. */
  static hashOf(key: string): string {
    return key.replace(/:\d+x\d+$/, "");
  }

  body(span: Span, key: string): Body & { readonly data: Uint8Array } {
    if (span.features !== undefined) {
      const { grid, dtype, data } = span.features;
      return { key, grid, dtype, data };
    }
    const { width, height, data } = this.#processor.view(span.image);
    return { key, width, height, data };
  }
}

export class Client {
  readonly source: WorkerSource;
  /** Pictures that this process of the worker was sent. */
  #known = new Set<string>();
  #instance: string | undefined;

  constructor(source: WorkerSource) {
    this.source = source;
  }

  async link(): Promise<Link> {
    const link = await this.source.link();
    if (link.instance !== this.#instance) {
      this.#instance = link.instance;
      this.#known = new Set();
    }
    return link;
  }

  /** `inputs`: what the call shows. `instance`: the only process that can answer it. */
  async call(
    op: string,
    body: Body,
    options: {
      readonly inputs?: readonly ModelInput[];
      readonly pictures?: Pictures;
      readonly instance?: string;
      readonly signal?: AbortSignal;
      readonly onMessage?: (message: Body) => void;
    } = {},
  ): Promise<Body> {
    const { inputs = [], pictures, instance, signal, onMessage } = options;
    const asked = { ...body, instance };
    for (let attempt = 1; ; attempt++) {
      try {
        const link = await this.link();
        if (instance !== undefined && link.instance !== instance) throw new Gone();
        const frames = pictures === undefined ? [] : await this.#show(link, inputs, pictures);
        const whole = frames.length === 0 ? asked : { ...asked, frames };
        const answer = await (onMessage === undefined
          ? link.connection.call(op, whole, signal)
          : link.connection.stream(op, whole, onMessage, signal));
        for (const { key } of frames) this.#known.add(key as string);
        return answer;
      } catch (error) {
        signal?.throwIfAborted();
        if (error instanceof MissingFrames) {
          for (const key of error.keys) this.#known.delete(key);
        } else if (error instanceof WorkerLost || error instanceof Gone) this.source.doubt();
        else throw error;
        // Whether it was done is not known, and never will be.
        if (error instanceof Gone || (error instanceof WorkerLost && attempt === ATTEMPTS)) {
          const words = this.source.lastWords();
          throw words === undefined ? new Gone() : new EngineError(words);
        }
        if (attempt === ATTEMPTS) throw error;
        if (error instanceof WorkerLost) await sleep(WAIT_MS * 2 ** (attempt - 1), undefined, signal && { signal });
      }
    }
  }

  async close(): Promise<void> {
    await this.source.close();
  }

  /** Sends pictures that are not known there, and gives the last of them: they can go with the call itself. */
  async #show({ connection }: Link, inputs: readonly ModelInput[], pictures: Pictures): Promise<Body[]> {
    const known = this.#known;
    if (known.size > MOST_KNOWN) known.clear();
    let batch: Body[] = [];
    let bytes = 0;
    const flush = async () => {
      const sent = batch;
      batch = [];
      bytes = 0;
      await connection.frames(sent);
      for (const { key } of sent) known.add(key as string);
    };
    const named = new Set<string>();
    for (const span of inputs.flatMap(({ images }) => images)) {
      const key = pictures.keyOf(span);
      if (known.has(key) || named.has(key)) continue;
      named.add(key);
      const body = pictures.body(span, key);
      batch.push(body);
      bytes += body.data.byteLength;
      if (bytes >= FRAME_BYTES) await flush();
    }
    return batch;
  }
}
