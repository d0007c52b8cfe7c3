/**
 * One update: from the trajectories of a step to new weights. Filter, score, estimate credit, reduce, and hand mini-batches to the engine; everything an
 * algorithm decides is a per-token number by the time the engine sees it.
 */
import { ConfigError } from "../core/errors.ts";
import { NumpyRandom } from "../core/random-numpy.ts";
import { mixSeed } from "../core/seed.ts";
import type { Datum, Learner, Loss, OptimizerParams, Sampler } from "../engine/engine.ts";
import { clippedPositions, lossFunction, type PolicyLoss } from "../engine/losses.ts";
import type { Sequence, Trajectory } from "../rollout/trajectory.ts";
import type { SequenceCredit } from "../rollout/trajectory-records.ts";
import { probeDatum, rowsOf, shiftRight, toDatum } from "./batch.ts";
import { type Correction, foldFactors, offPolicyFactors } from "./correction.ts";
import { type DriftReport, driftOf } from "./drift.ts";
import { byGroup } from "./episodes.ts";
import { applyFilters, dropMasked, type FilterReport, groupsOf, keepRows, withoutRewards } from "./filters.ts";
import { applyKlReward, nextKlCoefficient } from "./kl.ts";
import { withKl } from "./losses-extra.ts";
import { explainedVariance, Meter, meanAdvantage } from "./meter.ts";
import type { Recipe } from "./recipe.ts";
import { tokenWeights } from "./reductions.ts";
import { getEstimator, getFilter, getLoss, getMetric, isPolicyLoss, metricNames } from "./registry.ts";
import { scheduleFactor } from "./schedule.ts";
import type { TokenRow } from "./tokens.ts";
import { WatchedLoss } from "./watched-loss.ts";
import { whiten } from "./whiten.ts";

/** Skipped updates in a row before a run gives up. */
export const MAX_SKIPPED = 3;

export type Learners = {
  readonly policy: Learner;
  readonly critic?: Learner;
  readonly reference?: Sampler;
  /** What the policy computes is what the sampler drew with; else the policy scores what was played, and losses are anchored there. */
  readonly exact: boolean;
  /** Gradients can't be dropped: a batch that may pull is submitted together with its step, and nothing waits in between. */
  readonly together?: boolean;
  /** Losses that the engine knows by name; others go to it as functions. Absent: it knows all. */
  readonly losses?: readonly string[];
};

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

/** A row with the sequence it stands for. */
type Example = { readonly row: TokenRow; readonly sequence: Sequence; readonly temperature: number };

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

const rows = (examples: readonly Example[]) => examples.map((example) => example.row);

function examplesOf(trajectories: readonly Trajectory[]): Example[] {
  return trajectories.flatMap((trajectory) =>
    rowsOf(trajectory).map((row, i) => ({
      row,
      sequence: trajectory.sequences[i] as Sequence,
      temperature: trajectory.temperature,
    })),
  );
}

/** The recipe's filters; groups that lost their siblings go first, since there is nothing to compare them with. */
function filterExamples(examples: readonly Example[], recipe: Recipe, needsGroups: boolean): FilterReport {
  const wanted = recipe.filters.map(({ name, ...options }) => ({ filter: getFilter(name), options }));
  // After the others too: a filter may take siblings out.
  const paired = needsGroups ? [{ filter: getFilter("survivors") }] : [];
  return applyFilters(groupsOf(rows(examples)), [...paired, ...wanted, ...paired]);
}

/** Groups that would survive the filters: what dynamic sampling counts. */
export function survivingGroups(trajectories: readonly Trajectory[], recipe: Recipe): number {
  return filterExamples(examplesOf(trajectories), recipe, getEstimator(recipe.advantage.name).needsGroups).keep.length;
}

function keepExamples(examples: readonly Example[], filters: FilterReport): Example[] {
  const kept = new Set(keepRows(rows(examples), filters.keep));
  const left = examples.filter((example) => kept.has(example.row));
  const paid = withoutRewards(rows(left), filters.unpaid);
  return left.map((example, i) => ({ ...example, row: paid[i] as TokenRow }));
}

/** What estimators and losses need beyond the sampler's numbers: learner, reference and critic outputs. */
type Scores = Pick<TokenRow, "oldLogprobs" | "referenceLogprobs" | "values">;

async function scoresOf(
  examples: readonly Example[],
  learners: Learners,
  recipe: Recipe,
): Promise<ReadonlyMap<Sequence, Scores>> {
  const data = examples.map((example) => probeDatum(example.sequence, example.temperature));
  // On an exact engine the sampler's numbers are the learner's, bit for bit, and stale episodes are anchored where they were drawn: only a correction compares
  // the two. Elsewhere the learner says what it thinks before it moves, or the ratio would begin with the difference between two programs.
  const old = recipe.correction || !learners.exact ? await learners.policy.forward(data) : undefined;
  const reference = recipe.kl && learners.reference ? await learners.reference.score(data) : undefined;
  const values = learners.critic ? await learners.critic.forward(data) : undefined;
  return new Map(
    examples.map(({ sequence }, i) => {
      const logprobs = old?.[i]?.logprobs;
      const scored = reference?.[i]?.logprobs;
      const value = values?.[i]?.values;
      const scores = {
        ...(logprobs && { oldLogprobs: shiftRight(logprobs) }),
        ...(scored && { referenceLogprobs: shiftRight(scored) }),
        ...(value && { values: shiftRight(value) }),
      };
      return [sequence, scores];
    }),
  );
}

const withScores = (examples: readonly Example[], scores: ReadonlyMap<Sequence, Scores>): Example[] =>
  examples.map((example) => ({ ...example, row: { ...example.row, ...scores.get(example.sequence) } }));

type Seen = { first?: NonNullable<SequenceCredit["seen"]>; clipped?: Set<number> };

type Learned = {
  readonly metrics: Record<string, number>;
  readonly applied: boolean;
  /** What the learner saw of each example. */
  readonly seen: readonly Seen[];
};

async function learn(
  learners: Learners,
  examples: readonly Example[],
  advantages: readonly Float32Array[],
  returns: readonly Float32Array[] | undefined,
  recipe: Recipe,
  step: number,
): Promise<Learned> {
  const meter = new Meter();
  const seen: Seen[] = examples.map(() => ({}));
  let updates = 0;
  const episodes = new Map<Datum, string>();
  const split = new Set(examples.map(({ row }) => row.episode)).size < examples.length;
  const loss = new WatchedLoss(
    policyLossOf(recipe, mixSeed("loss", recipe.seed, step), {
      ...(learners.losses && { known: learners.losses }),
      ...(split && { episodeOf: (datum) => episodes.get(datum) }),
    }),
  );
  const anchor = isPolicyLoss(recipe.loss.name) ? "learner" : getLoss(recipe.loss.name).anchor;
  const optimizer = scheduled(recipe.optimizer, recipe, step);
  const frozenPolicy = recipe.critic !== undefined && step <= recipe.critic.warmupSteps;
  let drift: DriftReport | undefined;
  let applied = true;
  for (let epoch = 0; epoch < recipe.epochs; epoch++) {
    for (const [index, members] of minibatches(examples, recipe, step, epoch).entries()) {
      const chosen = members.map((i) => examples[i] as Example);
      const weights = tokenWeights(rows(chosen), recipe.reduction);
      if (!frozenPolicy) {
        const data = chosen.map((example, k) =>
          toDatum(example.sequence, example.temperature, {
            weights: weights[k] as Float32Array,
            advantages: advantages[members[k] as number] as Float32Array,
            oldLogprobs:
              anchor === "sampler"
                ? example.row.sampledLogprobs
                : (example.row.oldLogprobs ?? example.row.sampledLogprobs),
            ...(example.row.referenceLogprobs && { referenceLogprobs: example.row.referenceLogprobs }),
          }),
        );
        data.forEach((datum, k) => {
          episodes.set(datum, (chosen[k] as Example).row.episode);
        });
        const work = learners.policy.forwardBackward(data, loss.watched);
        const stepping = learners.together && loss.mayPull(data) ? learners.policy.step(optimizer) : undefined;
        // Its error is met where it is awaited.
        stepping?.catch(() => undefined);
        const report = await work;
        report.outputs.forEach((output, k) => {
          const entry = seen[members[k] as number] as Seen;
          entry.first ??= {
            logprobs: shiftRight(output),
            updatesBefore: updates,
            ...(report.pictures?.[k] && { pictures: report.pictures[k] }),
          };
          // A datum speaks of the id after its position.
          const clipped = clippedPositions(loss.watched, data[k] as Datum, output);
          if (clipped) entry.clipped = new Set([...(entry.clipped ?? []), ...clipped.map((i) => i + 1)]);
        });
        // The first mini-batch meets the weights that sampled it (or older ones): whatever differs is drift.
        if (epoch === 0 && index === 0) drift = driftOf(chosen, report.outputs);
        const pulls = loss.pulls(data, report.outputs) || stepping !== undefined;
        // Momentum and weight decay would move the weights without being asked.
        if (!pulls) learners.policy.discard();
        const result = pulls ? await (stepping ?? learners.policy.step(optimizer)) : { gradNorm: 0, applied: true };
        updates += pulls ? 1 : 0;
        meter.add("policy", report, data.length);
        // A mini-batch without a gradient counts only where none had one.
        if (!Number.isNaN(result.gradNorm)) meter.mean("optimizer/grad_norm", result.gradNorm, pulls ? 1 : 0);
        meter.count("optimizer/updates", pulls && result.applied ? 1 : 0);
        meter.count("optimizer/idle", pulls ? 0 : 1);
        meter.count("optimizer/skipped", result.applied ? 0 : 1);
        applied &&= result.applied && report.finite;
      }
      if (learners.critic && recipe.critic && returns) {
        applied =
          (await learnCritic(learners.critic, chosen, members, weights, returns, recipe, step, meter)) && applied;
      }
    }
  }
  return {
    metrics: { ...meter.values(), ...drift?.metrics, "optimizer/learning_rate": optimizer.learningRate },
    applied,
    seen,
  };
}

async function learnCritic(
  critic: Learner,
  examples: readonly Example[],
  members: readonly number[],
  weights: readonly Float32Array[],
  returns: readonly Float32Array[],
  recipe: Recipe,
  step: number,
  meter: Meter,
): Promise<boolean> {
  if (recipe.critic === undefined) return true;
  const data: Datum[] = examples.map((example, k) =>
    toDatum(example.sequence, example.temperature, {
      weights: weights[k] as Float32Array,
      returns: returns[members[k] as number] as Float32Array,
      oldValues: example.row.values as Float32Array,
    }),
  );
  let applied = true;
  for (let epoch = 0; epoch < recipe.critic.epochs; epoch++) {
    const report = await critic.forwardBackward(data, { name: "value", clip: recipe.critic.clip });
    const optimizer = scheduled(recipe.critic.optimizer, recipe, step);
    const result = await critic.step(optimizer);
    meter.add("critic", report, data.length);
    meter.mean("critic/learning_rate", optimizer.learningRate);
    meter.mean("critic/grad_norm", result.gradNorm);
    meter.count("optimizer/skipped", result.applied ? 0 : 1);
    applied &&= result.applied && report.finite;
  }
  return applied;
}

/**
 * Index lists of the mini-batches of an epoch, in an order that the run's seed, the step and the epoch decide. A group stays together, whatever
 * it holds: a reduction by group would weigh a sibling that was cut off from its group as much as all the others. So there are as many
 * mini-batches as the recipe's number of episodes asks for, at most one per group, of nearly as many groups each: a last crumb would take a
 * full step on a few sequences.
 */
function minibatches(examples: readonly Example[], recipe: Recipe, step: number, epoch: number): number[][] {
  const order = [...byGroup(examples.map(({ row }, example) => ({ group: row.group, example }))).values()];
  const episodes = new Set(examples.map(({ row }) => row.episode)).size;
  const parts = Math.min(order.length, Math.max(1, Math.round(episodes / (recipe.minibatch ?? episodes))));
  if (parts > 1) new NumpyRandom(mixSeed("minibatch", recipe.seed, step, epoch)).shuffle(order);
  const at = (part: number) => Math.floor((part * order.length) / parts);
  return Array.from({ length: parts }, (_, part) =>
    order.slice(at(part), at(part + 1)).flatMap((members) => members.map(({ example }) => example)),
  );
}

/** `known`: losses that the engine knows; absent: all. `episodeOf`: where an episode is several datums, which one a datum is of. */
export type LossPlace = {
  readonly known?: readonly string[];
  readonly episodeOf?: (datum: Datum) => string | undefined;
};

/** The recipe's loss with its KL term, as an engine takes it. A GSPO ratio is over an episode, which an engine that sees one datum can't tell. */
export function policyLossOf(recipe: Recipe, seed: number, { known, episodeOf }: LossPlace = {}): Loss {
  const { name, ...options } = recipe.loss;
  const kl =
    recipe.kl?.as === "loss" ? { coefficient: recipe.kl.coefficient, estimator: recipe.kl.estimator } : undefined;
  if (isPolicyLoss(name)) {
    const loss = { ...recipe.loss, ...(kl && { kl }) } as PolicyLoss;
    const whole = name === "gspo" ? episodeOf : undefined;
    if (whole === undefined && (known?.includes(name) ?? true)) return loss;
    return { name: "custom", compute: lossFunction(loss, whole) };
  }
  const maker = getLoss(name);
  if (maker.anchor === "sampler" && recipe.correction !== undefined) {
    throw new ConfigError(`Loss "${name}" corrects for the sampler itself: leave correction out.`);
  }
  const compute = maker.make(options, seed);
  return { name: "custom", compute: kl ? withKl(compute, kl) : compute };
}

/** The optimizer with its rates at this step. Steps count from 1. */
export function scheduled(
  optimizer: Recipe["optimizer"],
  recipe: Pick<Recipe, "schedule" | "steps">,
  step: number,
): OptimizerParams {
  const { name, warmupSteps, floor } = recipe.schedule;
  const factor = scheduleFactor({ kind: name, warmup: warmupSteps, steps: recipe.steps, floor }, step - 1);
  const { rates, adamLearningRate, ...rest } = optimizer;
  return {
    ...rest,
    learningRate: optimizer.learningRate * factor,
    ...(adamLearningRate !== undefined && { adamLearningRate: adamLearningRate * factor }),
    ...(rates && {
      rates: Object.fromEntries(Object.entries(rates).map(([key, rate]) => [key, (rate as number) * factor])),
    }),
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
