/**
 * Evaluation inside a run: the fixed seeds, sampled and greedy, each environment beside what stopping at once, random play and the oracle get on the
 * same seeds and limits. Counted as `saccade eval` counts.
 */
import type { Sampler } from "../engine/engine.ts";
import type { EvaluationEntry } from "../envs/sources.ts";
import { type TokenAgentOptions, tokenAgent } from "../rollout/agents.ts";
import type { EnvHost } from "../rollout/hosts.ts";
import { envScores, playSeeds, type SeedScores } from "../rollout/play.ts";
import { evaluationMetrics } from "../rollout/scores.ts";
import { isOurFault, type Trajectory } from "../rollout/trajectory.ts";
import { measureDecisions } from "./decisions.ts";
import type { Recipe } from "./recipe.ts";

export type EvaluateOptions = {
  readonly recipe: Recipe;
  readonly sampler: Sampler;
  readonly host: EnvHost;
  readonly agent: Omit<TokenAgentOptions, "sampler" | "temperature">;
  readonly entries: readonly EvaluationEntry[];
};

export async function evaluate(
  options: EvaluateOptions,
): Promise<{ metrics: Record<string, number>; trajectories: Trajectory[] }> {
  const { recipe, sampler, host, agent, entries } = options;
  const { live, retries, stepTimeoutMs, episodeTimeoutMs } = recipe.rollout;
  const { temperature, greedy, repeats } = recipe.evaluate;
  const trajectories: Trajectory[] = [];
  const played = entries.map((entry) => ({ entry, trajectories: [] as Trajectory[] }));
  const play = async (
    at: { temperature: number; repeats: number },
    onTrajectory?: (trajectory: Trajectory, entry: number) => void,
  ) => {
    const all: SeedScores[] = [];
    for (const [i, { env, options: envOptions, label, seeds }] of entries.entries()) {
      all.push(
        await playSeeds({
          agent: tokenAgent({ ...agent, temperature: at.temperature, sampler: () => sampler }),
          env: { id: env, options: envOptions },
          label,
          seeds,
          repeats: at.repeats,
          host,
          samplingSeed: recipe.seed,
          live,
          retries,
          stepTimeoutMs,
          episodeTimeoutMs,
          ...(onTrajectory && { onTrajectory: (trajectory) => onTrajectory(trajectory, i) }),
        }),
      );
    }
    return all.map(envScores);
  };
  const sampled = await play({ temperature, repeats }, (trajectory, i) => {
    trajectories.push(trajectory);
    if (!isOurFault(trajectory)) played[i]?.trajectories.push(trajectory);
  });
  const metrics = evaluationMetrics(sampled);
  if (recipe.evaluate.decisions) Object.assign(metrics, await measureDecisions(played));
  if (greedy) {
    const found = evaluationMetrics(await play({ temperature: 0, repeats: 1 }));
    for (const [name, value] of Object.entries(found)) {
      const match = /^eval\/(success|reward)((?:\/.*)?)$/.exec(name);
      if (match) metrics[`eval/${match[1]}_greedy${match[2]}`] = value;
    }
  }
  return { metrics, trajectories };
}
