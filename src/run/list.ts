/** The runs under a folder and how each stands, for `saccade runs` and the viewer's first page. Reads only the ends of long files. */
import { readdir, rm, stat } from "node:fs/promises";
import { basename, join, resolve } from "node:path";
import { ConfigError } from "../core/errors.ts";
import { move } from "../core/move.ts";
import { CheckpointStore } from "./checkpoints.ts";
import { EVENTS_FILE, loadEvents, type Metrics } from "./events.ts";
import { namesIn, TEMPORARY, temporaryName } from "./files.ts";
import { tailStart } from "./jsonl.ts";
import { isLocked } from "./lock.ts";
import { isRun, type Manifest, type RunStatus, readManifest } from "./manifest.ts";
import { type RunNotes, readNotes } from "./notes.ts";

export { isRun };

/** Bytes read from the end of `events.jsonl`: hundreds of steps. */
const TAIL_BYTES = 1024 * 1024;

export type RunSummary = {
  readonly path: string;
  readonly name: string;
  /** `interrupted`: it says it runs, but no process writes. */
  readonly status: RunStatus | "interrupted";
  readonly message?: string;
  readonly step: number;
  /** ISO 8601; absent when the manifest can't be read. */
  readonly started?: string;
  /** Milliseconds since 1970: when an event was last written. */
  readonly updated: number;
  /** The newest value of each metric. */
  readonly metrics: Metrics;
  readonly bestStep?: number;
  /** The score of the best checkpoint. */
  readonly bestScore?: number;
  /** Milliseconds that it was at work; pauses before it went on are not counted where the end of the events shows them. */
  readonly workedMs?: number;
  readonly manifest?: Manifest;
  /** What people say about it. */
  readonly notes: RunNotes;
  /** What can't be read, in words. */
  readonly missing: readonly string[];
};

/** `root` may be a run itself. Newest first. */
export async function listRuns(root: string): Promise<RunSummary[]> {
  const folders = [
    root,
    ...(await namesIn(root)).filter((name) => !name.startsWith(TEMPORARY)).map((name) => join(root, name)),
  ];
  const runs: RunSummary[] = [];
  for (const folder of folders) if (await isRun(folder)) runs.push(await summarizeRun(folder));
  return runs.sort((a, b) => b.updated - a.updated);
}

/** Removes a run folder with everything in it. Refuses what is not a run, and a run that a process writes. It vanishes in one rename, so half a run is never listed. */
export async function deleteRun(runPath: string): Promise<void> {
  const path = resolve(runPath);
  if (!(await isRun(path))) throw new ConfigError(`${path} is not a run folder, so nothing was deleted.`);
  if (await isLocked(path))
    throw new ConfigError(`${path} is being written by a process: stop it first. Nothing was deleted.`);
  const gone = temporaryName(path);
  await move(path, gone);
  await rm(gone, { recursive: true, force: true });
}

export async function summarizeRun(folder: string): Promise<RunSummary> {
  const path = resolve(folder);
  const { manifest, problem } = await readManifest(path);
  const { events, missing } = await loadEvents(path, await tailStart(join(path, EVENTS_FILE), TAIL_BYTES));
  const metrics: Record<string, number> = {};
  for (const event of events) Object.assign(metrics, event.metrics);
  const status = manifest?.status ?? "running";
  const last = events.at(-1);
  const best = await new CheckpointStore(path).bestScore();
  return {
    path,
    name: manifest?.name ?? basename(path),
    status: status === "running" && !(await isLocked(path)) ? "interrupted" : status,
    ...(manifest?.message !== undefined && { message: manifest.message }),
    step: last?.step ?? manifest?.step ?? 0,
    ...(manifest !== undefined && { started: manifest.started, manifest }),
    updated: last?.time ?? (await stat(path)).mtimeMs,
    metrics,
    ...(best !== undefined && { bestStep: best.step, bestScore: best.score }),
    ...(manifest !== undefined && { workedMs: workedMs(Date.parse(manifest.started), events) }),
    notes: await readNotes(path),
    missing: [...(problem === undefined ? [] : [problem]), ...missing],
  };
}

function workedMs(started: number, events: readonly { readonly kind: string; readonly time: number }[]): number {
  let total = Math.max(0, (events.at(-1)?.time ?? started) - started);
  for (const [i, { kind, time }] of events.entries()) {
    if (kind === "resume" && i > 0) total -= Math.max(0, time - (events[i - 1] as { time: number }).time);
  }
  return total;
}

/** Bytes of a run's files. Reads every folder in it, so it is not part of a summary. */
export async function runSize(runPath: string): Promise<number> {
  let total = 0;
  for (const entry of await readdir(runPath, { recursive: true, withFileTypes: true })) {
    if (!entry.isFile()) continue;
    // One that goes away meanwhile (a checkpoint that makes room) counts nothing.
    total += await stat(join(entry.parentPath, entry.name)).then(
      ({ size }) => size,
      () => 0,
    );
  }
  return total;
}
