/**
 * The protobuf messages of the Tinker API, for clients and servers: each message's fields are listed once, with its writer next to its reader. A batch to
 * learn from goes to the server; its log-probabilities, or samples, come back.
 */
import { DataError } from "../core/errors.ts";
import { Pace } from "../core/turns.ts";
import { Fields, Writer } from "./protobuf.ts";
import type {
  Datum,
  EncodedTextChunk,
  ForwardBackwardOutput,
  ImageChunk,
  LossFnConfig,
  SampledSequence,
  SampleResponse,
  TensorData,
  TopLogprobs,
} from "./types.ts";
import { shapeOf, tensorOf } from "./types.ts";

const BATCH = { model: 1, seq: 2, data: 3, loss: 4, numbers: 5, forwardOnly: 6, config: 7 } as const;
const ENTRY = { key: 1, value: 2 } as const;
const SETTING = { number: 1, text: 2 } as const;
const DATUM = { chunks: 1, inputs: 2 } as const;
const CHUNK = { text: 1, image: 2 } as const;
const TEXT = { tokens: 1 } as const;
const IMAGE = { data: 1, format: 2, expected: 3, dimensions: 4 } as const;
const TENSOR = { data: 1, sparse: 2, type: 3, shape: 4 } as const;
const SPARSE = { values: 1, starts: 2, columns: 3 } as const;
const OUTPUT = { type: 1, records: 2, metrics: 3 } as const;
const RECORD = { type: 1, tensors: 2, datums: 3 } as const;
const RAGGED = { data: 1, offsets: 2, type: 3, trailing: 4 } as const;
const SAMPLES = { sequences: 1, prompt: 2, topPrompt: 3, targets: 5, others: 6 } as const;
const SEQUENCE = { stop: 1, tokens: 2, logprobs: 3, top: 4 } as const;
const TABLE = { ids: 1, logprobs: 2, count: 3, rows: 4 } as const;
const OTHERS = { tokens: 1, logprobs: 2 } as const;
const TYPES = { float32: 1, int64: 2, int32: 3, bfloat16: 4 } as const;
/** Marks an empty cell of a table of likeliest ids. */
const NO_LOGPROB = -99999;

/** Elements of all tensors of a batch, the zeros of sparse ones included. */
const MAX_ELEMENTS = 2 ** 25;
const MAX_SIDES = 8;
/** Of a batch; the SDK sends at most 1024. */
const MAX_DATUMS = 16_384;
/** Of a datum. */
const MAX_CHUNKS = 16_384;
const MAX_INPUTS = 256;

export type Batch = {
  readonly model_id: string;
  readonly seq_id: number;
  readonly data: readonly Datum[];
  readonly loss_fn: string;
  readonly loss_fn_config?: LossFnConfig;
  readonly forward_only: boolean;
};

export type InputChunk = EncodedTextChunk | Pick<ImageChunk, "type" | "data" | "expected_tokens">;
/** A batch as the server reads it. */
export type ReceivedBatch = Omit<Batch, "data"> & { readonly data: readonly ReceivedDatum[] };
export type ReceivedDatum = {
  readonly chunks: readonly InputChunk[];
  readonly inputs: ReadonlyMap<string, ReceivedTensor>;
};
export type ReceivedTensor = Required<Pick<TensorData, "data" | "shape">> & {
  readonly sparse?: { readonly starts: Float64Array; readonly columns: Float64Array };
};

export function encodeBatch(batch: Batch): Uint8Array<ArrayBuffer> {
  const writer = new Writer().text(BATCH.model, batch.model_id).integer(BATCH.seq, batch.seq_id);
  for (const datum of batch.data) writer.message(BATCH.data, writeDatum(datum));
  writer.text(BATCH.loss, batch.loss_fn).integer(BATCH.forwardOnly, batch.forward_only ? 1 : 0);
  for (const [key, value] of Object.entries(batch.loss_fn_config ?? {})) {
    const isNumber = typeof value === "number";
    // Older servers read numbers only.
    if (isNumber) writer.message(BATCH.numbers, new Writer().text(ENTRY.key, key).double(ENTRY.value, value));
    const held = isNumber ? new Writer().double(SETTING.number, value) : new Writer().text(SETTING.text, value);
    writer.message(BATCH.config, new Writer().text(ENTRY.key, key).message(ENTRY.value, held));
  }
  return writer.finish() as Uint8Array<ArrayBuffer>;
}

/** Checks sizes before anything is made of them: these bytes come from elsewhere. It rests between datums, since a server reads many. */
export async function decodeBatch(bytes: Uint8Array): Promise<ReceivedBatch> {
  const message = new Fields(bytes);
  for (const field of [BATCH.numbers, BATCH.config]) atMost(MAX_INPUTS, message, field, "A batch", "settings");
  const config: Record<string, number | string> = {};
  for (const [key, entry] of message.map(BATCH.numbers)) config[key] = entry.double(ENTRY.value);
  // Newer clients write both forms; the newer one counts.
  for (const [key, entry] of message.map(BATCH.config)) {
    const value = entry.message(ENTRY.value);
    config[key] = value.has(SETTING.text) ? value.text(SETTING.text) : value.double(SETTING.number);
  }
  atMost(MAX_DATUMS, message, BATCH.data, "A batch", "datums");
  const room = { left: MAX_ELEMENTS };
  const data: ReceivedDatum[] = [];
  const pace = new Pace();
  for (const datum of message.each(BATCH.data)) {
    data.push(readDatum(datum, room));
    await pace.rest();
  }
  return {
    model_id: message.text(BATCH.model),
    seq_id: message.integer(BATCH.seq),
    data,
    loss_fn: message.text(BATCH.loss),
    loss_fn_config: config,
    forward_only: message.integer(BATCH.forwardOnly) !== 0,
  };
}

function atMost(most: number, message: Fields, field: number, whole: string, parts: string): void {
  const count = message.count(field);
  if (count > most) throw new DataError(`${whole} has at most ${most} ${parts}, got ${count}: send it in parts.`);
}

function writeDatum({ model_input: input, loss_fn_inputs: inputs }: Datum): Writer {
  const writer = new Writer();
  for (const chunk of input.chunks) {
    if (chunk.type === "image_asset_pointer") throw new DataError("Training data holds images, not pointers to them.");
    const wrapped = new Writer();
    if (chunk.type === "encoded_text") {
      wrapped.message(CHUNK.text, new Writer().bytes(TEXT.tokens, raw(Int32Array.from(chunk.tokens))));
    } else {
      const image = new Writer().bytes(IMAGE.data, chunk.data).text(IMAGE.format, chunk.format);
      if (chunk.expected_tokens !== undefined) image.integer(IMAGE.expected, chunk.expected_tokens);
      wrapped.message(CHUNK.image, image);
    }
    writer.message(DATUM.chunks, wrapped);
  }
  for (const [name, given] of Object.entries(inputs)) {
    const tensor = writeTensor(tensorOf(name, given));
    writer.message(DATUM.inputs, new Writer().text(ENTRY.key, name).message(ENTRY.value, tensor));
  }
  return writer;
}

function readDatum(message: Fields, room: { left: number }): ReceivedDatum {
  atMost(MAX_CHUNKS, message, DATUM.chunks, "A datum", "chunks");
  atMost(MAX_INPUTS, message, DATUM.inputs, "A datum", "inputs");
  const chunks = message.messages(DATUM.chunks).map((chunk): InputChunk => {
    if (chunk.has(CHUNK.text)) {
      return { type: "encoded_text", tokens: aligned(chunk.message(CHUNK.text).bytes(TEXT.tokens), Int32Array) };
    }
    if (!chunk.has(CHUNK.image)) throw new DataError("A chunk must be text or an image; audio is not supported.");
    const image = chunk.message(CHUNK.image);
    if (image.has(IMAGE.dimensions)) {
      throw new DataError("override_dimensions is not supported: resize the image before you send it.");
    }
    const expected = image.has(IMAGE.expected) && { expected_tokens: image.integer(IMAGE.expected) };
    return { type: "image", data: image.bytes(IMAGE.data), ...expected };
  });
  const inputs = message
    .map(DATUM.inputs)
    .map(([name, entry]) => [name, receive(entry.message(ENTRY.value), room)] as const);
  return { chunks, inputs: new Map(inputs) };
}

function receive(fields: Fields, room: { left: number }): ReceivedTensor {
  const shape = fields.integers(TENSOR.shape);
  if (shape.length > MAX_SIDES) throw new DataError(`A tensor has at most ${MAX_SIDES} sides, got ${shape.length}.`);
  const type = fields.integer(TENSOR.type);
  if (type !== TYPES.float32 && type !== TYPES.int64) {
    throw new DataError(`A tensor's numbers must be float32 or int64, got type ${type}.`);
  }
  const size = shape.reduce((all, side) => all * side, 1);
  if (!(size >= 0 && size <= room.left)) {
    throw new DataError(`A tensor of [${shape}] is too large: a batch has at most ${MAX_ELEMENTS} numbers.`);
  }
  room.left -= size;
  if (!fields.has(TENSOR.sparse)) {
    const { data } = numbersOf(fields.bytes(TENSOR.data), type);
    if (data.length !== size) throw new DataError(`A tensor of [${shape}] has ${data.length} numbers.`);
    return { data, shape };
  }
  const inner = fields.message(TENSOR.sparse);
  const { data } = numbersOf(inner.bytes(SPARSE.values), type);
  const sparse = { starts: int64s(inner.bytes(SPARSE.starts)), columns: int64s(inner.bytes(SPARSE.columns)) };
  if (shape.length !== 2 || sparse.starts.length !== (shape[0] ?? 0) + 1 || sparse.columns.length !== data.length) {
    throw new DataError(`A sparse tensor of [${shape}] does not fit its indices.`);
  }
  checkIndices(sparse, shape as [number, number]);
  return { data, shape, sparse };
}

function checkIndices(
  { starts, columns }: NonNullable<ReceivedTensor["sparse"]>,
  [rows, wide]: [number, number],
): void {
  for (let row = 0; row < rows; row++) {
    for (let at = starts[row] as number; at < (starts[row + 1] as number); at++) {
      const column = columns[at];
      if (column === undefined || !(column >= 0 && column < wide)) {
        throw new DataError("A sparse tensor has an index outside of its shape.");
      }
    }
  }
}

/** Row by row, with the zeros of a sparse tensor. */
export function denseValues({ data, shape, sparse }: ReceivedTensor): ArrayLike<number> {
  if (sparse === undefined) return data;
  const [rows = 0, columns = 0] = shape;
  const dense = new Float64Array(rows * columns);
  for (let row = 0; row < rows; row++) {
    for (let at = sparse.starts[row] as number; at < (sparse.starts[row + 1] as number); at++) {
      dense[row * columns + (sparse.columns[at] as number)] = data[at] as number;
    }
  }
  return dense;
}

function writeTensor(tensor: TensorData): Writer {
  const { data, dtype, sparse_crow_indices: starts, sparse_col_indices: columns } = tensor;
  const numbers = dtype === "int64" ? int64Bytes(data) : raw(Float32Array.from(data));
  const writer = new Writer();
  if (starts && columns) {
    const sparse = new Writer().bytes(SPARSE.values, numbers).bytes(SPARSE.starts, int64Bytes(starts));
    writer.message(TENSOR.sparse, sparse.bytes(SPARSE.columns, int64Bytes(columns)));
  } else writer.bytes(TENSOR.data, numbers);
  return writer.integer(TENSOR.type, TYPES[dtype]).integers(TENSOR.shape, shapeOf(tensor));
}

function readTensor(fields: Fields): TensorData {
  const shape = fields.integers(TENSOR.shape);
  const type = fields.integer(TENSOR.type);
  if (!fields.has(TENSOR.sparse)) return { ...numbersOf(fields.bytes(TENSOR.data), type), shape };
  const sparse = fields.message(TENSOR.sparse);
  return {
    ...numbersOf(sparse.bytes(SPARSE.values), type),
    shape,
    sparse_crow_indices: [...int64s(sparse.bytes(SPARSE.starts))],
    sparse_col_indices: [...int64s(sparse.bytes(SPARSE.columns))],
  };
}

/** Per datum, [N] or [N, K] log-probabilities, row by row. */
export function encodeOutput(
  outputs: readonly { readonly logprobs: Float32Array; readonly columns: number }[],
  metrics: Readonly<Record<string, number>>,
): Uint8Array {
  const writer = new Writer().text(OUTPUT.type, "ArrayRecord");
  // Datums of one record share their trailing shape. A record holds consecutive datums, which keeps their order.
  for (let from = 0; from < outputs.length; ) {
    const { columns } = outputs[from] as (typeof outputs)[number];
    let to = from;
    while (outputs[to]?.columns === columns) to += 1;
    const part = outputs.slice(from, to);
    const offsets = [0];
    for (const { logprobs } of part) offsets.push((offsets.at(-1) as number) + logprobs.byteLength);
    const tensor = new Writer()
      .bytes(RAGGED.data, Buffer.concat(part.map(({ logprobs }) => raw(logprobs))))
      .bytes(RAGGED.offsets, int64Bytes(offsets))
      .integer(RAGGED.type, TYPES.float32)
      .integers(RAGGED.trailing, columns === 0 ? [] : [columns]);
    const field = new Writer().text(ENTRY.key, "logprobs").message(ENTRY.value, tensor);
    const record = new Writer().text(RECORD.type, "ArrayRecord").message(RECORD.tensors, field);
    writer.message(OUTPUT.records, record.integer(RECORD.datums, part.length));
    from = to;
  }
  for (const [name, value] of Object.entries(metrics)) {
    writer.message(OUTPUT.metrics, new Writer().text(ENTRY.key, name).double(ENTRY.value, value));
  }
  return writer.finish();
}

export function decodeOutput(bytes: Uint8Array): ForwardBackwardOutput {
  const message = new Fields(bytes);
  const outputs = message.messages(OUTPUT.records).flatMap((record) => {
    const datums: Record<string, TensorData>[] = Array.from({ length: record.integer(RECORD.datums) }, () => ({}));
    for (const [name, entry] of record.map(RECORD.tensors)) {
      const tensor = entry.message(ENTRY.value);
      const data = tensor.bytes(RAGGED.data);
      const trailing = tensor.integers(RAGGED.trailing);
      const offsets = int64s(tensor.bytes(RAGGED.offsets));
      if (offsets.length !== datums.length + 1) throw new DataError(`The answer's ${name} do not fit its datums.`);
      const wide = trailing.reduce((all, side) => all * side, 1);
      for (const [i, datum] of datums.entries()) {
        const values = numbersOf(data.subarray(offsets[i], offsets[i + 1]), tensor.integer(RAGGED.type));
        datum[name] = { ...values, shape: [values.data.length / Math.max(1, wide), ...trailing] };
      }
    }
    return datums;
  });
  const metrics = message.map(OUTPUT.metrics).map(([name, entry]) => [name, entry.double(ENTRY.value)] as const);
  return {
    loss_fn_output_type: message.text(OUTPUT.type),
    loss_fn_outputs: outputs,
    metrics: Object.fromEntries(metrics),
  };
}

type Likely = { readonly id: number; readonly logprob: number };
export type DrawnSequence = {
  readonly stop: "stop" | "length";
  readonly ids: ArrayLike<number>;
  readonly logprobs: ArrayLike<number>;
  readonly top?: readonly (readonly Likely[])[];
};
export type PromptScores = {
  readonly prompt?: Float32Array | undefined;
  readonly top?: readonly (readonly Likely[])[] | undefined;
  readonly topCount: number;
  /** In the layout of the request. */
  readonly targets?: TensorData | undefined;
  /** Ids sampled beside the prompt's own: a row for each place after the first. */
  readonly others?: readonly (readonly Likely[])[] | undefined;
};

export function encodeSamples(
  sequences: readonly DrawnSequence[],
  topCount: number,
  { prompt, top: promptTop, topCount: promptCount, targets, others }: PromptScores,
): Uint8Array {
  const writer = new Writer();
  for (const { stop, ids, logprobs, top } of sequences) {
    const sequence = new Writer()
      .integer(SEQUENCE.stop, stop === "stop" ? 0 : 1)
      .bytes(SEQUENCE.tokens, raw(Int32Array.from(ids)))
      .bytes(SEQUENCE.logprobs, raw(Float32Array.from(logprobs)));
    if (top !== undefined && topCount > 0) sequence.message(SEQUENCE.top, writeTable(top, topCount));
    writer.message(SAMPLES.sequences, sequence);
  }
  if (prompt !== undefined) writer.bytes(SAMPLES.prompt, raw(prompt));
  if (promptTop !== undefined) writer.message(SAMPLES.topPrompt, writeTable(promptTop, promptCount));
  if (targets !== undefined) writer.message(SAMPLES.targets, writeTensor(targets));
  if (others !== undefined) {
    const cells = others.flat();
    const shape = [others.length, others[0]?.length ?? 0];
    const tokens = writeTensor({ data: cells.map(({ id }) => id), dtype: "int64", shape });
    const logprobs = writeTensor({ data: cells.map(({ logprob }) => logprob), dtype: "float32", shape });
    writer.message(SAMPLES.others, new Writer().message(OTHERS.tokens, tokens).message(OTHERS.logprobs, logprobs));
  }
  return writer.finish();
}

export function decodeSamples(bytes: Uint8Array): SampleResponse {
  const message = new Fields(bytes);
  const sequences = message.messages(SAMPLES.sequences).map((sequence): SampledSequence => {
    const stop = sequence.integer(SEQUENCE.stop);
    if (stop !== 0 && stop !== 1) throw new DataError(`A sample ended for the unknown reason ${stop}.`);
    const logprobs = aligned(sequence.bytes(SEQUENCE.logprobs), Float32Array);
    return {
      stop_reason: stop === 0 ? "stop" : "length",
      tokens: aligned(sequence.bytes(SEQUENCE.tokens), Int32Array),
      logprobs: logprobs.length === 0 ? null : logprobs,
      ...(sequence.has(SEQUENCE.top) && { topk_logprobs: readTable(sequence.message(SEQUENCE.top)) }),
    };
  });
  const prompt = aligned(message.bytes(SAMPLES.prompt), Float32Array);
  const others = message.message(SAMPLES.others);
  return {
    sequences,
    ...(message.has(SAMPLES.prompt) && {
      prompt_logprobs: Array.from(prompt, (one) => (Number.isNaN(one) ? null : one)),
    }),
    ...(message.has(SAMPLES.topPrompt) && { topk_prompt_logprobs: readTable(message.message(SAMPLES.topPrompt)) }),
    ...(message.has(SAMPLES.targets) && { target_prompt_logprobs: readTensor(message.message(SAMPLES.targets)) }),
    ...(message.has(SAMPLES.others) && {
      prompt_alt_tokens: {
        tokens: readTensor(others.message(OTHERS.tokens)),
        logprobs: readTensor(others.message(OTHERS.logprobs)),
      },
    }),
  };
}

function writeTable(rows: readonly (readonly Likely[])[], count: number): Writer {
  const ids = new Int32Array(rows.length * count);
  const logprobs = new Float32Array(rows.length * count).fill(NO_LOGPROB);
  for (const [row, cells] of rows.entries()) {
    for (const [column, { id, logprob }] of cells.slice(0, count).entries()) {
      ids[row * count + column] = id;
      logprobs[row * count + column] = logprob;
    }
  }
  return new Writer()
    .bytes(TABLE.ids, raw(ids))
    .bytes(TABLE.logprobs, raw(logprobs))
    .integer(TABLE.count, count)
    .integer(TABLE.rows, rows.length);
}

function readTable(table: Fields): TopLogprobs {
  const [count, rows] = [table.integer(TABLE.count), table.integer(TABLE.rows)];
  const ids = aligned(table.bytes(TABLE.ids), Int32Array);
  const logprobs = aligned(table.bytes(TABLE.logprobs), Float32Array);
  return Array.from({ length: rows }, (_, row) => {
    const cells = Array.from(
      { length: count },
      (_, i) => [ids[row * count + i] ?? 0, logprobs[row * count + i] ?? NO_LOGPROB] as const,
    ).filter(([, logprob]) => logprob !== NO_LOGPROB);
    return cells.length === 0 ? null : cells;
  });
}

function numbersOf(bytes: Uint8Array, type: number): Pick<TensorData, "data" | "dtype"> {
  switch (type) {
    case TYPES.float32:
      return { data: aligned(bytes, Float32Array), dtype: "float32" };
    case TYPES.int64:
      return { data: int64s(bytes), dtype: "int64" };
    case TYPES.int32:
      return { data: aligned(bytes, Int32Array), dtype: "int64" };
    case TYPES.bfloat16: {
      // The upper half of a float32.
      const bits = Uint32Array.from(aligned(bytes, Uint16Array), (half) => half << 16);
      return { data: new Float32Array(bits.buffer), dtype: "float32" };
    }
  }
  throw new DataError(`A tensor's numbers are of the unknown type ${type}.`);
}

/** By halves: as big integers, a large batch would block the server's main thread for seconds. */
function int64s(bytes: Uint8Array): Float64Array {
  if (bytes.length % 8 !== 0) throw new DataError("A tensor's bytes do not end with a whole number.");
  const halves = aligned(bytes, Int32Array);
  const values = new Float64Array(halves.length / 2);
  for (let i = 0; i < values.length; i++) {
    values[i] = (halves[2 * i + 1] as number) * 2 ** 32 + ((halves[2 * i] as number) >>> 0);
  }
  return values;
}

function int64Bytes(values: ArrayLike<number>): Uint8Array {
  return new Uint8Array(BigInt64Array.from(Array.from(values), BigInt).buffer);
}

type Typed<A> = { readonly BYTES_PER_ELEMENT: number; new (buffer: ArrayBuffer): A };

/** A copy, since slices of a message begin anywhere. */
function aligned<A>(bytes: Uint8Array, type: Typed<A>): A {
  if (bytes.length % type.BYTES_PER_ELEMENT !== 0) {
    throw new DataError("A tensor's bytes do not end with a whole number.");
  }
  return new type(new Uint8Array(bytes).buffer);
}

function raw(array: Int32Array | Float32Array): Uint8Array {
  return new Uint8Array(array.buffer, array.byteOffset, array.byteLength);
}
