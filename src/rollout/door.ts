/**
 * The endpoint of programs that bring their own loop: one server on this machine, an address and a key for each episode. An address that is not known, or whose
 * episode is over, is told so in its vendor's form, and nothing is sampled. The server starts with the first episode and does not keep the process alive.
 */
import { randomBytes, timingSafeEqual } from "node:crypto";
import { HttpError } from "../http/errors.ts";
import { Guard, keyOf } from "../http/guard.ts";
import type { HttpRequest } from "../http/request.ts";
import { json } from "../http/responses.ts";
import { type HttpServer, listen } from "../http/server.ts";
import { apiErrorResponse, NoRoute } from "../wire/errors.ts";
import { readJsonBody, seconds } from "../wire/request.ts";
import { Retries } from "../wire/retries.ts";
import type { Wire } from "../wire/wire.ts";
import { createWires, type Wires } from "../wire/wires.ts";

/** What an episode does with its requests. */
export interface Face {
  answer(wire: Wire, body: unknown, request: HttpRequest): Promise<Response>;
  /** How many tokens a request of Anthropic's wire has. */
  count(body: unknown): Promise<number>;
  /** A reward that the program posts. */
  post(body: unknown): void;
}

export type Address = {
  readonly url: string;
  readonly baseURL: string;
  readonly apiKey: string;
  /** The episode is over. */
  close(): void;
};

type Open = { readonly face: Face; readonly key: Buffer; readonly wires: Wires; readonly retries: Retries };

const HOST = "127.0.0.1";

export class Door {
  readonly #server: HttpServer;
  readonly #open = new Map<string, Open>();
  readonly #guard = new Guard({ host: HOST });

  private constructor(server: HttpServer) {
    this.#server = server;
  }

  static async start(): Promise<Door> {
    let door: Door | undefined;
    const handle = (request: HttpRequest) => {
      if (door === undefined) throw new HttpError(503, "The server is starting.");
      return door.#handle(request);
    };
    const server = await listen({ handle, host: HOST, onError: apiErrorResponse, background: true });
    door = new Door(server);
    return door;
  }

  open(face: Face): Address {
    const id = randomBytes(12).toString("hex");
    const apiKey = `sk-saccade-${randomBytes(24).toString("hex")}`;
    this.#open.set(id, { face, key: Buffer.from(apiKey), wires: createWires(), retries: new Retries() });
    const url = `${this.#server.url}/episodes/${id}`;
    return { url, baseURL: `${url}/v1`, apiKey, close: () => void this.#open.delete(id) };
  }

  /** Episodes that are open. */
  get size(): number {
    return this.#open.size;
  }

  close(): Promise<void> {
    return this.#server.close();
  }

  async #handle(request: HttpRequest): Promise<Response> {
    const { pathname } = new URL(request.url);
    const [, id = "", path = ""] = /^\/episodes\/([0-9a-f]+)(\/.*)?$/.exec(pathname) ?? [];
    const route = path === "/" || path === "" ? "/reward" : path;
    const wires = this.#open.get(id)?.wires ?? createWires();
    const wire =
      wires[route as keyof Wires] ?? (route === "/v1/messages/count_tokens" ? wires["/v1/messages"] : undefined);
    try {
      this.#guard.checkSource(request, true);
      const open = this.#open.get(id);
      if (open === undefined) {
        throw new HttpError(410, "There is no such episode: it is over, or the address belongs to another run.");
      }
      if (!isKey(request, open.key)) throw new HttpError(401, "This is not the key of this episode.");
      return await answer(open, route, wire, request);
    } catch (error) {
      return wire === undefined ? apiErrorResponse(error) : wire.error(error);
    }
  }
}

async function answer(
  { face, retries }: Open,
  route: string,
  wire: Wire | undefined,
  request: HttpRequest,
): Promise<Response> {
  if (route === "/v1/models" && request.method === "GET") {
    const model = { id: "policy", object: "model", created: seconds(), owned_by: "saccade" };
    return json({ object: "list", data: [model] });
  }
  if (request.method !== "POST" || (wire === undefined && route !== "/reward")) {
    throw new NoRoute(404, `An episode has no ${request.method} ${route}.`);
  }
  const body = await readJsonBody(request);
  if (wire === undefined) {
    face.post(body);
    return json({ ok: true });
  }
  if (route.endsWith("/count_tokens")) return json({ input_tokens: await face.count(body) });
  return retries.once(request, body, route, (attempt) => face.answer(wire, body, attempt));
}

/** OpenAI's clients send a bearer, Anthropic's a header of their own. */
function isKey(request: HttpRequest, key: Buffer): boolean {
  const given = Buffer.from(keyOf(request) ?? request.headers.get("x-api-key") ?? "");
  return given.length === key.length && timingSafeEqual(given, key);
}

let shared: Promise<Door> | undefined;

/** The process's own. */
export function sharedDoor(): Promise<Door> {
  shared ??= Door.start();
  shared.catch(() => {
    shared = undefined;
  });
  return shared;
}
