/**
 * Decisions of a world with an oracle: how far it is from here, and how many ways there are to go. A reply has dozens of tokens of which one decides; averaged over all
 * of them, knowing the format looks like knowing the way.
 */
import type { Json } from "../core/json.ts";
import type { Action, ActionSpec, ArgSpec } from "./action.ts";
import type { World } from "./world.ts";

export type Decision = {
  /** Actions that the oracle's plan has from here. */
  readonly distance: number;
  /** Actions that the world would take here without complaint and that end nothing; absent where they can't be counted. */
  readonly ways?: number;
  /** Those and, where ending is right, the end: what a blind choice would choose among. Absent where they can't be counted. */
  readonly choices?: number;
};

/** Undefined where there is no oracle, or it has nothing to say. */
export async function decisionIn(world: World): Promise<(Decision & { readonly plan: readonly Action[] }) | undefined> {
  const plan = await world.solve?.();
  if (plan === undefined || plan.length === 0) return undefined;
  const ways = await countWays(world);
  if (ways === undefined) return { plan, distance: plan.length };
  const right = world.actions.find(({ name }) => name === plan[0]?.name);
  const choices = right?.ends ? (right.arg.type === "word" ? ways + 1 : undefined) : ways;
  return { plan, distance: plan.length, ways, ...(choices !== undefined && { choices }) };
}

/** Actions that are tried; worlds with more have no junctions in the sense of a maze. */
const MAX_WAYS = 16;

/** Tries every action and takes it back. */
async function countWays(world: World): Promise<number | undefined> {
  const { save, load } = world;
  const actions = everyAction(world.actions.filter(({ ends }) => !ends));
  if (actions === undefined || save === undefined || load === undefined) return undefined;
  const state = await save.call(world);
  let ways = 0;
  for (const action of actions) {
    const { valid } = await world.act(action);
    await load.call(world, state);
    if (valid) ways += 1;
  }
  return ways;
}

function everyAction(specs: readonly ActionSpec[]): readonly Action[] | undefined {
  const actions: Action[] = [];
  for (const { name, arg, example } of specs) {
    const payloads = arg.type === "word" ? [example] : everyPayload(arg);
    if (payloads === undefined || actions.length + payloads.length > MAX_WAYS) return undefined;
    actions.push(...payloads.map((payload) => ({ name, payload })));
  }
  return actions;
}

function everyPayload(arg: ArgSpec): Json[] | undefined {
  if (arg.type === "int") {
    const count = arg.max - arg.min + 1;
    return count > MAX_WAYS ? undefined : Array.from({ length: count }, (_, i) => arg.min + i);
  }
  if (arg.type !== "tuple" && arg.type !== "list") return undefined;
  let all: Json[][] = [[]];
  for (const item of arg.items) {
    const payloads = everyPayload(item);
    if (payloads === undefined || all.length * payloads.length > MAX_WAYS) return undefined;
    all = all.flatMap((before) => payloads.map((payload) => [...before, payload]));
  }
  return all;
}

/** A name for numbers that are shown together: 1, 2, 3-4, 5-8, 9-16, … */
export function bucketOf(number: number): string {
  if (number <= 2) return String(number);
  const high = 2 ** Math.ceil(Math.log2(number));
  return `${high / 2 + 1}-${high}`;
}
