/**
 * Our environments as an OpenEnv server (0.10, simulation mode). An episode lives on a WebSocket: `/ws`, one connection one environment. `/reset` and
 * `/step` are single calls, as in OpenEnv, each on an environment of its own. A reset may name the environment (`env`) and its options besides the seed.
 */
import { z } from "zod";
import { errorMessage } from "../core/errors.ts";
import { isJsonObject, type Json, type JsonObject, JsonScan } from "../core/json.ts";
import { envRows } from "../envs/registry.ts";
import { HttpError } from "../http/errors.ts";
import { readJson } from "../http/limits.ts";
import type { HttpRequest } from "../http/request.ts";
import { json } from "../http/responses.ts";
import type { Conversation } from "../http/sockets.ts";
import type { Environments } from "./environments.ts";
import { answerRpc } from "./mcp-rpc.ts";
import {
  actionSchema,
  type FrameForm,
  readReset,
  readWire,
  SCHEMAS,
  WireError,
  wireError,
  wireObservation,
} from "./openenv-wire.ts";
import { Seat } from "./seat.ts";

const MAX_BYTES = 4 * 1024 * 1024;
const LIMITS = { values: 2 ** 16, structures: 2 ** 14, nesting: 100 };
/** Seeds that a split without rows offers, and tasks that one answer lists. */
const MAX_SEEDS = 2 ** 31;
const MAX_TASKS = 10_000;
const SPLIT = "seeds";

const messageSchema = z.object({ type: z.string(), data: z.unknown().optional() });
const stepRequest = z.looseObject({ action: z.unknown() });
const splitRequest = z.object({
  split: z.literal(SPLIT),
  index: z.int().min(0).optional(),
  start: z.int().min(0).nullish(),
  stop: z.int().min(0).nullish(),
});
const TASK_PATH = /^\/(.+)\/(splits|tasks|num_tasks|task|task_range)$/;

export class OpenEnv {
  readonly #environments: Environments;

  constructor(environments: Environments) {
    this.#environments = environments;
  }

  /** Undefined: not a route of OpenEnv's. */
  answer(request: HttpRequest): Promise<Response> | undefined {
    const { pathname } = new URL(request.url);
    switch (`${request.method} ${pathname}`) {
      case "GET /health":
        return Promise.resolve(json({ status: "healthy" }));
      case "GET /metadata":
        return this.#metadata();
      case "GET /schema":
        return Promise.resolve(json(SCHEMAS));
      case "GET /state":
        return Promise.resolve(json(new Seat(this.#environments).state));
      case "POST /reset":
        return this.#alone(request, (seat, body) => reset(seat, body));
      case "POST /step":
        return this.#alone(request, async (seat, body) => {
          const { action } = readWire(stepRequest, body, "body");
          const reply = readWire(actionSchema, action, "action");
          await seat.reset({ seed: 0 });
          return { answer: await wireObservation(await seat.step(reply.action_str), "uris") };
        });
      case "POST /mcp":
        return this.#mcp(request);
      case "GET /list_environments":
        return this.#environments.names().then((names) => json(names));
      default: {
        const found = TASK_PATH.exec(pathname);
        return found === null ? undefined : this.#tasks(found[1] as string, found[2] as string, request);
      }
    }
  }

  /** What a WebSocket at a path talks to; undefined: there is none. */
  conversation(pathname: string): (() => Conversation) | undefined {
    if (pathname !== "/ws" && pathname !== "/mcp") return undefined;
    return () => {
      const seat = new Seat(this.#environments);
      const answer = pathname === "/ws" ? episode(seat, this.#environments) : rpc(seat, this.#environments);
      return { answer, close: () => seat.close() };
    };
  }

  async #metadata(): Promise<Response> {
    const names = await this.#environments.names();
    const several = names.length > 1 ? ` Name one in reset(env=…): ${names.slice(0, 100).join(", ")}.` : "";
    return json({
      name: names.length === 1 ? names[0] : "saccade",
      description: `Visual worlds of Saccade.${several}`,
      readme_content: null,
      version: null,
      author: null,
      documentation_url: null,
    });
  }

  async #alone(
    request: HttpRequest,
    work: (seat: Seat, body: unknown) => Promise<{ readonly answer: JsonObject }>,
  ): Promise<Response> {
    const seat = new Seat(this.#environments);
    try {
      return json((await work(seat, await readJson(request, MAX_BYTES))).answer);
    } catch (error) {
      if (error instanceof WireError) return json({ detail: [...error.errors] }, { status: 422 });
      throw error;
    } finally {
      seat.close();
    }
  }

  async #mcp(request: HttpRequest): Promise<Response> {
    const seat = new Seat(this.#environments);
    try {
      return json(await answerRpc(await readJson(request, MAX_BYTES), seat, this.#environments));
    } finally {
      seat.close();
    }
  }

  /** Episodes as tasks: rows of data where there are some, else seeds. */
  async #tasks(name: string, route: string, request: HttpRequest): Promise<Response> {
    const env = this.#environments.checkName(name);
    if ((request.method === "GET") !== (route === "splits")) throw new HttpError(405, "Method Not Allowed");
    if (route === "splits") return json([{ name: SPLIT, type: "train" }]);
    const count = (await envRows(env)) ?? MAX_SEEDS;
    const body = splitRequest.safeParse(await readJson(request, MAX_BYTES));
    if (!body.success)
      throw new HttpError(
        400,
        `Send {"split": "${SPLIT}"} and what the route takes: ${body.error.issues[0]?.message}.`,
      );
    const { index, start, stop } = body.data;
    const task = (seed: number) => ({ env, seed });
    switch (route) {
      case "num_tasks":
        return json({ num_tasks: count });
      case "task":
        if (index === undefined || index >= count)
          throw new HttpError(400, `index must be 0 to ${count - 1}; got ${index}.`);
        return json({ task: task(index) });
      default: {
        const from = route === "tasks" ? 0 : (start ?? 0);
        const to = Math.min(route === "tasks" ? count : (stop ?? count), count);
        if (to - from > MAX_TASKS)
          throw new HttpError(400, `An answer lists at most ${MAX_TASKS} tasks: use task_range.`);
        const tasks = Array.from({ length: Math.max(0, to - from) }, (_, i) => task(from + i));
        return json(route === "tasks" ? { tasks, env_name: env } : { tasks });
      }
    }
  }
}

async function reset(seat: Seat, data: unknown): Promise<{ answer: JsonObject; frames: FrameForm }> {
  const { frames, ...asked } = readReset(data);
  return { answer: await wireObservation(await seat.reset(asked), frames), frames };
}

/** Text to JSON that is neither broken nor too much. */
function parse(message: Buffer): Json {
  const wrong = new JsonScan(LIMITS).push(message);
  if (wrong !== undefined) throw new WireError("INVALID_JSON", `The message is too much: ${wrong}.`);
  try {
    return JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(message)) as Json;
  } catch (error) {
    throw new WireError("INVALID_JSON", `The message is not JSON: ${errorMessage(error)}`);
  }
}

/** One connection of `/ws`. */
function episode(seat: Seat, environments: Environments): Conversation["answer"] {
  let frames: FrameForm = "uris";
  const said = async (message: Buffer): Promise<JsonObject | undefined> => {
    const { type, data } = readWire(messageSchema, parse(message), "message");
    switch (type) {
      case "reset": {
        const begun = await reset(seat, data);
        frames = begun.frames;
        return { type: "observation", data: begun.answer };
      }
      case "step": {
        const { action_str: reply } = readWire(actionSchema, data, "data");
        return { type: "observation", data: await wireObservation(await seat.step(reply), frames) };
      }
      case "state":
        return { type, data: seat.state };
      case "mcp":
        return { type, data: await answerRpc(data, seat, environments) };
      case "close":
        seat.close();
        return undefined;
      default:
        throw new WireError(
          "UNKNOWN_TYPE",
          `type is reset, step, state, mcp or close; got ${JSON.stringify(type.slice(0, 100))}.`,
        );
    }
  };
  return async (message) => {
    try {
      const answer = await said(message);
      return answer && JSON.stringify(answer);
    } catch (error) {
      return JSON.stringify({ type: "error", data: wireError(error) });
    }
  };
}

/** One connection of `/mcp`. */
function rpc(seat: Seat, environments: Environments): Conversation["answer"] {
  return async (message) => {
    let asked: Json;
    try {
      asked = parse(message);
    } catch (error) {
      return JSON.stringify({ jsonrpc: "2.0", id: null, error: { code: -32700, message: errorMessage(error) } });
    }
    const id = isJsonObject(asked) ? asked.id : undefined;
    const answer = await answerRpc(asked, seat, environments);
    // A notification has no id and is not answered.
    return isJsonObject(asked) && id === undefined ? undefined : JSON.stringify(answer);
  };
}
