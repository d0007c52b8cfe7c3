/** The words after `saccade train` that start a run again, of its configuration: a recipe that comes with Saccade is named with what was changed of it, one of the user's own is a file. */
import { isAbsolute } from "node:path";
import type { Json, JsonObject } from "../core/json.ts";
import { differences } from "../run/manifest.ts";
import { recipeConfig } from "./recipe.ts";
import { loadRecipe, recipeNames } from "./recipes.ts";

/** What says how a run is called, not what it does. */
const NOT_SET = new Set(["name"]);

const shipped = new Map<string, JsonObject>();

/** `complete`: no path of this machine stands in them, so they do the same elsewhere. */
export type RecipeWords = { readonly words: string; readonly complete: boolean };

/** Undefined: the recipe is none that comes with Saccade. */
export function shippedRecipeWords(name: string, config: JsonObject): RecipeWords | undefined {
  if (!recipeNames().includes(name)) return undefined;
  const base = shipped.get(name) ?? recipeConfig(loadRecipe(name));
  shipped.set(name, base);
  const changed = differences(base, config).filter(({ key, after }) => after !== undefined && !NOT_SET.has(key));
  const sets = changed.map(({ key, after }) => `--set ${shellWord(`${key}=${said(after as Json)}`)}`);
  const complete = !changed.some(({ after }) => namesPath(after as Json));
  return { words: [shellWord(name), ...sets].join(" "), complete };
}

function namesPath(value: Json): boolean {
  if (typeof value === "string") return isAbsolute(value);
  return typeof value === "object" && value !== null && Object.values(value).some(namesPath);
}

const said = (value: Json) => (typeof value === "string" ? value : JSON.stringify(value));

/** One word for a shell. */
export function shellWord(text: string): string {
  return /^[A-Za-z0-9_./:=@%+,-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`;
}
