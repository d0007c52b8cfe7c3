/**
 * The settings of published evaluations. A preset fills in what the caller leaves out; whatever is given wins.
 *   visgym  70 episodes of each environment, 20 turns (30 when hard), images of at most 336 pixels, feedback, whole history
 *   vagen   its five environments on their validation seeds, 3 to 10 turns of several actions, think-then-answer, 1,024 tokens a reply
 */
import { ConfigError } from "../core/errors.ts";
import { listEnvs, type Options } from "../envs/registry.ts";
import type { Sampling } from "./models.ts";

export type EvaluationPreset = {
  readonly envs: readonly string[];
  seeds(env: string): readonly number[];
  readonly sampling: Sampling;
  options(env: string): Options;
};

export type EvaluationPresetName = "visgym" | "vagen";
export const evaluationPresets: readonly EvaluationPresetName[] = ["visgym", "vagen"];

const family = (env: string) => env.split("/")[0] as string;
/** Skills: the sixteen that training never sees (VAGEN's seed 5000 is in both). Rooms: as many as its sets have tasks. */
const VAGEN_SEEDS: Readonly<Record<string, readonly number[]>> = {
  frozen_lake: range(10_001, 10_256),
  sokoban: range(10_001, 10_256),
  navigation: range(0, 59),
  primitive_skill: range(5001, 5016),
  svg: range(10_001, 10_256),
};

export async function evaluationPreset(name: string): Promise<EvaluationPreset> {
  switch (name) {
    case "visgym":
      return {
        // Its worlds are those with VisGym's two sets of options.
        envs: (await listEnvs()).filter(({ variants }) => variants?.includes("eval")).map(({ id }) => id),
        seeds: () => range(0, 69),
        sampling: { maxTokens: 8192 },
        options: (env) => ({
          protocol: "tuple",
          maxTurns: env.endsWith("/hard") ? 30 : 20,
          maxLongSide: 336,
          feedback: true,
        }),
      };
    case "vagen":
      return {
        envs: (await listEnvs()).map(({ id }) => id).filter((id) => family(id) in VAGEN_SEEDS),
        seeds: (env) => VAGEN_SEEDS[family(env)] ?? range(10_001, 10_256),
        // VAGEN gives its games 512 and its skills 1,024; a drawing of `svg` needs as many.
        sampling: { maxTokens: 1024 },
        // Turns are the worlds' own, which are VAGEN's.
        options: () => ({ protocol: "think" }),
      };
    default:
      throw new ConfigError(`There is no preset "${name}"; the presets are ${evaluationPresets.join(", ")}.`);
  }
}

/** Both ends included. */
export function range(first: number, last: number): number[] {
  return Array.from({ length: last - first + 1 }, (_, i) => first + i);
}

/** A bare id means its first difficulty; spelled out, it has one name everywhere. */
export async function fullName(env: string): Promise<string> {
  const ids = (await listEnvs()).map(({ id }) => id);
  return ids.includes(env) ? env : (ids.find((id) => id.startsWith(`${env}/`)) ?? env);
}
