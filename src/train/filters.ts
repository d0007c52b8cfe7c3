/**
 * Filters: which groups of a batch are worth learning from. Each is a plain function `(groups, options) → { keep, dropped, … }` on what the
 * episodes earned; `dropped` counts what is not in `keep`, so the two add up to what came in. They run before advantages are
 * estimated, on task rewards, and log their counts; metrics of the run are taken on the unfiltered batch.
 *
 * Variances are over episodes (not rows), population form. `keep` holds the order of the groups; ties go to the group that came first.
 */

import { checkChoice, checkRange, type OptionBag, readOptions } from "./algorithm-options.ts";
import { byGroup, episodesOf, gather } from "./episodes.ts";
import type { Credit, TokenRow } from "./tokens.ts";

export type EpisodeSummary = {
  readonly episode: string;
  readonly reward: number;
  /** Sampled tokens. */
  readonly tokens: number;
  readonly truncated: boolean;
};
export type EpisodeGroup = { readonly group: string; readonly episodes: readonly EpisodeSummary[] };

export type FilterResult = {
  readonly keep: readonly EpisodeGroup[];
  /** Multiplies the advantages of what is kept; absent: 1. */
  readonly scale?: number;
  /** Kept episodes that count for their group's baseline and are then left out of the loss (`dropMasked`). */
  readonly masked?: readonly string[];
  readonly dropped: FilterCounts;
};
/** `episodes` counts those of dropped groups too. */
export type FilterCounts = { readonly groups: number; readonly episodes: number };
export type FilterFunction = (groups: readonly EpisodeGroup[], options: OptionBag) => FilterResult;
export type Filter = { readonly name: string; readonly apply: FilterFunction };

/** Keeps the `share` of groups with the largest reward variance, at least one. Without any variance there is no order and all stay. */
export function rewardVariance(groups: readonly EpisodeGroup[], options: OptionBag = {}): FilterResult {
  const { share } = readOptions('Filter "reward-variance"', options, { share: 0.2 });
  checkRange('Filter "reward-variance"', "share", share, 0, 1);
  const ranked = rankByVariance(groups);
  if (ranked.total <= 0) return result(groups, groups);
  const count = Math.max(1, Math.ceil(groups.length * share));
  return result(groups, inOrder(groups, ranked.order.slice(0, count)));
}

/**
 * Keeps the groups of largest variance that together hold the share `topP` of all variance, and scales the advantages by
 * sqrt(kept / all groups), so that a batch that shrinks does not step as far as a full one.
 */
export function rewardVarianceTopP(groups: readonly EpisodeGroup[], options: OptionBag = {}): FilterResult {
  const { topP } = readOptions('Filter "reward-variance-top-p"', options, { topP: 0.9 });
  checkRange('Filter "reward-variance-top-p"', "topP", topP, 0, 1);
  const { order, variances, total } = rankByVariance(groups);
  if (total <= 0) return { ...result(groups, groups), scale: 1 };
  let count = 0;
  let sum = 0;
  while (count < order.length && (count === 0 || sum < topP * total)) {
    sum += variances[order[count] as number] as number;
    count += 1;
  }
  return {
    ...result(groups, inOrder(groups, order.slice(0, count))),
    scale: Math.sqrt(count / groups.length),
  };
}

/** Drops groups whose rewards are all alike. May leave nothing: dynamic sampling then refills. */
export function zeroVariance(groups: readonly EpisodeGroup[], options: OptionBag = {}): FilterResult {
  const { tolerance } = readOptions('Filter "zero-variance"', options, { tolerance: 1e-6 });
  checkRange('Filter "zero-variance"', "tolerance", tolerance, 0, Number.MAX_VALUE);
  return result(
    groups,
    groups.filter(({ episodes }) => {
      const rewards = episodes.map((episode) => episode.reward);
      return Math.max(...rewards) - Math.min(...rewards) > tolerance;
    }),
  );
}

/**
 * Truncated episodes: `mask` leaves them in the baseline and out of the loss, `drop` takes them out before the baseline, `keep` trains them
 * with the reward they earned.
 */
export function overLong(groups: readonly EpisodeGroup[], options: OptionBag = {}): FilterResult {
  const what = 'Filter "over-long"';
  const mode = checkChoice(what, "mode", readOptions(what, options, { mode: "mask" }).mode, ["keep", "mask", "drop"]);
  switch (mode) {
    case "keep":
      return result(groups, groups);
    case "mask": {
      const masked = groups.flatMap(({ episodes }) => episodes.filter((e) => e.truncated).map((e) => e.episode));
      return { ...result(groups, groups), masked };
    }
    case "drop": {
      const keep = groups.map((group) => ({ ...group, episodes: group.episodes.filter((e) => !e.truncated) }));
      return result(
        groups,
        keep.filter((group) => group.episodes.length > 0),
      );
    }
  }
}

/** Drops groups with fewer than `minimum` episodes left: nothing to compare. */
export function survivors(groups: readonly EpisodeGroup[], options: OptionBag = {}): FilterResult {
  const { minimum } = readOptions('Filter "survivors"', options, { minimum: 2 });
  return result(
    groups,
    groups.filter((group) => group.episodes.length >= minimum),
  );
}

export const FILTERS: readonly Filter[] = [
  { name: "reward-variance", apply: rewardVariance },
  { name: "reward-variance-top-p", apply: rewardVarianceTopP },
  { name: "zero-variance", apply: zeroVariance },
  { name: "over-long", apply: overLong },
  { name: "survivors", apply: survivors },
];

export type FilterReport = {
  readonly keep: readonly EpisodeGroup[];
  readonly scale: number;
  /** Only episodes that are still kept. */
  readonly masked: ReadonlySet<string>;
  /** By filter, in the order they ran. */
  readonly dropped: Readonly<Record<string, FilterCounts>>;
};

/** One filter after another: counts side by side, scales multiplied. */
export function applyFilters(
  groups: readonly EpisodeGroup[],
  filters: readonly { readonly filter: Filter; readonly options?: OptionBag }[],
): FilterReport {
  let keep = groups;
  let scale = 1;
  const masked = new Set<string>();
  const dropped: Record<string, FilterCounts> = {};
  for (const { filter, options } of filters) {
    const step = filter.apply(keep, options ?? {});
    keep = step.keep;
    scale *= step.scale ?? 1;
    for (const episode of step.masked ?? []) masked.add(episode);
    const before = dropped[filter.name] ?? { groups: 0, episodes: 0 };
    dropped[filter.name] = {
      groups: before.groups + step.dropped.groups,
      episodes: before.episodes + step.dropped.episodes,
    };
  }
  const kept = new Set(keep.flatMap((group) => group.episodes.map((episode) => episode.episode)));
  return { keep, scale, masked: new Set([...masked].filter((episode) => kept.has(episode))), dropped };
}

/** What filters see of rows. */
export function groupsOf(rows: readonly TokenRow[]): EpisodeGroup[] {
  const rewards = rows.map((row) => row.rewards);
  return [...byGroup(episodesOf(rows))].map(([group, episodes]) => ({
    group,
    episodes: episodes.map((episode) => ({
      episode: episode.episode,
      reward: gather(episode, rewards).reduce((sum, reward) => sum + reward, 0),
      tokens: episode.length,
      truncated: episode.truncated,
    })),
  }));
}

/** The rows of the episodes that were kept, in their order. */
export function keepRows(rows: readonly TokenRow[], keep: readonly EpisodeGroup[]): TokenRow[] {
  const kept = new Set(keep.flatMap((group) => group.episodes.map((episode) => episode.episode)));
  return rows.filter((row) => kept.has(row.episode));
}

/** Takes masked episodes out, once their rewards have done their part in the estimate. Whiten and reduce afterwards. */
export function dropMasked(
  rows: readonly TokenRow[],
  credit: Credit,
  masked: ReadonlySet<string>,
): { readonly rows: TokenRow[]; readonly credit: Credit } {
  const stays = (_: unknown, r: number) => !masked.has((rows[r] as TokenRow).episode);
  const advantages = credit.advantages.filter(stays);
  return {
    rows: rows.filter(stays),
    credit: credit.returns === undefined ? { advantages } : { advantages, returns: credit.returns.filter(stays) },
  };
}

/** The other answer to over-long episodes: they earn nothing. */
export function zeroTruncatedRewards(rows: readonly TokenRow[]): TokenRow[] {
  const truncated = new Set(rows.filter((row) => row.truncated).map((row) => row.episode));
  return rows.map((row) =>
    truncated.has(row.episode) ? { ...row, rewards: new Float32Array(row.rewards.length) } : row,
  );
}

/** Population variance of a group's rewards. */
export function varianceOf(group: EpisodeGroup): number {
  const rewards = group.episodes.map((episode) => episode.reward);
  if (rewards.every((reward) => reward === rewards[0])) return 0;
  const mean = rewards.reduce((sum, reward) => sum + reward, 0) / rewards.length;
  return rewards.reduce((sum, reward) => sum + (reward - mean) ** 2, 0) / rewards.length;
}

function rankByVariance(groups: readonly EpisodeGroup[]) {
  const variances = groups.map(varianceOf);
  const order = groups.map((_, g) => g).sort((a, b) => (variances[b] as number) - (variances[a] as number) || a - b);
  // Summed in rank order, so that a running sum over all ranks is this very number.
  return { variances, order, total: order.reduce((sum, g) => sum + (variances[g] as number), 0) };
}

function inOrder(groups: readonly EpisodeGroup[], chosen: readonly number[]): EpisodeGroup[] {
  const set = new Set(chosen);
  return groups.filter((_, g) => set.has(g));
}

function result(groups: readonly EpisodeGroup[], keep: readonly EpisodeGroup[]): FilterResult {
  const episodes = (list: readonly EpisodeGroup[]) => list.reduce((sum, group) => sum + group.episodes.length, 0);
  return {
    keep,
    dropped: { groups: groups.length - keep.length, episodes: episodes(groups) - episodes(keep) },
  };
}
