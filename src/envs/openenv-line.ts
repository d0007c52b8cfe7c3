/**
 * The line to an OpenEnv server: one WebSocket per episode after another, one message at a time. An answer that does not come in time, or a line that breaks,
 * is an `EnvError`; the next episode dials again.
 */
import WebSocket from "ws";
import { z } from "zod";
import { EnvError, errorMessage } from "../core/errors.ts";
import { isJsonObject, type Json, type JsonObject } from "../core/json.ts";
import type { ToolText } from "./protocols/tool-text.ts";

/** What OpenEnv's own client takes. */
const MAX_BYTES = 100 * 1024 * 1024;
const MAX_DESCRIPTION = 4000;

const answerSchema = z.looseObject({ type: z.string(), data: z.record(z.string(), z.unknown()).default({}) });
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

export class OpenEnvLine {
  readonly #options: LineOptions;
  readonly #base: string;
  #socket: WebSocket | undefined;

  constructor(options: LineOptions) {
    this.#options = options;
    this.#base = options.url.replace(/^ws/, "http").replace(/\/+$/, "");
  }

  async begin(data: JsonObject): Promise<Observed> {
    if (this.#socket?.readyState !== WebSocket.OPEN) this.#socket = await this.#dial();
    const answer = await this.#ask({ type: "reset", data });
    if (answer.type === "error") throw this.#failure("reset", answer.data);
    return this.#observed(answer.data);
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
    const socket = this.#socket;
    this.#socket = undefined;
    if (socket?.readyState !== WebSocket.OPEN) return;
    socket.send(JSON.stringify({ type: "close" }));
    socket.close();
  }

  #headers(): Record<string, string> {
    const key = process.env[this.#options.keyVariable];
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

  #dial(): Promise<WebSocket> {
    const { timeoutMs } = this.#options;
    const socket = new WebSocket(`${this.#base.replace(/^http/, "ws")}/ws`, {
      headers: this.#headers(),
      handshakeTimeout: timeoutMs,
      maxPayload: MAX_BYTES,
      followRedirects: false,
    });
    return new Promise((done, fail) => {
      socket.once("open", () => done(socket));
      socket.on("error", (error) => fail(new EnvError(`${this.#base}/ws can't be reached: ${errorMessage(error)}`)));
    });
  }

  #ask(message: JsonObject): Promise<z.output<typeof answerSchema>> {
    const socket = this.#socket;
    if (socket === undefined) throw new EnvError("The line is closed: reset first.");
    return new Promise((done, fail) => {
      const end = (error: Error) => {
        finish();
        socket.terminate();
        if (this.#socket === socket) this.#socket = undefined;
        fail(error);
      };
      const onMessage = (data: WebSocket.RawData) => {
        finish();
        try {
          done(answerSchema.parse(JSON.parse(String(data))));
        } catch {
          end(new EnvError(`${this.#base}/ws sent something that is no answer: ${String(data).slice(0, 200)}`));
        }
      };
      const onClose = (code: number) => end(new EnvError(`${this.#base}/ws closed the connection (${code}).`));
      const wait = setTimeout(
        () => end(new EnvError(`${this.#base}/ws gave no answer within ${this.#options.timeoutMs} ms.`)),
        this.#options.timeoutMs,
      );
      const finish = () => {
        clearTimeout(wait);
        socket.off("message", onMessage);
        socket.off("close", onClose);
      };
      socket.on("message", onMessage);
      socket.on("close", onClose);
      socket.send(JSON.stringify(message));
    });
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
