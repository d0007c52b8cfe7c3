import { describe, expect, test } from "vitest";
import type { Image, Json } from "../../src/core/index.ts";
import { act } from "../../src/envs/index.ts";
import { SOLVERS } from "../shared/rotation.ts";
import { difference, goldenFrame, playRecorded, type Recorded, recorded } from "../shared/test-replay.ts";
import { type MentalRotation3DCube, mentalRotation3dCube } from "./mental-rotation-3d-cube.ts";

const make = (given: object = {}) =>
  mentalRotation3dCube.create(mentalRotation3dCube.options.parse({ frame: "world", ...given })) as MentalRotation3DCube;
const episodes = recorded<Recorded<object>>("mental_rotation_3d_cube_easy");

describe("VisGym's recorded episodes", () => {
  test.each(episodes)("seed $seed begins and replays as recorded", async ({ seed, state, steps, plan_len }) => {
    const world = make();
    world.reset(seed);
    const saved = world.save() as { shape_state: Json; secret_yaw: number; current_rot: number[][] };
    expect(saved.shape_state).toEqual(state.shape_state);
    expect(saved.secret_yaw).toBeCloseTo(state.secret_yaw as number, 12);
    (state.current_rot as number[][]).forEach((row, i) => {
      row.forEach((value, k) => {
        expect(saved.current_rot[i]![k]).toBeCloseTo(value, 9);
      });
    });
    expect(world.solve().length).toBeLessThanOrEqual(plan_len);
    world.load(state);
    for (const { action, reward, terminated, ok } of steps) {
      expect(await playRecorded(world, action), action).toMatchObject({ reward, terminated, ok });
    }
  });

  test("the picture is VisGym's, but for hair lines", () => {
    const world = make();
    world.load(episodes[0]!.state);
    expect(difference(world.observe("image") as Image, goldenFrame("mental_rotation_3d_cube_easy_0"))).toBeLessThan(3);
  });
});

describe("mental_rotation_3d_cube", () => {
  test("the oracle in whole degrees succeeds, also after it was disturbed", () => {
    const world = make({ solver: "axis-angle", solverSteps: 1, solverDecimals: 0 });
    for (let seed = 0; seed < 30; seed++) {
      world.reset(seed);
      if (seed % 2 === 1) world.act(act("rotate", [33.3, -12.7, 100.1]));
      let [turns, reward] = [0, 0];
      for (let [next] = world.solve(); next !== undefined && turns < 10; [next] = world.solve(), turns++) {
        if (next.name === "rotate") expect((next.payload as number[]).every(Number.isInteger)).toBe(true);
        ({ reward } = world.act(next));
      }
      expect(reward, `seed ${seed}`).toBe(1);
    }
  });

  test.each(SOLVERS.flatMap((solver) => (["world", "object"] as const).map((frame) => [solver, frame] as const)))(
    "the oracle %s in the %s frame, asked every turn, succeeds",
    (solver, frame) => {
      const world = make({ solver, frame, tolerance: 2 });
      for (let seed = 0; seed < 25; seed++) {
        world.reset(seed);
        if (seed % 5 === 4) world.act(act("rotate", [10, -20, 33]));
        let [turns, reward] = [0, 0];
        for (let [next] = world.solve(); next !== undefined; [next] = world.solve()) {
          ({ reward } = world.act(next));
          turns += 1;
        }
        expect(reward, `seed ${seed}`).toBe(1);
        expect(turns).toBeLessThanOrEqual(16);
      }
    },
  );

  test("the frames differ: after a quarter of yaw, pitch turns about another axis", () => {
    const turnedIn = (frame: string) => {
      const world = make({ frame });
      world.load({
        ...(world.save() as object),
        current_rot: [
          [1, 0, 0],
          [0, 1, 0],
          [0, 0, 1],
        ],
      } as Json);
      world.act(act("rotate", [90, 0, 0]));
      world.act(act("rotate", [0, 90, 0]));
      return (world.save() as { current_rot: number[][] }).current_rot.map((row) =>
        row.map((one) => Math.round(one) + 0),
      );
    };
    expect(turnedIn("world")).toEqual([
      [0, 0, 1],
      [1, 0, 0],
      [0, 1, 0],
    ]);
    expect(turnedIn("object")).toEqual([
      [0, -1, 0],
      [0, 0, 1],
      [-1, 0, 0],
    ]);
  });

  test("the text view gives the same places once the figure is back", () => {
    const world = make({ solver: "by-axis" });
    for (const action of world.solve()) world.act(action);
    const [goal, now] = String(world.observe("text"))
      .split("\n")
      .map((line) => [...line.matchAll(/-?\d+\.\d/g)].map(Number));
    expect(goal!.length % 3).toBe(0);
    goal!.forEach((value, i) => {
      expect(Math.abs(value - now![i]!)).toBeLessThan(0.3);
    });
  });

  test.each([
    [{ shape_state: { seg_lens: [2], dir_indices: [9] } }, /shape_state/],
    [
      {
        current_rot: [
          [1, 0, 0],
          [0, 1, 0],
          [0, 1, 0],
        ],
      },
      /current_rot must be a rotation/,
    ],
    [{ secret_yaw: "x" }, /secret_yaw/],
  ])("a state with %j is refused by name", (wrong, message) => {
    const world = make();
    expect(() => world.load({ ...(world.save() as object), ...wrong } as Json)).toThrow(message);
  });
});
