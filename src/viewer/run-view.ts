/**
 * One run as the viewer sees it: its events, followed by byte position and kept without their spans, and its trajectories through the
 * index. Everything a route answers about a run is here; nothing is read that lies outside its folder.
 */
import { stat } from "node:fs/promises";
import { join } from "node:path";
import { DataError } from "../core/errors.ts";
import type { Image } from "../core/image.ts";
import { findAlarms } from "../run/alarms.ts";
import { addEvent, EVENTS_FILE, type PlacedEvent, type RunEvent, readEvents } from "../run/events.ts";
import type { Failure } from "../run/failures.ts";
import { FRAMES_FOLDER, readFrame, readFrameBytes } from "../run/frames.ts";
import { isLocked } from "../run/lock.ts";
import { readManifest } from "../run/manifest.ts";
import type { TrajectoryRecord } from "../run/trajectories.ts";
import type {
  Command,
  EvaluationsReply,
  Facets,
  GroupReply,
  LogLine,
  NewestMetrics,
  PinnedReply,
  RunListItem,
  RunOverview,
  Series,
  SeriesReply,
  SightReply,
  TrajectoryPage,
  TrajectoryQuery,
  TrajectoryReply,
  TrajectoryRow,
} from "./api.ts";
import { episodeCommand, runCommands } from "./commands.ts";
import { clockOf, curvesOf, probeOf } from "./curves.ts";
import { EpisodeLabels } from "./labels.ts";
import { listItem, summary } from "./list-item.ts";
import { isInside, linksOut } from "./paths.ts";
import { optionsOf } from "./play.ts";
import {
  DEFAULT_POINTS,
  evaluatedSeeds,
  facetsOf,
  groupReply,
  matches,
  pageOf,
  pinnedRows,
  siblingsOf,
  sightOfRows,
  sortRows,
  thinOut,
  withoutTokens,
} from "./query.ts";
import { TrajectoryIndex } from "./trajectory-index.ts";

const LOG_LINES = 200;
/** How long an answer waits for the index of a large run before it comes with what there is. */
const INDEX_PATIENCE_MS = 1500;
const MAX_PINNED = 500;

export class RunView {
  readonly id: string;
  readonly path: string;
  readonly #index: TrajectoryIndex;
  /** Spans are left out; `withSpans` has the bytes at which events with spans start. */
  readonly #events: PlacedEvent[] = [];
  readonly #withSpans = new Set<number>();
  #position = 0;
  #damage: string[] = [];
  #tail: string[] = [];
  #running: Promise<PlacedEvent[]> | undefined;
  #curves: ReadonlyMap<string, Series> | undefined;
  #rows: { readonly labels: unknown; readonly generation: number; readonly rows: readonly TrajectoryRow[] } | undefined;
  #facets: Facets | undefined;
  readonly labels: EpisodeLabels;
  /** Whether its notes may be changed through this viewer. */
  readonly writable: boolean;

  private constructor(id: string, path: string, index: TrajectoryIndex, writable: boolean) {
    this.id = id;
    this.labels = new EpisodeLabels(path);
    this.writable = writable;
    this.path = path;
    this.#index = index;
  }

  static async open(id: string, path: string, writable = false): Promise<RunView> {
    const view = new RunView(id, path, await TrajectoryIndex.open(path), writable);
    // A large run takes a while; who asks for trajectories meanwhile gets what was found so far.
    view.#index.refresh(true).catch(() => {});
    return view;
  }

  async close(): Promise<void> {
    await this.#running?.catch(() => {});
    await this.#index.close();
  }

  get index(): TrajectoryIndex {
    return this.#index;
  }

  /** In file order, without the ones that were played again. */
  get events(): readonly PlacedEvent[] {
    return this.#events;
  }

  get position(): number {
    return this.#position;
  }

  /** Reads the events that were written since; returns them. */
  refreshEvents(): Promise<PlacedEvent[]> {
    this.#running ??= this.#readEvents().finally(() => {
      this.#running = undefined;
    });
    return this.#running;
  }

  async #readEvents(): Promise<PlacedEvent[]> {
    const path = join(this.path, EVENTS_FILE);
    const size = (await isInside(this.path, path)) ? (await stat(path)).size : 0;
    if (size < this.#position) this.#startOver();
    const fresh: PlacedEvent[] = [];
    const before = this.#position;
    if (size === 0) {
      this.#tail = [`${EVENTS_FILE} is missing or empty.`];
      return fresh;
    }
    const missing: string[] = [];
    let named = 0;
    for await (const { event, start, end } of readEvents(this.path, missing, this.#position)) {
      const { spans, ...rest } = event;
      const placed = { event: rest, start, end };
      if (spans !== undefined && spans.length > 0) this.#withSpans.add(start);
      addEvent(this.#events, placed);
      fresh.push(placed);
      this.#position = end;
      named = missing.length;
    }
    // What stands before a whole line is lost for good; the end of the file may still be being written.
    this.#damage.push(...missing.slice(0, named));
    this.#tail = missing.slice(named);
    if (fresh.length > 0) this.#curves = undefined;
    if (before > 0 && fresh.some(({ event }) => event.kind === "resume")) await this.#index.refresh(true);
    return fresh;
  }

  #startOver(): void {
    this.#events.length = 0;
    this.#withSpans.clear();
    this.#position = 0;
    this.#damage = [];
    this.#curves = undefined;
  }

  async overview(): Promise<RunOverview> {
    const [item] = await Promise.all([summary(this.path), this.refreshEvents()]);
    const { path: _, manifest, metrics: __, ...rest } = item;
    // Its size is measured in the background, for the table of runs alone.
    const { bytes: _bytes, ...more } = await listItem(this.id, this.path);
    const events = this.#events.map(({ event }) => event);
    const newest: Record<string, number> = {};
    for (const { metrics } of events) Object.assign(newest, metrics);
    return {
      ...more,
      ...rest,
      id: this.id,
      commands: runCommands(this.path, manifest, more.checkpoints),
      writable: this.writable,
      metrics: newest as NewestMetrics,
      ...(manifest && { manifest }),
      steps: new Set(events.filter(({ kind }) => kind === "train").map(({ step }) => step)).size,
      metricNames: [...this.#series().values()].map(({ name, info, total }) => ({ name, info, points: total })),
      alarms: findAlarms(events),
      ...failureOf(events),
      log: events.filter(isLogged).slice(-LOG_LINES).map(logLine),
      position: this.#position,
      missing: [...new Set([...item.missing, ...this.#damage, ...this.#tail, ...this.#index.missing])],
    };
  }

  async series(names: readonly string[] = [], points = DEFAULT_POINTS): Promise<SeriesReply> {
    await this.refreshEvents();
    const all = this.#series();
    const wanted = names.length === 0 ? [...all.values()] : names.flatMap((name) => all.get(name) ?? []);
    const clock = clockOf(this.#events.map(({ event }) => event));
    return { series: wanted.map((one) => thinOut(one, Math.max(8, points))), clock };
  }

  async trajectories(query: TrajectoryQuery): Promise<TrajectoryPage> {
    await this.#indexed();
    const { progress } = this.#index;
    const rows = await this.#labelled();
    this.#facets ??= facetsOf(rows);
    let found = rows.filter((row) => matches(row, query));
    if (query.text) {
      const keys = await this.#index.search(query.text);
      found = found.filter(({ key }) => keys.has(key));
    }
    return {
      total: found.length,
      all: rows.length,
      offset: query.offset ?? 0,
      rows: pageOf(sortRows(found, query), query),
      facets: this.#facets,
      missing: this.#index.missing,
      ...(progress && { indexing: { ...progress } }),
    };
  }

  /** Rows with what people say of them. Kept until the index or a label changes. */
  async #labelled(): Promise<readonly TrajectoryRow[]> {
    const labels = await this.labels.all();
    const { generation } = this.#index;
    if (this.#rows?.labels !== labels || this.#rows.generation !== generation) {
      const rows = [...this.#index.rows()].map((row) => {
        const label = labels.get(row.key);
        return label === undefined ? row : { ...row, ...label };
      });
      this.#rows = { labels, generation, rows };
      this.#facets = undefined;
    }
    return this.#rows.rows;
  }

  async trajectory(key: string): Promise<TrajectoryReply | undefined> {
    const found = await this.#find(key);
    if (found === undefined) return undefined;
    const { record } = found;
    const row = { ...found.row, ...(await this.labels.all()).get(key) };
    const order = await this.#labelled();
    const at = order.findIndex((one) => one.key === key);
    const [previous, next] = [order[at - 1]?.key, order[at + 1]?.key];
    return {
      row,
      record,
      siblings: siblingsOf(order, row),
      command: await this.#playCommand(record),
      missingFrames: await this.#missingFrames(record),
      ...(previous !== undefined && { previous }),
      ...(next !== undefined && { next }),
    };
  }

  async group(key: string): Promise<GroupReply | undefined> {
    const found = await this.#find(key);
    return found && groupReply(await this.#episodes(siblingsOf(this.#index.rows(), found.row)));
  }

  async evaluations(): Promise<EvaluationsReply> {
    await this.#indexed();
    return { seeds: evaluatedSeeds(this.#index.rows()) };
  }

  async pinned(env: string, seed: number, temperature: number): Promise<PinnedReply> {
    await this.#indexed();
    const rows = pinnedRows(this.#index.rows(), env, seed, temperature).slice(-MAX_PINNED);
    return { env, seed, temperature, episodes: await this.#episodes(rows) };
  }

  async sight(): Promise<SightReply> {
    await this.#indexed();
    const probes = this.#events.flatMap(({ event }) => probeOf(event) ?? []);
    return { probes, ...sightOfRows(this.#index.rows()) };
  }

  /** Events with their spans, read again from the file: those of `placed` (in file order) that have any. */
  async *withSpans(placed: readonly PlacedEvent[]): AsyncGenerator<RunEvent, void, void> {
    const starts = placed.map(({ start }) => start).filter((start) => this.#withSpans.has(start));
    const [first, last] = [starts[0], starts.at(-1)];
    if (first === undefined || last === undefined) return;
    if (!(await isInside(this.path, join(this.path, EVENTS_FILE)))) return;
    const wanted = new Set(starts);
    for await (const { event, start } of readEvents(this.path, [], first)) {
      if (wanted.has(start)) yield event;
      if (start >= last) return;
    }
  }

  hasSpans({ start }: PlacedEvent): boolean {
    return this.#withSpans.has(start);
  }

  async frameBytes(hash: string): Promise<Uint8Array | undefined> {
    return (await this.#ownsFrame(hash)) ? readFrameBytes(this.path, hash) : undefined;
  }

  async frame(hash: string): Promise<Image | undefined> {
    return (await this.#ownsFrame(hash)) ? readFrame(this.path, hash) : undefined;
  }

  async #playCommand(record: TrajectoryRecord): Promise<Command> {
    const linked = (await linksOut(this.path)).length > 0;
    const { manifest } = linked ? {} : await readManifest(this.path);
    const { checkpoints } = await listItem(this.id, this.path);
    return episodeCommand(this.path, record, optionsOf(record.env, manifest).options, checkpoints.length > 0);
  }

  /** The record, once the index is there or after it was brought up to date: a file may have been replaced since. */
  async #find(key: string): Promise<{ row: TrajectoryRow; record: TrajectoryRecord } | undefined> {
    for (const again of [false, true]) {
      if (again) await this.#index.refresh(true);
      const [row, record] = [this.#index.row(key), await this.#index.record(key)];
      if (row !== undefined && record !== undefined) return { row, record };
    }
    return undefined;
  }

  async #episodes(rows: readonly TrajectoryRow[]): Promise<GroupReply["members"]> {
    const episodes: GroupReply["members"][number][] = [];
    for (const row of rows) {
      const record = await this.#index.record(row.key);
      if (record !== undefined) episodes.push(withoutTokens(row, record));
    }
    return episodes;
  }

  /** Events first: a resume among them says that files of trajectories were made anew. */
  async #indexed(): Promise<void> {
    await this.refreshEvents();
    let timer: NodeJS.Timeout | undefined;
    const patience = new Promise<void>((resolve) => {
      timer = setTimeout(resolve, INDEX_PATIENCE_MS);
    });
    await Promise.race([this.#index.refresh(), patience]).finally(() => clearTimeout(timer));
  }

  async #missingFrames(record: TrajectoryRecord): Promise<string[]> {
    const missing: string[] = [];
    for (const hash of framesOf(record)) {
      const bytes = await this.frameBytes(hash).catch(() => undefined);
      if (bytes === undefined) missing.push(hash);
    }
    return missing;
  }

  #ownsFrame(hash: string): Promise<boolean> {
    if (!/^[0-9a-f]{32}$/.test(hash)) throw new DataError("A frame is named by 32 hexadecimal digits.");
    return isInside(this.path, join(this.path, FRAMES_FOLDER, `${hash}.png`));
  }

  #series(): ReadonlyMap<string, Series> {
    this.#curves ??= curvesOf(this.#events.map(({ event }) => event));
    return this.#curves;
  }
}

/** The part of it that changes while nothing is logged: whether somebody writes. */
export async function statusOf(path: string): Promise<RunListItem["status"]> {
  if ((await linksOut(path)).length > 0) return "interrupted";
  const status = (await readManifest(path)).manifest?.status ?? "running";
  return status === "running" && !(await isLocked(path)) ? "interrupted" : status;
}

/** Every frame a record names. */
export function framesOf(record: TrajectoryRecord): Set<string> {
  const hashes = record.turns.flatMap(({ frames, modelFrames = [] }) => [...frames, ...modelFrames]);
  const sampled = (record.tokens ?? []).flatMap(({ images }) => images.map(({ hash }) => hash));
  return new Set([...hashes, ...sampled, ...(record.final?.frames ?? [])]);
}

/** What failed before the run went on again may be mended. */
function failureOf(events: readonly RunEvent[]): Pick<RunOverview, "failure"> {
  const since = events.findLastIndex(({ kind }) => kind === "resume");
  const found = events.slice(since + 1).find(({ kind }) => kind === "failure");
  return found?.data === undefined ? {} : { failure: { ...(found.data as Failure), step: found.step } };
}

const LOGGED = new Set<RunEvent["kind"]>(["start", "resume", "alarm", "failure", "checkpoint", "note", "end"]);

function isLogged({ kind }: RunEvent): boolean {
  return LOGGED.has(kind);
}

export function logLine({ step, time, kind, message, data }: RunEvent): LogLine {
  return { step, time, kind, ...(message !== undefined && { message }), ...(data !== undefined && { data }) };
}
