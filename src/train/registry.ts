/**
 * What a recipe can name: estimators, losses, filters and metrics, as plain maps. The built-in ones are here from the start; a
 * recipe registers its own before it trains. A name is given once: silently replacing one would change what another recipe means by it.
 */
import type { z } from "zod";
import { ConfigError } from "../core/errors.ts";
import { didYouMean } from "../core/words.ts";
import { LOSS_SCHEMAS, POLICY_LOSSES } from "../engine/loss-schemas.ts";
import { NO_OPTIONS, readOptions } from "../engine/options.ts";
import { ESTIMATORS } from "./advantages.ts";
import { FILTERS, type Filter, groupsOf, varianceOf } from "./filters.ts";
import { EXTRA_LOSSES, type LossMaker } from "./losses-extra.ts";
import { MIXTURES, type Mixture } from "./mixture.ts";
import type { Credit, Estimator, TokenRow } from "./tokens.ts";

/** A number per batch, from the rows before filtering and the credit of those that were kept. */
export type Metric = {
  readonly name: string;
  compute(rows: readonly TokenRow[], credit?: Credit): number;
};

/** Mean over groups of the variance of their rewards: how much there is to learn from comparing siblings. */
const rewardVarianceMetric: Metric = {
  name: "reward_variance",
  compute(rows) {
    const groups = groupsOf(rows);
    return groups.reduce((sum, group) => sum + varianceOf(group), 0) / Math.max(1, groups.length);
  },
};

function registryOf<T extends { readonly name: string }>(kind: string, builtIn: readonly T[]) {
  const entries = new Map<string, T>(builtIn.map((entry) => [entry.name, entry]));
  return {
    register(entry: T): void {
      if (entries.has(entry.name)) {
        throw new ConfigError(`There is already a ${kind} "${entry.name}"; give yours another name.`);
      }
      entries.set(entry.name, entry);
    },
    get(name: string): T {
      const entry = entries.get(name);
      if (entry === undefined) {
        const names = [...entries.keys()];
        throw new ConfigError(
          `There is no ${kind} "${name}".${didYouMean(name, names)} There are ${names.join(", ")}.`,
        );
      }
      return entry;
    },
    names: (): string[] => [...entries.keys()],
  };
}

const estimators = registryOf<Estimator>("estimator", ESTIMATORS);
const losses = registryOf<LossMaker>("registered loss", EXTRA_LOSSES);
const filters = registryOf<Filter>("filter", FILTERS);
const metrics = registryOf<Metric>("metric", [rewardVarianceMetric]);
const mixtures = registryOf<Mixture>("mixture", MIXTURES);

export const registerEstimator = estimators.register;
export const getEstimator = estimators.get;
export const estimatorNames = estimators.names;

export function registerLoss<S extends z.ZodObject = typeof NO_OPTIONS>(loss: LossMaker<S>): void {
  if (Object.hasOwn(LOSS_SCHEMAS, loss.name)) {
    throw new ConfigError(`Engines have a loss "${loss.name}" of their own; give yours another name.`);
  }
  losses.register(loss);
}
export const getLoss = losses.get;
export const lossNames = losses.names;

export function registerFilter<S extends z.ZodObject = typeof NO_OPTIONS>(filter: Filter<S>): void {
  filters.register(filter);
}
export const getFilter = filters.get;
export const filterNames = filters.names;

export function registerMixture<S extends z.ZodObject = typeof NO_OPTIONS>(mixture: Mixture<S>): void {
  mixtures.register(mixture);
}
export const getMixture = mixtures.get;
export const mixtureNames = mixtures.names;

export const registerMetric = metrics.register;
export const getMetric = metrics.get;
export const metricNames = metrics.names;

/** A part as a recipe names it: its name and constants. */
export type Named = { readonly name: string; readonly [option: string]: unknown };

/** The recipe's policy loss with all its constants; one that it does not have is an error. */
export function resolveLoss({ name, ...given }: Named): Named {
  return { name, ...readOptions(`Loss "${name}"`, lossSchema(name), given) };
}

function lossSchema(name: string): z.ZodObject {
  if (isPolicyLoss(name)) return POLICY_LOSSES[name];
  if (lossNames().includes(name)) return getLoss(name).schema ?? NO_OPTIONS;
  const names = [...Object.keys(POLICY_LOSSES), ...lossNames()];
  throw new ConfigError(`There is no loss "${name}".${didYouMean(name, names)} There are ${names.join(", ")}.`);
}

/** Whether engines know the loss by its name. */
export function isPolicyLoss(name: string): name is keyof typeof POLICY_LOSSES {
  return Object.hasOwn(POLICY_LOSSES, name);
}

/** A filter with all its options; one that it does not have is an error. */
export function resolveFilter({ name, ...given }: Named): Named {
  return { name, ...readOptions(`Filter "${name}"`, getFilter(name).schema ?? NO_OPTIONS, given) };
}

/** A mixture with all its options; one that it does not have is an error. */
export function resolveMixture({ name, ...given }: Named): Named {
  return { name, ...readOptions(`Mixture "${name}"`, getMixture(name).schema ?? NO_OPTIONS, given) };
}

/** Refuses, at start, an estimator that can't work in this recipe. */
export function checkEstimator(
  estimator: Estimator,
  recipe: { readonly turns: "joined" | "split"; readonly critic: boolean; readonly siblings: number },
): void {
  const { name } = estimator;
  if (!estimator.turns.includes(recipe.turns)) {
    throw new ConfigError(
      `Estimator "${name}" is not valid with turns ${recipe.turns}; set turns to ${estimator.turns.join(" or ")}.`,
    );
  }
  if (estimator.needsCritic && !recipe.critic) {
    throw new ConfigError(`Estimator "${name}" needs a critic; add one to the recipe or use grpo.`);
  }
  if (estimator.needsGroups && recipe.siblings < 2) {
    throw new ConfigError(
      `Estimator "${name}" compares siblings and needs at least 2 in a group, got ${recipe.siblings}; raise siblings.`,
    );
  }
}
