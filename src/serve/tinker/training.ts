/**
 * One model that a client trains: its operations run in the order they arrived, each journalled first. Replaying the journal from the last snapshot
 * gives the same weights, so a server that was killed goes on where it was.
 */
import { mkdir, readdir, rm, stat } from "node:fs/promises";
import { join } from "node:path";
import { DataError } from "../../core/errors.ts";
import type { Engine, Learner, LoraSpec, OptimizerParams, Sampler } from "../../engine/engine.ts";
import type { ChatFolder } from "../../model/chat.ts";
import type { Outcome } from "./futures.ts";
import { type Journal, type ModelRow, metadataText, type OperationRow } from "./journal.ts";
import { expandDatum, joinColumns, lossOf } from "./losses.ts";
import { decodeForwardBackward, encodeForwardBackward } from "./messages.ts";
import { promptOf, visionIds } from "./prompt.ts";
import type { LoadRequest, OptimRequest, SaveRequest } from "./schemas.ts";

/** Optimizer steps between two snapshots. */
const SNAPSHOT_STEPS = 50;
/** Tinker's adapters, as clients assume them. */
const LORA_ALPHA = 32;
const ATTENTION = ["q_proj", "k_proj", "v_proj", "o_proj"];
const MLP = ["gate_proj", "up_proj", "down_proj"];

export type Workshop = {
  readonly engine: Engine;
  readonly chat: ChatFolder;
  /** The base model's folder. */
  readonly folder: string;
  /** Where checkpoints lie. */
  readonly store: string;
  readonly journal: Journal;
  /** Keeps a sampler under a session's name. */
  keepSampler(id: string, session: string, sampler: Sampler): void;
  /** The folder of a tinker:// path. */
  checkpoint(path: string, kinds?: readonly string[]): string;
};

export class TrainedModel {
  readonly id: string;
  readonly #shop: Workshop;
  readonly #learner: Learner;
  readonly #row: ModelRow;
  #queue: Promise<unknown> = Promise.resolve();
  #steps = 0;

  private constructor(shop: Workshop, row: ModelRow, learner: Learner) {
    this.id = row.id;
    this.#shop = shop;
    this.#row = row;
    this.#learner = learner;
  }

  static async open(shop: Workshop, row: ModelRow): Promise<TrainedModel> {
    const lora = loraOf(row);
    const { seed = 0 } = JSON.parse(row.config) as { seed?: number };
    const learner = await shop.engine.learner({ folder: shop.folder, seed, ...(lora && { lora }) });
    const model = new TrainedModel(shop, row, learner);
    if (row.snapshot !== null) await learner.restore(row.snapshot);
    return model;
  }

  /** In the order of the calls. */
  run(operation: OperationRow): Promise<Outcome> {
    const result = this.#queue.then(() => this.#perform(operation));
    this.#queue = result.catch(() => {});
    return result;
  }

  /** When all that was accepted so far is done. */
  async settled(): Promise<void> {
    await this.#queue;
  }

  async close(): Promise<void> {
    await this.#queue;
    await this.#learner.close();
  }

  #perform(operation: OperationRow): Promise<Outcome> {
    switch (operation.kind) {
      case "forward_backward":
        return this.#forwardBackward(operation.body);
      case "optim_step":
        return this.#step(read<OptimRequest>(operation), operation.position);
      case "load_weights":
        return this.#load(read<LoadRequest>(operation), operation.position);
      default:
        return this.#save(operation.kind, read<SaveRequest>(operation));
    }
  }

  async #forwardBackward(body: Uint8Array): Promise<Outcome> {
    const { chat } = this.#shop;
    const request = decodeForwardBackward(body);
    const loss = lossOf(request.loss, request.config);
    const vision = visionIds(chat);
    const expanded = await Promise.all(
      request.data.map(async ({ chunks, inputs }) => expandDatum(await promptOf(chunks, chat), inputs, loss, vision)),
    );
    const datums = expanded.flatMap((one) => one.datums);
    if (datums.length === 0) throw new DataError("There is no data to learn from.");
    const report = request.forwardOnly
      ? { outputs: (await this.#learner.forward(datums)).map(({ logprobs }) => logprobs as Float32Array), loss: 0 }
      : await this.#learner.forwardBackward(datums, loss);
    let at = 0;
    const outputs = expanded.map(({ columns, datums: parts }) => {
      const logprobs = joinColumns(columns, report.outputs.slice(at, at + parts.length));
      at += parts.length;
      return { logprobs, columns };
    });
    return { protobuf: encodeForwardBackward(outputs, { "loss:sum": report.loss }) };
  }

  async #step({ adam_params: adam, optimizer_params: other }: OptimRequest, position: number): Promise<Outcome> {
    if (adam === undefined || adam === null) {
      throw new DataError(
        `The optimizer "${String(other?.type ?? "none")}" is not served; create the model with adamw.`,
      );
    }
    const optimizer: OptimizerParams = {
      name: "adamw",
      learningRate: adam.learning_rate,
      beta1: adam.beta1,
      beta2: adam.beta2,
      epsilon: adam.eps,
      weightDecay: adam.weight_decay,
      maxGradNorm: adam.grad_clip_norm,
    };
    const { gradNorm, applied } = await this.#learner.step(optimizer);
    if (!applied) throw new DataError("The gradient is not finite: the step was not applied and the gradient is gone.");
    this.#steps += 1;
    if (this.#steps % SNAPSHOT_STEPS === 0) await this.#snapshot(position);
    return { json: { metrics: { grad_norm: gradNorm }, type: "optim_step" } };
  }

  async #load({ path, optimizer }: LoadRequest, position: number): Promise<Outcome> {
    await this.#learner.restore(this.#shop.checkpoint(path, ["weights"]));
    if (optimizer !== true) await this.#learner.freshOptimizer();
    // The checkpoint may be deleted before a replay needs it.
    await this.#snapshot(position);
    return { json: { path, model_id: this.id, type: "load_weights" } };
  }

  async #save(kind: string, request: SaveRequest): Promise<Outcome> {
    const { journal, store } = this.#shop;
    const { path: name, sampling_session_seq_id: seq } = request;
    if (kind === "save_weights_for_sampler" && !name) {
      const id = `${this.#row.session}:sample:${seq ?? 0}`;
      this.#shop.keepSampler(id, this.#row.session, await this.#learner.publish());
      return { json: { path: null, sampling_session_id: id, type: kind } };
    }
    if (name === undefined || name === null || !/^[A-Za-z0-9_-][A-Za-z0-9_.-]{0,127}$/.test(name)) {
      throw new DataError("A checkpoint's name is letters, digits, dots, dashes and underscores.");
    }
    const place = KINDS[kind] as string;
    const folder = join(store, safe(this.id), place, name);
    await mkdir(join(folder, ".."), { recursive: true });
    if (kind === "save_weights") await this.#learner.checkpoint(folder);
    else await this.#learner.export(folder);
    const now = Date.now() / 1000;
    const expires = request.ttl_seconds ? now + request.ttl_seconds : null;
    journal.run(
      "INSERT OR REPLACE INTO checkpoints VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
      ...[this.id, place, name, folder, now, await sizeOf(folder), metadataText(request.user_metadata), expires],
    );
    return { json: { path: `tinker://${this.id}/${place}/${name}`, type: kind } };
  }

  /** Only ever after a step or a load: no gradient is waiting then. */
  async #snapshot(position: number): Promise<void> {
    const { journal, store } = this.#shop;
    const folder = join(store, safe(this.id), "snapshots", String(position), "state");
    await mkdir(join(folder, ".."), { recursive: true });
    await this.#learner.checkpoint(folder);
    journal.run("UPDATE models SET snapshot = ?, position = ? WHERE id = ?", folder, position, this.id);
    journal.run("UPDATE operations SET body = x'' WHERE model = ? AND position <= ?", this.id, position);
    const before = join(store, safe(this.id), "snapshots");
    for (const old of await readdir(before)) {
      if (Number(old) < position) await rm(join(before, old), { recursive: true, force: true });
    }
  }
}

export const KINDS: Readonly<Record<string, string>> = {
  save_weights: "weights",
  save_weights_for_sampler: "sampler_weights",
  save_weights_external: "external_weights",
};

/** Colons are no part of a file's name everywhere. */
export function safe(id: string): string {
  return id.replaceAll(":", "_");
}

function loraOf({ rank, config }: ModelRow): LoraSpec | undefined {
  if (rank === 0) return undefined;
  const { train_attn: attention = true, train_mlp: mlp = true } = JSON.parse(config) as Record<
    string,
    boolean | undefined
  >;
  const targets = [...(attention ? ATTENTION : []), ...(mlp ? MLP : [])];
  if (targets.length === 0) throw new DataError("Nothing is left to train: set train_attn or train_mlp.");
  return { rank, alpha: LORA_ALPHA, targets };
}

function read<T>({ body }: OperationRow): T {
  return JSON.parse(Buffer.from(body).toString("utf8")) as T;
}

async function sizeOf(folder: string): Promise<number> {
  const files = await readdir(folder);
  const sizes = await Promise.all(files.map(async (file) => (await stat(join(folder, file))).size));
  return sizes.reduce((sum, size) => sum + size, 0);
}
