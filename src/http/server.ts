/**
 * A function from `HttpRequest` to `Response`, served by node:http. The function knows nothing of Node. What it throws becomes an error body; a
 * client that leaves aborts the request's signal and cancels the body that was being sent.
 */
import { setMaxListeners } from "node:events";
import { createServer, type IncomingMessage, type Server, type ServerResponse, STATUS_CODES } from "node:http";
import type { AddressInfo } from "node:net";
import { hostname } from "node:os";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { ConfigError } from "../core/errors.ts";
import { errorResponse, HttpError } from "./errors.ts";
import { isPlainTarget } from "./paths.ts";
import type { HttpRequest } from "./request.ts";
import { type Conversation, Sockets } from "./sockets.ts";
import { type UploadOptions, Uploads } from "./uploads.ts";

/** Longer answers go out in pieces, so that a checkpoint that is fetched is never in memory whole. */
const MAX_AT_ONCE = 4 * 1024 * 1024;
/** Far more than may be at work or wait. */
const MAX_CONNECTIONS = 16_384;

export type Handler = (request: HttpRequest) => Response | Promise<Response>;

export type ListenOptions = {
  readonly handle: Handler;
  /** Default 127.0.0.1. */
  readonly host?: string;
  /** Default 0: any free one. */
  readonly port?: number;
  /** On every answer, errors included. */
  readonly headers?: Readonly<Record<string, string>>;
  /** The shape of errors that the handler did not turn into answers itself. */
  readonly onError?: (error: unknown) => Response;
  readonly uploads?: UploadOptions;
  /** What a WebSocket at this address talks to; throws for a request that may not have one. Absent: there are none. */
  readonly socket?: (request: HttpRequest) => () => Conversation;
  /** The server and its connections do not keep the process alive. */
  readonly background?: boolean;
};

export type HttpServer = {
  /** `http://name:port`, as others reach it. */
  readonly url: string;
  readonly port: number;
  /** Ends every connection. */
  close(): Promise<void>;
};

export async function listen(options: ListenOptions): Promise<HttpServer> {
  const { host = "127.0.0.1", port = 0 } = options;
  if (port > 65535) throw new ConfigError(`A port is at most 65535, got ${port}.`);
  const uploads = new Uploads(options.uploads);
  const server = createServer((request, response) => {
    // Whatever fails here has nobody left to be told.
    serve(request, response, options, uploads).catch(() => response.destroy());
  });
  // Longer than clients keep an idle connection, so that it is never closed under a request.
  server.keepAliveTimeout = 90_000;
  server.maxConnections = MAX_CONNECTIONS;
  const sockets = new Sockets();
  server.on("upgrade", (incoming, socket, head) => {
    socket.on("error", () => socket.destroy());
    try {
      if (options.socket === undefined) throw new HttpError(404, "There are no WebSockets here.");
      sockets.accept(incoming, socket, head, options.socket(plainRequest(incoming)));
    } catch (error) {
      const { status } = (options.onError ?? errorResponse)(error);
      socket.end(`HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\nConnection: close\r\nContent-Length: 0\r\n\r\n`);
    }
  });
  await new Promise<void>((done, fail) => {
    server.once("error", (error: NodeJS.ErrnoException) => fail(refused(error, host, port)));
    server.listen(port, host, done);
  });
  if (options.background) {
    server.unref();
    server.on("connection", (socket) => socket.unref());
  }
  const bound = portOf(server);
  const shown = host === "0.0.0.0" || host === "::" ? hostname() : host;
  return {
    url: `http://${shown.includes(":") ? `[${shown}]` : shown}:${bound}`,
    port: bound,
    close: () =>
      new Promise<void>((done) => {
        sockets.close();
        server.close(() => done());
        server.closeAllConnections();
      }),
  };
}

async function serve(
  incoming: IncomingMessage,
  outgoing: ServerResponse,
  options: ListenOptions,
  uploads: Uploads,
): Promise<void> {
  for (const [name, value] of Object.entries(options.headers ?? {})) outgoing.setHeader(name, value);
  const gone = new AbortController();
  // A request may be many pieces of work, and each listens.
  setMaxListeners(0, gone.signal);
  const endings: (() => void)[] = [];
  let isOver = false;
  outgoing.on("close", () => {
    isOver = true;
    if (!outgoing.writableFinished) gone.abort();
    for (const then of endings) then();
  });
  const onEnd = (then: () => void) => void (isOver ? then() : endings.push(then));
  let response: Response;
  try {
    response = await options.handle(toRequest(incoming, gone.signal, uploads, onEnd));
  } catch (error) {
    response = (options.onError ?? errorResponse)(error);
  }
  await send(response, incoming, outgoing);
}

function toRequest(
  incoming: IncomingMessage,
  signal: AbortSignal,
  uploads: Uploads,
  onEnd: (then: () => void) => void,
): HttpRequest {
  const { method = "GET" } = incoming;
  const plain = plainRequest(incoming, signal);
  const hasBody = method !== "GET" && method !== "HEAD";
  const body = hasBody ? uploads.read(incoming, signal, onEnd) : null;
  return { ...plain, body, onEnd };
}

function plainRequest(incoming: IncomingMessage, signal = new AbortController().signal): HttpRequest {
  const { method = "GET", url = "", headers } = incoming;
  if (!isPlainTarget(url)) throw new HttpError(400, "This is not an address of this server.");
  const get = (name: string) => {
    const value = headers[name.toLowerCase()] ?? null;
    return Array.isArray(value) ? value.join(", ") : value;
  };
  return { method, url: `http://localhost${url}`, headers: { get }, signal, body: null };
}

async function send(response: Response, incoming: IncomingMessage, outgoing: ServerResponse): Promise<void> {
  outgoing.statusCode = response.status;
  response.headers.forEach((value, name) => {
    if (name !== "set-cookie") outgoing.setHeader(name, value);
  });
  const cookies = response.headers.getSetCookie();
  if (cookies.length > 0) outgoing.setHeader("Set-Cookie", cookies);
  // What is left of a body that nobody wanted would be read as the next request.
  if (!incoming.complete) outgoing.setHeader("Connection", "close");
  if (response.body === null || incoming.method === "HEAD") {
    await response.body?.cancel();
    outgoing.end();
    return;
  }
  const length = response.headers.get("content-length");
  if (length !== null && Number(length) <= MAX_AT_ONCE) {
    // One write, and no streams in between.
    outgoing.end(new Uint8Array(await response.arrayBuffer()));
    return;
  }
  outgoing.flushHeaders();
  await pipeline(Readable.fromWeb(response.body as Parameters<typeof Readable.fromWeb>[0]), outgoing);
}

function refused(error: NodeJS.ErrnoException, host: string, port: number): Error {
  switch (error.code) {
    case "EADDRINUSE":
      return new ConfigError(`Port ${port} is taken; choose another with --port, or 0 for any.`);
    case "EACCES":
      return new ConfigError(`You may not listen on port ${port}; choose one above 1023 with --port.`);
    case "ENOTFOUND":
    case "EAI_AGAIN":
    case "EADDRNOTAVAIL":
      return new ConfigError(`${host} is not an address of this machine; choose another with --host.`);
    default:
      return error;
  }
}

function portOf(server: Server): number {
  return (server.address() as AddressInfo | null)?.port ?? 0;
}
