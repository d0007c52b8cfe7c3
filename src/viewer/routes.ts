/** From a request to its answer: the routes of api.ts, one line each, and the reading of their queries. */
import { isJsonObject, type JsonObject } from "../core/json.ts";
import { HttpError } from "../http/errors.ts";
import { refuseFiles } from "../http/foreign.ts";
import { bytes, json, pieces } from "../http/responses.ts";
import { readManifest } from "../run/manifest.ts";
import { type ActRequest, type RunsReply, SORTS, type ThinkRequest, type TrajectoryQuery } from "./api.ts";
import { filmOf } from "./film.ts";
import { listItem } from "./list-item.ts";
import { linksOut } from "./paths.ts";
import { compareConfigs, MAX_LIMIT } from "./query.ts";
import type { RunView } from "./run-view.ts";
import type { ViewerState } from "./state.ts";
import { perfettoTrace, timelineOf } from "./timeline.ts";
import { answerPost } from "./write-routes.ts";

export type Asked = {
  readonly method: string;
  /** Decoded, without "/", "\\" and dots. */
  readonly segments: readonly string[];
  readonly query: URLSearchParams;
  readonly body: unknown;
  /** Where a stream that was cut goes on. */
  readonly lastEventId: string | null;
  /** Aborted when whoever asked has left. */
  readonly signal: AbortSignal;
};

export async function answer(state: ViewerState, request: Asked): Promise<Response> {
  const { method, query } = request;
  const [, area, id, ...rest] = request.segments;
  const writes = method !== "GET" && method !== "HEAD";
  if (writes && area === "runs" && id !== undefined && method === "POST")
    return answerPost(state, await state.run(id), rest, request);
  if (writes && area !== "play") throw new HttpError(405, "Only GET is answered here.");
  switch (area) {
    case "runs":
      return id === undefined ? json(await listRuns(state)) : answerRun(state, id, rest, request);
    case "compare":
      if (id === undefined) return json(await compare(state, query.getAll("run")));
      break;
    case "envs":
      if (id === undefined) return json({ envs: await state.play.envs() });
      break;
    case "models":
      if (id === undefined) return json({ models: await state.play.models.choices() });
      break;
    case "play":
      return answerPlay(state, request);
  }
  throw notFound();
}

async function answerRun(state: ViewerState, id: string, rest: readonly string[], request: Asked): Promise<Response> {
  const { query } = request;
  const feed = await state.feed(id);
  const { view } = feed;
  const [area, name, part, ...more] = rest;
  if (more.length > 0) throw notFound();
  const whole = name === undefined;
  switch (area) {
    case undefined:
      return json(await view.overview());
    case "series":
      if (whole) return json(await view.series(query.getAll("metric"), numberIn(query, "points")));
      break;
    case "live":
      if (whole) {
        return feed.follow(numberIn(query, "from", request.lastEventId));
      }
      break;
    case "trajectories":
      if (whole) return json(await view.trajectories(trajectoryQuery(query)));
      return answerTrajectory(state, view, name, part, request);
    case "evaluations":
      if (whole) return json(await view.evaluations());
      if (name === "episodes" && part === undefined) {
        const [env, seed] = [query.get("env"), numberIn(query, "seed")];
        if (env === null || seed === undefined)
          throw new HttpError(400, "Name the environment and the seed: env=…&seed=….");
        return json(await view.pinned(env, seed, numberIn(query, "temperature") ?? 0));
      }
      break;
    case "sight":
      if (whole) return json(await view.sight());
      break;
    case "timeline":
      if (whole) return json(await timelineOf(view, numberIn(query, "from"), numberIn(query, "to")));
      break;
    case "perfetto.json":
      if (whole) {
        return pieces(perfettoTrace(view), { type: "application/json", name: `${plain(id)}.perfetto.json` });
      }
      break;
    case "frames": {
      if (whole || part !== undefined) break;
      const png = await view.frameBytes(hashIn(name));
      if (png === undefined) throw new HttpError(404, "This frame is not stored.");
      return bytes(png, { type: "image/png", immutable: true });
    }
  }
  throw notFound();
}

async function answerTrajectory(
  state: ViewerState,
  view: RunView,
  key: string,
  part: string | undefined,
  { query, signal }: Asked,
): Promise<Response> {
  if (part === undefined) return json(found(await view.trajectory(key)));
  if (part === "group") return json(found(await view.group(key)));
  if (part !== "episode.gif") throw notFound();
  const { record } = found(await view.trajectory(key));
  const delay = numberIn(query, "delay");
  const options = {
    frames: query.get("frames") === "env" ? ("env" as const) : ("model" as const),
    ...(delay !== undefined && { delayMs: Math.min(Math.max(delay, 20), 10_000) }),
  };
  const gif = await state.films.run(() => filmOf(view, record, options), signal);
  return bytes(gif, { type: "image/gif", name: `${plain(record.id)}-step-${record.step}.gif` });
}

async function answerPlay(state: ViewerState, { method, segments, body, signal }: Asked): Promise<Response> {
  const { play } = state;
  const [, , session, part, name, ...more] = segments;
  if (more.length > 0) throw notFound();
  if (session === undefined && method === "POST") return json(await startPlaying(state, objectIn(body)));
  if (session === undefined) throw notFound();
  if (part === undefined && method === "GET") return json(play.state(session));
  if (part === undefined && method === "DELETE") {
    await play.stop(session);
    return json({});
  }
  if (part === "think" && name === undefined && method === "POST") {
    return json(await play.think(session, thinkRequest(objectIn(body)), signal));
  }
  if (part === "demonstration.jsonl" && name === undefined && method === "GET") {
    const { line, file } = play.demonstration(session);
    return bytes(new TextEncoder().encode(line), { type: "application/x-ndjson", name: file });
  }
  if (part === "act" && name === undefined && method === "POST") {
    return json(await play.act(session, actRequest(objectIn(body)), signal));
  }
  if (part === "frames" && name !== undefined && method === "GET") {
    const png = play.frame(session, hashIn(name));
    if (png === undefined) throw new HttpError(404, "This session has no such frame.");
    return bytes(png, { type: "image/png", immutable: true });
  }
  throw notFound();
}

async function startPlaying(state: ViewerState, body: JsonObject) {
  const { env, seed, options, run, key, turn, model } = body;
  if (typeof run === "string" && typeof key === "string" && typeof turn === "number") {
    const view = await state.run(run);
    const { record } = found(await view.trajectory(key));
    const { manifest } = (await linksOut(view.path)).length > 0 ? {} : await readManifest(view.path);
    return state.play.takeOver(record, turn, manifest);
  }
  if (typeof env !== "string" || typeof seed !== "number" || (options !== undefined && !isJsonObject(options))) {
    throw new HttpError(400, "Give env, seed and options to start, or run, key and turn to take over.");
  }
  refuseFiles(options ?? {}, "options");
  return state.play.start(env, seed, options, typeof model === "string" ? model : undefined);
}

function actRequest(body: JsonObject): ActRequest {
  const { reply, command, auto, model, greedy } = body;
  if (typeof reply === "string") return { reply };
  if (typeof command === "string") return { command };
  if (auto === "oracle" || auto === "random") return { auto };
  if (typeof model === "string") return { model, greedy: greedy === true };
  throw new HttpError(400, 'Give a reply, a command, a model, or auto: "oracle" or "random".');
}

function thinkRequest({ model, greedy, look }: JsonObject): ThinkRequest {
  if (typeof model !== "string") throw new HttpError(400, "Name the model: one of the list.");
  return { model, greedy: greedy === true, look: look === true };
}

export async function listRuns(state: ViewerState): Promise<RunsReply> {
  const missing: string[] = [];
  const runs = [];
  for (const [id, path] of await state.runs(missing)) runs.push(await listItem(id, path));
  const { folder, writable } = state;
  return { folder, writable, runs: runs.sort((a, b) => b.updated - a.updated), missing };
}

async function compare(state: ViewerState, ids: readonly string[]) {
  const views = await Promise.all(ids.map((id) => state.run(id)));
  return compareConfigs(ids, await Promise.all(views.map(async (view) => (await view.overview()).manifest?.config)));
}

function trajectoryQuery(query: URLSearchParams): TrajectoryQuery {
  const ranges = ["step", "reward", "turns", "advantage", "drift"].flatMap((name) => [`${name}Min`, `${name}Max`]);
  const numbers = ["seed", "sibling", ...ranges, "offset", "limit"];
  const choices = {
    split: ["train", "eval", "sight"],
    sort: SORTS,
    order: ["asc", "desc"],
  } as const;
  const read: Record<string, string | number | boolean> = {};
  for (const name of ["env", "group", "end", "label", "text"]) {
    const value = query.get(name);
    if (value) read[name] = value;
  }
  for (const name of numbers) {
    const value = numberIn(query, name);
    if (value !== undefined) read[name] = value;
  }
  for (const name of ["success", "parseFailure", "greedy"]) {
    const value = choiceIn(query, name, ["true", "false"]);
    if (value !== undefined) read[name] = value === "true";
  }
  for (const [name, allowed] of Object.entries(choices)) {
    const value = choiceIn(query, name, allowed);
    if (value !== undefined) read[name] = value;
  }
  for (const name of ["offset", "limit"]) {
    const value = read[name];
    if (value !== undefined && !(Number.isSafeInteger(value) && Number(value) >= 0)) {
      throw new HttpError(400, `${name} is a whole number from 0 (a limit at most ${MAX_LIMIT}).`);
    }
  }
  return read as TrajectoryQuery;
}

/** `instead`: what counts when it is there. */
function numberIn(query: URLSearchParams, name: string, instead: string | null = null): number | undefined {
  const text = instead ?? query.get(name);
  if (text === null || text === "") return undefined;
  const value = Number(text);
  if (!Number.isFinite(value)) throw new HttpError(400, `${name} is a number, not "${text.slice(0, 40)}".`);
  return value;
}

function choiceIn(query: URLSearchParams, name: string, allowed: readonly string[]): string | undefined {
  const value = query.get(name);
  if (value === null || value === "") return undefined;
  if (!allowed.includes(value)) throw new HttpError(400, `${name} is one of ${allowed.join(", ")}.`);
  return value;
}

function hashIn(name: string): string {
  const hash = /^([0-9a-f]{32})\.png$/.exec(name)?.[1];
  if (hash === undefined) throw new HttpError(404, "A frame is named by 32 hexadecimal digits and .png.");
  return hash;
}

function objectIn(body: unknown): JsonObject {
  if (isJsonObject(body)) return body;
  throw new HttpError(400, "Send a JSON object.");
}

/** A file name without anything odd. */
function plain(name: string): string {
  return name.replace(/[^A-Za-z0-9_-]+/g, "-").slice(0, 80);
}

function found<T>(value: T | undefined): T {
  if (value === undefined)
    throw new HttpError(404, "There is no such trajectory in this run; it may have been played again.");
  return value;
}

function notFound(): HttpError {
  return new HttpError(404, "There is no such route.");
}
