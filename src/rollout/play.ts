/**
 * Playing and scoring seeds. A success rate means nothing alone: some boards are won by stopping at once, some by luck, and some can't be
 * won within the limits. So every score comes with the same seeds played under the same limits by agents that stop at once, play at
 * random, and know the answer; and every rate with its Wilson interval.
 */
import { ConfigError } from "../core/errors.ts";
import { makeOnce } from "../core/make-once.ts";
import type { BuiltinAgent } from "../envs/env.ts";
import type { Failure } from "../run/failures.ts";
import type { AgentFactory } from "./agents.ts";
import { builtinAgent } from "./builtin-agents.ts";
import { RolloutCounters } from "./counters.ts";
import { within } from "./deadline.ts";
import { type GroupOptions, playGroups } from "./groups.ts";
import { EnvHost, type EnvSpec, type Workers } from "./hosts.ts";
import {
  type EnvScores,
  type PassAtK,
  passTable,
  type SuccessRate,
  successByTurn,
  successRate,
  type Try,
} from "./scores.ts";
import { type EndReason, firstFailure, isOurFault, type Trajectory } from "./trajectory.ts";

/** Success is of all episodes that were asked for; other means are over those that were played, shares over their replies. */
export type Figures = {
  readonly success: SuccessRate;
  readonly passAtK: readonly PassAtK[];
  readonly reward: number;
  readonly turns: number;
  /** Solved in a turn, of those that came to it. */
  readonly byTurn: Readonly<Record<string, number>>;
  readonly sampledTokens: number;
  /** Replies from which no action could be read, and replies cut at their token limit. */
  readonly unparsed: number;
  readonly cut: number;
  readonly ended: Readonly<Partial<Record<EndReason, number>>>;
  /** The first episode that failed for our reasons. */
  readonly failure?: Failure;
};

/** What success is measured against; absent where an environment has no such agent. */
export type Yardsticks = {
  readonly stop: Figures;
  readonly random?: Figures;
  /** The ceiling. */
  readonly oracle?: Figures;
};

export type SeedScores = Figures & {
  readonly env: EnvSpec;
  readonly label: string;
  readonly seeds: number;
  readonly against: Yardsticks;
};

type Shared = Partial<Pick<GroupOptions, "maxTurns" | "stepTimeoutMs" | "episodeTimeoutMs" | "retries" | "signal">>;

export type PlayOptions = Shared & {
  /** Who plays: `tokenAgent({ …, temperature })` for a model (0 is greedy), or any other. */
  readonly agent: AgentFactory;
  readonly env: EnvSpec;
  readonly seeds: readonly number[];
  /** Tries at each seed, for pass@k; default 1. The yardsticks have one. */
  readonly repeats?: number;
  /** Its name in metrics and episode ids; default the environment's. */
  readonly label?: string;
  readonly samplingSeed?: number;
  /** Most episodes at a time; default 16. */
  readonly live?: number;
  /** Default: a host of its own, with `workers`. */
  readonly host?: EnvHost;
  readonly workers?: Workers;
  /** Sees every episode in the order of the seeds, dropped ones too; nothing else keeps them. */
  readonly onTrajectory?: (trajectory: Trajectory) => void;
};

/** Plays each seed once and scores it beside its yardsticks. */
export async function playSeeds(options: PlayOptions): Promise<SeedScores> {
  const { env, seeds } = options;
  if (seeds.length === 0) throw new ConfigError("There is nothing to score: give at least one seed.");
  const host = options.host ?? new EnvHost(options.workers);
  try {
    // First, so that a wrong name or option is found before a model has to answer.
    const against = await yardsticks({ ...options, host });
    return {
      ...(await figures({ ...options, host })),
      env,
      label: options.label ?? env.id,
      seeds: seeds.length,
      against,
    };
  } finally {
    if (options.host === undefined) await host.close();
  }
}

/** As `evaluationMetrics` takes it. */
export function envScores({ against: { stop, random, oracle }, ...figures }: SeedScores): EnvScores {
  const against = {
    stop: stop.success,
    ...(random && { random: random.success }),
    ...(oracle && { oracle: oracle.success }),
  };
  return { ...figures, against };
}

type Hosted = PlayOptions & { readonly host: EnvHost };

/** Plays each seed, and no yardsticks. */
export async function figures(options: Hosted): Promise<Figures> {
  const { agent, env, seeds, host, samplingSeed = 0, live = 16, repeats = 1, label, onTrajectory, ...shared } = options;
  const counters = new RolloutCounters();
  const tries: (Try & { readonly turns: number })[] = [];
  let failure: Failure | undefined;
  const requests = seeds.map((seed) => ({ env, seed, siblings: repeats, group: `${label ?? env.id}#${seed}` }));
  for await (const group of playGroups(requests, { ...shared, agent, host, samplingSeed, live, counters })) {
    // Not the trajectories: their frames would add up to gigabytes.
    for (const trajectory of [...group.trajectories, ...group.dropped]) {
      const { seed, success, turns } = trajectory;
      tries.push({ seed, success, failed: isOurFault(trajectory), turns: turns.length });
      onTrajectory?.(trajectory);
    }
    failure ??= firstFailure(group.dropped);
  }
  const { episodes, turns } = counters;
  const per = (sum: number, count: number) => (count === 0 ? Number.NaN : sum / count);
  return {
    success: successRate(tries),
    passAtK: passTable(tries),
    reward: per(counters.reward, episodes),
    turns: per(turns, episodes),
    byTurn: successByTurn(tries.filter(({ failed }) => failed !== true)),
    sampledTokens: per(counters.sampledTokens, episodes),
    unparsed: per(counters.unparsed, turns),
    cut: per(counters.cut, turns),
    ended: counters.ended,
    ...(failure && { failure }),
  };
}

/** Evaluations during training ask for the same ones over and over. */
const known = new Map<string, Promise<Yardsticks>>();
const MAX_KNOWN = 64;

function yardsticks(options: Hosted): Promise<Yardsticks> {
  const { env, seeds, maxTurns } = options;
  const key = JSON.stringify([env.id, env.options ?? {}, env.module, maxTurns, seeds]);
  const measured = makeOnce(known, key, () => measure(options));
  if (known.size > MAX_KNOWN) known.delete(known.keys().next().value as string);
  return measured;
}

async function measure(options: Hosted): Promise<Yardsticks> {
  const { onTrajectory: _, ...rest } = options;
  const play = async (kind: BuiltinAgent): Promise<Figures> => {
    const found = await figures({ ...rest, agent: builtinAgent(kind), samplingSeed: 0, repeats: 1 });
    return found.failure === undefined ? found : { ...found, failure: { ...found.failure, agent: kind } };
  };
  const stop = await play("stop");
  const random = (await hasAgent("random", options)) ? await play("random") : undefined;
  const oracle = (await hasAgent("oracle", options)) ? await play("oracle") : undefined;
  return { stop, ...(random && { random }), ...(oracle && { oracle }) };
}

/** Asked on the first seed that can be reset. An agent that throws is one: playing it says why. */
async function hasAgent(
  kind: BuiltinAgent,
  { host, env: spec, seeds, stepTimeoutMs = 60_000 }: Hosted,
): Promise<boolean> {
  for (const seed of seeds.slice(0, 8)) {
    const env = await host.acquire(spec);
    if (env.driver !== undefined) {
      host.release(env);
      return env.driver.builtins.includes(kind);
    }
    try {
      await within(() => env.reset(seed), stepTimeoutMs);
    } catch {
      host.discard(env, true);
      continue;
    }
    try {
      const reply = await within(() => env.builtinReply?.(kind, 0), stepTimeoutMs);
      host.release(env);
      return reply !== undefined;
    } catch {
      host.discard(env, true);
      return true;
    }
  }
  return false;
}
