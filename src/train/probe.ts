/** The sight probe of a run: episodes on evaluation seeds with real frames, and with grey ones. */
import type { Sampler } from "../engine/engine.ts";
import { canBlindfold } from "../envs/registry.ts";
import type { EvaluationEntry } from "../envs/sources.ts";
import { type TokenAgentOptions, tokenAgent } from "../rollout/agents.ts";
import { type GroupRequest, type PlayedGroup, playGroups } from "../rollout/groups.ts";
import type { EnvHost } from "../rollout/hosts.ts";
import type { Trajectory } from "../rollout/trajectory.ts";
import { type FailedEpisodes, failedIn } from "./failed.ts";
import type { Recipe } from "./recipe.ts";
import { againstGrey, probeSight, type SightReport } from "./sight.ts";

export type ProbeOptions = {
  readonly recipe: Recipe;
  readonly sampler: Sampler;
  /** Its scores are what it sampled with. */
  readonly exact: boolean;
  readonly host: EnvHost;
  readonly agent: Omit<TokenAgentOptions, "sampler" | "temperature">;
  readonly entries: readonly EvaluationEntry[];
};

/** Whether the model looks: on real frames, whatever it trains on. */
export async function probe(
  options: ProbeOptions,
): Promise<SightReport & { trajectories: Trajectory[]; failed: FailedEpisodes }> {
  const seen = await play(options, false);
  const trajectories = playedIn(seen);
  const { metrics, gaps } = await probeSight(options.sampler, trajectories, options);
  const blind = await play(options, true);
  const grey = playedIn(blind);
  return {
    trajectories,
    gaps,
    metrics: { ...metrics, ...(grey.length > 0 && againstGrey(trajectories, grey)) },
    failed: failedIn([...seen, ...blind]),
  };
}

const playedIn = (groups: readonly PlayedGroup[]) => groups.flatMap((group) => group.trajectories);

/** Environments without a blindfold are left out of the grey ones. */
async function play(
  { recipe, sampler, host, agent, entries }: ProbeOptions,
  blindfold: boolean,
): Promise<PlayedGroup[]> {
  const requests: GroupRequest[] = [];
  for (const { env, options, label, seeds } of entries) {
    const canGrey = await canBlindfold(env);
    if (blindfold && !canGrey) continue;
    for (const seed of seeds.slice(0, Math.ceil(recipe.sight.episodes / entries.length))) {
      const shown = canGrey ? { ...options, blindfold } : options;
      requests.push({ env: { id: env, options: shown }, seed, siblings: 1, group: `${label}#${seed}` });
    }
  }
  const groups: PlayedGroup[] = [];
  for await (const group of playGroups(requests, {
    agent: tokenAgent({ ...agent, temperature: 1, sampler: () => sampler }),
    host,
    samplingSeed: recipe.seed,
    live: recipe.rollout.live,
    retries: recipe.rollout.retries,
    stepTimeoutMs: recipe.rollout.stepTimeoutMs,
    episodeTimeoutMs: recipe.rollout.episodeTimeoutMs,
  })) {
    groups.push(group);
  }
  return groups;
}
