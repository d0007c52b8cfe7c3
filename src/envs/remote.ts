/**
 * An environment that another process plays, over HTTP: `saccade serve --envs`, the Gymnasium server in `python/`, or one of VAGEN's. Every call of a
 * session is numbered, and a server that has answered a number gives the same answer again, so a call that was lost on the way is sent again without
 * acting twice. A session that is gone is opened anew at the next reset, which decides the episode whatever ran before.
 */
import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { z } from "zod";
import { ConfigError, EnvError, errorMessage } from "../core/errors.ts";
import type { JsonObject } from "../core/json.ts";
import { type Message, text } from "../core/message.ts";
import { defineEnv } from "./define.ts";
import type { BuiltinAgent, Env, RewardPart, Step } from "./env.ts";
import { type Parcel, packParcel, unpackMessages, unpackParcel, unpackStep } from "./remote-wire.ts";
import { serverFields, serverKey } from "./server-options.ts";

const address = z.url({ protocol: /^https?$/ });

const options = z.strictObject({
  url: z
    .union([address, z.array(address).min(1)])
    .describe(
      "Address of the server. With several addresses, sessions are spread over them and stay where they began.",
    ),
  env: z
    .string()
    .optional()
    .describe("Environment on the server. Not needed if `config` names it or the server has only one."),
  config: z.record(z.string(), z.json()).default({}).describe("Options of that environment."),
  ...serverFields,
  retries: z.int().min(0).default(8).describe("Number of further attempts."),
  backoffMs: z
    .int()
    .min(0)
    .default(200)
    .describe("Wait before the first retry, in milliseconds. It doubles with every retry, up to 10 s."),
});
type Settings = z.output<typeof options>;

export const remote = defineEnv({
  id: "remote",
  summary: "an environment that another process serves over HTTP",
  options,
  create: (settings) => new HttpEnv(settings),
});

const MAX_WAIT_MS = 10_000;
/** Busy or on its way up; anything else that is not 200 stays as it is. */
const PASSING = new Set([408, 425, 429, 502, 503, 504]);
let opened = 0;

type Session = { readonly url: string; readonly id: string; readonly methods: readonly string[]; call: number };

class Refused extends EnvError {
  readonly status: number;
  constructor(url: string, status: number, message: string) {
    super(`${url} answered ${status}: ${message}`);
    this.status = status;
  }
}

export class HttpEnv implements Env {
  readonly #settings: Settings;
  #session: Session | undefined;

  constructor(settings: Settings) {
    this.#settings = settings;
  }

  async reset(seed: number): Promise<Message[]> {
    if (this.#session !== undefined) {
      try {
        return await this.#begin(this.#session, seed);
      } catch (error) {
        if (!(error instanceof Refused && error.status === 404)) throw error;
      }
    }
    this.#session = await this.#connect();
    return this.#begin(this.#session, seed);
  }

  async step(reply: string): Promise<Step> {
    return unpackStep(await this.#call(this.#playing(), "step", { action_str: reply }));
  }

  async truncate(): Promise<readonly RewardPart[]> {
    const session = this.#playing();
    if (!session.methods.includes("truncate")) return [];
    const { data } = await this.#call(session, "truncate", {});
    return data.rewards as unknown as RewardPart[];
  }

  async builtinReply(agent: BuiltinAgent, seed: number): Promise<string | null | undefined> {
    const session = this.#playing();
    if (!session.methods.includes("builtin")) return undefined;
    const { data } = await this.#call(session, "builtin", { agent, seed });
    return data.reply as string | null | undefined;
  }

  async close(): Promise<void> {
    const session = this.#session;
    this.#session = undefined;
    if (session === undefined) return;
    try {
      await this.#call(session, "close", {});
    } catch (error) {
      // It was closed, or the server is gone and closes what is idle when it is back.
      if (!(error instanceof EnvError)) throw error;
    }
  }

  #playing(): Session {
    if (this.#session === undefined) throw new EnvError("Call reset(seed) before step().");
    return this.#session;
  }

  async #begin(session: Session, seed: number): Promise<Message[]> {
    const parcel = await this.#call(session, "reset", { seed });
    const messages = await unpackMessages(parcel);
    // Servers that say `messages` have said all; the others keep the instruction apart.
    if (parcel.data.messages !== undefined) return messages;
    const { data } = await this.#call(session, "system_prompt", {});
    if (typeof data.obs !== "string" || data.obs === "") return messages;
    return [{ role: "system", content: [text(data.obs)] }, ...messages];
  }

  /** The first of the addresses that takes a session. */
  async #connect(): Promise<Session> {
    const { url, env, config } = this.#settings;
    const urls = (typeof url === "string" ? [url] : url).map((one) => one.replace(/\/+$/, ""));
    const first = opened++;
    const body = { env_config: { ...(env !== undefined && { env }), ...config }, key: randomUUID() };
    let failure: unknown;
    for (let i = 0; i < urls.length; i++) {
      const at = urls[(first + i) % urls.length] as string;
      try {
        const { data } = await this.#ask(at, "/connect", body);
        const { session_id: id, methods = [] } = data;
        if (typeof id !== "string") throw new EnvError(`${at} opened a session without a session_id.`);
        return { url: at, id, methods: methods as string[], call: 0 };
      } catch (error) {
        failure = error;
        if (error instanceof Refused && error.status === 400) throw new ConfigError(error.message);
      }
    }
    throw failure;
  }

  #call(session: Session, method: string, params: JsonObject): Promise<Parcel> {
    return this.#ask(session.url, "/call", { session_id: session.id, method, params, call: session.call++ });
  }

  async #ask(url: string, path: string, data: JsonObject): Promise<Parcel> {
    const { retries, backoffMs } = this.#settings;
    for (let tries = 0; ; tries++) {
      const answer = await this.#once(url, path, data);
      if ("parcel" in answer) return answer.parcel;
      const { refusal, waitMs = 0 } = answer;
      if (tries >= retries) throw refusal;
      // Uneven, so that many who were refused together do not come back together.
      const pause = backoffMs * 2 ** tries * (0.5 + Math.random());
      await sleep(Math.min(Math.max(pause, waitMs), MAX_WAIT_MS));
    }
  }

  /** The answer, or a refusal that may pass; one that stays is thrown. */
  async #once(
    url: string,
    path: string,
    data: JsonObject,
  ): Promise<{ parcel: Parcel } | { refusal: EnvError; waitMs?: number }> {
    const { timeoutMs } = this.#settings;
    const key = serverKey(this.#settings);
    const { type, body } = packParcel({ data, images: [] }, "form-data");
    let answer: Response;
    let bytes: Uint8Array;
    try {
      answer = await fetch(`${url}${path}`, {
        method: "POST",
        headers: { "Content-Type": type, ...(key ? { "X-API-Key": key } : {}) },
        body,
        redirect: "error",
        signal: AbortSignal.timeout(timeoutMs),
      });
      bytes = new Uint8Array(await answer.arrayBuffer());
    } catch (error) {
      const why = error instanceof Error && error.cause !== undefined ? error.cause : error;
      return { refusal: new EnvError(`${url} can't be reached: ${errorMessage(why)}`) };
    }
    if (answer.ok) return { parcel: unpackParcel(bytes, answer.headers.get("content-type")) };
    const refusal = new Refused(`${url}${path}`, answer.status, words(bytes));
    if (!PASSING.has(answer.status)) throw refusal;
    return { refusal, waitMs: 1000 * Number(answer.headers.get("retry-after") ?? 0) || 0 };
  }
}

/** The forms in which servers say what is wrong. */
function words(bytes: Uint8Array): string {
  const said = new TextDecoder().decode(bytes.subarray(0, 2000));
  try {
    const { error, detail } = JSON.parse(said) as { error?: unknown; detail?: unknown };
    const inner = typeof error === "object" && error !== null && "message" in error ? error.message : error;
    return String(inner ?? detail ?? said);
  } catch {
    return said || "nothing";
  }
}
