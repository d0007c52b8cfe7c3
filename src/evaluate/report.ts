/**
 * What an evaluation says: success with 95 % intervals and pass@k, beside what stopping at once, random play and the oracle get on the
 * same seeds and limits; what it cost; and apart from all that, what failed for our reasons. Episodes of one seed are alike, so with
 * repeats an interval counts seeds and not episodes. Means over environments weigh each the same.
 */
import { rangeOf } from "../core/range.ts";
import { type Rate, wilson, type Yardsticks } from "../rollout/play.ts";
import type { Metrics } from "../run/events.ts";
import type { EnvPlan, Job } from "./plan.ts";
import type { Attempts, EpisodeResult, Setting } from "./results.ts";
import { addUsage, costOf, noUsage, type Price, type Usage } from "./usage.ts";

export type PassAtK = { readonly k: number; readonly value: number; readonly seeds: number };
export type Against = { readonly stop: Rate; readonly random?: Rate; readonly oracle?: Rate };

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
  readonly inputTokens: number;
  readonly outputTokens: number;
  /** Shares of their replies: no action read, refused by the world, cut at the token limit, refused by the model, without text. */
  readonly unparsed: number;
  readonly invalid: number;
  readonly cut: number;
  readonly refused: number;
  readonly empty: number;
  readonly ended: Readonly<Record<string, number>>;
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
  const { stop, random, oracle } = against.get(plan.spec.id) as Yardsticks;
  return {
    env: plan.spec.id,
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
    inputTokens: each(total(({ usage }) => usage.inputTokens)),
    outputTokens: each(total(({ usage }) => usage.outputTokens)),
    unparsed: share(total(({ unparsed }) => unparsed)),
    invalid: share(total(({ invalid }) => invalid)),
    cut: share(total(({ cut }) => cut)),
    refused: share(total(({ usage }) => usage.refusals)),
    empty: share(total(({ usage }) => usage.emptyReplies)),
    ended,
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

/** Of all scored episodes; its interval is that of as many episodes as there are seeds. */
function successRate(scored: readonly EpisodeResult[]): Rate {
  const count = scored.filter(({ success }) => success).length;
  const seeds = new Set(scored.map(({ seed }) => seed)).size;
  const { low, high } = wilson((count / Math.max(1, scored.length)) * seeds, seeds);
  return { ...wilson(count, scored.length), low, high };
}

/** For k = 1, 2, 4, … and all repeats: seeds solved by at least one of k tries, over seeds that were scored k times. */
function passTable(scored: readonly EpisodeResult[]): PassAtK[] {
  const bySeed = new Map<number, EpisodeResult[]>();
  for (const result of scored) bySeed.set(result.seed, [...(bySeed.get(result.seed) ?? []), result]);
  const most = Math.max(0, rangeOf([...bySeed.values()].map((list) => list.length)).max);
  const ks = Array.from({ length: 10 }, (_, i) => 2 ** i).filter((k) => k < most);
  return [...ks, ...(most > 0 ? [most] : [])].map((k) => {
    const enough = [...bySeed.values()].filter((list) => list.length >= k);
    const sum = enough.reduce(
      (total, list) => total + passAtK(list.length, list.filter((r) => r.success).length, k),
      0,
    );
    return { k, value: sum / enough.length, seeds: enough.length };
  });
}

/** The chance that at least one of k tries, drawn without repetition from n of which c succeeded, is a success. */
export function passAtK(n: number, c: number, k: number): number {
  let allFail = 1;
  for (let i = 0; i < k; i++) allFail *= Math.max(0, n - c - i) / (n - i);
  return 1 - allFail;
}

function mean(of: MeanReport["of"], envs: readonly EnvReport[]): MeanReport {
  const members = envs.filter(
    ({ env, success }) => success.total > 0 && (of === "all" || /[/#](\w+)$/.exec(env)?.[1] === of),
  );
  const n = members.length;
  const average = (value: (env: EnvReport) => number) => members.reduce((sum, env) => sum + value(env), 0) / n;
  // Intervals of a mean from those of its parts (Zou and Donner's recovery of variances).
  const spread = (end: "low" | "high") => Math.hypot(...members.map(({ success }) => success.value - success[end])) / n;
  const value = average(({ success }) => success.value);
  const all = (name: "random" | "oracle") =>
    n > 0 && members.every(({ against }) => against[name] !== undefined)
      ? { [name]: average(({ against }) => against[name]?.value ?? 0) }
      : {};
  return {
    of,
    envs: n,
    success: { value, low: Math.max(0, value - spread("low")), high: Math.min(1, value + spread("high")) },
    stop: average(({ against }) => against.stop.value),
    ...all("random"),
    ...all("oracle"),
  };
}

/** For the run's events, under the names that evaluations during training have. */
export function reportMetrics({ envs, means }: Report): Metrics {
  const all = means.find(({ of }) => of === "all");
  const scored = envs.filter(({ success }) => success.total > 0);
  const metrics: Record<string, number> = {
    "eval/episodes": scored.reduce((sum, { success }) => sum + success.total, 0),
    "eval/errors": envs.reduce((sum, { errors }) => sum + errors, 0),
  };
  if (all === undefined) return metrics;
  const average = (value: (env: EnvReport) => number) =>
    scored.reduce((sum, env) => sum + value(env), 0) / scored.length;
  Object.assign(metrics, {
    "eval/success": all.success.value,
    "eval/success_low": all.success.low,
    "eval/success_high": all.success.high,
    "eval/floor": all.stop,
    ...(all.random !== undefined && { "eval/random": all.random }),
    ...(all.oracle !== undefined && { "eval/ceiling": all.oracle }),
    "eval/reward": average(({ reward }) => reward),
    "eval/turns": average(({ turns }) => turns),
    "eval/parse_failures": average(({ unparsed }) => unparsed),
  });
  for (const { env, success, reward, against } of scored) {
    metrics[`eval/success/${env}`] = success.value;
    metrics[`eval/reward/${env}`] = reward;
    metrics[`eval/floor/${env}`] = against.stop.value;
    if (against.oracle) metrics[`eval/ceiling/${env}`] = against.oracle.value;
  }
  return metrics;
}
