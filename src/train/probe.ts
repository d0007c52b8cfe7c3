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
  /** Cuts it short: `probe` then throws the signal's reason. */
  readonly signal?: AbortSignal;
  readonly onPlayed?: (trajectory: Trajectory | undefined, done: number, total: number) => void;
};

/** Whether the model looks: on real frames, whatever it trains on. */
export async function probe(
  options: ProbeOptions,
): Promise<SightReport & { trajectories: Trajectory[]; failed: FailedEpisodes }> {
  let done = 0;
  const total = (await requestsOf(options, false)).length + (await requestsOf(options, true)).length;
  const count = (group: PlayedGroup) => options.onPlayed?.(group.trajectories[0], ++done, total);
  const seen = await play(options, false, count);
  const trajectories = playedIn(seen);
  options.signal?.throwIfAborted();
  const { metrics, gaps } = await probeSight(options.sampler, trajectories, options);
  const blind = await play(options, true, count);
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
async function requestsOf({ recipe, entries }: ProbeOptions, blindfold: boolean): Promise<GroupRequest[]> {
  const requests: GroupRequest[] = [];
  for (const { env, options, label, seeds } of entries) {
    const canGrey = await canBlindfold(env);
    if (blindfold && !canGrey) continue;
    for (const seed of seeds.slice(0, Math.ceil(recipe.sight.episodes / entries.length))) {
      const shown = canGrey ? { ...options, blindfold } : options;
      requests.push({ env: { id: env, options: shown }, seed, siblings: 1, group: `${label}#${seed}` });
    }
  }
  return requests;
}

async function play(
  options: ProbeOptions,
  blindfold: boolean,
  onGroup: (group: PlayedGroup) => void,
): Promise<PlayedGroup[]> {
  const { recipe, sampler, host, agent, signal } = options;
  const groups: PlayedGroup[] = [];
  for await (const group of playGroups(await requestsOf(options, blindfold), {
    agent: tokenAgent({ ...agent, temperature: 1, sampler: () => sampler }),
    host,
    samplingSeed: recipe.seed,
    live: recipe.rollout.live,
    retries: recipe.rollout.retries,
    stepTimeoutMs: recipe.rollout.stepTimeoutMs,
    episodeTimeoutMs: recipe.rollout.episodeTimeoutMs,
    ...(signal && { signal }),
  })) {
    groups.push(group);
    onGroup(group);
  }
  return groups;
}
