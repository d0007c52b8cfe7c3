/**
 * A task is data and a reward function: rows of a file (JSON lines or Parquet) or of an array, a prompt made of a row, and what a reply to it earns. It is an
 * environment like any other, with the row as its seed, of one turn or of several. A row that is not there is refused: wrapping around would let
 * validation rows be trained on unnoticed. A task may bring tools: a reply that calls some is answered by them, one that calls none is the last.
 */
import { resolve } from "node:path";
import { z } from "zod";
import { ConfigError, EnvError } from "../core/errors.ts";
import type { Awaitable } from "../core/json.ts";
import { makeOnce } from "../core/make-once.ts";
import { type Message, text, textOf, user } from "../core/message.ts";
import { NumpyRandom } from "../core/random-numpy.ts";
import { given } from "../core/words.ts";
import { ask, BOOLEAN, checkFields, checkMessages, checkRewards, mustReturn, optional } from "./contract.ts";
import { checkDefinition, type EnvDefinition } from "./define.ts";
import { type BuiltinAgent, type Env, type RewardPart, type Step, sumRewards } from "./env.ts";
import { checkMcp, type McpServer, openMcp } from "./mcp.ts";
import { sectionsOf } from "./protocols/tags.ts";
import { type ReadCall, readCalls, resultParts, TOOL_FORMS, type ToolForm, withTools } from "./protocols/tool-text.ts";
import { readRows } from "./rows.ts";
import { checkTools, runTool, type Tool, type ToolOutcome } from "./tools.ts";
import type { PromptStyle } from "./world.ts";

/** What a reply earned, where a number does not say it all. */
export type Verdict = {
  readonly rewards: readonly RewardPart[];
  /** What is said next when the episode goes on, a string by the user; default: that it may try again. */
  readonly say?: string | readonly Message[];
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
  /** What replies may call. With tools the default of `maxTurns` is 8. */
  readonly tools?: readonly Tool<R>[];
  /** A tool server of the Model Context Protocol: its tools are this task's, too. */
  readonly mcp?: McpServer;
  /** The first messages; a string is what the user says. */
  prompt(row: R): Awaitable<string | readonly Message[]>;
  /** Turns count from 1. A number is the reward of a reply that ends the episode; 1 or more is a success. With tools, it is asked for replies that call none; absent: they earn 0. */
  reward?(reply: string, row: R, turn: number): Awaitable<number | Verdict>;
  /** A right reply, where the rows hold one: it gives demonstrations, a warm start and a ceiling. */
  answer?(row: R, turn: number, form: ToolForm): Awaitable<string>;
  /** A reply that is likely wrong, for noise in demonstrations and for a random agent's floor. */
  slip?(row: R, random: NumpyRandom, form: ToolForm): Awaitable<string>;
};

const options = z.strictObject({
  data: z.string().optional(),
  maxTurns: z.int().min(1).optional(),
  /** How tools are made known and answer: as Qwen's chat template has it, or plainly. */
  form: z.enum(TOOL_FORMS).default("qwen"),
  prompt: z.enum(["full", "brief"]).default("full"),
});

export function defineTask<R>(task: TaskInput<R>): EnvDefinition<typeof options> {
  checkTask(task);
  return taskFrom(task, process.cwd(), `Task "${task.id}"`);
}

const FIELDS = {
  id: true,
  summary: true,
  data: true,
  maxTurns: true,
  tools: true,
  mcp: true,
  prompt: true,
  reward: true,
  answer: true,
  slip: true,
} as const satisfies Record<keyof TaskInput<unknown>, true>;

function checkTask<R>(task: TaskInput<R>): void {
  const { id, data, tools = [] } = task;
  checkDefinition("defineTask", task, Object.keys(FIELDS));
  checkTools(tools, `Task "${id}"`);
  if (task.mcp !== undefined) checkMcp(task.mcp, `Task "${id}"`);
  const wrong = (["prompt", "reward", "answer", "slip"] as const).find(
    (name) => task[name] !== undefined && typeof task[name] !== "function",
  );
  if (wrong !== undefined)
    throw new ConfigError(`Task "${id}": ${wrong} must be a function; got ${given(task[wrong])}.`);
  if (task.prompt === undefined)
    throw new ConfigError(`Task "${id}" has no prompt(row), which makes a row's first messages.`);
  if (task.reward === undefined && tools.length === 0 && task.mcp === undefined) {
    throw new ConfigError(`Task "${id}" has neither reward() nor tools, so no reply could earn anything.`);
  }
  if (typeof data !== "string" && !Array.isArray(data)) {
    throw new ConfigError(`Task "${id}": data must be a file's path or a list of rows; got ${given(data)}.`);
  }
}

function taskFrom<R>(task: TaskInput<R>, folder: string, label: string): EnvDefinition<typeof options> {
  const { id, tools = [] } = task;
  const hasTools = tools.length > 0 || task.mcp !== undefined;
  const files = new Map<string, Promise<readonly R[]>>();
  const rowsOf = (data: string | undefined): Promise<readonly R[]> => {
    // A file that an option names starts where the user stands, the author's own at the author's file.
    const file = data !== undefined ? resolve(data) : typeof task.data === "string" ? resolve(folder, task.data) : "";
    return makeOnce(files, file, () => load(task, file));
  };
  return {
    kind: "env",
    id,
    summary: task.summary ?? id,
    options,
    rows: async ({ data }) => (await rowsOf(data)).length,
    create: async ({ data, maxTurns = task.maxTurns ?? (hasTools ? 8 : 1), form, prompt }) => {
      const rows = await rowsOf(data);
      const mcp = task.mcp === undefined ? undefined : await openMcp(task.mcp, label);
      const all = { ...task, tools: [...tools, ...((mcp?.tools ?? []) as readonly Tool<R>[])] };
      checkTools(all.tools, label);
      const settings = { maxTurns, form, prompt, label, ...(mcp && { close: () => mcp.close() }) };
      return new TaskEnv(all, (seed) => rowAt(rows, seed, id), settings);
    },
    from: (place, file) => taskFrom(task, place, file),
  };
}

/** The row that a seed names. */
export function rowAt<R>(rows: readonly R[], seed: number, id: string): R {
  if (Number.isSafeInteger(seed) && seed >= 0 && seed < rows.length) return rows[seed] as R;
  throw new ConfigError(
    `Task "${id}" has rows 0 to ${rows.length - 1}; there is no row ${seed}. The seed of a task is its row.`,
  );
}

async function load<R>(task: TaskInput<R>, file: string): Promise<readonly R[]> {
  const rows: R[] = [];
  if (file === "") rows.push(...(task.data as readonly R[]));
  else for await (const { value } of readRows(file)) rows.push(value as R);
  if (rows.length === 0) throw new ConfigError(`Task "${task.id}": there are no rows in ${file || "its data"}.`);
  return rows;
}

export type TaskSettings = {
  readonly maxTurns: number;
  readonly form: ToolForm;
  readonly prompt: PromptStyle;
  /** The task's file, for messages; absent: its id. */
  readonly label?: string;
  /** Ends what the task started. */
  readonly close?: () => Promise<void>;
};

const VERDICT = {
  rewards: { wanted: 'a list of parts, such as { name: "task", value: 1 }', fits: Array.isArray },
  done: BOOLEAN,
  success: optional(BOOLEAN),
};

/** A task on rows from anywhere: `row` gives that of a seed, or throws. */
export class TaskEnv<R> implements Env {
  readonly #task: Omit<TaskInput<R>, "data">;
  readonly #rowOf: (seed: number) => Awaitable<R>;
  readonly #settings: TaskSettings;
  readonly #tools: readonly Tool<R>[];
  #row: { readonly value: R; readonly seed: number } | undefined;
  #turn = 0;

  constructor(task: Omit<TaskInput<R>, "data">, rowOf: (seed: number) => Awaitable<R>, settings: TaskSettings) {
    this.#task = task;
    this.#rowOf = rowOf;
    this.#settings = settings;
    this.#tools = task.tools ?? [];
  }

  async reset(seed: number): Promise<readonly Message[]> {
    const value = await this.#rowOf(seed);
    this.#row = { value, seed };
    this.#turn = 0;
    const { form, prompt } = this.#settings;
    const where = `${this.#label()}: prompt(row ${seed})`;
    const first = await ask(where, () => this.#task.prompt(value), checkSaid);
    if (first.length === 0) throw new EnvError(`${where} returned no messages, so there is nothing to reply to.`);
    return withTools(messagesOf(first), this.#tools, form, prompt);
  }

  #label(): string {
    return this.#settings.label ?? `Task "${this.#task.id}"`;
  }

  async step(reply: string): Promise<Step> {
    if (this.#row === undefined) throw new EnvError("Call reset(row) before step().");
    this.#turn += 1;
    const calls = this.#tools.length === 0 ? [] : readCalls(reply);
    const step =
      calls.length > 0
        ? await this.#called(reply, calls, this.#row.value)
        : await this.#paid(reply, this.#row.value, this.#row.seed);
    if (step.terminated || step.truncated) this.#row = undefined;
    return step;
  }

  /** A reply that is the answer. */
  async #paid(reply: string, row: R, seed: number): Promise<Step> {
    const { reward } = this.#task;
    const where = `${this.#label()}: reward(reply, row ${seed}, ${this.#turn})`;
    const check = (made: number | Verdict) => checkPaid(made, reply, where);
    const paid =
      reward === undefined ? 0 : await ask(where, () => reward.call(this.#task, reply, row, this.#turn), check);
    const verdict: Verdict = typeof paid === "number" ? { rewards: [{ name: "task", value: paid }], done: true } : paid;
    const { rewards, done, say = "That is not it. Try again." } = verdict;
    const truncated = !done && this.#turn >= this.#settings.maxTurns;
    return {
      observation: messagesOf(done || truncated ? (verdict.say ?? []) : say),
      rewards,
      terminated: done,
      truncated,
      success: verdict.success ?? sumRewards(rewards) >= 1,
      info: { actions: [], played: [], parsed: true, wellFormed: true, valid: true },
    };
  }

  /** A reply that calls tools: they run in order until one ends the episode, and their answers are said next. */
  async #called(reply: string, calls: readonly ReadCall[], row: R): Promise<Step> {
    const { maxTurns, form } = this.#settings;
    const outcomes: ToolOutcome[] = [];
    for (const call of calls) {
      outcomes.push(await runTool(this.#tools, call, { row, turn: this.#turn, maxTurns }, this.#label()));
      if (outcomes.at(-1)?.done) break;
    }
    const ran = calls.slice(0, outcomes.length);
    const rewards = outcomes.flatMap((outcome, i) =>
      outcome.rewards.map((part) => ({ ...part, span: ran[i]?.span as ReadCall["span"] })),
    );
    const last = outcomes.at(-1) as ToolOutcome;
    const observation = user(
      ...resultParts(
        outcomes.map(({ said }) => said),
        form,
      ),
    );
    const actions = ran.flatMap((call) => (call.ok ? [{ name: call.name, payload: call.args }] : []));
    const sections = sectionsOf(reply, ["think", "tool_call"]);
    return {
      observation: [observation],
      rewards: rewards.length > 0 ? rewards : [{ name: "task", value: 0 }],
      terminated: last.done,
      truncated: !last.done && this.#turn >= maxTurns,
      success: last.done && (last.success ?? sumRewards(rewards) >= 1),
      info: {
        feedback: textOf(observation),
        actions,
        span: [(ran[0] as ReadCall).span[0], (ran.at(-1) as ReadCall).span[1]],
        sections,
        parsed: actions.length > 0,
        wellFormed: calls.every(({ ok }) => ok),
        valid: outcomes.every(({ problem }) => !problem),
      },
    };
  }

  async close(): Promise<void> {
    await this.#settings.close?.();
  }

  async builtinReply(agent: BuiltinAgent, seed: number): Promise<string | undefined> {
    if (this.#row === undefined || agent === "stop") return undefined;
    const { form } = this.#settings;
    const { value, seed: row } = this.#row;
    const { answer, slip } = this.#task;
    const turn = this.#turn + 1;
    if (agent === "oracle") {
      return (
        answer &&
        ask(
          `${this.#label()}: answer(row ${row}, ${turn})`,
          () => answer.call(this.#task, value, turn, form),
          checkReply,
        )
      );
    }
    return (
      slip &&
      ask(
        `${this.#label()}: slip(row ${row})`,
        () => slip.call(this.#task, value, new NumpyRandom(seed), form),
        checkReply,
      )
    );
  }
}

type Said = string | readonly Message[];

function messagesOf(said: Said): readonly Message[] {
  return typeof said === "string" ? [user(text(said))] : said;
}

function checkSaid<S extends Said>(said: S, where: string, must = "must return a string or"): S {
  if (typeof said !== "string") checkMessages(said, where, must);
  return said;
}

function checkPaid(paid: number | Verdict, reply: string, where: string): number | Verdict {
  if (typeof paid === "number" && Number.isFinite(paid)) return paid;
  if (typeof paid !== "object" || paid === null) {
    const hint = typeof paid === "boolean" ? " Write Number(…)." : "";
    throw mustReturn(where, "a finite number or { rewards, done }", paid, hint);
  }
  checkFields(paid, VERDICT, where);
  checkRewards(paid.rewards, reply, `${where}.rewards`);
  if (paid.say !== undefined) checkSaid(paid.say, `${where}.say`, "must be a string or");
  return paid;
}

function checkReply(reply: string, where: string): string {
  if (typeof reply === "string") return reply;
  throw mustReturn(where, "a string", reply);
}
