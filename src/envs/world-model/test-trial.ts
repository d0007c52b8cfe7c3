/**
 * A trial of descriptions on real worlds, for tests and `npm run bench -- reader`: tasks for a writer who has seen nothing but the prompt, and the pay of what was written. Every text goes
 * through the environment as a model's reply does, with all other tags in order.
 */
import type { Json } from "../../core/json.ts";
import { NumpyRandom } from "../../core/random-numpy.ts";
import { mixSeed } from "../../core/seed.ts";
import type { Action } from "../action.ts";
import { sampleAction } from "../args.ts";
import { makeWorldEnv, worldModelOf } from "../registry.ts";
import type { Observation } from "../world.ts";
import type { WorldEnv } from "../world-env.ts";
import { readText } from "./reader.ts";
import { type Placed, placedOf, type View } from "./view.ts";

/** Descriptions of a state (`observation`), or of what will be after an action (`prediction`). */
export type Task = {
  readonly id: string;
  readonly env: string;
  readonly options?: Readonly<Record<string, Json>>;
  readonly seed: number;
  readonly section: "observation" | "prediction";
};

/** What was written: true, false, or made to be paid without saying what is so. */
export type Written = {
  readonly task: string;
  readonly style: string;
  readonly kind: "true" | "false" | "gaming";
  readonly text: string;
};

export type Scored = Written & {
  /** The pay, where 0 is silence and `most` the whole truth in the prescribed form. */
  readonly pay: number;
  readonly most: number;
  readonly claims: readonly string[];
  /** What was read is the truth, all of it. */
  readonly exact: boolean;
};

const OPTIONS = { protocol: { name: "world-model", maxActions: 1 }, worldModel: { state: 1, transition: 1 } } as const;
const BOARDS = ["sokoban", "frozen_lake"];
const ENVS = [...BOARDS, "maze_2d", "matchstick_rotation", "navigation", "fetch_reach", "fetch_pick_and_place"];
const TABLES = ["align", "place", "drawer", "stack"].map((task) => `primitive_skill/${task}`);

/** Twelve boards of each world with a player and things, fewer of the others. */
export function trialTasks(firstSeed: number): Task[] {
  const tasksOf = (env: string, count: number, section: Task["section"], from: number, options?: Task["options"]) =>
    Array.from({ length: count }, (_, i): Task => {
      const what = `${section === "observation" ? "" : "next-"}${options === undefined ? "" : "other-"}`;
      const id = `${env.replace("/", "-")}-${what}${i + 1}`;
      return { id, env, ...(options && { options }), seed: firstSeed + from + i, section };
    });
  return [
    ...BOARDS.flatMap((env) => [...tasksOf(env, 12, "observation", 0), ...tasksOf(env, 4, "prediction", 100)]),
    ...tasksOf("sokoban", 4, "observation", 200, { boxes: 2 }),
    ...tasksOf("frozen_lake", 4, "observation", 200, { size: 6, minSteps: 4 }),
    ...ENVS.slice(BOARDS.length).flatMap((env) => tasksOf(env, 3, "observation", 0)),
    ...TABLES.flatMap((env) => tasksOf(env, 1, "observation", 0)),
  ];
}

export type Posed = {
  readonly prompt: string;
  readonly seen: Observation;
  readonly text: Observation;
  /** What to describe, in words: of the state, or of the one after `action`. */
  readonly facts: readonly string[];
  readonly action?: string;
};

/** A task as a writer needs it; a `prediction` is of an action that changes what can be said. */
export async function pose(task: Task): Promise<Posed> {
  const { env, view } = await open(task);
  const [message] = (await env.reset(task.seed)).slice(-1);
  const prompt = (message?.content ?? []).map((part) => (part.type === "text" ? part.text : "<image>")).join("\n");
  const [seen, text] = [await env.world.observe("image"), await env.world.observe("text")];
  const state = await env.world.save?.();
  const action = task.section === "prediction" ? await telling(env, view) : undefined;
  if (action !== undefined) await env.world.act(action);
  const facts = (await env.world.facts?.()) ?? [];
  const words = facts.map(
    ({ subject, relations, object }) => `${subject}: ${relations.join(", ")} (seen from ${object})`,
  );
  await env.world.load?.(state as Json);
  const said = action === undefined ? {} : { action: env.describe([action]) };
  return { prompt, seen, text, facts: words, ...said };
}

/** What texts are paid. */
export async function score(tasks: readonly Task[], texts: readonly Written[]): Promise<Scored[]> {
  const scored: Scored[] = [];
  for (const written of texts) {
    const task = tasks.find(({ id }) => id === written.task);
    if (task === undefined) throw new Error(`There is no task "${written.task}".`);
    const { env, view } = await open(task);
    await env.reset(task.seed);
    const state = await env.world.save?.();
    const action = (task.section === "prediction" ? await telling(env, view) : undefined) ?? still(env);
    if (task.section === "prediction") await env.world.act(action);
    const truth = placedOf((await env.world.facts?.()) ?? [], view);
    await env.world.load?.(state as Json);
    const pay = async (text: string) => {
      await env.reset(task.seed);
      const reply = env.protocol.print([action], env.world.actions, { [task.section]: "¤" });
      const { rewards } = await env.step(reply.replace("¤", () => text));
      const name = task.section === "observation" ? "state" : "transition";
      return rewards.find((part) => part.name === name)?.value ?? 0;
    };
    const claims = readText(written.text.trim(), view).claims;
    const most = await pay(truth.map((thing) => shown(thing, view)).join("; "));
    const exact = sorted(claims, view) === sorted(truth, view);
    scored.push({
      ...written,
      pay: await pay(written.text),
      most,
      claims: claims.map((one) => shown(one, view)),
      exact,
    });
  }
  return scored;
}

const shown = ({ kind, at }: Placed, { axes }: View) =>
  `${kind}: ${at.flatMap((place, axis) => (place === undefined ? [] : [axes[axis]?.[place]])).join(", ")}`;
const sorted = (things: readonly Placed[], view: View) =>
  things
    .map((thing) => shown(thing, view))
    .sort()
    .join("; ");

const opened = new Map<string, Promise<{ env: WorldEnv; view: View }>>();

/** One environment for each name, reset for every use. */
function open({ env: name, options = {} }: Task): Promise<{ env: WorldEnv; view: View }> {
  const key = JSON.stringify([name, options]);
  const found = opened.get(key) ?? makeBoth(name, options);
  opened.set(key, found);
  return found;
}

async function makeBoth(name: string, options: NonNullable<Task["options"]>) {
  return { env: await makeWorldEnv(name, { ...options, ...OPTIONS }), view: (await worldModelOf(name, options)).view };
}

const still = ({ world }: WorldEnv): Action => sampleAction(world.actions, new NumpyRandom(mixSeed("trial")));

/** The first action, in the world's order, after which other things are true. */
async function telling({ world }: WorldEnv, view: View): Promise<Action | undefined> {
  const state = (await world.save?.()) as Json;
  const now = sorted(placedOf((await world.facts?.()) ?? [], view), view);
  for (const spec of world.actions) {
    const action: Action = { name: spec.name, payload: spec.example };
    await world.act(action);
    const next = sorted(placedOf((await world.facts?.()) ?? [], view), view);
    await world.load?.(state);
    if (next !== now) return action;
  }
  return undefined;
}
