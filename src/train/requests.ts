/**
 * Which episodes a run plays: the groups of a step, from the run's seed alone, so that a resumed run issues what a straight one would have. Requests are
 * pushed when they may be played; the rollout draws them as it has room.
 */
import { mixSeed } from "../core/seed.ts";
import type { GroupRequest } from "../rollout/groups.ts";
import type { EpisodeOrder } from "./data.ts";
import type { Recipe } from "./recipe.ts";

/** Group `index` of the run, counted from 0 over all steps and refills. */
export function groupRequest(recipe: Recipe, order: EpisodeOrder, index: number): GroupRequest {
  const { env, label, seed } = order.at(index);
  return {
    env,
    label,
    seed,
    siblings: recipe.siblings,
    group: `${label}#${index}`,
    samplingSeed: mixSeed("sampling", recipe.seed, index),
  };
}

/** An async iterable that others push into. */
export class RequestQueue implements AsyncIterable<GroupRequest> {
  readonly #waiting: GroupRequest[] = [];
  #wake: () => void = () => {};
  #closed = false;

  push(requests: readonly GroupRequest[]): void {
    this.#waiting.push(...requests);
    this.#wake();
  }

  close(): void {
    this.#closed = true;
    this.#wake();
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<GroupRequest, void, void> {
    for (;;) {
      const next = this.#waiting.shift();
      if (next !== undefined) yield next;
      else if (this.#closed) return;
      else {
        await new Promise<void>((resolve) => {
          this.#wake = resolve;
        });
      }
    }
  }
}
