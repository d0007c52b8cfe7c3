/**
 * Evaluation inside a run: the fixed seeds, sampled and greedy, each environment beside what stopping at once, random play and the oracle get on the
 * same seeds and limits. Mixtures are averaged over their environments.
 */
import type { Sampler } from "../engine/engine.ts";
import { type TokenAgentOptions, tokenAgent } from "../rollout/agents.ts";
import type { EnvHost } from "../rollout/hosts.ts";
import { playSeeds, type SeedScores } from "../rollout/play.ts";
import { isOurFault, type Trajectory } from "../rollout/trajectory.ts";
import { measureEpisodes } from "./measure.ts";
import type { Recipe } from "./recipe.ts";

export type EvaluateOptions = {
  readonly recipe: Recipe;
  readonly sampler: Sampler;
  readonly host: EnvHost;
  readonly agent: Omit<TokenAgentOptions, "sampler" | "temperature">;
  readonly seeds: readonly number[];
};

export async function evaluate(
  options: EvaluateOptions,
): Promise<{ metrics: Record<string, number>; trajectories: Trajectory[] }> {
  const { recipe, sampler, host, agent, seeds } = options;
  const trajectories: Trajectory[] = [];
  const play = async (temperature: number, onTrajectory?: (trajectory: Trajectory) => void) => {
    const all: SeedScores[] = [];
    for (const { env, options: envOptions } of recipe.envs) {
      all.push(
        await playSeeds({
          agent: tokenAgent({ ...agent, temperature, sampler: () => sampler }),
          env: { id: env, options: envOptions },
          seeds,
          host,
          samplingSeed: recipe.seed,
          live: recipe.rollout.live,
          stepTimeoutMs: recipe.rollout.stepTimeoutMs,
          ...(onTrajectory && { onTrajectory }),
        }),
      );
    }
    return all;
  };
  const sampled = await play(recipe.evaluate.temperature, (trajectory) => trajectories.push(trajectory));
  const greedy = recipe.evaluate.greedy ? await play(0) : undefined;
  const scored = trajectories.filter((trajectory) => !isOurFault(trajectory));
  const metrics: Record<string, number> = { ...measureEpisodes(scored, "eval"), ...summary(sampled, "success") };
  metrics["eval/success_low"] = mean(sampled, ({ success }) => success.low);
  metrics["eval/success_high"] = mean(sampled, ({ success }) => success.high);
  metrics["eval/errors"] = sampled.reduce((sum, { dropped }) => sum + dropped, 0);
  metrics["eval/floor"] = mean(sampled, ({ against }) => against.stop.success.value);
  metrics["eval/random"] = mean(sampled, ({ against }) => against.random?.success.value ?? 0);
  metrics["eval/ceiling"] = mean(sampled, ({ against }) => against.oracle?.success.value ?? 1);
  for (const { env, against } of sampled) {
    metrics[`eval/floor/${env.id}`] = against.stop.success.value;
    if (against.oracle) metrics[`eval/ceiling/${env.id}`] = against.oracle.success.value;
  }
  if (greedy) Object.assign(metrics, summary(greedy, "success_greedy"));
  if (greedy) metrics["eval/reward_greedy"] = mean(greedy, ({ reward }) => reward);
  return { metrics, trajectories };
}

function summary(scores: readonly SeedScores[], name: string): Record<string, number> {
  const metrics: Record<string, number> = { [`eval/${name}`]: mean(scores, ({ success }) => success.value) };
  for (const { env, success } of scores) metrics[`eval/${name}/${env.id}`] = success.value;
  return metrics;
}

function mean(scores: readonly SeedScores[], value: (score: SeedScores) => number): number {
  return scores.reduce((sum, score) => sum + value(score), 0) / scores.length;
}
