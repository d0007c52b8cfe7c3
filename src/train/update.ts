/**
 * One update: from the trajectories of a step to new weights. Filter, score, estimate credit, reduce, and hand mini-batches to the engine; everything an
 * algorithm decides is a per-token number by the time the engine sees it.
 */
import type { Trajectory } from "../rollout/trajectory.ts";
import type { SequenceCredit } from "../rollout/trajectory-records.ts";
import { type Correction, foldFactors, offPolicyFactors } from "./correction.ts";
import {
  type Example,
  examplesOf,
  filterExamples,
  keepExamples,
  type Learners,
  rows,
  scoresOf,
  withScores,
} from "./examples.ts";
import { dropMasked, type FilterReport } from "./filters.ts";
import { applyKlReward, nextKlCoefficient } from "./kl.ts";
import { learn, type Seen } from "./learn.ts";
import { explainedVariance, meanAdvantage } from "./meter.ts";
import type { Recipe } from "./recipe.ts";
import { getEstimator, getMetric, metricNames } from "./registry.ts";
import type { TokenRow } from "./tokens.ts";
import { whiten } from "./whiten.ts";

/** Skipped updates in a row before a run gives up. */
export const MAX_SKIPPED = 3;

export type UpdateReport = {
  readonly metrics: Record<string, number>;
  readonly filters: FilterReport;
  /** The KL coefficient for the next step. */
  readonly klCoefficient: number;
  /** False when a gradient was not finite and nothing was applied. */
  readonly applied: boolean;
  /** Per episode and sequence, the credit of its tokens and what the learner thought of them, for the log. */
  readonly credit: ReadonlyMap<string, readonly SequenceCredit[]>;
};

export async function update(
  learners: Learners,
  trajectories: readonly Trajectory[],
  recipe: Recipe,
  step: number,
  klCoefficient: number,
  /** The same episodes with what a judge pays, where it is still at it: what needs no reward is computed meanwhile. */
  judged?: Promise<readonly Trajectory[]>,
): Promise<UpdateReport> {
  const metrics: Record<string, number> = {};
  const timed = async <T>(name: string, work: () => Promise<T>): Promise<T> => {
    const began = performance.now();
    const done = await work();
    metrics[name] = (performance.now() - began) / 1000;
    return done;
  };
  const score = (some: readonly Example[]) => timed("time/score", () => scoresOf(some, learners, recipe));
  const early = judged && (await score(examplesOf(trajectories)));
  const paid = judged ? await timed("time/judge", () => judged) : trajectories;
  const examples = examplesOf(paid);
  const estimator = getEstimator(recipe.advantage.name);
  const filters = filterExamples(examples, recipe, estimator.needsGroups);
  let kept = keepExamples(examples, filters);
  metrics["groups/trained"] = filters.keep.length;
  for (const name of metricNames()) metrics[`custom/${name}`] = getMetric(name).compute(rows(examples));
  for (const [name, counts] of Object.entries(filters.dropped)) {
    metrics[name === "survivors" ? "groups/too_small" : `filter/${name}`] = counts.groups;
  }
  metrics["episodes/masked"] = filters.masked.size;
  metrics["episodes/unpaid"] = filters.unpaid.size;
  const idle = {
    metrics: { ...metrics, "optimizer/updates": 0, "optimizer/idle": 1 },
    filters,
    klCoefficient,
    applied: true,
    credit: new Map(),
  };
  if (kept.length === 0) return idle;

  kept = withScores(kept, early ?? (await score(kept)));
  let coefficient = klCoefficient;
  if (recipe.kl?.as === "reward") {
    const penalised = applyKlReward(rows(kept), { coefficient, estimator: recipe.kl.estimator });
    kept = kept.map((example, i) => ({ ...example, row: penalised.rows[i] as TokenRow }));
    metrics["policy/kl_reference"] = penalised.kl;
    metrics["policy/kl_coefficient"] = coefficient;
    const { target, horizon } = recipe.kl;
    const controller =
      target === undefined ? { kind: "fixed" as const } : { kind: "adaptive" as const, target, horizon };
    coefficient = nextKlCoefficient(
      coefficient,
      controller,
      penalised.kl,
      new Set(kept.map((example) => example.row.episode)).size,
    );
  }

  const estimated = estimator.compute(rows(kept), recipe.advantage);
  Object.assign(metrics, estimated.metrics);
  const left = dropMasked(rows(kept), estimated, filters.masked);
  const present = new Set(left.rows);
  kept = kept.filter((example) => present.has(example.row));
  if (kept.length === 0) return { ...idle, metrics: { ...idle.metrics, ...metrics }, klCoefficient: coefficient };
  let advantages: readonly Float32Array[] = left.credit.advantages;
  if (recipe.advantage.whiten) advantages = whiten(rows(kept), advantages);
  const correction = recipe.correction && offPolicyFactors(rows(kept), recipe.correction as Correction);
  for (const [name, value] of Object.entries(correction?.metrics ?? {})) metrics[`correction/${name}`] = value;
  advantages = foldFactors(advantages, correction?.factors, filters.scale);
  metrics["train/advantage"] = meanAdvantage(rows(kept), advantages);
  Object.assign(metrics, explainedVariance(rows(kept), left.credit.returns));

  const report = await learn(learners, kept, advantages, left.credit.returns, recipe, step);
  Object.assign(metrics, report.metrics);
  return {
    metrics,
    filters,
    klCoefficient: coefficient,
    applied: report.applied,
    credit: creditOf(kept, advantages, report.seen),
  };
}

function creditOf(
  examples: readonly Example[],
  advantages: readonly Float32Array[],
  seen: readonly Seen[],
): ReadonlyMap<string, readonly SequenceCredit[]> {
  const credit = new Map<string, SequenceCredit[]>();
  examples.forEach((example, i) => {
    const { first, clipped } = seen[i] as Seen;
    const list = credit.get(example.row.episode) ?? [];
    credit.set(example.row.episode, list);
    list.push({
      advantages: advantages[i] as Float32Array,
      ...(first && { seen: first }),
      ...(clipped && { clipped }),
    });
  });
  return credit;
}
