/**
 * Pays for what a reply says of its world: `state` for what it says it sees (`<observation>`), `transition` for what it says it will see (`<prediction>`), each
 * on the last token of what was said. Replies out of form are not looked at, and a text that claims nothing, or is not read, earns nothing and costs nothing.
 */
import { makeOnce } from "../../core/make-once.ts";
import { NumpyRandom } from "../../core/random-numpy.ts";
import { mixSeed } from "../../core/seed.ts";
import { sampleAction } from "../args.ts";
import type { Fact, World } from "../world.ts";
import type { Scorer } from "../world-env.ts";
import { type Reading, readText } from "./reader.ts";
import { drawnCells } from "./reader-data.ts";
import { cellsHold, Luck, linksHold, matchClaims, worthOf } from "./score.ts";
import { type Located, linkedOf, type Placed, placedOf, type View } from "./view.ts";

/** What a description that says all of the truth is paid. */
export type WorldModelPay = { readonly state: number; readonly transition: number };

/** Scores the turns of one environment; it remembers what was so before the actions of the turn. */
export function worldModelScorer(view: View, pay: WorldModelPay, luck: Luck): Scorer {
  let before: readonly Placed[] = [];
  return async ({ when, parsed, world }) => {
    const facts = (await world.facts?.()) ?? [];
    const truth = placedOf(facts, view);
    const name = when === "before" ? "state" : "transition";
    const section = parsed.sections[when === "before" ? "observation" : "prediction"];
    const earlier = when === "before" ? undefined : before;
    if (when === "before") before = truth;
    if (pay[name] === 0 || section === undefined || !parsed.wellFormed) return [];
    const reading = readText(section.text, view);
    const so = await groundsHold(reading, facts, world, view);
    const claims = so === undefined ? [] : reading.claims;
    const worth = worthOf(claims, truth, { things: view.things, luck }, earlier, so);
    const partner = matchClaims(claims, truth);
    const [at] = section.span;
    const marks = claims.map(({ span }, i) => ({
      span: [at + span[0], at + span[1]] as const,
      right: so === true && (partner[i] ?? -1) >= 0,
    }));
    return [{ name, value: pay[name] * worth, span: section.span, ...(marks.length > 0 && { claims: marks }) }];
  };
}

/** Whether the cells and links of a text are so; undefined where the world can't tell. */
async function groundsHold({ cells, links }: Reading, facts: readonly Fact[], world: World, view: View) {
  if (cells.length + links.length === 0) return true;
  const board = await boardOf(world, placedOf(facts, view), view);
  if (cells.length > 0 && board === undefined) return undefined;
  if (!cellsHold(cells, board ?? [])) return false;
  return linksHold(links, linkedOf(facts, board ?? [], view));
}

/** The true cells, of the world's text board; undefined where it has none, or one that does not show every thing. */
async function boardOf(world: World, truth: readonly Placed[], view: View): Promise<readonly Located[] | undefined> {
  const seen = view.legend && (await world.observe("text"));
  const board = typeof seen === "string" ? drawnCells(seen, view) : undefined;
  const count = (list: readonly string[], name: string) => list.filter((one) => one === name).length;
  const [drawn, there] = [board?.map(({ name }) => name) ?? [], [view.from, ...truth.map(({ kind }) => kind)]];
  return there.every((name) => count(drawn, name) === count(there, name)) ? board : undefined;
}

const known = new Map<string, Promise<Luck>>();

/** States of many seeds after a few random moves; made once for a world and its options. */
export function worldLuck(key: string, view: View, create: () => Promise<World>): Promise<Luck> {
  return makeOnce(known, key, async () => drawStates(await create(), view));
}

async function drawStates(world: World, view: View): Promise<Luck> {
  const states: Placed[][] = [];
  const lasting = world.actions.filter((spec) => !spec.ends);
  for (let i = 0; i < (view.states ?? 384); i++) {
    const seed = mixSeed("world-model baseline", i) % 2 ** 31;
    const random = new NumpyRandom(seed);
    await world.reset(seed);
    for (let moves = random.integers(0, 4); moves > 0 && lasting.length > 0; moves--) {
      if ((await world.act(sampleAction(lasting, random))).ended) break;
    }
    states.push(placedOf((await world.facts?.()) ?? [], view));
  }
  await world.close?.();
  return new Luck(states, view.things, view.told);
}
