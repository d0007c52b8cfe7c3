/**
 * All calls of an engine to its worker. Images go ahead of what names them, each once; when a worker does not have one (it was restarted, or forgot), it
 * is sent again. A call whose connection broke is asked again as long as the same process answers: learners' calls are numbered, so that none is done twice.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { type ModelInput, nameOf } from "../../core/model-input.ts";
import { type ChatFolder, loadChat, speaksQwen } from "../../model/chat.ts";
import type { Datum } from "../engine.ts";
import { EngineError } from "../errors.ts";
import { Gone, WorkerLost } from "./lost.ts";
import type { Link, WorkerSource } from "./process.ts";
import { type Body, type FrameBody, MissingFrames } from "./wire.ts";

type Span = ModelInput["images"][number];
type Processor = Pick<ChatFolder["processor"], "targetSize" | "view">;
/** Where the worker has the processor, images travel as they are. */
const UNTOUCHED: Processor = { targetSize: (width, height) => ({ width, height }), view: (image) => image };

/** Bytes of images in one request. */
const FRAME_BYTES = 32 * 1024 ** 2;
/** Of the frames that a worker keeps, what one call may show: others are on their way meanwhile. */
const CALL_SHARE = 0.25;
const ATTEMPTS = 6;
const WAIT_MS = 500;
/** After so many the client forgets what it sent; the worker says if something is missing. */
const MAX_KNOWN = 100_000;

/** Which images a call shows, and how this model's processor sees them. */
export class Images {
  readonly #processor: Processor;

  private constructor(processor: Processor) {
    this.#processor = processor;
  }

  static async of(folder: string): Promise<Images> {
    return new Images((await speaksQwen(folder)) ? (await loadChat(folder)).processor : UNTOUCHED);
  }

  /** The pixels a model gets depend on the image and on the size its processor chooses. */
  readonly keyOf = (span: Span): string => {
    if (span.features !== undefined) return nameOf(span);
    const { width, height } = this.#processor.targetSize(span.image.width, span.image.height);
    return `${span.image.hash}:${width}x${height}`;
  };

  /** Of the image that a key names, whatever size it was shown in. */
  static hashOf(key: string): string {
    return key.replace(/:\d+x\d+$/, "");
  }

  bytesOf(span: Span): number {
    if (span.features !== undefined) return span.features.data.byteLength;
    const { width, height } = this.#processor.targetSize(span.image.width, span.image.height);
    return 3 * width * height;
  }

  body(span: Span, key: string): FrameBody {
    if (span.features !== undefined) {
      const { grid, dtype, data } = span.features;
      return { key, about: { grid, dtype }, data };
    }
    const { width, height, data } = this.#processor.view(span.image);
    return { key, about: { width, height }, data };
  }
}

/** `inputs`: what a call shows. `instance`: the only process that can answer it. */
export type Showing = {
  readonly inputs?: readonly ModelInput[];
  readonly images?: Images;
  readonly instance?: string;
};

export class Client {
  readonly source: WorkerSource;
  /** Images that this process of the worker was sent. */
  #known = new Set<string>();
  #instance: string | undefined;
  /** Images on their way. */
  #ahead: Promise<void> = Promise.resolve();

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

  async call(op: string, body: Body, showing: Showing = {}): Promise<Body> {
    return this.#ask(showing, ({ connection }, frames) =>
      connection.call(op, { ...body, instance: showing.instance }, frames),
    );
  }

  /** An answer in messages; where the connection breaks, all of it is asked again, and `onSent` called again. */
  async stream(op: string, body: Body, showing: Showing, take: (message: Body) => void, onSent: () => void) {
    await this.#ask(showing, ({ connection }, frames) => {
      const answer = connection.stream(op, { ...body, instance: showing.instance }, frames, take);
      onSent();
      return answer;
    });
  }

  async #ask<T>(
    { inputs = [], images, instance }: Showing,
    ask: (link: Link, frames: readonly FrameBody[]) => Promise<T>,
  ): Promise<T> {
    for (let attempt = 1; ; attempt++) {
      try {
        const link = await this.link();
        if (instance !== undefined && link.instance !== instance) throw new Gone();
        await this.#ahead;
        // The last of them go with the call itself.
        const batches = images === undefined ? [] : this.#unknown(inputs, images, link);
        const last = batches.pop() ?? [];
        for (const batch of batches) await link.connection.frames(batch);
        const answer = await ask(link, last);
        for (const { key } of [...batches.flat(), ...last]) this.#known.add(key);
        return answer;
      } catch (error) {
        if (error instanceof MissingFrames) {
          for (const key of error.keys) this.#known.delete(key);
        } else if (error instanceof WorkerLost || error instanceof Gone) this.source.doubt();
        else throw error;
        // Whether it was done is not known, and never will be.
        if (error instanceof Gone || (error instanceof WorkerLost && attempt === ATTEMPTS)) {
          const words = this.source.lastWords();
          throw words === undefined ? new Gone(this.source.ending) : new EngineError(words);
        }
        if (attempt === ATTEMPTS) throw error;
        if (error instanceof WorkerLost) await sleep(WAIT_MS * 2 ** (attempt - 1));
      }
    }
  }

  /** Data in runs that a worker can hold the frames of, in order; at least one run. */
  async pieces(data: readonly Datum[], images: Images): Promise<Datum[][]> {
    const most = (await this.link()).frameBytes * CALL_SHARE;
    const runs: Datum[][] = [[]];
    let shown = new Set<string>();
    let bytes = 0;
    for (const datum of data) {
      const fresh = new Map(datum.input.images.map((span) => [images.keyOf(span), images.bytesOf(span)]));
      const more = (known: ReadonlySet<string>) =>
        [...fresh].reduce((sum, [key, size]) => sum + (known.has(key) ? 0 : size), 0);
      if (bytes + more(shown) > most && runs.at(-1)?.length !== 0) {
        runs.push([]);
        shown = new Set();
        bytes = 0;
      }
      bytes += more(shown);
      for (const key of fresh.keys()) shown.add(key);
      runs.at(-1)?.push(datum);
    }
    return runs;
  }

  async close(): Promise<void> {
    await this.source.close();
  }

  /** Sends images that are not known there, ahead of the call that needs them. */
  ahead(inputs: readonly ModelInput[], images: Images): void {
    const before = this.#ahead;
    const show = async () => {
      await before;
      const link = await this.link();
      for (const batch of this.#unknown(inputs, images, link)) {
        await link.connection.frames(batch);
        for (const { key } of batch) this.#known.add(key);
      }
    };
    // What goes wrong is met by the call that needs them.
    this.#ahead = show().catch(() => {});
  }

  /** Images that are not known there, in requests that are not too large. */
  #unknown(inputs: readonly ModelInput[], images: Images, { frameBytes }: Link): FrameBody[][] {
    if (this.#known.size > MAX_KNOWN) this.#known.clear();
    const batches: FrameBody[][] = [];
    const named = new Set<string>();
    let room = 0;
    for (const span of inputs.flatMap(({ images }) => images)) {
      const key = images.keyOf(span);
      if (this.#known.has(key) || named.has(key)) continue;
      named.add(key);
      const body = images.body(span, key);
      if (room <= 0) {
        batches.push([]);
        room = Math.min(FRAME_BYTES, frameBytes * CALL_SHARE);
      }
      batches.at(-1)?.push(body);
      room -= body.data.byteLength;
    }
    return batches;
  }
}
