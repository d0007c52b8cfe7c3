/**
 * What will be played: each environment with its options resolved, and an identity that stands for everything in it that decides an
 * episode beside the seed: id, options, limits, the file it came from, and the very words and image it opens with. So results made
 * with another prompt, drawing or protocol are never mistaken for these.
 */
import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { ConfigError } from "../core/errors.ts";
import type { Json, JsonObject } from "../core/json.ts";
import type { Message } from "../core/message.ts";
import { checkSeed } from "../core/seed.ts";
import { isPath } from "../envs/load.ts";
import { isWorld, makeEnv, type Options } from "../envs/registry.ts";
import { type EvaluationEntry, evaluationEntries, type OpenSource, openSource, type Source } from "../envs/sources.ts";
import { WorldEnv } from "../envs/world-env.ts";
import type { Trained } from "../model/trained.ts";
import type { EnvHost, EnvSpec } from "../rollout/hosts.ts";
import { distinctLabels } from "../rollout/scores.ts";
import { type EvaluationPreset, fullName } from "./presets.ts";
import { digest, resultKey, type Setting } from "./results.ts";
import { optionDifferences, optionsOver, type TrainingDifference, trainedAs } from "./training.ts";

export type EnvPlan = {
  readonly spec: EnvSpec;
  /** Its name in reports: the environment's, a file's for it, and another where two share one. */
  readonly label: string;
  readonly seeds: readonly number[];
  /** Part of every key. */
  readonly identity: JsonObject;
  /** Limit of the episode, where the environment does not take one as an option. */
  readonly maxTurns?: number;
  readonly protocol?: string;
  readonly turnLimit?: number;
  /** From the model's training, where that is known. */
  readonly differs?: readonly TrainingDifference[];
};

export type Job = { readonly plan: EnvPlan; readonly seed: number; readonly repeat: number; readonly key: string };

export type PlanOptions = {
  /** Ids or paths; default: those of the preset. */
  readonly envs?: readonly string[];
  /** Files of episodes, as recipes take them; `{ env }` is the same as a name in `envs`, with options of its own. */
  readonly sources?: readonly Source[];
  /** Of environments; rows of files name their own. Default: those of the preset. */
  readonly seeds?: readonly number[];
  /** Episodes of each seed, for pass@k; default 1. */
  readonly repeats?: number;
  /** Options of every environment; they win over the preset's. */
  readonly options?: Options;
  /** Most turns; wins over all other limits. */
  readonly maxTurns?: number;
  /** How the model was trained: an environment that it knows is played with the options of its training, unless a preset says how. */
  readonly trained?: Trained;
};

export async function planEnvs(
  options: PlanOptions,
  preset: EvaluationPreset | undefined,
  host: EnvHost,
  onEnv: (done: number, total: number) => void = () => {},
): Promise<EnvPlan[]> {
  const named = options.envs ?? (options.sources === undefined ? preset?.envs : undefined) ?? [];
  const trained = preset === undefined ? options.trained : undefined;
  const sources: Source[] = [];
  for (const env of new Set(await Promise.all(named.map(fullName)))) {
    const known = await trainedAs(trained, env);
    sources.push(...(known.length > 0 ? known : [{ env }]));
  }
  sources.push(...(options.sources ?? []));
  if (sources.length === 0) {
    throw new ConfigError(
      "Nothing to play: name an environment (--env maze_2d/easy), a file of episodes or a preset. Only a model that Saccade trained remembers its environments.",
    );
  }
  const opened: OpenSource[] = [];
  for (const source of sources) opened.push(await openSource(chosenRows(source, options.seeds)));
  const seedsOf = ({ envs }: OpenSource) => options.seeds ?? preset?.seeds(envs[0]?.env ?? "") ?? [];
  const entries = opened.flatMap((source) =>
    evaluationEntries(
      [source],
      seedsOf(source).map((seed) => checkSeed(seed)),
    ),
  );
  const labels = distinctLabels(entries.map(({ label }) => label));
  const plans: EnvPlan[] = [];
  for (const [i, entry] of entries.entries()) {
    onEnv(i, entries.length);
    plans.push(await planEnv({ ...entry, label: labels[i] as string }, options, preset, host));
  }
  return plans;
}

/** Seeds that are given beside records choose among their rows. */
function chosenRows(source: Source, seeds: readonly number[] | undefined): Source {
  if (!("records" in source) || seeds === undefined) return source;
  return { env: source.env, options: { ...source.options, data: source.records } };
}

async function planEnv(
  { env: id, label, seeds, options: rows }: EvaluationEntry,
  { options: own = {}, maxTurns, trained }: PlanOptions,
  preset: EvaluationPreset | undefined,
  host: EnvHost,
): Promise<EnvPlan> {
  if (seeds.length === 0) throw new ConfigError("Nothing to play: give seeds (--seeds 0..69) or a preset.");
  const known = preset === undefined ? await trainedAs(trained, id) : [];
  // Rows of a file say what an episode is, seldom how it is shown.
  const base = known.length === 1 ? known[0]?.options : preset?.options(id);
  const given = optionsOver(optionsOver(base ?? {}, rows), own);
  const madeOfWorld = await isWorld(id);
  const spec = { id, options: madeOfWorld && maxTurns !== undefined ? { ...given, maxTurns } : given };
  const env = await makeEnv(id, spec.options);
  await env.close?.();
  const limits =
    env instanceof WorldEnv ? { protocol: env.protocol.name, turnLimit: env.options.maxTurns } : limit(maxTurns);
  return {
    spec,
    label,
    seeds: [...new Set(seeds)],
    ...limits,
    ...(!madeOfWorld && maxTurns !== undefined && { maxTurns }),
    ...(trained && { differs: await optionDifferences(trained, id, label, spec.options) }),
    identity: {
      id,
      options: JSON.parse(JSON.stringify(spec.options)) as JsonObject,
      ...limits,
      opening: await opening(spec, host),
      ...(isPath(id) && { file: fileDigest(id) }),
      // Episodes that are rows of a file are decided by what stands in it.
      ...(typeof rows.data === "string" && { data: fileDigest(rows.data) }),
      ...(label !== id && { label }),
    },
  };
}

const limit = (turnLimit: number | undefined) => (turnLimit === undefined ? {} : { turnLimit });

/** A digest of what the episode of seed 0 begins with. */
async function opening(spec: EnvSpec, host: EnvHost): Promise<string> {
  const env = await host.acquire(spec);
  if (env.driver !== undefined) {
    // An agent that brings its own loop begins with what its file says, which is compared anyway.
    host.release(env);
    return digest("own loop");
  }
  try {
    const messages: readonly Message[] = await env.reset(0);
    const plain = messages.map(
      ({ role, content }): Json => [
        role,
        ...content.map((part) => (part.type === "text" ? part.text : { image: part.image.hash })),
      ],
    );
    host.release(env);
    return digest(plain);
  } catch (error) {
    host.discard(env);
    throw error;
  }
}

function fileDigest(id: string): string {
  const [path = ""] = id.split("#");
  return createHash("sha256").update(readFileSync(path)).digest("hex").slice(0, 32);
}

/** Repeat by repeat, so that an evaluation cut short has some of everything first. */
export function planJobs(plans: readonly EnvPlan[], repeats: number, setting: Setting): Job[] {
  return Array.from({ length: repeats }, (_, repeat) => repeat).flatMap((repeat) =>
    plans.flatMap((plan) =>
      plan.seeds.map((seed) => ({ plan, seed, repeat, key: resultKey(setting, plan.identity, seed, repeat) })),
    ),
  );
}
