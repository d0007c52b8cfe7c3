/**
 * Continuous batching in one worker, for one set of weights. Every tick is one pass over the network: one row for each sequence that is decoding,
 * and pieces of prompts up to a budget, so that long prompts don't hold up the others. What is computed together never changes the bits.
 */
import { soon } from "../../core/platform.ts";
import { EngineError } from "../errors.ts";
import type { FeatureRef } from "./jobs.ts";
import type { F32 } from "./kernels/api.ts";
import { computing } from "./kernels/computing.ts";
import type { CachedRun, ImageFeatures, Network } from "./network.ts";
import type { Places } from "./places.ts";
import { type Cached, PrefixCache, sharedPrefix } from "./prefix-cache.ts";
import { Drawing, type SampleRequest } from "./request.ts";
import { reportedTemperature } from "./sampling.ts";
import { type Arena, Tape, type Tensor } from "./tape.ts";

/** Prompt ids per tick. */
const PREFILL_IDS = 512;

type Active = { readonly request: SampleRequest; readonly drawing: Drawing; readonly cached: Cached };
type Running = { readonly active: Active; readonly run: CachedRun };

export class Decoder {
  readonly #network: Network;
  readonly #arena: Arena;
  readonly #cache: PrefixCache;
  readonly #waiting: SampleRequest[] = [];
  #active: Active[] = [];
  #scheduled = false;

  constructor(network: Network, places: Places, arena: Arena) {
    this.#network = network;
    this.#arena = arena;
    this.#cache = new PrefixCache(places);
  }

  submit(request: SampleRequest): void {
    this.#waiting.push(request);
    this.#schedule();
  }

  abort(id: number): void {
    const error = new EngineError("The sample was aborted.");
    const waiting = this.#waiting.findIndex((request) => request.id === id);
    if (waiting >= 0) this.#waiting.splice(waiting, 1)[0]?.reject(error);
    const active = this.#active.find(({ request }) => request.id === id);
    // What it computed so far is sound and stays.
    if (active !== undefined) this.#end(active, false)?.reject(error);
  }

  release(sequence: string): void {
    this.#cache.release(sequence);
  }

  close(): void {
    const error = new EngineError("The sampler was closed while it sampled. Close it when its samples are done.");
    for (const request of this.#waiting.splice(0)) request.reject(error);
    for (const active of this.#active) this.#end(active, true).reject(error);
    this.#cache.clear();
  }

  #schedule(): void {
    if (this.#scheduled || (this.#waiting.length === 0 && this.#active.length === 0)) return;
    this.#scheduled = true;
    // Not a microtask: messages must come in between.
    soon(() => {
      this.#scheduled = false;
      computing(this.#network.kernels, () => this.#tick());
      this.#schedule();
    });
  }

  #tick(): void {
    this.#admit();
    const batch: Running[] = [];
    let budget = PREFILL_IDS;
    for (const active of this.#active) {
      const left = promptLeft(active);
      const count = left > 0 ? Math.min(left, budget) : 1;
      if (left > 0) budget -= count;
      if (count > 0) batch.push({ active, run: this.#run(active, count) });
    }
    if (batch.length === 0) return;
    const tape = new Tape(this.#network.kernels, this.#arena, "inference");
    try {
      const runs = batch.map(({ run }) => run);
      const ready = lastRows(batch);
      const scored = batch.some(({ active }) => active.drawing.promptLogprobs && promptLeft(active) > 0);
      const wanted = scored || ready.length === 0 ? null : ready;
      const hidden = this.#network.forwardCached(tape, runs, wanted);
      if (scored) this.#scorePrompts(tape, hidden, batch);
      for (const { active, run } of batch) active.cached.filled = run.position + run.ids.length;
      this.#draw(tape, hidden, batch, wanted === null ? ready : ready.map((_, i) => i));
    } catch (error) {
      for (const { active } of batch) if (!active.drawing.done) this.#end(active, true).reject(error as Error);
    } finally {
      tape.release();
    }
  }

  /** Takes waiting requests in, in order, until this tick's budget for prompts is spoken for. */
  #admit(): void {
    let room = PREFILL_IDS;
    for (const active of this.#active) room -= promptLeft(active);
    for (let i = 0; i < this.#waiting.length && room > 0; ) {
      const request = this.#waiting[i] as SampleRequest;
      const { sequence, ids } = request;
      if (this.#cache.isActive(sequence)) {
        this.#waiting.splice(i, 1);
        request.reject(
          new EngineError(`Sequence "${sequence}" is already sampling. Wait for it, or name another sequence.`),
        );
        continue;
      }
      // Log-probabilities of the prompt need all of it computed.
      const anew = request.params.promptLogprobs === true;
      const prefix = anew ? { length: 0, source: undefined } : this.#cache.find(sequence, request);
      // A sibling that is computing more of this very prompt will soon have it.
      if (
        !anew &&
        this.#active.some(
          (active) => promptLeft(active) > 0 && sharedPrefix(active.request, request) > prefix.length + 1,
        )
      ) {
        i += 1;
        continue;
      }
      this.#waiting.splice(i, 1);
      const cached = this.#cache.open(sequence, request, prefix);
      const drawing = new Drawing(request, prefix.length, this.#network.config.vision.mergeSize);
      this.#active.push({ request, drawing, cached });
      room -= ids.length - prefix.length;
    }
  }

  /** The next `count` ids of a sequence: of its prompt, or the one that was drawn last. */
  #run(active: Active, count: number): CachedRun {
    const { cached, request, drawing } = active;
    const position = cached.filled;
    const end = position + count;
    this.#cache.extend(cached, end);
    const { cache, slot } = cached.place;
    const ids = cached.ids.subarray(position, end);
    if (position >= request.ids.length) {
      const { last } = drawing;
      ids[0] = last.id;
      return { cache, slot, position, ids, positions: new Int32Array(3).fill(last.position), features: [] };
    }
    ids.set(request.ids.subarray(position, end));
    const features = request.spans.flatMap((span) => {
      const from = Math.max(span.start, position);
      const to = Math.min(span.start + span.length, end);
      if (from >= to) return [];
      return [{ row: from - position, count: to - from, from: from - span.start, features: this.#view(span.features) }];
    });
    return { cache, slot, position, ids, positions: drawing.positions.subarray(position * 3, end * 3), features };
  }

  #view(features: FeatureRef): ImageFeatures {
    const levels = 1 + this.#network.config.vision.deepstackIndexes.length;
    const length = features.byteLength / 4 / levels;
    const [main, ...deepstack] = Array.from(
      { length: levels },
      (_, level) => new Float32Array(features, level * length * 4, length),
    );
    return { main: main as F32, deepstack };
  }

  /** Draws an id for every sequence whose prompt is complete; their last rows are `rows` of the hidden states. */
  #draw(tape: Tape, hidden: Tensor, batch: readonly Running[], rows: Int32Array): void {
    const ready = batch.flatMap(({ active }) => (promptLeft(active) > 0 ? [] : [active]));
    if (ready.length === 0) return;
    const { kernels, allowed, config } = this.#network;
    const vocab = config.text.vocabSize;
    const logits = this.#network.logits(tape, hidden, rows).data;
    let raw = logits;
    if (ready.some(({ request }) => request.params.rawLogprobs)) {
      raw = tape.take(rows.length * vocab);
      kernels.logSoftmax(raw, logits, new Float32Array(rows.length).fill(1), allowed, rows.length, vocab);
    }
    const temperature = Float32Array.from(ready, ({ request }) => reportedTemperature(request.params));
    kernels.logSoftmax(logits, logits, temperature, allowed, rows.length, vocab);
    for (const [i, active] of ready.entries()) {
      const { drawing } = active;
      try {
        drawing.draw(logits, raw, i * vocab, vocab);
        if (drawing.done) this.#end(active, false).resolve(drawing.result());
      } catch (error) {
        this.#end(active, true).reject(error as Error);
      }
    }
  }

  /** Log-probabilities of prompt ids, where they were asked for. Vision ids have none: they can't be sampled. */
  #scorePrompts(tape: Tape, hidden: Tensor, batch: readonly Running[]): void {
    const targets = new Int32Array(hidden.rows).fill(-1);
    const temperature = new Float32Array(hidden.rows).fill(1);
    const places: { readonly row: number; readonly into: Float32Array; readonly at: number }[] = [];
    let start = 0;
    for (const { active, run } of batch) {
      const { request, drawing } = active;
      for (let i = 0; drawing.promptLogprobs && i < run.ids.length; i++) {
        const at = run.position + i + 1;
        const target = request.ids[at];
        if (target === undefined || this.#network.allowed[target] === 0) continue;
        targets[start + i] = target;
        temperature[start + i] = reportedTemperature(request.params);
        places.push({ row: start + i, into: drawing.promptLogprobs, at });
      }
      start += run.ids.length;
    }
    const { logprobs } = this.#network.logprobs(tape, hidden, targets, temperature);
    for (const { row, into, at } of places) into[at] = logprobs[row] as number;
  }

  #end(active: Active, failed: boolean): SampleRequest {
    this.#active = this.#active.filter((other) => other !== active);
    this.#cache.settle(active.request.sequence, active.cached, failed);
    return active.request;
  }
}

/** The last row of every run that reaches the end of its prompt or goes beyond. */
function lastRows(batch: readonly Running[]): Int32Array {
  const rows: number[] = [];
  let row = 0;
  for (const { active, run } of batch) {
    row += run.ids.length;
    if (run.position + run.ids.length >= active.request.ids.length) rows.push(row - 1);
  }
  return Int32Array.from(rows);
}

/** Prompt ids that are not in the cache yet. */
function promptLeft({ request, cached }: Active): number {
  return Math.max(0, request.ids.length - cached.filled);
}
