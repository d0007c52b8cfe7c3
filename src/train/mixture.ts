/**
 * How often a run plays each of its sources. By default as often as the recipe's weights say. A mixture (`mixture: { name: "progress" }`, or one of the user's own) makes new weights out
 * of what was measured, block by block: in the warm start the logarithm of a source's loss, so that a halved loss counts alike everywhere; afterwards the mean reward of its episodes.
 * Every decision is kept with the first episode that it holds for and is part of every checkpoint, so a resumed run draws the episodes that a straight one would have drawn.
 */
import { z } from "zod";
import { ConfigError } from "../core/errors.ts";
import { isJsonObject, type Json } from "../core/json.ts";
import { sum } from "../core/numbers.ts";

/** A result for each source, in the recipe's order; undefined where the source was not played. */
export type BlockResults = readonly (number | undefined)[];

/** Without a schema a mixture takes no options. */
export type Mixture<S extends z.ZodObject = z.ZodObject> = {
  readonly name: string;
  readonly schema?: S;
  /** New weights of the sources from the results of all blocks so far, oldest first, and from the recipe's weights. */
  weights(history: readonly BlockResults[], recipe: readonly number[], options: z.output<S>): readonly number[];
};

const fixed: Mixture = { name: "fixed", weights: (_, recipe) => recipe };

const PROGRESS = z.strictObject({
  floor: z.number().min(0).max(1).default(0.3),
  memory: z.number().min(2).default(8),
});

/**
 * A source that learns (or forgets) comes more often than one that is solved or stays out of reach. Progress is the distance between a short and a long moving average of its results. The
 * share `floor` of the weights stays as it is; the long average looks back over about `memory` blocks, the short one over a quarter of them.
 */
const progress: Mixture<typeof PROGRESS> = {
  name: "progress",
  schema: PROGRESS,
  weights(history, recipe, { floor, memory }) {
    const moved = recipe.map((_, source) => {
      const results = history.flatMap((block) => block[source] ?? []);
      return results.length < 2 ? undefined : Math.abs(average(results, memory / 4) - average(results, memory));
    });
    // What was hardly played yet is as interesting as what learns most.
    const most = Math.max(0, ...moved.map((value) => value ?? 0));
    const gains = moved.map((value) => value ?? most);
    const total = sum(recipe.map((weight, source) => weight * (gains[source] as number)));
    if (total <= 0) return recipe;
    const scale = ((1 - floor) * sum(recipe)) / total;
    return recipe.map((weight, source) => weight * (floor + scale * (gains[source] as number)));
  },
};

/** An exponential moving average that looks back over about `memory` results. */
function average(results: readonly number[], memory: number): number {
  const share = 1 / Math.max(1, memory);
  return results.reduce((value, result) => value + share * (result - value));
}

export const MIXTURES: readonly Mixture[] = [fixed, progress];

type Decision = { readonly from: number; readonly weights: readonly number[] };
export type MixturePhase = "warm" | "reinforce";

/** What a checkpoint keeps. `sums`: of the block that is not over yet, total and count for each source. */
type State = {
  readonly phase: MixturePhase;
  readonly blocks: readonly (readonly (number | null)[])[];
  readonly sums: readonly (readonly [total: number, count: number])[];
  readonly decisions: readonly Decision[];
};

export type SourceWeightsOptions = {
  readonly phase: MixturePhase;
  readonly mixture: Mixture;
  readonly options: Readonly<Record<string, unknown>>;
  /** The recipe's weights. */
  readonly recipe: readonly number[];
  /** The names under which each source's episodes are measured. */
  readonly labels: readonly ReadonlySet<string>[];
  /** Of a checkpoint; null: none. */
  readonly state: Json;
};

export class SourceWeights {
  readonly #options: SourceWeightsOptions;
  readonly #blocks: BlockResults[] = [];
  readonly #decisions: Decision[] = [];
  #sums: [total: number, count: number][];

  constructor(options: SourceWeightsOptions) {
    this.#options = options;
    this.#sums = options.recipe.map(() => [0, 0]);
    const { state, phase, recipe } = options;
    if (!isJsonObject(state) || state.phase !== phase) return;
    const { blocks, sums, decisions } = state as unknown as State;
    if (sums.length !== recipe.length) return;
    this.#blocks.push(...blocks.map((block) => block.map((value) => value ?? undefined)));
    this.#decisions.push(...decisions);
    this.#sums = sums.map(([total, count]) => [total, count]);
  }

  get #isFixed(): boolean {
    return this.#options.mixture === fixed || this.#options.recipe.length < 2;
  }

  /** Blocks that are over. */
  get blocks(): number {
    return this.#blocks.length;
  }

  /** The weights by which an episode is drawn. */
  at(episode: number): readonly number[] {
    return this.#decisions.findLast(({ from }) => from <= episode)?.weights ?? this.#options.recipe;
  }

  /** Results of episodes, in the block that is under way. */
  add(label: string, total: number, count: number): void {
    // An update whose loss is not finite is skipped, and says nothing about its sources.
    if (this.#isFixed || !Number.isFinite(total)) return;
    for (const [source, labels] of this.#options.labels.entries()) {
      if (!labels.has(label)) continue;
      const known = this.#sums[source] as [number, number];
      known[0] += total;
      known[1] += count;
    }
  }

  /** The block is over. */
  close(): void {
    if (this.#isFixed) return;
    const { phase } = this.#options;
    const result = ([total, count]: readonly [number, number]) => {
      if (count === 0) return undefined;
      // Once nothing is left to learn, nothing moves.
      return phase === "warm" ? Math.log(Math.max(1e-3, total / count)) : total / count;
    };
    this.#blocks.push(this.#sums.map(result));
    this.#sums = this.#sums.map(() => [0, 0]);
  }

  /** Decides how episodes are drawn from this one on, by the oldest `blocks` blocks. What was decided before stays. */
  decide(from: number, blocks: number): void {
    if (this.#isFixed || this.#decisions.some((decision) => decision.from >= from)) return;
    const { mixture, recipe, options } = this.#options;
    const weights = mixture.weights(this.#blocks.slice(0, blocks), recipe, options);
    const sound = weights.length === recipe.length && weights.every((weight) => Number.isFinite(weight) && weight >= 0);
    if (!sound || !weights.some((weight) => weight > 0)) {
      throw new ConfigError(
        `The mixture "${mixture.name}" returned [${weights.join(", ")}]: return ${recipe.length} numbers, one for each source, none of them negative and one at least positive.`,
      );
    }
    this.#decisions.push({ from, weights: [...weights] });
  }

  /** The share of each source among the episodes that are drawn at present; nothing where it never changes. */
  metrics(): Record<string, number> {
    const { labels } = this.#options;
    if (this.#isFixed) return {};
    const weights = this.at(Number.POSITIVE_INFINITY);
    const total = sum(weights);
    const shares = new Map<string, number>();
    for (const [source, names] of labels.entries()) {
      const name = names.size === 1 ? ([...names][0] as string) : `source ${source + 1}`;
      shares.set(name, (shares.get(name) ?? 0) + (weights[source] as number) / total);
    }
    return Object.fromEntries([...shares].map(([name, share]) => [`mixture/${name}`, share]));
  }

  /** For a checkpoint. */
  state(): Json {
    if (this.#isFixed) return null;
    const state: State = {
      phase: this.#options.phase,
      blocks: this.#blocks.map((block) => block.map((value) => value ?? null)),
      sums: this.#sums.map(([total, count]) => [total, count]),
      decisions: [...this.#decisions],
    };
    return state as unknown as Json;
  }
}
