import { existsSync } from "node:fs";
import { readdir, rename, rm } from "node:fs/promises";
import { join } from "node:path";
import { ConfigError } from "../core/errors.ts";
import { type CreateOptions, createFolder, modelPath } from "../model/index.ts";
import type { RunFolder } from "../run/folder.ts";
import type { Recipe } from "./recipe.ts";

/** A folder of that name is whole, whenever the process dies. */
export async function replaceFolder(path: string, write: (folder: string) => Promise<void>): Promise<void> {
  const making = `${path}.making`;
  await rm(making, { recursive: true, force: true });
  await write(making);
  await rm(path, { recursive: true, force: true });
  await rename(making, path);
}

/** Removes what a process that died was writing in this folder through `replaceFolder`. */
export async function dropUnfinished(folder: string): Promise<void> {
  if (!existsSync(folder)) return;
  for (const name of await readdir(folder)) {
    if (/\.making(-\w+)?$/.test(name)) await rm(join(folder, name), { recursive: true, force: true });
  }
}

/** The model's folder: the recipe's, or one made inside the run. */
export async function modelFolder(run: RunFolder, recipe: Recipe): Promise<string> {
  if (typeof recipe.model === "string") return requireModel(recipe.model);
  const path = join(run.path, "model");
  if (existsSync(path)) return path;
  const options = { preset: recipe.model.preset, seed: recipe.seed, ...recipe.model.set };
  await replaceFolder(path, async (folder) => {
    await createFolder(folder, options as CreateOptions);
  });
  return path;
}

/** Where that model is. */
export function requireModel(named: string): string {
  const folder = modelPath(named);
  if (existsSync(join(folder, "config.json"))) return folder;
  throw new ConfigError(
    `There is no model in ${folder}: name a Hugging Face folder, or make one with "saccade model create".`,
  );
}
