/**
 * Which episodes a run plays: the groups of a step, from the run's seed alone, so that a resumed run issues what a straight one would have. Requests are
 * pushed when they may be played; the rollout draws them as it has room.
 */
import { NumpyRandom } from "../core/random-numpy.ts";
import { mixSeed } from "../core/seed.ts";
import { ticketSeed } from "../envs/tickets.ts";
import type { GroupRequest } from "../rollout/groups.ts";
import type { Recipe } from "./recipe.ts";

/** Evaluation seeds, which training never plays. */
export function evaluationSeeds(recipe: Pick<Recipe, "evaluate">): number[] {
  const [from, to] = recipe.evaluate.seeds;
  return Array.from({ length: to - from + 1 }, (_, i) => from + i);
}

/** One of the mixture's members, each as often as its weight says. */
export function drawMember<T extends { readonly weight: number }>(members: readonly T[], seed: number): T {
  const total = members.reduce((sum, { weight }) => sum + weight, 0);
  let draw = new NumpyRandom(seed).random() * total;
  const chosen = members.find(({ weight }) => {
    draw -= weight;
    return draw < 0;
  });
  return chosen ?? (members[0] as T);
}

/** Group `index` of the run, counted from 0 over all steps and refills. */
export function groupRequest(recipe: Recipe, index: number, reserved: ReadonlySet<number>): GroupRequest {
  const { envs, seed: runSeed } = recipe;
  const { env, options } = drawMember(envs, mixSeed("mixture", runSeed, index));
  return {
    env: { id: env, options },
    seed: ticketSeed(runSeed, 0, index, reserved),
    siblings: recipe.siblings,
    group: `${env}#${index}`,
    samplingSeed: mixSeed("sampling", runSeed, index),
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
