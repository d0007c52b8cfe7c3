/** A client's half of the protobuf messages: batches out, log-probabilities and samples in; and the same in the JSON of older servers. */
import { DataError } from "../core/errors.ts";
import type {
  Datum,
  ForwardBackwardOutput,
  LossFnConfig,
  ModelInput,
  SampledSequence,
  SampleResponse,
  TensorData,
  TopLogprobs,
} from "./types.ts";
import { shapeOf, tensorOf } from "./types.ts";
import { Fields, Writer } from "./wire.ts";

const FLOAT32 = 1;
const INT64 = 2;
const INT32 = 3;
const BFLOAT16 = 4;
/** Marks an empty cell of a table of likeliest ids. */
const NO_LOGPROB = -99999;

export type Batch = {
  readonly model_id: string;
  readonly seq_id: number;
  readonly data: readonly Datum[];
  readonly loss_fn: string;
  readonly loss_fn_config?: LossFnConfig;
  readonly forward_only: boolean;
};

export function encodeBatch(batch: Batch): Uint8Array<ArrayBuffer> {
  const writer = new Writer().text(1, batch.model_id).integer(2, batch.seq_id);
  for (const datum of batch.data) writer.message(3, datumMessage(datum));
  writer.text(4, batch.loss_fn);
  const config = Object.entries(batch.loss_fn_config ?? {});
  for (const [key, value] of config)
    if (typeof value === "number") writer.message(5, new Writer().text(1, key).double(2, value));
  writer.integer(6, batch.forward_only ? 1 : 0);
  for (const [key, value] of config) {
    const held = typeof value === "number" ? new Writer().double(1, value) : new Writer().text(2, value);
    writer.message(7, new Writer().text(1, key).message(2, held));
  }
  return writer.finish() as Uint8Array<ArrayBuffer>;
}

function datumMessage({ model_input: input, loss_fn_inputs: inputs }: Datum): Writer {
  const writer = new Writer();
  for (const chunk of input.chunks) {
    if (chunk.type === "encoded_text") {
      const text = new Writer().bytes(1, bytesOf(Int32Array.from(chunk.tokens)));
      writer.message(1, new Writer().message(1, text));
    } else if (chunk.type === "image") {
      const image = new Writer().bytes(1, chunk.data).text(2, chunk.format);
      if (chunk.expected_tokens !== undefined) image.integer(3, chunk.expected_tokens);
      writer.message(1, new Writer().message(2, image));
    } else throw new DataError("Training data holds images, not pointers to them.");
  }
  for (const [name, given] of Object.entries(inputs)) {
    writer.message(2, new Writer().text(1, name).message(2, tensorMessage(tensorOf(name, given))));
  }
  return writer;
}

function tensorMessage(tensor: TensorData): Writer {
  const numbers = (values: ArrayLike<number>) =>
    tensor.dtype === "int64" ? int64(values) : bytesOf(Float32Array.from(values));
  const { sparse_crow_indices: starts, sparse_col_indices: columns } = tensor;
  const writer = new Writer();
  if (starts && columns) {
    const sparse = new Writer().bytes(1, numbers(tensor.data)).bytes(2, int64(starts)).bytes(3, int64(columns));
    writer.message(2, sparse);
  } else writer.bytes(1, numbers(tensor.data));
  return writer.integer(3, tensor.dtype === "int64" ? INT64 : FLOAT32).integers(4, shapeOf(tensor));
}

function int64(values: ArrayLike<number>): Uint8Array {
  const wide = new BigInt64Array(values.length);
  for (let i = 0; i < values.length; i++) wide[i] = BigInt(values[i] as number);
  return new Uint8Array(wide.buffer);
}

function bytesOf(array: Int32Array | Float32Array): Uint8Array {
  return new Uint8Array(array.buffer, array.byteOffset, array.byteLength);
}

export function decodeOutput(bytes: Uint8Array): ForwardBackwardOutput {
  const message = new Fields(bytes);
  const outputs = message.messages(2).flatMap((record) => {
    const datums: Record<string, TensorData>[] = Array.from({ length: record.integer(3) }, () => ({}));
    for (const [name, entry] of record.map(2)) {
      const tensor = new Fields(entry.bytes(2));
      const data = tensor.bytes(1);
      const trailing = tensor.integers(4);
      const offsets = new BigInt64Array(new Uint8Array(tensor.bytes(2)).buffer);
      if (offsets.length !== datums.length + 1) throw new DataError(`The answer's ${name} do not fit its datums.`);
      const wide = trailing.reduce((all, side) => all * side, 1);
      for (const [i, datum] of datums.entries()) {
        const values = numbersOf(data.subarray(Number(offsets[i]), Number(offsets[i + 1])), tensor.integer(3));
        datum[name] = { ...values, shape: [values.data.length / Math.max(1, wide), ...trailing] };
      }
    }
    return datums;
  });
  return {
    loss_fn_output_type: message.text(1),
    loss_fn_outputs: outputs,
    metrics: Object.fromEntries(message.map(3).map(([name, entry]) => [name, entry.double(2)])),
  };
}

function numbersOf(bytes: Uint8Array, type: number): Pick<TensorData, "data" | "dtype"> {
  const { buffer } = new Uint8Array(bytes);
  switch (type) {
    case FLOAT32:
      return { data: new Float32Array(buffer), dtype: "float32" };
    case INT64:
      return { data: Float64Array.from(new BigInt64Array(buffer), Number), dtype: "int64" };
    case INT32:
      return { data: new Int32Array(buffer), dtype: "int64" };
    case BFLOAT16: {
      // The upper half of a float32.
      const bits = Uint32Array.from(new Uint16Array(buffer), (half) => half << 16);
      return { data: new Float32Array(bits.buffer), dtype: "float32" };
    }
  }
  throw new DataError(`The answer's numbers are of type ${type}, which is unknown.`);
}

export function decodeSamples(bytes: Uint8Array): SampleResponse {
  const message = new Fields(bytes);
  const sequences = message.messages(1).map((sequence): SampledSequence => {
    const stop = sequence.integer(1);
    if (stop !== 0 && stop !== 1) throw new DataError(`A sample ended for the reason ${stop}, which is unknown.`);
    const logprobs = floats(sequence.bytes(3));
    return {
      stop_reason: stop === 0 ? "stop" : "length",
      tokens: new Int32Array(new Uint8Array(sequence.bytes(2)).buffer),
      logprobs: logprobs.length === 0 ? null : logprobs,
      ...(sequence.has(4) && { topk_logprobs: topTable(new Fields(sequence.bytes(4))) }),
    };
  });
  const prompt = message.has(2)
    ? Array.from(floats(message.bytes(2)), (one) => (Number.isNaN(one) ? null : one))
    : null;
  const tensor = (fields: Fields): TensorData => readTensor(fields);
  const alternatives = message.has(6) ? new Fields(message.bytes(6)) : undefined;
  return {
    sequences,
    ...(prompt && { prompt_logprobs: prompt }),
    ...(message.has(3) && { topk_prompt_logprobs: topTable(new Fields(message.bytes(3))) }),
    ...(message.has(5) && { target_prompt_logprobs: tensor(new Fields(message.bytes(5))) }),
    ...(alternatives && {
      prompt_alt_tokens: {
        tokens: tensor(new Fields(alternatives.bytes(1))),
        logprobs: tensor(new Fields(alternatives.bytes(2))),
      },
    }),
  };
}

function readTensor(fields: Fields): TensorData {
  const shape = fields.integers(4);
  const type = fields.integer(3);
  if (!fields.has(2)) return { ...numbersOf(fields.bytes(1), type), shape };
  const sparse = new Fields(fields.bytes(2));
  const indices = (field: number) => Array.from(numbersOf(sparse.bytes(field), INT64).data);
  return {
    ...numbersOf(sparse.bytes(1), type),
    shape,
    sparse_crow_indices: indices(2),
    sparse_col_indices: indices(3),
  };
}

function topTable(table: Fields): TopLogprobs {
  const [count, rows] = [table.integer(3), table.integer(4)];
  const ids = new Int32Array(new Uint8Array(table.bytes(1)).buffer);
  const logprobs = floats(table.bytes(2));
  return Array.from({ length: rows }, (_, row) => {
    const cells = Array.from(
      { length: count },
      (_, i) => [ids[row * count + i] ?? 0, logprobs[row * count + i] ?? NO_LOGPROB] as const,
    ).filter(([, logprob]) => logprob !== NO_LOGPROB);
    return cells.length === 0 ? null : cells;
  });
}

function floats(bytes: Uint8Array): Float32Array {
  return new Float32Array(new Uint8Array(bytes).buffer);
}

/** For sampling everywhere, for training at older servers. */
export function inputJson({ chunks }: ModelInput) {
  return {
    chunks: chunks.map((chunk) => {
      if (chunk.type === "encoded_text") return { type: chunk.type, tokens: Array.from(chunk.tokens) };
      if (chunk.type === "image_asset_pointer") return chunk;
      return { ...chunk, data: base64(chunk.data) };
    }),
  };
}

/** Files of pictures come back turn after turn. */
const encoded = new WeakMap<Uint8Array, string>();
function base64(data: Uint8Array): string {
  const known = encoded.get(data) ?? Buffer.from(data.buffer, data.byteOffset, data.byteLength).toString("base64");
  encoded.set(data, known);
  return known;
}

export function batchJson({ model_id, seq_id, forward_only: only, ...batch }: Batch) {
  const input = {
    data: batch.data.map(({ model_input, loss_fn_inputs }) => ({
      model_input: inputJson(model_input),
      loss_fn_inputs: Object.fromEntries(
        Object.entries(loss_fn_inputs).map(([name, given]) => {
          const tensor = tensorOf(name, given);
          return [name, { ...tensor, data: Array.from(tensor.data), shape: shapeOf(tensor) }];
        }),
      ),
    })),
    loss_fn: batch.loss_fn,
    ...(batch.loss_fn_config && { loss_fn_config: batch.loss_fn_config }),
  };
  return { model_id, seq_id, [only ? "forward_input" : "forward_backward_input"]: input };
}

type JsonTensor = { readonly data: readonly number[]; readonly dtype?: string; readonly shape?: readonly number[] };
type JsonOutput = {
  readonly loss_fn_output_type?: string;
  readonly loss_fn_outputs: readonly Readonly<Record<string, JsonTensor>>[];
  readonly metrics?: Readonly<Record<string, number>>;
};

export function readOutputJson(body: unknown): ForwardBackwardOutput {
  const { loss_fn_output_type = "", loss_fn_outputs: outputs, metrics = {} } = body as JsonOutput;
  if (!Array.isArray(outputs)) throw new DataError("The answer to a batch has no loss_fn_outputs.");
  return {
    loss_fn_output_type,
    metrics,
    loss_fn_outputs: (outputs as JsonOutput["loss_fn_outputs"]).map((fields) =>
      Object.fromEntries(
        Object.entries(fields).map(([name, { data, dtype, shape }]) => [
          name,
          {
            data: Float32Array.from(data),
            dtype: dtype === "int64" ? "int64" : "float32",
            shape: shape ?? [data.length],
          } as TensorData,
        ]),
      ),
    ),
  };
}

type JsonSamples = {
  readonly sequences: readonly {
    readonly stop_reason: "stop" | "length";
    readonly tokens: readonly number[];
    readonly logprobs?: readonly number[] | null;
  }[];
  readonly prompt_logprobs?: readonly (number | null)[] | null;
  readonly topk_prompt_logprobs?: TopLogprobs | null;
};

export function readSamplesJson(body: unknown): SampleResponse {
  const { sequences, prompt_logprobs: prompt, topk_prompt_logprobs: top } = body as JsonSamples;
  if (!Array.isArray(sequences)) throw new DataError("The answer to a sample has no sequences.");
  return {
    sequences: (sequences as JsonSamples["sequences"]).map(({ stop_reason, tokens, logprobs }) => ({
      stop_reason,
      tokens: Int32Array.from(tokens),
      logprobs: logprobs ? Float32Array.from(logprobs) : null,
    })),
    ...(prompt && { prompt_logprobs: prompt }),
    ...(top && { topk_prompt_logprobs: top }),
  };
}
