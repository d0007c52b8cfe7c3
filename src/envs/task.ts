/**
 * A task is data and a reward function: rows of a file (JSON lines or Parquet) or of an array, a prompt made of a row, and what a reply to it earns. It is an
 * environment like any other, with the row as its seed, of one turn or of several. A row that is not there is refused: wrapping around would let
 * validation rows be trained on unnoticed.
 */
import { resolve } from "node:path";
import { z } from "zod";
import { ConfigError, EnvError } from "../core/errors.ts";
import type { Awaitable } from "../core/json.ts";
import { type Message, text, user } from "../core/message.ts";
import type { EnvDefinition } from "./define.ts";
import { type Env, type RewardPart, type Step, sumRewards } from "./env.ts";
import { readRows } from "./rows.ts";

/** What a reply earned, where a number does not say it all. */
export type Verdict = {
  readonly rewards: readonly RewardPart[];
  /** What is said next when the episode goes on; default: that it may try again. */
  readonly say?: readonly Message[];
  readonly done: boolean;
  /** Default: this reply earned 1 or more. */
  readonly success?: boolean;
};

export type TaskInput<R> = {
  readonly id: string;
  readonly summary?: string;
  /** The rows, or a file of them: JSON lines or `.parquet`. Its path starts at the task's file. The option `data` names another file. */
  readonly data: string | readonly R[];
  /** Replies a row may be given; default 1. */
  readonly maxTurns?: number;
  prompt(row: R): Awaitable<readonly Message[]>;
  /** Turns count from 1. A number is the reward of a reply that ends the episode; 1 or more is a success. */
  reward(reply: string, row: R, turn: number): Awaitable<number | Verdict>;
  /** A right reply, where the rows hold one: it gives demonstrations, a warm start and a ceiling. */
  answer?(row: R, turn: number): Awaitable<string>;
};

const options = z.strictObject({ data: z.string().optional(), maxTurns: z.int().min(1).optional() });

export function defineTask<R>(task: TaskInput<R>): EnvDefinition<typeof options> {
  return taskFrom(task, process.cwd());
}

function taskFrom<R>(task: TaskInput<R>, folder: string): EnvDefinition<typeof options> {
  const files = new Map<string, Promise<readonly R[]>>();
  const rowsOf = (data: string | undefined): Promise<readonly R[]> => {
    // A file that an option names starts where the user stands, the author's own at the author's file.
    const file = data !== undefined ? resolve(data) : typeof task.data === "string" ? resolve(folder, task.data) : "";
    const known = files.get(file) ?? load(task, file);
    files.set(file, known);
    known.catch(() => files.delete(file));
    return known;
  };
  return {
    kind: "env",
    id: task.id,
    summary: task.summary ?? task.id,
    options,
    rows: async ({ data }) => (await rowsOf(data)).length,
    create: async ({ data, maxTurns = task.maxTurns ?? 1 }) => new TaskEnv(task, await rowsOf(data), maxTurns),
    from: (place) => taskFrom(task, place),
  };
}

async function load<R>(task: TaskInput<R>, file: string): Promise<readonly R[]> {
  const rows: R[] = [];
  if (file === "") rows.push(...(task.data as readonly R[]));
  else for await (const { value } of readRows(file)) rows.push(value as R);
  if (rows.length === 0) throw new ConfigError(`Task "${task.id}": there are no rows in ${file || "its data"}.`);
  return rows;
}

class TaskEnv<R> implements Env {
  readonly #task: TaskInput<R>;
  readonly #rows: readonly R[];
  readonly #maxTurns: number;
  #row: { readonly value: R } | undefined;
  #turn = 0;

  constructor(task: TaskInput<R>, rows: readonly R[], maxTurns: number) {
    this.#task = task;
    this.#rows = rows;
    this.#maxTurns = maxTurns;
  }

  async reset(seed: number): Promise<readonly Message[]> {
    if (!(Number.isSafeInteger(seed) && seed >= 0 && seed < this.#rows.length)) {
      throw new ConfigError(
        `Task "${this.#task.id}" has rows 0 to ${this.#rows.length - 1}; there is no row ${seed}. The seed of a task is its row.`,
      );
    }
    this.#row = { value: this.#rows[seed] as R };
    this.#turn = 0;
    return this.#task.prompt(this.#row.value);
  }

  async step(reply: string): Promise<Step> {
    if (this.#row === undefined) throw new EnvError("Call reset(row) before step().");
    this.#turn += 1;
    const paid = await this.#task.reward(reply, this.#row.value, this.#turn);
    const verdict: Verdict = typeof paid === "number" ? { rewards: [{ name: "task", value: paid }], done: true } : paid;
    const { rewards, done, say = [user(text("That is not it. Try again."))] } = verdict;
    const truncated = !done && this.#turn >= this.#maxTurns;
    const over = done || truncated;
    if (over) this.#row = undefined;
    return {
      observation: over ? (verdict.say ?? []) : say,
      rewards,
      terminated: done,
      truncated,
      success: verdict.success ?? sumRewards(rewards) >= 1,
      info: { actions: [], played: [], parsed: true, wellFormed: true, valid: true },
    };
  }

  async builtinReply(agent: string): Promise<string | undefined> {
    if (agent !== "oracle" || this.#row === undefined) return undefined;
    return this.#task.answer?.(this.#row.value, this.#turn + 1);
  }
}
