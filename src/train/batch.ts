/**
 * From trajectories to what an engine trains on. A trajectory's sequences become rows of numbers for the algorithms, and rows with credit become
 * `Datum`s. The one subtle thing is alignment: rows are aligned to ids (row[i] speaks of id i), a datum to predictions (datum[i] speaks of the
 * prediction of id i+1), so everything moves one place to the left, here and nowhere else.
 */
import type { Datum } from "../engine/engine.ts";
import { type Sequence, spanToToken, type Trajectory } from "../rollout/trajectory.ts";
import type { Limit, TokenRow } from "./tokens.ts";

/** One row per sequence, in order. Each part of a reward stands on the id that ends its span, or on the last sampled id of its turn. */
export function rowsOf(trajectory: Trajectory): TokenRow[] {
  const limits = limitsOf(trajectory);
  return trajectory.sequences.map((sequence, order) => {
    const turns = new Int32Array(sequence.ids.length).fill(-1);
    const rewards = new Float32Array(sequence.ids.length);
    for (const { turn, start, end } of trained(sequence)) {
      turns.fill(turn, start, end);
      const { rewards: parts, offsets } = trajectory.turns[turn] as Trajectory["turns"][number];
      const count = lastSampled(sequence, start, end) + 1 - start;
      // Parts of one token are added as doubles and rounded once, so that equal rewards stay equal.
      const paid = new Map<number, number>();
      for (const { value, span } of parts) {
        const at = sampledAt(sequence, start, start + spanToToken(span, offsets, count));
        paid.set(at, (paid.get(at) ?? 0) + value);
      }
      for (const [at, value] of paid) rewards[at] = value;
    }
    return {
      group: trajectory.group,
      episode: trajectory.id,
      order,
      sampled: sequence.sampled,
      turns,
      rewards,
      samplerLogprobs: sequence.samplerLogprobs,
      limits,
    };
  });
}

function limitsOf({ end, turns }: Trajectory): Limit[] {
  const cut = turns.map((turn) => turn.stopReason === "length");
  const limits: Limit[] = [];
  if (cut.includes(true)) limits.push("reply");
  if (cut.at(-1)) limits.push("last-reply");
  if (end === "max_turns") limits.push("turns");
  if (end === "max_tokens") limits.push("context");
  return limits;
}

function lastSampled(sequence: Sequence, start: number, end: number): number {
  let last = end - 1;
  while (last > start && sequence.sampled[last] !== 1) last -= 1;
  return last;
}

/** Where a part that falls on an id without loss (a grammar chose it) is paid: on the last before it that has some, or the first after. */
function sampledAt({ sampled }: Sequence, start: number, at: number): number {
  for (let i = at; i >= start; i--) if (sampled[i] === 1) return i;
  return sampled.indexOf(1, at);
}

/** The replies of which an id carries loss in this sequence. Earlier replies that it only copies are context. */
function trained({ replies, sampled }: Sequence) {
  return replies.filter(({ start, end }) => sampled.subarray(start, end).includes(1));
}

export type DatumNumbers = {
  readonly weights: Float32Array;
  readonly advantages?: Float32Array;
  readonly oldLogprobs?: Float32Array;
  readonly referenceLogprobs?: Float32Array;
  readonly returns?: Float32Array;
  readonly oldValues?: Float32Array;
};

/** `numbers` are aligned to ids; the datum is aligned to predictions. */
export function toDatum(sequence: Sequence, temperature: number, numbers: DatumNumbers): Datum {
  const { ids, images, sampled } = sequence;
  const targets = new Int32Array(ids.length).fill(-1);
  for (let i = 0; i + 1 < ids.length; i++) if (sampled[i + 1] === 1) targets[i] = ids[i + 1] as number;
  const weights = shiftLeft(numbers.weights);
  for (let i = 0; i < weights.length; i++) if ((targets[i] as number) < 0) weights[i] = 0;
  return {
    input: { ids, images },
    targets,
    weights,
    temperature,
    ...(numbers.advantages && { advantages: shiftLeft(numbers.advantages) }),
    ...(numbers.oldLogprobs && { oldLogprobs: shiftLeft(numbers.oldLogprobs) }),
    ...(numbers.referenceLogprobs && { referenceLogprobs: shiftLeft(numbers.referenceLogprobs) }),
    ...(numbers.returns && { returns: shiftLeft(numbers.returns) }),
    ...(numbers.oldValues && { oldValues: shiftLeft(numbers.oldValues) }),
  };
}

/** A datum that asks for outputs at every sampled id and has no loss. */
export function probeDatum(sequence: Sequence, temperature: number): Datum {
  return toDatum(sequence, temperature, { weights: new Float32Array(sequence.ids.length) });
}

function shiftLeft(array: Float32Array): Float32Array {
  const shifted = new Float32Array(array.length);
  shifted.set(array.subarray(1));
  return shifted;
}

/** What an engine answered (aligned to predictions), aligned to ids again. */
export function shiftRight(array: Float32Array): Float32Array {
  const shifted = new Float32Array(array.length);
  shifted.set(array.subarray(0, array.length - 1), 1);
  return shifted;
}
