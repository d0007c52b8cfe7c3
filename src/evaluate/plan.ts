/**
 * What will be played: each environment with its options resolved, and an identity that stands for everything in it that decides an
 * episode beside the seed: id, options, limits, the file it came from, and the very words and picture it opens with. So results made
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
import { WorldEnv } from "../envs/world-env.ts";
import type { EnvHost, EnvSpec } from "../rollout/hosts.ts";
import { type EvaluationPreset, fullName } from "./presets.ts";
import { digest, resultKey, type Setting } from "./results.ts";

export type EnvPlan = {
  readonly spec: EnvSpec;
  /** Part of every key. */
  readonly identity: JsonObject;
  /** Limit of the episode, where the environment does not take one as an option. */
  readonly maxTurns?: number;
  readonly protocol?: string;
  readonly turnLimit?: number;
};

export type Job = { readonly plan: EnvPlan; readonly seed: number; readonly repeat: number; readonly key: string };

export type PlanOptions = {
  /** Ids or paths; default: those of the preset. */
  readonly envs?: readonly string[];
  /** Default: those of the preset. */
  readonly seeds?: readonly number[];
  /** Episodes of each seed, for pass@k; default 1. */
  readonly repeats?: number;
  /** Options of every environment; they win over the preset's. */
  readonly options?: Options;
  /** Most turns; wins over all other limits. */
  readonly maxTurns?: number;
};

export async function planEnvs(
  options: PlanOptions,
  preset: EvaluationPreset | undefined,
  host: EnvHost,
): Promise<EnvPlan[]> {
  const names = new Set((options.envs ?? preset?.envs ?? []).map(fullName));
  if (names.size === 0) throw new ConfigError("Nothing to play: name an environment (--env maze_2d/easy) or a preset.");
  const plans: EnvPlan[] = [];
  for (const name of names) plans.push(await planEnv(name, options, preset, host));
  return plans;
}

async function planEnv(
  id: string,
  { options: own, maxTurns }: PlanOptions,
  preset: EvaluationPreset | undefined,
  host: EnvHost,
): Promise<EnvPlan> {
  const given = { ...preset?.options(id), ...own };
  const madeOfWorld = isWorld(id);
  const spec = { id, options: madeOfWorld && maxTurns !== undefined ? { ...given, maxTurns } : given };
  const env = await makeEnv(id, spec.options);
  await env.close?.();
  const known =
    env instanceof WorldEnv ? { protocol: env.protocol.name, turnLimit: env.options.maxTurns } : limit(maxTurns);
  return {
    spec,
    ...known,
    ...(!madeOfWorld && maxTurns !== undefined && { maxTurns }),
    identity: {
      id,
      options: JSON.parse(JSON.stringify(spec.options)) as JsonObject,
      ...known,
      opening: await opening(spec, host),
      ...(isPath(id) && { file: fileDigest(id) }),
    },
  };
}

const limit = (turnLimit: number | undefined) => (turnLimit === undefined ? {} : { turnLimit });

/** A digest of what the episode of seed 0 begins with. */
async function opening(spec: EnvSpec, host: EnvHost): Promise<string> {
  const env = await host.acquire(spec);
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
export function planJobs(
  plans: readonly EnvPlan[],
  seeds: readonly number[],
  repeats: number,
  setting: Setting,
): Job[] {
  if (seeds.length === 0) throw new ConfigError("Nothing to play: give seeds (--seeds 0..69) or a preset.");
  const distinct = [...new Set(seeds.map((seed) => checkSeed(seed)))];
  return Array.from({ length: repeats }, (_, repeat) => repeat).flatMap((repeat) =>
    plans.flatMap((plan) =>
      distinct.map((seed) => ({ plan, seed, repeat, key: resultKey(setting, plan.identity, seed, repeat) })),
    ),
  );
}
