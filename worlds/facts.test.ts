/** What worlds without a player know of their things' places. */
import { expect, test } from "vitest";
import { type Fact, makeWorld } from "../src/envs/index.ts";

const IN_PLACE = ["same row", "same column", "on"];
const inPlace = (fact: Fact) => fact.relations.every((relation) => IN_PLACE.includes(relation));
const WORLDS: readonly [string, Record<string, unknown>][] = [
  ["sliding_block", { shuffleMoves: 6 }],
  ["jigsaw", { rows: 2, columns: 3 }],
  ["patch_reassembly", {}],
  ["matchstick_rotation", {}],
  ["video_unshuffle", {}],
  ["zoom_in_puzzle", {}],
];

test.each(WORLDS)(
  "%s: everything is said to be in its place when it is solved, and not before",
  async (id, options) => {
    const world = await makeWorld(id, options);
    for (const seed of [2, 3, 4, 5]) {
      await world.reset(seed);
      const plan = ((await world.solve?.()) ?? []).filter(({ name }) => name !== "stop");
      expect((await world.facts?.())?.every(inPlace), `seed ${seed}`).toBe(plan.length === 0);
      for (const action of plan) await world.act(action);
      expect((await world.facts?.())?.every(inPlace), `seed ${seed}`).toBe(true);
    }
  },
);

test("a piece that lies to the right of its place is said to", async () => {
  const world = await makeWorld("jigsaw", { rows: 1, columns: 2 });
  await world.reset(0);
  expect(await world.facts?.()).toEqual([
    { subject: "piece at (0, 0)", relations: ["same row", "left"], object: "its place" },
    { subject: "piece at (0, 1)", relations: ["same row", "right"], object: "its place" },
  ]);
});

test("a stick in the upper right corner has its target below and to the left, unless it is there itself", async () => {
  const world = await makeWorld("matchstick_rotation");
  for (const seed of [1, 2, 3, 4, 5, 6]) {
    await world.reset(seed);
    await world.act({ name: "move", payload: [1e6, 1e6, 0] });
    const [fact] = (await world.facts?.()) ?? [];
    expect(fact).toMatchObject({ subject: "target", object: "player" });
    expect(["below", "same row"]).toContain(fact?.relations[0]);
    expect(["left", "same column"]).toContain(fact?.relations[1]);
  }
});
