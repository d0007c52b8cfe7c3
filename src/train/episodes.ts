/**
 * Rows seen as episodes: the sampled tokens of an episode in the order they were chosen, whatever rows they stand in. Given tokens
 * (observations, images, copied history) are passed over. What is computed on this view can't tell joined turns from split ones,
 * which is why the two layouts agree. "Sequence" in this room always means an episode.
 */
import { DataError } from "../core/errors.ts";
import type { Limit, TokenRow } from "./tokens.ts";

export type Episode = {
  readonly episode: string;
  readonly group: string;
  readonly limits: readonly Limit[];
  /** Sampled tokens. Token k is id `index[k]` of the row numbered `row[k]`. */
  readonly length: number;
  readonly row: readonly number[];
  readonly index: readonly number[];
  /** Turn k is the tokens turnStarts[k]..turnStarts[k+1]−1; one entry more than there are turns. */
  readonly turnStarts: readonly number[];
};

/** In the order in which each episode first appears. Checks the rows on the way. */
export function episodesOf(rows: readonly TokenRow[]): Episode[] {
  const members = new Map<string, number[]>();
  rows.forEach((row, r) => {
    checkRow(row);
    const list = members.get(row.episode);
    if (list === undefined) members.set(row.episode, [r]);
    else list.push(r);
  });
  return [...members.values()].map((list) => assemble(rows, list));
}

function assemble(rows: readonly TokenRow[], members: readonly number[]): Episode {
  const sorted = [...members].sort((a, b) => (rows[a] as TokenRow).order - (rows[b] as TokenRow).order);
  const first = rows[sorted[0] as number] as TokenRow;
  const row: number[] = [];
  const index: number[] = [];
  const turnStarts: number[] = [];
  let previous: TokenRow | undefined;
  for (const r of sorted) {
    const current = rows[r] as TokenRow;
    if (current.group !== first.group || current.order === previous?.order) {
      throw new DataError(
        `Two rows of episode ${current.episode} ${current.group !== first.group ? "name different groups" : `have order ${current.order}`}; ` +
          "give each episode an id of its own and number its rows.",
      );
    }
    let turn = -1;
    for (let i = 0; i < current.sampled.length; i++) {
      if (current.sampled[i] === 0) continue;
      // A row never continues a turn of the row before.
      if (current.turns[i] !== turn) {
        turn = current.turns[i] as number;
        turnStarts.push(row.length);
      }
      row.push(r);
      index.push(i);
    }
    previous = current;
  }
  turnStarts.push(row.length);
  const { episode, group, limits } = first;
  return { episode, group, limits, length: row.length, row, index, turnStarts };
}

function checkRow(row: TokenRow): void {
  const { sampled, turns, rewards, samplerLogprobs, oldLogprobs, referenceLogprobs, values } = row;
  for (const array of [turns, rewards, samplerLogprobs, oldLogprobs, referenceLogprobs, values]) {
    if (array !== undefined && array.length !== sampled.length) {
      throw new DataError(
        `A row of episode ${row.episode} has arrays of ${sampled.length} and ${array.length} numbers; give one per id.`,
      );
    }
  }
  for (let i = 0; i < sampled.length; i++) {
    // It would count for a group and vanish for a critic.
    if (sampled[i] === 0 && rewards[i] !== 0) {
      throw new DataError(
        `Episode ${row.episode} has a reward on id ${i}, which was not sampled; put it on the last sampled id of its turn.`,
      );
    }
  }
}

/** The numbers of an episode's tokens, in order. `arrays` has one array per row. */
export function gather(episode: Episode, arrays: readonly { readonly [index: number]: number }[]): Float64Array {
  return Float64Array.from(
    { length: episode.length },
    (_, k) => (arrays[episode.row[k] as number] as { [index: number]: number })[episode.index[k] as number] as number,
  );
}

/** Writes an episode's numbers back to its rows. */
export function scatter(episode: Episode, numbers: ArrayLike<number>, arrays: readonly Float32Array[]): void {
  for (let k = 0; k < episode.length; k++) {
    (arrays[episode.row[k] as number] as Float32Array)[episode.index[k] as number] = numbers[k] as number;
  }
}

/** One array of zeros per row. */
export function zerosLike(rows: readonly TokenRow[]): Float32Array[] {
  return rows.map((row) => new Float32Array(row.sampled.length));
}

/** Groups in order of appearance. */
export function byGroup<T extends { readonly group: string }>(members: readonly T[]): Map<string, T[]> {
  const groups = new Map<string, T[]>();
  for (const member of members) {
    const list = groups.get(member.group);
    if (list === undefined) groups.set(member.group, [member]);
    else list.push(member);
  }
  return groups;
}
