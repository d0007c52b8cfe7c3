/**
 * How right a description is, and what that is worth. Things are compared kind by kind: each claim is matched with one true thing so that the most axes agree,
 * and F1 weighs what was said wrongly against what was left out. Saying anything at all earns some F1 (a third to a half in small worlds), so what chance earns
 * and what the best answer that never looks earns are computed for the world at hand and taken off: such answers earn 0 in the mean.
 */

import { NumpyRandom } from "../../core/random-numpy.ts";
import { mixSeed } from "../../core/seed.ts";
import type { Fact } from "../world.ts";
import { HORIZONTAL, type Horizontal, type Placed, VERTICAL, type Vertical } from "./reader.ts";

/** By kind, what it counts for. */
export type KindWeights = Readonly<Record<string, number>>;

/** Facts about things seen from the player; `box 2` is of the kind `box`. */
export function placedOf(facts: readonly Fact[]): Placed[] {
  return facts.flatMap(({ subject, relations, object }) => {
    if (object !== "player") return [];
    const vertical = VERTICAL.find((value) => relations.includes(value));
    const horizontal = HORIZONTAL.find((value) => relations.includes(value));
    return [{ kind: subject.replace(/ \d+$/, ""), ...(vertical && { vertical }), ...(horizontal && { horizontal }) }];
  });
}

export type Match = {
  /** 0 to 1, over all kinds that are there or were spoken of. */
  readonly f1: number;
  /** Of each claim, whether all that it says is so of the thing it was matched with. */
  readonly right: readonly boolean[];
};

export function matchClaims(claims: readonly Placed[], truth: readonly Placed[], weights: KindWeights): Match {
  const right = claims.map(() => false);
  let sum = 0;
  let total = 0;
  for (const [kind, weight] of Object.entries(weights)) {
    const said = claims.flatMap((claim, i) => (claim.kind === kind ? [i] : []));
    const there = truth.filter((thing) => thing.kind === kind);
    if (said.length + there.length === 0) continue;
    const { f1, partner } = matchKind(
      said.map((i) => claims[i] as Placed),
      there,
    );
    said.forEach((i, row) => {
      const thing = there[partner[row] ?? -1];
      right[i] = thing !== undefined && isSo(claims[i] as Placed, thing);
    });
    total += weight;
    sum += weight * f1;
  }
  return { f1: total === 0 ? 0 : sum / total, right };
}

/** Claims and things of one kind, at least one in all; `partner` is the thing that each claim is matched with, −1 for none. */
function matchKind(said: readonly Placed[], there: readonly Placed[]): { f1: number; partner: readonly number[] } {
  const likeness = said.map((claim) => there.map((thing) => agreement(claim, thing)));
  const partner = assign(likeness);
  const agreed = partner.reduce((sum, column, row) => sum + (likeness[row]?.[column] ?? 0), 0);
  return { f1: (2 * agreed) / (said.length + there.length), partner };
}

/** Share of the two axes that are said and so. */
function agreement(claim: Placed, thing: Placed): number {
  const vertical = claim.vertical !== undefined && claim.vertical === thing.vertical ? 0.5 : 0;
  return vertical + (claim.horizontal !== undefined && claim.horizontal === thing.horizontal ? 0.5 : 0);
}

function isSo(claim: Placed, thing: Placed): boolean {
  return (
    (claim.vertical === undefined || claim.vertical === thing.vertical) &&
    (claim.horizontal === undefined || claim.horizontal === thing.horizontal)
  );
}

/**
 * For each row the column it is matched with, −1 where there are more rows than columns, so that the sum is largest: the Hungarian method with potentials,
 * shortest augmenting paths, on costs 1 − likeness.
 */
export function assign(likeness: readonly (readonly number[])[]): number[] {
  const rows = likeness.length;
  const columns = likeness[0]?.length ?? 0;
  if (rows === 0 || columns === 0) return likeness.map(() => -1);
  if (rows > columns) {
    const turned = assign(Array.from({ length: columns }, (_, c) => likeness.map((row) => row[c] ?? 0)));
    const partner = new Array<number>(rows).fill(-1);
    turned.forEach((row, column) => {
      partner[row] = column;
    });
    return partner;
  }
  // Row and column 0 are the method's own; everything else counts from 1.
  const rowPotential = new Float64Array(rows + 1);
  const columnPotential = new Float64Array(columns + 1);
  const rowOf = new Int32Array(columns + 1);
  for (let row = 1; row <= rows; row++) {
    rowOf[0] = row;
    const shortest = new Float64Array(columns + 1).fill(Number.POSITIVE_INFINITY);
    const cameFrom = new Int32Array(columns + 1);
    const used = new Uint8Array(columns + 1);
    let column = 0;
    do {
      used[column] = 1;
      const from = rowOf[column] as number;
      let next = 0;
      let least = Number.POSITIVE_INFINITY;
      for (let c = 1; c <= columns; c++) {
        if (used[c] === 1) continue;
        const cost =
          1 - (likeness[from - 1]?.[c - 1] ?? 0) - (rowPotential[from] as number) - (columnPotential[c] as number);
        if (cost < (shortest[c] as number)) {
          shortest[c] = cost;
          cameFrom[c] = column;
        }
        if ((shortest[c] as number) < least) {
          least = shortest[c] as number;
          next = c;
        }
      }
      for (let c = 0; c <= columns; c++) {
        if (used[c] === 1) {
          rowPotential[rowOf[c] as number] = (rowPotential[rowOf[c] as number] as number) + least;
          columnPotential[c] = (columnPotential[c] as number) - least;
        } else shortest[c] = (shortest[c] as number) - least;
      }
      column = next;
    } while (rowOf[column] !== 0);
    while (column !== 0) {
      const previous = cameFrom[column] as number;
      rowOf[column] = rowOf[previous] as number;
      column = previous;
    }
  }
  const partner = new Array<number>(rows).fill(-1);
  for (let c = 1; c <= columns; c++) if (rowOf[c] !== 0) partner[(rowOf[c] as number) - 1] = c - 1;
  return partner;
}

export type Baseline = {
  /** Mean F1 of places drawn at random, for as many things as there are. */
  readonly chance: number;
  /** Mean F1 of the best answer that is the same in every state, and the answer. */
  readonly constant: number;
  readonly answer: readonly Placed[];
  /** What is taken off: the larger of the two and two standard errors, since the states are a sample. */
  readonly base: number;
};

/** Every place there is. */
const PLACES: readonly { readonly vertical: Vertical; readonly horizontal: Horizontal }[] = VERTICAL.flatMap(
  (vertical) => HORIZONTAL.map((horizontal) => ({ vertical, horizontal })),
);

/** What answers that do not look earn over these states. */
export function baselineOf(states: readonly (readonly Placed[])[], weights: KindWeights): Baseline {
  const random = new NumpyRandom(mixSeed("world-model chance"));
  const guesses = states.map((truth) => {
    const guess = truth.map(({ kind }) => ({
      kind,
      ...(PLACES[random.integers(0, PLACES.length)] as (typeof PLACES)[number]),
    }));
    return matchClaims(guess, truth, weights).f1;
  });
  const { answer, scores } = bestConstant(states, weights);
  const [chance, constant] = [meanOf(guesses), meanOf(scores)];
  const error = (list: readonly number[]) =>
    Math.sqrt(meanOf(list.map((f1) => (f1 - meanOf(list)) ** 2)) / list.length);
  const margin = 2 * error(constant > chance ? scores : guesses);
  return { chance, constant, answer, base: Math.min(0.95, Math.max(chance, constant) + margin) };
}

/** Greedy: as long as saying one more thing in some place helps, it is said too. */
function bestConstant(
  states: readonly (readonly Placed[])[],
  weights: KindWeights,
): { answer: Placed[]; scores: number[] } {
  const kinds = Object.keys(weights);
  const there = kinds.map((kind) => states.map((truth) => truth.filter((thing) => thing.kind === kind)));
  const said: Placed[][] = kinds.map(() => []);
  // F1 of each kind in each state under what is said now; only one kind changes at a time.
  let f1s: number[][] = kinds.map(() => states.map(() => 0));
  const scoresOf = (lists: readonly (readonly number[])[], spoken: readonly boolean[]) =>
    states.map((_, s) => {
      let [sum, total] = [0, 0];
      kinds.forEach((kind, k) => {
        if (!spoken[k] && there[k]?.[s]?.length === 0) return;
        total += weights[kind] as number;
        sum += (weights[kind] as number) * (lists[k]?.[s] as number);
      });
      return total === 0 ? 0 : sum / total;
    });
  let scores = states.map(() => 0);
  for (;;) {
    const tries = kinds.flatMap((kind, k) =>
      PLACES.map((place) => {
        const claims = [...(said[k] as Placed[]), { kind, ...place }];
        const list = (there[k] ?? []).map((truth) => matchKind(claims, truth).f1);
        const lists = f1s.map((other, i) => (i === k ? list : other));
        return {
          k,
          claims,
          lists,
          scores: scoresOf(
            lists,
            said.map((mine, i) => i === k || mine.length > 0),
          ),
        };
      }),
    );
    const best = tries.reduce((a, b) => (meanOf(b.scores) > meanOf(a.scores) ? b : a));
    if (meanOf(best.scores) <= meanOf(scores)) return { answer: said.flat(), scores };
    said[best.k] = best.claims;
    ({ lists: f1s, scores } = best);
  }
}

function meanOf(list: readonly number[]): number {
  return list.length === 0 ? 0 : list.reduce((sum, value) => sum + value, 0) / list.length;
}
