import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import type { Image, Json } from "../../src/core/index.ts";
import { act, makeWorld, type World } from "../../src/envs/index.ts";
import { armModel } from "../shared/physics/arm.ts";
import { blobs, isRed } from "../shared/test-blobs.ts";
import { playRecorded, type Recorded, recorded } from "../shared/test-replay.ts";

type Place = readonly [number, number, number];
type Step = { readonly grip: Place; readonly object?: Place; readonly bias?: number };
type Episode = Recorded<Step> & { readonly initial_gripper_xpos: Place; readonly start: { readonly grip: Place } };

const make = (id: string, options = {}) => makeWorld(id, { size: 64, ...options });
const apart = (a: readonly number[], b: readonly number[]) =>
  Math.hypot(...a.map((value, i) => value - (b[i] as number)));

/** Numbers of the text view: where something is. */
async function where(world: World, name: string): Promise<number[]> {
  const line = String(await world.observe("text"))
    .split("\n")
    .find((row) => row.startsWith(name));
  return (line?.split(": ")[1] ?? "").split(", ").map(Number);
}

describe.each(["fetch_reach", "fetch_pick_and_place"])("%s", (id) => {
  const golden = recorded<Episode>(`${id}_easy`);

  test("the original's episodes replay: rewards, ends and complaints are equal, the gripper is never more than 5 mm off, the cube 7", async () => {
    const world = await make(id);
    for (const episode of golden) {
      await world.load?.(episode.state);
      expect(apart(await where(world, "gripper"), episode.start.grip)).toBeLessThan(0.0011);
      for (const [index, step] of episode.steps.entries()) {
        const { reward, terminated, ok, feedback_kind } = step;
        const label = `seed ${episode.seed}, step ${index}: ${step.action}`;
        expect(await playRecorded(world, step.action), label).toEqual({ reward, terminated, ok, feedback_kind });
        if (terminated) break;
        expect(apart(await where(world, "gripper"), step.grip), label).toBeLessThan(0.005);
        if (step.object !== undefined)
          expect(apart(await where(world, "cube"), step.object), label).toBeLessThan(0.007);
      }
    }
  });

  test("a seed gives the original's goal, object and camera", async () => {
    const world = await make(id);
    for (const { seed, state } of golden) {
      await world.reset(seed);
      const saved = (await world.save?.()) as { goal_pos: number[]; object_pos?: number[]; camera_config: object };
      expect(apart(saved.goal_pos, state.goal_pos as number[])).toBeLessThan(1e-8);
      if (state.object_pos)
        expect(apart(saved.object_pos as number[], state.object_pos as number[])).toBeLessThan(1e-6);
      const camera = state.camera_config as Record<string, number>;
      for (const key of ["azimuth", "elevation", "distance"])
        expect((saved.camera_config as Record<string, number>)[key]).toBeCloseTo(camera[key] as number, 10);
    }
  });

  test("a saved episode goes on with the same bits, in another world of the same process", async () => {
    const [world, copy] = [await make(id), await make(id)];
    await world.reset(3);
    await copy.reset(8);
    const moves: Place[] = [
      [1, 0.4, -1],
      [-0.3, 1, -1],
      [0.7, -1, -0.9],
      [0, 0.2, 1],
    ];
    for (const move of moves) await world.act(act("move", [...move]));
    await copy.load?.(JSON.parse(JSON.stringify(await world.save?.())));
    for (const move of moves) {
      await world.act(act("move", [...move]));
      await copy.act(act("move", [...move]));
      expect(await copy.save?.()).toEqual(await world.save?.());
    }
    expect(((await copy.observe("image")) as Image).hash).toBe(((await world.observe("image")) as Image).hash);
  });

  test("nothing but the ball is red: without it, no view of 100 seeds has a red pixel", async () => {
    const world = await make(id, { size: 120 });
    const seeds: number[] = [];
    for (let seed = 0; seed < 100; seed++) {
      await world.reset(seed);
      const state = (await world.save?.()) as Record<string, Json>;
      await world.load?.({ ...state, goal_pos: [0, 0, 1000] });
      if (blobs((await world.observe("image")) as Image, isRed).length > 0) seeds.push(seed);
    }
    expect(seeds).toEqual([]);
  });

  test("looking for a plan leaves the episode as it is", async () => {
    const world = await make(id);
    await world.reset(5);
    await world.act(act("move", [0.5, 0.5, 0]));
    const before = await world.save?.();
    await world.solve?.();
    expect(await world.save?.()).toEqual(before);
  });

  test("the oracle that moves along one axis, as the original's does, succeeds as well", async () => {
    const world = await make(id, { solver: "axis" });
    for (let seed = 0; seed < 4; seed++) {
      await world.reset(seed);
      const plan = (await world.solve?.()) ?? [];
      for (const { name, payload } of plan) {
        if (name !== "move") continue;
        expect((payload as number[]).filter((value) => value !== 0).length).toBeLessThanOrEqual(1);
      }
      let reward = 0;
      for (const action of plan) ({ reward } = await world.act(action));
      expect(reward, `seed ${seed}`).toBe(1);
    }
  });

  test("facts say how things lie to the gripper", async () => {
    const world = await make(id);
    await world.reset(0);
    const facts = (await world.facts?.()) ?? [];
    const [gx = 0, gy = 0, gz = 0] = await where(world, "ball");
    const [x = 0, y = 0, z = 0] = await where(world, "gripper");
    const ball = facts.find((fact) => fact.subject === "ball" && fact.object === "gripper");
    expect(ball?.relations[0]).toBe(
      gx - x > 0.02 ? "further from the robot" : gx - x < -0.02 ? "nearer the robot" : "same depth",
    );
    expect(ball?.relations[1]).toBe(
      gy - y > 0.02 ? "to the robot's left" : gy - y < -0.02 ? "to the robot's right" : "same side",
    );
    expect(ball?.relations[2]).toBe(gz - z > 0.02 ? "above" : gz - z < -0.02 ? "below" : "same height");
  });

  test.each([
    [{ goal_pos: [1, 2] }, /goal_pos/],
    [{ physics: [1, 2, 3] }, /another model/],
    [{ bias: 4 }, /bias/],
    [{ camera_config: { azimuth: "x" } }, /azimuth/],
  ])("a state with %j is refused by name", async (wrong, message) => {
    const world = await make(id);
    await world.reset(0);
    const state = { ...((await world.save?.()) as object), ...wrong } as Json;
    expect(() => world.load?.(state)).toThrow(message);
  });
});

describe("a robot from a folder", () => {
  const folder = mkdtempSync(join(tmpdir(), "saccade-robot-"));
  afterAll(() => rmSync(folder, { recursive: true, force: true }));
  const table = '<body name="table0" pos="1.3 0.75 0.2"><geom type="box" size="0.25 0.35 0.2"/></body>';
  const wedge = '<geom type="mesh" mesh="wedge" pos="1.3 0.75 0.45" contype="0" conaffinity="0" material="paint"/>';
  // In files that include each other, with a mesh and a material, as the original is.
  const [, inside = ""] =
    /<mujoco model="arm">(.*)<\/mujoco>/s.exec(armModel({ bodies: table + wedge, motors: false })) ?? [];
  writeFileSync(join(folder, "reach.xml"), '<mujoco><include file="parts.xml"/><include file="shapes.xml"/></mujoco>');
  writeFileSync(join(folder, "parts.xml"), `<mujoco>${inside}</mujoco>`);
  writeFileSync(
    join(folder, "shapes.xml"),
    '<mujoco><asset><mesh name="wedge" file="wedge.obj"/><material name="paint" rgba="0 0 1 1"/></asset></mujoco>',
  );
  const corners = [
    [0, 0, 0],
    [0.1, 0, 0],
    [0, 0.1, 0],
    [0, 0, 0.1],
  ].map((corner) => `v ${corner.join(" ")}`);
  writeFileSync(join(folder, "wedge.obj"), [...corners, "f 1 3 2", "f 1 2 4", "f 1 4 3", "f 2 3 4"].join("\n"));

  test("moves as it says, its meshes in the picture", async () => {
    const [world, ours] = [await make("fetch_reach", { robot: folder, size: 200 }), await make("fetch_reach")];
    await world.reset(0);
    await ours.reset(0);
    for (let i = 0; i < 3; i++) {
      await world.act(act("move", [1, 0, -1]));
      await ours.act(act("move", [1, 0, -1]));
    }
    expect(apart(await where(world, "gripper"), await where(ours, "gripper"))).toBeLessThan(1e-3);
    const { data } = (await world.observe("image")) as Image;
    let blue = 0;
    for (let i = 0; i < data.length; i += 3)
      if ((data[i] as number) < 5 && (data[i + 2] as number) > 60 && (data[i + 1] as number) < 5) blue++;
    expect(blue).toBeGreaterThan(40);
  });

  test("without the file that is needed is refused by name", async () => {
    await expect(make("fetch_pick_and_place", { robot: folder })).rejects.toThrow("pick_and_place.xml");
  });
});

test("a move, and which way is which: x leads away from the robot, z up, and fingers close on what lies between them", async () => {
  const world = await make("fetch_pick_and_place");
  await world.reset(1);
  const [x0 = 0, , z0 = 0] = await where(world, "gripper");
  for (const move of [
    [1, 0, 0],
    [1, 0, 1],
  ])
    await world.act(act("move", move));
  const [x1 = 0, , z1 = 0] = await where(world, "gripper");
  expect(x1 - x0).toBeGreaterThan(0.05);
  expect(z1 - z0).toBeGreaterThan(0.02);
  await world.act(act("gripper", 0));
  await world.act(act("gripper", 0));
  expect(String(await world.observe("text"))).toMatch(/(9|10)\.\d cm apart, opening/);
  for (let i = 0; i < 5; i++) await world.act(act("gripper", 1));
  expect(String(await world.observe("text"))).toMatch(/0\.\d cm apart, closing/);
});
