/** The model that a run begins with, and what the run writes about the one it trained. */
import { existsSync } from "node:fs";
import { readdir, rm } from "node:fs/promises";
import { join } from "node:path";
import { move } from "../core/move.ts";
import { findModel, requireModel } from "../model/find.ts";
import { HUB_PREFIX } from "../model/hub-cache.ts";
import { createFolder } from "../model/index.ts";
import type { Trained } from "../model/trained.ts";
import type { RunFolder } from "../run/folder.ts";
import type { Recipe } from "./recipe.ts";

/** A folder of that name is whole, whenever the process dies. */
export async function replaceFolder(path: string, write: (folder: string) => Promise<void>): Promise<void> {
  const making = `${path}.making`;
  await rm(making, { recursive: true, force: true });
  await write(making);
  await rm(path, { recursive: true, force: true });
  await move(making, path);
}

/** Removes what a process that died was writing in this folder through `replaceFolder`. */
export async function dropUnfinished(folder: string): Promise<void> {
  if (!existsSync(folder)) return;
  for (const name of await readdir(folder)) {
    if (/\.making(-\w+)?$/.test(name)) await rm(join(folder, name), { recursive: true, force: true });
  }
}

/** The untrained start of a run that makes its model; `model` in runs of earlier versions. */
const [START, EARLIER_START] = ["start", "model"];

/** The model's folder: the recipe's, or one made inside the run. */
export async function modelFolder(run: RunFolder, recipe: Recipe): Promise<string> {
  if (typeof recipe.model === "string") return requireModel(recipe.model);
  const path = join(run.path, START);
  for (const place of [path, join(run.path, EARLIER_START)]) if (existsSync(place)) return place;
  const options = { preset: recipe.model.preset, seed: recipe.seed, ...recipe.model.set };
  await replaceFolder(path, async (folder) => {
    await createFolder(folder, options);
  });
  return path;
}

/** The recipe with the folder of its model in place of a run, whose best checkpoint may be another one tomorrow. */
export async function pinModel(recipe: Recipe): Promise<Recipe> {
  const { model } = recipe;
  if (typeof model !== "string" || model.startsWith(HUB_PREFIX) || !existsSync(model)) return recipe;
  return { ...recipe, model: (await findModel(model)).path };
}

/** What a model trained by this recipe should know about its training. */
export function trainedBy({ name, envs, sampling, turns, history }: Recipe): Trained {
  const { temperature, maxTokens } = sampling;
  return {
    recipe: name,
    envs: envs.flatMap((source) =>
      "env" in source && !("records" in source) ? [{ env: source.env, options: source.options ?? {} }] : [],
    ),
    sampling: { temperature, maxTokens },
    ...(turns === "split" && { history }),
  };
}
