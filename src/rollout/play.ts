/**
 * Playing and scoring seeds. A success rate means nothing alone: some boards are won by stopping at once, some by luck, and some can't be
 * won within the limits. So every score comes with the same seeds played under the same limits by agents that stop at once, play at
 * random, and know the answer; and every rate with its Wilson interval.
 */
import { ConfigError } from "../core/errors.ts";
import type { BuiltinAgent } from "../envs/env.ts";
import type { AgentFactory } from "./agents.ts";
import { builtinAgent } from "./builtin-agents.ts";
import { RolloutCounters } from "./counters.ts";
import { type GroupOptions, playGroups } from "./groups.ts";
import { EnvHost, type EnvSpec, type Workers } from "./hosts.ts";
import type { EndReason, Trajectory } from "./trajectory.ts";

/** A share with its 95 % Wilson interval. */
export type Rate = {
  readonly value: number;
  readonly low: number;
  readonly high: number;
  readonly count: number;
  readonly total: number;
};

export function wilson(count: number, total: number, z = 1.959964): Rate {
  if (total === 0) return { value: Number.NaN, low: 0, high: 1, count, total };
  const value = count / total;
  const centre = value + (z * z) / (2 * total);
  const half = z * Math.sqrt((value * (1 - value)) / total + (z * z) / (4 * total * total));
  const scale = 1 + (z * z) / total;
  // At the ends the interval reaches them exactly, whatever rounding says.
  return {
    value,
    low: count === 0 ? 0 : Math.max(0, (centre - half) / scale),
    high: count === total ? 1 : Math.min(1, (centre + half) / scale),
    count,
    total,
  };
}

/** Means are over episodes, shares over replies; episodes that failed for our reasons are only counted. */
export type Figures = {
  readonly success: Rate;
  readonly reward: number;
  readonly turns: number;
  readonly sampledTokens: number;
  /** Replies from which no action could be read, and replies cut at their token limit. */
  readonly unparsed: number;
  readonly cut: number;
  readonly ended: Readonly<Partial<Record<EndReason, number>>>;
  readonly dropped: number;
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
  readonly seeds: number;
  readonly against: Yardsticks;
};

type Shared = Partial<Pick<GroupOptions, "maxTurns" | "stepTimeoutMs" | "episodeTimeoutMs" | "retries" | "signal">>;

export type PlayOptions = Shared & {
  /** Who plays: `tokenAgent({ …, temperature })` for a model (0 is greedy), or any other. */
  readonly agent: AgentFactory;
  readonly env: EnvSpec;
  readonly seeds: readonly number[];
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
    return { ...(await figures({ ...options, host })), env, seeds: seeds.length, against };
  } finally {
    if (options.host === undefined) await host.close();
  }
}

/** `success 0.61 [0.55, 0.67] of 256 (stop 0.00, random 0.06, oracle 1.00)` */
export function scoreLine({ success, against: { stop, random, oracle } }: SeedScores): string {
  const beside = Object.entries({ stop, random, oracle }).flatMap(([name, figures]) =>
    figures === undefined ? [] : [`${name} ${figures.success.value.toFixed(2)}`],
  );
  const { value, low, high, total } = success;
  return `success ${value.toFixed(2)} [${low.toFixed(2)}, ${high.toFixed(2)}] of ${total} (${beside.join(", ")})`;
}

type Hosted = PlayOptions & { readonly host: EnvHost };

async function figures(options: Hosted): Promise<Figures> {
  const { agent, env, seeds, host, samplingSeed = 0, live = 16, onTrajectory, ...shared } = options;
  const counters = new RolloutCounters();
  const requests = seeds.map((seed) => ({ env, seed, siblings: 1 }));
  for await (const group of playGroups(requests, { ...shared, agent, host, samplingSeed, live, counters })) {
    for (const trajectory of [...group.trajectories, ...group.dropped]) onTrajectory?.(trajectory);
  }
  const { episodes, turns } = counters;
  const per = (sum: number, count: number) => (count === 0 ? Number.NaN : sum / count);
  return {
    success: wilson(counters.successes, episodes),
    reward: per(counters.reward, episodes),
    turns: per(turns, episodes),
    sampledTokens: per(counters.sampledTokens, episodes),
    unparsed: per(counters.unparsed, turns),
    cut: per(counters.cut, turns),
    ended: counters.ended,
    dropped: Object.values(counters.dropped).reduce((sum, count) => sum + count, 0),
  };
}

/** Evaluations during training ask for the same ones over and over. */
const known = new Map<string, Promise<Yardsticks>>();
const MOST_KNOWN = 64;

function yardsticks(options: Hosted): Promise<Yardsticks> {
  const { env, seeds, maxTurns } = options;
  const key = JSON.stringify([env.id, env.options ?? {}, env.module, maxTurns, seeds]);
  const found = known.get(key);
  if (found !== undefined) return found;
  const measured = measure(options);
  known.set(key, measured);
  if (known.size > MOST_KNOWN) known.delete(known.keys().next().value as string);
  // One that failed is tried again when it is next wanted.
  measured.catch(() => known.delete(key));
  return measured;
}

async function measure(options: Hosted): Promise<Yardsticks> {
  const { onTrajectory: _, ...rest } = options;
  const play = (kind: BuiltinAgent) => figures({ ...rest, agent: builtinAgent(kind), samplingSeed: 0 });
  const stop = await play("stop");
  const random = (await hasAgent("random", options)) ? await play("random") : undefined;
  const oracle = (await hasAgent("oracle", options)) ? await play("oracle") : undefined;
  return { stop, ...(random && { random }), ...(oracle && { oracle }) };
}

async function hasAgent(kind: BuiltinAgent, { host, env: spec, seeds }: Hosted): Promise<boolean> {
  const env = await host.acquire(spec);
  try {
    await env.reset(seeds[0] ?? 0);
    const reply = await env.builtinReply?.(kind, 0);
    host.release(env);
    return reply !== undefined;
  } catch {
    host.discard(env);
    return false;
  }
}
