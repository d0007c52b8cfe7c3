/**
 * Random batches for the tests of this room: plays (groups of episodes of turns of tokens) and their rows in both layouts. A play is the
 * plain truth that brute-force versions read; rows are what the code under test gets.
 */
import fc from "fast-check";
import type { Limit, TokenRow } from "./tokens.ts";

export type PlayToken = { reward: number; value: number; sampler: number; learner: number; reference: number };
export type PlayTurn = { given: number; tokens: PlayToken[] };
export type Play = { group: string; episode: string; limits?: Limit[]; turns: PlayTurn[] };

const number = (min: number, max: number) => fc.double({ min, max, noNaN: true }).map(Math.fround);

/** `dense`: rewards on every token (as after KL penalties); otherwise on the last of each turn. */
export function playsArbitrary(dense: boolean): fc.Arbitrary<Play[]> {
  const token = fc.record({
    reward: number(-2, 2),
    value: number(-3, 3),
    sampler: number(-4, 0),
    learner: number(-4, 0),
    reference: number(-4, 0),
  });
  const turn = fc
    .record({ given: fc.nat(3), tokens: fc.array(token, { minLength: 1, maxLength: 4 }) })
    .map(({ given, tokens }) => ({
      given,
      tokens: tokens.map((t, k) => ({ ...t, reward: dense || k === tokens.length - 1 ? t.reward : 0 })),
    }));
  const episode = fc.record({
    limits: fc.subarray<Limit>(["reply", "last-reply", "turns", "context"]),
    turns: fc.array(turn, { minLength: 1, maxLength: 4 }),
  });
  const group = fc.array(episode, { minLength: 1, maxLength: 4 });
  return fc
    .array(group, { minLength: 1, maxLength: 4 })
    .map((groups) =>
      groups.flatMap((siblings, g) => siblings.map((e, s) => ({ group: `g${g}`, episode: `${g}/${s}`, ...e }))),
    );
}

type Cell = { token?: PlayToken; turn: number };

function rowOf(play: Play, order: number, cells: readonly Cell[]): TokenRow {
  const floats = (read: (token: PlayToken) => number) => Float32Array.from(cells, (c) => (c.token ? read(c.token) : 0));
  return {
    group: play.group,
    episode: play.episode,
    order,
    sampled: Uint8Array.from(cells, (c) => (c.token ? 1 : 0)),
    turns: Int32Array.from(cells, (c) => (c.token ? c.turn : -1)),
    rewards: floats((t) => t.reward),
    samplerLogprobs: floats((t) => t.sampler),
    oldLogprobs: floats((t) => t.learner),
    referenceLogprobs: floats((t) => t.reference),
    // A critic says something at given ids too; nobody may read it.
    values: Float32Array.from(cells, (c) => c.token?.value ?? 77),
    limits: play.limits ?? [],
  };
}

const given = (count: number, turn: number): Cell[] => Array.from({ length: count }, () => ({ turn }));

export function joinedRows(plays: readonly Play[]): TokenRow[] {
  return plays.map((play) =>
    rowOf(
      play,
      0,
      play.turns.flatMap(({ given: count, tokens }, turn) => [
        ...given(count, turn),
        ...tokens.map((token) => ({ token, turn })),
      ]),
    ),
  );
}

/** One row per turn with the turn before as given history; the rows of a batch come in a shuffled order. */
export function splitRows(plays: readonly Play[]): TokenRow[] {
  const rows = plays.flatMap((play) =>
    play.turns.map(({ given: count, tokens }, turn) => {
      const history = turn === 0 ? 0 : (play.turns[turn - 1]?.tokens.length ?? 0);
      return rowOf(play, turn, [...given(history + count, turn), ...tokens.map((token) => ({ token, turn }))]);
    }),
  );
  return [...rows.filter((_, r) => r % 2 === 1).reverse(), ...rows.filter((_, r) => r % 2 === 0)];
}

/** Per episode, the numbers at its sampled tokens in order. */
export function readBack(rows: readonly TokenRow[], arrays: readonly Float32Array[]): Map<string, number[]> {
  const result = new Map<string, number[]>();
  const order = rows.map((_, r) => r).sort((a, b) => (rows[a]?.order ?? 0) - (rows[b]?.order ?? 0));
  for (const r of order) {
    const row = rows[r] as TokenRow;
    const list = result.get(row.episode) ?? [];
    row.sampled.forEach((flag, i) => {
      if (flag === 1) list.push(arrays[r]?.[i] as number);
    });
    result.set(row.episode, list);
  }
  return result;
}
