/** Training: recipes, the trainer, and the algorithms they name. */
export { biLevelGae, gae, grpo, maxrl, reinforcePlusPlus, rloo, turnGae } from "./advantages.ts";
export { type CheckOptions, checkEnv } from "./check-env.ts";
export { checkModel } from "./check-model.ts";
export { checkRecipe } from "./check-recipe.ts";
export { checkSources } from "./check-sources.ts";
export { chooseRun, MAY_CHANGE } from "./continue.ts";
export type { Correction } from "./correction.ts";
export {
  type EpisodeGroup,
  type EpisodeSummary,
  type Filter,
  type FilterCounts,
  type FilterReport,
  type FilterResult,
  overLong,
  rewardVariance,
  rewardVarianceTopP,
  zeroVariance,
} from "./filters.ts";
export type { Finding } from "./finding.ts";
export type { LossMaker } from "./losses-extra.ts";
export { pinModel } from "./model-folder.ts";
export type { Phase, PhaseName } from "./phase.ts";
export { defineRecipe, type Recipe, recipeConfig, recipeSchema, resolveRecipe } from "./recipe.ts";
export type { OptimizerInput, RecipeInput, ScheduleInput, SourceInput } from "./recipe-input.ts";
export { loadRecipe, recipeNames } from "./recipes.ts";
export type { Reduction } from "./reductions.ts";
export {
  estimatorNames,
  filterNames,
  getEstimator,
  getFilter,
  getLoss,
  getMetric,
  getMixture,
  lossNames,
  type Metric,
  metricNames,
  mixtureNames,
  type Named,
  registerEstimator,
  registerFilter,
  registerLoss,
  registerMetric,
  registerMixture,
} from "./registry.ts";
export type { Schedule } from "./schedule.ts";
export { type SequenceLayout, sequencesOf, sftBatch } from "./sft.ts";
export { costsOfRun, type LoopCosts, type LoopReport, samplersNeeded, simulateLoop } from "./simulate.ts";
export type { Credit, Estimator, EstimatorOptions, Limit, TokenRow } from "./tokens.ts";
export { type StepContext, type TrainOptions, type TrainResult, train } from "./train.ts";
export { warmStartUpdates } from "./warm-start.ts";
