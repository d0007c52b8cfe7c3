/** A trajectory as the run folder stores it: plain JSON with frames by hash, for viewers. */
import type { Image } from "../core/image.ts";
import { imagesOf, type Message } from "../core/message.ts";
import type { Sequence, Trajectory } from "../rollout/trajectory.ts";
import { numbers, type TokensRecord, type TrajectoryRecord, type TurnRecord } from "../run/trajectories.ts";

export type RecordContext = {
  readonly split: "train" | "eval";
  readonly step: number;
  readonly credit?: {
    readonly advantages: readonly Float32Array[];
    readonly learner: readonly (Float32Array | undefined)[];
  };
  readonly sight?: ReadonlyMap<number, number>;
  /** What an id reads as; absent: tokens are left out. */
  readonly textOf?: (id: number) => string;
};

export function recordOf(trajectory: Trajectory, context: RecordContext): TrajectoryRecord {
  const { credit, textOf } = context;
  const { id, env, seed, group, sibling, temperature, reward, success, end, error, retries } = trajectory;
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
    retries,
    ...(error !== undefined && { error }),
    ...(credit && { advantage: advantageSummary(trajectory, credit.advantages) }),
    turns: trajectory.turns.map((_, turn) => turnRecord(trajectory, turn, context)),
    final: { observation: plain(trajectory.final), frames: hashes(trajectory.final) },
    ...(textOf && {
      tokens: trajectory.sequences.map((sequence, i) =>
        tokensRecord(sequence, credit?.advantages[i], credit?.learner[i], textOf),
      ),
    }),
  };
}

/** Every frame of an episode, in the order it was shown. */
export function framesOf(trajectory: Trajectory): Image[] {
  return [...trajectory.turns.flatMap((turn) => turn.observation), ...trajectory.final].flatMap(imagesOf);
}

function turnRecord(trajectory: Trajectory, index: number, context: RecordContext): TurnRecord {
  const turn = trajectory.turns[index] as Trajectory["turns"][number];
  const { info } = turn;
  const sight = context.sight?.get(index);
  return {
    observation: plain(turn.observation),
    frames: hashes(turn.observation),
    reply: turn.reply,
    stopReason: turn.stopReason,
    actions: info.actions.map(({ name, payload }) => (payload === name ? name : `${name} ${JSON.stringify(payload)}`)),
    parsed: info.parsed,
    wellFormed: info.wellFormed,
    valid: info.valid,
    ...(info.feedback !== undefined && { feedback: info.feedback }),
    reward: turn.reward,
    taskReward: info.taskReward,
    formatReward: info.formatReward,
    return: trajectory.turns.slice(index).reduce((sum, later) => sum + later.reward, 0),
    version: versionOf(trajectory, index),
    sampleMs: turn.sampleMs,
    envMs: turn.envMs,
    ...(sight !== undefined && { sight }),
  };
}

function versionOf(trajectory: Trajectory, turn: number): number {
  for (const { replies, versions, sampled } of trajectory.sequences) {
    for (const reply of replies) {
      if (reply.turn === turn && sampled[reply.start] === 1)
        return Math.min(...versions.subarray(reply.start, reply.end));
    }
  }
  return -1;
}

function tokensRecord(
  sequence: Sequence,
  advantages: Float32Array | undefined,
  learner: Float32Array | undefined,
  textOf: (id: number) => string,
): TokensRecord {
  const { ids, images, sampled, logprobs, replies } = sequence;
  const first = replies[0]?.start ?? ids.length;
  const kinds: string[] = Array.from(ids, (_, i) => (sampled[i] === 1 ? "s" : i < first ? "p" : "o"));
  for (const { start, length } of images) kinds.fill("i", start, start + length);
  return {
    ids: Array.from(ids),
    kinds: kinds.join(""),
    texts: Array.from(ids, textOf),
    samplerLogprobs: numbers(logprobs),
    ...(learner && { learnerLogprobs: numbers(learner) }),
    ...(advantages && { advantages: numbers(advantages) }),
    images: images.map(({ start, length, image }) => ({ start, length, hash: image.hash })),
    replies,
  };
}

function advantageSummary(trajectory: Trajectory, advantages: readonly Float32Array[]) {
  const values = advantages.flatMap((row, r) =>
    Array.from(row).filter((_, i) => trajectory.sequences[r]?.sampled[i] === 1),
  );
  const sum = values.reduce((total, value) => total + value, 0);
  return { mean: sum / Math.max(1, values.length), min: Math.min(...values), max: Math.max(...values) };
}

function plain(messages: readonly Message[]): string {
  return messages
    .flatMap(({ content }) => content.map((part) => (part.type === "text" ? part.text : "<image>")))
    .join("\n");
}

function hashes(messages: readonly Message[]): string[] {
  return messages.flatMap(imagesOf).map((image) => image.hash);
}
