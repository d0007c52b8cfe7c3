/** Recipes by name: a path to a `.ts` file, or one that comes with Saccade (`recipes/`). */
import { existsSync, readdirSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { ConfigError } from "../core/errors.ts";
import { isPath, loadFile } from "../envs/load.ts";
import { type Recipe, resolveRecipe } from "./recipe.ts";

/** The recipes that come with Saccade. */
export function recipeNames(): string[] {
  const folder = recipesFolder();
  return folder === undefined
    ? []
    : readdirSync(folder).flatMap((name) => (/^[^.]+\.ts$/.test(name) ? [name.slice(0, -3)] : []));
}

export function loadRecipe(name: string, overrides: Readonly<Record<string, unknown>> = {}): Recipe {
  const folder = recipesFolder();
  const file = isPath(name) ? name : folder === undefined ? undefined : join(folder, `${name}.ts`);
  if (file === undefined || !existsSync(file)) {
    throw new ConfigError(
      `There is no recipe "${name}". Saccade brings ${recipeNames().join(", ")}; your own is named by its path, such as ./my-recipe.ts.`,
    );
  }
  return resolveRecipe(loadFile(file), overrides);
}

/** Beside package.json, from the sources and from the build. */
function recipesFolder(): string | undefined {
  for (let folder = dirname(fileURLToPath(import.meta.url)); folder !== dirname(folder); folder = dirname(folder)) {
    if (existsSync(join(folder, "package.json")))
      return existsSync(join(folder, "recipes")) ? join(folder, "recipes") : undefined;
  }
  return undefined;
}
