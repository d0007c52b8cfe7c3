/**
 * What a model's training says about an evaluation. A model that learned short replies about small frames is lost without them, so an environment that it was
 * trained on is played with the options of its training, `--set` changes them one by one, and the report says which differ.
 */
import { resolve } from "node:path";
import { isJsonObject, type Json, type JsonObject } from "../core/json.ts";
import { mergeSettings } from "../core/settings.ts";
import { isPath } from "../envs/load.ts";
import type { Options } from "../envs/registry.ts";
import type { Trained } from "../model/trained.ts";
import { differences } from "../run/manifest.ts";
import { fullName } from "./presets.ts";

type TrainedEnv = Trained["envs"][number];

/** A setting that is another one than in training. Absent: it was left at its default. */
export type TrainingDifference = { readonly setting: string; readonly training?: Json; readonly here?: Json };

export type Training = { readonly recipe: string; readonly differences: readonly TrainingDifference[] };

/** The trained environments of that name; more than one when a recipe mixes options. */
export async function trainedAs(trained: Trained | undefined, name: string): Promise<readonly TrainedEnv[]> {
  const wanted = await identify(name);
  const known: TrainedEnv[] = [];
  for (const one of trained?.envs ?? []) if ((await identify(one.env)) === wanted) known.push(one);
  return known;
}

/** A recipe's paths are absolute. */
const identify = async (env: string): Promise<string> => (isPath(env) ? resolve(env) : fullName(env));

/** `own` over `base`, one by one. The options of a protocol stay while its name does. */
export function optionsOver(base: Options, own: Options): Options {
  const [before, after] = [protocolOf(base.protocol), own.protocol];
  if (before === undefined || !isJsonObject(after)) return mergeSettings(base, own) as Options;
  const another = after.name !== undefined && after.name !== before.name;
  const { protocol: _, ...rest } = base;
  const protocol = another ? after : (mergeSettings(before, after) as JsonObject);
  return mergeSettings(rest, { ...own, protocol }) as Options;
}

function protocolOf(given: unknown): JsonObject | undefined {
  if (typeof given === "string") return { name: given };
  return isJsonObject(given) ? given : undefined;
}

/** Of an environment as it is played; against the trained one that is most like it. */
export async function optionDifferences(
  trained: Trained,
  env: string,
  label: string,
  options: Options,
): Promise<TrainingDifference[]> {
  const candidates = (await trainedAs(trained, env)).map((known) =>
    differences(plain(known.options), plain(options)).map(({ key, before, after }) => ({
      setting: trained.envs.length > 1 ? `${label}: ${key}` : key,
      ...(before !== undefined && { training: before }),
      ...(after !== undefined && { here: after }),
    })),
  );
  const [nearest] = candidates.sort((a, b) => a.length - b.length);
  if (nearest !== undefined) return nearest;
  const names = [...new Set(trained.envs.map((known) => known.env))];
  return [{ setting: "environment", training: names.join(", "), here: label }];
}

export function samplingDifferences(
  { sampling, history }: Trained,
  here: { readonly sampling: JsonObject; readonly history: number | null },
): TrainingDifference[] {
  const before: JsonObject = { ...sampling, history: history ?? null };
  const after: JsonObject = {
    temperature: here.sampling.temperature ?? null,
    maxTokens: here.sampling.maxTokens ?? null,
    history: here.history,
  };
  return differences(before, after).map(({ key, before: training = null, after: now = null }) => ({
    setting: key,
    training: key === "history" ? (training ?? "whole") : training,
    here: key === "history" ? (now ?? "whole") : now,
  }));
}

const plain = (options: Options) => JSON.parse(JSON.stringify(options)) as JsonObject;
