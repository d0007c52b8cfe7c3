/**
 * Estimators: from rewards (and a critic's values) to one advantage per sampled token. All of them see episodes (`episodes.ts`), never
 * rows, so they are valid with turns joined and split. None whitens except reinforce++, whose definition it is; `whiten.ts` does it for the rest.
 *
 * With s the episode's reward, over its group:
 *   grpo (s − mean) / (std + 1e-6), or without the division · rloo (s − mean)·n/(n−1) · maxrl (s − mean) / (mean + 1e-6).
 *   A group of one has nothing to compare with: 0.
 * Over sampled tokens t: reinforce++ whiten(Σ γ^k r_{t+k}) · gae δ_t = r_t + γV_{t+1} − V_t, A_t = δ_t + γλA_{t+1} ·
 *   turn-gae the same over turns · bi-level-gae over turns first, then over the tokens of each turn.
 * V past the last token is 0, also when the episode was truncated: the limit on turns and tokens is part of the task, the
 * policy is to finish within it. (A bootstrap would need the value of a state that nobody saw.)
 */
import { ConfigError, DataError } from "../core/errors.ts";
import { mean as meanOf } from "../core/numbers.ts";
import { byGroup, type Episode, episodesOf, gather, scatter, zerosLike } from "./episodes.ts";
import type { Credit, Estimator, EstimatorOptions, TokenRow } from "./tokens.ts";
import { whiten } from "./whiten.ts";

const EPSILON = 1e-6;
/** By how much equal scores may differ, relative to their size. */
const NOISE = 1e-6;
const BOTH = ["joined", "split"] as const;

export const grpo: Estimator = groupEstimator("grpo", (scores, options) => {
  const mean = meanOf(scores);
  const scale = options.normalizeStd ? 1 / (unbiasedStd(scores, mean) + EPSILON) : 1;
  return scores.map((score) => (score - mean) * scale);
});

export const rloo: Estimator = groupEstimator("rloo", (scores) => {
  const mean = meanOf(scores);
  const n = scores.length;
  return scores.map((score) => ((score - mean) * n) / (n - 1));
});

/**
 * Made for rewards of 0 and 1: weighs a group by how rare its successes are. Rewards below 0 could bring the mean near 0 (and the weight to
 * infinity) or below it (and turn every sign), so a group that has one is left out and counted.
 */
export const maxrl: Estimator = groupEstimator("maxrl", (scores) => {
  if (scores.some((score) => score < 0)) return undefined;
  const mean = meanOf(scores);
  return scores.map((score) => (score - mean) / (mean + EPSILON));
});

export const reinforcePlusPlus: Estimator = {
  name: "reinforce++",
  needsCritic: false,
  needsGroups: false,
  credits: "token",
  turns: BOTH,
  compute(rows, options) {
    const advantages = zerosLike(rows);
    for (const episode of episodesOf(rows)) {
      const returns = gather(
        episode,
        rows.map((row) => row.rewards),
      );
      for (let k = returns.length - 2; k >= 0; k--) {
        returns[k] = (returns[k] as number) + options.gamma * (returns[k + 1] as number);
      }
      scatter(episode, returns, advantages);
    }
    return { advantages: whiten(rows, advantages) };
  },
};

export const gae: Estimator = criticEstimator("gae", (_, rewards, values, options) => {
  const advantages = decay(rewards, values, options.gamma, options.lambda);
  return { advantages, returns: advantages.map((advantage, k) => advantage + (values[k] as number)) };
});

/**
 * A turn is one action: its reward is the sum of its tokens' (KL penalties included), its value that of its first token, the state in which
 * the turn began, and all its tokens share its advantage. Every token has a return, the turn's less what the turn has paid before it, so a
 * critic may learn from all of them.
 */
export const turnGae: Estimator = criticEstimator("turn-gae", (episode, rewards, values, options) => {
  const { turnStarts } = episode;
  const turns = turnStarts.length - 1;
  const turnRewards = new Float64Array(turns);
  const turnValues = new Float64Array(turns);
  for (let turn = 0; turn < turns; turn++) {
    const [start, end] = span(turnStarts, turn);
    for (let k = start; k < end; k++) turnRewards[turn] = (turnRewards[turn] as number) + (rewards[k] as number);
    turnValues[turn] = values[start] as number;
  }
  const turnAdvantages = decay(turnRewards, turnValues, options.turnGamma, options.turnLambda);
  const advantages = new Float64Array(rewards.length);
  const returns = new Float64Array(rewards.length);
  for (let turn = 0; turn < turns; turn++) {
    const [start, end] = span(turnStarts, turn);
    let remaining = (turnAdvantages[turn] as number) + (turnValues[turn] as number);
    for (let k = start; k < end; k++) {
      advantages[k] = turnAdvantages[turn] as number;
      returns[k] = remaining;
      remaining -= rewards[k] as number;
    }
  }
  return { advantages, returns };
});

/**
 * First over turns, from the last token of one to the last token of the next; the turn's return then stands in for its reward, and
 * each turn is one stretch of token GAE that ends there. What the next turn pays before its last token (KL penalties) belongs to the step
 * between the two, so that with all four constants at 1 this is token GAE, whatever the rewards.
 */
export const biLevelGae: Estimator = criticEstimator("bi-level-gae", (episode, rewards, values, options) => {
  const { turnStarts } = episode;
  const turns = turnStarts.length - 1;
  const stepRewards = new Float64Array(turns);
  const endValues = new Float64Array(turns);
  for (let turn = 0; turn < turns; turn++) {
    const last = (turnStarts[turn + 1] as number) - 1;
    endValues[turn] = values[last] as number;
    let between = 0;
    if (turn + 1 < turns) {
      const [start, end] = span(turnStarts, turn + 1);
      for (let k = start; k < end - 1; k++) between += rewards[k] as number;
    }
    stepRewards[turn] = (rewards[last] as number) + options.turnGamma * between;
  }
  const turnAdvantages = decay(stepRewards, endValues, options.turnGamma, options.turnLambda);
  const advantages = new Float64Array(rewards.length);
  for (let turn = 0; turn < turns; turn++) {
    const [start, end] = span(turnStarts, turn);
    const inside = rewards.slice(start, end);
    inside[inside.length - 1] = (turnAdvantages[turn] as number) + (endValues[turn] as number);
    advantages.set(decay(inside, values.subarray(start, end), options.gamma, options.lambda), start);
  }
  return { advantages, returns: advantages.map((advantage, k) => advantage + (values[k] as number)) };
});

export const ESTIMATORS: readonly Estimator[] = [grpo, rloo, reinforcePlusPlus, gae, turnGae, biLevelGae, maxrl];

/** Refuses constants outside 0..1. */
export function checkEstimatorOptions(options: EstimatorOptions): void {
  for (const name of ["gamma", "lambda", "turnGamma", "turnLambda"] as const) {
    const value = options[name];
    if (!(value >= 0 && value <= 1)) throw new ConfigError(`${name} must be from 0 to 1, got ${value}.`);
  }
}

/** One number per episode, compared within its group, for all its tokens; undefined: this group can't be compared. */
function groupEstimator(
  name: string,
  compare: (scores: readonly number[], options: EstimatorOptions) => readonly number[] | undefined,
): Estimator {
  return {
    name,
    needsCritic: false,
    needsGroups: true,
    credits: "episode",
    turns: BOTH,
    compute(rows: readonly TokenRow[], options: EstimatorOptions): Credit {
      const advantages = zerosLike(rows);
      const rewards = rows.map((row) => row.rewards);
      let unfit = 0;
      for (const siblings of byGroup(episodesOf(rows)).values()) {
        const scores = siblings.map((episode) => gather(episode, rewards).reduce((sum, reward) => sum + reward, 0));
        // Equal rewards say nothing, and must not say rounding noise either: parts of a reward are rounded where they stand.
        const noise = NOISE * Math.max(...scores.map(Math.abs));
        if (Math.max(...scores) - Math.min(...scores) <= noise) continue;
        const numbers = compare(scores, options);
        if (numbers === undefined) {
          unfit += 1;
          continue;
        }
        siblings.forEach((episode, s) => {
          scatter(episode, new Float64Array(episode.length).fill(numbers[s] as number), advantages);
        });
      }
      return { advantages, metrics: { "groups/unfit": unfit } };
    },
  };
}

function criticEstimator(
  name: string,
  assign: (
    episode: Episode,
    rewards: Float64Array,
    values: Float64Array,
    options: EstimatorOptions,
  ) => { advantages: Float64Array; returns: Float64Array },
): Estimator {
  return {
    name,
    needsCritic: true,
    needsGroups: false,
    credits: name === "turn-gae" ? "turn" : "token",
    turns: BOTH,
    compute(rows: readonly TokenRow[], options: EstimatorOptions): Credit {
      const rewards = rows.map((row) => row.rewards);
      const values = rows.map((row) => {
        if (row.values === undefined) {
          throw new DataError(`${name} needs a critic's values on every row; train a critic or use grpo.`);
        }
        return row.values;
      });
      const advantages = zerosLike(rows);
      const returns = zerosLike(rows);
      for (const episode of episodesOf(rows)) {
        const credit = assign(episode, gather(episode, rewards), gather(episode, values), options);
        scatter(episode, credit.advantages, advantages);
        scatter(episode, credit.returns, returns);
      }
      return { advantages, returns };
    },
  };
}

/** Generalised advantages of a chain that ends after its last element. */
function decay(rewards: Float64Array, values: Float64Array, gamma: number, lambda: number): Float64Array {
  const advantages = new Float64Array(rewards.length);
  let next = 0;
  let nextValue = 0;
  for (let k = rewards.length - 1; k >= 0; k--) {
    const value = values[k] as number;
    next = (rewards[k] as number) + gamma * nextValue - value + gamma * lambda * next;
    nextValue = value;
    advantages[k] = next;
  }
  return advantages;
}

function span(starts: readonly number[], turn: number): [start: number, end: number] {
  return [starts[turn] as number, starts[turn + 1] as number];
}

function unbiasedStd(numbers: readonly number[], mean: number): number {
  return Math.sqrt(numbers.reduce((sum, number) => sum + (number - mean) ** 2, 0) / (numbers.length - 1));
}
