/** The words after `saccade train` that start a run again, of its configuration: a recipe that comes with Saccade is named with what was changed of it, one of the user's own is a file. */
import { isAbsolute } from "node:path";
import type { Json, JsonObject } from "../core/json.ts";
import { checkSettingName } from "../core/settings.ts";
import { differences } from "../run/manifest.ts";
import { recipeConfig } from "./recipe.ts";
import { loadRecipe, recipeNames } from "./recipes.ts";

/** What says how a run is called, not what it does. */
const NOT_SET = new Set(["name"]);

/** Where `--set` names another one of these, nothing of the recipe's own carries over (`resolveRecipe`): it must be said whole. */
const REPLACED = { engine: ["name", "learner"], loss: ["name"], reduction: ["name"], mixture: ["name"] };

const shipped = new Map<string, JsonObject>();
/** A viewer asks for the same words again and again, and checking them loads the recipe's file. */
const known = new Map<string, RecipeWords>();
const MAX_KNOWN = 64;

/** `left`: fields that no words can give as the run had them. `complete`: there are none, and no path of this machine stands in the words, so they do the same elsewhere. */
export type RecipeWords = { readonly words: string; readonly complete: boolean; readonly left: readonly string[] };

/** Undefined: the recipe is none that comes with Saccade. */
export function shippedRecipeWords(name: string, config: JsonObject): RecipeWords | undefined {
  if (!recipeNames().includes(name)) return undefined;
  const key = JSON.stringify([name, config]);
  const found = known.get(key) ?? wordsOf(name, config);
  known.set(key, found);
  if (known.size > MAX_KNOWN) known.delete(known.keys().next().value as string);
  return found;
}

function wordsOf(name: string, config: JsonObject): RecipeWords {
  const base = shipped.get(name) ?? recipeConfig(loadRecipe(name));
  shipped.set(name, base);
  const asked = settingsOf(base, config);
  const given = tried(name, asked);
  // A field with a default can't be left out; a run has none only where its version did not know it.
  const moved = given && changes(base, given).map(({ key }) => key);
  const settings = asked.filter(([key, value]) => value !== null || moved?.some((one) => isWithin(one, key)));
  const left = given === undefined ? asked.map(([key]) => key) : changes(given, config).map(({ key }) => key);
  const sets = settings.map(([key, value]) => `--set ${shellWord(`${key}=${said(value)}`)}`);
  const complete = left.length === 0 && !settings.some(([, value]) => namesPath(value));
  return { words: [shellWord(name), ...sets].join(" "), complete, left };
}

/** What `--set` says, by dotted name. null: the field is left out. */
type Setting = readonly [key: string, value: Json];

function settingsOf(base: JsonObject, config: JsonObject): Setting[] {
  const changed = changes(base, config);
  const whole = Object.entries(REPLACED).flatMap(([part, names]) =>
    config[part] !== undefined && names.some((name) => changed.some(({ key }) => key === `${part}.${name}`))
      ? [part]
      : [],
  );
  const single = changed.filter(({ key }) => !whole.some((part) => isWithin(key, part)));
  return [
    ...single.map(({ key, after }): Setting => [key, after ?? null]),
    ...whole.map((part): Setting => [part, config[part] as Json]),
  ];
}

const changes = (before: JsonObject, after: JsonObject) =>
  differences(before, after).filter(({ key }) => !NOT_SET.has(key));

const isWithin = (key: string, part: string) => key === part || key.startsWith(`${part}.`);

/** The configuration that the settings give; undefined where the recipe refuses them. */
function tried(name: string, settings: readonly Setting[]): JsonObject | undefined {
  const overrides: Record<string, unknown> = {};
  try {
    for (const [key, value] of settings) {
      const names = key.split(".");
      for (const part of names) checkSettingName(part, key);
      const last = names.pop() as string;
      let target = overrides;
      for (const part of names) {
        target[part] ??= {};
        target = target[part] as Record<string, unknown>;
      }
      target[last] = value;
    }
    return recipeConfig(loadRecipe(name, overrides));
  } catch {
    return undefined;
  }
}

function namesPath(value: Json): boolean {
  if (typeof value === "string") return isAbsolute(value);
  return typeof value === "object" && value !== null && Object.values(value).some(namesPath);
}

const said = (value: Json) => (typeof value === "string" && !isJson(value) ? value : JSON.stringify(value));

/** `--set` would read such a text as a number, a list, … */
function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

/** One word for a shell. */
export function shellWord(text: string): string {
  return /^[A-Za-z0-9_./:=@%+,-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`;
}
