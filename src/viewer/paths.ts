/**
 * Where the viewer may read: the run folders below one folder and the files inside them, nothing else. Names from a request are only
 * ever looked up, never joined to a path; and links that lead out of a run folder are not followed.
 */
import { realpath } from "node:fs/promises";
import { basename, join, resolve, sep } from "node:path";
import { isMissing, namesIn } from "../run/files.ts";
import { isRun } from "../run/list.ts";

/** Whether `path` is there and, links resolved, inside `folder` (or is it). */
export async function isInside(folder: string, path: string): Promise<boolean> {
  try {
    const [root, real] = await Promise.all([realpath(folder), realpath(path)]);
    return real === root || real.startsWith(root.endsWith(sep) ? root : root + sep);
  } catch (error) {
    if (isMissing(error) || (error as NodeJS.ErrnoException).code === "ELOOP") return false;
    throw error;
  }
}

/** What the viewer reads of a run, by name inside its folder. */
const READ = [
  "run.json",
  "notes.json",
  "labels.json",
  "events.jsonl",
  "run.lock",
  "trajectories",
  "frames",
  "checkpoints",
  "checkpoints/best.json",
];

/** Names of a run's files that lead out of it. */
export async function linksOut(runPath: string): Promise<string[]> {
  const there = new Set(await namesIn(runPath));
  const found: string[] = [];
  for (const name of READ) {
    const path = join(runPath, name);
    if (!there.has(name.split("/")[0] as string) || (await isInside(runPath, path))) continue;
    if (!name.includes("/") || (await namesIn(join(runPath, "checkpoints"))).includes(basename(name))) found.push(name);
  }
  return found;
}

/** Run folders by id: `root` itself when it is a run, otherwise the runs directly in it. `missing` gets what is not shown and why. */
export async function findRuns(root: string, missing: string[] = []): Promise<Map<string, string>> {
  const folder = resolve(root);
  if (await isRun(folder)) return new Map([[basename(folder), folder]]);
  const runs = new Map<string, string>();
  for (const name of await namesIn(folder)) {
    const path = join(folder, name);
    if (!(await isRun(path))) continue;
    if (await isInside(folder, path)) runs.set(name, path);
    else missing.push(`${name} is a link out of ${folder} and is not shown; open it by its own path.`);
  }
  return runs;
}
