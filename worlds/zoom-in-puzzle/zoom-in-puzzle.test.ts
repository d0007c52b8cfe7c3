import { describe, expect, test } from "vitest";
import type { Image, Json } from "../../src/core/index.ts";
import { act } from "../../src/envs/index.ts";
import { difference, goldenFrame, PHOTOS, playRecorded, type Recorded, recorded } from "../shared/test-replay.ts";
import { type ZoomInPuzzle, zoomInPuzzle } from "./zoom-in-puzzle.ts";

const make = async (given: object = {}) =>
  (await zoomInPuzzle.create(zoomInPuzzle.options.parse(given))) as ZoomInPuzzle;
type State = { zoom_levels: number[]; crop_boxes: number[][]; current_view_order: number[] };

describe.each([
  ["easy", 4],
  ["hard", 5],
])("VisGym's recorded %s episodes", (difficulty, views) => {
  const episodes = recorded<Recorded<{ order: number[] }>>(`zoom_in_puzzle_${difficulty}`);

  test.each(episodes)("seed $seed ($mode) replays action by action", async (episode) => {
    const world = await make({ views, folder: PHOTOS });
    world.load(episode.state);
    for (const step of episode.steps) {
      if (step.raises !== undefined) continue;
      const { reward, terminated, ok, feedback_kind } = step;
      expect(await playRecorded(world, step.action), step.action).toEqual({ reward, terminated, ok, feedback_kind });
      expect((world.save() as State).current_view_order).toEqual(step.order);
    }
  });
});

describe("zoom_in_puzzle", () => {
  test("the frame is VisGym's, tile by tile, apart from the numbers' letters", async () => {
    const [episode] = recorded<Recorded<object>>("zoom_in_puzzle_easy");
    const world = await make({ folder: PHOTOS });
    world.load(episode!.state);
    expect(difference((await world.observe("image")) as Image, goldenFrame("zoom_in_puzzle_easy_0_t0"))).toBeLessThan(
      1,
    );
  });

  test.each([true, false])("views get closer and closer, clearly so (nested: %s)", async (nested) => {
    const world = await make({ minZoom: 0.75, zoomGap: 0.75, zoomSpread: 0.2, nested });
    for (let seed = 0; seed < 300; seed++) {
      await world.reset(seed);
      const { zoom_levels, crop_boxes } = world.save() as State;
      expect(zoom_levels).toEqual([...zoom_levels].sort((a, b) => a - b));
      crop_boxes.forEach(([l, t, r, b], i) => {
        const [pl, pt, pr, pb] = crop_boxes[i - 1] ?? [0, 0, 480, 360];
        if (i > 0) expect(r! - l!).toBeLessThanOrEqual((pr! - pl!) * 0.94);
        if (nested) expect([l! >= pl!, t! >= pt!, r! <= pr!, b! <= pb!]).toEqual([true, true, true, true]);
        else expect([l! >= 0, t! >= 0, r! <= 480, b! <= 360]).toEqual([true, true, true, true]);
      });
    }
  });

  test.each(["swap", "reorder"] as const)("the oracle that uses %s succeeds from any order", async (solver) => {
    const world = await make({ views: 5, solver });
    for (let seed = 0; seed < 60; seed++) {
      await world.reset(seed);
      const plan = world.solve();
      expect(plan.length).toBeLessThanOrEqual(solver === "swap" ? 5 : 2);
      let reward = 0;
      for (const action of plan) ({ reward } = world.act(action));
      expect(reward).toBe(1);
    }
  });

  test("slots count from 1; a reordering names the slots that views come from", async () => {
    const world = await make();
    await world.reset(1);
    world.load({ ...(world.save() as object), current_view_order: [3, 1, 0, 2] } as Json);
    world.act(act("reorder", [3, 2, 4, 1]));
    expect((world.save() as State).current_view_order).toEqual([0, 1, 2, 3]);
    world.act(act("swap", [1, 4]));
    expect((world.save() as State).current_view_order).toEqual([3, 1, 2, 0]);
  });

  test("the text view sketches the whole picture and every slot", async () => {
    const world = await make();
    await world.reset(2);
    const [head, ...rows] = String(await world.observe("text")).split("\n");
    expect(head?.split("|").map((part) => part.trim())).toEqual([
      "whole picture",
      "slot 1",
      "slot 2",
      "slot 3",
      "slot 4",
    ]);
    expect(rows).toHaveLength(16);
    for (const row of rows) expect(row).toMatch(/^[ .:\-=+*#%@]{32}(\|[ .:\-=+*#%@]{32}){4}$/);
  });

  test.each([
    [{ crop_boxes: [[0, 0, 1]] }, /crop_boxes/],
    [{ zoom_levels: [1] }, /zoom_levels/],
    [{ current_view_order: [1, 2, 3, 4] }, /current_view_order/],
  ])("a state with %j is refused by name", async (wrong, message) => {
    const world = await make();
    expect(() => world.load({ ...(world.save() as object), ...wrong } as Json)).toThrow(message);
  });
});
