/**
 * A model that is trained. Operations are submitted in the order of the calls, each with the next sequence id, and need not be awaited one by one:
 * call `forwardBackward` and `optimStep` together, then await both.
 */
import { DataError } from "../core/errors.ts";
import type { Retrieved } from "./connection.ts";
import { TinkerError } from "./errors.ts";
import { batchJson, readOutputJson } from "./json.ts";
import { type Batch, decodeOutput, encodeBatch } from "./messages.ts";
import type { SamplingClient } from "./sampling-client.ts";
import type { Session } from "./session.ts";
import {
  ADAM_DEFAULTS,
  type AdamParams,
  type Datum,
  type ForwardBackwardOutput,
  type GetInfoResponse,
  type LoadWeightsResponse,
  type LossFnConfig,
  type LossFnType,
  type OptimizerParams,
  type OptimStepResponse,
  type SaveOptions,
  type SaveWeightsExternalResponse,
  type SaveWeightsResponse,
  shapeOf,
  tensorOf,
} from "./types.ts";

/** From the log-probabilities of a batch to a loss and its slopes by them. */
export type CustomLossFn = (
  data: readonly Datum[],
  logprobs: readonly Float32Array[],
) => { loss: number; gradients: readonly Float32Array[]; metrics?: Readonly<Record<string, number>> };

const MAX_DATUMS = 1024;
const MAX_BYTES = 5_000_000;

export class TrainingClient {
  readonly model_id: string;
  readonly #session: Session;
  #seq = 0;
  /** The last submission; the next one waits for it. */
  #turn: Promise<unknown> = Promise.resolve();

  constructor(session: Session, modelId: string) {
    this.#session = session;
    this.model_id = modelId;
  }

  /** Log-probabilities without gradients. */
  forward(data: readonly Datum[], lossFn: LossFnType, config?: LossFnConfig): Promise<ForwardBackwardOutput> {
    return this.#inTurn(() => this.#submitBatch(data, lossFn, config, true));
  }

  /** Gradients add up until `optimStep`. */
  forwardBackward(data: readonly Datum[], lossFn: LossFnType, config?: LossFnConfig): Promise<ForwardBackwardOutput> {
    return this.#inTurn(() => this.#submitBatch(data, lossFn, config, false));
  }

  /** A loss of your own: a forward pass, your function, and cross entropy whose weights are the slopes it gave. */
  forwardBackwardCustom(data: readonly Datum[], lossFn: CustomLossFn): Promise<ForwardBackwardOutput> {
    return this.#inTurn(async () => {
      const probes = data.map((datum) => withWeights(datum, new Float32Array(targetsOf(datum).length)));
      const { result } = await this.#submitBatch(probes, "cross_entropy", undefined, true);
      const { loss_fn_outputs: outputs } = await result;
      const logprobs = outputs.map(({ logprobs: found }) => Float32Array.from(found?.data ?? []));
      const { loss, gradients, metrics } = lossFn(data, logprobs);
      if (gradients.length !== data.length) throw new DataError("A custom loss must give one gradient per datum.");
      const weighted = data.map((datum, i) => {
        const gradient = gradients[i] as Float32Array;
        if (gradient.length !== targetsOf(datum).length)
          throw new DataError("A custom loss's gradients must be as long as the targets.");
        return withWeights(
          datum,
          gradient.map((slope) => -slope),
        );
      });
      const second = await this.#submitBatch(weighted, "cross_entropy", undefined, false);
      const whole = second.result.then((output) => ({
        ...output,
        metrics: {
          ...output.metrics,
          "surrogate_loss:sum": output.metrics["loss:sum"] ?? 0,
          ...metrics,
          "loss:sum": loss,
        },
      }));
      return { result: whole };
    });
  }

  optimStep(params: AdamParams | OptimizerParams = {}): Promise<OptimStepResponse> {
    const asked = "type" in params ? { optimizer_params: params } : { adam_params: { ...ADAM_DEFAULTS, ...params } };
    return this.#operation("optim_step", "OptimStep", asked);
  }

  /** Weights and optimizer state, under a tinker:// path. */
  saveState(name: string, options: SaveOptions = {}): Promise<SaveWeightsResponse> {
    return this.#operation("save_weights", "SaveWeights", { path: name, ...options });
  }

  loadState(path: string): Promise<LoadWeightsResponse> {
    return this.#operation("load_weights", "LoadWeights", { path, optimizer: false });
  }

  loadStateWithOptimizer(path: string): Promise<LoadWeightsResponse> {
    return this.#operation("load_weights", "LoadWeights", { path, optimizer: true });
  }

  saveWeightsForSampler(name: string, options: SaveOptions = {}): Promise<SaveWeightsResponse> {
    return this.#operation("save_weights_for_sampler", "SaveWeightsForSampler", { path: name, ...options });
  }

  /** Files to download: see `RestClient.getExternalWeightsUrls`. */
  saveWeightsExternal(
    name: string,
    options: SaveOptions & { readonly age_encryption_recipients?: readonly string[] } = {},
  ): Promise<SaveWeightsExternalResponse> {
    return this.#operation("save_weights_external", "SaveWeightsExternal", { path: name, ...options });
  }

  /** The weights as they are now, without a name. */
  async saveWeightsAndGetSamplingClient(): Promise<SamplingClient> {
    const sampling_session_seq_id = this.#session.nextSampler();
    const saved = await this.#operation<{ sampling_session_id?: string | null }>(
      "save_weights_for_sampler",
      "SaveWeightsForSampler",
      { sampling_session_seq_id },
    );
    if (typeof saved.sampling_session_id !== "string")
      throw new TinkerError("The server saved weights for sampling and named no sampling session.");
    return this.#session.samplingClient(saved.sampling_session_id);
  }

  createSamplingClient(modelPath: string): Promise<SamplingClient> {
    return this.#session.createSampler({ model_path: modelPath });
  }

  getInfo(): Promise<GetInfoResponse> {
    return this.#session.connection.json("get_info", { body: { model_id: this.model_id, type: "get_info" } });
  }

  async #operation<T>(route: string, kind: string, asked: object): Promise<T> {
    return this.#inTurn(async () => {
      const body = { ...asked, model_id: this.model_id, seq_id: ++this.#seq, type: route };
      return { result: this.#retrieve(await this.#post(route, body), kind).then(jsonOf<T>) };
    });
  }

  async #submitBatch(
    data: readonly Datum[],
    loss_fn: string,
    config: LossFnConfig | undefined,
    forward_only: boolean,
  ): Promise<{ result: Promise<ForwardBackwardOutput> }> {
    if (data.length === 0) throw new DataError("There is no data in this batch.");
    const { connection } = this.#session;
    const form = await this.#session.form();
    const limits = await connection.config();
    const chunks = inChunks(
      data,
      limits.fwdbwd_max_chunk_len ?? MAX_DATUMS,
      limits.fwdbwd_max_chunk_bytes_count ?? MAX_BYTES,
    );
    const results: Promise<ForwardBackwardOutput>[] = [];
    for (const chunk of chunks) {
      const batch: Batch = {
        model_id: this.model_id,
        seq_id: ++this.#seq,
        data: chunk,
        loss_fn,
        ...(config && { loss_fn_config: config }),
        forward_only,
      };
      const route = form === "json" && forward_only ? "forward" : "forward_backward";
      const request = await this.#post(route, form === "json" ? batchJson(batch) : encodeBatch(batch));
      const result = this.#retrieve(request, forward_only ? "Forward" : "ForwardBackward").then((found) =>
        "protobuf" in found ? decodeOutput(found.protobuf) : readOutputJson(found.json),
      );
      // Its error is met where all are joined.
      result.catch(() => {});
      results.push(result);
    }
    return { result: Promise.all(results).then(joinOutputs) };
  }

  async #post(route: string, body: unknown): Promise<string> {
    const again = (await this.#session.form()) === "protobuf" ? "always" : "once";
    const { request_id: request } = await this.#session.connection.json<{ request_id?: unknown }>(route, {
      body,
      again,
    });
    if (typeof request !== "string") throw new TinkerError(`The server's answer to ${route} has no request_id.`);
    return request;
  }

  #retrieve(request: string, kind: string): Promise<Retrieved> {
    return this.#session.connection.retrieve(request, kind);
  }

  /** Submits when all earlier calls have been; then the next one may. The result is waited for outside. */
  async #inTurn<T>(submit: () => Promise<{ result: Promise<T> }>): Promise<T> {
    const submitted = this.#turn.then(submit);
    this.#turn = submitted.catch(() => {});
    return (await submitted).result;
  }
}

export function jsonOf<T>(found: Retrieved): T {
  if ("protobuf" in found) throw new TinkerError("The server answered with protobuf where JSON belongs.");
  return found.json as T;
}

function targetsOf({ loss_fn_inputs: { target_tokens: targets } }: Datum): ArrayLike<number> {
  if (targets === undefined) throw new DataError("A datum needs target_tokens in its loss_fn_inputs.");
  return tensorOf("target_tokens", targets).data;
}

function withWeights({ model_input, loss_fn_inputs: { target_tokens } }: Datum, weights: Float32Array): Datum {
  const targets = tensorOf("target_tokens", target_tokens ?? []);
  const shape = shapeOf(targets);
  return {
    model_input,
    loss_fn_inputs: { target_tokens: targets, weights: { data: weights, dtype: "float32", shape } },
  };
}

/** As many datums as a request may have, and no more bytes, but at least one datum. */
function inChunks(data: readonly Datum[], maxDatums: number, maxBytes: number): Datum[][] {
  const chunks: Datum[][] = [];
  let size = 0;
  for (const datum of data) {
    const bytes = sizeOf(datum);
    const last = chunks.at(-1);
    if (last === undefined || last.length >= maxDatums || size + bytes > maxBytes) {
      chunks.push([datum]);
      size = bytes;
    } else {
      last.push(datum);
      size += bytes;
    }
  }
  return chunks;
}

function sizeOf({ model_input: { chunks }, loss_fn_inputs: inputs }: Datum): number {
  let bytes = 0;
  for (const chunk of chunks) {
    if (chunk.type === "encoded_text") bytes += 4 * chunk.tokens.length;
    else if (chunk.type === "image") bytes += chunk.data.length;
  }
  for (const [name, given] of Object.entries(inputs)) {
    const { data, dtype } = tensorOf(name, given);
    bytes += data.length * (dtype === "int64" ? 8 : 4);
  }
  return bytes;
}

type Reduction = (values: readonly number[], counts: readonly number[]) => number;
const sum: Reduction = (values) => values.reduce((a, b) => a + b, 0);
const mean: Reduction = (values, counts) =>
  values.reduce((all, value, i) => all + value * (counts[i] as number), 0) / Math.max(1, sum(counts, []));
const REDUCTIONS: Readonly<Record<string, Reduction>> = {
  sum,
  mean,
  min: (values) => Math.min(...values),
  max: (values) => Math.max(...values),
};

/** Outputs one after another; metrics by the reduction that their name ends with, those of unknown reductions of the first part. */
function joinOutputs(parts: readonly ForwardBackwardOutput[]): ForwardBackwardOutput {
  const [first] = parts as readonly [ForwardBackwardOutput];
  if (parts.length === 1) return first;
  const counts = parts.map(({ loss_fn_outputs: outputs }) => outputs.length);
  const names = new Set(parts.flatMap(({ metrics }) => Object.keys(metrics)));
  const metrics = [...names].map((name) => {
    const having = parts.flatMap(({ metrics }, i) => (name in metrics ? [i] : []));
    const values = having.map((i) => parts[i]?.metrics[name] as number);
    const reduce = REDUCTIONS[name.split(":").at(-1) ?? ""];
    return [
      name,
      reduce?.(
        values,
        having.map((i) => counts[i] as number),
      ) ?? (values[0] as number),
    ] as const;
  });
  return {
    loss_fn_output_type: first.loss_fn_output_type,
    loss_fn_outputs: parts.flatMap(({ loss_fn_outputs: outputs }) => outputs),
    metrics: Object.fromEntries(metrics),
  };
}
