/**
 * The settings of published evaluations. A preset fills in what the caller leaves out; whatever is given wins.
 *   visgym  70 episodes of each environment, 20 turns (30 when hard), pictures of at most 336 pixels, feedback, whole history
 *   vagen   FrozenLake and Sokoban: the 256 validation seeds, 5 turns of several actions, think-then-answer, 512 tokens a reply
 */
import { ConfigError } from "../core/errors.ts";
import { listEnvs, type Options } from "../envs/registry.ts";
import type { Sampling } from "./models.ts";
import "../envs/index.ts";

export type EvaluationPreset = {
  readonly envs: readonly string[];
  readonly seeds: readonly number[];
  readonly sampling: Sampling;
  options(env: string): Options;
};

export type EvaluationPresetName = "visgym" | "vagen";
export const evaluationPresets: readonly EvaluationPresetName[] = ["visgym", "vagen"];

export function evaluationPreset(name: string): EvaluationPreset {
  switch (name) {
    case "visgym":
      return {
        // Its worlds are those with VisGym's two sets of options.
        envs: listEnvs()
          .filter(({ variants }) => variants?.includes("eval"))
          .map(({ id }) => id),
        seeds: range(0, 69),
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
        envs: ["frozen_lake", "sokoban"],
        seeds: range(10_001, 10_256),
        sampling: { maxTokens: 512 },
        options: () => ({ protocol: "think", maxTurns: 5 }),
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
export function fullName(env: string): string {
  const ids = listEnvs().map(({ id }) => id);
  return ids.includes(env) ? env : (ids.find((id) => id.startsWith(`${env}/`)) ?? env);
}
