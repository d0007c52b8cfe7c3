/**
 * Where environments run: on the main thread (`inline`), or one to a worker thread or child process when they are heavy. An instance is
 * kept after its episode and reset for the next; one that crashed or hung is discarded, and its worker with it. Inline, an environment
 * that blocks the thread blocks everything: give those workers.
 */
import { ConfigError, EnvError, errorMessage } from "../core/errors.ts";
import type { Message } from "../core/message.ts";
import type { BuiltinAgent, Env, RewardPart, Step } from "../envs/env.ts";
import { loadFile } from "../envs/load.ts";
import { isDriven, isRegistered, makeEnv } from "../envs/registry.ts";
import "../envs/index.ts";
import { within } from "./deadline.ts";
import { playDriven } from "./drive.ts";
import { type EnvCall, type EnvReply, type EnvResult, type EnvSpec, unpackMessages, unpackStep } from "./env-wire.ts";
import type { EpisodeRequest } from "./episode.ts";
import type { Trajectory } from "./trajectory.ts";
import { type Channel, openChannel } from "./worker-channel.ts";

export type { EnvSpec } from "./env-wire.ts";
export type Workers = "inline" | "threads" | "processes";

/** An environment on loan from its host. */
export interface HostedEnv extends Env {
  readonly spec: EnvSpec;
  /** False once its worker has died. */
  readonly alive: boolean;
  close(): Promise<void>;
  /** How an episode of it is played, where that is not turn by turn. It comes from here, so that browsers need no server. */
  readonly play?: ((request: EpisodeRequest) => Promise<Trajectory>) | undefined;
  /** Ends it without asking. */
  kill(): Promise<void>;
}

/** Who lends environments to episodes. */
export type EnvLender = Pick<EnvHost, "acquire" | "release" | "discard">;

/** How long a closing environment may take, and a worker to start (from sources it compiles first). */
const CLOSE_MS = 5_000;
const START_MS = 120_000;
/** Where so many inline ones wait for their next episode, the longest idle makes way for one of another kind. */
const MAX_IDLE = 32;

export class EnvHost {
  readonly workers: Workers;
  #idle: { readonly key: string; readonly env: HostedEnv }[] = [];
  readonly #closing = new Set<Promise<void>>();
  #closed = false;

  constructor(workers: Workers = "inline") {
    if (!["inline", "threads", "processes"].includes(workers)) {
      throw new ConfigError(`workers is "inline", "threads" or "processes", got ${JSON.stringify(workers)}.`);
    }
    this.workers = workers;
  }

  /** An environment that nobody else uses until it is given back. */
  async acquire(spec: EnvSpec): Promise<HostedEnv> {
    if (this.#closed) throw new EnvError("The environments' host is closed. Make a new one.");
    const key = keyOf(spec);
    if (this.#idle.some(({ env }) => !env.alive)) this.#idle = this.#idle.filter(({ env }) => env.alive);
    const same = this.#idle.findLastIndex((idle) => idle.key === key);
    const [found] = same >= 0 ? this.#idle.splice(same, 1) : [];
    if (found !== undefined) return found.env;
    if (this.workers === "inline" || (spec.module === undefined && (await isDriven(spec.id)))) {
      const oldest = this.#idle.length >= MAX_IDLE ? this.#idle.shift() : undefined;
      if (oldest !== undefined) this.discard(oldest.env);
      return InlineEnv.open(spec);
    }
    const idle = this.#idle.findLastIndex(({ env }) => env instanceof RemoteEnv);
    const [other] = idle >= 0 ? this.#idle.splice(idle, 1) : [];
    const env = other?.env instanceof RemoteEnv ? other.env : new RemoteEnv(this.workers);
    try {
      await within(() => env.open(spec), START_MS);
      return env;
    } catch (error) {
      await env.kill();
      throw error;
    }
  }

  /** Gives back an environment whose episode is over, for the next. */
  release(env: HostedEnv): void {
    if (this.#closed) this.discard(env);
    else this.#idle.push({ key: keyOf(env.spec), env });
  }

  /** Gives back an environment that failed: it is closed, or ended at once when it hangs. Goes on in the background. */
  discard(env: HostedEnv, hung = false): void {
    const closing = (hung && this.workers !== "inline" ? Promise.resolve() : within(() => env.close(), CLOSE_MS))
      // It failed before; that it fails to close is no news.
      .catch(() => undefined)
      .then(() => env.kill())
      .finally(() => this.#closing.delete(closing));
    this.#closing.add(closing);
  }

  /** Closes every environment that was given back. */
  async close(): Promise<void> {
    this.#closed = true;
    for (const { env } of this.#idle.splice(0)) this.discard(env);
    await Promise.all(this.#closing);
  }
}

const keyOf = ({ id, options, module }: EnvSpec) => JSON.stringify([id, options ?? {}, module]);

class InlineEnv implements HostedEnv {
  readonly spec: EnvSpec;
  readonly alive = true;
  readonly #env: Env;

  private constructor(spec: EnvSpec, env: Env) {
    this.spec = spec;
    this.#env = env;
  }

  static async open(spec: EnvSpec): Promise<InlineEnv> {
    if (spec.module !== undefined && !isRegistered(spec.id.split("/")[0] as string)) loadFile(spec.module);
    return new InlineEnv(spec, await makeEnv(spec.id, spec.options));
  }

  reset(seed: number) {
    return this.#env.reset(seed);
  }

  step(reply: string) {
    return this.#env.step(reply);
  }

  truncate() {
    return this.#env.truncate?.() ?? [];
  }

  get driver() {
    return this.#env.driver;
  }

  get play() {
    const { driver } = this.#env;
    return driver === undefined ? undefined : (request: EpisodeRequest) => playDriven(request, driver);
  }

  builtinReply(agent: BuiltinAgent, seed: number) {
    return this.#env.builtinReply?.(agent, seed);
  }

  async close(): Promise<void> {
    await this.#env.close?.();
  }

  async kill(): Promise<void> {}
}

type Pending = { readonly resolve: (result: EnvResult) => void; readonly reject: (error: Error) => void };

class RemoteEnv implements HostedEnv {
  #spec: EnvSpec = { id: "" };
  readonly #channel: Channel;
  readonly #pending = new Map<number, Pending>();
  #nextId = 0;
  #dead: string | undefined;

  constructor(workers: "threads" | "processes") {
    this.#channel = openChannel(workers, {
      onReply: (reply) => this.#settle(reply),
      onExit: (cause) => this.#lose(cause),
    });
  }

  get spec(): EnvSpec {
    return this.#spec;
  }

  get alive(): boolean {
    return this.#dead === undefined;
  }

  async open(spec: EnvSpec): Promise<void> {
    this.#spec = spec;
    await this.#call({ kind: "open", spec });
  }

  async reset(seed: number): Promise<Message[]> {
    return unpackMessages((await this.#call({ kind: "reset", seed })) as Message[]);
  }

  async step(reply: string): Promise<Step> {
    return unpackStep((await this.#call({ kind: "step", reply })) as Step);
  }

  async truncate(): Promise<readonly RewardPart[]> {
    return ((await this.#call({ kind: "truncate" })) as readonly RewardPart[] | undefined) ?? [];
  }

  async builtinReply(agent: BuiltinAgent, seed: number): Promise<string | null | undefined> {
    return (await this.#call({ kind: "builtin", agent, seed })) as string | null | undefined;
  }

  async close(): Promise<void> {
    await this.#call({ kind: "close" });
  }

  async kill(): Promise<void> {
    if (this.#dead === undefined) await this.#channel.kill();
  }

  #call(call: EnvCall["call"]): Promise<EnvResult> {
    return new Promise((resolve, reject) => {
      if (this.#dead !== undefined) return reject(workerLost(this.#dead));
      const id = this.#nextId++;
      try {
        this.#channel.send({ id, call });
      } catch (error) {
        const why = `Options of environments in workers must be plain data: ${errorMessage(error)}`;
        return reject(new ConfigError(`${why}. Name things instead of passing them, or use workers: "inline".`));
      }
      this.#pending.set(id, { resolve, reject });
      this.#channel.hold(true);
    });
  }

  #settle({ id, result, error }: EnvReply): void {
    const pending = this.#pending.get(id);
    this.#pending.delete(id);
    if (this.#pending.size === 0) this.#channel.hold(false);
    if (error === undefined) pending?.resolve(result);
    // Errors lose their class on the way.
    else if (error.name === "ConfigError") pending?.reject(new ConfigError(error.message));
    else pending?.reject(thrown(error));
  }

  #lose(cause: string): void {
    this.#dead = cause;
    for (const { reject } of this.#pending.values()) reject(workerLost(cause));
    this.#pending.clear();
  }
}

/** With the stack of where it was thrown, not of here. */
function thrown({ message, stack = "" }: NonNullable<EnvReply["error"]>): EnvError {
  const error = new EnvError(message);
  error.stack = stack;
  return error;
}

function workerLost(cause: string): EnvError {
  return new EnvError(`The environment's worker died (${cause}); a new one takes its place.`);
}
