/** What a step of reinforcement learning logs. */
import type { PlayedGroup } from "../rollout/groups.ts";
import type { Trajectory } from "../rollout/trajectory.ts";
import type { Clock } from "./clock.ts";
import { measureEpisodes, measureGroups, measureStaleness } from "./measure.ts";
import type { UpdateReport } from "./update.ts";

/** `trained` is the version of the weights that were trained. */
export function stepMetrics(
  groups: readonly PlayedGroup[],
  report: UpdateReport,
  clock: Clock,
  trained: number,
): Record<string, number> {
  const trajectories = groups.flatMap((group) => group.trajectories);
  const sequences = trajectories.flatMap((trajectory) => trajectory.sequences);
  const sampled = sequences.reduce((sum, sequence) => sum + sequence.sampled.reduce((a, b) => a + b, 0), 0);
  const tokens = sequences.reduce((sum, { ids }) => sum + ids.length, 0);
  const seconds = clock.total();
  // Groups that lost every sibling have no row for an update to count.
  const lost = groups.filter((group) => group.trajectories.length === 0).length;
  return {
    "memory/resident": process.memoryUsage.rss(),
    ...measureEpisodes(trajectories),
    ...measureGroups(groups),
    ...report.metrics,
    "groups/too_small": (report.metrics["groups/too_small"] ?? 0) + lost,
    ...measureStaleness(trajectories, trained),
    "speed/sampled_tokens": sampled / seconds,
    "speed/trained_tokens": tokens / seconds,
    "speed/episodes": trajectories.length / seconds,
    ...clock.times(),
  };
}

/** How many episodes got each reward, for histograms. Rounded, so that nearly equal sums are one entry. */
export function rewardCounts(trajectories: readonly Trajectory[]): [reward: number, count: number][] {
  const counts = new Map<number, number>();
  for (const { reward } of trajectories) {
    const rounded = Math.round(reward * 1e4) / 1e4;
    counts.set(rounded, (counts.get(rounded) ?? 0) + 1);
  }
  return [...counts].sort(([a], [b]) => a - b);
}
