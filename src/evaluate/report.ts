/**
 * What an evaluation says: success with 95 % intervals and pass@k, beside what stopping at once, random play and the oracle get on the
 * same seeds and limits; what it cost; and apart from all that, what failed for our reasons. Episodes of one seed are alike, so with
 * repeats an interval counts seeds and not episodes. Means over environments weigh each the same.
 */
import { rangeOf } from "../core/range.ts";
import type { Yardsticks } from "../rollout/play.ts";
import {
  type Against,
  evaluationMetrics,
  meanRate,
  type PassAtK,
  passTable,
  type Rate,
  successByTurn,
  successRate,
} from "../rollout/scores.ts";
import type { Metrics } from "../run/events.ts";
import { type DecisionFigures, decisionFigures, decisionMetrics } from "../train/decisions.ts";
import type { EnvPlan, Job } from "./plan.ts";
import type { Attempts, EpisodeResult, Setting } from "./results.ts";
import { addUsage, costOf, noUsage, type Price, type Usage } from "./usage.ts";

export type EnvReport = {
  readonly env: string;
  readonly protocol?: string;
  readonly maxTurns?: number;
  readonly success: Rate;
  readonly against: Against;
  readonly passAtK: readonly PassAtK[];
  /** Means over scored episodes. */
  readonly reward: number;
  readonly turns: number;
  readonly byTurn: Readonly<Record<string, number>>;
  readonly inputTokens: number;
  readonly outputTokens: number;
  /** Shares of their replies: no action read, refused by the world, cut at the token limit, refused by the model, without text. */
  readonly unparsed: number;
  readonly invalid: number;
  readonly cut: number;
  readonly refused: number;
  readonly empty: number;
  readonly ended: Readonly<Record<string, number>>;
  /** Share of turns that were as good as the oracle's, of worlds that have one. */
  readonly decisions?: DecisionFigures;
  /** Episodes whose last attempt failed for our reasons, and episodes not played yet. In no other number. */
  readonly errors: number;
  readonly missing: number;
  /** Of all attempts, failed ones included. */
  readonly spent: Usage & { readonly cost?: number };
};

export type MeanReport = {
  readonly of: "easy" | "hard" | "all";
  readonly envs: number;
  readonly success: Pick<Rate, "value" | "low" | "high">;
  readonly stop: number;
  readonly random?: number;
  readonly oracle?: number;
};

export type Report = {
  readonly format: 1;
  readonly model: string;
  readonly preset?: string;
  readonly setting: Setting;
  readonly seeds: number;
  readonly repeats: number;
  readonly envs: readonly EnvReport[];
  readonly means: readonly MeanReport[];
  readonly spent: Usage & { readonly cost?: number };
  readonly price?: Price;
  readonly errors: readonly { readonly message: string; readonly count: number }[];
  readonly notes: readonly string[];
  /** Every episode is scored. */
  readonly complete: boolean;
};

export type ReportInput = Pick<Report, "model" | "preset" | "setting" | "price" | "notes"> & {
  readonly plans: readonly EnvPlan[];
  readonly jobs: readonly Job[];
  readonly against: ReadonlyMap<string, Yardsticks>;
  readonly attempts: Attempts;
};

export function makeReport(input: ReportInput): Report {
  const { model, preset, setting, price, notes, plans, jobs, attempts } = input;
  const envs = plans.map((plan) => envReport(plan, input));
  const spent = envs.reduce((sum, env) => addUsage(sum, usageOf(env.spent)), noUsage());
  const failures = new Map<string, number>();
  for (const { key } of jobs) {
    const tried = attempts.get(key) ?? [];
    const error = tried.some(({ scored }) => scored) ? undefined : tried.at(-1)?.error;
    if (error !== undefined) failures.set(error, (failures.get(error) ?? 0) + 1);
  }
  return {
    format: 1,
    model,
    ...(preset !== undefined && { preset }),
    setting,
    seeds: new Set(jobs.map(({ seed }) => seed)).size,
    repeats: rangeOf(jobs.map(({ repeat }) => repeat + 1)).max,
    envs,
    means: [mean("easy", envs), mean("hard", envs), mean("all", envs)].filter(({ envs: count }) => count > 0),
    spent: priced(spent, price),
    ...(price && { price }),
    errors: [...failures].map(([message, count]) => ({ message, count })).sort((a, b) => b.count - a.count),
    notes,
    complete: envs.every(({ errors, missing }) => errors + missing === 0),
  };
}

function envReport(plan: EnvPlan, { jobs, attempts, against, price }: ReportInput): EnvReport {
  const wanted = jobs.filter((job) => job.plan === plan);
  const tried = wanted.map(({ key }) => attempts.get(key) ?? []);
  const scored = tried.flatMap((list) => list.find((result) => result.scored) ?? []);
  const total = (value: (result: EpisodeResult) => number) => scored.reduce((sum, result) => sum + value(result), 0);
  const each = (sum: number) => sum / scored.length;
  const turns = total((result) => result.turns);
  const share = (count: number) => count / turns;
  const ended: Record<string, number> = {};
  for (const { end } of scored) ended[end] = (ended[end] ?? 0) + 1;
  const decisions = decisionFigures(scored.flatMap((result) => result.decisions ?? []));
  const { stop, random, oracle } = against.get(plan.label) as Yardsticks;
  return {
    env: plan.label,
    ...(plan.protocol !== undefined && { protocol: plan.protocol }),
    ...(plan.turnLimit !== undefined && { maxTurns: plan.turnLimit }),
    success: successRate(scored),
    against: {
      stop: stop.success,
      ...(random && { random: random.success }),
      ...(oracle && { oracle: oracle.success }),
    },
    passAtK: passTable(scored),
    reward: each(total(({ reward }) => reward)),
    turns: each(turns),
    byTurn: successByTurn(scored),
    inputTokens: each(total(({ usage }) => usage.inputTokens)),
    outputTokens: each(total(({ usage }) => usage.outputTokens)),
    unparsed: share(total(({ unparsed }) => unparsed)),
    invalid: share(total(({ invalid }) => invalid)),
    cut: share(total(({ cut }) => cut)),
    refused: share(total(({ usage }) => usage.refusals)),
    empty: share(total(({ usage }) => usage.emptyReplies)),
    ended,
    ...(decisions && { decisions }),
    errors: tried.filter((list) => list.length > 0 && !list.some((result) => result.scored)).length,
    missing: tried.filter((list) => list.length === 0).length,
    spent: priced(
      tried.flat().reduce((sum, { usage }) => addUsage(sum, usage), noUsage()),
      price,
    ),
  };
}

function priced(usage: Usage, price: Price | undefined): Usage & { cost?: number } {
  return { ...usage, ...(price && { cost: costOf(usage, price) }) };
}

const usageOf = ({ cost: _, ...usage }: Usage & { readonly cost?: number }): Usage => usage;

function mean(of: MeanReport["of"], envs: readonly EnvReport[]): MeanReport {
  const members = envs.filter(
    ({ env, success }) => success.total > 0 && (of === "all" || /[/#](\w+)$/.exec(env)?.[1] === of),
  );
  const n = members.length;
  const average = (value: (env: EnvReport) => number) => members.reduce((sum, env) => sum + value(env), 0) / n;
  const all = (name: "random" | "oracle") =>
    n > 0 && members.every(({ against }) => against[name] !== undefined)
      ? { [name]: average(({ against }) => against[name]?.value ?? 0) }
      : {};
  return {
    of,
    envs: n,
    success: meanRate(members.map(({ success }) => success)),
    stop: average(({ against }) => against.stop.value),
    ...all("random"),
    ...all("oracle"),
  };
}

/** For the run's events, under the names that evaluations during training have. */
export function reportMetrics({ envs }: Report): Metrics {
  const metrics = evaluationMetrics(envs.map(({ env, ...figures }) => ({ label: env, ...figures })));
  // Decisions of different worlds have no mean worth drawing.
  return envs.length === 1 ? { ...metrics, ...decisionMetrics("accuracy", envs[0]?.decisions) } : metrics;
}
