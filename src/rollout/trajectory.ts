/**
 * What an episode leaves behind: the token sequences that were sampled from and will be trained, the turns as people read
 * them, and how it ended. Everything later (advantages, batches, logs, viewer) is computed from this and nothing else.
 */
import type { Message } from "../core/message.ts";
import type { ImageSpan } from "../core/model-input.ts";
import type { RewardPart, Step } from "../envs/env.ts";
import type { Span } from "../envs/protocol.ts";
import type { Failure } from "../run/failures.ts";
import type { ProgramRecord } from "../run/trajectories.ts";

/**
 * Why an episode ended. The policy's doing: `done` (the environment ended it), `max_turns`, `max_tokens` (context or reply budget).
 * Ours: `env_error`, `env_timeout`, `engine_error`, `aborted`; such an episode is never trained.
 */
export type EndReason = "done" | "max_turns" | "max_tokens" | "env_error" | "env_timeout" | "engine_error" | "aborted";
export const OUR_FAULTS: readonly EndReason[] = ["env_error", "env_timeout", "engine_error", "aborted"];

/** One token sequence: a whole episode when turns are joined, one turn with its history window when they are split. */
export type Sequence = {
  readonly ids: Int32Array;
  readonly images: readonly ImageSpan[];
  /** 1 where the id was sampled (and carries loss), 0 where it was given or forced. Aligned to ids. */
  readonly sampled: Uint8Array;
  /** Log-probability of each sampled id under the distribution it was drawn from; 0 elsewhere. */
  readonly samplerLogprobs: Float32Array;
  /** Policy version that sampled each id; −1 elsewhere. */
  readonly versions: Int32Array;
  /** Ids that the model should have said and did not, such as the end of its turn; absent: none. */
  readonly forced?: readonly number[];
  /** Sampled spans by turn: ids start..end-1 of turn `turn`. */
  readonly replies: readonly { readonly turn: number; readonly start: number; readonly end: number }[];
};

export type Turn = {
  /** What was said to the agent before this reply. */
  readonly observation: readonly Message[];
  readonly reply: string;
  readonly stopReason: "stop" | "length";
  /** The sum of its parts. */
  readonly reward: number;
  readonly rewards: readonly RewardPart[];
  /** UTF-16 units of the reply after each of its sampled ids; absent where nothing was sampled. */
  readonly offsets?: Int32Array;
  readonly info: Step["info"];
  /** When the reply was asked for, in milliseconds since 1970. */
  readonly startedAt: number;
  /** Milliseconds waited for the reply (the first `encodeMs` of them for its images), and then for the environment. */
  readonly sampleMs: number;
  readonly encodeMs: number;
  readonly envMs: number;
};

export type Trajectory = {
  /** `<env>#<seed>/<sibling>` within a step. */
  readonly id: string;
  readonly env: string;
  /** How it is shown where two entries of a recipe share an environment. */
  readonly label?: string;
  readonly seed: number;
  /** Siblings of one episode seed share it. */
  readonly group: string;
  readonly sibling: number;
  readonly temperature: number;
  readonly sequences: readonly Sequence[];
  readonly turns: readonly Turn[];
  /** The observation after the last reply, for viewers. */
  readonly final: readonly Message[];
  readonly reward: number;
  readonly success: boolean;
  readonly end: EndReason;
  readonly error?: string;
  /** Where it failed for our reasons: the reply that the environment failed on, and where it was thrown. */
  readonly fault?: { readonly reply?: string; readonly stack?: string; readonly lost?: boolean };
  /** Where there was a judge: how long it took, and why it paid nothing if it failed. */
  readonly judge?: { readonly ms: number; readonly error?: string };
  /** Of a program that brought its own loop: the last lines it printed, who said its reward, and how its conversations branch. */
  readonly program?: ProgramRecord;
  /** Retries on fresh environments before this one. */
  readonly retries: number;
};

/**
 * The sampled id, counted from the reply's first, that a part of the reward is paid on: the one that writes the end of its span. Ids
 * that write nothing (half a character, the end of the turn) do not end a span. Without a span, or offsets to find it by: the last.
 */
export function spanToToken(span: Span | undefined, offsets: Int32Array | undefined, count: number): number {
  if (span === undefined || offsets === undefined) return count - 1;
  const found = offsets.findIndex((offset) => offset >= span[1]);
  return found < 0 ? count - 1 : Math.min(found, count - 1);
}

export function isOurFault(trajectory: Trajectory): boolean {
  return OUR_FAULTS.includes(trajectory.end);
}

/** The first of these that failed, for those who must mend it; not one that somebody stopped. */
export function firstFailure(trajectories: readonly Trajectory[]): Failure | undefined {
  const failed = trajectories.find((one) => isOurFault(one) && one.end !== "aborted");
  if (failed === undefined) return undefined;
  const { env, seed, end, error = end, fault } = failed;
  return { env, seed, end, error, ...fault };
}
