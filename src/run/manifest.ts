/** `run.json`: what a run is (resolved configuration, versions, seeds) and how it stands. Always written whole. */
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { isJsonObject, type Json, type JsonObject } from "../core/json.ts";
import { EVENTS_FILE } from "./events.ts";
import { isMissing, namesIn, writeAtomic } from "./files.ts";

export const MANIFEST_FILE = "run.json";

/** `stopped`: a person asked it to stop. A run that says `running` while no process writes was killed. */
export type RunStatus = "running" | "finished" | "stopped" | "failed";

export type Manifest = {
  readonly format: 1;
  readonly name: string;
  readonly status: RunStatus;
  /** Why it stands so, for people. */
  readonly message?: string;
  /** The last step that was logged when this was written. */
  readonly step: number;
  /** ISO 8601. */
  readonly started: string;
  readonly updated: string;
  /** The resolved configuration that the run has now. */
  readonly config: JsonObject;
  /** Every configuration with the steps that it governed, both ends included, oldest first; absent in runs of earlier versions. */
  readonly history?: readonly Governed[];
  readonly versions: Readonly<Record<string, string>>;
  readonly seeds: JsonObject;
  /** Each time the run went on, and what of its configuration had changed. */
  readonly resumes: readonly { readonly time: string; readonly changed: readonly string[] }[];
};

export type Governed = {
  readonly from: number;
  /** Absent: to the present. */
  readonly to?: number;
  readonly config: JsonObject;
};

/** The history of a run that goes on after `step` with this configuration. Steps after it are played again, so what they had no longer counts. */
export function governedFrom(before: Manifest | undefined, config: JsonObject, step: number): readonly Governed[] {
  const entries = before === undefined ? [] : (before.history ?? [{ from: 0, config: before.config }]);
  const kept = step === 0 ? [] : entries.filter(({ from }) => from <= step);
  const last = kept.at(-1);
  if (last === undefined) return [{ from: 0, config }];
  const earlier = kept.slice(0, -1);
  if (differences(last.config, config).length === 0) return [...earlier, { from: last.from, config }];
  return [...earlier, { from: last.from, to: step, config: last.config }, { from: step + 1, config }];
}

export function writeManifest(runPath: string, manifest: Manifest): Promise<void> {
  return writeAtomic(join(runPath, MANIFEST_FILE), `${JSON.stringify(manifest, null, 2)}\n`);
}

/** Undefined when there is none; `problem` when it can't be read. */
export async function readManifest(runPath: string): Promise<{ manifest?: Manifest; problem?: string }> {
  let text: string;
  try {
    text = await readFile(join(runPath, MANIFEST_FILE), "utf8");
  } catch (error) {
    if (isMissing(error)) return {};
    throw error;
  }
  try {
    const value: unknown = JSON.parse(text);
    if (isJsonObject(value) && isJsonObject(value.config) && typeof value.status === "string") {
      return { manifest: value as unknown as Manifest };
    }
  } catch {
    // said below
  }
  return { problem: `${MANIFEST_FILE} is damaged (${text.length} characters).` };
}

export async function isRun(folder: string): Promise<boolean> {
  const names = await namesIn(folder);
  return names.includes(MANIFEST_FILE) || names.includes(EVENTS_FILE);
}

export type Difference = { readonly key: string; readonly before?: Json; readonly after?: Json };

/** Fields in which two configurations differ, by dotted key. Lists are compared whole. */
export function differences(before: JsonObject, after: JsonObject, prefix = ""): Difference[] {
  const found: Difference[] = [];
  for (const name of new Set([...Object.keys(before), ...Object.keys(after)])) {
    const [a, b, key] = [before[name], after[name], prefix + name];
    if (isJsonObject(a) && isJsonObject(b)) found.push(...differences(a, b, `${key}.`));
    else if (canonical(a) !== canonical(b)) {
      found.push({ key, ...(a !== undefined && { before: a }), ...(b !== undefined && { after: b }) });
    }
  }
  return found;
}

/** JSON with sorted keys, so that the order of fields makes no difference. */
function canonical(value: Json | undefined): string | undefined {
  return JSON.stringify(value, (_, x: unknown) =>
    isJsonObject(x) ? Object.fromEntries(Object.entries(x).sort(([a], [b]) => (a < b ? -1 : 1))) : x,
  );
}
