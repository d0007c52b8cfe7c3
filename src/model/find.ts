/** Which model a name means: a folder, a checkpoint, a run, or a model of the hub. */
import { existsSync } from "node:fs";
import { join } from "node:path";
import { ConfigError } from "../core/errors.ts";
import { CheckpointStore } from "../run/checkpoints.ts";
import { isRun } from "../run/list.ts";
import { modelPath } from "./hub-cache.ts";
import { PRESETS, type PresetName } from "./presets.ts";

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

/** Where the model is that a recipe names by a folder, a checkpoint, a run or its name on the hub. */
export async function requireModel(named: string): Promise<string> {
  return (await findModel(modelPath(named))).path;
}
