/**
 * The line to an OpenEnv server: one WebSocket for one episode after another. An answer that does not come in time, or a line that breaks, is an
 * `EnvError`; the next episode dials again. A server has so many sessions (one, as `openenv init` makes it): where all are taken, lines of this process that
 * rest between episodes give theirs up, and an episode waits for a while.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { z } from "zod";
import { EnvError, errorMessage } from "../core/errors.ts";
import { isJsonObject, type Json, type JsonObject } from "../core/json.ts";
import { Exchange } from "./exchange.ts";
import type { ToolText } from "./protocols/tool-text.ts";
import { serverKey } from "./server-options.ts";

const MAX_DESCRIPTION = 4000;
/** Between looks for a free session. */
const PAUSE_MS = 100;
/** The share of the time limit that a wait for a session may take, so that its error comes before the episode's own deadline. */
const PATIENCE = 0.75;

const answerSchema = z.looseObject({ type: z.string(), data: z.record(z.string(), z.unknown()).default({}) });
type Answer = z.output<typeof answerSchema>;
const observationSchema = z.looseObject({
  observation: z.record(z.string(), z.json()).default({}),
  reward: z.union([z.number(), z.boolean()]).nullish(),
  done: z.boolean().default(false),
  metadata: z.record(z.string(), z.unknown()).nullish(),
});
const toolsSchema = z.looseObject({
  result: z.looseObject({
    tools: z.array(
      z.looseObject({
        name: z.string(),
        description: z.string().nullish(),
        inputSchema: z.record(z.string(), z.json()).optional(),
        input_schema: z.record(z.string(), z.json()).optional(),
      }),
    ),
  }),
});

export type Observed = {
  readonly observation: JsonObject;
  readonly reward: number;
  readonly done: boolean;
  readonly success: boolean | undefined;
};
export type Refused = { readonly problem: string };
export type LineOptions = { readonly url: string; readonly keyVariable: string; readonly timeoutMs: number };

/** Lines that hold a session and play no episode, by server. */
const resting = new Map<string, Set<OpenEnvLine>>();

export class OpenEnvLine {
  readonly #options: LineOptions;
  readonly #base: string;
  #exchange: Exchange | undefined;

  constructor(options: LineOptions) {
    this.#options = options;
    this.#base = options.url.replace(/^ws/, "http").replace(/\/+$/, "");
  }

  async begin(data: JsonObject): Promise<Observed> {
    const until = performance.now() + PATIENCE * this.#options.timeoutMs;
    resting.get(this.#base)?.delete(this);
    for (;;) {
      if (!this.#exchange?.isOpen) this.#exchange = await this.#dial();
      const answer = await this.#ask({ type: "reset", data });
      if (answer.type !== "error") return this.#observed(answer.data);
      if (answer.data.code !== "CAPACITY_REACHED") throw this.#failure("reset", answer.data);
      this.#exchange.end();
      if (performance.now() > until) {
        throw new EnvError(
          `${this.#base} has no free session: ${String(answer.data.message)}. Let it serve more (max_concurrent_envs), or play fewer episodes at a time (rollout.live).`,
        );
      }
      for (const line of resting.get(this.#base) ?? []) await line.close();
      await sleep(PAUSE_MS * (0.5 + Math.random()));
    }
  }

  /** The episode is over. The session is kept for the next one until another line needs it. */
  rest(): void {
    const lines = resting.get(this.#base) ?? new Set();
    resting.set(this.#base, lines.add(this));
  }

  /** A refusal is the action's fault, not the server's. */
  async step(action: JsonObject): Promise<Observed | Refused> {
    const { type, data } = await this.#ask({ type: "step", data: action });
    if (type !== "error") return this.#observed(data);
    if (data.code !== "VALIDATION_ERROR") throw this.#failure("step", data);
    return { problem: refusalWords(data) };
  }

  async tools(): Promise<ToolText[]> {
    const { data } = await this.#ask({
      type: "mcp",
      data: { jsonrpc: "2.0", id: 1, method: "tools/list", params: {} },
    });
    const read = toolsSchema.safeParse(data);
    if (!read.success) return [];
    return read.data.result.tools.map(({ name, description, inputSchema, input_schema: other }) => ({
      name,
      description: description ?? name,
      parameters: inputSchema ?? other ?? { type: "object", properties: {} },
    }));
  }

  /** The schema of actions, and the server's words on itself. */
  async describe(): Promise<{ readonly action: JsonObject; readonly description: string }> {
    const [schema, metadata] = await Promise.all([this.#get("/schema"), this.#get("/metadata").catch(() => ({}))]);
    const { action } = schema as { action?: Json };
    if (!isJsonObject(action)) throw new EnvError(`${this.#base}/schema has no action: is it an OpenEnv server?`);
    const { description } = metadata as { description?: unknown };
    return { action, description: typeof description === "string" ? description.slice(0, MAX_DESCRIPTION) : "" };
  }

  async close(): Promise<void> {
    const exchange = this.#exchange;
    this.#exchange = undefined;
    resting.get(this.#base)?.delete(this);
    exchange?.end(JSON.stringify({ type: "close" }));
  }

  #headers(): Record<string, string> {
    const key = serverKey(this.#options);
    return key ? { Authorization: `Bearer ${key}` } : {};
  }

  async #get(path: string): Promise<Json> {
    try {
      const signal = AbortSignal.timeout(this.#options.timeoutMs);
      const answer = await fetch(`${this.#base}${path}`, { headers: this.#headers(), redirect: "error", signal });
      if (!answer.ok) throw new Error(`it answered ${answer.status}`);
      return (await answer.json()) as Json;
    } catch (error) {
      throw new EnvError(`${this.#base}${path} can't be read: ${errorMessage(error)}`);
    }
  }

  #dial(): Promise<Exchange> {
    return Exchange.open(`${this.#base.replace(/^http/, "ws")}/ws`, this.#headers(), this.#options.timeoutMs);
  }

  async #ask(message: JsonObject): Promise<Answer> {
    const exchange = this.#exchange;
    if (exchange === undefined) throw new EnvError("The connection is closed: call reset first.");
    const said = await exchange.ask(JSON.stringify(message));
    try {
      return answerSchema.parse(JSON.parse(said));
    } catch {
      exchange.end();
      throw new EnvError(`${this.#base}/ws sent something that is not an answer: ${said.slice(0, 200)}`);
    }
  }

  #observed(data: unknown): Observed {
    const read = observationSchema.safeParse(data);
    if (!read.success) {
      const [issue] = read.error.issues;
      throw new EnvError(
        `${this.#base}/ws sent an observation that can't be read: ${issue?.path.join(".")}: ${issue?.message}`,
      );
    }
    const { observation, reward, done, metadata } = read.data;
    const success = metadata?.success;
    return {
      observation,
      reward: Number(reward ?? 0),
      done,
      success: typeof success === "boolean" ? success : undefined,
    };
  }

  #failure(what: string, data: Readonly<Record<string, unknown>>): EnvError {
    return new EnvError(`${this.#base}: ${what} failed (${String(data.code)}): ${String(data.message)}`);
  }
}

function refusalWords({ message, errors }: Readonly<Record<string, unknown>>): string {
  const each = Array.isArray(errors)
    ? errors.flatMap((one) => (isJsonObject(one) ? [`${[one.loc].flat().join(".")}: ${String(one.msg)}`] : []))
    : [];
  return `The action was refused. ${each.length > 0 ? each.join("; ") : String(message)}`.slice(0, 1000);
}
