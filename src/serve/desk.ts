/**
 * Turns requests into prompts on threads that tokenize, render and decode, so that the main thread stays free. Short requests have their own thread and
 * never wait for long ones. The pixels of all requests together are bounded: a prompt's images are decoded one by one, once there is room for all.
 */
import type { Worker } from "node:worker_threads";
import { DataError, errorMessage } from "../core/errors.ts";
import { Image } from "../core/image.ts";
import type { JsonObject } from "../core/json.ts";
import type { ModelInput } from "../core/model-input.ts";
import { startThread } from "../core/workers.ts";
import { EngineError } from "../engine/errors.ts";
import { Budget } from "../http/budget.ts";
import { Slots } from "../http/limits.ts";
import { readImageSize } from "../images/decode.ts";
import type { ImageProcessor } from "../model/image-processor.ts";
import type { PromptOptions } from "../model/renderer.ts";
import {
  type DeskCall,
  type DeskData,
  type DeskJob,
  type DeskReply,
  type DeskResult,
  MAX_PIXELS,
  type Processed,
  type Rendered,
} from "./desk-wire.ts";

/** Bytes of decoded images in all prompts together. */
const MAX_PIXEL_BYTES = 256 * 1024 * 1024;
/** Characters of a short request. */
const SHORT = 32_768;
const MAX_WAITING = 4096;

export type DeskOptions = DeskData & { readonly processor: ImageProcessor; readonly pixelBytes?: number };

/** A prompt whose images are still encoded; `show` decodes them. */
export type PendingPrompt = {
  readonly ids: Int32Array;
  readonly places: Rendered["places"];
  show(signal: AbortSignal): Promise<Shown>;
};
/** Call `release` when nothing uses the pixels any more. */
export type Shown = { readonly prompt: ModelInput; readonly release: () => void };

export class Desk {
  readonly #processor: ImageProcessor;
  readonly #short: Lane;
  readonly #long: Lane;
  readonly #pixels: Budget;

  constructor({ processor, pixelBytes = MAX_PIXEL_BYTES, folder, contextTokens }: DeskOptions) {
    this.#processor = processor;
    this.#short = new Lane({ folder, contextTokens });
    this.#long = new Lane({ folder, contextTokens });
    this.#pixels = new Budget(pixelBytes);
  }

  async encode(texts: readonly string[], signal?: AbortSignal): Promise<readonly Int32Array[]> {
    const length = texts.reduce((sum, text) => sum + text.length, 0);
    return (await this.#lane(length).run({ kind: "encode", texts }, signal)).ids;
  }

  /** Messages as OpenAI writes them; `size` is roughly how many characters they have. */
  async render(
    messages: readonly JsonObject[],
    options: PromptOptions,
    size: number,
    signal?: AbortSignal,
  ): Promise<PendingPrompt> {
    const { ids, places, files } = await this.#lane(size).run({ kind: "render", messages, options }, signal);
    return {
      ids,
      places,
      show: async (signal) => {
        const { images, release } = await this.decode(files, signal);
        return {
          prompt: { ids, images: places.map((place, i) => ({ ...place, image: images[i] as Image })) },
          release,
        };
      },
    };
  }

  /** Reads the size from an image's header, and checks it. */
  size(file: Uint8Array): { readonly width: number; readonly height: number } {
    return readImageSize(file, MAX_PIXELS);
  }

  /** One after another, once there is room for the pixels of all. */
  async decode(
    files: readonly Uint8Array[],
    signal?: AbortSignal,
  ): Promise<{ readonly images: readonly Image[]; readonly release: () => void }> {
    const bytes = files.reduce((sum, file) => sum + this.bytesOf(file), 0);
    const release = files.length === 0 ? () => {} : await this.#pixels.take(bytes, signal);
    try {
      const images: Image[] = [];
      for (const file of files) {
        const { width, height, data, hash } = await this.#long.run({ kind: "image", file }, signal);
        images.push(new Image(width, height, data, hash));
      }
      return { images, release };
    } catch (error) {
      release();
      throw error;
    }
  }

  /** An image as its processor prepares it, on vLLM's wire. */
  features({ width, height, data, hash }: Image, signal?: AbortSignal): Promise<Processed> {
    return this.#long.run({ kind: "features", image: { width, height, data, hash } }, signal);
  }

  async close(): Promise<void> {
    await Promise.all([this.#short.close(), this.#long.close()]);
  }

  #lane(size: number): Lane {
    return size <= SHORT ? this.#short : this.#long;
  }

  /** Bytes of an image's pixels, no larger than the model sees it. */
  bytesOf(file: Uint8Array): number {
    const { width, height } = this.size(file);
    const target = this.#processor.targetSize(width, height);
    return Math.min(width * height, target.width * target.height) * 3;
  }
}

type Pending = { readonly resolve: (result: never) => void; readonly reject: (error: Error) => void };

/** A thread that starts when it is first needed, and again after it died. */
class Lane {
  readonly #data: DeskData;
  readonly #slots = new Slots({ most: 1, waiting: MAX_WAITING });
  #worker: Worker | undefined;
  #pending: Pending | undefined;
  #calls = 0;

  constructor(data: DeskData) {
    this.#data = data;
  }

  run<J extends DeskJob>(job: J, signal?: AbortSignal): Promise<DeskResult<J>> {
    return this.#slots.run(
      () =>
        new Promise<DeskResult<J>>((resolve, reject) => {
          this.#pending = { resolve, reject };
          this.#worker ??= this.#start();
          this.#calls += 1;
          this.#worker.postMessage({ id: this.#calls, job } satisfies DeskCall);
        }),
      signal,
    );
  }

  async close(): Promise<void> {
    await this.#worker?.terminate();
  }

  #start(): Worker {
    const worker = startThread("serve/desk-worker", { workerData: this.#data });
    worker.on("message", (reply: DeskReply) => {
      const pending = this.#pending;
      this.#pending = undefined;
      if ("result" in reply) pending?.resolve(reply.result as never);
      else pending?.reject(reply.error.isOurs ? new DataError(reply.error.message) : new Error(reply.error.message));
    });
    let cause = "it ended";
    worker.on("error", (error) => {
      cause = errorMessage(error);
    });
    worker.on("exit", () => {
      this.#worker = undefined;
      this.#pending?.reject(new EngineError(`The thread that reads requests died: ${cause}.`));
      this.#pending = undefined;
    });
    worker.unref();
    return worker;
  }
}
