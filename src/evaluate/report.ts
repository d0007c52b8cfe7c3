/**
 * What an evaluation says: success with 95 % intervals and pass@k, beside what stopping at once, random play and the oracle get on the
 * same seeds and limits; what it cost; and what failed for our reasons, which counts against success until it is played again. Episodes of one seed are alike, so with
 * repeats an interval counts seeds and not episodes. Means over environments weigh each the same.
 */
import type { JsonObject } from "../core/json.ts";
import { rangeOf } from "../core/numbers.ts";
import { type DecisionFigures, decisionFigures, decisionMetrics } from "../rollout/decisions.ts";
import type { Yardsticks } from "../rollout/play.ts";
import {
  type Against,
  evaluationMetrics,
  meanRate,
  type PassAtK,
  passTable,
  type Rate,
  type SuccessRate,
  successByTurn,
  successRate,
  type Try,
} from "../rollout/scores.ts";
import type { Metrics } from "../run/events.ts";
import type { Failure } from "../run/failures.ts";
import type { EnvPlan, Job } from "./plan.ts";
import type { Attempts, EpisodeResult, Setting } from "./results.ts";
import type { Training } from "./training.ts";
import { addUsage, costOf, noUsage, type Price, type Usage } from "./usage.ts";

export type EnvReport = {
  readonly env: string;
  /** With which it was played: those of its training, a preset or a file, and the caller's. */
  readonly options: JsonObject;
  readonly protocol?: string;
  readonly maxTurns?: number;
  /** Episodes that were asked for: those that were played, those whose last attempt failed for our reasons, and those not played yet. */
  readonly asked: number;
  readonly played: number;
  readonly failed: number;
  readonly missing: number;
  /** Of played and failed episodes. */
  readonly success: SuccessRate;
  readonly against: Against;
  readonly passAtK: readonly PassAtK[];
  /** Means over played episodes. */
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
  /** The first of them, with its stack, seed and reply; a yardstick's where the model's episodes all went well. */
  readonly failure?: Failure;
  readonly notes: readonly string[];
  /** Of a model that was trained here: by what, and what is not as it was then. */
  readonly training?: Training;
  /** Every episode is scored. */
  readonly complete: boolean;
};

export type ReportInput = Pick<Report, "model" | "preset" | "setting" | "price" | "notes" | "training"> & {
  readonly plans: readonly EnvPlan[];
  readonly jobs: readonly Job[];
  readonly against: ReadonlyMap<string, Yardsticks>;
  readonly attempts: Attempts;
};

export function makeReport(input: ReportInput): Report {
  const { model, preset, setting, price, notes, training, plans, jobs, attempts } = input;
  const envs = plans.map((plan) => envReport(plan, input));
  const spent = envs.reduce((sum, env) => addUsage(sum, usageOf(env.spent)), noUsage());
  const failures = new Map<string, number>();
  let failure: Failure | undefined;
  for (const { key } of jobs) {
    const tried = attempts.get(key) ?? [];
    const last = failedAttempt(tried);
    if (last?.error === undefined) continue;
    failures.set(last.error, (failures.get(last.error) ?? 0) + 1);
    failure ??= { env: last.env, seed: last.seed, end: last.end, error: last.error, ...last.fault };
  }
  failure ??= yardstickFailure(input);
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
    ...(failure && { failure }),
    notes,
    ...(training && { training }),
    complete: envs.every(({ failed, missing }) => failed + missing === 0),
  };
}

/** The last attempt at an episode that failed for our reasons and was not played since. One that somebody stopped was not played. */
function failedAttempt(attempts: readonly EpisodeResult[]): EpisodeResult | undefined {
  if (attempts.some(({ scored }) => scored)) return undefined;
  return attempts.findLast(({ end }) => end !== "aborted");
}

function yardstickFailure({ plans, against }: ReportInput): Failure | undefined {
  const figures = plans.flatMap(({ label }) => Object.values(against.get(label) ?? {}));
  return figures.find(({ failure }) => failure !== undefined)?.failure;
}

function envReport(plan: EnvPlan, { jobs, attempts, against, price }: ReportInput): EnvReport {
  const wanted = jobs.filter((job) => job.plan === plan);
  const tried = wanted.map(({ key }) => attempts.get(key) ?? []);
  const scored = tried.flatMap((list) => list.find((result) => result.scored) ?? []);
  const failed = tried
    .flatMap((list) => failedAttempt(list) ?? [])
    .map(({ seed }) => ({ seed, success: false, failed: true }));
  const tries: Try[] = [...scored.map(({ seed, success }) => ({ seed, success })), ...failed];
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
    options: plan.identity.options as JsonObject,
    ...(plan.protocol !== undefined && { protocol: plan.protocol }),
    ...(plan.turnLimit !== undefined && { maxTurns: plan.turnLimit }),
    asked: wanted.length,
    played: scored.length,
    failed: failed.length,
    missing: wanted.length - scored.length - failed.length,
    success: successRate(tries),
    against: {
      stop: stop.success,
      ...(random && { random: random.success }),
      ...(oracle && { oracle: oracle.success }),
    },
    passAtK: passTable(tries),
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
