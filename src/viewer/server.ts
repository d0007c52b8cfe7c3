/**
 * The viewer's HTTP server: one process, nothing but the runs of one folder. Every request passes the guard first; names in it are looked up, never
 * used as paths. Model output leaves only as JSON.
 */
import { resolve } from "node:path";
import { HttpError } from "../http/errors.ts";
import { fileResponse, listFiles, type StaticFile } from "../http/files.ts";
import { Guard, keyOf, PAGE_HEADERS } from "../http/guard.ts";
import { readJson } from "../http/limits.ts";
import { segmentsOf } from "../http/paths.ts";
import type { HttpRequest } from "../http/request.ts";
import { bytes } from "../http/responses.ts";
import { listen } from "../http/server.ts";
import { isLab, labResponse } from "./lab.ts";
import type { Hosted } from "./models.ts";
import { answer } from "./routes.ts";
import { ViewerState } from "./state.ts";
import { findWebFolder, NOT_BUILT } from "./web-files.ts";

export type ViewerOptions = {
  /** A run folder, or a folder of them. */
  readonly folder: string;
  /** Default 127.0.0.1. Anything that is not this machine alone needs a key. */
  readonly host?: string;
  /** Default 0: any free one. */
  readonly port?: number;
  readonly key?: string;
  /** DNS names under which others reach it; see `Guard`. */
  readonly allowHosts?: readonly string[];
  /** Environments by path that may be played. */
  readonly envs?: readonly string[];
  /** Notes, labels and deleting are refused. */
  readonly readOnly?: boolean;
  /** Opens models that are not folders, for play. */
  readonly hosted?: Hosted;
  /** Where the built front end is; found by itself. */
  readonly webFolder?: string;
};

export type Viewer = {
  /** With the key, when there is one. */
  readonly url: string;
  readonly port: number;
  close(): Promise<void>;
};

const MAX_BODY = 1024 * 1024;

export async function startViewer(options: ViewerOptions): Promise<Viewer> {
  const { host = "127.0.0.1", port = 0, key } = options;
  const guard = new Guard({
    host,
    names: options.allowHosts ?? [],
    ...(key !== undefined && { key }),
  });
  const state = new ViewerState(resolve(options.folder), options.envs ?? [], {
    writable: options.readOnly !== true,
    ...(options.hosted && { hosted: options.hosted }),
  });
  const webFolder = options.webFolder ?? findWebFolder();
  const files = webFolder === undefined ? new Map<string, StaticFile>() : await listFiles(webFolder);
  // Cookies do not know ports, so two viewers on one machine need two names. Nothing asks before the port is known.
  const context = { state, files, guard, cookie: "" };
  const server = await listen({ host, port, headers: PAGE_HEADERS, handle: (request) => serve(request, context) });
  context.cookie = `saccade-${server.port}`;
  return {
    url: `${server.url}/${key === undefined ? "" : `?key=${encodeURIComponent(key)}`}`,
    port: server.port,
    async close() {
      state.endFeeds();
      await server.close();
      await state.close();
    },
  };
}

type Context = {
  readonly state: ViewerState;
  readonly files: ReadonlyMap<string, StaticFile>;
  readonly guard: Guard;
  readonly cookie: string;
};

async function serve(request: HttpRequest, { state, files, guard, cookie }: Context): Promise<Response> {
  const { pathname, searchParams: query } = new URL(request.url);
  const segments = segmentsOf(pathname);
  if (segments === undefined) throw new HttpError(400, "The viewer has no such address.");
  const isApi = segments[0] === "api";
  guard.checkSource(request, isApi);
  if (!guard.isKey(keyOf(request, cookie))) {
    const given = query.get("key") ?? undefined;
    if (isApi || given === undefined || !guard.isKey(given)) {
      throw new HttpError(401, "This viewer needs the key: open the address that it printed.");
    }
    // The key moves into a cookie, out of the address bar and of links that people share.
    const kept = `${cookie}=${encodeURIComponent(given)}; Path=/; HttpOnly; SameSite=Strict`;
    return new Response(null, { status: 303, headers: { Location: pathname, "Set-Cookie": kept } });
  }
  if (isLab(pathname)) return labResponse(files, request);
  if (!isApi) {
    if (files.size > 0 || pathname !== "/") return fileResponse(files, request);
    return bytes(new TextEncoder().encode(NOT_BUILT), { type: "text/html; charset=utf-8" });
  }
  return answer(state, {
    method: request.method,
    segments,
    query,
    body: request.method === "POST" ? await readJson(request, MAX_BODY) : undefined,
    lastEventId: request.headers.get("last-event-id"),
    signal: request.signal,
  });
}
