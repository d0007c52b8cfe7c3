/**
 * What a recipe takes from outside it, tried before anything runs: the model's folder, demonstration files, the hub's token, and each environment, which is
 * made with its options, because only its maker knows them all.
 */
import { existsSync } from "node:fs";
import { ConfigError } from "../core/errors.ts";
import { makeEnv, makeWorldEnv } from "../envs/registry.ts";
import { checkUpload } from "./hub.ts";
import { requireModel } from "./model-folder.ts";
import type { Recipe } from "./recipe.ts";

export async function checkSources({ model, envs, warmStart, hub }: Recipe): Promise<void> {
  if (typeof model === "string") requireModel(model);
  if (hub !== undefined) checkUpload(hub.repo);
  for (const file of warmStart?.files ?? []) {
    if (!existsSync(file)) {
      throw new ConfigError(`There is no file ${file}, which warmStart.files names; paths start at the recipe's file.`);
    }
  }
  // Without files the warm start is played by an oracle, which only worlds have.
  const make = warmStart !== undefined && warmStart.files.length === 0 ? makeWorldEnv : makeEnv;
  for (const { env, options } of envs) {
    const made = await make(env, options);
    await made.close?.();
  }
}
