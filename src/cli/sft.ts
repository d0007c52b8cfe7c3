/**
 * `saccade sft`: supervised training from demonstration files, through the same trainer, batching and run folder as a recipe's warm start. Where the
 * rows say which environment they were played in, the result is evaluated there on held-out seeds.
 */
import { resolve } from "node:path";
import { Command } from "commander";
import { ConfigError } from "../core/index.ts";
import type { EngineConfig } from "../engine/index.ts";
import { makeEnv, readJsonLines } from "../envs/index.ts";
import { findPreset, PRESET_NAMES, type PresetName } from "../model/index.ts";
import { checkRecipe, checkSources, type RecipeInput, resolveRecipe } from "../train/index.ts";
import { chosenModel } from "./chosen-model.ts";
import { collect, parseSettings } from "./common.ts";
import { ENGINE_FLAG, withEngine } from "./engine.ts";
import { runRecipe } from "./train.ts";

type Flags = { data: string[]; set: string[]; engine?: EngineConfig; out?: string; dryRun?: boolean };

export function sftCommand(): Command {
  return new Command("sft")
    .description("train a model on demonstrations")
    .argument(
      "<model>",
      `a model folder, a run, or for a fresh model ${PRESET_NAMES.map((name) => `preset:${name}`).join(", ")}`,
    )
    .option("--data <file>", "file of demonstrations, as `saccade data demos` writes it (repeat)", collect, [])
    .option(...ENGINE_FLAG)
    .option("--out <folder>", "run folder (default runs/sft, and runs/sft-2 for other settings)")
    .option(
      "--set <key=value>",
      "change a field of the recipe (repeat), for example --set warmStart.epochs=3",
      collect,
      [],
    )
    .option("--dry-run", "check everything and print the recipe, without training")
    .action(runSft);
}

async function runSft(model: string, flags: Flags): Promise<void> {
  if (flags.data.length === 0) throw new ConfigError("Name at least one file of demonstrations with --data.");
  const recipe = resolveRecipe(await sftRecipe(model, flags.data), withEngine(parseSettings(flags.set), flags.engine));
  checkRecipe(recipe);
  await checkSources(recipe);
  if (flags.dryRun) {
    process.stdout.write(`${JSON.stringify(recipe, null, 2)}\n`);
    return;
  }
  await runRecipe(recipe, { ...(flags.out !== undefined && { out: flags.out }), mode: "either" });
}

/** A recipe that is nothing but a warm start. */
export async function sftRecipe(model: string, files: readonly string[]): Promise<RecipeInput> {
  const preset = /^preset:(.*)$/.exec(model)?.[1];
  if (preset !== undefined) findPreset(preset);
  // Matrices that begin at random want Muon's large steps; weights that know something want small ones.
  const optimizer: RecipeInput["optimizer"] =
    preset === undefined
      ? { name: "adamw", learningRate: 1e-4 }
      : { name: "muon", learningRate: 0.01, adamLearningRate: 0.003 };
  return {
    name: "sft",
    model: preset === undefined ? resolve(await chosenModel(model)) : { preset: preset as PresetName },
    envs: await envsOf(files),
    steps: 0,
    warmStart: { files: files.map((file) => resolve(file)), optimizer },
    optimizer,
    evaluate: { every: 1 },
    expect: "supervised training on demonstrations",
  };
}

type EnvMix = RecipeInput["envs"][number];

/** The environments that the rows name, each with its options once. Rows of other makers name none. */
async function envsOf(files: readonly string[]): Promise<EnvMix[]> {
  const found = new Map<string, EnvMix>();
  const unknown = new Set<string>();
  for (const file of files) {
    for await (const { value, line } of readJsonLines(file)) {
      const { env, options = {} } = value;
      if (typeof env !== "string" || env === "") continue;
      const key = JSON.stringify([env, options]);
      if (found.has(key)) continue;
      const mix: EnvMix = { env, options: options as Record<string, unknown> };
      found.set(key, mix);
      try {
        const made = await makeEnv(env, mix.options);
        await made.close?.();
      } catch (error) {
        if (!(error instanceof ConfigError)) throw error;
        unknown.add(key);
        process.stderr.write(`${file}:${line}: the model won't be evaluated in ${env}: ${error.message}\n`);
      }
    }
  }
  return [...found].flatMap(([key, mix]) => (unknown.has(key) ? [] : [mix]));
}
