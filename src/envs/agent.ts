/**
 * An agent that brings its own loop, as an environment: an async function that calls a model through the endpoint of its episode, with its own prompts, tools
 * and images. Saccade sees the requests and nothing else. Tasks are rows of a file or an array (the seed is the row), or a function of the seed.
 */
import { resolve } from "node:path";
import { z } from "zod";
import { ConfigError, EnvError } from "../core/errors.ts";
import type { Awaitable, Json } from "../core/json.ts";
import { makeOnce } from "../core/make-once.ts";
import type { Message } from "../core/message.ts";
import { NumpyRandom } from "../core/random-numpy.ts";
import { given } from "../core/words.ts";
import { checkDefinition, type EnvDefinition } from "./define.ts";
import type { AgentTurn, BuiltinAgent, BuiltinAsked, Driver, Earned, Env, Line } from "./env.ts";
import { writeCall } from "./protocols/tool-text.ts";
import { type Reward, readEarned } from "./reward.ts";
import { readRows } from "./rows.ts";
import { rowAt } from "./task.ts";

/**
 * A model as the Vercel AI SDK takes it (`generateText({ model, … })`), without a type of its own: those ask every user's project for declarations that it
 * does not have. Whoever calls these members directly has to know what they take and give.
 */
export type AgentModel = {
  readonly specificationVersion: "v3";
  readonly provider: string;
  readonly modelId: string;
  readonly supportedUrls: PromiseLike<Record<string, RegExp[]>> | Record<string, RegExp[]>;
  doGenerate(options: never): PromiseLike<never>;
  doStream(options: never): PromiseLike<never>;
};

/** What an agent's function is given. */
export type AgentEpisode<T = Json> = {
  readonly task: T;
  readonly seed: number;
  /** The model of this episode, for the Vercel AI SDK. */
  readonly model: AgentModel;
  /** The same model for other clients. */
  readonly baseURL: string;
  readonly apiKey: string;
  readonly signal: AbortSignal;
};

/** What a reward function sees when the agent is done. */
export type AgentOutcome<T = Json> = {
  readonly task: T;
  readonly seed: number;
  /** What `run` returned; of a program, what it printed. */
  readonly output: unknown;
  /** Every answer of the model, in the order they were completed. */
  readonly turns: readonly AgentTurn[];
  readonly signal: AbortSignal;
};

/** A request of the agent, which an oracle answers in the model's place. */
export type OracleRequest<T = Json> = {
  readonly task: T;
  readonly seed: number;
  readonly messages: readonly Message[];
  /** Answers that are in `messages` already. */
  readonly turn: number;
  readonly random: NumpyRandom;
};
/** Text, or calls with the text before them. */
export type OracleAnswer =
  | string
  | { readonly text?: string; readonly calls: readonly { readonly name: string; readonly arguments: Json }[] };

export type AgentInput<T = Json> = {
  readonly id: string;
  readonly summary?: string;
  /** A file of rows (JSON lines or `.parquet`, its path starting at the agent's file), the rows, or what makes one of a seed. */
  readonly tasks: string | readonly T[] | ((seed: number) => Awaitable<T>);
  /** Plays a task. What it returns is the reward, unless there is a `reward`. */
  run(episode: AgentEpisode<T>): Promise<unknown>;
  reward?(outcome: AgentOutcome<T>): Awaitable<Reward>;
  /** Right answers to the agent's requests, where they are known: a warm start and a ceiling. */
  oracle?(request: OracleRequest<T>): Awaitable<OracleAnswer>;
  /** Answers at random, for a floor. */
  random?(request: OracleRequest<T>): Awaitable<OracleAnswer>;
};

const options = z.strictObject({
  /** A file of tasks instead of the agent's own. */
  data: z.string().optional(),
  /** The agent's images are shown in grey. */
  blindfold: z.boolean().default(false),
});

const FIELDS = {
  id: true,
  summary: true,
  tasks: true,
  run: true,
  reward: true,
  oracle: true,
  random: true,
} as const satisfies Record<keyof AgentInput, true>;

export function defineAgent<T = Json>(agent: AgentInput<T>): EnvDefinition<typeof options> {
  checkDefinition("defineAgent", agent, Object.keys(FIELDS));
  const { id, tasks } = agent;
  if (typeof agent.run !== "function") {
    throw new ConfigError(`Agent "${id}": run must be a function that plays a task; got ${given(agent.run)}.`);
  }
  const wrong = (["reward", "oracle", "random"] as const).find(
    (name) => agent[name] !== undefined && typeof agent[name] !== "function",
  );
  if (wrong !== undefined)
    throw new ConfigError(`Agent "${id}": ${wrong} must be a function; got ${given(agent[wrong])}.`);
  if (typeof tasks !== "string" && typeof tasks !== "function" && !Array.isArray(tasks)) {
    throw new ConfigError(`Agent "${id}": tasks must be a file, rows or a function of the seed; got ${given(tasks)}.`);
  }
  return agentFrom(agent, process.cwd(), `Agent "${id}"`);
}

function agentFrom<T>(agent: AgentInput<T>, folder: string, label: string): EnvDefinition<typeof options> {
  const files = new Map<string, Promise<readonly T[]>>();
  /** Undefined: every seed is a task. */
  const rowsOf = async (data: string | undefined): Promise<readonly T[] | undefined> => {
    if (data === undefined && typeof agent.tasks === "function") return undefined;
    if (data === undefined && typeof agent.tasks !== "string") return checkRows(agent.tasks as readonly T[], label);
    const file = data !== undefined ? resolve(data) : resolve(folder, agent.tasks as string);
    return makeOnce(files, file, () => taskRows<T>(file, label));
  };
  return {
    kind: "env",
    id: agent.id,
    summary: agent.summary ?? agent.id,
    options,
    drives: true,
    rows: async ({ data }) => (await rowsOf(data))?.length,
    create: async ({ data, blindfold }) => {
      const rows = await rowsOf(data);
      const taskOf = (seed: number) =>
        rows === undefined ? (agent.tasks as (seed: number) => Awaitable<T>)(seed) : rowAt(rows, seed, agent.id);
      return drivenEnv(new AgentDriver(agent, taskOf, blindfold, label), label);
    },
    from: (place, file) => agentFrom(agent, place, file),
  };
}

export async function taskRows<T>(file: string, label: string): Promise<readonly T[]> {
  const rows: T[] = [];
  for await (const { value } of readRows(file)) rows.push(value as T);
  return checkRows(rows, `${label}: ${file}`);
}

function checkRows<T>(rows: readonly T[], where: string): readonly T[] {
  if (rows.length === 0) throw new ConfigError(`${where}: there are no tasks.`);
  return rows;
}

/** An environment that is all driver. */
export function drivenEnv(driver: Driver & { close?(): Promise<void> }, label: string): Env {
  const refuse = (): never => {
    throw new EnvError(
      `${label} brings its own loop, so it can be trained and evaluated, but not played turn by turn.`,
    );
  };
  return { reset: refuse, step: refuse, driver, close: () => driver.close?.() };
}

class AgentDriver<T> implements Driver {
  readonly blindfold: boolean;
  readonly builtins: readonly BuiltinAgent[];
  readonly #agent: AgentInput<T>;
  readonly #taskOf: (seed: number) => Awaitable<T>;
  readonly #label: string;

  constructor(agent: AgentInput<T>, taskOf: (seed: number) => Awaitable<T>, blindfold: boolean, label: string) {
    this.#agent = agent;
    this.#taskOf = taskOf;
    this.blindfold = blindfold;
    this.#label = label;
    this.builtins = builtinsOf(agent);
  }

  async drive({ seed, baseURL, apiKey, signal, turns, posted }: Line): Promise<Earned> {
    const task = await this.#taskOf(seed);
    // The Responses model: the chat model turns images in tool results into text.
    const { createOpenAI } = await import("@ai-sdk/openai");
    const model = createOpenAI({ baseURL, apiKey }).responses("policy") as unknown as AgentModel;
    const output = await this.#agent.run({ task, seed, model, baseURL, apiKey, signal });
    const where = `${this.#label}, seed ${seed}`;
    if (this.#agent.reward !== undefined) {
      const paid = await this.#agent.reward({ task, seed, output, turns: turns(), signal });
      return readEarned(paid, "reward", `${where}: reward()`);
    }
    if (output === undefined && posted() !== undefined)
      return readEarned(posted(), "post", `${where}: the posted reward`);
    return readEarned(output, "run", `${where}: run()`);
  }

  async reply(kind: BuiltinAgent, asked: BuiltinAsked): Promise<string | undefined> {
    return oracleReply(this.#agent, kind, await this.#taskOf(asked.seed), asked);
  }
}

/** Who answers in the model's place. */
export type Oracles<T = Json> = Pick<AgentInput<T>, "oracle" | "random">;

export function builtinsOf<T>({ oracle, random }: Oracles<T>): BuiltinAgent[] {
  return [...(oracle ? (["oracle"] as const) : []), ...(random ? (["random"] as const) : [])];
}

export async function oracleReply<T>(
  oracles: Oracles<T>,
  kind: BuiltinAgent,
  task: T,
  { seed, draw, messages }: BuiltinAsked,
): Promise<string | undefined> {
  const answers = kind === "oracle" ? oracles.oracle : kind === "stop" ? undefined : oracles.random;
  if (answers === undefined) return undefined;
  const turn = messages.filter(({ role }) => role === "assistant").length;
  return writeAnswer(await answers.call(oracles, { task, seed, messages, turn, random: new NumpyRandom(draw) }));
}

/** As the chat templates of the Qwen family write calls. */
function writeAnswer(answer: OracleAnswer): string {
  if (typeof answer === "string") return answer;
  const calls = answer.calls.map((call) => writeCall(call.name, call.arguments, "qwen"));
  return [...(answer.text ? [answer.text] : []), ...calls].join("\n");
}
