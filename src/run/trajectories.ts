/**
 * `trajectories/step-N.jsonl`: one JSON row per stored episode, with all that a viewer needs: frames (by hash), messages, replies, actions
 * and rewards, and if wanted every token with its numbers. `keepPolicy` chooses the episodes: the best, median and worst of each group, and
 * those that failed. The others are only counted.
 */
import { appendFile, mkdir, rm, stat } from "node:fs/promises";
import { join } from "node:path";
import { setImmediate as nextTick } from "node:timers/promises";
import { errorMessage } from "../core/errors.ts";
import type { JsonObject } from "../core/json.ts";
import { namesIn, PRIVATE } from "./files.ts";
import { readLines, repairTail } from "./jsonl.ts";

export const TRAJECTORIES_FOLDER = "trajectories";

/** Numbers aligned with the ids of a sequence; null for those that are not finite. `numbers` makes it. */
export type NumberRow = readonly (number | null)[];

/** The letters of `TokensRecord.kinds`, one per token. */
export const TOKEN_KINDS = {
  p: "prompt",
  s: "sampled",
  f: "forced",
  o: "observation",
  i: "image",
} as const;

/** One token sequence: the whole episode if turns are joined, one turn if they are split. Every row is aligned with `ids`. */
export type TokensRecord = {
  readonly ids: readonly number[];
  /** One letter per token, see `TOKEN_KINDS`. */
  readonly kinds: string;
  /** The text of each id, for viewers, which have no tokenizer. */
  readonly texts?: readonly string[];
  /** Log-probabilities of the sampler when it drew the id, and of the learner before its update. 0 for ids that were not sampled. */
  readonly samplerLogprobs: NumberRow;
  readonly learnerLogprobs?: NumberRow;
  /** How many updates the step had made when the learner first saw this sequence. If there were any, a difference from the sampler is not drift. */
  readonly updatesBefore?: number;
  readonly advantages?: NumberRow;
  /** Positions whose ratio was clipped in the update. */
  readonly clipped?: readonly number[];
  /** `hash`: the sampler's frame. `learnerHash`: the learner's frame, if the engine reports it. They must agree. */
  readonly images: readonly {
    readonly start: number;
    readonly length: number;
    readonly hash: string;
    readonly learnerHash?: string;
  }[];
  /** Ids start..end-1 were sampled as the reply of a turn. */
  readonly replies: readonly { readonly turn: number; readonly start: number; readonly end: number }[];
};

/** A part of a turn's reward, with the span of the reply that earned it (if it has one) and the statements that were checked. */
export type RewardRecord = {
  readonly name: string;
  readonly value: number;
  readonly span?: readonly [number, number];
  readonly claims?: readonly { readonly span: readonly [number, number]; readonly right: boolean }[];
};

/** Where on the frame before it an action happened. Lengths are fractions of the frame's width and height. */
export type MarkRecord = {
  readonly action: string;
  readonly x?: number;
  readonly y?: number;
  readonly to?: readonly [number, number];
  readonly text?: string;
  readonly element?: string;
  readonly box?: readonly [number, number, number, number];
};

export type TurnRecord = {
  /** The messages to the agent before this reply, with "<image>" for each frame. */
  readonly observation: string;
  /** Hashes of the frames of that observation as the environment drew them, in order. */
  readonly frames: readonly string[];
  /** The same frames as the model saw them, if they were resized. */
  readonly modelFrames?: readonly string[];
  readonly reply: string;
  readonly stopReason: "stop" | "length";
  /** Each action that was played, as text. */
  readonly actions: readonly string[];
  /** The part of the reply that names the actions, [start, end) in UTF-16 units. */
  readonly actionSpan?: readonly [number, number];
  /** Where on the frame its actions happened, for worlds with a pointer. */
  readonly marks?: readonly MarkRecord[];
  readonly parsed: boolean;
  readonly wellFormed: boolean;
  readonly valid: boolean;
  readonly feedback?: string;
  readonly reward: number;
  /** The parts of the reward; absent in older runs. */
  readonly rewards?: readonly RewardRecord[];
  /** Reward of this turn and all later ones, undiscounted. */
  readonly return: number;
  /** Version of the policy that sampled the reply; the lowest one if the weights changed during it. */
  readonly version: number;
  readonly sampleMs: number;
  readonly envMs: number;
  /** For a program with its own loop: the conversation of this turn, the program's request and the answer. */
  readonly request?: RequestRecord;
  /** log p(reply | own frames) − log p(reply | another episode's frames), if it was measured. */
  readonly sight?: number;
};

/** A message of a program. `text` has "<image>" for each frame; `parts` has the exact order, for messages of several parts. */
export type RequestMessage = {
  readonly role: string;
  readonly text: string;
  readonly frames: readonly string[];
  readonly parts?: readonly (string | { readonly frame: string })[];
};

/** A request of a program. */
export type RequestRecord = {
  readonly conversation: number;
  /** `chat`, `responses` or `messages`. */
  readonly wire: string;
  /** The messages that were new to the conversation. */
  readonly messages: readonly RequestMessage[];
  /** On the request that opened the conversation: further inputs of the chat template, mostly tools. */
  readonly variables?: JsonObject;
  readonly calls: readonly { readonly name: string; readonly arguments: string }[];
};

/** What remains of a program: its last lines of output, the source of its reward, and how its conversations branched. */
export type ProgramRecord = {
  readonly log: readonly string[];
  readonly paidBy?: string;
  readonly branches?: readonly { readonly parent?: number; readonly at: number; readonly turns: readonly number[] }[];
};

export type TrajectoryRecord = {
  /** `<env>#<seed>/<sibling>`. */
  readonly id: string;
  readonly env: string;
  readonly seed: number;
  /** The name of the group; its siblings play the same seed. */
  readonly group: string;
  readonly sibling: number;
  /** `sight`: played on real frames to measure whether the model looks. */
  readonly split: "train" | "eval" | "sight";
  readonly step: number;
  /** 0: greedy. */
  readonly temperature: number;
  readonly reward: number;
  readonly success: boolean;
  /** `done`, `max_turns`, `max_tokens`, or a failure of ours. */
  readonly end: string;
  /** If it is `done`: how it ended, in the environment's words. */
  readonly ending?: string;
  readonly error?: string;
  readonly retries?: number;
  /** If there was a judge: how long it took, and its error if it failed and paid nothing. */
  readonly judge?: { readonly ms: number; readonly error?: string };
  readonly program?: ProgramRecord;
  /** Over sampled tokens; absent if nothing was trained. */
  readonly advantage?: { readonly mean: number; readonly min: number; readonly max: number };
  readonly turns: readonly TurnRecord[];
  /** The observation after the last reply. */
  readonly final?: { readonly observation: string; readonly frames: readonly string[] };
  readonly tokens?: readonly TokensRecord[];
  /** Why this episode was stored. */
  readonly kept?: KeepReason;
};

export type KeepReason = "best" | "median" | "worst" | "error";

/** The fields that `keepPolicy` reads, so that it can choose before any row is built. */
export type Keepable = {
  readonly group: string;
  readonly sibling: number;
  readonly reward: number;
  readonly success: boolean;
  readonly error?: string;
};

export type Kept<T> = { readonly episode: T; readonly why: KeepReason };

/**
 * Best, median and worst of each group by reward (then success, then the lower sibling), and errors. `maxGroups`: only the first groups,
 * so that the same evaluation seeds are stored every time. `maxErrors` limits the rows of a run in which everything fails.
 */
export function keepPolicy<T extends Keepable>(
  episodes: readonly T[],
  { maxGroups = Number.POSITIVE_INFINITY, maxErrors = 16 } = {},
): { kept: Kept<T>[]; dropped: number } {
  const kept: Kept<T>[] = [];
  for (const episode of episodes) {
    if (episode.error !== undefined && kept.length < maxErrors) kept.push({ episode, why: "error" });
  }
  const groups = new Map<string, T[]>();
  for (const episode of episodes) {
    if (episode.error !== undefined) continue;
    const members = groups.get(episode.group);
    if (members === undefined) groups.set(episode.group, [episode]);
    else members.push(episode);
  }
  let taken = 0;
  for (const members of groups.values()) {
    if (taken++ >= maxGroups) break;
    const ranked = members.toSorted(
      (a, b) => b.reward - a.reward || Number(b.success) - Number(a.success) || a.sibling - b.sibling,
    );
    const last = ranked.length - 1;
    kept.push({ episode: ranked[0] as T, why: "best" });
    if (last >= 2) kept.push({ episode: ranked[last >> 1] as T, why: "median" });
    if (last >= 1) kept.push({ episode: ranked[last] as T, why: "worst" });
  }
  return { kept, dropped: episodes.length - kept.length };
}

/** 32-bit floats as the shortest decimals that give the same floats again, in about half the bytes of doubles. */
export function numbers(values: Float32Array): NumberRow {
  return Array.from(values, (value) => {
    if (!Number.isFinite(value)) return null;
    const short = Number(value.toPrecision(7));
    return Math.fround(short) === value ? short : Number(value.toPrecision(9));
  });
}

export type TrajectoryOptions = {
  /** Maximum size of the folder, in bytes. */
  readonly maxBytes?: number;
  /** Maximum number of rows that wait to be written. */
  readonly maxPending?: number;
};

export type TrajectoryCounts = {
  /** Rows written since opening. */
  readonly written: number;
  readonly bytes: number;
  readonly overBudget: number;
  readonly overBacklog: number;
  readonly failed: number;
};

export class TrajectoryStore {
  readonly #folder: string;
  readonly #maxBytes: number;
  readonly #maxPending: number;
  readonly #counts = { written: 0, bytes: 0, overBudget: 0, overBacklog: 0, failed: 0 };
  #pending = 0;
  #last: Promise<void> = Promise.resolve();
  /** The first failure, in words. */
  problem: string | undefined;

  private constructor(folder: string, options: TrajectoryOptions) {
    this.#folder = folder;
    this.#maxBytes = options.maxBytes ?? 1024 * 1024 * 1024;
    this.#maxPending = options.maxPending ?? 4096;
  }

  static async open(runPath: string, options: TrajectoryOptions = {}): Promise<TrajectoryStore> {
    const folder = join(runPath, TRAJECTORIES_FOLDER);
    await mkdir(folder, { recursive: true });
    const store = new TrajectoryStore(folder, options);
    for (const name of await namesIn(folder)) store.#counts.bytes += (await stat(join(folder, name))).size;
    return store;
  }

  /** Queues rows and returns immediately. A function builds its row later, one at a time: a row with tokens takes milliseconds. */
  append(step: number, rows: readonly (TrajectoryRecord | (() => TrajectoryRecord))[]): void {
    const room = Math.max(0, this.#maxPending - this.#pending);
    const taken = rows.slice(0, room);
    this.#counts.overBacklog += rows.length - taken.length;
    if (taken.length === 0) return;
    this.#pending += taken.length;
    this.#last = this.#last.then(async () => {
      await this.#write(step, taken);
      this.#pending -= taken.length;
    });
  }

  /** Waits until all queued rows are written or dropped. */
  async flush(): Promise<void> {
    await this.#last;
  }

  get counts(): TrajectoryCounts {
    return { ...this.#counts };
  }

  /** Removes the files of later steps, which a resumed run plays again. */
  async discardAfter(step: number): Promise<void> {
    await this.flush();
    for (const later of await stepsIn(this.#folder)) {
      if (later <= step) continue;
      const path = stepPath(this.#folder, later);
      this.#counts.bytes -= (await stat(path)).size;
      await rm(path);
    }
  }

  /** Never throws; it counts rows that can't be built or written. */
  async #write(step: number, rows: readonly (TrajectoryRecord | (() => TrajectoryRecord))[]): Promise<void> {
    const counts = this.#counts;
    const lines: Buffer[] = [];
    let bytes = 0;
    for (const row of rows) {
      await nextTick();
      try {
        const line = Buffer.from(`${JSON.stringify(typeof row === "function" ? row() : row)}\n`);
        if (counts.bytes + bytes + line.length > this.#maxBytes) {
          counts.overBudget++;
          continue;
        }
        lines.push(line);
        bytes += line.length;
      } catch (error) {
        counts.failed++;
        this.problem ??= errorMessage(error);
      }
    }
    if (lines.length === 0) return;
    try {
      const path = stepPath(this.#folder, step);
      await repairTail(path);
      await appendFile(path, Buffer.concat(lines), { mode: PRIVATE });
      counts.bytes += bytes;
      counts.written += lines.length;
    } catch (error) {
      counts.failed += lines.length;
      this.problem ??= errorMessage(error);
    }
  }
}

/** Steps that have a file, ascending. */
export function trajectorySteps(runPath: string): Promise<number[]> {
  return stepsIn(join(runPath, TRAJECTORIES_FOLDER));
}

/**
 * The rows of a step. If an evaluation was played again after a crash, its later rows count. Rows that can't be read are reported in
 * `missing`.
 */
export async function readTrajectories(
  runPath: string,
  step: number,
  missing: string[] = [],
): Promise<TrajectoryRecord[]> {
  const rows = new Map<string, TrajectoryRecord>();
  const path = stepPath(join(runPath, TRAJECTORIES_FOLDER), step);
  for await (const { value, start } of readLines(path, missing)) {
    const record = asRecord(value);
    if (record === undefined) missing.push(`step-${step}.jsonl: the line at byte ${start} is not a trajectory.`);
    else rows.set(JSON.stringify([record.split, record.temperature, record.id]), record);
  }
  return [...rows.values()];
}

function asRecord(value: JsonObject): TrajectoryRecord | undefined {
  if (typeof value.id !== "string" || !Array.isArray(value.turns)) return undefined;
  return value as unknown as TrajectoryRecord;
}

function stepPath(folder: string, step: number): string {
  return join(folder, `step-${step}.jsonl`);
}

async function stepsIn(folder: string): Promise<number[]> {
  return (await namesIn(folder))
    .flatMap((name) => /^step-(\d+)\.jsonl$/.exec(name)?.[1] ?? [])
    .map(Number)
    .sort((a, b) => a - b);
}
