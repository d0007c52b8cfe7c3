/**
 * Filters: which groups of a batch are worth learning from. Each is a plain function `(groups, options) → { keep, dropped, … }` on what the
 * episodes earned; `dropped` counts what is not in `keep`, so the two add up to what came in. They run before advantages are
 * estimated, on task rewards, and log their counts; metrics of the run are taken on the unfiltered batch.
 *
 * Variances are over episodes (not rows), population form. `keep` holds the order of the groups; ties go to the group that came first.
 */
import { z } from "zod";
import { rangeOf } from "../core/numbers.ts";
import { type OptionBag, readOptions } from "../engine/options.ts";
import { byGroup, episodesOf, gather } from "./episodes.ts";
import type { Credit, Limit, TokenRow } from "./tokens.ts";

export type EpisodeSummary = {
  readonly episode: string;
  readonly reward: number;
  /** Sampled tokens. */
  readonly tokens: number;
  readonly limits: readonly Limit[];
};
export type EpisodeGroup = { readonly group: string; readonly episodes: readonly EpisodeSummary[] };

export type FilterResult = {
  readonly keep: readonly EpisodeGroup[];
  /** Multiplies the advantages of what is kept; absent: 1. */
  readonly scale?: number;
  /** Kept episodes that count for their group's baseline and are then left out of the loss (`dropMasked`). */
  readonly masked?: readonly string[];
  /** Kept episodes that earn nothing, for later filters and for their siblings' baseline. */
  readonly unpaid?: readonly string[];
  readonly dropped: FilterCounts;
};
/** `episodes` counts those of dropped groups too. */
export type FilterCounts = { readonly groups: number; readonly episodes: number };
/** Without a schema a filter takes no options. */
export type Filter<S extends z.ZodObject = z.ZodObject> = {
  readonly name: string;
  readonly schema?: S;
  apply(groups: readonly EpisodeGroup[], options: z.output<S>): FilterResult;
};

const share = z.number().min(0).max(1);
const choice = z.enum(["keep", "mask", "drop", "zero"]);
const SCHEMAS = {
  "reward-variance": z.strictObject({ share: share.default(0.2) }),
  "reward-variance-top-p": z.strictObject({ topP: share.default(0.9) }),
  "zero-variance": z.strictObject({ tolerance: z.number().min(0).default(1e-6) }),
  "over-long": z.strictObject({
    replies: choice.default("mask"),
    which: z.enum(["any", "last"]).default("any"),
    turns: choice.default("keep"),
    context: choice.default("keep"),
  }),
  survivors: z.strictObject({ minimum: z.int().min(1).default(2) }),
} as const;

function optionsOf<N extends keyof typeof SCHEMAS>(name: N, given: OptionBag): z.output<(typeof SCHEMAS)[N]> {
  return readOptions(`Filter "${name}"`, SCHEMAS[name] as z.ZodObject, given) as z.output<(typeof SCHEMAS)[N]>;
}

/** Keeps the `share` of groups with the largest reward variance, at least one. Without any variance there is no order and all stay. */
export function rewardVariance(groups: readonly EpisodeGroup[], options: OptionBag = {}): FilterResult {
  const { share } = optionsOf("reward-variance", options);
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
  const { topP } = optionsOf("reward-variance-top-p", options);
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
  const { tolerance } = optionsOf("zero-variance", options);
  return result(
    groups,
    groups.filter(({ episodes }) => {
      const { min, max } = rangeOf(episodes.map((episode) => episode.reward));
      // Parts of a reward are rounded where they stand, so large sums that are equal differ by more.
      return max - min > tolerance * Math.max(1, Math.abs(min), Math.abs(max));
    }),
  );
}

/**
 * Episodes that met a limit. `replies`: a reply was cut at `maxTokens` (`which`: any of them, or only the last); `turns` and `context` ran out.
 * `mask` leaves an episode in its group's baseline and out of the loss, `drop` takes it out before the baseline, `zero` trains it with no
 * reward, `keep` with the reward it earned. Where an episode met two limits, both choices hold.
 */
export function overLong(groups: readonly EpisodeGroup[], options: OptionBag = {}): FilterResult {
  const { replies, which, turns, context } = optionsOf("over-long", options);
  const reply: Limit = which === "any" ? "reply" : "last-reply";
  const chosen = (episode: EpisodeSummary, wanted: z.output<typeof choice>) =>
    (replies === wanted && episode.limits.includes(reply)) ||
    (turns === wanted && episode.limits.includes("turns")) ||
    (context === wanted && episode.limits.includes("context"));
  const keep = groups
    .map((group) => ({ ...group, episodes: group.episodes.filter((episode) => !chosen(episode, "drop")) }))
    .filter((group) => group.episodes.length > 0);
  const ids = (wanted: z.output<typeof choice>) =>
    keep.flatMap(({ episodes }) => episodes.filter((e) => chosen(e, wanted)).map((e) => e.episode));
  return { ...result(groups, keep), masked: ids("mask"), unpaid: ids("zero") };
}

/** Drops groups with fewer than `minimum` episodes left: nothing to compare. */
export function survivors(groups: readonly EpisodeGroup[], options: OptionBag = {}): FilterResult {
  const { minimum } = optionsOf("survivors", options);
  return result(
    groups,
    groups.filter((group) => group.episodes.length >= minimum),
  );
}

export const FILTERS: readonly Filter[] = [
  { name: "reward-variance", schema: SCHEMAS["reward-variance"], apply: rewardVariance },
  { name: "reward-variance-top-p", schema: SCHEMAS["reward-variance-top-p"], apply: rewardVarianceTopP },
  { name: "zero-variance", schema: SCHEMAS["zero-variance"], apply: zeroVariance },
  { name: "over-long", schema: SCHEMAS["over-long"], apply: overLong },
  { name: "survivors", schema: SCHEMAS.survivors, apply: survivors },
];

export type FilterReport = {
  readonly keep: readonly EpisodeGroup[];
  readonly scale: number;
  /** Only episodes that are still kept. */
  readonly masked: ReadonlySet<string>;
  readonly unpaid: ReadonlySet<string>;
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
  const unpaid = new Set<string>();
  const dropped: Record<string, FilterCounts> = {};
  for (const { filter, options } of filters) {
    const step = filter.apply(keep, options ?? {});
    keep = withoutPay(step.keep, new Set(step.unpaid));
    scale *= step.scale ?? 1;
    for (const episode of step.masked ?? []) masked.add(episode);
    for (const episode of step.unpaid ?? []) unpaid.add(episode);
    const before = dropped[filter.name] ?? { groups: 0, episodes: 0 };
    dropped[filter.name] = {
      groups: before.groups + step.dropped.groups,
      episodes: before.episodes + step.dropped.episodes,
    };
  }
  const kept = new Set(keep.flatMap((group) => group.episodes.map((episode) => episode.episode)));
  const left = (episodes: ReadonlySet<string>) => new Set([...episodes].filter((episode) => kept.has(episode)));
  return { keep, scale, masked: left(masked), unpaid: left(unpaid), dropped };
}

function withoutPay(groups: readonly EpisodeGroup[], unpaid: ReadonlySet<string>): readonly EpisodeGroup[] {
  if (unpaid.size === 0) return groups;
  return groups.map((group) => ({
    ...group,
    episodes: group.episodes.map((e) => (unpaid.has(e.episode) ? { ...e, reward: 0 } : e)),
  }));
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
      limits: episode.limits,
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

/** The rows with nothing earned in these episodes. */
export function withoutRewards(rows: readonly TokenRow[], unpaid: ReadonlySet<string>): TokenRow[] {
  return rows.map((row) => (unpaid.has(row.episode) ? { ...row, rewards: new Float32Array(row.rewards.length) } : row));
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
