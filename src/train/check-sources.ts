/**
 * What a recipe takes from outside it, tried before anything runs: the model's folder, demonstrations, files of episodes, the hub's token, and each environment,
 * which is made with its options, because only its maker knows them all.
 */
import { existsSync } from "node:fs";
import { join } from "node:path";
import { ConfigError } from "../core/errors.ts";
import { isJsonObject } from "../core/json.ts";
import { nameOfEngine } from "../engine/registry.ts";
import { canSlip, noSlip } from "../envs/demos.ts";
import type { Env } from "../envs/env.ts";
import { makeEnv } from "../envs/registry.ts";
import { type EnvRef, envKey } from "../envs/sources.ts";
import { parseConfig } from "../model/config.ts";
import { readJson } from "../model/files.ts";
import { requireModel } from "../model/find.ts";
import { hasKnownSize, modelSize } from "../model/size.ts";
import { noOracle } from "../rollout/demonstrator.ts";
import { checkDemos, openData, type RunData } from "./data.ts";
import { checkUpload } from "./hub.ts";
import type { Recipe } from "./recipe.ts";

export async function checkSources(recipe: Recipe): Promise<void> {
  const { model, warmStart, hub } = recipe;
  if (typeof model === "string") await checkModel(await requireModel(model), recipe);
  if (hub !== undefined) checkUpload(hub.repo);
  for (const file of warmStart?.files ?? []) {
    if (!existsSync(file)) {
      throw new ConfigError(
        `There is no file ${file}, which warmStart.files names; paths are relative to the recipe's file.`,
      );
    }
  }
  const data = await openData(recipe);
  await checkDemos(warmStart?.files ?? [], data.evaluation);
  const played = warmStart !== undefined && warmStart.files.length === 0 ? data.warm : [];
  const oracles = new Set(played.flatMap(({ envs }) => envs.map(envKey)));
  for (const [key, ref] of envsOf(data)) await tryEnv(ref, oracles.has(key), (warmStart?.noise ?? 0) > 0);
}

/** What the model's `config.json` says against the recipe; weights are not looked at. */
async function checkModel(folder: string, { sampling, engine }: Recipe): Promise<void> {
  const file = join(folder, "config.json");
  const json = await readJson(file);
  if (nameOfEngine(engine) === "native") parseConfig(json, file);
  const maxPositions = hasKnownSize(json) ? modelSize(json, file).maxPositions : positionsOf(json);
  if (maxPositions !== undefined && sampling.contextTokens > maxPositions) {
    throw new ConfigError(
      `sampling.contextTokens is ${sampling.contextTokens}, and ${file} allows ${maxPositions}: set it to that at most.`,
    );
  }
}

/** Of a family that an engine's worker knows and TypeScript does not, where its file says it. */
function positionsOf(json: unknown): number | undefined {
  const text = isJsonObject(json) && isJsonObject(json.text_config) ? json.text_config : json;
  const most = isJsonObject(text) ? text.max_position_embeddings : undefined;
  return typeof most === "number" ? most : undefined;
}

function envsOf({ train, warm, evaluation }: RunData): Map<string, EnvRef> {
  const refs: EnvRef[] = [...[...train, ...warm].flatMap(({ envs }) => envs), ...evaluation];
  return new Map(refs.map((ref) => [envKey(ref), ref]));
}

async function tryEnv({ env, options }: EnvRef, needsOracle: boolean, noisy: boolean): Promise<void> {
  const made: Env = await makeEnv(env, options);
  try {
    if (!needsOracle) return;
    if (made.driver !== undefined) {
      if (!made.driver.builtins.includes("oracle")) throw new ConfigError(noOracle(env));
      if (noisy && !made.driver.builtins.includes("random")) {
        throw new ConfigError(
          `${env}: warmStart.noise needs wrong answers, but this agent has none: add random(request) to it, or set warmStart.noise to 0.`,
        );
      }
      return;
    }
    await made.reset(0);
    if ((await made.builtinReply?.("oracle", 0)) === undefined) {
      throw new ConfigError(
        `${env} has no oracle (a world's is solve(), a task's answer(row), an environment's builtinReply()), so a warm start can't play it: name demonstrations in warmStart.files.`,
      );
    }
    if (noisy && !(await canSlip(made))) throw new ConfigError(`${env}: ${noSlip("warmStart.noise")}`);
  } finally {
    await made.close?.();
  }
}
