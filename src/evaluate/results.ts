/**
 * `results.jsonl`: one line for each episode that was played, under a key made of everything that decides its outcome. An episode
 * is played again only when there is no scored line for its key; a line that failed for our reasons stays for the accounts and is
 * superseded by the next. Lines are only ever appended, so a process killed at any instant loses at most the line it was writing.
 */
import { createHash } from "node:crypto";
import { join } from "node:path";
import { canonicalJson, isJsonObject, type Json, type JsonObject } from "../core/json.ts";
import type { ScoredDecision } from "../rollout/decisions.ts";
import { isOurFault, type Trajectory } from "../rollout/trajectory.ts";
import { LineWriter, readLines } from "../run/jsonl.ts";
import type { Usage } from "./usage.ts";

export const RESULTS_FILE = "results.jsonl";

export type EpisodeResult = {
  readonly key: string;
  readonly model: string;
  readonly env: string;
  readonly seed: number;
  readonly repeat: number;
  /** Milliseconds since 1970 when it ended, and how long it took. */
  readonly time: number;
  readonly ms: number;
  /** False: it failed for our reasons, counts against success, and is played again by the next run. */
  readonly scored: boolean;
  readonly success: boolean;
  readonly reward: number;
  readonly turns: number;
  /** Turns whose reply held no action, was refused by the world (or held none), or was cut at its token limit. */
  readonly unparsed: number;
  readonly invalid: number;
  readonly cut: number;
  readonly end: string;
  readonly error?: string;
  readonly fault?: Trajectory["fault"];
  readonly usage: Readonly<Usage>;
  /** Of worlds with an oracle, turn by turn. */
  readonly decisions?: readonly ScoredDecision[];
};

/** What decides an episode beside its seed and repeat. */
export type Setting = {
  readonly model: JsonObject;
  readonly sampling: JsonObject;
  readonly history: number | null;
  /** Options that all environments were given. */
  readonly options: JsonObject;
};

/** `env`: id, options and everything else that decides what the model is shown and may do. */
export function resultKey(
  { model, sampling, history }: Setting,
  env: JsonObject,
  seed: number,
  repeat: number,
): string {
  return digest({ version: 1, model, sampling, history, env, seed, repeat });
}

/** 32 hexadecimal digits that do not depend on the order of fields. */
export function digest(value: Json): string {
  return createHash("sha256").update(canonicalJson(value)).digest("hex").slice(0, 32);
}

export function resultOf(
  trajectory: Trajectory,
  more: Pick<EpisodeResult, "key" | "model" | "repeat" | "ms" | "usage" | "decisions">,
): EpisodeResult {
  const { env, seed, turns, success, reward, end, error, fault } = trajectory;
  const { key, model, repeat, ms, usage, decisions = [] } = more;
  return {
    key,
    model,
    env,
    seed,
    repeat,
    time: Date.now(),
    ms: Math.round(ms),
    scored: !isOurFault(trajectory),
    // What the environment says, never what a reward suggests.
    success,
    reward,
    turns: turns.length,
    unparsed: turns.filter(({ info }) => info.parsed === false).length,
    invalid: turns.filter(({ info }) => info.valid === false).length,
    cut: turns.filter(({ stopReason }) => stopReason === "length").length,
    end,
    ...(error !== undefined && { error }),
    ...(fault && { fault }),
    usage,
    ...(decisions.length > 0 && { decisions }),
  };
}

/** All attempts at an episode, oldest first. */
export type Attempts = ReadonlyMap<string, readonly EpisodeResult[]>;

export class ResultLog {
  readonly #writer: LineWriter;
  readonly #attempts: Map<string, EpisodeResult[]>;
  /** What opening found damaged, in words. */
  readonly notes: readonly string[];

  private constructor(writer: LineWriter, attempts: Map<string, EpisodeResult[]>, notes: readonly string[]) {
    this.#writer = writer;
    this.#attempts = attempts;
    this.notes = notes;
  }

  static async open(folder: string): Promise<ResultLog> {
    const path = join(folder, RESULTS_FILE);
    const { writer, repaired } = await LineWriter.open(path);
    const notes: string[] = repaired === undefined ? [] : [repaired];
    const attempts = new Map<string, EpisodeResult[]>();
    for await (const { value } of readLines(path, notes)) {
      if (typeof value.key === "string" && isJsonObject(value.usage)) add(attempts, value as unknown as EpisodeResult);
    }
    return new ResultLog(writer, attempts, notes);
  }

  get attempts(): Attempts {
    return this.#attempts;
  }

  /** Whether there is a line that counts. */
  has(key: string): boolean {
    return this.#attempts.get(key)?.some(({ scored }) => scored) === true;
  }

  /** Done when the line is in the file. */
  async append(result: EpisodeResult): Promise<void> {
    add(this.#attempts, result);
    this.#writer.append(result);
    await this.#writer.flush();
  }

  close(): Promise<void> {
    return this.#writer.close();
  }
}

function add(attempts: Map<string, EpisodeResult[]>, result: EpisodeResult): void {
  const list = attempts.get(result.key);
  if (list === undefined) attempts.set(result.key, [result]);
  else list.push(result);
}
