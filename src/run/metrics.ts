/**
 * Every metric of a run: its name, unit and meaning, in the four sections people read them in. The same names stand in events, in the
 * terminal, in reports and in the viewer; a name that is not here is refused when it is logged, so that none is misspelt in silence.
 * A name that ends in `/*` stands for a family: per environment, per reason, per turn. What a user registers is `custom/…`.
 */
import { ConfigError } from "../core/errors.ts";

export type MetricGroup = "learning" | "evaluation" | "stability" | "performance";
/** `share`: 0 to 1. `nats`: of log-probability. */
export type MetricUnit =
  | "share"
  | "reward"
  | "nats"
  | "tokens"
  | "turns"
  | "count"
  | "s"
  | "per s"
  | "bytes"
  | "number";

export type MetricInfo = {
  readonly name: string;
  readonly group: MetricGroup;
  readonly unit: MetricUnit;
  readonly meaning: string;
  /** Which way is good, where there is one. */
  readonly better?: "higher" | "lower";
};

type Row = readonly [name: string, unit: MetricUnit, meaning: string, better?: "higher" | "lower"];

const LEARNING: readonly Row[] = [
  ["train/success", "share", "Training episodes that solved their task, before any filter.", "higher"],
  ["train/success/*", "share", "The same for one environment.", "higher"],
  ["train/reward", "reward", "Mean reward of a training episode, before any filter.", "higher"],
  ["train/reward/*", "reward", "The same for one environment.", "higher"],
  ["reward/*", "reward", "One part of that reward (task, format, …), mean over the same episodes.", "higher"],
  ["judge/failures", "count", "Episodes that the judge failed on; it paid them nothing.", "lower"],
  ["judge/seconds", "s", "Mean time the judge took for an episode."],
  ["train/reward_std", "reward", "Standard deviation of reward inside a group, mean over groups."],
  ["train/solved_groups", "share", "Groups in which at least one sibling succeeded.", "higher"],
  ["train/parse_failures", "share", "Turns whose reply contains no readable action.", "lower"],
  ["train/parse_failures/*", "share", "The same for one environment.", "lower"],
  ["train/well_formed", "share", "Turns whose reply has the format that the protocol asks for.", "higher"],
  ["train/invalid_actions", "share", "Turns without an action, or whose action the world refused.", "lower"],
  ["train/turns", "turns", "Mean turns of an episode."],
  ["train/reply_tokens", "tokens", "Mean sampled tokens of a reply."],
  ["train/episode_tokens", "tokens", "Mean tokens of an episode, images included."],
  ["train/asked", "count", "Episodes that this step asked for."],
  ["train/episodes", "count", "Episodes that were played."],
  [
    "train/failed",
    "count",
    "Episodes that failed for reasons outside the policy: an environment crash, a time-out, a lost server. They are never trained.",
    "lower",
  ],
  ["train/end/*", "share", "Episodes that ended for this reason."],
  ["mixture/*", "share", "Episodes that are drawn from this environment at present, where the mixture changes."],
  ["train/advantage", "number", "Mean absolute advantage of a sampled token."],
  ["sft/nll", "nats", "Mean negative log-probability of a demonstrated token.", "lower"],
  ["sft/nll/*", "nats", "The same for one environment.", "lower"],
  [
    "sft/nll_reply",
    "nats",
    "Mean negative log-probability of a whole demonstrated reply. Fixed words cost nothing once they are known, so this measures the decision.",
    "lower",
  ],
  ["sft/tokens", "tokens", "Demonstrated tokens in the batch."],
];

const DECISIONS: readonly Row[] = [
  [
    "decisions/nll",
    "nats",
    "Demonstrations: negative log-probability of the oracle's actions in a reply, without the text around them.",
    "lower",
  ],
  ["decisions/chance", "nats", "The same for a blind choice among the possible actions."],
  [
    "decisions/probability",
    "share",
    "Demonstrations: mean probability of the oracle's actions, where they are learned.",
    "higher",
  ],
  ["decisions/probability_by_distance/*", "share", "The same by number of actions to the goal.", "higher"],
  ["decisions/probability_by_turn/*", "share", "The same by turn, counted from 1.", "higher"],
  ["decisions/probability_by_ways/*", "share", "The same by number of possible directions.", "higher"],
  ["decisions/accuracy", "share", "Evaluation, sampled: turns whose actions were as good as the oracle's.", "higher"],
  ["decisions/accuracy_by_distance/*", "share", "The same by number of actions to the goal.", "higher"],
  ["decisions/accuracy_by_turn/*", "share", "The same by turn, counted from 1.", "higher"],
  ["decisions/accuracy_by_ways/*", "share", "The same by number of possible directions.", "higher"],
  ["decisions/count", "count", "Decisions that these numbers are computed from."],
];

const EVALUATION: readonly Row[] = [
  ["eval/success", "share", "Episodes solved on the fixed seeds, sampled.", "higher"],
  ["eval/success/*", "share", "The same for one environment.", "higher"],
  ["eval/success_low", "share", "Lower end of the 95 % interval of eval/success."],
  ["eval/success_high", "share", "Upper end of the 95 % interval of eval/success."],
  ["eval/success_greedy", "share", "Episodes solved on the same seeds, with greedy sampling.", "higher"],
  ["eval/success_greedy/*", "share", "The same for one environment.", "higher"],
  [
    "eval/success_by_turn/*",
    "share",
    "Of the sampled episodes that reached this turn (from 1), the share solved in it.",
    "higher",
  ],
  ["eval/floor", "share", "Episodes that an agent solves that stops at once, on the same seeds and limits."],
  ["eval/floor/*", "share", "The same for one environment."],
  ["eval/ceiling", "share", "Episodes that the oracle solves, on the same seeds and limits."],
  ["eval/ceiling/*", "share", "The same for one environment."],
  ["eval/random", "share", "Episodes that random play solves, on the same seeds and limits."],
  ["eval/random/*", "share", "The same for one environment."],
  ["eval/pass_at/*", "share", "Seeds solved by at least one of k attempts, unbiased estimate.", "higher"],
  ["eval/reward", "reward", "Mean reward of an evaluation episode, sampled.", "higher"],
  ["eval/reward/*", "reward", "The same for one environment.", "higher"],
  ["eval/reward_greedy", "reward", "The same, with greedy sampling.", "higher"],
  ["eval/reward_greedy/*", "reward", "The same for one environment.", "higher"],
  ["eval/parse_failures", "share", "Turns whose reply contains no readable action.", "lower"],
  ["eval/turns", "turns", "Mean turns of an evaluation episode."],
  ["eval/asked", "count", "Episodes that the evaluation asked for. Success is a share of these."],
  [
    "eval/seeds",
    "count",
    "Seeds of the evaluation. The oracle, random play and stopping at once play each of them once.",
  ],
  ["eval/seeds/*", "count", "The same for one environment, where an episode of these agents failed."],
  ["eval/episodes", "count", "Episodes that were played."],
  ["eval/failed", "count", "Episodes that failed for reasons outside the policy. They count against success.", "lower"],
  ["eval/failed/*", "count", "The same for one environment.", "lower"],
  ["eval/failed_greedy", "count", "Greedy episodes that failed for reasons outside the policy.", "lower"],
  [
    "eval/floor_failed",
    "count",
    "Floor episodes (the agent that stops at once) that failed for reasons outside the policy.",
    "lower",
  ],
  ["eval/floor_failed/*", "count", "The same for one environment.", "lower"],
  ["eval/random_failed", "count", "Episodes of random play that failed for reasons outside the policy.", "lower"],
  ["eval/random_failed/*", "count", "The same for one environment.", "lower"],
  ["eval/ceiling_failed", "count", "Episodes of the oracle that failed for reasons outside the policy.", "lower"],
  ["eval/ceiling_failed/*", "count", "The same for one environment.", "lower"],
  ["eval/end/*", "share", "Episodes that ended for this reason."],
  [
    "sight/gap",
    "nats",
    "Mean over replies of log p(reply | own frames) − log p(reply | another episode's frames). 0: the model is blind.",
    "higher",
  ],
  ["sight/gap_low", "nats", "Lower end of the 95 % interval of sight/gap, over episodes. Absent if there is only one."],
  ["sight/gap_high", "nats", "Upper end of the 95 % interval of sight/gap."],
  ["sight/gap_turn/*", "nats", "sight/gap of the replies of one turn, counted from 0.", "higher"],
  ["sight/success", "share", "Episodes solved with real frames, on the seeds of sight/success_grey.", "higher"],
  ["sight/success_grey", "share", "Episodes solved when every frame is grey: the score of a blind agent."],
  ["sight/hash_mismatches", "count", "Frames whose hash differs between render, sampling and training.", "lower"],
  ["sight/episodes", "count", "Episodes that sight/gap was measured on."],
  ["sight/replies", "count", "Replies that sight/gap was measured on."],
];

const STABILITY: readonly Row[] = [
  ["policy/loss", "number", "The whole loss of the update."],
  ["policy/entropy", "nats", "Mean entropy of the policy at sampled tokens."],
  ["policy/kl_old", "nats", "KL from the policy that sampled to the one trained, estimated at sampled tokens."],
  ["policy/kl_reference", "nats", "KL to the frozen reference, estimated at sampled tokens."],
  ["policy/kl_coefficient", "number", "Weight of that KL."],
  ["policy/ratio", "number", "Mean probability ratio, new over old."],
  ["policy/clip_low", "share", "Sampled tokens whose ratio was clipped from below."],
  ["policy/clip_high", "share", "Sampled tokens whose ratio was clipped from above."],
  ["policy/clip_dual", "share", "Sampled tokens whose ratio met the second bound of dual clipping."],
  ["policy/repeated_tokens", "share", "Sampled tokens that equal the token before them.", "lower"],
  ["policy/top_reply", "share", "Turns that gave the most common reply."],
  ["optimizer/grad_norm", "number", "Global norm of the gradient, before clipping."],
  ["optimizer/learning_rate", "number", "Learning rate of this step."],
  ["optimizer/updates", "count", "Updates of the weights in this step."],
  ["optimizer/idle", "count", "Mini-batches whose gradient is zero, so no step was taken."],
  ["optimizer/skipped", "count", "Updates skipped because a number was not finite.", "lower"],
  ["critic/loss", "number", "The critic's loss.", "lower"],
  ["critic/value", "reward", "Mean value the critic predicts."],
  ["critic/return", "reward", "Mean return that the critic should predict."],
  ["critic/value_error", "number", "Mean squared error of the values.", "lower"],
  ["critic/explained_variance", "share", "Variance of the returns that the values explain.", "higher"],
  ["critic/clip_value", "share", "Values whose change was clipped."],
  ["critic/grad_norm", "number", "Global norm of the critic's gradient, before clipping."],
  ["critic/learning_rate", "number", "The critic's learning rate."],
  ["drift/mean", "nats", "Mean |learner − sampler| log-probability of sampled tokens, before the update.", "lower"],
  ["drift/max", "nats", "The largest such difference.", "lower"],
  ["drift/turn/*", "nats", "The largest such difference in the replies of one turn, counted from 0.", "lower"],
  ["correction/*", "number", "Off-policy correction: means and shares of its weights and masks."],
  ["staleness/mean", "number", "Updates between sampling and training, mean over episodes."],
  ["staleness/max", "number", "The largest such number."],
  ["groups/played", "count", "Groups played for this step, refills included."],
  ["groups/trained", "count", "Groups that were trained."],
  ["groups/too_small", "count", "Groups dropped because fewer than two siblings survived.", "lower"],
  [
    "groups/zero_variance",
    "share",
    "Groups of two or more siblings with equal rewards. There is nothing to learn from them.",
  ],
  [
    "groups/unfit",
    "count",
    "Groups left out because they cannot be compared: with maxrl, those with a negative reward.",
  ],
  ["episodes/masked", "count", "Over-long episodes that count for the baseline of their group but carry no loss."],
  ["episodes/unpaid", "count", "Over-long episodes whose reward a filter set to 0."],
  ["filter/*", "number", "A number that a filter reports."],
];

const PERFORMANCE: readonly Row[] = [
  ["time/step", "s", "Duration of the step.", "lower"],
  ["time/sample", "s", "Time in which at least one reply was sampled."],
  ["time/env", "s", "Time in which at least one environment was working."],
  ["time/encode", "s", "Time in which images of at least one reply were prepared and encoded."],
  [
    "time/score",
    "s",
    "Log-probabilities of the reference and the learner, and values of the critic. Part of time/learn.",
  ],
  ["time/judge", "s", "Waiting for the judge after scoring. Part of time/learn."],
  ["time/learn", "s", "The whole update: scores, gradients, steps."],
  ["time/publish", "s", "Sending new weights to the sampler."],
  ["time/wait", "s", "Waiting for episodes to train on; in a warm start, for demonstrations."],
  ["time/eval", "s", "Evaluating."],
  ["time/sight", "s", "Probing sight."],
  ["time/other", "s", "The rest of the step."],
  ["speed/sampled_tokens", "per s", "Sampled tokens per second of the whole step.", "higher"],
  ["speed/trained_tokens", "per s", "Tokens through the learner per second of the whole step.", "higher"],
  ["speed/episodes", "per s", "Episodes per second of the whole step.", "higher"],
  ["episodes/env_errors", "count", "Episodes dropped because the environment threw.", "lower"],
  ["episodes/env_timeouts", "count", "Episodes dropped because the environment did not answer.", "lower"],
  ["episodes/engine_errors", "count", "Episodes dropped because the engine failed.", "lower"],
  ["episodes/retries", "count", "Episodes played again on a fresh environment.", "lower"],
  ["memory/resident", "bytes", "Memory of the process."],
  ["log/frames", "count", "Distinct frames stored."],
  ["log/frame_bytes", "bytes", "Bytes of stored frames."],
  ["log/frames_dropped", "count", "Distinct frames not stored: budget, backlog or disk.", "lower"],
  ["log/trajectories_dropped", "count", "Kept trajectories not stored: budget, backlog or disk.", "lower"],
  ["log/trajectories_unkept", "count", "Trajectories that were not selected for storing, since the run was opened."],
  ["log/events_lost", "count", "Events that could not be written to disk.", "lower"],
];

const CUSTOM: MetricInfo = {
  name: "custom/*",
  group: "learning",
  unit: "number",
  meaning: "A metric the user registered.",
};

/** In the order they are shown. */
export const METRICS: readonly MetricInfo[] = [
  ...table("learning", LEARNING),
  CUSTOM,
  ...table("evaluation", EVALUATION),
  ...table("evaluation", DECISIONS),
  ...table("stability", STABILITY),
  ...table("performance", PERFORMANCE),
];

const byName = new Map(METRICS.map((info) => [info.name, info]));

/** What is known of a metric; a member of a family gets the family's row. Undefined: no such metric. */
export function metricInfo(name: string): MetricInfo | undefined {
  const exact = byName.get(name);
  if (exact !== undefined) return name.endsWith("/*") ? undefined : exact;
  // Members may hold slashes themselves (`train/success/maze_2d/easy`): the longest family wins.
  for (let at = name.lastIndexOf("/"); at > 0; at = name.lastIndexOf("/", at - 1)) {
    const family = byName.get(`${name.slice(0, at)}/*`);
    if (family !== undefined && at < name.length - 1) return family;
  }
  return undefined;
}

/** Throws when a name is not in the table. */
export function checkMetric(name: string): void {
  if (metricInfo(name) !== undefined) return;
  throw new ConfigError(
    `There is no metric "${name}". Name your own metrics "custom/…"; docs/reference/metrics.md lists the built-in ones.`,
  );
}

function table(group: MetricGroup, rows: readonly Row[]): MetricInfo[] {
  return rows.map(([name, unit, meaning, better]) => ({ name, group, unit, meaning, ...(better && { better }) }));
}

/** A metric's value in each environment, by name, where there are several of them. */
export function inEachEnvironment(
  metrics: Readonly<Record<string, number>>,
  metric: string,
): [env: string, value: number][] {
  const prefix = `${metric}/`;
  const found = Object.entries(metrics).flatMap(([name, value]): [string, number][] =>
    name.startsWith(prefix) ? [[name.slice(prefix.length), value]] : [],
  );
  return found.length > 1 ? found.sort(([a], [b]) => (a < b ? -1 : 1)) : [];
}
