/** What can be known to be wrong with a recipe before anything runs. */
import { ConfigError } from "../core/errors.ts";
import { checkLoss } from "../engine/losses.ts";
import { checkEstimatorOptions } from "./advantages.ts";
import { type Correction, checkCorrection } from "./correction.ts";
import { policyLossOf } from "./policy-loss.ts";
import type { Recipe } from "./recipe.ts";
import { checkReduction } from "./reductions.ts";
import { checkEstimator, getEstimator, resolveFilter } from "./registry.ts";

export function checkRecipe(recipe: Recipe): void {
  const estimator = getEstimator(recipe.advantage.name);
  checkEstimator(estimator, { turns: recipe.turns, critic: recipe.critic !== undefined, siblings: recipe.siblings });
  checkEstimatorOptions(recipe.advantage);
  checkReduction(recipe.reduction);
  if (recipe.correction) checkCorrection(recipe.correction as Correction);
  recipe.filters.forEach(resolveFilter);
  checkLoss(policyLossOf(recipe, 0, recipe.turns === "split" ? { episodeOf: () => undefined } : {}));
  if (recipe.advantage.name === "maxrl" && recipe.kl?.as === "reward") {
    throw new ConfigError(
      'maxrl divides by a group\'s mean reward, which KL as reward can make negative: set kl.as to "loss", or use grpo.',
    );
  }
  if (recipe.critic !== undefined && !estimator.needsCritic) {
    throw new ConfigError(
      `Estimator "${estimator.name}" uses no critic: leave critic out, or choose gae, turn-gae or bi-level-gae.`,
    );
  }
  if (recipe.referenceEvery !== undefined && recipe.kl === undefined) {
    throw new ConfigError("referenceEvery replaces the reference of kl: set kl, or leave referenceEvery out.");
  }
  const ahead = (recipe.warmStart?.threads ?? 0) + 3;
  if (recipe.mixture.name !== "fixed" && recipe.mixture.every < ahead) {
    throw new ConfigError(
      `mixture.every (${recipe.mixture.every}) must be at least ${ahead}: a warm start with ${recipe.warmStart?.threads ?? 0} threads plays so many batches ahead.`,
    );
  }
  if (recipe.evaluate.seeds[1] < recipe.evaluate.seeds[0])
    throw new ConfigError("evaluate.seeds is [first, last]; last is smaller than first.");
  if (recipe.schedule.name !== "constant" && recipe.steps > 0 && recipe.schedule.warmupSteps >= recipe.steps) {
    throw new ConfigError(
      `schedule.warmupSteps (${recipe.schedule.warmupSteps}) must be smaller than steps (${recipe.steps}).`,
    );
  }
}
