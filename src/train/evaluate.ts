/**
 * Evaluation inside a run: the fixed seeds, sampled and greedy, each environment beside what stopping at once, random play and the oracle get on the
 * same seeds and limits. Counted as `saccade eval` counts.
 */
import { createHash } from "node:crypto";
import { canonicalJson, type Json } from "../core/json.ts";
import type { Sampler } from "../engine/engine.ts";
import type { EvaluationEntry } from "../envs/sources.ts";
import { type TokenAgentOptions, tokenAgent } from "../rollout/agents.ts";
import { measureDecisions } from "../rollout/decisions.ts";
import type { EnvHost } from "../rollout/hosts.ts";
import { envScores, playSeeds, type SeedScores } from "../rollout/play.ts";
import { evaluationMetrics } from "../rollout/scores.ts";
import { isOurFault, type Trajectory } from "../rollout/trajectory.ts";
import { type FailedEpisodes, tooMany } from "./failed.ts";
import type { Recipe } from "./recipe.ts";

export type EvaluateOptions = {
  readonly recipe: Recipe;
  readonly sampler: Sampler;
  readonly host: EnvHost;
  readonly agent: Omit<TokenAgentOptions, "sampler" | "temperature">;
  readonly entries: readonly EvaluationEntry[];
  /** Cuts it short: `evaluate` then throws the signal's reason. */
  readonly signal?: AbortSignal;
  /** Sees each episode of the model, with how many of all are played. */
  readonly onPlayed?: (trajectory: Trajectory, done: number, total: number) => void;
};

/** Names all that decides what a score means: the episodes and how the model is asked. Scores under two names are not comparable. */
export function evaluationKey(recipe: Recipe, entries: readonly EvaluationEntry[]): string {
  const { evaluate: plan, sampling, turns, history } = recipe;
  const { temperature, repeats } = plan;
  const asked = { temperature, repeats, maxTokens: sampling.maxTokens, contextTokens: sampling.contextTokens, turns };
  const played = entries.map(({ env, options, label, seeds }) => ({ env, options, label, seeds }));
  const all = JSON.stringify({ ...asked, ...(turns === "split" && { history }), played });
  return createHash("sha256")
    .update(canonicalJson(JSON.parse(all) as Json))
    .digest("hex")
    .slice(0, 16);
}

export async function evaluate(
  options: EvaluateOptions,
): Promise<{ metrics: Record<string, number>; trajectories: Trajectory[]; failed: FailedEpisodes }> {
  const { recipe, sampler, host, agent, entries, signal, onPlayed } = options;
  const { live, retries, stepTimeoutMs, episodeTimeoutMs } = recipe.rollout;
  const { temperature, greedy, repeats } = recipe.evaluate;
  const seedCount = entries.reduce((sum, { seeds }) => sum + seeds.length, 0);
  const total = seedCount * (repeats + (greedy ? 1 : 0));
  let done = 0;
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
          ...(signal && { signal }),
          onTrajectory(trajectory) {
            onPlayed?.(trajectory, ++done, total);
            onTrajectory?.(trajectory, i);
          },
        }),
      );
    }
    return all;
  };
  const sampled = await play({ temperature, repeats }, (trajectory, i) => {
    trajectories.push(trajectory);
    if (!isOurFault(trajectory)) played[i]?.trajectories.push(trajectory);
  });
  const metrics = evaluationMetrics(sampled.map(envScores));
  const failed = failedOf(sampled);
  // What is left would only say again that the environment is broken.
  if (tooMany(failed, recipe.rollout.maxFailed)) return { metrics, trajectories, failed };
  if (recipe.evaluate.decisions) Object.assign(metrics, await measureDecisions(played));
  if (greedy) {
    const likeliest = await play({ temperature: 0, repeats: 1 });
    const found = evaluationMetrics(likeliest.map(envScores));
    if (found["eval/failed"]) metrics["eval/failed_greedy"] = found["eval/failed"];
    for (const [name, value] of Object.entries(found)) {
      const match = /^eval\/(success|reward)((?:\/.*)?)$/.exec(name);
      if (match) metrics[`eval/${match[1]}_greedy${match[2]}`] = value;
    }
    const also = failedOf(likeliest);
    // As many were asked for greedily, unless seeds were tried several times: the worse of the two decides.
    if (also.failed * failed.asked > failed.failed * also.asked) return { metrics, trajectories, failed: also };
  }
  return { metrics, trajectories, failed };
}

/** Of the model's episodes. Those of yardsticks are told where the model's all went well. */
function failedOf(scores: readonly SeedScores[]): FailedEpisodes {
  const yardsticks = scores.flatMap(({ against: { stop, random, oracle } }) => [oracle, random, stop]);
  const first = [...scores, ...yardsticks].find((figures) => figures?.failure !== undefined)?.failure;
  const sum = (of: "total" | "failed") => scores.reduce((total, { success }) => total + success[of], 0);
  return { asked: sum("total"), failed: sum("failed"), ...(first && { first }) };
}
