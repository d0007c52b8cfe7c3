/**
 * The viewer's HTTP server: node:http, one process, nothing but the runs of one folder. Every request passes the guard first; names in
 * it are looked up, never used as paths. Model output leaves only as JSON.
 */
import { readFile } from "node:fs/promises";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { hostname } from "node:os";
import { resolve } from "node:path";
import { Readable } from "node:stream";
import { ConfigError, errorMessage, SaccadeError } from "../core/errors.ts";
import { Guard, isLoopback, SECURITY_HEADERS, tokenOf } from "./guard.ts";
import { answer, HttpError, type Reply, type Request } from "./routes.ts";
import { ViewerState } from "./state.ts";
import { findWebFolder, listWebFiles, NOT_BUILT, type WebFile } from "./web-files.ts";

export type ViewerOptions = {
  /** A run folder, or a folder of them. */
  readonly folder: string;
  /** Default 127.0.0.1. Anything that is not this machine alone needs a token. */
  readonly host?: string;
  /** Default 0: any free one. */
  readonly port?: number;
  readonly token?: string;
  /** Environments by path that may be played. */
  readonly envs?: readonly string[];
  /** Where the built front end is; found by itself. */
  readonly webFolder?: string;
};

export type Viewer = {
  /** With the token, when there is one. */
  readonly url: string;
  readonly port: number;
  close(): Promise<void>;
};

const MIN_TOKEN = 16;
const MAX_BODY = 1024 * 1024;

export async function startViewer(options: ViewerOptions): Promise<Viewer> {
  const { host = "127.0.0.1", port = 0, token } = options;
  if (!isLoopback(host) && token === undefined) {
    throw new ConfigError(`Others can reach ${host}: give a token (--token), or use 127.0.0.1.`);
  }
  if (token !== undefined && token.length < MIN_TOKEN) {
    throw new ConfigError(`A token has at least ${MIN_TOKEN} characters; leave --token out to get a random one.`);
  }
  if (port > 65535) throw new ConfigError(`A port is at most 65535, got ${port}.`);
  const state = new ViewerState(resolve(options.folder), options.envs ?? []);
  const files = await listWebFiles(options.webFolder ?? findWebFolder());
  const guard = new Guard(host, token);
  const server = createServer((request, response) => {
    serve(request, response, { state, files, guard, cookie: `saccade-${portOf(server)}` }).catch((error: unknown) => {
      if (!response.headersSent) sendError(response, 500, errorMessage(error));
      else response.destroy();
    });
  });
  await new Promise<void>((done, fail) => {
    server.once("error", (error: NodeJS.ErrnoException) => {
      const taken = error.code === "EADDRINUSE";
      fail(taken ? new ConfigError(`Port ${port} is taken; choose another with --port, or 0 for any.`) : error);
    });
    server.listen(port, host, done);
  });
  const shown = host === "0.0.0.0" || host === "::" ? hostname() : host;
  const name = shown.includes(":") ? `[${shown}]` : shown;
  return {
    url: `http://${name}:${portOf(server)}/${token === undefined ? "" : `?token=${encodeURIComponent(token)}`}`,
    port: portOf(server),
    async close() {
      state.endFeeds();
      await new Promise<void>((done) => {
        server.close(() => done());
        server.closeAllConnections();
      });
      await state.close();
    },
  };
}

type Context = {
  readonly state: ViewerState;
  readonly files: ReadonlyMap<string, WebFile>;
  readonly guard: Guard;
  readonly cookie: string;
};

async function serve(request: IncomingMessage, response: ServerResponse, context: Context): Promise<void> {
  const { state, files, guard, cookie } = context;
  for (const [name, value] of Object.entries(SECURITY_HEADERS)) response.setHeader(name, value);
  const asked = readUrl(request.url ?? "");
  if (asked === undefined) return sendError(response, 400, "This is no address of the viewer.");
  const isApi = asked.segments[0] === "api";
  const refused = guard.refuse(request, isApi);
  if (refused !== undefined) return sendError(response, 403, refused);
  if (guard.wantsToken && !guard.isToken(tokenOf(request, cookie))) {
    const given = asked.query.get("token") ?? undefined;
    if (isApi || given === undefined || !guard.isToken(given)) {
      return sendError(response, 401, "This viewer needs the token of the address that it printed.");
    }
    // The token moves into a cookie, out of the address bar and of links that people share.
    response.writeHead(303, {
      Location: asked.path,
      "Set-Cookie": `${cookie}=${encodeURIComponent(given)}; Path=/; HttpOnly; SameSite=Strict`,
    });
    response.end();
    return;
  }
  if (!isApi) return sendFile(request, response, files, asked.path);
  try {
    const body = await readBody(request);
    const reply = await answer(state, { ...asked, method: request.method ?? "GET", body, raw: request, response });
    await send(response, reply);
  } catch (error) {
    if (error instanceof HttpError) sendError(response, error.status, error.message);
    else if (error instanceof SaccadeError) sendError(response, 400, error.message);
    else throw error;
  }
}

/** Undefined for anything odd: encoded separators, dots, addresses of other servers. */
function readUrl(url: string): Pick<Request, "path" | "segments" | "query"> | undefined {
  if (!url.startsWith("/")) return undefined;
  const at = url.indexOf("?");
  const path = at < 0 ? url : url.slice(0, at);
  const segments: string[] = [];
  for (const part of path.slice(1).split("/")) {
    let name: string;
    try {
      name = decodeURIComponent(part);
    } catch {
      return undefined;
    }
    // biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what is refused
    if (name === "." || name === ".." || /[/\\\x00-\x1f]/.test(name)) return undefined;
    segments.push(name);
  }
  return { path, segments, query: new URLSearchParams(at < 0 ? "" : url.slice(at + 1)) };
}

async function readBody(request: IncomingMessage): Promise<unknown> {
  if (request.method !== "POST") return undefined;
  // Only a page of our own can send this type without asking first.
  if (!/^application\/json\b/.test(request.headers["content-type"] ?? "")) {
    throw new HttpError(400, "Send JSON, with Content-Type: application/json.");
  }
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of request as AsyncIterable<Buffer>) {
    size += chunk.length;
    if (size > MAX_BODY) throw new HttpError(413, `A request has at most ${MAX_BODY} bytes.`);
    chunks.push(chunk);
  }
  try {
    return JSON.parse(Buffer.concat(chunks).toString("utf8")) as unknown;
  } catch {
    throw new HttpError(400, "The request is not JSON.");
  }
}

async function sendFile(
  request: IncomingMessage,
  response: ServerResponse,
  files: ReadonlyMap<string, WebFile>,
  path: string,
): Promise<void> {
  if (request.method !== "GET" && request.method !== "HEAD") return sendError(response, 404, "There is no such page.");
  const file = files.get(path);
  if (file === undefined && (path !== "/" || files.size > 0)) return sendError(response, 404, "There is no such page.");
  response.setHeader("Content-Type", file?.type ?? "text/html; charset=utf-8");
  response.setHeader("Cache-Control", file?.immutable ? "private, max-age=31536000, immutable" : "no-cache");
  response.end(file === undefined ? NOT_BUILT : await readFile(file.path));
}

async function send(response: ServerResponse, reply: Reply): Promise<void> {
  switch (reply.kind) {
    case "json":
      response.setHeader("Content-Type", "application/json");
      response.setHeader("Cache-Control", "no-store");
      response.end(JSON.stringify(reply.value));
      return;
    case "bytes":
      response.setHeader("Content-Type", reply.type);
      response.setHeader("Cache-Control", reply.immutable ? "private, max-age=31536000, immutable" : "no-store");
      if (reply.name !== undefined) response.setHeader("Content-Disposition", `attachment; filename="${reply.name}"`);
      response.end(reply.bytes);
      return;
    case "stream":
      response.setHeader("Content-Type", reply.type);
      response.setHeader("Cache-Control", "no-store");
      response.setHeader("Content-Disposition", `attachment; filename="${reply.name}"`);
      Readable.from(reply.pieces).pipe(response);
      return;
    case "taken":
      return;
  }
}

function sendError(response: ServerResponse, status: number, error: string): void {
  response.writeHead(status, { "Content-Type": "application/json", "Cache-Control": "no-store" });
  response.end(JSON.stringify({ error }));
}

function portOf(server: Server): number {
  return (server.address() as AddressInfo | null)?.port ?? 0;
}
