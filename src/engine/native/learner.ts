/**
 * The native learner. Weights, one gradient per shard and the optimizer's moments are shared memory; workers do all the arithmetic. Calls run one
 * after the other, in the order they were made. Sums have a fixed order whatever the number of threads, so results are the same bits.
 */
import { soon } from "../../core/platform.ts";
import { checkOptimizer } from "../check-optimizer.ts";
import { customForwardBackward } from "../custom-loss.ts";
import type { Datum, Forward, Learner, Loss, LossReport, OptimizerParams, Sampler, StepReport } from "../engine.ts";
import { EngineError } from "../errors.ts";
import { checkLoss, type MetricSums, meanMetrics, mergeMetrics } from "../losses.ts";
import { checkBatch, runBatch, type Workshop } from "./batch.ts";
import type { ModelRef, Moments } from "./jobs.ts";
import { clipScale } from "./optimizer.ts";
import type { Parameter } from "./parameters.ts";
import { viewParameters } from "./weights.ts";

/** Bytes copied between two breaths of the event loop. */
const COPY_BYTES = 16 * 1024 ** 2;

export type LearnerHost = Workshop & {
  readonly nextModelId: () => number;
  readonly openSampler: (model: ModelRef, version: number, onIdleClose: (model: ModelRef) => void) => Sampler;
};

export class NativeLearner implements Learner {
  readonly #host: LearnerHost;
  readonly #layout: readonly Parameter[];
  readonly #moments: Moments;
  #model: ModelRef;
  /** Snapshots that nothing uses any more: the next one is written over them, so that memory does not grow with versions. */
  readonly #spares: ModelRef[] = [];
  /** By shard; made when first needed. */
  #gradients: (SharedArrayBuffer | undefined)[] = [];
  #step = 0;
  #version = 0;
  /** The weights changed since that version was published. */
  #moved = true;
  /** A loss was not finite: these gradients must not be applied. */
  #spoiled = false;
  /** An update was cut short: part of the weights moved. */
  #broken = false;
  #queue: Promise<unknown> = Promise.resolve();
  #closed = false;

  constructor(host: LearnerHost, model: ModelRef) {
    this.#host = host;
    this.#model = model;
    const { base, adapter } = viewParameters(model);
    this.#layout = (adapter ?? base).layout;
    const bytes = (adapter ?? base).buffer.byteLength;
    this.#moments = { first: new SharedArrayBuffer(bytes), second: new SharedArrayBuffer(bytes) };
  }

  forward(data: readonly Datum[]): Promise<Forward[]> {
    return this.#enqueue(async () => {
      checkBatch(this.#model, data);
      const results = await runBatch(this.#host, this.#model, data);
      return results.map(({ outputs, entropy }) => (entropy ? { logprobs: outputs, entropy } : { values: outputs }));
    });
  }

  async forwardBackward(data: readonly Datum[], loss: Loss): Promise<LossReport> {
    checkLoss(loss, this.#model.head);
    if (loss.name !== "custom") return this.#enqueue(() => this.#learn(data, loss));
    const report = await customForwardBackward(this, data, loss.compute);
    if (!report.finite) await this.#enqueue(async () => this.#spoil());
    return report;
  }

  step(optimizer: OptimizerParams): Promise<StepReport> {
    checkOptimizer(optimizer);
    return this.#enqueue(async () => {
      const gradients = this.#gradients.filter((gradient) => gradient !== undefined);
      if (gradients.length === 0) gradients.push(this.#gradient(0));
      const { pool } = this.#host;
      const shared = { model: this.#model, gradients };
      const reduced = this.#overParts((from, to) => pool.run({ kind: "reduce", ...shared, from, to }));
      // Half a sum is worth nothing.
      const squares = await reduced.catch((error) => this.#dropGradients(error));
      const gradNorm = Math.sqrt(squares.flat().reduce((sum, square) => sum + square, 0));
      const applied = Number.isFinite(gradNorm) && !this.#spoiled;
      const scale = clipScale(gradNorm, optimizer.maxGradNorm);
      const update = {
        ...shared,
        moments: this.#moments,
        ...(applied && { move: { optimizer, step: this.#step + 1, scale } }),
      };
      await this.#overParts((from, to) => pool.run({ kind: "update", ...update, from, to })).catch((error) => {
        this.#broken = applied;
        return this.#dropGradients(error);
      });
      this.#spoiled = false;
      if (applied) {
        this.#step += 1;
        this.#moved = true;
        this.#touch();
      }
      return { gradNorm, applied, step: this.#step };
    });
  }

  discard(): void {
    this.#enqueue(async () => this.#clearGradients()).catch(() => {});
  }

  publish(): Promise<Sampler> {
    return this.#enqueue(async () => {
      if (this.#model.head === "value") throw new EngineError("A critic can't sample; publish the policy's learner.");
      const { lora, weights } = this.#model;
      if (this.#moved) this.#version += 1;
      this.#moved = false;
      // Under LoRA the base never changes: snapshots share it.
      const spare = this.#spares.pop();
      const copy = await copyShared(lora?.weights ?? weights, spare && (spare.lora?.weights ?? spare.weights));
      const snapshot: ModelRef = {
        ...this.#model,
        id: spare?.id ?? this.#host.nextModelId(),
        revision: spare === undefined ? 0 : spare.revision + 1,
        ...(lora ? { lora: { ...lora, weights: copy } } : { weights: copy }),
      };
      return this.#host.openSampler(snapshot, this.#version, (closed) => this.#keepSpare(closed));
    });
  }

  #keepSpare(model: ModelRef): void {
    if (this.#closed) this.#host.pool.note({ note: "forget", model: model.id });
    else this.#spares.push(model);
  }

  async freshOptimizer(): Promise<void> {
    await this.#enqueue(async () => {
      for (const moment of Object.values(this.#moments)) new Uint8Array(moment).fill(0);
      this.#step = 0;
    });
  }

  async export(folder: string): Promise<void> {
    await this.#enqueue(() => this.#host.pool.run({ kind: "save", model: this.#model, folder }));
  }

  async checkpoint(folder: string): Promise<void> {
    await this.#enqueue(() => {
      const state = { moments: this.#moments, step: this.#step, version: this.#version, moved: this.#moved };
      return this.#host.pool.run({ kind: "save", model: this.#model, folder, state });
    });
  }

  async restore(folder: string): Promise<void> {
    await this.#enqueue(async () => {
      const { step, version, moved } = await this.#host.pool.run({
        kind: "restore",
        model: this.#model,
        folder,
        moments: this.#moments,
      });
      this.#step = step;
      this.#version = version;
      this.#moved = moved;
      this.#clearGradients();
      this.#touch();
      this.#broken = false;
    }, true);
  }

  async close(): Promise<void> {
    if (this.#closed) return;
    this.#closed = true;
    await this.#queue;
    for (const { id } of [this.#model, ...this.#spares]) this.#host.pool.note({ note: "forget", model: id });
    this.#spares.length = 0;
    this.#gradients = [];
  }

  async #learn(data: readonly Datum[], loss: Exclude<Loss, { name: "custom" }>): Promise<LossReport> {
    checkBatch(this.#model, data, loss);
    const results = await runBatch(this.#host, this.#model, data, {
      loss,
      gradient: (shard) => this.#gradient(shard),
    }).catch((error) => {
      // Some shards may have added their part.
      this.#spoil();
      throw error;
    });
    let sum = 0;
    let tokens = 0;
    const metrics: MetricSums = {};
    // In the order of the data: the same sum however it was packed.
    for (const result of results) {
      sum += result.loss?.sum ?? 0;
      tokens += result.loss?.tokens ?? 0;
      mergeMetrics(metrics, result.loss?.metrics ?? {});
    }
    const finite = Number.isFinite(sum);
    if (!finite) this.#spoil();
    return {
      loss: sum,
      finite,
      metrics: { tokens, ...meanMetrics(metrics) },
      outputs: results.map(({ outputs }) => outputs),
      frameHashes: results.map(({ frameHashes = [] }) => frameHashes),
    };
  }

  #gradient(shard: number): SharedArrayBuffer {
    const buffer = this.#gradients[shard] ?? new SharedArrayBuffer(this.#moments.first.byteLength);
    this.#gradients[shard] = buffer;
    return buffer;
  }

  #clearGradients(): void {
    this.#gradients = [];
    this.#spoiled = false;
  }

  #dropGradients(error: unknown): never {
    this.#clearGradients();
    throw error;
  }

  #spoil(): void {
    this.#spoiled = true;
  }

  /** The weights changed: workers pack them anew. */
  #touch(): void {
    this.#model = { ...this.#model, revision: this.#model.revision + 1 };
  }

  /** Cuts the parameters into one run for each thread, of about equal size. */
  #overParts<T>(work: (from: number, to: number) => Promise<T>): Promise<T[]> {
    const total = this.#layout.reduce((sum, { size }) => sum + size, 0);
    const parts: Promise<T>[] = [];
    let from = 0;
    let done = 0;
    for (const [index, { size }] of this.#layout.entries()) {
      done += size;
      const due = (total * (parts.length + 1)) / this.#host.pool.threads;
      if (done < due && index + 1 < this.#layout.length) continue;
      parts.push(work(from, index + 1));
      from = index + 1;
    }
    return settled(parts);
  }

  #enqueue<T>(work: () => Promise<T>, repairs = false): Promise<T> {
    const checked = async () => {
      if (this.#broken && !repairs) {
        throw new EngineError(
          "An update of these weights was cut short when a worker died. Restore a checkpoint into this learner.",
        );
      }
      return work();
    };
    if (this.#closed) return Promise.reject(new EngineError("This learner is closed."));
    const result = this.#queue.then(checked);
    this.#queue = result.catch(() => {});
    return result;
  }
}

async function copyShared(from: SharedArrayBuffer, into?: SharedArrayBuffer): Promise<SharedArrayBuffer> {
  const copy = into ?? new SharedArrayBuffer(from.byteLength);
  const [source, target] = [new Uint8Array(from), new Uint8Array(copy)];
  for (let at = 0; at < source.length; at += COPY_BYTES) {
    target.set(source.subarray(at, at + COPY_BYTES), at);
    await new Promise((resolve) => soon(() => resolve(undefined)));
  }
  return copy;
}

/** Like Promise.all, but nothing still runs when it rejects. */
async function settled<T>(parts: readonly Promise<T>[]): Promise<T[]> {
  await Promise.allSettled(parts);
  return Promise.all(parts);
}
