/** Where models are: in a folder, in a checkpoint, in a run; and the one that a run begins with. */
import { existsSync } from "node:fs";
import { readdir, rename, rm } from "node:fs/promises";
import { join } from "node:path";
import { ConfigError } from "../core/errors.ts";
import { HUB_PREFIX } from "../model/hub-cache.ts";
import { type CreateOptions, createFolder, modelPath } from "../model/index.ts";
import { PRESETS, type PresetName } from "../model/presets.ts";
import { CheckpointStore } from "../run/checkpoints.ts";
import type { RunFolder } from "../run/folder.ts";
import { isRun } from "../run/list.ts";
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

/** The untrained start of a run that makes its model; `model` in runs of earlier versions. */
const [START, EARLIER_START] = ["start", "model"];

/** The model's folder: the recipe's, or one made inside the run. */
export async function modelFolder(run: RunFolder, recipe: Recipe): Promise<string> {
  if (typeof recipe.model === "string") return requireModel(recipe.model);
  const path = join(run.path, START);
  for (const place of [path, join(run.path, EARLIER_START)]) if (existsSync(place)) return place;
  const options = { preset: recipe.model.preset, seed: recipe.seed, ...recipe.model.set };
  await replaceFolder(path, async (folder) => {
    await createFolder(folder, options as CreateOptions);
  });
  return path;
}

/** Where the model is that a recipe names by a folder, a checkpoint, a run or its name on the hub. */
export async function requireModel(named: string): Promise<string> {
  return (await findModel(modelPath(named))).path;
}

/** The recipe with the folder of its model in place of a run, whose best checkpoint may be another one tomorrow. */
export async function pinModel(recipe: Recipe): Promise<Recipe> {
  const { model } = recipe;
  if (typeof model !== "string" || model.startsWith(HUB_PREFIX) || !existsSync(model)) return recipe;
  return { ...recipe, model: (await findModel(model)).path };
}

export type FoundModel = {
  readonly path: string;
  /** Of a run, in words: which of its checkpoints. */
  readonly note?: string;
};

/** The model that a folder means: itself, a checkpoint's policy, or the best checkpoint of a run, else its latest. */
export async function findModel(folder: string): Promise<FoundModel> {
  const policy = (path: string) => join(path, "policy");
  for (const path of [folder, policy(folder)]) if (isModel(path)) return { path };
  const store = new CheckpointStore(folder);
  if (!(await isRun(folder)) && !existsSync(store.folder)) {
    // People write the preset's bare name where a fresh model is meant.
    const fresh = PRESETS[folder as PresetName] === undefined ? "" : ` Saccade trains a fresh one as preset:${folder}.`;
    throw new ConfigError(
      `There is no model in ${folder}, which has no config.json: name a model folder, a checkpoint or a run, or make a model with "saccade model create".${fresh}`,
    );
  }
  const best = await store.best();
  const checkpoint = best ?? (await store.latest());
  if (checkpoint === undefined) throw new ConfigError(`The run ${folder} has no checkpoint yet, so it has no model.`);
  const path = policy(checkpoint.path);
  if (!isModel(path)) throw new ConfigError(`The checkpoint ${checkpoint.path} has no model's files in policy/.`);
  const why = best === undefined ? "latest" : `best (${best.metric} ${Number(best.score.toFixed(4))})`;
  return { path, note: `${folder} is a run; its model is that of step ${checkpoint.step}, its ${why}: ${path}` };
}

function isModel(path: string): boolean {
  return ["config.json", "adapter_config.json"].some((name) => existsSync(join(path, name)));
}
