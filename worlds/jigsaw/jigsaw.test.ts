import { createHash } from "node:crypto";
import { describe, expect, test } from "vitest";
import type { Image, Json } from "../../src/core/index.ts";
import { act } from "../../src/envs/index.ts";
import { PHOTOS, playRecorded, type Recorded, recorded } from "../shared/test-replay.ts";
import { type Jigsaw, jigsaw } from "./jigsaw.ts";

const make = (given: object = {}) => jigsaw.create(jigsaw.options.parse(given)) as Jigsaw;
const frame = (world: Jigsaw) => world.observe("image") as Image;
const order = (world: Jigsaw) => (world.save() as { current_state: number[] }).current_state;

describe.each([
  ["easy", 2],
  ["hard", 3],
])("VisGym's recorded %s episodes", (difficulty, side) => {
  const episodes = recorded<Recorded<{ current: number[] }>>(`jigsaw_${difficulty}`);

  test.each(episodes)("seed $seed ($mode) replays action by action, from VisGym's own bytes", async (episode) => {
    const world = make({ rows: side, columns: side, folder: PHOTOS });
    world.load(episode.state);
    const { width, height, data } = frame(world);
    expect([width, height, createHash("sha1").update(data).digest("hex")]).toEqual([
      episode.frame.w,
      episode.frame.h,
      episode.frame.sha1,
    ]);
    for (const step of episode.steps) {
      if (step.raises !== undefined) continue;
      const { reward, terminated, ok, feedback_kind } = step;
      expect(await playRecorded(world, step.action), step.action).toEqual({ reward, terminated, ok, feedback_kind });
      expect(order(world)).toEqual(step.current);
    }
  });
});

describe("jigsaw", () => {
  const solved = async (world: Jigsaw) => {
    let last = 0;
    // Asked again every turn, as an environment does.
    for (let turn = 0; turn < 40; turn++) {
      const [next] = world.solve();
      if (next === undefined) break;
      last = (await world.act(next)).reward;
    }
    return last;
  };

  test.each([
    ["swap", 0, (moves: number) => moves <= 8],
    ["reorder", 0, (moves: number) => moves === 1],
    ["swap", 10, (moves: number) => moves >= 10 && moves <= 11],
  ] as const)("the oracle that uses %s with at least %i steps, turn by turn", async (solver, solverSteps, fits) => {
    const world = make({ rows: 3, columns: 3, solver, solverSteps });
    for (let seed = 0; seed < 50; seed++) {
      world.reset(seed);
      const moves = world.solve().length - 1;
      expect(fits(moves), `${moves} moves`).toBe(true);
      if (seed % 2 === 0)
        await world.act(
          act("swap", [
            [0, 0],
            [2, 1],
          ]),
        );
      expect(await solved(world)).toBe(1);
    }
  });

  test("a swap exchanges two places, a reordering names where each place's piece comes from", async () => {
    const world = make();
    world.load({ image_name: "scene:1", current_state: [3, 1, 0, 2], target_state: [0, 1, 2, 3] });
    await world.act(act("reorder", [2, 1, 3, 0]));
    expect(order(world)).toEqual([0, 1, 2, 3]);
    await world.act(
      act("swap", [
        [0, 1],
        [1, 0],
      ]),
    );
    expect(order(world)).toEqual([0, 2, 1, 3]);
  });

  test("a frame drawn after others is the frame of a fresh world, also where pieces differ in size", async () => {
    for (const size of [
      [324, 240],
      [101, 77],
    ]) {
      const [used, fresh] = [make({ rows: 3, columns: 3, size }), make({ rows: 3, columns: 3, size })];
      used.reset(4);
      for (const order of [
        [1, 0, 2, 3, 4, 5, 8, 7, 6],
        [8, 7, 6, 5, 4, 3, 2, 1, 0],
      ]) {
        frame(used);
        await used.act(act("reorder", order));
      }
      fresh.load(used.save());
      expect(frame(used).hash).toBe(frame(fresh).hash);
    }
  });

  test("the text view tells the pieces' edges, which agree where pieces belong together", async () => {
    const world = make({ rows: 1, columns: 2 });
    world.reset(3);
    for (const action of world.solve()) await world.act(action);
    const lines = String(world.observe("text")).split("\n");
    expect(lines[0]).toMatch(/^\(0, 0\) top #[0-9a-f]{6} #[0-9a-f]{6} #[0-9a-f]{6}; right /);
    const colors = (line: string, edge: string) =>
      [...(new RegExp(`${edge} ([^;]+)`).exec(line)?.[1] ?? "").matchAll(/[0-9a-f]{2}/g)].map(([hex]) =>
        Number.parseInt(hex, 16),
      );
    const apart = (a: number[], b: number[]) => a.reduce((sum, value, i) => sum + Math.abs(value - (b[i] ?? 0)), 0);
    const seam = apart(colors(lines[0]!, "right"), colors(lines[1]!, "left"));
    expect(seam).toBeLessThan(apart(colors(lines[1]!, "right"), colors(lines[0]!, "left")));
  });

  test.each([
    [{ current_state: [0, 1, 2] }, /current_state must hold the numbers 0 to 3/],
    [{ target_state: [0, 0, 1, 2] }, /target_state/],
    [{ image_name: 3 }, /image_name/],
    [{ moves: -1 }, /moves/],
    [{ stopped: "no" }, /stopped/],
  ])("a state with %j is refused by name", (wrong, message) => {
    const world = make();
    expect(() => world.load({ ...(world.save() as object), ...wrong } as Json)).toThrow(message);
  });
});
