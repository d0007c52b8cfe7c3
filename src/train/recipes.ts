/**
 * Recipes by name: a path to a `.ts` file, or one that comes with Saccade (`recipes/`, and `recipes/large/` for real models). Paths inside a recipe start at the recipe's file, so that a run does
 * not depend on where it was started from; paths on the command line start at the working directory, as paths there do.
 */
import { existsSync, readdirSync, statSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { ConfigError } from "../core/errors.ts";
import { isJsonObject, type JsonObject } from "../core/json.ts";
import { packageFolder } from "../core/package-folder.ts";
import { didYouMean } from "../core/words.ts";
import { isPath, loadFile } from "../envs/load.ts";
import { HUB_PREFIX } from "../model/hub-cache.ts";
import { type Recipe, resolveRecipe } from "./recipe.ts";

/** The recipes that come with Saccade: those for any machine, then those that train real models. */
export function recipeNames(): string[] {
  return [...shippedRecipes().keys()];
}

function shippedRecipes(): Map<string, string> {
  const folder = packageFolder("recipes");
  if (folder === undefined) return new Map();
  const found = [folder, join(folder, "large")].flatMap((place) =>
    readdirSync(place)
      .filter((file) => /^[^.]+\.ts$/.test(file))
      .map((file): [string, string] => [file.slice(0, -3), join(place, file)])
      .sort(([a], [b]) => (a < b ? -1 : 1)),
  );
  return new Map(found);
}

/** `overrides`: fields that replace the recipe's, their paths relative to the working directory. */
export function loadRecipe(name: string, overrides: Readonly<Record<string, unknown>> = {}): Recipe {
  const file = isPath(name) ? name : shippedRecipes().get(name);
  if (file === undefined || !isFile(file)) {
    throw new ConfigError(
      `There is no recipe "${name}".${didYouMean(name, recipeNames())} saccade recipes lists those that come with Saccade; name your own by its path, such as ./my-recipe.ts.`,
    );
  }
  const own = withPathsFrom(dirname(resolve(file)), loadFile(file));
  return resolveRecipe(own, withPathsFrom(process.cwd(), overrides) as Record<string, unknown>, name);
}

/** Where a source may name a file of data. */
const DATA_FIELDS = ["tickets", "records", "plan"];

/** The recipe, or a part of one, with every path in it absolute. What is no path or has the wrong shape stays as it is: the schema complains about that. */
function withPathsFrom(folder: string, recipe: unknown): unknown {
  if (!isJsonObject(recipe)) return recipe;
  const absolute = (value: unknown) => (typeof value === "string" ? resolve(folder, value) : value);
  const source = (entry: unknown) => {
    if (!isJsonObject(entry)) return entry;
    const named = DATA_FIELDS.flatMap((field) => (field in entry ? [[field, absolute(entry[field])]] : []));
    const { env, program } = entry;
    if (isJsonObject(program)) named.push(["program", programFrom(absolute, program)]);
    if (typeof env === "string" && isPath(env)) named.push(["env", absolute(env)]);
    return { ...entry, ...Object.fromEntries(named) };
  };
  const part = (value: unknown) => {
    if (!isJsonObject(value)) return value;
    const { envs, files } = value;
    return {
      ...value,
      ...(envs !== undefined && { envs: eachOf(envs, source) }),
      ...(files !== undefined && { files: eachOf(files, absolute) }),
    };
  };
  const { model, warmStart, evaluate } = recipe;
  return {
    ...(part(recipe) as object),
    ...(typeof model === "string" && !model.startsWith(HUB_PREFIX) && { model: absolute(model) }),
    ...(warmStart !== undefined && { warmStart: part(warmStart) }),
    ...(evaluate !== undefined && { evaluate: part(evaluate) }),
  };
}

/** A program runs where the recipe is, unless it says where. */
function programFrom(absolute: (value: unknown) => unknown, program: JsonObject): unknown {
  const paths = ["tasks", "reward", "oracle", "folder"].filter((field) => field in program);
  const folder = "command" in program ? { folder: absolute(".") } : {};
  return { ...program, ...folder, ...Object.fromEntries(paths.map((field) => [field, absolute(program[field])])) };
}

/** The entries of a list changed, or of a part of one, whose names are numbers (`--set envs.0.env=./mine.ts`). */
function eachOf(list: unknown, change: (entry: unknown) => unknown): unknown {
  if (Array.isArray(list)) return list.map(change);
  if (!isJsonObject(list)) return list;
  return Object.fromEntries(Object.entries(list).map(([index, entry]) => [index, change(entry)]));
}

function isFile(path: string): boolean {
  return existsSync(path) && statSync(path).isFile();
}
