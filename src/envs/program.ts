/**
 * Any program, in any language, as an environment: one process for each episode, told by its environment where the model of that episode is. It says what it earned with
 * one POST, or its last line of output does (JSON), or a TypeScript file judges. `persistent` keeps a process for many episodes: one JSON line in for each, one out.
 * A process is the first of a group of its own, and at the end of its episode, or of its time, the whole group is killed.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { createHash } from "node:crypto";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { basename, join, resolve } from "node:path";
import { createInterface } from "node:readline";
import { z } from "zod";
import { ConfigError, EnvError } from "../core/errors.ts";
import { canonicalJson, type Json } from "../core/json.ts";
import { makeOnce } from "../core/make-once.ts";
import { Permits } from "../core/permits.ts";
import { given } from "../core/words.ts";
import { type AgentOutcome, builtinsOf, drivenEnv, type Oracles, oracleReply, taskRows } from "./agent.ts";
import { defineEnv } from "./define.ts";
import type { BuiltinAgent, BuiltinAsked, Driver, Earned, Line } from "./env.ts";
import { loadFile } from "./load.ts";
import { isRegistered, register } from "./registry.ts";
import { type Reward, readEarned } from "./reward.ts";
import { rowAt } from "./task.ts";

export const programFields = {
  command: z.array(z.string()).min(1).describe("The program and its arguments."),
  tasks: z.string().describe("File of tasks, JSON lines or Parquet. The seed of an episode is its row."),
  reward: z.string().optional().describe("TypeScript file whose default export judges an episode."),
  oracle: z
    .string()
    .optional()
    .describe("TypeScript file with `{ oracle, random }`, which answer in the model's place, for a warm start."),
  concurrency: z.int().min(1).optional().describe("Maximum number of processes at a time. By default one per episode."),
  timeoutMs: z.int().min(1).default(600_000).describe("Time limit of an episode, in milliseconds."),
  folder: z.string().optional().describe("Where the program runs. By default the recipe's folder."),
  persistent: z.boolean().default(false).describe("Keep each process, and play one episode after another in it."),
};
const settingsSchema = z.strictObject(programFields);
type Settings = z.output<typeof settingsSchema>;
export type Program = z.input<typeof settingsSchema>;

/**
 * The environment of a program, known by a name of its own from then on. No name gives access to programs at large: whoever may name environments (a client of
 * a server, a page of the viewer) could otherwise run any.
 */
export function registerProgram(input: Program): string {
  const settings = settingsSchema.parse(input);
  const hash = createHash("sha256").update(canonicalJson(settings)).digest("hex").slice(0, 6);
  const file = basename(settings.command.findLast((part) => !part.startsWith("-")) ?? "program");
  const id = `program_${file.toLowerCase().replace(/[^a-z0-9]+/g, "_")}_${hash}`;
  if (!isRegistered(id)) register(programEnv(id, settings));
  return id;
}

function programEnv(id: string, settings: Settings) {
  const known = new Map<string, Promise<readonly Json[]>>();
  const rowsOf = (data: string | undefined): Promise<readonly Json[]> => {
    const file = resolve(data ?? settings.tasks);
    return makeOnce(known, file, () => taskRows<Json>(file, "tasks"));
  };
  return defineEnv({
    id,
    summary: `The program ${settings.command.join(" ")}, which calls the model through an endpoint`,
    options: z.strictObject({ data: z.string().optional(), blindfold: z.boolean().default(false) }),
    drives: true,
    rows: async ({ data }) => (await rowsOf(data)).length,
    async create({ data, blindfold }) {
      const judge = settings.reward === undefined ? undefined : loadJudge(settings.reward);
      const oracles = settings.oracle === undefined ? {} : loadOracles(settings.oracle);
      return drivenEnv(new ProgramDriver(settings, await rowsOf(data), { judge, oracles, blindfold }), id);
    },
  });
}

type Judge = (outcome: AgentOutcome) => Reward | Promise<Reward>;

function loadJudge(path: string): Judge {
  const judge = loadFile(path);
  if (typeof judge === "function") return judge as Judge;
  throw new ConfigError(
    `${path}: its default export must be a function ({ task, output, turns }) => reward; got ${given(judge)}.`,
  );
}

export function loadOracles(path: string): Oracles {
  const oracles = loadFile(path) as Oracles | null;
  if (typeof oracles?.oracle === "function") return oracles;
  throw new ConfigError(
    `${path}: its default export must be { oracle, random }, functions of { task, messages, turn }; got ${given(oracles)}.`,
  );
}

type Parts = { readonly judge: Judge | undefined; readonly oracles: Oracles; readonly blindfold: boolean };

/** By command: how many processes may be at work. */
const permits = new Map<string, Permits>();

class ProgramDriver implements Driver {
  readonly blindfold: boolean;
  readonly builtins: readonly BuiltinAgent[];
  readonly #settings: Settings;
  readonly #rows: readonly Json[];
  readonly #judge: Judge | undefined;
  readonly #oracles: Oracles;
  #kept: Running | undefined;

  constructor(settings: Settings, rows: readonly Json[], { judge, oracles, blindfold }: Parts) {
    this.#settings = settings;
    this.blindfold = blindfold;
    this.#oracles = oracles;
    this.builtins = builtinsOf(oracles);
    this.#rows = rows;
    this.#judge = judge;
  }

  async drive(line: Line): Promise<Earned> {
    const { concurrency, command } = this.#settings;
    const task = rowAt(this.#rows, line.seed, command.join(" "));
    if (concurrency === undefined) return this.#play(line, task);
    const key = JSON.stringify([command, concurrency]);
    const slots = permits.get(key) ?? new Permits(concurrency);
    permits.set(key, slots);
    await slots.take();
    try {
      return await this.#play(line, task);
    } finally {
      slots.give();
    }
  }

  reply(kind: BuiltinAgent, asked: BuiltinAsked): Promise<string | undefined> {
    return oracleReply(this.#oracles, kind, rowAt(this.#rows, asked.seed, this.#settings.command.join(" ")), asked);
  }

  async #play(line: Line, task: Json): Promise<Earned> {
    line.signal.throwIfAborted();
    const output = this.#settings.persistent ? await this.#next(line, task) : await this.#once(line, task);
    const where = `${this.#settings.command.join(" ")}, task ${line.seed}`;
    if (this.#judge !== undefined) {
      const { seed, signal } = line;
      const paid = await this.#judge({ task, seed, output, turns: line.turns(), signal });
      return readEarned(paid, "reward", `${where}: ${this.#settings.reward}`);
    }
    const posted = line.posted();
    if (posted !== undefined) return readEarned(posted, "post", `${where}: the posted reward`);
    return readEarned(lastJson(output), "output", `${where}: the last line of output`);
  }

  /** A process of its own for the episode; what it printed. */
  async #once(line: Line, task: Json): Promise<string> {
    const folder = await mkdtemp(join(tmpdir(), "saccade-task-"));
    try {
      const file = join(folder, "task.json");
      await writeFile(file, JSON.stringify(task));
      const child = new Running(this.#settings, { ...variablesOf(line), SACCADE_TASK: file });
      return await child.within(line, this.#settings.timeoutMs, () => child.exit());
    } finally {
      await rm(folder, { recursive: true, force: true });
    }
  }

  /** The next line of a process that plays one episode after another. */
  async #next(line: Line, task: Json): Promise<string> {
    if (this.#kept === undefined || !this.#kept.alive) this.#kept = new Running(this.#settings, {});
    const child = this.#kept;
    const { url, baseURL, apiKey, seed } = line;
    const asked = JSON.stringify({ task, seed, episodeURL: url, baseURL, apiKey });
    return child.within(line, this.#settings.timeoutMs, () => child.ask(asked), true);
  }

  async close(): Promise<void> {
    this.#kept?.kill();
    this.#kept = undefined;
  }
}

function variablesOf({ url, baseURL, apiKey, seed }: Line): Record<string, string> {
  return {
    OPENAI_BASE_URL: baseURL,
    OPENAI_API_KEY: apiKey,
    ANTHROPIC_BASE_URL: url,
    ANTHROPIC_API_KEY: apiKey,
    SACCADE_EPISODE_URL: url,
    SACCADE_SEED: String(seed),
  };
}

/** Characters of output that are kept, the last ones. */
const MAX_OUTPUT = 2 ** 20;

class TimedOut extends EnvError {
  override name = "TimedOut";
}

class Running {
  readonly #child: ChildProcess;
  readonly #done: Promise<string | undefined>;
  alive = true;
  #output = "";
  #log: (text: string) => void = () => {};
  #answered: ((text: string) => void) | undefined;

  constructor({ command, folder }: Pick<Settings, "command" | "folder">, variables: Record<string, string>) {
    const [file = "", ...rest] = command;
    this.#child = spawn(file, rest, {
      ...(folder !== undefined && { cwd: folder }),
      env: { ...process.env, ...variables },
      stdio: ["pipe", "pipe", "pipe"],
      detached: process.platform !== "win32",
    });
    const { stdin, stdout, stderr } = this.#child;
    // It may be gone before it has read a word.
    stdin?.on("error", () => {});
    if (stdout !== null) createInterface({ input: stdout }).on("line", (text) => this.#take(text));
    if (stderr !== null) createInterface({ input: stderr }).on("line", (text) => this.#log(text));
    this.#done = new Promise((done) => {
      this.#child.once("error", (error) => {
        this.alive = false;
        done(`${file} can't be started: ${error.message}`);
      });
      this.#child.once("close", (code, signal) => {
        this.alive = false;
        done(
          code === 0 ? undefined : signal === null ? `it ended with exit code ${code}` : `it was ended by ${signal}`,
        );
      });
    });
  }

  #take(text: string): void {
    if (this.#answered !== undefined && isJson(text)) {
      this.#answered(text);
      return;
    }
    this.#log(text);
    this.#output = `${this.#output}${text}\n`.slice(-MAX_OUTPUT);
  }

  /** Its output, once it has ended. */
  async exit(): Promise<string> {
    this.#child.stdin?.end();
    const problem = await this.#done;
    if (problem !== undefined) throw new EnvError(`The program failed: ${problem}.`);
    return this.#output;
  }

  /** Gives it a line and waits for its answer, the next line that is JSON. */
  async ask(line: string): Promise<string> {
    const answer = new Promise<string>((resolve) => {
      this.#answered = resolve;
    });
    this.#child.stdin?.write(`${line}\n`);
    const gone = this.#done.then((problem) => {
      throw new EnvError(`The program failed: ${problem ?? "it ended before it answered"}.`);
    });
    try {
      return await Promise.race([answer, gone]);
    } finally {
      this.#answered = undefined;
      // Where it answered, nobody waits for its end.
      gone.catch(() => undefined);
    }
  }

  /** `work`, unless the time is over or the episode is not wanted any more: then the group is killed. */
  async within<T>(line: Line, timeoutMs: number, work: () => Promise<T>, keep = false): Promise<T> {
    this.#log = (text) => line.log(text);
    let stop: (reason: unknown) => void = () => {};
    const stopped = new Promise<never>((_, reject) => {
      stop = reject;
    });
    const timer = setTimeout(() => stop(new TimedOut(`The program took more than ${timeoutMs} ms.`)), timeoutMs);
    const onAbort = () => stop(line.signal.reason);
    line.signal.addEventListener("abort", onAbort, { once: true });
    let well = false;
    try {
      const done = await Promise.race([work(), stopped]);
      well = true;
      return done;
    } finally {
      clearTimeout(timer);
      line.signal.removeEventListener("abort", onAbort);
      this.#log = () => {};
      if (!well || !keep) this.kill();
    }
  }

  /** With all that it started. */
  kill(): void {
    const { pid } = this.#child;
    if (pid === undefined) return;
    try {
      if (process.platform === "win32") this.#child.kill("SIGKILL");
      else process.kill(-pid, "SIGKILL");
    } catch {
      // It is gone already.
    }
  }
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

function lastJson(output: string): Json | undefined {
  const last = output.trimEnd().split("\n").at(-1) ?? "";
  return isJson(last) ? (JSON.parse(last) as Json) : undefined;
}
