/**
 * What a description is worth, 1 for all of the truth. It is either so or not: every claim must hold of a thing of its own, so one false claim, or one thing more than there is, makes all of it
 * false. What is so earns the share of the truth that it says; what is not costs what its words would have earned by luck, over states of the very world. So true words never earn
 * less than silence, and words that were chosen without looking earn nothing in the mean, whatever they are and however many.
 */
import type { Linked, Located, Placed, Things } from "./view.ts";

/** Whether all that a claim says is so of a thing. */
const isSo = (claim: Placed, thing: Placed) =>
  claim.kind === thing.kind && claim.at.every((place, axis) => place === undefined || place === thing.at[axis]);

/** For each claim the thing that it is said of, each of another one, so that as many as can be have one; −1 for none. Augmenting paths. */
export function matchClaims(claims: readonly Placed[], truth: readonly Placed[]): number[] {
  const claimOf = new Map<number, number>();
  const place = (claim: number, tried: Set<number>): boolean =>
    truth.some((thing, t) => {
      if (tried.has(t) || !isSo(claims[claim] as Placed, thing)) return false;
      tried.add(t);
      const other = claimOf.get(t);
      if (other !== undefined && !place(other, tried)) return false;
      claimOf.set(t, claim);
      return true;
    });
  const partner = claims.map(() => -1);
  if (truth.length > 0) claims.forEach((_, claim) => void place(claim, new Set()));
  for (const [t, claim] of claimOf) partner[claim] = t;
  return partner;
}

export const holds = (claims: readonly Placed[], truth: readonly Placed[]): boolean =>
  claims.length <= truth.length && matchClaims(claims, truth).every((thing) => thing >= 0);

/** How much of the truth claims speak of: axes said of axes there, kind by kind, by what each counts for. */
export function shareOf(claims: readonly Placed[], truth: readonly Placed[], things: Things): number {
  let [sum, total] = [0, 0];
  for (const [kind, { weight = 1 }] of Object.entries(things)) {
    const axes = (list: readonly Placed[]) =>
      list.reduce((n, one) => n + (one.kind === kind ? one.at.filter((place) => place !== undefined).length : 0), 0);
    const there = axes(truth);
    if (there === 0) continue;
    total += weight;
    sum += weight * Math.min(1, axes(claims) / there);
  }
  return total === 0 ? 0 : sum / total;
}

const OFFSETS = [-1, 0, 1];

/** Whether all these cells are so, however they are counted: from 0 or 1, with or without a border around the board. */
export function cellsHold(said: readonly Located[], board: readonly Located[]): boolean {
  const keys = (list: readonly Located[], down = 0, right = 0) =>
    new Set(list.map(({ name, cell: [row, column] }) => `${name} ${row + down} ${column + right}`));
  const there = keys(board);
  return (
    keys(said).size === said.length &&
    OFFSETS.some((down) => OFFSETS.some((right) => [...keys(said, down, right)].every((key) => there.has(key))))
  );
}

/** Whether all these links are so; undefined where that can't be told: nobody knows, or it is so of one pair of such things and not of another. */
export function linksHold(said: readonly Linked[], truth: readonly Linked[]): boolean | undefined {
  const each = said.map((link) => {
    const pairs = truth.filter(
      ({ kind, from, at }) =>
        kind === link.kind &&
        from === link.from &&
        link.at.every((place, axis) => place === undefined || at[axis] !== undefined),
    );
    const so = pairs.filter((pair) => isSo(link, pair)).length;
    return so === 0 && pairs.length > 0 ? false : so > 0 && so === pairs.length ? true : undefined;
  });
  return each.includes(false) ? false : each.includes(undefined) ? undefined : true;
}

type Odds = { readonly win: number; readonly loss: number };

type State = readonly Placed[];

const kindsOf = (truth: State) => [...new Set(truth.map(({ kind }) => kind))];
/** With numbers in place of names. */
const unnamed = (list: State, kinds: readonly string[]) =>
  list.map((one) => ({ ...one, kind: String(kinds.indexOf(one.kind)) }));

/**
 * States of a world, to tell what words earn by luck. Where the prompt tells the names (`told`), a name is no luck: all states count, with the things of this one in place of theirs. Otherwise
 * "red cube from blue cube: same height", which is so of any two cubes, would pass for a rare truth.
 */
export class Luck {
  readonly #states: readonly State[];
  readonly #things: Things;
  readonly #told: boolean;
  readonly #known = new Map<string, Odds>();

  constructor(states: readonly State[], things: Things, told = false) {
    this.#told = told;
    this.#states = told ? states.map((state) => unnamed(state, kindsOf(state))) : states;
    this.#things = told
      ? Object.fromEntries(states.flatMap((state) => kindsOf(state).map((_, i) => [String(i), {}])))
      : things;
  }

  /** What these claims win, a share of the truth where they are so, and lose where they are not, so that over all states both cancel out. */
  odds(said: State, truth: State): Odds {
    const claims = this.#told ? unnamed(said, kindsOf(truth)) : said;
    const key = claims
      .map(({ kind, at }) => `${kind} ${at.join()}`)
      .sort()
      .join(";");
    const known = this.#known.get(key);
    if (known !== undefined) return known;
    const so = this.#states.filter((truth) => holds(claims, truth));
    const shares = so.reduce((sum, truth) => sum + shareOf(claims, truth, this.#things), 0);
    // Two standard errors more, since the states are a sample.
    const often = Math.min(0.99, (so.length + 2 * Math.sqrt(so.length + 1)) / Math.max(1, this.#states.length));
    // What is nearly always so wins little, and nothing loses more than all.
    const win = Math.min(1, (1 - often) / often);
    const odds = { win, loss: (win * (shares / Math.max(1, so.length)) * often) / (1 - often) };
    if (this.#known.size >= MAX_KNOWN) this.#known.clear();
    this.#known.set(key, odds);
    return odds;
  }
}

const MAX_KNOWN = 20_000;

/**
 * −1 to 1, and 0 for claiming nothing. With `before`, what was so before the action, claims are a prediction: what was so already foresees nothing. `so` is whether the cells and links that
 * the claims were drawn from are so.
 */
export function worthOf(
  claims: readonly Placed[],
  truth: readonly Placed[],
  { things, luck }: { readonly things: Things; readonly luck: Luck },
  before?: readonly Placed[],
  so = true,
): number {
  if (claims.length === 0) return 0;
  const { win, loss } = luck.odds(claims, truth);
  if (!so || !holds(claims, truth)) return -loss;
  return before !== undefined && holds(claims, before) ? 0 : win * shareOf(claims, truth, things);
}
