/**
 * Whether a model decides as the oracle would, apart from everything else that it says: by distance to the goal, by turn, and by the number of ways to go.
 * An evaluation plays its episodes again beside the oracle and counts the turns whose actions were as good.
 */
import { grouped, mean } from "../core/numbers.ts";
import { bucketOf, type Decision, decisionIn } from "../envs/decisions.ts";
import type { Env } from "../envs/env.ts";
import { makeEnv } from "../envs/registry.ts";
import type { EnvRef, EvaluationEntry } from "../envs/sources.ts";
import { WorldEnv } from "../envs/world-env.ts";
import { within } from "./deadline.ts";
import type { Trajectory } from "./trajectory.ts";

/** `turn` counts from 0; `score` is 0 to 1. */
export type ScoredDecision = Pick<Decision, "distance" | "ways"> & { readonly turn: number; readonly score: number };

/** Episodes of an entry that are played again beside the oracle. */
const MAX_EPISODES = 64;
/** Most milliseconds for one of them. */
const REPLAY_MS = 30_000;

/** `played`: the sampled episodes of each entry. Only worlds with an oracle have decisions. */
export async function measureDecisions(
  played: readonly { readonly entry: EvaluationEntry; readonly trajectories: readonly Trajectory[] }[],
): Promise<Record<string, number>> {
  const scored: ScoredDecision[] = [];
  for (const { entry, trajectories } of played) {
    const oracle = new OracleReplay(entry);
    for (const trajectory of trajectories.slice(0, MAX_EPISODES)) scored.push(...(await oracle.decisions(trajectory)));
    await oracle.close();
  }
  return decisionMetrics("accuracy", decisionFigures(scored));
}

/** Plays episodes of an environment again, one at a time, and asks the oracle before each turn. */
export class OracleReplay {
  readonly #env: Promise<Env>;
  #last: Promise<unknown> = Promise.resolve();

  constructor({ env, options }: EnvRef) {
    this.#env = makeEnv(env, options);
    // Met where it is awaited.
    this.#env.catch(() => undefined);
  }

  /** None where there is no oracle, and of an episode that can't be played again: a world that fails or hangs has been counted as such before. */
  decisions(trajectory: Trajectory): Promise<readonly ScoredDecision[]> {
    const found = this.#last.then(async () => {
      const env = await this.#env;
      if (!(env instanceof WorldEnv) || env.world.solve === undefined) return [];
      // A long plan is not to hold up the terminal and the viewer.
      await new Promise((resolve) => setImmediate(resolve));
      return within(() => decisionsOf(env, trajectory), REPLAY_MS).catch(() => []);
    });
    this.#last = found.catch(() => undefined);
    return found;
  }

  async close(): Promise<void> {
    await this.#last;
    const env = await this.#env.catch(() => undefined);
    await env?.close?.();
  }
}

/** Plays the actions of an episode again. Right is what the oracle would have done, and whatever else brings the goal as much nearer. */
async function decisionsOf({ world }: WorldEnv, { seed, turns }: Trajectory): Promise<ScoredDecision[]> {
  const scored: ScoredDecision[] = [];
  await world.reset(seed);
  let before = await decisionIn(world);
  for (const [turn, { info }] of turns.entries()) {
    let over = false;
    for (const action of info.actions) over = (await world.act(action)).ended;
    const after = over ? undefined : await decisionIn(world);
    if (before !== undefined) {
      const { plan, distance, ways } = before;
      const count = info.actions.length;
      const same = info.actions.every((action, i) => JSON.stringify(action) === JSON.stringify(plan[i]));
      const nearer = over ? await world.success() : after !== undefined && after.distance <= distance - count;
      const score = count > 0 && (same || nearer) ? 1 : 0;
      scored.push({ distance, ...(ways !== undefined && { ways }), turn, score });
    }
    before = after;
  }
  return scored;
}

export type DecisionFigures = {
  readonly value: number;
  readonly count: number;
  readonly byDistance: Readonly<Record<string, number>>;
  readonly byTurn: Readonly<Record<string, number>>;
  readonly byWays: Readonly<Record<string, number>>;
};

/** Undefined where nothing was decided. */
export function decisionFigures(scored: readonly ScoredDecision[]): DecisionFigures | undefined {
  if (scored.length === 0) return undefined;
  const by = (number: (one: ScoredDecision) => number | undefined, name: (number: number) => string) => {
    const known = scored
      .filter((one) => number(one) !== undefined)
      .toSorted((a, b) => (number(a) ?? 0) - (number(b) ?? 0));
    const groups = grouped(known, (one) => name(number(one) ?? 0));
    return Object.fromEntries(
      [...groups].map(([bucket, members]) => [bucket, mean(members.map(({ score }) => score))]),
    );
  };
  return {
    value: mean(scored.map(({ score }) => score)),
    count: scored.length,
    byDistance: by(({ distance }) => distance, bucketOf),
    byTurn: by(({ turn }) => turn + 1, bucketOf),
    byWays: by(({ ways }) => ways, String),
  };
}

export function decisionMetrics(
  name: "probability" | "accuracy",
  figures: DecisionFigures | undefined,
): Record<string, number> {
  if (figures === undefined) return {};
  const { value, count, byDistance, byTurn, byWays } = figures;
  const metrics: Record<string, number> = { [`decisions/${name}`]: value, "decisions/count": count };
  for (const [family, members] of Object.entries({ by_distance: byDistance, by_turn: byTurn, by_ways: byWays })) {
    for (const [bucket, share] of Object.entries(members)) metrics[`decisions/${name}_${family}/${bucket}`] = share;
  }
  return metrics;
}
