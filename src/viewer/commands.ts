/**
 * Commands that a person may copy: start this run again, go on with it, evaluate its checkpoints, play its episodes. A recipe that comes with
 * Saccade is named with what was changed of it; one of the user's own stands for itself.
 */
import { relative } from "node:path";
import { isJsonObject, type Json, type JsonObject } from "../core/json.ts";
import type { Manifest } from "../run/manifest.ts";
import { shellWord, shippedRecipeWords } from "../train/reproduce.ts";
import type { Command } from "./api.ts";

export function runCommands(path: string, manifest: Manifest | undefined, checkpoints: readonly number[]): Command[] {
  const config = manifest?.config ?? {};
  const folder = shellWord(shown(path));
  const commands: Command[] = [];
  const recipe = typeof config.name === "string" ? config.name : undefined;
  // Evaluations have no recipe.
  if (recipe !== undefined && Array.isArray(config.envs)) {
    const { words, note } = recipeWords(recipe, config);
    const more = note === undefined ? {} : { note };
    commands.push({ what: "reproduce", command: `saccade train ${words} --new`, ...more });
    commands.push({ what: "resume", command: `saccade train ${words} --resume --out ${folder}`, ...more });
  }
  for (const step of checkpoints.slice(-4).reverse()) {
    const seeds = seedsOf(config);
    const envs = Array.isArray(config.envs) ? config.envs : [];
    const [first] = envs.flatMap((one) => (isJsonObject(one) && typeof one.env === "string" ? [one.env] : []));
    if (first === undefined) continue;
    const command = `saccade eval ${folder}/checkpoints/step-${step} --env ${shellWord(first)} --seeds ${seeds}`;
    commands.push({ what: `evaluate the checkpoint of step ${step}`, command });
  }
  return commands;
}

/** `agent`: whose episode it was; absent: somebody plays it by hand. */
export function episodeCommand(
  path: string,
  episode: { readonly env: string; readonly seed: number; readonly temperature: number },
  options: JsonObject,
  hasModel: boolean,
): Command {
  const sets = Object.entries(options).map(([name, value]) => `--set ${shellWord(`${name}=${said(value)}`)}`);
  const agent = hasModel
    ? [`--agent ${shellWord(shown(path))}`, ...(episode.temperature === 0 ? ["--greedy"] : [])]
    : [];
  const words = ["saccade play", shellWord(episode.env), `--seed ${episode.seed}`, ...agent, ...sets];
  return { what: "play this episode", command: words.join(" ") };
}

function recipeWords(name: string, config: JsonObject): { words: string; note?: string } {
  const shipped = shippedRecipeWords(name, config);
  if (shipped !== undefined) {
    const { words, left } = shipped;
    return left.length === 0
      ? { words }
      : { words, note: `The command does not give ${left.join(", ")} as the run had it.` };
  }
  return { words: shellWord(`./${name}.ts`), note: `The recipe "${name}" is a file of yours: put its path here.` };
}

function seedsOf({ evaluate }: JsonObject): string {
  const seeds = isJsonObject(evaluate) ? evaluate.seeds : undefined;
  const [from, to] = Array.isArray(seeds) ? seeds : [];
  return typeof from === "number" && typeof to === "number" ? `${from}..${to}` : "0..63";
}

const said = (value: Json) => (typeof value === "string" ? value : JSON.stringify(value));

/** As a person in this folder would write it. */
export function shown(path: string): string {
  const here = relative(process.cwd(), path);
  return here.startsWith("..") ? path : here || ".";
}
