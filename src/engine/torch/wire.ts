/**
 * What crosses the wire to the Python worker: msgpack with raw little-endian arrays, never numbers as text (the Python half is
 * python/saccade_torch/wire.py). Every machine that runs Node is little-endian, so a typed array's bytes are the wire's.
 */
import { decode, encode } from "@msgpack/msgpack";
import { ConfigError, DataError, ImageError } from "../../core/errors.ts";
import type { ModelInput } from "../../core/model-input.ts";
import type { Datum, Sample } from "../engine.ts";
import { EngineError } from "../errors.ts";
import { Gone } from "./lost.ts";

export type Body = Readonly<Record<string, unknown>>;

/** Names an image as this model sees it. */
export type KeyOf = (span: ModelInput["images"][number]) => string;

/** An image on its way: what is said of it, and its bytes. */
export type FrameBody = { readonly key: string; readonly about: Body; readonly data: Uint8Array };

/**
 * A request: the length of its head, the head, and the bytes of images as they lie, one behind the other. A batch has tens of megabytes of them, which
 * are written to the socket without being copied.
 */
export function pack(body: Body, frames: readonly FrameBody[] = []): Uint8Array[] {
  const named = frames.map(({ key, about, data }) => ({ key, bytes: data.byteLength, ...about }));
  const head = encode({ ...body, frames: named }, { ignoreUndefined: true });
  const length = new Uint8Array(4);
  new DataView(length.buffer).setUint32(0, head.byteLength, true);
  return [length, head, ...frames.map(({ data }) => data)];
}

export function unpack(bytes: Uint8Array): Body {
  return decode(bytes) as Body;
}

export function inputBody({ ids, images }: ModelInput, keyOf: KeyOf): Body {
  return { ids: bytesOf(ids), spans: images.map((span) => [span.start, span.length, keyOf(span)]) };
}

export function datumBody({ input, temperature, ...arrays }: Datum, keyOf: KeyOf): Body {
  const raw = Object.entries(arrays).flatMap(([name, array]) => (array === undefined ? [] : [[name, bytesOf(array)]]));
  return { input: inputBody(input, keyOf), temperature, ...(Object.fromEntries(raw) as Body) };
}

export function readSample(body: Body): Sample {
  const { ids, logprobs, stopReason, version, rawLogprobs, promptLogprobs, topLogprobs } = body;
  const top = topLogprobs as readonly (readonly [Uint8Array, Uint8Array])[] | undefined;
  return {
    ids: ints(ids),
    logprobs: floats(logprobs),
    stopReason: stopReason as Sample["stopReason"],
    version: version as number,
    ...(rawLogprobs !== undefined && { rawLogprobs: floats(rawLogprobs) }),
    ...(promptLogprobs !== undefined && { promptLogprobs: floats(promptLogprobs) }),
    ...(top && {
      topLogprobs: top.map(([named, values]) => {
        const found = floats(values);
        return [...ints(named)].map((id, i) => ({ id, logprob: found[i] as number }));
      }),
    }),
  };
}

/** Both copy: what arrives lies anywhere in a larger buffer (and a Buffer's own `slice` copies nothing). */
export function floats(bytes: unknown): Float32Array {
  return new Float32Array(new Uint8Array(bytes as Uint8Array).buffer);
}

export function ints(bytes: unknown): Int32Array {
  return new Int32Array(new Uint8Array(bytes as Uint8Array).buffer);
}

function bytesOf(array: Int32Array | Float32Array): Uint8Array {
  return new Uint8Array(array.buffer, array.byteOffset, array.byteLength);
}

/** The worker does not have these images. */
export class MissingFrames extends EngineError {
  override name = "MissingFrames";
  readonly keys: readonly string[];

  constructor(message: string, keys: readonly string[]) {
    super(message);
    this.keys = keys;
  }
}

/** Errors lose their class on the way. */
export function reviveError(error: unknown): Error {
  const { name, message, keys } = error as { name: string; message: string; keys?: readonly string[] };
  if (name === "OtherInstance") return new Gone();
  if (name === "MissingFrames") return new MissingFrames(message, keys ?? []);
  const types = { ConfigError, DataError, ImageError, EngineError };
  const type = types[name as keyof typeof types] ?? EngineError;
  return new type(message);
}
