/** Putting things in order by swaps and reorderings: what jigsaw, video_unshuffle and zoom_in_puzzle have in common. */
import type { Dice } from "./scenes/dice.ts";

/** `order` with what lies at places `a` and `b` exchanged. */
export function swapped(order: readonly number[], a: number, b: number): number[] {
  const next = [...order];
  [next[a], next[b]] = [order[b] as number, order[a] as number];
  return next;
}

/** Place i gets what lay at place `from[i]`. */
export function reordered(order: readonly number[], from: readonly number[]): number[] {
  return from.map((place) => order[place] as number);
}

/** The fewest swaps that make `goal` of `order`: each puts one place right, first places first. */
export function swapsTo(order: readonly number[], goal: readonly number[]): [number, number][] {
  const swaps: [number, number][] = [];
  let now = [...order];
  goal.forEach((wanted, place) => {
    if (now[place] === wanted) return;
    const from = now.indexOf(wanted);
    swaps.push([place, from]);
    now = swapped(now, place, from);
  });
  return swaps;
}

/** Where each place of `goal` finds its thing in `order`: the reordering that makes `goal` in one go. */
export function reorderTo(order: readonly number[], goal: readonly number[]): number[] {
  return goal.map((wanted) => order.indexOf(wanted));
}

/** A swap and the same swap again, put in somewhere, until there are `steps` swaps or one more. */
export function withDetours(
  swaps: readonly [number, number][],
  places: number,
  steps: number,
  dice: Dice,
): [number, number][] {
  const out = [...swaps];
  while (out.length < steps) {
    const [a = 0, b = 1] = dice.shuffle(Array.from({ length: places }, (_, i) => i));
    out.splice(dice.whole(0, out.length), 0, [a, b], [a, b]);
  }
  return out;
}

export function sameOrder(a: readonly number[], b: readonly number[]): boolean {
  return a.length === b.length && a.every((value, i) => value === b[i]);
}
