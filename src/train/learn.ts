/** The mini-batches of an update, one optimizer step each, for the policy and its critic. */
import { NumpyRandom } from "../core/random-numpy.ts";
import { mixSeed } from "../core/seed.ts";
import type { Datum, Learner } from "../engine/engine.ts";
import { clippedPositions } from "../engine/losses.ts";
import type { SequenceCredit } from "../rollout/trajectory-records.ts";
import { shiftRight, toDatum } from "./batch.ts";
import { type DriftReport, driftOf } from "./drift.ts";
import { byGroup } from "./episodes.ts";
import { type Example, type Learners, rows } from "./examples.ts";
import { Meter } from "./meter.ts";
import { policyLossOf, scheduled } from "./policy-loss.ts";
import type { Recipe } from "./recipe.ts";
import { tokenWeights } from "./reductions.ts";
import { getLoss, isPolicyLoss } from "./registry.ts";
import { WatchedLoss } from "./watched-loss.ts";

export type Seen = { first?: NonNullable<SequenceCredit["seen"]>; clipped?: Set<number> };

type Learned = {
  readonly metrics: Record<string, number>;
  readonly applied: boolean;
  /** What the learner saw of each example. */
  readonly seen: readonly Seen[];
};

export async function learn(
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
                ? example.row.samplerLogprobs
                : (example.row.oldLogprobs ?? example.row.samplerLogprobs),
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
            ...(report.frameHashes?.[k] && { frameHashes: report.frameHashes[k] }),
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
