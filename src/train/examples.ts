/** Token rows with the sequences they stand for: filtered, and scored by learner, reference and critic. */
import type { Learner, Sampler } from "../engine/engine.ts";
import type { Sequence, Trajectory } from "../rollout/trajectory.ts";
import { probeDatum, rowsOf, shiftRight } from "./batch.ts";
import { applyFilters, type FilterReport, groupsOf, keepRows, withoutRewards } from "./filters.ts";
import type { Recipe } from "./recipe.ts";
import { getEstimator, getFilter } from "./registry.ts";
import type { TokenRow } from "./tokens.ts";

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

/** A row with the sequence it stands for. */
export type Example = { readonly row: TokenRow; readonly sequence: Sequence; readonly temperature: number };

export const rows = (examples: readonly Example[]) => examples.map((example) => example.row);

export function examplesOf(trajectories: readonly Trajectory[]): Example[] {
  return trajectories.flatMap((trajectory) =>
    rowsOf(trajectory).map((row, i) => ({
      row,
      sequence: trajectory.sequences[i] as Sequence,
      temperature: trajectory.temperature,
    })),
  );
}

/** The recipe's filters; groups that lost their siblings go first, since there is nothing to compare them with. */
export function filterExamples(examples: readonly Example[], recipe: Recipe, needsGroups: boolean): FilterReport {
  const wanted = recipe.filters.map(({ name, ...options }) => ({ filter: getFilter(name), options }));
  // After the others too: a filter may take siblings out.
  const paired = needsGroups ? [{ filter: getFilter("survivors") }] : [];
  return applyFilters(groupsOf(rows(examples)), [...paired, ...wanted, ...paired]);
}

/** Groups that would survive the filters: what dynamic sampling counts. */
export function survivingGroups(trajectories: readonly Trajectory[], recipe: Recipe): number {
  return filterExamples(examplesOf(trajectories), recipe, getEstimator(recipe.advantage.name).needsGroups).keep.length;
}

export function keepExamples(examples: readonly Example[], filters: FilterReport): Example[] {
  const kept = new Set(keepRows(rows(examples), filters.keep));
  const left = examples.filter((example) => kept.has(example.row));
  const paid = withoutRewards(rows(left), filters.unpaid);
  return left.map((example, i) => ({ ...example, row: paid[i] as TokenRow }));
}

/** What estimators and losses need beyond the sampler's numbers: learner, reference and critic outputs. */
type Scores = Pick<TokenRow, "oldLogprobs" | "referenceLogprobs" | "values">;

export async function scoresOf(
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

export const withScores = (examples: readonly Example[], scores: ReadonlyMap<Sequence, Scores>): Example[] =>
  examples.map((example) => ({ ...example, row: { ...example.row, ...scores.get(example.sequence) } }));
