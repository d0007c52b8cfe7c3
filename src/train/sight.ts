/**
 * Sight: whether the model looks at the image. Each reply is scored with its own frames (an exact sampler did that when it drew the reply) and with the
 * frames of another episode. The gap is the mean difference in log-probability; no gap means that the model is blind. The interval is over episodes, because
 * the replies of one episode are not independent. In addition, hashes of the frames are compared: environment, sampler and learner must have the same pixels.
 */
import { Image } from "../core/image.ts";
import { imagesOf } from "../core/message.ts";
import type { ImageSpan } from "../core/model-input.ts";
import { mean } from "../core/numbers.ts";
import type { Sampler } from "../engine/engine.ts";
import type { Sequence, Trajectory } from "../rollout/trajectory.ts";
import { probeDatum, shiftRight } from "./batch.ts";

export type SightReport = {
  readonly metrics: Record<string, number>;
  /** The gap of each reply, by episode id and turn. */
  readonly gaps: ReadonlyMap<string, ReadonlyMap<number, number>>;
};

/**
 * Episodes are left out if no other episode has frames of the same size. If none is left, there is no gap to report.
 * `exact`: `score` gives the very log-probabilities of the sampler. Otherwise both sides are scored: else a difference between two programs would count as sight.
 */
export async function probeSight(
  sampler: Sampler,
  trajectories: readonly Trajectory[],
  { exact = true }: { readonly exact?: boolean } = {},
): Promise<SightReport> {
  const probes = trajectories.flatMap((trajectory, i) => {
    const donors = [...trajectories.slice(i + 1), ...trajectories.slice(0, i)].filter(
      (other) => other.seed !== trajectory.seed,
    );
    return trajectory.sequences.flatMap((sequence) => {
      const swapped = swapFrames(sequence, donors);
      return swapped === undefined ? [] : [{ trajectory, sequence, swapped }];
    });
  });
  const mismatches = { "sight/hash_mismatches": hashMismatches(trajectories) };
  if (probes.length === 0) return { metrics: { ...mismatches, ...summarise(new Map()) }, gaps: new Map() };
  const data = (chosen: (probe: (typeof probes)[number]) => Sequence) =>
    probes.map((probe) => probeDatum(chosen(probe), probe.trajectory.temperature || 1));
  const scores = await sampler.score([
    ...data(({ swapped }) => swapped),
    ...(exact ? [] : data(({ sequence }) => sequence)),
  ]);
  const logprobsOf = (k: number) => shiftRight((scores[k] as { logprobs: Float32Array }).logprobs);
  const gaps = new Map<string, Map<number, number>>();
  probes.forEach(({ trajectory, sequence }, k) => {
    const own = exact ? sequence.samplerLogprobs : logprobsOf(probes.length + k);
    const other = logprobsOf(k);
    const byTurn = gaps.get(trajectory.id) ?? new Map<number, number>();
    gaps.set(trajectory.id, byTurn);
    for (const { turn, start, end } of sequence.replies) {
      if (sequence.sampled[start] !== 1) continue;
      let gap = 0;
      for (let i = start; i < end; i++) gap += (own[i] as number) - (other[i] as number);
      byTurn.set(turn, gap);
    }
  });
  return { metrics: { ...summarise(gaps), ...mismatches }, gaps };
}

/** Success with real frames beside success with grey ones, on the episodes that both were played on. */
export function againstGrey(real: readonly Trajectory[], grey: readonly Trajectory[]): Record<string, number> {
  const both = new Set(grey.map(({ id }) => id));
  const share = (played: readonly Trajectory[]) => mean(played.map(({ success }) => (success ? 1 : 0)));
  return {
    "sight/success": share(real.filter(({ id }) => both.has(id))),
    "sight/success_grey": share(grey),
  };
}

/**
 * Counts three faults: a span with another image than its turn showed; pixels that changed after they were drawn (the environment drew into the same buffer
 * again); and one renderer's features for two different frames. A split sequence ends with the frames of its own turn.
 */
export function hashMismatches(trajectories: readonly Trajectory[]): number {
  const pixels = new Map<Image, string>();
  const shownAs = new Map<string, string>();
  let count = 0;
  for (const { sequences, turns } of trajectories) {
    for (const { images, replies, sampled } of sequences) {
      const own = replies.filter(({ start }) => sampled[start] === 1);
      const drawn = own.flatMap(({ turn }) => (turns[turn]?.observation ?? []).flatMap(imagesOf));
      const shown = images.slice(Math.max(0, images.length - drawn.length)).map(({ image }) => image);
      drawn.forEach((image, k) => {
        if (image.hash !== shown[k]?.hash) count += 1;
      });
      for (const { image } of images) {
        const now = pixels.get(image) ?? pixelHash(image);
        pixels.set(image, now);
        if (now !== image.hash) count += 1;
      }
      for (const { image, features } of images) {
        if (features === undefined) continue;
        const frame = shownAs.get(features.hash) ?? image.hash;
        shownAs.set(features.hash, frame);
        if (frame !== image.hash) count += 1;
      }
    }
  }
  return count;
}

/** The hash of the pixels as they are now; `Image.hash` is computed once and kept. */
export function pixelHash({ width, height, data }: Image): string {
  return new Image(width, height, data).hash;
}

/** The same ids with frames of another episode, each of the same size as the one it replaces, and with their features, if a renderer made them: engines use these. */
function swapFrames(sequence: Sequence, donors: readonly Trajectory[]): Sequence | undefined {
  for (const donor of donors) {
    const frames = donor.sequences.flatMap(({ images }) => images);
    const images = sequence.images.map(({ start, length, image: own }, k): ImageSpan | undefined => {
      const candidates = frames.filter(({ image }) => image.width === own.width && image.height === own.height);
      const chosen = candidates[k % Math.max(1, candidates.length)];
      return chosen && { ...chosen, start, length };
    });
    if (images.length > 0 && images.every((span) => span !== undefined)) return { ...sequence, images };
  }
  return undefined;
}

/** The interval is over episodes, so a single episode has none. */
function summarise(gaps: ReadonlyMap<string, ReadonlyMap<number, number>>): Record<string, number> {
  const means = [...gaps.values()].filter((turns) => turns.size > 0).map((turns) => mean([...turns.values()]));
  const metrics: Record<string, number> = {
    "sight/episodes": means.length,
    "sight/replies": [...gaps.values()].reduce((sum, turns) => sum + turns.size, 0),
  };
  if (means.length === 0) return metrics;
  const gap = mean(means);
  metrics["sight/gap"] = gap;
  if (means.length > 1) {
    const half = 1.96 * Math.sqrt(mean(means.map((value) => (value - gap) ** 2)) / (means.length - 1));
    metrics["sight/gap_low"] = gap - half;
    metrics["sight/gap_high"] = gap + half;
  }
  const byTurn = new Map<number, number[]>();
  for (const turns of gaps.values())
    for (const [turn, value] of turns) byTurn.set(turn, [...(byTurn.get(turn) ?? []), value]);
  for (const [turn, values] of byTurn) metrics[`sight/gap_turn/${turn}`] = mean(values);
  return metrics;
}
