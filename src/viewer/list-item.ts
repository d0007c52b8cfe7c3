/**
 * How a run stands, for lists: what `summarizeRun` finds, and what a table shows beside it (environments, model, recipe, best success, duration,
 * size). A run whose files have not changed is not read again, so that a page may ask every few seconds; sizes are measured in the background.
 */
import { lstat, readdir, stat } from "node:fs/promises";
import { basename, join } from "node:path";
import { isJsonObject, type Json, type JsonObject } from "../core/json.ts";
import { CheckpointStore } from "../run/checkpoints.ts";
import { EVENTS_FILE } from "../run/events.ts";
import { type RunSummary, summarizeRun } from "../run/list.ts";
import { isLocked } from "../run/lock.ts";
import { MANIFEST_FILE } from "../run/manifest.ts";
import { NO_NOTES, NOTES_FILE } from "../run/notes.ts";
import type { RunListItem } from "./api.ts";
import { linksOut } from "./paths.ts";

type Kept = { readonly signature: string; readonly item: Omit<RunListItem, "id"> };

const kept = new Map<string, Kept>();
const MAX_KEPT = 1000;

export async function listItem(id: string, path: string): Promise<RunListItem> {
  const signature = await signatureOf(path);
  const known = kept.get(path);
  const item = known?.signature === signature ? known.item : await read(path);
  kept.delete(path);
  kept.set(path, { signature, item });
  for (const oldest of [...kept.keys()].slice(0, -MAX_KEPT)) kept.delete(oldest);
  const bytes = sizeOf(path, item.updated);
  return { ...item, id, ...(bytes !== undefined && { bytes }) };
}

/** Changes when something is written, and when its writer dies. */
async function signatureOf(path: string): Promise<string> {
  const files = [EVENTS_FILE, MANIFEST_FILE, NOTES_FILE, "checkpoints", "checkpoints/best.json"];
  const marks = files.map(async (name) => {
    const info = await lstat(join(path, name)).catch(() => undefined);
    return info === undefined ? "" : `${info.ino}:${info.size}:${info.mtimeMs}`;
  });
  return [...(await Promise.all(marks)), await isLocked(path)].join(" ");
}

async function read(path: string): Promise<Omit<RunListItem, "id">> {
  const { path: _, manifest, bestScore: __, workedMs, ...rest } = await summary(path);
  const config = manifest?.config ?? {};
  const store = new CheckpointStore(path);
  const whole = rest.missing.length === 0 || manifest !== undefined;
  const best = whole ? await store.bestScore() : undefined;
  const model = modelWord(config.model);
  return {
    ...rest,
    ...(best !== undefined && /success/.test(best.metric) && { best: best.score }),
    envs: envsOf(config),
    ...(model !== undefined && { model }),
    ...(typeof config.name === "string" && { recipe: config.name }),
    ...(workedMs !== undefined && { ms: workedMs }),
    checkpoints: whole ? await store.steps() : [],
  };
}

/** `summarizeRun`, unless a file it would read leads out of the run. */
export async function summary(path: string): Promise<RunSummary> {
  const out = await linksOut(path);
  if (out.length === 0) return summarizeRun(path);
  return {
    path,
    name: path.split(/[/\\]/).at(-1) ?? path,
    status: "interrupted",
    step: 0,
    updated: 0,
    metrics: {},
    notes: NO_NOTES,
    missing: [`${out.join(", ")}: a link out of the run folder; this run is not read. Replace it by the file itself.`],
  };
}

/** A training run lists them under `envs`, an evaluation has one `env`. */
function envsOf(config: JsonObject): string[] {
  const listed = Array.isArray(config.envs) ? config.envs : [config];
  const names = listed.flatMap((one) => (isJsonObject(one) && typeof one.env === "string" ? [one.env] : []));
  return [...new Set(names)];
}

function modelWord(model: Json | undefined): string | undefined {
  if (typeof model === "string") return basename(model);
  if (!isJsonObject(model)) return undefined;
  const name = [model.preset, model.name, model.path].find((one) => typeof one === "string");
  return typeof name === "string" ? basename(name) : undefined;
}

/** Files that are looked at before the size is called a guess and given up. */
const MAX_FILES = 200_000;
const sizes = new Map<string, { updated: number; bytes?: number }>();

/** As last measured; measures again, meanwhile, when the run has changed. */
function sizeOf(path: string, updated: number): number | undefined {
  const known = sizes.get(path);
  if (known?.updated !== updated && !measuring.has(path)) {
    measuring.add(path);
    measure(path, { left: MAX_FILES })
      .then((bytes) => sizes.set(path, { updated, bytes }))
      .catch(() => {})
      .finally(() => measuring.delete(path));
  }
  return known?.bytes;
}
const measuring = new Set<string>();

async function measure(folder: string, budget: { left: number }): Promise<number> {
  let bytes = 0;
  for (const entry of await readdir(folder, { withFileTypes: true })) {
    if (budget.left-- <= 0) return bytes;
    const path = join(folder, entry.name);
    if (entry.isDirectory()) bytes += await measure(path, budget);
    else if (entry.isFile())
      bytes += await stat(path).then(
        ({ size }) => size,
        () => 0,
      );
  }
  return bytes;
}
