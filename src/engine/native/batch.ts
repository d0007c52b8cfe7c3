/**
 * A batch of datums through the network, main-thread side: checked, planned into shards and packs, and handed to the workers. Packs of one shard
 * run one after the other, shards side by side.
 */

import { DataError } from "../../core/errors.ts";
import { type ModelInput, nameOf } from "../../core/model-input.ts";
import type { Datum } from "../engine.ts";
import { EngineError } from "../errors.ts";
import { checkDatum, type PolicyLoss, type ValueLoss } from "../losses.ts";
import type { Frames, ImageInput } from "./frames.ts";
import type { BatchSequence, FrameRef, ModelRef, SequenceResult } from "./jobs.ts";
import { planShards } from "./packing.ts";
import type { Pool } from "./pool.ts";

export type Workshop = { readonly pool: Pool; readonly frames: Frames };

export type Learning = {
  readonly loss: PolicyLoss | ValueLoss;
  /** The buffer that a shard adds its gradient to. */
  gradient(shard: number): SharedArrayBuffer;
};

/** Throws for data that can't be computed, before anything is. */
export function checkBatch(model: ModelRef, data: readonly Datum[], loss?: PolicyLoss | ValueLoss): void {
  for (const datum of data) {
    checkDatum(datum, loss);
    checkInput(datum.input, model);
    checkTargets(datum.targets, model);
  }
}

/** Results in the order of `data`, which was checked. */
export async function runBatch(
  { pool, frames }: Workshop,
  model: ModelRef,
  data: readonly Datum[],
  learning?: Learning,
): Promise<SequenceResult[]> {
  const area = model.config.vision.mergeSize ** 2;
  const plan = planShards(
    data.map(({ input }) => ({
      tokens: input.ids.length,
      patches: input.images.reduce((sum, { length }) => sum + length * area, 0),
    })),
  );
  const results: SequenceResult[] = new Array(data.length);
  const shards = [...plan.entries()].filter(([, packs]) => packs.length > 0);
  // One more than there are workers, so that a worker's next pack is ready; more would only hold more patches.
  const lanes = Array.from({ length: pool.threads + 1 }, async () => {
    for (let next = shards.shift(); next !== undefined; next = shards.shift()) {
      const [shard, packs] = next;
      for (const pack of packs) {
        const members = pack.map((index) => data[index] as Datum);
        const found = await sendPack(members, shard);
        for (const [i, index] of pack.entries()) results[index] = found[i] as SequenceResult;
      }
    }
  });

  function sendPack(members: readonly Datum[], shard: number): Promise<SequenceResult[]> {
    const shown = new Map<string, ImageInput>();
    for (const { input } of members) for (const image of input.images) shown.set(nameOf(image), image);
    const place = new Map([...shown.keys()].map((hash, index) => [hash, index]));
    return frames.withPatches(model.folder, [...shown.values()], async (found) => {
      const sequences = members.map(({ input, ...arrays }): BatchSequence => {
        const spans = input.images.map(({ start, length, ...image }) => {
          const index = place.get(nameOf(image)) as number;
          checkSpan(length, found[index] as FrameRef, model);
          return { start, image: index };
        });
        return { ...ownArrays(arrays), ids: own(input.ids), spans };
      });
      const pixels = members.map(({ input }) =>
        input.images.map((image) => (found[place.get(nameOf(image)) as number] as FrameRef).pixels ?? nameOf(image)),
      );
      const learn = learning && { loss: learning.loss, gradient: learning.gradient(shard) };
      const results = await pool.run({ kind: "pack", model, sequences, frames: found, ...(learn && { learn }) });
      return results.map((result, i) => ({ ...result, frameHashes: pixels[i] ?? [] }));
    });
  }

  // All lanes end before an error is told: nothing may still write gradients after that.
  for (const lane of await Promise.allSettled(lanes)) {
    if (lane.status === "rejected") throw lane.reason;
  }
  return results;
}

/** Ids and images must agree before anything is computed. */
export function checkInput({ ids, images }: ModelInput, { config }: ModelRef): void {
  const { vocabSize, maxPositions } = config.text;
  if (ids.length === 0) throw new DataError("A sequence needs at least one id.");
  if (ids.length > maxPositions) {
    throw new EngineError(
      `A sequence of ${ids.length} ids is longer than the model's context of ${maxPositions}. Use fewer turns, smaller images or shorter replies.`,
    );
  }
  let at = 0;
  const text = (end: number) => {
    for (; at < end; at++) {
      const id = ids[at] as number;
      if (id === config.ids.imageToken)
        throw new DataError(`Id ${at} is an image placeholder, but there is no image at that position.`);
      if (!(id >= 0 && id < vocabSize))
        throw new DataError(`Id ${id} at ${at} is outside the vocabulary of ${vocabSize}.`);
    }
  };
  for (const { start, length } of images) {
    if (start < at || start + length > ids.length || length < 1) {
      throw new DataError(
        `The image at ${start}, ${length} ids long, does not fit: images must be in ascending order and inside the ${ids.length} ids.`,
      );
    }
    text(start);
    for (; at < start + length; at++) {
      if (ids[at] !== config.ids.imageToken)
        throw new DataError(`Id ${at} is inside an image and must be its placeholder.`);
    }
  }
  text(ids.length);
}

/** A span must have as many ids as its image has tokens. */
export function checkSpan(
  length: number,
  frame: { readonly gridH: number; readonly gridW: number },
  { config }: ModelRef,
): void {
  const tokens = (frame.gridH * frame.gridW) / config.vision.mergeSize ** 2;
  if (tokens === length) return;
  throw new DataError(
    `An image has ${tokens} tokens but ${length} placeholders. Render it with the processor of this model.`,
  );
}

function checkTargets(targets: Int32Array, { config, head }: ModelRef): void {
  if (head === "value") return;
  for (const target of targets) {
    if (target >= config.text.vocabSize) {
      throw new DataError(`Target ${target} is outside the vocabulary of ${config.text.vocabSize}.`);
    }
  }
}

/** A view of a larger buffer would take all of it along to the worker. */
export function own<A extends Int32Array | Float32Array>(array: A): A {
  return (array.byteLength === array.buffer.byteLength ? array : array.slice()) as A;
}

function ownArrays(arrays: Omit<Datum, "input">): Omit<Datum, "input"> {
  const entries = Object.entries(arrays).filter(([, value]) => value !== undefined);
  return Object.fromEntries(
    entries.map(([name, value]) => [name, typeof value === "number" ? value : own(value)]),
  ) as Omit<Datum, "input">;
}
