/**
 * Which run a recipe belongs to. A run is its recipe: what it learns from, how, and what it is measured by never change inside one, so a changed recipe starts
 * another run, `name-2`. What may change is how far a run goes, how fast it learns and how it is computed and logged; the manifest keeps every configuration
 * with the steps that it governed.
 */
import { readdirSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { ConfigError } from "../core/errors.ts";
import type { JsonObject } from "../core/json.ts";
import { isRun } from "../run/list.ts";
import { type Difference, differences, readManifest } from "../run/manifest.ts";
import { type Recipe, recipeConfig, resolveRecipe } from "./recipe.ts";

/** Fields that may change when a run goes on, with all that they hold. */
export const MAY_CHANGE = [
  "name",
  "teaches",
  "needs",
  "expect",
  "steps",
  "optimizer",
  "schedule",
  "warmStart.optimizer",
  "warmStart.schedule",
  "critic.optimizer",
  "kl.coefficient",
  "kl.target",
  "kl.horizon",
  // How the held-out episodes are played, never which: others may have been trained on.
  "evaluate.every",
  "evaluate.before",
  "evaluate.temperature",
  "evaluate.greedy",
  "evaluate.repeats",
  "evaluate.decisions",
  "sight",
  "checkpoint",
  "rollout",
  "log",
  "trackers",
  "hub",
  "engine",
] as const;

export type Standing = {
  readonly finished: boolean;
  readonly step: number;
  /** Fields that differ from the recipe that the run has, and those of them that a run can't change. */
  readonly changed: readonly Difference[];
  readonly fixed: readonly Difference[];
};

/** How the run in a folder stands to a recipe; undefined: there is none, or its manifest can't be read. */
export async function standingOf(folder: string, recipe: Recipe): Promise<Standing | undefined> {
  const { manifest } = await readManifest(folder);
  if (manifest === undefined) return undefined;
  const changed = differences(withDefaults(manifest.config), recipeConfig(recipe)).filter(({ key }) => key !== "name");
  return {
    finished: manifest.status === "finished",
    step: manifest.step,
    changed,
    fixed: changed.filter(({ key }) => !MAY_CHANGE.some((field) => key === field || key.startsWith(`${field}.`))),
  };
}

/** Fields that this version of Saccade has and that of the run had not are as they are by default. */
function withDefaults(config: JsonObject): JsonObject {
  const { judge, ...rest } = config;
  try {
    return { ...recipeConfig(resolveRecipe(rest)), ...(judge !== undefined && { judge }) };
  } catch {
    return config;
  }
}

/** Refuses to go on with a run whose recipe is another one. */
export async function checkContinuation(folder: string, recipe: Recipe): Promise<void> {
  const standing = await standingOf(folder, recipe);
  if (standing !== undefined && standing.fixed.length > 0) throw anotherRecipe(folder, standing);
}

function anotherRecipe(folder: string, { fixed }: Standing): ConfigError {
  return new ConfigError(
    `${folder} is a run of another recipe: ${described(fixed)}. A run can change only ${MAY_CHANGE.slice(4).join(", ")}: ` +
      "undo the change, or start another run (--new, or another --out).",
  );
}

export function described(changes: readonly Difference[]): string {
  const shown = (value: unknown) => {
    const text = value === undefined ? "absent" : JSON.stringify(value);
    return text.length > 60 ? `${text.slice(0, 57)}…` : text;
  };
  return changes.map(({ key, before, after }) => `${key} was ${shown(before)}, is ${shown(after)}`).join("; ");
}

export type Choice = {
  readonly folder: string;
  /** `finished`: there is nothing to do. */
  readonly what: "new" | "resume" | "finished";
  /** What a person should know about the choice. */
  readonly note?: string;
};

/** `named`: the folder was named by a person, so no other is taken. `mode`: only start one (`new`), only go on (`resume`), or what fits. */
export async function chooseRun(
  recipe: Recipe,
  folder: string,
  { mode, named }: { readonly mode: "new" | "resume" | "either"; readonly named: boolean },
): Promise<Choice> {
  const runs: { readonly folder: string; readonly standing: Standing | undefined }[] = [];
  for (const path of named ? [folder] : numbered(folder)) {
    if (await isRun(path)) runs.push({ folder: path, standing: await standingOf(path, recipe) });
  }
  const last = runs.at(-1);
  if (mode === "new") return { folder: named ? folder : nextFree(folder), what: "new" };
  if (last === undefined) return { folder, what: mode === "resume" ? "resume" : "new" };
  const same = runs.findLast(({ standing }) => standing === undefined || standing.changed.length === 0);
  if (same !== undefined) return { folder: same.folder, what: same.standing?.finished ? "finished" : "resume" };
  const open = runs.findLast(
    ({ standing }) => standing?.fixed.length === 0 && (!standing.finished || mode === "resume"),
  );
  if (open !== undefined) return { folder: open.folder, what: "resume" };
  const standing = last.standing as Standing;
  if (mode === "resume" || named) {
    if (standing.fixed.length > 0) throw anotherRecipe(last.folder, standing);
    throw new ConfigError(
      `${last.folder} is finished, and the recipe has changed (${described(standing.changed)}): continue it (--resume), or start another run (--new, or another --out).`,
    );
  }
  const next = nextFree(folder);
  const why =
    standing.fixed.length > 0 ? described(standing.fixed) : `${described(standing.changed)}, and it is finished`;
  return {
    folder: next,
    what: "new",
    note: `The recipe differs from that of ${last.folder} (${why}), so this is a new run: ${next}`,
  };
}

/** `runs/name`, `runs/name-2`, … as they are there, by number. */
function numbered(folder: string): string[] {
  return [...numbersOf(folder)].sort((a, b) => a - b).map((n) => (n === 1 ? folder : `${folder}-${n}`));
}

function nextFree(folder: string): string {
  const taken = numbersOf(folder);
  return taken.size === 0 ? folder : `${folder}-${Math.max(...taken) + 1}`;
}

function numbersOf(folder: string): Set<number> {
  const [parent, name] = [dirname(folder), basename(folder)];
  let names: string[] = [];
  try {
    names = readdirSync(parent);
  } catch {
    // No folder of runs yet.
  }
  const rest = names.flatMap((other) => (other.startsWith(name) ? [other.slice(name.length)] : []));
  return new Set(rest.flatMap((end) => (end === "" ? [1] : /^-[1-9]\d*$/.test(end) ? [Number(end.slice(1))] : [])));
}

/** The name of a run in that folder: the recipe's, with its number. */
export function runName(recipe: Recipe, folder: string): string {
  const name = basename(join(folder));
  return name.startsWith(`${recipe.name}-`) && /^\d+$/.test(name.slice(recipe.name.length + 1)) ? name : recipe.name;
}
