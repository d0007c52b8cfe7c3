/**
 * Plans that are longer than they need be: demonstrations that go to their end in several steps, or look around on the way.
 * An oracle is asked again every turn, and the state alone does not say how far such a plan has come, so it is made once from
 * the start of the episode and gone on with as long as it was followed.
 */
import type { Action } from "../../src/envs/index.ts";
import type { Dice } from "./scenes/dice.ts";

export type Script = {
  readonly plan: readonly Action[];
  /** What the state looks like, in words, before each action of the plan. */
  readonly states: readonly string[];
};

/** What is left of a script after `moves` actions; undefined where something else was played. */
export function restOf({ plan, states }: Script, moves: number, state: string): Action[] | undefined {
  return states[moves] === state ? plan.slice(moves) : undefined;
}

/** `total` as a sum of `parts` whole numbers of its own sign; fewer where it is too small to be cut. */
export function chunksOf(total: number, parts: number, dice: Dice): number[] {
  const size = Math.abs(total);
  const cuts = new Set<number>();
  while (cuts.size < Math.min(parts, size) - 1) cuts.add(dice.whole(1, size - 1));
  const ends = [...cuts].sort((a, b) => a - b);
  return size === 0 ? [] : [...ends, size].map((end, i) => Math.sign(total) * (end - (ends[i - 1] ?? 0)));
}

/** Pairs of actions that undo each other, put in somewhere, until the plan has `steps` actions or one more. */
export function withDetours(
  plan: readonly Action[],
  steps: number,
  dice: Dice,
  pair: () => readonly [Action, Action],
): Action[] {
  const out = [...plan];
  while (out.length < steps) out.splice(dice.whole(0, out.length), 0, ...pair());
  return out;
}
