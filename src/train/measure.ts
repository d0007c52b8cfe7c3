/** What a batch of episodes says about the policy: the numbers of a step, before any filter. */
import { grouped, mean, rangeOf, sum } from "../core/numbers.ts";
import type { PlayedGroup } from "../rollout/groups.ts";
import type { Trajectory } from "../rollout/trajectory.ts";

export function measureEpisodes(trajectories: readonly Trajectory[]): Record<string, number> {
  const turns = trajectories.flatMap((trajectory) => trajectory.turns);
  const replies = trajectories.flatMap((trajectory) =>
    trajectory.sequences.flatMap((sequence) => sequence.replies.filter(({ start }) => sequence.sampled[start] === 1)),
  );
  const metrics: Record<string, number> = {
    "train/success": share(trajectories, (trajectory) => trajectory.success),
    "train/reward": mean(trajectories.map((trajectory) => trajectory.reward)),
    "train/turns": mean(trajectories.map((trajectory) => trajectory.turns.length)),
    "train/parse_failures": share(turns, (turn) => !turn.info.parsed),
    "train/episodes": trajectories.length,
  };
  for (const [env, members] of grouped(trajectories, labelOf)) {
    metrics[`train/success/${env}`] = share(members, (trajectory) => trajectory.success);
    metrics[`train/reward/${env}`] = mean(members.map((trajectory) => trajectory.reward));
    const said = members.flatMap((trajectory) => trajectory.turns);
    metrics[`train/parse_failures/${env}`] = share(said, (turn) => !turn.info.parsed);
  }
  for (const [end, members] of grouped(trajectories, (trajectory) => trajectory.end)) {
    metrics[`train/end/${end}`] = members.length / trajectories.length;
  }
  return {
    ...metrics,
    ...rewardParts(trajectories),
    ...judgeFigures(trajectories),
    "train/well_formed": share(turns, (turn) => turn.info.wellFormed),
    "train/invalid_actions": share(turns, (turn) => !turn.info.valid),
    "train/reply_tokens": mean(replies.map(({ start, end }) => end - start)),
    "train/episode_tokens": mean(trajectories.map((t) => sum(t.sequences.map((sequence) => sequence.ids.length)))),
    "policy/repeated_tokens": repeatedTokens(trajectories),
    "policy/top_reply": topReply(turns.map((turn) => turn.reply)),
  };
}

const labelOf = ({ label, env }: Trajectory) => label ?? env;

/** Mean per episode of each part of the reward; one that an episode was not paid counts as 0 there. */
function rewardParts(trajectories: readonly Trajectory[]): Record<string, number> {
  const parts = trajectories.flatMap(({ turns }) => turns.flatMap(({ rewards }) => rewards));
  const entries = [...grouped(parts, ({ name }) => name)].map(([name, paid]): [string, number] => [
    `reward/${name}`,
    sum(paid.map(({ value }) => value)) / trajectories.length,
  ]);
  return Object.fromEntries(entries);
}

function judgeFigures(trajectories: readonly Trajectory[]): Record<string, number> {
  const verdicts = trajectories.flatMap(({ judge }) => judge ?? []);
  if (verdicts.length === 0) return {};
  return {
    "judge/failures": verdicts.filter(({ error }) => error !== undefined).length,
    "judge/seconds": mean(verdicts.map(({ ms }) => ms)) / 1000,
  };
}

export function measureGroups(groups: readonly PlayedGroup[]): Record<string, number> {
  const rewards = groups
    .map((group) => group.trajectories.map((trajectory) => trajectory.reward))
    // One episode has no siblings to differ from.
    .filter((list) => list.length > 1);
  const spreads = rewards.map((list) => {
    const centre = mean(list);
    return Math.sqrt(mean(list.map((reward) => (reward - centre) ** 2)));
  });
  const dropped = groups.flatMap((group) => group.dropped);
  const played = sum(groups.map((group) => group.trajectories.length));
  return {
    "train/asked": played + dropped.length,
    "train/failed": dropped.length,
    "groups/played": groups.length,
    "groups/zero_variance": share(spreads, (spread) => spread < 1e-6),
    "train/reward_std": mean(spreads),
    "train/solved_groups": share(groups, (group) => group.trajectories.some((trajectory) => trajectory.success)),
    "episodes/env_errors": dropped.filter(({ end }) => end === "env_error").length,
    "episodes/env_timeouts": dropped.filter(({ end }) => end === "env_timeout").length,
    "episodes/engine_errors": dropped.filter(({ end }) => end === "engine_error").length,
    "episodes/retries": sum(
      groups.flatMap((group) => [...group.trajectories, ...group.dropped]).map(({ retries }) => retries),
    ),
  };
}

/** How many updates old each sequence's oldest sampled token is; `trained` is the version that learned from them. */
export function measureStaleness(trajectories: readonly Trajectory[], trained: number): Record<string, number> {
  const ages = trajectories.flatMap(({ sequences }) =>
    sequences.map(({ versions }) => Math.max(0, trained - rangeOf(versions.filter((version) => version >= 0)).min)),
  );
  return { "staleness/mean": mean(ages), "staleness/max": Math.max(0, rangeOf(ages).max) };
}

/** Share of sampled ids that equal the one before. */
function repeatedTokens(trajectories: readonly Trajectory[]): number {
  let same = 0;
  let count = 0;
  for (const { sequences } of trajectories) {
    for (const { ids, sampled } of sequences) {
      for (let i = 1; i < ids.length; i++) {
        if (sampled[i] !== 1 || sampled[i - 1] !== 1) continue;
        count += 1;
        if (ids[i] === ids[i - 1]) same += 1;
      }
    }
  }
  return count === 0 ? 0 : same / count;
}

function topReply(replies: readonly string[]): number {
  if (replies.length === 0) return 0;
  return rangeOf([...grouped(replies, (reply) => reply).values()].map((list) => list.length)).max / replies.length;
}

const share = <T>(items: readonly T[], test: (item: T) => boolean) =>
  items.length === 0 ? 0 : items.filter(test).length / items.length;
