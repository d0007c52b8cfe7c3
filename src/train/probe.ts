/** The sight probe of a run: episodes on evaluation seeds with real frames, and with grey ones. */
import type { Sampler } from "../engine/engine.ts";
import { canBlindfold } from "../envs/registry.ts";
import type { EvaluationEntry } from "../envs/sources.ts";
import { type TokenAgentOptions, tokenAgent } from "../rollout/agents.ts";
import { playGroups } from "../rollout/groups.ts";
import type { EnvHost } from "../rollout/hosts.ts";
import type { Trajectory } from "../rollout/trajectory.ts";
import type { Recipe } from "./recipe.ts";
import { againstGrey, probeSight, type SightReport } from "./sight.ts";

export type ProbeOptions = {
  readonly recipe: Recipe;
  readonly sampler: Sampler;
  readonly host: EnvHost;
  readonly agent: Omit<TokenAgentOptions, "sampler" | "temperature">;
  readonly entries: readonly EvaluationEntry[];
};

/** Whether the model looks: on real frames, whatever it trains on. */
export async function probe(options: ProbeOptions): Promise<SightReport & { trajectories: Trajectory[] }> {
  const trajectories = await play(options, false);
  const { metrics, gaps } = await probeSight(options.sampler, trajectories);
  const grey = await play(options, true);
  return { trajectories, gaps, metrics: { ...metrics, ...(grey.length > 0 && againstGrey(trajectories, grey)) } };
}

/** Environments without a blindfold are left out of the grey ones. */
async function play(
  { recipe, sampler, host, agent, entries }: ProbeOptions,
  blindfold: boolean,
): Promise<Trajectory[]> {
  const requests = entries.flatMap(({ env, options, label, seeds }) => {
    const canGrey = canBlindfold(env);
    if (blindfold && !canGrey) return [];
    return seeds.slice(0, Math.ceil(recipe.sight.episodes / entries.length)).map((seed) => ({
      env: { id: env, options: canGrey ? { ...options, blindfold } : options },
      seed,
      siblings: 1,
      group: `${label}#${seed}`,
    }));
  });
  const trajectories: Trajectory[] = [];
  for await (const group of playGroups(requests, {
    agent: tokenAgent({ ...agent, temperature: 1, sampler: () => sampler }),
    host,
    samplingSeed: recipe.seed,
    live: recipe.rollout.live,
    retries: recipe.rollout.retries,
    stepTimeoutMs: recipe.rollout.stepTimeoutMs,
    episodeTimeoutMs: recipe.rollout.episodeTimeoutMs,
  })) {
    trajectories.push(...group.trajectories);
  }
  return trajectories;
}
