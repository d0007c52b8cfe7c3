/**
 * One model that a client trains: its operations run in the order they arrived, each journalled first. Replaying the journal from the last snapshot
 * gives the same weights, so a server that was killed goes on where it was.
 */
import { mkdir, readdir, rm, stat } from "node:fs/promises";
import { dirname, join } from "node:path";
import { DataError, errorMessage } from "../../core/errors.ts";
import type { ModelInput } from "../../core/model-input.ts";
import type { Datum, Engine, Learner, LoraSpec, OptimizerParams } from "../../engine/engine.ts";
import { type PolicyLoss, policyLoss } from "../../engine/losses.ts";
import type { ChatFolder } from "../../model/chat.ts";
import { visionIds } from "../../model/vision-ids.ts";
import { decodeBatch, encodeOutput, type ReceivedBatch } from "../../tinker/messages.ts";
import type { Desk } from "../desk.ts";
import { findCheckpoint } from "./find.ts";
import { failure, type Outcome } from "./futures.ts";
import {
  type CheckpointRow,
  type Journal,
  type ModelRow,
  metadataText,
  now,
  type OperationRow,
  type SamplerRow,
  safe,
} from "./journal.ts";
import { expandDatum, joinColumns, lossOf } from "./losses.ts";
import { promptsOf } from "./prompt.ts";
import type { Samplers } from "./samplers.ts";
import type { LoadRequest, OptimRequest, SaveRequest } from "./schemas.ts";

/** A snapshot is due when the work since the last took so many times as long as writing one: it costs a twentieth, and so little is done again. */
const SNAPSHOT_WORTH = 20;
/** How long one takes, until it is known. */
const SNAPSHOT_MS = 25;
/** Results of before a snapshot are kept for a client that was away. */
const MAX_KEPT_SECONDS = 3600;
/** Weights that were saved without a name: so many of a model are kept. */
const MAX_UNNAMED_SAMPLERS = 64;
/** Tinker's adapters, as clients assume them. */
const LORA_ALPHA = 32;
const ATTENTION = ["q_proj", "k_proj", "v_proj", "o_proj"];
const MLP = ["gate_proj", "up_proj", "down_proj"];

export type Workshop = {
  readonly engine: Engine;
  readonly chat: ChatFolder;
  readonly desk: Desk;
  /** The base model's folder. */
  readonly folder: string;
  /** Where checkpoints lie. */
  readonly store: string;
  readonly journal: Journal;
  readonly samplers: Samplers;
};

type Finished = { readonly position: number; readonly outcome: Outcome };

export class TrainedModel {
  readonly id: string;
  readonly #shop: Workshop;
  readonly #learner: Learner;
  readonly #row: ModelRow;
  #queue: Promise<unknown> = Promise.resolve();
  #waiting = 0;
  /** Milliseconds: of work since the last snapshot, and of writing that one. */
  #worked = 0;
  #snapshotMs = SNAPSHOT_MS;
  #isSnapshotDue = false;
  /** Since the last snapshot. */
  #finished: Finished[] = [];

  private constructor(shop: Workshop, row: ModelRow, learner: Learner) {
    this.id = row.id;
    this.#shop = shop;
    this.#row = row;
    this.#learner = learner;
  }

  static async open(shop: Workshop, row: ModelRow): Promise<TrainedModel> {
    const lora = loraOf(row);
    const { seed } = JSON.parse(row.config) as { seed: number };
    const learner = await shop.engine.learner({ folder: shop.folder, seed, ...(lora && { lora }) });
    const model = new TrainedModel(shop, row, learner);
    if (row.snapshot !== null) await learner.restore(shop.journal.place(row.snapshot));
    return model;
  }

  /** In the order of the calls; a failure is an outcome too. */
  run(operation: OperationRow): Promise<Outcome> {
    this.#waiting += 1;
    const result = this.#queue
      .then(() => this.#perform(operation))
      .finally(() => {
        this.#waiting -= 1;
      });
    this.#queue = result.catch(() => {});
    return result;
  }

  /** All that was accepted so far is done. */
  get isIdle(): boolean {
    return this.#waiting === 0;
  }

  async close(): Promise<void> {
    await this.#queue;
    await this.#learner.close();
  }

  async #perform(operation: OperationRow): Promise<Outcome> {
    const { position, kind } = operation;
    const before = readOutcome(operation);
    let outcome = before;
    if (outcome === undefined) {
      const began = performance.now();
      outcome = await this.#work(operation).catch(failure);
      this.#worked += performance.now() - began;
      // Told once, it stays so: a replay must not do what a client believes undone.
      if (isFailure(outcome)) this.#record({ position, outcome });
    }
    // A step that failed took its gradient with it.
    if (before !== undefined && kind === "optim_step") this.#learner.discard();
    this.#finished.push({ position, outcome });
    // No gradient is waiting.
    const isClean = (kind === "optim_step" || kind === "load_weights") && !isFailure(outcome);
    const isDue = this.#isSnapshotDue || this.#worked > SNAPSHOT_WORTH * this.#snapshotMs;
    if (isClean && isDue) await this.#snapshot(position);
    return outcome;
  }

  #record({ position, outcome }: Finished): void {
    recordOutcome(this.#shop.journal, position, outcome);
  }

  async #work(operation: OperationRow): Promise<Outcome> {
    switch (operation.kind) {
      case "forward_backward":
        return this.#forwardBackward(operation.batch ?? (await decodeBatch(operation.body)));
      case "optim_step":
        return this.#step(read<OptimRequest>(operation));
      case "load_weights":
        return this.#load(read<LoadRequest>(operation));
      default:
        return this.#save(operation, read<SaveRequest>(operation));
    }
  }

  async #forwardBackward(request: ReceivedBatch): Promise<Outcome> {
    const { chat, desk } = this.#shop;
    const loss = lossOf(request.loss_fn, request.loss_fn_config ?? {});
    const vision = new Set(visionIds(chat.ids, chat.tokenizer.special));
    const chunks = request.data.map((datum) => datum.chunks);
    const { prompts, release } = await promptsOf(chunks, { chat, desk, contextTokens: chat.maxPositions });
    try {
      const expanded = request.data.map(({ inputs }, i) => expandDatum(prompts[i] as ModelInput, inputs, loss, vision));
      return await this.#learn(request, expanded, loss);
    } finally {
      release();
    }
  }

  async #learn(
    request: ReceivedBatch,
    expanded: readonly ReturnType<typeof expandDatum>[],
    loss: ReturnType<typeof lossOf>,
  ): Promise<Outcome> {
    const datums = expanded.flatMap((one) => one.datums);
    if (datums.length === 0) throw new DataError("There is no data to learn from.");
    const report = request.forward_only
      ? await this.#look(datums, loss)
      : await this.#learner.forwardBackward(datums, loss);
    let at = 0;
    const outputs = expanded.map(({ columns, datums: parts }) => {
      const logprobs = joinColumns(columns, report.outputs.slice(at, at + parts.length));
      at += parts.length;
      return { logprobs, columns };
    });
    return { protobuf: encodeOutput(outputs, { "loss:sum": report.loss }) };
  }

  async #look(datums: readonly Datum[], loss: PolicyLoss) {
    const outputs = (await this.#learner.forward(datums)).map(({ logprobs }) => logprobs as Float32Array);
    const terms = outputs.map((logprobs, i) => policyLoss(loss, datums[i] as Datum, logprobs).loss);
    return { outputs, loss: terms.reduce((sum, term) => sum + term, 0) };
  }

  async #step({ adam_params: adam, optimizer_params: other }: OptimRequest): Promise<Outcome> {
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
    if (!applied)
      throw new DataError(
        "The gradient is not finite, or one of its batches failed (its result says why). The step was not applied, and the gradient was discarded.",
      );
    return { json: { metrics: { grad_norm: gradNorm }, type: "optim_step" } };
  }

  async #load({ path, optimizer }: LoadRequest): Promise<Outcome> {
    const { journal } = this.#shop;
    await this.#learner.restore(journal.place(findCheckpoint(journal, path, ["weights"]).folder));
    if (optimizer !== true) await this.#learner.freshOptimizer();
    // The checkpoint may be deleted before a replay needs it.
    this.#isSnapshotDue = true;
    return { json: { path, model_id: this.id, type: "load_weights" } };
  }

  /** Always to a folder of its own; what the journal names is whole, and what it does not name is not there. */
  async #save({ kind, position }: OperationRow, request: SaveRequest): Promise<Outcome> {
    const { journal } = this.#shop;
    const { path: name, sampling_session_seq_id: seq } = request;
    const { session, base } = this.#row;
    if (kind === "save_weights_for_sampler" && !name) {
      const id = `${session}:sample:${seq ?? 0}`;
      const folder = await this.#write(["samplers"], position, (to) => this.#learner.export(to));
      const sampler = await this.#learner.publish();
      const outcome = { json: { path: null, sampling_session_id: id, type: kind } };
      journal.together(() => {
        journal.run("INSERT OR REPLACE INTO samplers VALUES (?, ?, ?, NULL, ?, ?)", id, session, base, folder, this.id);
        this.#record({ position, outcome });
      });
      this.#shop.samplers.put(journal.place(folder), sampler);
      await this.#forgetSamplers();
      return outcome;
    }
    if (name === undefined || name === null || !/^[A-Za-z0-9_-][A-Za-z0-9_.-]{0,127}$/.test(name)) {
      throw new DataError("A checkpoint's name is letters, digits, dots, dashes and underscores.");
    }
    const place = KINDS[kind] as string;
    const path = `tinker://${this.id}/${place}/${name}`;
    const before = journal.one<Pick<CheckpointRow, "folder" | "expires">>(
      "SELECT folder, expires FROM checkpoints WHERE run = ? AND kind = ? AND name = ?",
      ...[this.id, place, name],
    );
    // Only requests to save training state can say `overwrite`; the other kinds replace what has their name.
    const isTaken = before !== undefined && (before.expires === null || before.expires > now());
    if (kind === "save_weights" && isTaken && request.overwrite !== true)
      throw new DataError(`There is already a checkpoint ${path}: choose another name, or save with overwrite=True.`);
    const folder = await this.#write([place, name], position, (to) =>
      kind === "save_weights" ? this.#learner.checkpoint(to) : this.#learner.export(to),
    );
    const bytes = await sizeOf(journal.place(folder));
    const expires = request.ttl_seconds ? now() + request.ttl_seconds : null;
    const outcome = { json: { path, type: kind } };
    journal.together(() => {
      journal.run(
        "INSERT OR REPLACE INTO checkpoints VALUES (?, ?, ?, ?, ?, ?, ?, ?, 0)",
        ...[this.id, place, name, folder, now(), bytes, metadataText(request.user_metadata), expires],
      );
      this.#record({ position, outcome });
    });
    if (before !== undefined && before.folder !== folder) await removeSaved(journal.place(before.folder));
    return outcome;
  }

  /** The folder as the journal names it. */
  async #write(place: readonly string[], position: number, write: (folder: string) => Promise<void>): Promise<string> {
    const own = join(this.#shop.store, safe(this.id), ...place, String(position));
    // Half of it may be there from before a kill.
    await rm(own, { recursive: true, force: true });
    await mkdir(own, { recursive: true });
    await write(join(own, "model"));
    return this.#shop.journal.nameOf(join(own, "model"));
  }

  async #forgetSamplers(): Promise<void> {
    const { journal, samplers } = this.#shop;
    const old = journal.all<SamplerRow>(
      "SELECT * FROM samplers WHERE model = ? ORDER BY rowid DESC LIMIT -1 OFFSET ?",
      ...[this.id, MAX_UNNAMED_SAMPLERS],
    );
    for (const { id, folder } of old) {
      journal.run("DELETE FROM samplers WHERE id = ?", id);
      if (folder === null) continue;
      samplers.drop(journal.place(folder));
      await removeSaved(journal.place(folder));
    }
  }

  /** What can't be written is tried again after the next step. */
  async #snapshot(position: number): Promise<void> {
    const { journal, store } = this.#shop;
    const began = performance.now();
    let folder: string;
    try {
      folder = await this.#write(["snapshots"], position, (to) => this.#learner.checkpoint(to));
    } catch (error) {
      process.stderr.write(`saccade: no snapshot of ${this.id}: ${errorMessage(error)}\n`);
      return;
    }
    journal.together(() => {
      journal.run("UPDATE models SET snapshot = ?, position = ? WHERE id = ?", folder, position, this.id);
      for (const finished of this.#finished) this.#record(finished);
      journal.run("UPDATE operations SET body = x'' WHERE model = ? AND position <= ?", this.id, position);
      const until = now() - MAX_KEPT_SECONDS;
      journal.run("UPDATE operations SET outcome = NULL WHERE model = ? AND done < ?", this.id, until);
    });
    this.#finished = [];
    this.#isSnapshotDue = false;
    this.#worked = 0;
    this.#snapshotMs = performance.now() - began;
    const all = join(store, safe(this.id), "snapshots");
    for (const old of await readdir(all)) {
      if (Number(old) < position) await rm(join(all, old), { recursive: true, force: true });
    }
  }
}

export const KINDS: Readonly<Record<string, string>> = {
  save_weights: "weights",
  save_weights_for_sampler: "sampler_weights",
  save_weights_external: "external_weights",
};

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

/** Undefined: it is still to be done. */
export function readOutcome({ outcome }: Pick<OperationRow, "outcome">): Outcome | undefined {
  if (outcome === null) return undefined;
  return typeof outcome === "string" ? { json: JSON.parse(outcome) as unknown } : { protobuf: outcome };
}

export function recordOutcome(journal: Journal, position: number, outcome: Outcome): void {
  const value = "json" in outcome ? JSON.stringify(outcome.json) : outcome.protobuf;
  journal.run("UPDATE operations SET outcome = ?, done = ? WHERE position = ?", value, now(), position);
}

/** With all that lies beside the weights. */
export function removeSaved(folder: string): Promise<void> {
  return rm(dirname(folder), { recursive: true, force: true });
}

function isFailure(outcome: Outcome): boolean {
  return "json" in outcome && Object.hasOwn(outcome.json as object, "error");
}

function read<T>({ body }: OperationRow): T {
  return JSON.parse(Buffer.from(body).toString("utf8")) as T;
}

async function sizeOf(folder: string): Promise<number> {
  const files = await readdir(folder);
  const sizes = await Promise.all(files.map(async (file) => (await stat(join(folder, file))).size));
  return sizes.reduce((sum, size) => sum + size, 0);
}
