/**
 * Reductions: how the tokens of a mini-batch share its loss, as one weight per sampled token. The loss is then a plain sum, so packing, micro-batches
 * and shards can't change it. Compute them over the whole mini-batch. A sequence is an episode, whatever rows it has:
 *   token-mean 1 / tokens · sequence-mean 1 / (episodes · the episode's tokens) · constant-length 1 / (episodes · length) ·
 *   prompt-mean 1 / (groups · the group's tokens).
 * All but constant-length sum to 1. Episodes and groups without a sampled token are not counted.
 */
import { ConfigError } from "../core/errors.ts";
import { byGroup, type Episode, episodesOf, scatter, zerosLike } from "./episodes.ts";
import type { TokenRow } from "./tokens.ts";

export type Reduction =
  | { readonly name: "token-mean" | "sequence-mean" | "prompt-mean" }
  /** `length`: a number of tokens that does not depend on the batch, usually the most an episode may sample. */
  | { readonly name: "constant-length"; readonly length: number };

export function checkReduction(reduction: Reduction): void {
  if (reduction.name === "constant-length" && !(reduction.length > 0 && Number.isFinite(reduction.length))) {
    throw new ConfigError(`Reduction constant-length needs a length above 0, got ${reduction.length}.`);
  }
}

export function tokenWeights(rows: readonly TokenRow[], reduction: Reduction): Float32Array[] {
  checkReduction(reduction);
  const weights = zerosLike(rows);
  const episodes = episodesOf(rows).filter((episode) => episode.length > 0);
  const write = (members: readonly Episode[], weight: number) => {
    for (const episode of members) scatter(episode, new Float64Array(episode.length).fill(weight), weights);
  };
  switch (reduction.name) {
    case "token-mean":
      write(episodes, 1 / countTokens(episodes));
      break;
    case "sequence-mean":
      for (const episode of episodes) write([episode], 1 / (episodes.length * episode.length));
      break;
    case "constant-length":
      write(episodes, 1 / (episodes.length * reduction.length));
      break;
    case "prompt-mean": {
      const groups = [...byGroup(episodes).values()];
      for (const members of groups) write(members, 1 / (groups.length * countTokens(members)));
      break;
    }
  }
  return weights;
}

function countTokens(episodes: readonly Episode[]): number {
  return episodes.reduce((sum, episode) => sum + episode.length, 0);
}
