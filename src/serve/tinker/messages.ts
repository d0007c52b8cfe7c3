/** The protobuf messages of the Tinker API: a batch to learn from on the way in, its log-probabilities or samples on the way out. */
import { DataError } from "../../core/errors.ts";
import type { TopLogprob } from "../../engine/engine.ts";
import { Fields, Writer } from "../../tinker/wire.ts";

export type WireChunk =
  | { readonly type: "text"; readonly ids: Int32Array }
  | { readonly type: "image"; readonly data: Uint8Array; readonly expected?: number };
/** Dense, row by row; two dimensions have several targets a position. */
export type WireTensor = { readonly values: Float64Array; readonly shape: readonly number[] };
export type WireDatum = { readonly chunks: readonly WireChunk[]; readonly inputs: ReadonlyMap<string, WireTensor> };
export type ForwardBackwardRequest = {
  readonly modelId: string;
  readonly seqId: number;
  readonly data: readonly WireDatum[];
  readonly loss: string;
  readonly config: Readonly<Record<string, number | string>>;
  readonly forwardOnly: boolean;
};

const FLOAT32 = 1;
const INT64 = 2;
/** Of all tensors of a batch together, the zeros of sparse ones included. */
const MAX_ELEMENTS = 2 ** 25;
const MAX_SIDES = 8;
/** Of a batch; the SDK sends at most 1024. */
const MAX_DATUMS = 16_384;

export function decodeForwardBackward(bytes: Uint8Array): ForwardBackwardRequest {
  const message = new Fields(bytes);
  const config: Record<string, number | string> = {};
  for (const [key, entry] of message.map(5)) config[key] = entry.double(2);
  // Newer clients write both; the newer form counts.
  for (const [key, entry] of message.map(7)) {
    const value = entry.message(2);
    config[key] = value.has(2) ? value.text(2) : value.double(1);
  }
  const data = message.messages(3);
  if (data.length > MAX_DATUMS) {
    throw new DataError(`A batch has at most ${MAX_DATUMS} datums, not ${data.length}: send it in parts.`);
  }
  const room = { left: MAX_ELEMENTS };
  return {
    modelId: message.text(1),
    seqId: message.integer(2),
    data: data.map((datum) => readDatum(datum, room)),
    loss: message.text(4),
    config,
    forwardOnly: message.integer(6) !== 0,
  };
}

function readDatum(message: Fields, room: { left: number }): WireDatum {
  const chunks = message.messages(1).map((chunk): WireChunk => {
    if (chunk.has(1)) return { type: "text", ids: aligned(chunk.message(1).bytes(1), Int32Array) };
    if (!chunk.has(2)) throw new DataError("A chunk is text or an image here; audio is not served.");
    const image = chunk.message(2);
    if (image.has(4)) throw new DataError("override_dimensions are not served: resize the image before sending it.");
    return { type: "image", data: image.bytes(1), ...(image.has(3) && { expected: image.integer(3) }) };
  });
  return {
    chunks,
    inputs: new Map(message.map(2).map(([name, entry]) => [name, readTensor(entry.message(2), room)])),
  };
}

function readTensor(tensor: Fields, room: { left: number }): WireTensor {
  const shape = tensor.integers(4);
  if (shape.length > MAX_SIDES) throw new DataError(`A tensor has at most ${MAX_SIDES} sides, not ${shape.length}.`);
  const type = tensor.integer(3);
  const size = shape.reduce((all, side) => all * side, 1);
  if (!(size >= 0 && size <= room.left)) {
    throw new DataError(`A tensor of [${shape}] is too large: a batch has at most ${MAX_ELEMENTS} numbers.`);
  }
  room.left -= size;
  const numbers = (bytes: Uint8Array): Float64Array => {
    if (type === FLOAT32) return new Float64Array(aligned(bytes, Float32Array));
    if (type === INT64) return int64s(bytes);
    throw new DataError(`A tensor's numbers are float32 or int64, not type ${type}.`);
  };
  if (!tensor.has(2)) {
    const values = numbers(tensor.bytes(1));
    if (values.length !== size) throw new DataError(`A tensor of [${shape}] has ${values.length} numbers.`);
    return { values, shape };
  }
  const sparse = tensor.message(2);
  const [rows = 0, columns = 0] = shape;
  const values = numbers(sparse.bytes(1));
  const starts = int64s(sparse.bytes(2));
  const places = int64s(sparse.bytes(3));
  if (shape.length !== 2 || starts.length !== rows + 1 || places.length !== values.length) {
    throw new DataError(`A sparse tensor of [${shape}] does not fit its indices.`);
  }
  const dense = new Float64Array(size);
  for (let row = 0; row < rows; row++) {
    for (let at = starts[row] as number; at < (starts[row + 1] as number); at++) {
      const column = places[at];
      if (column === undefined || !(column >= 0 && column < columns))
        throw new DataError("A sparse tensor's index is outside it.");
      dense[row * columns + column] = values[at] as number;
    }
  }
  return { values: dense, shape };
}

/** By their halves: a large batch of them as big integers would keep the server's main thread for seconds. */
function int64s(bytes: Uint8Array): Float64Array {
  if (bytes.length % 8 !== 0) throw new DataError("A tensor's bytes are no whole numbers.");
  const halves = aligned(bytes, Int32Array);
  const values = new Float64Array(halves.length / 2);
  for (let i = 0; i < values.length; i++) {
    values[i] = (halves[2 * i + 1] as number) * 2 ** 32 + ((halves[2 * i] as number) >>> 0);
  }
  return values;
}

type Typed<A> = { readonly BYTES_PER_ELEMENT: number; new (buffer: ArrayBuffer): A };

/** Slices of a message begin anywhere. */
function aligned<A>(bytes: Uint8Array, type: Typed<A>): A {
  if (bytes.length % type.BYTES_PER_ELEMENT !== 0) throw new DataError("A tensor's bytes are no whole numbers.");
  return new type(new Uint8Array(bytes).buffer);
}

/** Per datum, [N] or [N, K] log-probabilities, row by row. */
export function encodeForwardBackward(
  outputs: readonly { readonly logprobs: Float32Array; readonly columns: number }[],
  metrics: Readonly<Record<string, number>>,
): Uint8Array {
  const writer = new Writer().text(1, "ArrayRecord");
  // Records hold datums of one trailing shape; consecutive ones share a record, so that order is kept.
  for (let from = 0; from < outputs.length; ) {
    const { columns } = outputs[from] as (typeof outputs)[number];
    let to = from;
    while (outputs[to]?.columns === columns) to += 1;
    const part = outputs.slice(from, to);
    const offsets = new BigInt64Array(part.length + 1);
    for (const [i, { logprobs }] of part.entries())
      offsets[i + 1] = (offsets[i] as bigint) + BigInt(logprobs.byteLength);
    const data = Buffer.concat(
      part.map(({ logprobs }) => new Uint8Array(logprobs.buffer, logprobs.byteOffset, logprobs.byteLength)),
    );
    const tensor = new Writer()
      .bytes(1, data)
      .bytes(2, new Uint8Array(offsets.buffer))
      .integer(3, FLOAT32)
      .integers(4, columns === 0 ? [] : [columns]);
    const field = new Writer().text(1, "logprobs").message(2, tensor);
    writer.message(2, new Writer().text(1, "ArrayRecord").message(2, field).integer(3, part.length));
    from = to;
  }
  for (const [name, value] of Object.entries(metrics)) writer.message(3, new Writer().text(1, name).double(2, value));
  return writer.finish();
}

export type SampledSequence = {
  readonly stop: "stop" | "length";
  readonly ids: ArrayLike<number>;
  readonly logprobs: ArrayLike<number>;
  readonly top?: readonly (readonly TopLogprob[])[];
};

/** Marks an empty cell of a table of likeliest ids. */
const NO_LOGPROB = -99999;

/** In the layout of the question. */
export type TargetScores = {
  readonly values: Float32Array;
  readonly shape: readonly number[];
  readonly sparse?: { readonly starts: readonly number[]; readonly columns: readonly number[] };
};

export type PromptScores = {
  readonly prompt?: Float32Array | undefined;
  readonly top?: readonly (readonly TopLogprob[])[] | undefined;
  readonly topCount: number;
  readonly targets?: TargetScores | undefined;
  /** Ids drawn beside the prompt's own: a row for each place after the first. */
  readonly others?: readonly (readonly TopLogprob[])[] | undefined;
};

export function encodeSamples(
  sequences: readonly SampledSequence[],
  topCount: number,
  { prompt, top: promptTop, topCount: promptCount, targets, others }: PromptScores,
): Uint8Array {
  const writer = new Writer();
  for (const { stop, ids, logprobs, top } of sequences) {
    const sequence = new Writer()
      .integer(1, stop === "stop" ? 0 : 1)
      .bytes(2, raw(Int32Array.from(ids)))
      .bytes(3, raw(Float32Array.from(logprobs)));
    if (top !== undefined && topCount > 0) sequence.message(4, topTable(top, topCount));
    writer.message(1, sequence);
  }
  if (prompt !== undefined) writer.bytes(2, raw(prompt));
  if (promptTop !== undefined) writer.message(3, topTable(promptTop, promptCount));
  if (targets !== undefined) writer.message(5, tensorOf(targets));
  if (others !== undefined) writer.message(6, otherTokens(others));
  return writer.finish();
}

function otherTokens(rows: readonly (readonly TopLogprob[])[]): Writer {
  const cells = rows.flat();
  const shape = [rows.length, rows[0]?.length ?? 0];
  const ids = new Uint8Array(BigInt64Array.from(cells, ({ id }) => BigInt(id)).buffer);
  const logprobs = raw(Float32Array.from(cells, ({ logprob }) => logprob));
  return new Writer()
    .message(1, new Writer().bytes(1, ids).integer(3, INT64).integers(4, shape))
    .message(2, new Writer().bytes(1, logprobs).integer(3, FLOAT32).integers(4, shape));
}

function tensorOf({ values, shape, sparse }: TargetScores): Writer {
  const tensor = new Writer();
  if (sparse === undefined) tensor.bytes(1, raw(values));
  else {
    const indices = (numbers: readonly number[]) => new Uint8Array(BigInt64Array.from(numbers, BigInt).buffer);
    tensor.message(
      2,
      new Writer().bytes(1, raw(values)).bytes(2, indices(sparse.starts)).bytes(3, indices(sparse.columns)),
    );
  }
  return tensor.integer(3, FLOAT32).integers(4, shape);
}

function topTable(rows: readonly (readonly TopLogprob[])[], count: number): Writer {
  const ids = new Int32Array(rows.length * count);
  const logprobs = new Float32Array(rows.length * count).fill(NO_LOGPROB);
  for (const [row, cells] of rows.entries()) {
    for (const [column, { id, logprob }] of cells.slice(0, count).entries()) {
      ids[row * count + column] = id;
      logprobs[row * count + column] = logprob;
    }
  }
  return new Writer().bytes(1, raw(ids)).bytes(2, raw(logprobs)).integer(3, count).integer(4, rows.length);
}

function raw(array: Int32Array | Float32Array): Uint8Array {
  return new Uint8Array(array.buffer, array.byteOffset, array.byteLength);
}
