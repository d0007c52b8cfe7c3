/**
 * Qwen3-VL: a vision tower whose merged patches replace placeholder tokens, and a language model. There are two ways in. `forward`
 * takes whole sequences packed end to end, for scoring and training: every distinct image is encoded once and placed wherever it appears.
 * `forwardCached` takes the next rows of sequences whose keys and values are kept, for sampling. Both run the same layers, only the
 * attention call differs, and no kernel lets one row see how many others there are: both give the same bits.
 */
import type { ModelConfig } from "../../model/config.ts";
import { LANGUAGE_PREFIX } from "../../model/parameters.ts";
import { visionIds } from "../../model/vision-ids.ts";
import { EngineError } from "../errors.ts";
import { type RowValues, rowValues, type TokenScores, tokenScores } from "./heads.ts";
import type { F32, I32, Kernels } from "./kernels/api.ts";
import type { KvCache } from "./kv-cache.ts";
import { ADAPTER_PREFIX } from "./lora.ts";
import * as op from "./ops.ts";
import { type Head, type Parameters, VALUE_HEAD } from "./parameters.ts";
import { TextRotary, tokenPositions } from "./positions.ts";
import type { Tape, Tensor } from "./tape.ts";
import { type Encoded, type ImagePatches, VisionTower } from "./vision-tower.ts";

/** What the vision tower made of one image: rows [tokens, hidden] for the placeholders, and for the first language layers. */
export type ImageFeatures = { readonly main: F32; readonly deepstack: readonly F32[] };

/** A sequence whose ids from `start` on are the placeholders of image `image` of the batch; spans ascend. */
export type PackedSequence = {
  readonly ids: I32;
  readonly spans: readonly { readonly start: number; readonly image: number }[];
};
export type PackedBatch = { readonly sequences: readonly PackedSequence[]; readonly images: readonly ImagePatches[] };

/** The next ids of one sequence, after `position` ids that are in its cache slot. */
export type CachedRun = {
  readonly cache: KvCache;
  readonly slot: number;
  readonly position: number;
  readonly ids: I32;
  /** (time, height, width) of each id, from `tokenPositions`. */
  readonly positions: I32;
  /** Feature rows from.. of an image belong to ids row..row+count-1 of this run. */
  readonly features: readonly {
    readonly row: number;
    readonly count: number;
    readonly from: number;
    readonly features: ImageFeatures;
  }[];
};

export type NetworkOptions = {
  readonly head: Head;
  /** An adapter over frozen parameters. */
  readonly lora?: { readonly parameters: Parameters; readonly scaling: number };
  /** Ids that can't be sampled; absent: the vision ids that config.json names. */
  readonly maskedIds?: readonly number[];
};

type Layer = {
  readonly inputNorm: op.Param;
  readonly q: op.Linear;
  readonly k: op.Linear;
  readonly v: op.Linear;
  readonly qNorm: op.Param;
  readonly kNorm: op.Param;
  readonly o: op.Linear;
  readonly postNorm: op.Param;
  readonly gate: op.Linear;
  readonly up: op.Linear;
  readonly down: op.Linear;
};
/** `pruned`: only the wanted rows of the result will be read. */
type Attend = (layer: number, q: Tensor, k: Tensor, v: Tensor, pruned: boolean) => Tensor;

/** Rows of any sequences; rows `to[i]` are feature rows `from[i]`, rows `wanted` (null: all) are asked for. */
type LanguageInput = {
  readonly ids: I32;
  readonly positions: I32;
  readonly encoded: Pick<Encoded, "main" | "deepstack"> | null;
  readonly from: I32;
  readonly to: I32;
  readonly wanted: I32 | null;
};

export class Network {
  readonly config: ModelConfig;
  readonly kernels: Kernels;
  readonly head: Head;
  /** 1 for every id that may be sampled. */
  readonly allowed: Uint8Array;
  /** What training changes: the adapter if there is one. */
  readonly trained: Parameters;
  readonly #params = new Map<string, op.Param>();
  readonly #linears: op.Linear[] = [];
  readonly #vision: VisionTower;
  readonly #embedding: op.Param;
  readonly #layers: readonly Layer[];
  readonly #finalNorm: op.Param;
  readonly #headLayer: op.Linear;
  readonly #textRotary: TextRotary;

  constructor(config: ModelConfig, kernels: Kernels, parameters: Parameters, options: NetworkOptions) {
    const { vision, text, ids } = config;
    const { lora } = options;
    this.config = config;
    this.kernels = kernels;
    this.head = options.head;
    this.trained = lora?.parameters ?? parameters;
    this.allowed = new Uint8Array(text.vocabSize).fill(1);
    for (const id of options.maskedIds ?? visionIds(ids)) this.allowed[id] = 0;
    this.#textRotary = new TextRotary(text.ropeTheta, text.headDim, text.mropeSection);

    const param = (name: string, owner = parameters): op.Param => {
      const known = this.#params.get(name);
      if (known !== undefined) return known;
      const made: op.Param = { value: owner.view(name), grad: null };
      this.#params.set(name, made);
      return made;
    };
    const linear = (module: string, out: number, from: number, bias: boolean): op.Linear => {
      const nameA = `${ADAPTER_PREFIX}${module}.lora_A.weight`;
      const a = lora?.parameters.find(nameA);
      let branch: op.LoraBranch | null = null;
      if (lora !== undefined && a !== undefined) {
        const rank = a.shape[0] as number;
        branch = {
          a: new op.Linear(rank, from, param(nameA, lora.parameters)),
          b: new op.Linear(out, rank, param(`${ADAPTER_PREFIX}${module}.lora_B.weight`, lora.parameters)),
          scaling: lora.scaling,
        };
      }
      const made = new op.Linear(out, from, param(`${module}.weight`), bias ? param(`${module}.bias`) : null, branch);
      this.#linears.push(made);
      return made;
    };

    this.#vision = new VisionTower(vision, param, linear);

    const { hiddenSize, headDim, heads, kvHeads, intermediateSize } = text;
    this.#embedding = param(`${LANGUAGE_PREFIX}embed_tokens.weight`);
    this.#layers = Array.from({ length: text.layers }, (_, i) => {
      const layer = `${LANGUAGE_PREFIX}layers.${i}.`;
      return {
        inputNorm: param(`${layer}input_layernorm.weight`),
        q: linear(`${layer}self_attn.q_proj`, heads * headDim, hiddenSize, false),
        k: linear(`${layer}self_attn.k_proj`, kvHeads * headDim, hiddenSize, false),
        v: linear(`${layer}self_attn.v_proj`, kvHeads * headDim, hiddenSize, false),
        qNorm: param(`${layer}self_attn.q_norm.weight`),
        kNorm: param(`${layer}self_attn.k_norm.weight`),
        o: linear(`${layer}self_attn.o_proj`, hiddenSize, heads * headDim, false),
        postNorm: param(`${layer}post_attention_layernorm.weight`),
        gate: linear(`${layer}mlp.gate_proj`, intermediateSize, hiddenSize, false),
        up: linear(`${layer}mlp.up_proj`, intermediateSize, hiddenSize, false),
        down: linear(`${layer}mlp.down_proj`, hiddenSize, intermediateSize, false),
      };
    });
    this.#finalNorm = param(`${LANGUAGE_PREFIX}norm.weight`);
    const scoreName = `${ADAPTER_PREFIX}${VALUE_HEAD}`;
    const adapterScore = lora?.parameters.find(scoreName) === undefined ? undefined : lora.parameters;
    const headParam =
      options.head === "value"
        ? adapterScore === undefined
          ? param(VALUE_HEAD)
          : param(scoreName, adapterScore)
        : text.tied
          ? this.#embedding
          : param("lm_head.weight");
    this.#headLayer = new op.Linear(options.head === "value" ? 1 : text.vocabSize, hiddenSize, headParam);
    this.#linears.push(this.#headLayer);
  }

  /** The values of the parameters changed: packed copies are stale. */
  invalidate(): void {
    for (const linear of this.#linears) linear.invalidate();
  }

  /** Gives the memory of packed copies back. */
  close(): void {
    for (const linear of this.#linears) linear.close(this.kernels);
  }

  /** Backward passes add to `flat`, laid out like `trained`. Null: nothing is trained. */
  setGradient(flat: F32 | null): void {
    for (const [name, param] of this.#params) {
      const place = this.trained.find(name);
      param.grad = flat !== null && place?.trainable ? this.trained.view(name, flat) : null;
    }
  }

  /**
   * Final hidden states of whole sequences, one below the other: [all ids, hidden], or of the rows that are wanted (ascending). In the last layer nothing
   * is computed that only the others need; the bits are the same.
   */
  forward(tape: Tape, batch: PackedBatch, wanted: I32 | null = null): Tensor {
    const { config } = this;
    const total = batch.sequences.reduce((sum, { ids }) => sum + ids.length, 0);
    const ids = new Int32Array(total);
    const positions = new Int32Array(total * 3);
    const segments = new Int32Array(batch.sequences.length * 2);
    const merge = config.vision.mergeSize;
    const encoded = batch.images.length > 0 ? this.#vision.encode(tape, batch.images) : null;
    const from: number[] = [];
    const to: number[] = [];
    let start = 0;
    for (const [i, sequence] of batch.sequences.entries()) {
      const { length } = sequence.ids;
      this.#checkIds(sequence.ids, length);
      ids.set(sequence.ids, start);
      segments.set([start, length], i * 2);
      const spans = sequence.spans.map((span) => {
        const image = batch.images[span.image];
        const first = encoded?.starts[span.image];
        if (image === undefined || first === undefined) {
          throw new EngineError(`A sequence shows image ${span.image}, but the batch has ${batch.images.length}.`);
        }
        const tokens = (image.gridH * image.gridW) / merge ** 2;
        if (span.start + tokens > length) {
          throw new EngineError(
            `An image of ${tokens} tokens does not fit at ${span.start} in a sequence of ${length} ids.`,
          );
        }
        for (let t = 0; t < tokens; t++) {
          from.push(first + t);
          to.push(start + span.start + t);
        }
        return { start: span.start, gridH: image.gridH, gridW: image.gridW };
      });
      tokenPositions(positions.subarray(start * 3), length, spans, merge, 0);
      start += length;
    }
    const { heads, kvHeads, headDim } = config.text;
    const shape = { heads, kvHeads, headDim, causal: true };
    const whole = (tensor: Tensor) => ({ tensor, at: 0 });
    const some = wanted === null ? segments : rangesOf(wanted, segments);
    const attend: Attend = (_, q, k, v, pruned) =>
      op.attention(tape, whole(q), whole(k), whole(v), segments, shape, pruned ? some : segments);
    return this.#language(
      tape,
      { ids, positions, encoded, from: Int32Array.from(from), to: Int32Array.from(to), wanted },
      attend,
    );
  }

  /** Final hidden states of the new ids, or of those rows that are wanted (ascending); the caches then hold all of them. Inference only. */
  forwardCached(tape: Tape, runs: readonly CachedRun[], wanted: I32 | null = null): Tensor {
    const { heads, kvHeads, headDim, hiddenSize } = this.config.text;
    const total = runs.reduce((sum, { ids }) => sum + ids.length, 0);
    const ids = new Int32Array(total);
    const positions = new Int32Array(total * 3);
    const tables = new Map<KvCache, { table: number[]; some: number[] }>();
    let nextWanted = 0;
    const pieces: { readonly from: number; readonly count: number; readonly features: ImageFeatures }[] = [];
    const to: number[] = [];
    let start = 0;
    for (const run of runs) {
      const { length } = run.ids;
      this.#checkIds(run.ids, run.position + length);
      if (run.position + length > run.cache.capacity) {
        throw new EngineError(
          `A sequence of ${run.position + length} ids does not fit its cache of ${run.cache.capacity}.`,
        );
      }
      ids.set(run.ids, start);
      positions.set(run.positions.subarray(0, length * 3), start * 3);
      const lists = tables.get(run.cache) ?? { table: [], some: [] };
      tables.set(run.cache, lists);
      const offset = run.cache.offset(run.slot);
      lists.table.push(start, length, offset, run.position);
      for (; wanted !== null && (wanted[nextWanted] ?? total) < start + length; nextWanted++) {
        const row = wanted[nextWanted] as number;
        lists.some.push(row, 1, offset, run.position + row - start);
      }
      for (const piece of run.features) {
        pieces.push(piece);
        for (let i = 0; i < piece.count; i++) to.push(start + piece.row + i);
      }
      start += length;
    }
    const assemble = (level: (features: ImageFeatures) => F32): Tensor => {
      const rows = tape.tensor(to.length, hiddenSize, false);
      let at = 0;
      for (const { from, count, features } of pieces) {
        rows.data.set(level(features).subarray(from * hiddenSize, (from + count) * hiddenSize), at * hiddenSize);
        at += count;
      }
      return rows;
    };
    const encoded =
      to.length === 0
        ? null
        : {
            main: assemble(({ main }) => main),
            deepstack: this.config.vision.deepstackIndexes.map((_, i) =>
              assemble(({ deepstack }) => deepstack[i] as F32),
            ),
          };
    const lists = [...tables].map(([cache, { table, some }]) => ({
      cache,
      table: Int32Array.from(table),
      some: Int32Array.from(some),
    }));
    const { kernels } = this;
    const scale = 1 / Math.sqrt(headDim);
    const attend: Attend = (layer, q, k, v, pruned) => {
      const out = tape.tensor(total, heads * headDim, false);
      for (const { cache, table, some } of lists) {
        const keys = cache.keys[layer] as F32;
        const values = cache.values[layer] as F32;
        kernels.cacheWrite(keys, values, k.data, k.dim, v.data, v.dim, table, cache.capacity, kvHeads, headDim);
        // biome-ignore format: one kernel call
        kernels.attentionCached(out.data, out.dim, q.data, q.dim, keys, values, pruned ? some : table, cache.capacity, heads, kvHeads, headDim, scale);
      }
      return out;
    };
    const rows = { from: Int32Array.from(to.keys()), to: Int32Array.from(to) };
    return this.#language(tape, { ids, positions, encoded, ...rows, wanted }, attend);
  }

  /** What the vision tower makes of images, in arrays of their own. The same bits whatever images are encoded together. */
  encode(tape: Tape, images: readonly ImagePatches[]): ImageFeatures[] {
    if (images.length === 0) return [];
    const { main, deepstack, starts } = this.#vision.encode(tape, images);
    const { hiddenSize } = this.config.text;
    return images.map((_, i) => {
      const cut = ({ data, rows }: Tensor) =>
        data.slice((starts[i] as number) * hiddenSize, (starts[i + 1] ?? rows) * hiddenSize);
      return { main: cut(main), deepstack: deepstack.map(cut) };
    });
  }

  /** Log-probabilities and entropies of targets[row] under the distribution that is sampled: tempered, without the vision ids. */
  logprobs(
    tape: Tape,
    hidden: Tensor,
    targets: I32,
    temperature: F32,
    allowed: Uint8Array | null = this.allowed,
  ): TokenScores {
    if (this.head !== "lm") throw new EngineError("A critic has no language head; ask it for values.");
    return tokenScores(tape, hidden, this.#headLayer, targets, temperature, allowed);
  }

  /** The value of every row, from a value head. */
  values(tape: Tape, hidden: Tensor): RowValues {
    if (this.head !== "value")
      throw new EngineError("A language model has no value head; ask it for log-probabilities.");
    return rowValues(tape, hidden, this.#headLayer);
  }

  /** Plain logits [rows.length, vocab] of some rows, nothing masked. Not differentiable. */
  logits(tape: Tape, hidden: Tensor, rows: I32): Tensor {
    if (this.head !== "lm") throw new EngineError("A critic has no language head; ask it for values.");
    const { kernels } = this;
    const { out: vocab, in: dim } = this.#headLayer;
    const chosen = tape.take(rows.length * dim);
    kernels.gatherRows(chosen, hidden.data, rows, rows.length, dim);
    const logits = tape.tensor(rows.length, vocab, false);
    kernels.matmulPacked(
      logits.data,
      vocab,
      chosen,
      dim,
      this.#headLayer.packed(kernels),
      null,
      rows.length,
      vocab,
      dim,
      0,
    );
    tape.give(chosen);
    return logits;
  }

  #checkIds(ids: I32, length: number): void {
    const { vocabSize, maxPositions } = this.config.text;
    if (length > maxPositions) {
      throw new EngineError(
        `A sequence of ${length} ids is longer than the model's context of ${maxPositions}. Use fewer turns, smaller images or a shorter reply.`,
      );
    }
    for (const id of ids) {
      if (id < 0 || id >= vocabSize)
        throw new EngineError(`Token id ${id} is outside the vocabulary of ${vocabSize}. Check the tokenizer.`);
    }
  }

  #language(tape: Tape, { ids, positions, encoded, from, to, wanted }: LanguageInput, attend: Attend): Tensor {
    const { text } = this.config;
    const { headDim, heads, kvHeads, eps } = text;
    const rows = ids.length;
    const cos = tape.take((rows * headDim) / 2);
    const sin = tape.take((rows * headDim) / 2);
    this.#textRotary.fill(cos, sin, positions, rows);
    const placed = (source: Tensor | undefined) =>
      source === undefined || from.length === 0 ? null : { source, from, to };

    let x = op.embed(tape, this.#embedding, ids, text.hiddenSize, placed(encoded?.main));
    if (encoded !== null) tape.drop(encoded.main);
    for (const [i, layer] of this.#layers.entries()) {
      const attended = op.rmsNorm(tape, x, layer.inputNorm, eps);
      const rawQ = op.linear(tape, attended, layer.q);
      const rawK = op.linear(tape, attended, layer.k);
      const v = op.linear(tape, attended, layer.v);
      tape.drop(attended);
      const q = op.rmsNorm(tape, rawQ, layer.qNorm, eps);
      const k = op.rmsNorm(tape, rawK, layer.kNorm, eps);
      tape.drop(rawQ);
      tape.drop(rawK);
      op.rope(tape, q, cos, sin, heads, headDim);
      op.rope(tape, k, cos, sin, kvHeads, headDim);
      const features = placed(encoded?.deepstack[i]);
      // Behind the last attention a row is alone: those that nobody wants may go.
      const chosen = i === this.#layers.length - 1 && features === null ? wanted : null;
      let mixed = attend(i, q, k, v, chosen !== null);
      tape.drop(q);
      tape.drop(k);
      tape.drop(v);
      if (chosen !== null) {
        const [kept, keptMixed] = [op.selectRows(tape, x, chosen), op.selectRows(tape, mixed, chosen)];
        tape.drop(x);
        tape.drop(mixed);
        [x, mixed] = [kept, keptMixed];
      }
      x = op.addLinear(tape, x, mixed, layer.o);
      tape.drop(mixed);
      const normed = op.rmsNorm(tape, x, layer.postNorm, eps);
      const gate = op.linear(tape, normed, layer.gate);
      const up = op.linear(tape, normed, layer.up);
      tape.drop(normed);
      const active = op.siluMul(tape, gate, up);
      tape.drop(gate);
      tape.drop(up);
      x = op.addLinear(tape, x, active, layer.down);
      tape.drop(active);
      if (features !== null) {
        op.addPlaced(tape, x, features);
        tape.drop(features.source);
      }
    }
    if (wanted !== null && x.rows !== wanted.length) {
      const kept = op.selectRows(tape, x, wanted);
      tape.drop(x);
      x = kept;
    }
    const hidden = op.rmsNorm(tape, x, this.#finalNorm, eps);
    tape.drop(x);
    return hidden;
  }
}

/** Ascending rows as (start, length) pairs, none of which crosses the end of a segment. */
function rangesOf(rows: I32, segments: I32): I32 {
  const starts = new Set<number>();
  for (let s = 0; s < segments.length; s += 2) starts.add(segments[s] as number);
  const pairs: number[] = [];
  for (const row of rows) {
    const last = pairs.length - 1;
    const end = last < 0 ? -1 : (pairs[last - 1] as number) + (pairs[last] as number);
    if (row === end && !starts.has(row)) pairs[last] = (pairs[last] as number) + 1;
    else pairs.push(row, 1);
  }
  return Int32Array.from(pairs);
}
