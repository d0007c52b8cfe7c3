/**
 * The reward for a description; 1 for the whole truth. A description is true or false as a whole: every claim must hold for a different thing, so one false claim, or one thing too many, makes
 * it false. A true description earns the share of the truth that it covers. A false one costs what its words would have earned by luck, averaged over states of the same world. So a true description
 * never earns less than silence, and a description that was chosen without looking earns nothing on average, however long it is.
 */
import type { Linked, Located, Placed, Things } from "./view.ts";

/** Whether everything that a claim says holds for a thing. */
const isSo = (claim: Placed, thing: Placed) =>
  claim.kind === thing.kind && claim.at.every((place, axis) => place === undefined || place === thing.at[axis]);

/** For each claim a thing for which it holds (−1: none). No thing is used twice, and as many claims as possible get one, by augmenting paths. */
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

/** The share of the truth that claims cover: for each kind, the axes that are stated divided by the axes that exist, averaged by the kinds' weights. */
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

/** Whether all these cells are true, whether they are counted from 0 or 1, with or without a border around the board. */
export function cellsHold(said: readonly Located[], board: readonly Located[]): boolean {
  const keys = (list: readonly Located[], down = 0, right = 0) =>
    new Set(list.map(({ name, cell: [row, column] }) => `${name} ${row + down} ${column + right}`));
  const there = keys(board);
  return (
    keys(said).size === said.length &&
    OFFSETS.some((down) => OFFSETS.some((right) => [...keys(said, down, right)].every((key) => there.has(key))))
  );
}

/** Whether all these links are true; undefined if that can't be decided: the facts don't say, or the link holds for one pair of such things and not for another. */
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
/** The same things with numbers instead of names. */
const unnamed = (list: State, kinds: readonly string[]) =>
  list.map((one) => ({ ...one, kind: String(kinds.indexOf(one.kind)) }));

/**
 * States of a world, to compute what a description earns by luck. If the prompt lists the names (`told`), a correct name is not luck: then all states count, with their things renamed to those of
 * this state. Otherwise "red cube from blue cube: same height", which holds for any two cubes, would count as a rare truth.
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

  /** What these claims win if they are true (per share of the truth) and lose if they are false. Over all states both cancel out. */
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
    // Plus two standard errors, because the states are a sample.
    const often = Math.min(0.99, (so.length + 2 * Math.sqrt(so.length + 1)) / Math.max(1, this.#states.length));
    // Claims that are nearly always true win little; no loss is above 1.
    const win = Math.min(1, (1 - often) / often);
    const odds = { win, loss: (win * (shares / Math.max(1, so.length)) * often) / (1 - often) };
    if (this.#known.size >= MAX_KNOWN) this.#known.clear();
    this.#known.set(key, odds);
    return odds;
  }
}

const MAX_KNOWN = 20_000;

/**
 * From −1 to 1; 0 without claims. With `before`, the truth before the action, the claims are a prediction, and earn nothing if they held already. `so`: whether the cells and links from which
 * the claims were made are true.
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
