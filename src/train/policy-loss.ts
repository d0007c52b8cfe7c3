/** A recipe's loss and optimizer as an engine takes them at a step. */
import { ConfigError } from "../core/errors.ts";
import type { Datum, Loss, OptimizerParams } from "../engine/engine.ts";
import { lossFunction, type PolicyLoss } from "../engine/losses.ts";
import { withKl } from "./losses-extra.ts";
import type { Recipe } from "./recipe.ts";
import { getLoss, isPolicyLoss } from "./registry.ts";
import { scheduleFactor } from "./schedule.ts";

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
