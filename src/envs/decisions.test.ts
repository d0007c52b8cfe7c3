/** What a world with an oracle says of the decision it stands before. */
import { expect, test } from "vitest";
import { act } from "./action.ts";
import { bucketOf, decisionIn } from "./decisions.ts";
import { makeWorld } from "./index.ts";

test("a maze: the way is as long as the oracle's plan, the ways are the open sides, and nothing has moved", async () => {
  const world = await makeWorld("maze_2d/easy");
  const kinds = new Set<number>();
  for (let seed = 0; seed < 20; seed++) {
    await world.reset(seed);
    const plan = (await world.solve?.()) ?? [];
    for (const [i, action] of plan.entries()) {
      const before = await world.save?.();
      const decision = await decisionIn(world);
      expect(await world.save?.()).toEqual(before);
      let open = 0;
      for (let side = 0; side < 4; side++) {
        open += (await world.act(act("move", side))).valid ? 1 : 0;
        await world.load?.(before ?? null);
      }
      // On the goal the right thing is to stop, which is one more choice.
      const last = i === plan.length - 1;
      expect(decision).toMatchObject({ distance: plan.length - i, ways: open, choices: last ? open + 1 : open });
      kinds.add(open);
      await world.act(action);
    }
  }
  expect([...kinds].toSorted()).toEqual([1, 2, 3, 4]);
});

test("a choice that can't be counted has no number, and what can't be solved is no decision", async () => {
  const blocks = await makeWorld("sliding_block/easy");
  await blocks.reset(1);
  expect(Object.keys((await decisionIn(blocks)) ?? {})).toEqual(["plan", "distance"]);
  const colours = await makeWorld("color_codeword");
  await colours.reset(1);
  while (((await decisionIn(colours))?.distance ?? 0) > 1)
    await colours.act((await colours.solve?.())?.[0] ?? act("none"));
  // The last one names a code: blind guessing is no choice among ways.
  expect(await decisionIn(colours)).toMatchObject({ distance: 1 });
  expect(await decisionIn(colours)).not.toHaveProperty("choices");
  const box = await makeWorld("sokoban");
  expect(await decisionIn({ ...box, actions: box.actions, solve: () => [] } as unknown as typeof box)).toBeUndefined();
});

test("numbers are shown in buckets that double", () => {
  expect([1, 2, 3, 4, 5, 8, 9, 16, 17].map(bucketOf)).toEqual([
    "1",
    "2",
    "3-4",
    "3-4",
    "5-8",
    "5-8",
    "9-16",
    "9-16",
    "17-32",
  ]);
});
