/**
 * Follows a run folder and tells a tracker what is new in it. A cursor file keeps how far the tracker got, so a killed run goes on where
 * the tracker stopped hearing of it. A tracker that fails or hangs is asked again later and never holds the run up.
 */
import { mkdir, readFile, stat } from "node:fs/promises";
import { join } from "node:path";
import { errorMessage } from "../../core/errors.ts";
import { Image } from "../../core/image.ts";
import type { JsonObject } from "../../core/json.ts";
import { encodePng } from "../../images/png.ts";
import { EVENTS_FILE, type RunEvent, readEvents } from "../events.ts";
import { writeAtomic } from "../files.ts";
import { readFrame } from "../frames.ts";
import { readManifest } from "../manifest.ts";
import { readTrajectories, type TrajectoryRecord } from "../trajectories.ts";
import { histogramOf, type Tracked, type TrackedValue, type Tracker } from "./tracker.ts";

const CURSOR_FOLDER = "trackers";
/** Events that are told in one call. */
const MAX_ITEMS = 200;
/** Evaluation episodes of a step that are shown, and frames of each. */
const MAX_EPISODES = 4;
const MAX_FRAMES = 8;
const GAP = 4;

type Cursor = { readonly byte: number; readonly memory: JsonObject };

export type FollowOptions = {
  /** Names the cursor file; without it the whole run is told and nothing is remembered. */
  readonly cursor?: string;
  /** Milliseconds that one call of the tracker may take. */
  readonly timeoutMs?: number;
};

export class Follower {
  readonly #path: string;
  readonly #tracker: Tracker;
  readonly #options: FollowOptions;
  #cursor: Cursor | undefined;

  constructor(path: string, tracker: Tracker, options: FollowOptions = {}) {
    this.#path = path;
    this.#tracker = tracker;
    this.#options = options;
  }

  /** Tells the tracker everything new. Rejects when it fails; the next call begins at the same place. */
  async catchUp(): Promise<void> {
    this.#cursor ??= await this.#open();
    let items: Tracked[] = [];
    let byte = this.#cursor.byte;
    for await (const { event, end } of readEvents(this.#path, [], byte)) {
      items.push(...(await trackedOf(this.#path, event)));
      byte = end;
      if (items.length >= MAX_ITEMS) {
        await this.#write(items, byte);
        items = [];
      }
    }
    if (byte > this.#cursor.byte) await this.#write(items, byte);
  }

  async close(status: "finished" | "failed" | "stopped"): Promise<void> {
    if (this.#cursor !== undefined) await this.#tracker.close(status, this.#signal());
  }

  async #open(): Promise<Cursor> {
    const before = await this.#read();
    const { manifest } = await readManifest(this.#path);
    const run = {
      path: this.#path,
      name: manifest?.name ?? "run",
      config: manifest?.config ?? {},
      memory: before?.memory ?? {},
    };
    return { byte: before?.byte ?? 0, memory: await this.#tracker.open(run) };
  }

  async #write(items: readonly Tracked[], byte: number): Promise<void> {
    if (items.length > 0) await this.#tracker.write(items, this.#signal());
    this.#cursor = { byte, memory: this.#cursor?.memory ?? {} };
    const path = this.#cursorPath;
    if (path === undefined) return;
    await mkdir(join(this.#path, CURSOR_FOLDER), { recursive: true });
    await writeAtomic(path, JSON.stringify(this.#cursor), false);
  }

  get #cursorPath(): string | undefined {
    const { cursor } = this.#options;
    return cursor === undefined ? undefined : join(this.#path, CURSOR_FOLDER, `${cursor}.json`);
  }

  async #read(): Promise<Cursor | undefined> {
    const path = this.#cursorPath;
    if (path === undefined) return undefined;
    try {
      const cursor = JSON.parse(await readFile(path, "utf8")) as Cursor;
      // A run folder that was emptied and filled again has another beginning.
      return cursor.byte <= (await stat(join(this.#path, EVENTS_FILE))).size ? cursor : undefined;
    } catch {
      return undefined;
    }
  }

  #signal(): AbortSignal {
    return AbortSignal.timeout(this.#options.timeoutMs ?? 20_000);
  }
}

/** Milliseconds that the end of a run waits for its trackers, and for one that failed before. */
const CLOSE_MS = 10_000;
const FAILED_CLOSE_MS = 2_000;

type Live = { readonly follower: Follower; readonly label: string; running?: Promise<void> | undefined };

/** Keeps several trackers up to date while a run is live, each at its own pace. */
export class LiveTrackers {
  readonly #followers: readonly Live[];
  readonly #onProblem: (message: string) => void;
  readonly #told = new Set<string>();
  readonly #timer: NodeJS.Timeout;

  constructor(
    path: string,
    trackers: readonly { readonly name: string; readonly tracker: Tracker }[],
    onProblem: (message: string) => void,
    everyMs = 2_000,
  ) {
    this.#followers = trackers.map(({ name, tracker }) => ({
      follower: new Follower(path, tracker, { cursor: name }),
      label: tracker.label,
    }));
    this.#onProblem = onProblem;
    this.#timer = setInterval(() => {
      for (const live of this.#followers) void this.#catchUp(live);
    }, everyMs);
    this.#timer.unref();
  }

  /** Tells the trackers the rest and closes them, for as long as a run's end may wait. */
  async close(status: "finished" | "failed" | "stopped", withinMs = CLOSE_MS): Promise<void> {
    clearInterval(this.#timer);
    await Promise.all(
      this.#followers.map(async (live) => {
        const rest = async () => {
          await live.running;
          await this.#catchUp(live);
          await live.follower.close(status).catch((error) => this.#tell(live.label, error));
        };
        const limit = this.#told.has(live.label) ? Math.min(withinMs, FAILED_CLOSE_MS) : withinMs;
        let late: NodeJS.Timeout | undefined;
        const enough = new Promise<"late">((done) => {
          late = setTimeout(() => done("late"), limit);
        });
        if ((await Promise.race([rest(), enough])) === "late") {
          this.#tell(live.label, new Error(`no answer within ${limit} ms at the end of the run`));
        }
        clearTimeout(late);
      }),
    );
  }

  #catchUp(live: Live): Promise<void> {
    live.running ??= live.follower
      .catchUp()
      .catch((error) => this.#tell(live.label, error))
      .finally(() => {
        live.running = undefined;
      });
    return live.running;
  }

  #tell(label: string, error: unknown): void {
    if (this.#told.has(label)) return;
    this.#told.add(label);
    this.#onProblem(
      `${label} does not take this run's metrics: ${errorMessage(error)}. Training goes on, and Saccade tries again; the run folder has everything.`,
    );
  }
}

/** What an event says, in the trackers' words. */
async function trackedOf(path: string, event: RunEvent): Promise<Tracked[]> {
  const { step, time, kind, metrics, message, data } = event;
  // The step of the checkpoint counts; those after it are played again.
  if (kind === "resume") return [{ step: step + 1, time, values: [], restart: true }];
  const values: TrackedValue[] = Object.entries(metrics).map(([tag, scalar]) => ({ tag, scalar }));
  if (message !== undefined) values.push({ tag: `text/${kind}`, text: message });
  const rewards = data?.rewards;
  if (Array.isArray(rewards)) values.push({ tag: "rewards", histogram: histogramOf(rewards as [number, number][]) });
  if (kind === "eval") values.push(...(await films(path, step)));
  return values.length === 0 ? [] : [{ step, time, values }];
}

async function films(path: string, step: number): Promise<TrackedValue[]> {
  const episodes = (await readTrajectories(path, step)).filter(({ split }) => split === "eval").slice(0, MAX_EPISODES);
  const values: TrackedValue[] = [];
  for (const [index, episode] of episodes.entries()) {
    const strip = await filmStrip(path, episode);
    if (strip === undefined) continue;
    const { width, height } = strip;
    values.push({ tag: `episodes/${index}`, png: encodePng(strip), width, height });
    values.push({ tag: `episodes/${index}`.concat("/text"), text: transcript(episode) });
  }
  return values;
}

/** Frames of an episode side by side, from the first to the last. */
export async function filmStrip(path: string, episode: TrajectoryRecord): Promise<Image | undefined> {
  const hashes = [...episode.turns.flatMap(({ frames }) => frames), ...(episode.final?.frames ?? [])];
  const many = Math.min(hashes.length, MAX_FRAMES);
  const chosen = Array.from({ length: many }, (_, i) => Math.round((i * (hashes.length - 1)) / Math.max(1, many - 1)));
  const read = await Promise.all(chosen.map((index) => readFrame(path, hashes[index] ?? "")));
  const frames = read.filter((frame) => frame !== undefined);
  if (frames.length === 0) return undefined;
  const width = frames.reduce((sum, frame) => sum + frame.width, GAP * (frames.length - 1));
  const height = Math.max(...frames.map((frame) => frame.height));
  const pixels = new Uint8Array(width * height * 3).fill(255);
  let left = 0;
  for (const frame of frames) {
    for (let y = 0; y < frame.height; y++) {
      const row = frame.data.subarray(y * frame.width * 3, (y + 1) * frame.width * 3);
      pixels.set(row, (y * width + left) * 3);
    }
    left += frame.width + GAP;
  }
  return new Image(width, height, pixels);
}

function transcript({ id, reward, success, turns }: TrajectoryRecord): string {
  const lines = turns.map(({ reply }, index) => `${index + 1}. ${reply}`);
  return [`${id}: reward ${reward}, ${success ? "success" : "no success"}`, ...lines].join("\n\n");
}
