/**
 * Environments over HTTP: `POST /connect` opens a session, `POST /call` plays in it, `GET /sessions` lists them. One session is one environment. Its
 * calls are done one after another; a call that carries a number is done once, however often it arrives: the newest answer is given again, an older
 * number is refused. Sessions that nobody uses are closed.
 */
import { randomUUID } from "node:crypto";
import { z } from "zod";
import { ConfigError, DataError, EnvError, SaccadeError } from "../core/errors.ts";
import type { JsonObject } from "../core/json.ts";
import { isPath } from "../envs/load.ts";
import { isElsewhere, isRegistered, listEnvs } from "../envs/registry.ts";
import { MORE_METHODS, type Parcel, packMessages, packParcel, packStep, unpackParcel } from "../envs/remote-wire.ts";
import { HttpError } from "../http/errors.ts";
import { refuseFiles } from "../http/foreign.ts";
import { readBody, Slots } from "../http/limits.ts";
import type { HttpRequest } from "../http/request.ts";
import { json } from "../http/responses.ts";
import { TimedOut, within } from "../rollout/deadline.ts";
import { EnvHost, type HostedEnv, type Workers } from "../rollout/hosts.ts";
import { readFields } from "../wire/errors.ts";

export type EnvironmentsOptions = {
  /** Ids or files that may be played; `all` is every built-in one. */
  readonly names: readonly string[];
  readonly workers?: Workers;
  /** Most sessions at a time; default 1024. */
  readonly sessions?: number;
  /** Seconds after which an unused session is closed; default 1800. */
  readonly idleSeconds?: number;
  /** Calls at work at a time; default 64. */
  readonly inflight?: number;
  /** Calls that wait besides; one more is told to come back; default 4096. */
  readonly waiting?: number;
  /** Seconds after which a call that hangs ends its session; default 600. */
  readonly callSeconds?: number;
};

/** Calls carry text, never images. */
const MAX_BYTES = 4 * 1024 * 1024;
const seed = z.int().min(0);
/** It was parsed, so it is JSON. */
const anything = z.record(z.string(), z.unknown()).transform((fields) => fields as JsonObject);
const connectSchema = z.object({
  env_config: anything.default({}),
  seed: seed.nullish(),
  /** The same key is the same session. */
  key: z.string().min(1).max(200).nullish(),
});
const callSchema = z.object({
  session_id: z.string(),
  method: z.string(),
  params: anything.nullish(),
  /** Counts the session's calls from 0. */
  call: z.int().min(0).nullish(),
});
const resetParams = z.object({ seed });
const stepParams = z.object({ action_str: z.string() });
const builtinParams = z.object({ agent: z.enum(["oracle", "random", "stop", "slip"]), seed });

type Session = {
  readonly id: string;
  readonly created: number;
  readonly env: HostedEnv;
  used: number;
  /** Calls under way. */
  busy: number;
  /** Reset, and not over yet. */
  playing: boolean;
  last: Promise<Parcel>;
  /** What `last` answers; -1 before the first numbered call. */
  call: number;
  asked: string;
};

export class Environments {
  readonly maxInflight: number;
  readonly #names: readonly string[];
  readonly #host: EnvHost;
  readonly #most: number;
  readonly #idleMs: number;
  readonly #callMs: number;
  readonly #slots: Slots;
  readonly #sessions = new Map<string, Session>();
  /** Answers to `connect` by key, with the time they were given. */
  readonly #opened = new Map<string, { readonly answer: Promise<Parcel>; at: number }>();
  readonly #sweep: NodeJS.Timeout;
  #opening = 0;

  constructor(options: EnvironmentsOptions) {
    const {
      names,
      workers,
      sessions = 1024,
      idleSeconds = 1800,
      inflight = 64,
      waiting = 4096,
      callSeconds = 600,
    } = options;
    for (const name of names) {
      if (name !== "all" && !isPath(name) && !isRegistered(baseOf(name))) {
        throw new ConfigError(`There is no environment "${name}" to serve; saccade envs lists them.`);
      }
    }
    this.#names = names;
    this.#host = new EnvHost(workers);
    this.#most = sessions;
    this.#idleMs = idleSeconds * 1000;
    this.#callMs = callSeconds * 1000;
    this.maxInflight = inflight;
    this.#slots = new Slots({ most: inflight, waiting });
    this.#sweep = setInterval(() => this.#closeIdle(), Math.min(this.#idleMs / 4, 60_000)).unref();
  }

  async connect(request: HttpRequest): Promise<Response> {
    const { env_config: config, seed, key } = readFields(connectSchema, await this.#read(request), "data");
    const known = key ? this.#opened.get(key) : undefined;
    if (known !== undefined) return answer(known.answer);
    const opening = this.#slots.run(() => this.#open(config, seed ?? undefined));
    if (key) {
      this.#opened.set(key, { answer: opening, at: Date.now() });
      // What failed may be tried again.
      opening.catch(() => this.#opened.delete(key));
    }
    return answer(opening);
  }

  async call(request: HttpRequest): Promise<Response> {
    const { session_id: id, method, params, call } = readFields(callSchema, await this.#read(request), "data");
    const session = this.#find(id);
    const asked = JSON.stringify([method, params ?? {}]);
    const asItWas = { call: session.call, asked: session.asked };
    if (typeof call === "number") {
      if (call === session.call && asked === session.asked) return answer(session.last);
      if (call !== session.call + 1) {
        throw new HttpError(
          409,
          `Call ${call} was already answered or comes too early: the next is ${session.call + 1}.`,
        );
      }
      session.call = call;
      session.asked = asked;
    }
    const before = session.last;
    const last = this.#queue(session, method, params ?? {});
    last.catch((error: unknown) => {
      // It was not even begun, so the same call may come again.
      if (!(error instanceof HttpError && error.status === 503) || session.last !== last) return;
      Object.assign(session, { last: before, ...asItWas });
    });
    return answer(last);
  }

  /** For other wires: opens a session and gives its id. `config` is what `connect` takes as `env_config`. */
  async open(config: JsonObject): Promise<string> {
    const { data } = await this.#slots.run(() => this.#open(config, undefined));
    return data.session_id as string;
  }

  /** For other wires: plays in a session; see `call`. */
  async act(id: string, method: string, params: JsonObject = {}): Promise<Parcel> {
    return this.#queue(this.#find(id), method, params);
  }

  end(id: string): void {
    const session = this.#sessions.get(id);
    if (session !== undefined) this.#end(session);
  }

  /** Names that may be played; `all` is spelled out. */
  async names(): Promise<string[]> {
    const all = this.#names.includes("all") ? (await listEnvs()).map(({ id }) => id) : [];
    const own = this.#names.filter((name) => name !== "all");
    return [...own, ...all.filter((id) => !isElsewhere(id) && !own.includes(id))];
  }

  /** Throws unless it may be played. */
  checkName(name: unknown): string {
    return this.#allowed(name);
  }

  #find(id: string): Session {
    const session = this.#sessions.get(id);
    if (session === undefined) throw new HttpError(404, "There is no such session: it was closed, or never opened.");
    session.used = Date.now();
    return session;
  }

  /** One after another, whatever became of the one before. It goes on when its caller leaves, who may ask again. */
  #queue(session: Session, method: string, params: JsonObject): Promise<Parcel> {
    const before = session.last;
    session.busy += 1;
    session.last = before
      .catch(() => undefined)
      .then(() => this.#slots.run(() => this.#within(session, () => this.#perform(session, method, params))))
      .finally(() => {
        session.busy -= 1;
        session.used = Date.now();
      });
    return session.last;
  }

  list(): Response {
    const now = Date.now();
    const sessions = [...this.#sessions.values()].map(({ id, created, used, env }) => ({
      session_id: id,
      env: env.spec.id,
      created_at: created / 1000,
      last_access: used / 1000,
      idle_seconds: (now - used) / 1000,
      will_timeout_in: Math.max(0, this.#idleMs - (now - used)) / 1000,
    }));
    const limits = { num_sessions: sessions.length, max_sessions: this.#most, session_timeout: this.#idleMs / 1000 };
    return json({ ...limits, sessions });
  }

  async close(): Promise<void> {
    clearInterval(this.#sweep);
    for (const session of [...this.#sessions.values()]) this.#end(session);
    await this.#host.close();
  }

  async #read(request: HttpRequest): Promise<JsonObject> {
    return unpackParcel(await readBody(request, MAX_BYTES), request.headers.get("content-type")).data;
  }

  async #open(config: JsonObject, seed: number | undefined): Promise<Parcel> {
    const { env: named, ...options } = config;
    const name = this.#allowed(named);
    refuseFiles(options, "env_config");
    if (this.#sessions.size + this.#opening >= this.#most) {
      throw new HttpError(503, `All ${this.#most} sessions are taken; close some, or wait.`, { "Retry-After": "1" });
    }
    this.#opening += 1;
    try {
      const env = await this.#host.acquire({ id: name, options });
      const id = randomUUID();
      const now = Date.now();
      const data: JsonObject = { session_id: id, methods: MORE_METHODS };
      try {
        const first =
          seed === undefined
            ? { data: {}, images: [] }
            : packMessages(await within(() => env.reset(seed), this.#callMs));
        const opened = { data: { ...data, ...first.data, info: {} }, images: first.images };
        const last = Promise.resolve(opened);
        this.#sessions.set(id, {
          ...{ id, created: now, used: now, env, busy: 0, last, call: -1, asked: "" },
          playing: seed !== undefined,
        });
        return opened;
      } catch (error) {
        this.#host.discard(env);
        throw error;
      }
    } finally {
      this.#opening -= 1;
    }
  }

  /**
   * A name as the server was told it, or a registered id below one of those, so that a request can load no file. `all` leaves out what is served
   * elsewhere: that is not fetched for others.
   */
  #allowed(named: unknown): string {
    const [only] = this.#names;
    if (named === undefined && this.#names.length === 1 && only !== undefined && only !== "all") return only;
    if (typeof named === "string") {
      if (this.#names.includes(named)) return named;
      const covers = (name: string) => (name === "all" ? !isElsewhere(named) : name === baseOf(named));
      if (this.#names.some(covers) && isId(named)) return named;
    }
    throw new ConfigError(`env_config.env names one of: ${this.#names.join(", ")}; got ${JSON.stringify(named)}.`);
  }

  /** An environment that hangs or breaks is not played on. */
  async #within(session: Session, work: () => Promise<Parcel>): Promise<Parcel> {
    try {
      return await within(work, this.#callMs);
    } catch (error) {
      if (error instanceof TimedOut) this.#end(session, true);
      else if (!(error instanceof SaccadeError) || error instanceof EnvError) session.playing = false;
      throw error;
    }
  }

  async #perform(session: Session, method: string, params: JsonObject): Promise<Parcel> {
    if (!this.#sessions.has(session.id)) throw new HttpError(404, "The session was closed.");
    const { env } = session;
    if (["step", ...MORE_METHODS].includes(method) && !session.playing) {
      throw new HttpError(409, `The session has no running episode: call reset before ${method}.`);
    }
    switch (method) {
      // The first messages say it all.
      case "system_prompt":
        return { data: { obs: "" }, images: [] };
      case "reset": {
        const { data, images } = packMessages(await env.reset(readFields(resetParams, params, "params").seed));
        session.playing = true;
        return { data: { ...data, info: {} }, images };
      }
      case "step": {
        const step = await env.step(readFields(stepParams, params, "params").action_str);
        session.playing = !(step.terminated || step.truncated);
        return packStep(step);
      }
      case "truncate":
        return { data: { rewards: [...((await env.truncate?.()) ?? [])] } as unknown as JsonObject, images: [] };
      case "builtin": {
        const { agent, seed } = readFields(builtinParams, params, "params");
        const reply = await env.builtinReply?.(agent, seed);
        return { data: reply === undefined ? {} : { reply }, images: [] };
      }
      case "close":
        this.#end(session);
        return { data: { closed: true }, images: [] };
      default:
        throw new DataError(`method is reset, step, system_prompt, close, ${MORE_METHODS.join(" or ")}.`);
    }
  }

  /** Not kept for the next: clients keep theirs over many episodes, and every other set of options would stay for good. */
  #end(session: Session, hung = false): void {
    if (this.#sessions.delete(session.id)) this.#host.discard(session.env, hung);
  }

  #closeIdle(): void {
    const then = Date.now() - this.#idleMs;
    for (const session of this.#sessions.values()) if (session.busy === 0 && session.used < then) this.#end(session);
    for (const [key, { at }] of this.#opened) if (at < then) this.#opened.delete(key);
  }
}

const baseOf = (name: string) => name.split("/")[0] as string;

/** The whole name: what only begins like an id may end as a file. An id and a difficulty, without a dot, are never one. */
function isId(name: string): boolean {
  return /^[a-z0-9_-]+(\/[a-z0-9_-]+)?$/.test(name) && isRegistered(baseOf(name));
}

async function answer(work: Promise<Parcel>): Promise<Response> {
  try {
    const { type, body } = packParcel(await work, "mixed");
    return new Response(body, { headers: { "Content-Type": type, "Content-Length": String(body.length) } });
  } catch (error) {
    // An environment that broke is no fault of the request.
    if (error instanceof HttpError || (error instanceof SaccadeError && !(error instanceof EnvError))) throw error;
    throw new HttpError(500, error instanceof Error ? error.message : String(error));
  }
}
