/**
 * Pays for what a reply says of its world: `state` for what it says it sees (`<observation>`), `transition` for what it says it will see (`<prediction>`), each
 * on the last token of what was said. Replies out of form are not looked at, and who claims nothing earns nothing. What is not seen earns nothing in the
 * mean: the world's baseline is taken off, and a prediction must beat saying that all stays as it is. So a part may be negative: a wrong claim costs
 * what a guess would have earned.
 */

import { NumpyRandom } from "../../core/random-numpy.ts";
import { mixSeed } from "../../core/seed.ts";
import { sampleAction } from "../args.ts";
import type { RewardPart } from "../env.ts";
import type { Section } from "../protocol.ts";
import type { World } from "../world.ts";
import type { Scorer } from "../world-env.ts";
import { type Placed, readClaims, type ThingWords } from "./reader.ts";
import { type Baseline, baselineOf, type KindWeights, matchClaims, placedOf } from "./score.ts";

/** The kinds of things that a world's facts speak of: other words for each, and what it counts for (1 unless said). */
export type Things = Readonly<Record<string, { readonly words?: readonly string[]; readonly weight?: number }>>;

/** What a description that is wholly right is paid. */
export type WorldModelPay = { readonly state: number; readonly transition: number };

export const wordsOf = (things: Things): ThingWords =>
  Object.fromEntries(Object.entries(things).map(([kind, { words = [] }]) => [kind, words]));
export const weightsOf = (things: Things): KindWeights =>
  Object.fromEntries(Object.entries(things).map(([kind, { weight = 1 }]) => [kind, weight]));

/** Scores the turns of one environment; it remembers what was so before the actions of the turn. */
export function worldModelScorer(things: Things, pay: WorldModelPay, { base }: Baseline): Scorer {
  const [words, weights] = [wordsOf(things), weightsOf(things)];
  let before: readonly Placed[] = [];
  return async ({ when, parsed, world }) => {
    const truth = placedOf((await world.facts?.()) ?? []);
    const name = when === "before" ? "state" : "transition";
    const section = parsed.sections[when === "before" ? "observation" : "prediction"];
    const unchanged = when === "after" ? matchClaims(before, truth, weights).f1 : 0;
    if (when === "before") before = truth;
    if (pay[name] === 0 || section === undefined || !parsed.wellFormed) return [];
    return [partOf(name, pay[name], section, { words, weights, truth, base, unchanged })];
  };
}

/** What F1 is worth, 1 for all of it, beyond what guessing earns and beyond what saying that all stays as it is would. */
export function gainOver(f1: number, base: number, unchanged: number): number {
  const floor = Math.max(base, unchanged);
  // Below the floor the loss is counted on the world's own scale: where little can be gained, little is at stake.
  return f1 > floor ? (f1 - floor) / (1 - floor) : (f1 - floor) / (1 - base);
}

type Measure = {
  readonly words: ThingWords;
  readonly weights: KindWeights;
  readonly truth: readonly Placed[];
  readonly base: number;
  /** F1 of saying that all stays as it is. */
  readonly unchanged: number;
};

function partOf(name: string, pay: number, section: Section, measure: Measure): RewardPart {
  const { words, weights, truth, base, unchanged } = measure;
  const claims = readClaims(section.text, words);
  if (claims.length === 0) return { name, value: 0, span: section.span };
  const { f1, right } = matchClaims(claims, truth, weights);
  const gain = gainOver(f1, base, unchanged);
  const at = section.span[0];
  const marks = claims.map(({ span }, i) => ({
    span: [at + span[0], at + span[1]] as const,
    right: right[i] ?? false,
  }));
  return { name, value: pay * gain, span: section.span, claims: marks };
}

/** States that the baseline is taken over. */
const STATES = 384;
const known = new Map<string, Promise<Baseline>>();

/** The baseline of a world, from states of many seeds after a few random moves; computed once for a world and its options. */
export function worldBaseline(key: string, things: Things, create: () => Promise<World>): Promise<Baseline> {
  const found = known.get(key) ?? create().then((world) => measureBaseline(world, things));
  known.set(key, found);
  found.catch(() => known.delete(key));
  return found;
}

async function measureBaseline(world: World, things: Things): Promise<Baseline> {
  const states: Placed[][] = [];
  const lasting = world.actions.filter((spec) => !spec.ends);
  for (let i = 0; i < STATES; i++) {
    const seed = mixSeed("world-model baseline", i) % 2 ** 31;
    const random = new NumpyRandom(seed);
    await world.reset(seed);
    for (let moves = random.integers(0, 4); moves > 0 && lasting.length > 0; moves--) {
      if ((await world.act(sampleAction(lasting, random))).ended) break;
    }
    states.push(placedOf((await world.facts?.()) ?? []));
  }
  await world.close?.();
  return baselineOf(states, weightsOf(things));
}
