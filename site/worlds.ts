/**
 * Worlds that a reader plays in a page of the docs: the files that models train on, without Node. `scripts/site.ts` bundles this into one module, which the page loads
 * when it is asked to play. Directions are what the arrow keys say; a world that ends only when told to gets a button for it.
 */
import type { Image } from "../src/core/image.ts";
import { type Action, type ActionSpec, act } from "../src/envs/action.ts";
import type { World } from "../src/envs/world.ts";
import { frozenLake } from "../worlds/frozen-lake/frozen-lake.ts";
import { maze2d } from "../worlds/maze-2d/maze-2d.ts";
import { sokoban } from "../worlds/sokoban/sokoban.ts";

const WORLDS = { frozen_lake: frozenLake, maze_2d: maze2d, sokoban } as const;

export const names = Object.keys(WORLDS) as (keyof typeof WORLDS)[];
export const DIRECTIONS = ["up", "left", "down", "right"] as const;

export type Seen = { readonly width: number; readonly height: number; readonly data: Uint8Array };
export type Game = {
  readonly task: string;
  /** Words that can be played: the four directions, and `stop` where there is one. */
  readonly moves: readonly string[];
  frame(): Promise<Seen>;
  /** What came of a move, in words; `over` with the result when it ended the episode. */
  move(word: string): Promise<{ readonly said: string; readonly over?: boolean; readonly won: boolean }>;
  /** The oracle's next word; undefined: there is no way on. */
  hint(): Promise<string | undefined>;
};

export async function start(name: keyof typeof WORLDS, seed: number): Promise<Game> {
  const definition = WORLDS[name];
  const world = (await definition.create(definition.options.parse({}) as never)) as World;
  await world.reset(seed);
  const words = new Map(world.actions.flatMap(wordsOf));
  return {
    task: await world.task("brief", "image"),
    moves: [...words.keys()],
    frame: async () => (await world.observe("image")) as Image,
    async move(word) {
      const action = words.get(word);
      if (action === undefined) return { said: "", won: false };
      const { valid, feedback, ended } = await world.act(action);
      const won = await world.success();
      return { said: valid ? "" : (feedback ?? "That is not possible."), over: ended || won, won };
    },
    async hint() {
      const [next] = (await world.solve?.()) ?? [];
      return next === undefined ? undefined : [...words].find(([, action]) => same(action, next))?.[0];
    },
  };
}

const same = (a: Action, b: Action) => JSON.stringify(a) === JSON.stringify(b);

function wordsOf({ name, arg }: ActionSpec): [string, Action][] {
  if (arg.type === "word") return [[name, act(name)]];
  if (arg.type !== "int") return [];
  return (arg.labels ?? []).map((label, index) => [label, act(name, arg.min + index)]);
}
