/** The JSON forms of the Tinker API: prompts, and the batches and answers of older servers. */
import { DataError } from "../core/errors.ts";
import type { Batch } from "./messages.ts";
import type { ForwardBackwardOutput, ModelInput, SampleResponse, TensorData, TopLogprobs } from "./types.ts";
import { shapeOf, tensorOf } from "./types.ts";

export function inputJson({ chunks }: ModelInput) {
  return {
    chunks: chunks.map((chunk) => {
      if (chunk.type === "encoded_text") return { type: chunk.type, tokens: Array.from(chunk.tokens) };
      if (chunk.type === "image_asset_pointer") return chunk;
      return { ...chunk, data: base64(chunk.data) };
    }),
  };
}

/** The same image files come back turn after turn. */
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
  if (!Array.isArray(outputs)) throw new DataError("The server's answer to a batch has no loss_fn_outputs.");
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
  if (!Array.isArray(sequences)) throw new DataError("The server's answer to a sample has no sequences.");
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
