/**
 * The run folder, opened by the one process that writes it:
 *
 *     run.json                   what the run is, how it stands
 *     notes.json                 what people say about it (tags, note, star): written by others, see `notes.ts`
 *     events.jsonl               metrics and what happened, in order
 *     trajectories/step-N.jsonl  kept episodes
 *     frames/<hash>.png          each distinct frame once
 *     checkpoints/step-N/        with latest.json and best.json
 *
 * Nothing here waits for the disk in the middle of a step; checkpoints do, and everything before them is on disk when they are. So a
 * process killed at any instant leaves a folder that `openRun` opens and `begin` continues. Readers need no opening: see the
 * `read…`, `load…` and `list…` functions of this room.
 */
import { mkdir } from "node:fs/promises";
import { basename, join, resolve } from "node:path";
import { ConfigError } from "../core/errors.ts";
import type { Image } from "../core/image.ts";
import { isJsonObject, type Json, type JsonObject } from "../core/json.ts";
import { move } from "../core/move.ts";
import { type Checkpoint, CheckpointStore } from "./checkpoints.ts";
import { EVENTS_FILE, type EventKind, EventWriter, type Metrics, type RunEvent } from "./events.ts";
import { namesIn, removeLeftovers, TEMPORARY } from "./files.ts";
import { type FrameOptions, FrameStore } from "./frames.ts";
import { LOCK_FILE, lockRun } from "./lock.ts";
import {
  differences,
  governedFrom,
  MANIFEST_FILE,
  type Manifest,
  type RunStatus,
  readManifest,
  writeManifest,
} from "./manifest.ts";
import { checkMetric } from "./metrics.ts";
import {
  type Keepable,
  keepPolicy,
  type TrajectoryOptions,
  type TrajectoryRecord,
  TrajectoryStore,
} from "./trajectories.ts";

export type RunOptions = {
  /** The resolved configuration, whole. */
  readonly config: JsonObject;
  readonly versions?: Readonly<Record<string, string>>;
  readonly seeds?: JsonObject;
  readonly name?: string;
  /** `either` (default): go on with the run that is there, or start one. */
  readonly mode?: "new" | "resume" | "either";
  readonly frames?: FrameOptions;
  readonly trajectories?: TrajectoryOptions;
  /** How many checkpoints stay, besides the best. */
  readonly keepCheckpoints?: number;
};

export async function openRun(path: string, options: RunOptions): Promise<RunFolder> {
  const runPath = resolve(path);
  await mkdir(runPath, { recursive: true });
  const unlock = await lockRun(runPath);
  try {
    return await RunFolder.open(runPath, options, unlock);
  } catch (error) {
    await unlock();
    throw error;
  }
}

/** Made by `openRun`. */
export class RunFolder {
  readonly path: string;
  /** Whether a run was there already. */
  readonly resumed: boolean;
  /** What opening found and did, in words: repairs, changes of the configuration. */
  readonly notes: string[];
  readonly events: EventWriter;
  readonly frames: FrameStore;
  readonly trajectories: TrajectoryStore;
  readonly checkpoints: CheckpointStore;
  #manifest: Manifest;
  readonly #unlock: () => Promise<void>;
  #unkept = 0;
  #lossTold = false;

  private constructor(
    parts: Pick<RunFolder, "path" | "resumed" | "notes" | "events" | "frames" | "trajectories" | "checkpoints">,
    manifest: Manifest,
    unlock: () => Promise<void>,
  ) {
    this.path = parts.path;
    this.resumed = parts.resumed;
    this.notes = parts.notes;
    this.events = parts.events;
    this.frames = parts.frames;
    this.trajectories = parts.trajectories;
    this.checkpoints = parts.checkpoints;
    this.#manifest = manifest;
    this.#unlock = unlock;
  }

  static async open(path: string, options: RunOptions, unlock: () => Promise<void>): Promise<RunFolder> {
    const notes: string[] = [];
    const { manifest: before, problem } = await readManifest(path);
    const names = (await namesIn(path)).filter((name) => name !== LOCK_FILE && !name.startsWith(TEMPORARY));
    const resumed = before !== undefined || names.includes(EVENTS_FILE);
    checkMode(path, options.mode ?? "either", resumed, names);
    await removeLeftovers(path);
    if (problem !== undefined) {
      await move(join(path, MANIFEST_FILE), join(path, `${MANIFEST_FILE}.damaged`));
      notes.push(`${problem} It was renamed to ${MANIFEST_FILE}.damaged and written again from this configuration.`);
    } else if (resumed && before === undefined) {
      notes.push(`${MANIFEST_FILE} was missing; it was written again from this configuration.`);
    }
    const changed = before === undefined ? [] : differences(before.config, options.config);
    for (const { key, before: a, after: b } of changed) {
      notes.push(`The configuration changed: ${key} was ${JSON.stringify(a)}, is ${JSON.stringify(b)}.`);
    }
    const checkpoints = new CheckpointStore(path, { keep: options.keepCheckpoints ?? 2 });
    notes.push(...(await checkpoints.recover()));
    // Should none be whole, `begin` says so, and nothing runs.
    const from = await checkpoints.latest().catch(() => undefined);
    const now = new Date().toISOString();
    const manifest: Manifest = {
      format: 1,
      name: options.name ?? before?.name ?? basename(path),
      status: "running",
      step: before?.step ?? 0,
      started: before?.started ?? now,
      updated: now,
      config: options.config,
      history: governedFrom(before, options.config, from?.step ?? 0),
      versions: { node: process.version, platform: `${process.platform}-${process.arch}`, ...options.versions },
      seeds: options.seeds ?? {},
      resumes: [
        ...(before?.resumes ?? []),
        ...(resumed ? [{ time: now, changed: changed.map(({ key }) => key) }] : []),
      ],
    };
    const frames = await FrameStore.open(path, options.frames);
    const trajectories = await TrajectoryStore.open(path, options.trajectories);
    await writeManifest(path, manifest);
    const { writer: events, repaired } = await EventWriter.open(path);
    if (repaired !== undefined) notes.push(repaired);
    return new RunFolder({ path, resumed, notes, events, frames, trajectories, checkpoints }, manifest, unlock);
  }

  get manifest(): Manifest {
    return this.#manifest;
  }

  /**
   * Call once before the first step: returns the checkpoint to go on from, with the state given to `saveCheckpoint`; undefined: start
   * at step 0. What was logged after that checkpoint no longer counts, because it is played again.
   */
  async begin(): Promise<Checkpoint | undefined> {
    if (!this.resumed) {
      this.log("start", 0, {});
      return undefined;
    }
    const checkpoint = await this.checkpoints.latest();
    if (checkpoint?.note !== undefined) this.notes.push(checkpoint.note);
    const { events = 0, state = null } = isJsonObject(checkpoint?.state) ? checkpoint.state : {};
    const step = checkpoint?.step ?? 0;
    if (this.events.position < Number(events)) {
      this.notes.push(`${EVENTS_FILE} has only ${this.events.position} of the ${events} bytes it had at step ${step}.`);
    }
    await this.trajectories.discardAfter(checkpoint?.step ?? -1);
    this.#append({ step, time: Date.now(), kind: "resume", metrics: {}, from: Number(events) });
    await this.events.flush();
    return checkpoint === undefined ? undefined : { ...checkpoint, state };
  }

  /** Logs an event and returns at once; the event is returned for whoever watches (alarms, the terminal). */
  log(
    kind: EventKind,
    step: number,
    metrics: Metrics,
    more: Pick<RunEvent, "message" | "spans" | "data"> = {},
  ): RunEvent {
    for (const name of Object.keys(metrics)) checkMetric(name);
    return this.#append({ step, time: Date.now(), kind, metrics, ...more });
  }

  /**
   * Stores the episodes that `keepPolicy` keeps, with their frames. `recordOf` is called for these only, and later, one at a time:
   * it must not read what changes after this call.
   */
  keep<T extends Keepable>(
    step: number,
    episodes: readonly T[],
    recordOf: (episode: T) => TrajectoryRecord,
    framesOf: (episode: T) => Iterable<Image>,
    limits: Parameters<typeof keepPolicy>[1] = {},
  ): { kept: number; dropped: number } {
    const { kept, dropped } = keepPolicy(episodes, limits);
    this.#unkept += dropped;
    for (const { episode } of kept) for (const frame of framesOf(episode)) this.frames.put(frame);
    this.trajectories.append(
      step,
      kept.map(({ episode, why }) => () => ({ ...recordOf(episode), kept: why })),
    );
    return { kept: kept.length, dropped };
  }

  /** `write` fills the folder it is given; `state` comes back from `begin`. All that was logged before is on disk when this is done. */
  async saveCheckpoint(
    step: number,
    write: (folder: string) => Promise<void>,
    state: Json = null,
  ): Promise<Checkpoint> {
    await Promise.all([this.frames.flush(), this.trajectories.flush()]);
    // Logged first, so that it counts after a resume; should saving fail, a resume from an earlier checkpoint makes it void.
    this.log("checkpoint", step, {});
    await this.events.flush(true);
    const checkpoint = await this.checkpoints.save(step, write, { events: this.events.position, state });
    await this.#update({});
    return { ...checkpoint, state };
  }

  /** What logging itself stored and dropped. */
  get counts(): Metrics {
    const frames = this.frames.counts;
    const rows = this.trajectories.counts;
    return {
      "log/frames": frames.stored,
      "log/frame_bytes": frames.bytes,
      "log/frames_dropped": frames.overBudget + frames.overBacklog + frames.failed,
      "log/trajectories_dropped": rows.overBudget + rows.overBacklog + rows.failed,
      "log/trajectories_unkept": this.#unkept,
      "log/events_lost": this.events.lost,
    };
  }

  /** Says, once, that frames or episodes are no longer stored; undefined while all are, and after it was said. */
  lossNote(): string | undefined {
    const { overBudget, overBacklog, failed } = this.frames.counts;
    const frames = overBudget + overBacklog + failed;
    const rows = this.counts["log/trajectories_dropped"] ?? 0;
    if (this.#lossTold || frames + rows === 0) return undefined;
    this.#lossTold = true;
    const why = [
      ...(overBudget > 0 ? ["the byte budget of frames is spent (log.frameBudgetMB in a recipe)"] : []),
      ...(overBacklog > 0 ? ["they came faster than the disk takes them"] : []),
      ...this.problems,
    ];
    return (
      `${frames} frames${rows > 0 ? ` and ${rows} episodes` : ""} were not stored so far` +
      `${why.length > 0 ? `: ${why.join("; ")}` : ""}. The viewer shows those episodes without them; log/frames_dropped goes on counting.`
    );
  }

  /** The first failure of each kind of logging, in words; training went on without it. */
  get problems(): string[] {
    const { frames, trajectories } = this;
    return [
      ...(frames.problem === undefined ? [] : [`Frames can't be stored: ${frames.problem}`]),
      ...(trajectories.problem === undefined ? [] : [`Trajectories can't be stored: ${trajectories.problem}`]),
    ];
  }

  async flush(): Promise<void> {
    await Promise.all([this.frames.flush(), this.trajectories.flush(), this.events.flush()]);
  }

  /** Ends writing. `failed` with the error's message when the run broke; `stopped` when a person ended it. */
  async close(status: Exclude<RunStatus, "running">, message?: string): Promise<void> {
    const more = message === undefined ? {} : { message };
    try {
      await Promise.all([this.frames.flush(), this.trajectories.flush()]);
      const lost = this.lossNote();
      if (lost !== undefined) this.log("note", this.#manifest.step, {}, { message: lost });
      this.log("end", this.#manifest.step, this.counts, { ...more, data: { status } });
      await this.flush();
      await this.events.close();
      await this.#update({ status, ...more });
    } finally {
      await this.#unlock();
    }
  }

  #append(event: RunEvent): RunEvent {
    this.events.append(event);
    this.#manifest = { ...this.#manifest, step: event.step };
    return event;
  }

  async #update(changes: Partial<Manifest>): Promise<void> {
    this.#manifest = { ...this.#manifest, ...changes, updated: new Date().toISOString() };
    await writeManifest(this.path, this.#manifest);
  }
}

function checkMode(path: string, mode: "new" | "resume" | "either", resumed: boolean, names: readonly string[]): void {
  if (mode === "new" && resumed) {
    throw new ConfigError(`${path} already holds a run. Choose another folder, or resume this one.`);
  }
  if (mode === "resume" && !resumed) throw new ConfigError(`${path} holds no run to resume. Check the path.`);
  const others = names.filter((name) => !OWN_NAMES.has(name));
  if (!resumed && others.length > 0) {
    throw new ConfigError(
      `${path} holds other files (${others.slice(0, 3).join(", ")}). Choose an empty folder for a run.`,
    );
  }
}

const OWN_NAMES = new Set([MANIFEST_FILE, `${MANIFEST_FILE}.damaged`, "frames", "trajectories", "checkpoints"]);
