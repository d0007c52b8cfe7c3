/**
 * The two implementations of `Source`: over HTTP, and out of an exported page, where everything is derived from the routes that
 * the page holds. They run in a browser and import nothing of node.
 */
import type {
  CompareReply,
  Embedded,
  Episode,
  LiveHandlers,
  LiveMessage,
  PlaySource,
  RunOverview,
  RunsReply,
  SeriesReply,
  SightReply,
  Source,
  TimelineReply,
  TrajectoryPage,
  TrajectoryQuery,
  TrajectoryReply,
  TrajectoryRow,
  WriteSource,
} from "./api.ts";
import { routes } from "./api.ts";
import {
  compareConfigs,
  DEFAULT_POINTS,
  evaluatedSeeds,
  groupReply,
  matches,
  pageOf,
  pinnedRows,
  searchText,
  siblingsOf,
  sortRows,
  thinOut,
  withoutTokens,
} from "./query.ts";

/** The page's own source: what was embedded, or the server it came from. */
export function openSource(): Source {
  const { __SACCADE__ } = globalThis as { readonly __SACCADE__?: Embedded };
  return __SACCADE__ === undefined ? httpSource() : embeddedSource(__SACCADE__);
}

/** `base`: for tests; a page asks its own server. */
export function httpSource(base = ""): Source {
  const get = <T>(route: string, query: Query = {}) => request<T>("GET", base + route + queryString(query));
  const post = <T>(route: string, body: unknown) => request<T>("POST", base + route, body);
  const play: PlaySource = {
    envs: () => get(routes.envs()),
    models: () => get(routes.models()),
    think: (session, asked) => post(routes.think(session), asked),
    demonstrationUrl: (session) => base + routes.demonstration(session),
    start: (asked) => post(routes.play(), asked),
    state: (session) => get(routes.session(session)),
    act: (session, asked) => post(routes.act(session), asked),
    stop: async (session) => {
      await request("DELETE", base + routes.session(session));
    },
    frameUrl: (session, hash) => base + routes.playFrame(session, hash),
  };
  const write: WriteSource = {
    notes: (run, change) => post(routes.notes(run), change),
    remove: async (run) => {
      await post(routes.remove(run), { confirm: run });
    },
    label: (run, key, change) => post(routes.label(run, key), change),
    demonstrations: (run, keys) => postForFile(base + routes.demonstrations(run), { keys }),
    film: (run, keys) => postForFile(base + routes.film(run), { keys }),
  };
  return {
    kind: "http",
    leftOut: [],
    runs: () => get(routes.runs()),
    compare: (runs) => get(routes.compare(runs)),
    overview: (run) => get(routes.overview(run)),
    series: (run, names = [], points = DEFAULT_POINTS) => get(routes.series(run), { metric: names, points }),
    trajectories: (run, query = {}) => get(routes.trajectories(run), query),
    trajectory: (run, key) => get(routes.trajectory(run, key)),
    group: (run, key) => get(routes.group(run, key)),
    evaluations: (run) => get(routes.evaluations(run)),
    pinned: (run, env, seed, temperature) => get(routes.pinned(run), { env, seed, temperature }),
    sight: (run) => get(routes.sight(run)),
    timeline: (run, from, to) => get(routes.timeline(run), { from, to }),
    frameUrl: (run, hash) => base + routes.frame(run, hash),
    gifUrl: (run, key, frames = "model") => `${base}${routes.gif(run, key)}?frames=${frames}`,
    perfettoUrl: (run) => base + routes.perfetto(run),
    live: (run, from, handlers) => follow(`${base}${routes.live(run)}?from=${from}`, handlers),
    play,
    write,
  };
}

type QueryValue = string | number | boolean | undefined;
type Query = Readonly<Record<string, QueryValue | readonly QueryValue[]>>;

function queryString(query: Query): string {
  const parts = Object.entries(query).flatMap(([name, value]) =>
    [value].flat().flatMap((one) => (one === undefined ? [] : [`${name}=${encodeURIComponent(String(one))}`])),
  );
  return parts.length === 0 ? "" : `?${parts.join("&")}`;
}

async function send(method: string, url: string, body?: unknown): Promise<Response> {
  try {
    return await fetch(url, {
      method,
      ...(body !== undefined && { headers: { "content-type": "application/json" }, body: JSON.stringify(body) }),
    });
  } catch {
    throw new Error("The viewer does not answer. Is `saccade view` still running?");
  }
}

async function postForFile(url: string, body: unknown): Promise<Blob> {
  const response = await send("POST", url, body);
  if (response.ok) return response.blob();
  const reply = (await response.json().catch(() => undefined)) as { error?: string } | undefined;
  throw new Error(reply?.error ?? `The viewer answered with status ${response.status}.`);
}

async function request<T>(method: string, url: string, body?: unknown): Promise<T> {
  const response = await send(method, url, body);
  const reply = (await response.json().catch(() => undefined)) as (T & { error?: string }) | undefined;
  if (response.ok && reply !== undefined) return reply;
  throw new Error(reply?.error ?? `The viewer answered with status ${response.status}.`);
}

/** The part of the browser's EventSource that is used; it connects again by itself, from the last message it got. */
type EventStream = {
  onopen: (() => void) | null;
  onerror: (() => void) | null;
  onmessage: ((event: { readonly data: string }) => void) | null;
  close(): void;
};

function follow(url: string, { onMessage, onConnected }: LiveHandlers): () => void {
  const { EventSource } = globalThis as unknown as { readonly EventSource: new (url: string) => EventStream };
  const stream = new EventSource(url);
  stream.onopen = () => onConnected?.(true);
  stream.onerror = () => onConnected?.(false);
  stream.onmessage = ({ data }) => onMessage(JSON.parse(data) as LiveMessage);
  return () => stream.close();
}

export function embeddedSource({ data, frames, leftOut }: Embedded): Source {
  const at = async <T>(route: string): Promise<T> => {
    const value = data[route];
    if (value === undefined) throw new Error("This is not in the exported file. Open the run with `saccade view`.");
    return value as T;
  };
  const rowsOf = async (run: string) => (await at<TrajectoryPage>(routes.trajectories(run))).rows;
  const replyOf = (run: string, key: string) => at<TrajectoryReply>(routes.trajectory(run, key));
  const overview = (run: string) => at<RunOverview>(routes.overview(run));
  const episodes = async (run: string, rows: readonly TrajectoryRow[]): Promise<Episode[]> =>
    Promise.all(rows.map(async (row) => withoutTokens(row, (await replyOf(run, row.key)).record)));
  return {
    kind: "embedded",
    leftOut,
    runs: () => at<RunsReply>(routes.runs()),
    async compare(runs): Promise<CompareReply> {
      const configs = await Promise.all(runs.map(async (run) => (await overview(run)).manifest?.config));
      return compareConfigs(runs, configs);
    },
    overview,
    async series(run, names = [], points = DEFAULT_POINTS) {
      const { series, clock } = await at<SeriesReply>(routes.series(run));
      const wanted = names.length === 0 ? series : series.filter(({ name }) => names.includes(name));
      return { series: wanted.map((one) => thinOut(one, points)), clock };
    },
    async trajectories(run, query: TrajectoryQuery = {}) {
      const page = await at<TrajectoryPage>(routes.trajectories(run));
      let found = page.rows.filter((row) => matches(row, query));
      const needle = query.text?.toLowerCase();
      if (needle) {
        const texts = await Promise.all(found.map(async ({ key }) => searchText((await replyOf(run, key)).record)));
        found = found.filter((_, i) => texts[i]?.includes(needle));
      }
      const rows = pageOf(sortRows(found, query), query);
      return { ...page, total: found.length, all: page.rows.length, offset: query.offset ?? 0, rows };
    },
    trajectory: replyOf,
    async group(run, key) {
      const rows = siblingsOf(await rowsOf(run), (await replyOf(run, key)).row);
      return groupReply(await episodes(run, rows));
    },
    evaluations: async (run) => ({ seeds: evaluatedSeeds(await rowsOf(run)) }),
    async pinned(run, env, seed, temperature) {
      const rows = pinnedRows(await rowsOf(run), env, seed, temperature);
      return { env, seed, temperature, episodes: await episodes(run, rows) };
    },
    sight: (run) => at<SightReply>(routes.sight(run)),
    async timeline(run, from = Number.NEGATIVE_INFINITY, to = Number.POSITIVE_INFINITY) {
      const reply = await at<TimelineReply>(routes.timeline(run));
      return { ...reply, steps: reply.steps.filter(({ step }) => step >= from && step <= to) };
    },
    frameUrl: (_, hash) => frames[hash],
    gifUrl: () => undefined,
    perfettoUrl: () => undefined,
    live: () => () => {},
  };
}
