/**
 * A model that a Tinker server trains. Calls are submitted in their order and need not be awaited one by one, so an update's two operations travel together.
 * Checkpoints stay at the server: a folder holds their tinker:// paths.
 */
import { randomUUID } from "node:crypto";
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { join, resolve } from "node:path";
import { z } from "zod";
import { ConfigError, DataError } from "../../core/errors.ts";
import type { ForwardBackwardOutput, SaveOptions, TrainingClient } from "../../tinker/index.ts";
import { checkOptimizer } from "../check-optimizer.ts";
import { customForwardBackward } from "../custom-loss.ts";
import type {
  Datum,
  Forward,
  Learner,
  LearnerSpec,
  Loss,
  LossReport,
  OptimizerParams,
  Sampler,
  StepReport,
} from "../engine.ts";
import { EngineError, EngineLost } from "../errors.ts";
import {
  checkDatum,
  checkLoss,
  type MetricSums,
  meanMetrics,
  mergeMetrics,
  type PolicyLoss,
  policyLoss,
} from "../losses.ts";
import { adamOf, datumOf, loraOf, lossConfig, wireName } from "./convert.ts";
import { TinkerSampler } from "./sampler.ts";
import { asEngine, type TinkerServer } from "./server.ts";

/** The file that stands for weights which stay at the server. */
export const PLACE_FILE = "tinker.json";
const place = z.strictObject({
  server: z.string(),
  model: z.string(),
  /** Where the tokenizer is, on this machine. */
  tokenizer: z.string(),
  /** To sample from, and to go on training from. */
  sampler: z.string(),
  state: z.string().optional(),
  step: z.int().min(0),
  version: z.int().min(0),
  moved: z.boolean(),
});
export type Place = z.output<typeof place>;

export async function readPlace(folder: string): Promise<Place | undefined> {
  const file = join(folder, PLACE_FILE);
  const text = await readFile(file, "utf8").catch(() => undefined);
  if (text === undefined) return undefined;
  const read = place.safeParse(JSON.parse(text));
  if (!read.success) throw new DataError(`${file} is damaged: ${read.error.issues[0]?.message}.`);
  return read.data;
}

export class TinkerLearner implements Learner {
  readonly #server: TinkerServer;
  readonly #spec: LearnerSpec;
  readonly #saving: SaveOptions;
  /** Another one where the optimizer started anew. */
  #client: TrainingClient;
  /** When the last call was submitted: the next one is then. */
  #queue: Promise<unknown> = Promise.resolve();
  #step = 0;
  #version = 0;
  #moved = false;
  /** No step was taken with this optimizer. */
  #fresh = true;
  /** Gradients that are not 0 wait for a step. */
  #pulled = false;
  #spoiled = false;
  #closed = false;

  private constructor(server: TinkerServer, spec: LearnerSpec, client: TrainingClient, saving: SaveOptions) {
    this.#server = server;
    this.#spec = spec;
    this.#client = client;
    this.#saving = saving;
  }

  static async open(server: TinkerServer, spec: LearnerSpec, saving: SaveOptions): Promise<TinkerLearner> {
    const lora = { ...loraOf(spec.lora), seed: spec.seed };
    const client = await asEngine(server.service.createLoraTrainingClient(server.model, lora));
    return new TinkerLearner(server, spec, client, saving);
  }

  /** The tokenizer that the server goes by. */
  async tokenizerId(): Promise<string> {
    const { model_data: data } = await asEngine(this.#client.getInfo());
    return (data.tokenizer_id ?? data.model_name ?? this.#server.model).split(":")[0] as string;
  }

  forward(data: readonly Datum[]): Promise<Forward[]> {
    const ready = () => this.#see(data);
    return this.#run(async (client) => {
      for (const datum of data) this.#check(datum);
      const batch = data.map((datum) => datumOf(datum, "cross-entropy", this.#own));
      const output = await client.forward(batch, wireName("cross-entropy"));
      this.#server.used.prefill += tokensOf(data);
      return logprobsOf(output, data).map((logprobs) => ({ logprobs }));
    }, ready);
  }

  async forwardBackward(data: readonly Datum[], loss: Loss): Promise<LossReport> {
    checkLoss(loss, "lm");
    if (loss.name === "value") throw new EngineError("Tinker has no critic.");
    if (loss.name === "dro" && !this.#own) {
      throw new ConfigError(
        "This server's dro ignores weights and would train positions without a target: use lossFunction instead.",
      );
    }
    if (loss.name !== "custom") return this.#learn(data, loss);
    const report = await customForwardBackward(this, data, loss.compute);
    if (!report.finite) this.#spoiled = true;
    return report;
  }

  step(optimizer: OptimizerParams): Promise<StepReport> {
    checkOptimizer(optimizer);
    const params = adamOf(optimizer);
    return this.#run(async (client) => {
      if (this.#spoiled) throw this.#lost();
      let metrics: Readonly<Record<string, number>> | null | undefined;
      try {
        ({ metrics } = await client.optimStep(params));
      } catch (error) {
        // Our own server drops such a gradient and says so.
        if (this.#own && error instanceof Error && /gradient is not finite/.test(error.message)) {
          this.#pulled = false;
          return { gradNorm: Number.NaN, applied: false, step: this.#step };
        }
        throw error;
      }
      // The batch that it was submitted with may have turned out broken.
      if (this.#spoiled) throw this.#lost();
      this.#pulled = false;
      this.#step += 1;
      this.#moved = true;
      this.#fresh = false;
      const gradNorm = metrics?.grad_norm ?? metrics?.["optim/grad_norm"] ?? Number.NaN;
      return { gradNorm, applied: true, step: this.#step };
    });
  }

  /** There is no such operation: only a gradient of 0 may be dropped, by leaving it. */
  discard(): void {
    if (this.#pulled) this.#spoiled = true;
  }

  async freshOptimizer(): Promise<void> {
    if (this.#fresh) return;
    if (this.#server.form === "json")
      throw new EngineError(
        "This server always loads optimizer state with the weights, so its optimizer can't be reset.",
      );
    await this.#run(
      async () => {
        this.#fresh = true;
      },
      async () => {
        this.#client = await this.#renew(this.#client);
      },
    );
  }

  publish(): Promise<Sampler> {
    return this.#run(async (client) => {
      const sampler = await client.saveWeightsAndGetSamplingClient();
      if (this.#moved) this.#version += 1;
      this.#moved = false;
      return new TinkerSampler(this.#server, sampler, this.#version);
    });
  }

  async export(folder: string): Promise<void> {
    await this.#run(async (client) => {
      const { path } = await client.saveWeightsForSampler(nameOf("export", this.#step), this.#saving);
      await this.#write(folder, { sampler: path });
    });
  }

  async checkpoint(folder: string): Promise<void> {
    await this.#run(async (client) => {
      const name = nameOf("step", this.#step);
      const [state, sampler] = await Promise.all([
        client.saveState(name, this.#saving),
        client.saveWeightsForSampler(name, this.#saving),
      ]);
      await this.#write(folder, { state: state.path, sampler: sampler.path });
    });
  }

  async restore(folder: string): Promise<void> {
    const found = await readPlace(folder);
    if (found?.state === undefined) throw new DataError(`${folder} holds no checkpoint of a Tinker run.`);
    const { state, step, version, moved } = found;
    await this.#run((client) => client.loadStateWithOptimizer(state));
    this.#step = step;
    this.#version = version;
    this.#moved = moved;
    this.#fresh = false;
    this.#pulled = false;
    this.#spoiled = false;
  }

  async close(): Promise<void> {
    this.#closed = true;
  }

  get #own(): boolean {
    return this.#server.own !== undefined;
  }

  #learn(data: readonly Datum[], loss: PolicyLoss): Promise<LossReport> {
    const config = lossConfig(loss);
    const ready = () => this.#see(data);
    return this.#run(async (client) => {
      for (const datum of data) this.#check(datum, loss);
      const batch = data.map((datum) => datumOf(datum, loss.name, this.#own));
      const output = await client.forwardBackward(batch, wireName(loss.name), config);
      this.#server.used.train += tokensOf(data);
      return this.#report(output, data, loss);
    }, ready);
  }

  /** The server's sum where it gives one that is a sum; metrics from the log-probabilities, as every engine computes them. */
  #report(output: ForwardBackwardOutput, data: readonly Datum[], loss: PolicyLoss): LossReport {
    const outputs = logprobsOf(output, data);
    const metrics: MetricSums = {};
    let [sum, tokens] = [0, 0];
    for (const [i, datum] of data.entries()) {
      const terms = policyLoss(loss, datum, outputs[i] as Float32Array);
      sum += terms.loss;
      tokens += terms.tokens;
      mergeMetrics(metrics, terms.metrics);
      this.#pulled ||= terms.slopes.some((slope) => slope !== 0);
    }
    const total = (this.#server.form === "protobuf" ? output.metrics["loss:sum"] : undefined) ?? sum;
    const finite = Number.isFinite(total) && Number.isFinite(sum);
    if (!finite && !this.#own) this.#spoiled = true;
    return { loss: total, finite, metrics: { tokens, ...meanMetrics(metrics) }, outputs };
  }

  async #renew(client: TrainingClient): Promise<TrainingClient> {
    const { service } = this.#server;
    const { path } = await client.saveState(nameOf("phase", this.#step));
    const next = await service.createTrainingClientFromState(path);
    // Nothing goes by it any more, and a server without deletion keeps it.
    await service
      .createRestClient()
      .deleteCheckpointFromTinkerPath(path)
      .catch(() => {});
    return next;
  }

  async #write(folder: string, paths: Pick<Place, "sampler"> & Partial<Pick<Place, "state">>): Promise<void> {
    const written: Place = {
      server: this.#server.service.connection.url,
      model: this.#server.model,
      tokenizer: resolve(this.#spec.folder),
      ...paths,
      step: this.#step,
      version: this.#version,
      moved: this.#moved,
    };
    await mkdir(folder, { recursive: true });
    await writeFile(join(folder, PLACE_FILE), `${JSON.stringify(written, null, 1)}\n`);
  }

  #check(datum: Datum, loss?: Loss): void {
    checkDatum(datum, loss);
    if ((datum.temperature ?? 1) !== 1)
      throw new DataError("Tinker learns at temperature 1 only: set sampling.temperature to 1.");
  }

  async #see(data: readonly Datum[]): Promise<void> {
    const seeing = data.find(({ input }) => input.images.length > 0);
    if (seeing !== undefined) await this.#server.checkSees(seeing.input);
  }

  #lost(): EngineLost {
    return new EngineLost("A gradient is not finite or must be discarded, but this server can't discard it.");
  }

  /** Submits in the order of the calls, each when `ready` is; the answers are waited for apart. `submit` must submit before it waits. */
  async #run<T>(submit: (client: TrainingClient) => Promise<T>, ready?: () => Promise<void>): Promise<T> {
    if (this.#closed) throw new EngineError("This learner is closed.");
    const submitted = this.#queue.then(async () => {
      await ready?.();
      return { result: submit(this.#client) };
    });
    this.#queue = submitted.catch(() => {});
    return asEngine(submitted.then(({ result }) => result));
  }
}

/** 0 where there is no target. */
function logprobsOf({ loss_fn_outputs: outputs }: ForwardBackwardOutput, data: readonly Datum[]): Float32Array[] {
  if (outputs.length !== data.length)
    throw new EngineError(`The server answered ${outputs.length} of ${data.length} datums.`);
  return data.map(({ targets }, i) => {
    const found = outputs[i]?.logprobs?.data;
    if (found?.length !== targets.length)
      throw new EngineError(`The server gave ${found?.length ?? 0} log-probabilities for ${targets.length} positions.`);
    return Float32Array.from(targets, (target, at) => (target < 0 ? 0 : (found[at] as number)));
  });
}

function tokensOf(data: readonly Datum[]): number {
  return data.reduce((sum, { input }) => sum + input.ids.length, 0);
}

/** Steps come back after a resume: names do not. */
function nameOf(what: string, step: number): string {
  return `${what}-${step}-${randomUUID().slice(0, 8)}`;
}
