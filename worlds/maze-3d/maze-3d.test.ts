import { mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import type { Image, Json } from "../../src/core/index.ts";
import { act } from "../../src/envs/index.ts";
import { difference, goldenFrame, playRecorded, type Recorded, recorded } from "../shared/test-replay.ts";
import { type Maze3D, maze3d } from "./maze-3d.ts";

const make = (given: object = {}) => maze3d.create(maze3d.options.parse({ width: 7, height: 7, ...given })) as Maze3D;
type State = { agent_location: number[]; target_location: number[]; cam_dir: number; maze_map: number[][] };

describe.each([
  ["easy", 7],
  ["hard", 9],
])("VisGym's recorded %s episodes", (difficulty, side) => {
  const episodes = recorded<Recorded<{ agent: number[]; cam_dir: number }>>(`maze_3d_${difficulty}`);

  test.each(episodes)(
    "seed $seed ($mode) begins and replays as recorded",
    async ({ seed, state, steps, mode, plan_len }) => {
      const world = make({ width: side, height: side });
      world.reset(seed);
      expect(world.save()).toMatchObject(state);
      if (mode === "plan") expect(world.solve()).toHaveLength(plan_len);
      world.load(state);
      for (const step of steps) {
        if (step.raises !== undefined) continue;
        const { reward, terminated, ok, feedback_kind } = step;
        expect(await playRecorded(world, step.action), step.action).toEqual({ reward, terminated, ok, feedback_kind });
        expect(world.save()).toMatchObject({ agent_location: step.agent, cam_dir: step.cam_dir });
      }
    },
  );

  test("with VisGym's size and the recorded textures the picture is the recorded one, nearly", () => {
    const world = make({
      width: side,
      height: side,
      size: [1024, 576],
      samples: 1,
      textures: join(import.meta.dirname, "golden/textures"),
    });
    world.load(episodes[0]!.state);
    expect(difference(world.observe("image") as Image, goldenFrame(`maze_3d_${difficulty}_0_t0`))).toBeLessThan(6);
  });
});

describe("maze_3d", () => {
  const corridor: State = {
    maze_map: [
      [1, 1, 1, 1, 1],
      [1, 0, 0, 0, 1],
      [1, 1, 1, 0, 1],
      [1, 0, 0, 0, 1],
      [1, 1, 1, 1, 1],
    ],
    agent_location: [1, 1],
    target_location: [3, 3],
    cam_dir: 1,
  };

  test("left and right are the viewer's, and the oracle turns as little as it must", () => {
    const world = make();
    world.load(corridor as unknown as Json);
    const names = (plan: readonly { name: string; payload: Json }[]) =>
      plan.map(({ name, payload }) => `${name} ${payload}`);
    expect(names(world.solve())).toEqual(["move 0", "move 0", "turn 2", "move 0", "move 0", "stop stop"]);
    world.act(act("turn", 3));
    expect(names(world.solve())[0]).toBe("turn 3");
    expect(world.act(act("move", 0))).toMatchObject({ valid: false, reward: 0 });
  });

  test("the ball is seen ahead, red and in the middle, and not when one looks away", () => {
    const world = make();
    world.load({ ...corridor, agent_location: [1, 3], cam_dir: 0 } as unknown as Json);
    const red = ({ data, width, height }: Image) => {
      const at = (Math.floor(height / 2) * width + Math.floor(width / 2)) * 3;
      return [...data.subarray(at, at + 3)].join() === "255,0,0";
    };
    expect(red(world.observe("image") as Image)).toBe(true);
    world.act(act("turn", 3));
    expect(red(world.observe("image") as Image)).toBe(false);
  });

  test("the picture is brighter stone on both sides, floor below and ceiling above", () => {
    const world = make();
    world.load(corridor as unknown as Json);
    const { data, width, height } = world.observe("image") as Image;
    const pixel = (x: number, y: number) => [...data.subarray((y * width + x) * 3, (y * width + x) * 3 + 3)];
    const [floor, ceiling] = [pixel(width / 2, height - 2), pixel(width / 2, 1)];
    expect(floor[0]! - floor[2]!).toBeGreaterThan(20); // brown
    expect(ceiling[2]!).toBeGreaterThan(ceiling[1]!); // violet
  });

  test("the text view and the facts tell what is ahead and where the ball is", () => {
    const world = make();
    world.load(corridor as unknown as Json);
    expect(world.observe("text")).toBe(
      "here: walls on both sides\n1 ahead: walls on both sides\n2 ahead: a way to the right\n3 ahead: a wall",
    );
    expect(world.facts()).toEqual([{ subject: "ball", relations: ["ahead", "right"], object: "player" }]);
    world.act(act("turn", 3));
    expect(world.facts()[0]?.relations).toEqual(["behind", "left"]);
  });

  test.each([0, 30])("the oracle, asked every turn, arrives (%i steps or more)", (solverSteps) => {
    const world = make({ solverSteps });
    for (let seed = 0; seed < 30; seed++) {
      world.reset(seed);
      if (seed % 3 === 0) world.act(act("turn", 1));
      let [turns, reward] = [0, 0];
      for (let [next] = world.solve(); next !== undefined; [next] = world.solve()) {
        ({ reward } = world.act(next));
        turns += 1;
      }
      expect(reward).toBe(1);
      if (solverSteps > 0 && seed % 3 !== 0) expect(turns).toBeGreaterThanOrEqual(solverSteps);
    }
  });

  test("textures that are not there, and states that do not fit, are refused by name", () => {
    expect(() => make({ textures: mkdtempSync(`${tmpdir()}/saccade-`) })).toThrow("wall.png");
    const world = make();
    expect(() => world.load({ ...corridor, cam_dir: 4 } as unknown as Json)).toThrow("cam_dir");
    expect(() => world.load({ ...corridor, agent_location: [0, 0] } as unknown as Json)).toThrow("agent_location");
  });
});
