/** A trajectory as the run folder stores it: plain JSON with frames by hash, for viewers. */
import type { Image } from "../core/image.ts";
import { isJsonObject } from "../core/json.ts";
import { imagesOf, type Message } from "../core/message.ts";
import { nameOf } from "../core/model-input.ts";
import { rangeOf } from "../core/numbers.ts";
import { playedWords } from "../envs/env.ts";
import {
  type MarkRecord,
  numbers,
  type TokensRecord,
  type TrajectoryRecord,
  type TurnRecord,
} from "../run/trajectories.ts";
import type { Sequence, Trajectory } from "./trajectory.ts";

/** What training made of a sequence: arrays and positions are aligned to ids. */
export type SequenceCredit = {
  readonly advantages: Float32Array;
  /** What the learner saw when it first met the sequence; absent while only the critic learned. */
  readonly seen?: {
    readonly logprobs: Float32Array;
    /** Hashes of the pixels it had, where the engine tells. */
    readonly frameHashes?: readonly string[];
    /** Updates that this step had made by then: with none before it, whatever differs from the sampler is drift. */
    readonly updatesBefore: number;
  };
  /** Tokens whose ratio met a bound of the loss in any epoch; absent where the loss has none. */
  readonly clipped?: ReadonlySet<number>;
};

export type RecordContext = {
  readonly split: TrajectoryRecord["split"];
  readonly step: number;
  /** Per sequence, in order. */
  readonly credit?: readonly SequenceCredit[];
  /** Gap by turn, where sight was probed. */
  readonly sight?: ReadonlyMap<number, number>;
  /** What an id reads as; absent: tokens are left out. */
  readonly textOf?: (id: number) => string;
  readonly view?: View;
};

/** A frame as the model gets it; the frame itself where nothing is resized. */
export type View = (frame: Image) => Image;

export function recordOf(trajectory: Trajectory, context: RecordContext): TrajectoryRecord {
  const { credit, textOf } = context;
  const { id, env, seed, group, sibling, temperature, reward, success, end, error, retries, judge, program } =
    trajectory;
  const { ending } = trajectory.turns.at(-1)?.info ?? {};
  return {
    id,
    env,
    seed,
    group,
    sibling,
    split: context.split,
    step: context.step,
    temperature,
    reward,
    success,
    end,
    ...(ending !== undefined && { ending }),
    retries,
    ...(error !== undefined && { error }),
    ...(judge && { judge }),
    ...(program && { program }),
    ...(credit && { advantage: advantageSummary(trajectory, credit) }),
    turns: trajectory.turns.map((_, turn) => turnRecord(trajectory, turn, context)),
    final: { observation: plain(trajectory.final), frames: hashes(trajectory.final) },
    ...(textOf && {
      tokens: trajectory.sequences.map((sequence, i) => tokensRecord(sequence, credit?.[i], textOf)),
    }),
  };
}

/** Every frame of an episode, in the order it was shown, and what the model got where that is another image. */
export function framesOf(trajectory: Trajectory, view?: View): Image[] {
  const shown = trajectory.turns.flatMap((turn) => turn.observation).flatMap(imagesOf);
  const resized = view ? shown.map(view).filter((frame, i) => frame !== shown[i]) : [];
  return [...shown, ...trajectory.final.flatMap(imagesOf), ...resized];
}

function turnRecord(trajectory: Trajectory, index: number, context: RecordContext): TurnRecord {
  const turn = trajectory.turns[index] as Trajectory["turns"][number];
  const { info } = turn;
  const sight = context.sight?.get(index);
  const shown = turn.observation.flatMap(imagesOf);
  const seen = context.view ? shown.map(context.view) : shown;
  return {
    observation: plain(turn.observation),
    frames: hashes(turn.observation),
    ...(seen.some((frame, i) => frame !== shown[i]) && { modelFrames: seen.map((frame) => frame.hash) }),
    reply: turn.reply,
    stopReason: turn.stopReason,
    actions: playedWords(info),
    ...(info.span && { actionSpan: info.span }),
    ...(Array.isArray(info.marks) && { marks: info.marks as unknown as readonly MarkRecord[] }),
    parsed: info.parsed,
    wellFormed: info.wellFormed,
    valid: info.valid,
    ...(info.feedback !== undefined && { feedback: info.feedback }),
    reward: turn.reward,
    rewards: turn.rewards,
    return: trajectory.turns.slice(index).reduce((sum, later) => sum + later.reward, 0),
    version: versionOf(trajectory, index),
    sampleMs: turn.sampleMs,
    envMs: turn.envMs,
    ...requestOf(turn),
    ...(sight !== undefined && { sight }),
  };
}

/** Of turns that a program asked for. */
function requestOf({ observation, info }: Trajectory["turns"][number]): Pick<TurnRecord, "request"> {
  const { conversation, wire, actions, variables } = info;
  if (typeof conversation !== "number" || typeof wire !== "string") return {};
  const messages = observation.map((message) => ({
    role: message.role,
    text: plain([message]),
    frames: hashes([message]),
    ...(message.content.length > 1 && { parts: message.content.map(partRecord) }),
  }));
  const calls = actions.map(({ name, payload }) => ({
    name,
    arguments: typeof payload === "string" ? payload : JSON.stringify(payload),
  }));
  const opened = isJsonObject(variables) ? { variables } : {};
  return { request: { conversation, wire, messages, calls, ...opened } };
}

function partRecord(part: Message["content"][number]): string | { readonly frame: string } {
  return part.type === "text" ? part.text : { frame: part.image.hash };
}

function versionOf(trajectory: Trajectory, turn: number): number {
  for (const { replies, versions, sampled } of trajectory.sequences) {
    for (const reply of replies) {
      if (reply.turn === turn && sampled[reply.start] === 1)
        return rangeOf(versions.subarray(reply.start, reply.end)).min;
    }
  }
  return -1;
}

function tokensRecord(
  sequence: Sequence,
  credit: SequenceCredit | undefined,
  textOf: (id: number) => string,
): TokensRecord {
  const { ids, images, sampled, samplerLogprobs: logprobs, replies, forced = [] } = sequence;
  const first = replies[0]?.start ?? ids.length;
  const kinds: string[] = Array.from(ids, (_, i) => (sampled[i] === 1 ? "s" : i < first ? "p" : "o"));
  for (const at of forced) kinds[at] = "f";
  for (const { start, length } of images) kinds.fill("i", start, start + length);
  return {
    ids: Array.from(ids),
    kinds: kinds.join(""),
    texts: Array.from(ids, textOf),
    samplerLogprobs: numbers(logprobs),
    ...(credit?.seen && {
      learnerLogprobs: numbers(credit.seen.logprobs),
      updatesBefore: credit.seen.updatesBefore,
    }),
    ...(credit && { advantages: numbers(credit.advantages) }),
    ...(credit?.clipped && { clipped: [...credit.clipped].sort((a, b) => a - b) }),
    images: images.map((span, k) => {
      const { start, length, image } = span;
      const seen = credit?.seen?.frameHashes?.[k];
      // A learner names a frame that came with features by the renderer's hash of them.
      const learnerHash = seen === nameOf(span) ? image.hash : seen;
      return { start, length, hash: image.hash, ...(learnerHash !== undefined && { learnerHash }) };
    }),
    replies,
  };
}

function advantageSummary(trajectory: Trajectory, credit: readonly SequenceCredit[]) {
  const values = credit.flatMap(({ advantages }, s) =>
    Array.from(advantages).filter((_, i) => trajectory.sequences[s]?.sampled[i] === 1),
  );
  const sum = values.reduce((total, value) => total + value, 0);
  return { mean: sum / Math.max(1, values.length), ...rangeOf(values) };
}

function plain(messages: readonly Message[]): string {
  return messages
    .flatMap(({ content }) => content.map((part) => (part.type === "text" ? part.text : "<image>")))
    .join("\n");
}

function hashes(messages: readonly Message[]): string[] {
  return messages.flatMap(imagesOf).map((image) => image.hash);
}
