import { describe, expect, test } from "vitest";
import { type Image, isImage, type Json } from "../../src/core/index.ts";
import { type Action, act, makeWorld, makeWorldEnv, type World } from "../../src/envs/index.ts";
import { armModel } from "../shared/physics/arm.ts";
import { drawModel, freeCamera } from "../shared/physics/draw.ts";
import { simulate } from "../shared/physics/simulation.ts";
import { Renderer, type Vec3 } from "../shared/render3d/index.ts";
import { blobs, isRed } from "../shared/test-blobs.ts";
import { CAMERA } from "./primitive-skill.ts";
import { bodiesOf, sceneOf, stages, TASKS } from "./scenes.ts";

const make = (task: string, options = {}) => makeWorld(`primitive_skill/${task}`, { size: 64, ...options });

/** Places of things by name, in millimetres, from the text view. */
async function places(world: World): Promise<Record<string, number[]>> {
  const lines = String(await world.observe("text")).split("\n");
  const found = lines.flatMap((line) => {
    const [, name = "", numbers = ""] = /^(.*): \((.*)\)$/.exec(line) ?? [];
    return name === "" ? [] : [[name, numbers.split(", ").map(Number)] as const];
  });
  return Object.fromEntries(found);
}

async function shown(world: World): Promise<Image> {
  const seen = await world.observe("image");
  const part = Array.isArray(seen) ? seen.find((one) => one.type === "image") : undefined;
  if (part === undefined || !("image" in part) || !isImage(part.image)) throw new Error("expected an image");
  return part.image;
}

describe("primitive_skill", () => {
  test.each(TASKS)("%s: as many red things are seen as there are, and no more", async (task) => {
    const world = await make(task, { size: 300, samples: 1 });
    for (let seed = 0; seed < 30; seed++) {
      await world.reset(seed);
      const { things } = sceneOf(task, seed);
      const red = things.filter(({ color: [r, g, b] }) => isRed(r, g, b)).length;
      // A red cube may stand before its red disc.
      const seen = blobs(await shown(world), isRed, 3).length;
      expect(red - seen, `seed ${seed}`).toBeOneOf(red > 1 ? [0, 1] : [0]);
    }
  });

  test.each(TASKS)(
    "%s: the whole gripper, everything on the table and every place in the workspace are in the frame",
    async (task) => {
      const world = await make(task);
      const corners = [-0.1, 0.15].flatMap((x) => [-0.2, 0.2].map((y) => `${x + 1.3} ${y + 0.75} 0.42`));
      const posts = corners.map((at) => `<geom type="sphere" size="0.02" pos="${at}" contype="0" conaffinity="0"/>`);
      const simulation = await simulate(armModel({ bodies: bodiesOf(task) + posts.join(""), motors: true }));
      const { model } = simulation;
      const bodies = ["gripper_link", "r_gripper_finger_link", "l_gripper_finger_link"].map((name) =>
        simulation.id("body", `robot0:${name}`),
      );
      if (task === "drawer") for (const name of ["drawer", "cabinet"]) bodies.push(simulation.id("body", name));
      const [first = 0] = bodies;
      for (const seed of [0, 1]) {
        await world.reset(seed);
        const saved = (await world.save?.()) as { physics: number[] } | undefined;
        simulation.state = saved?.physics ?? [];
        const colors = new Map<number, Vec3>();
        for (let geom = 0; geom < model.ngeom; geom++) {
          const body = model.geom_bodyid[geom] as number;
          const post = body === 0 && model.geom_type[geom] === 2;
          colors.set(geom, body === first ? [0, 255, 255] : bodies.includes(body) || post ? [255, 0, 255] : [0, 0, 0]);
        }
        // Seen with more around it than the frame has: what is painted must lie inside the frame.
        const [frame, wide] = [200, 300];
        const camera = freeCamera(CAMERA, 1);
        const [across, up] = camera.spread;
        const spread = [(across * wide) / frame, (up * wide) / frame] as const;
        const renderer = new Renderer(wide, wide, { ...camera, spread });
        renderer.clear([0, 0, 0]);
        drawModel(renderer, simulation, colors);
        const seen = blobs(renderer.toImage(), (_, green, blue) => blue > 20 || green > 20, 3);
        const palm = blobs(renderer.toImage(), (_, green) => green > 20, 3);
        expect(seen.length).toBeGreaterThanOrEqual(5);
        expect(palm.reduce((sum, { pixels }) => sum + pixels, 0)).toBeGreaterThan(60);
        const margin = (wide - frame) / 2 + 2;
        for (const { left, top, right, bottom } of seen) {
          expect(Math.min(left, top, wide - 1 - right, wide - 1 - bottom), `seed ${seed}`).toBeGreaterThanOrEqual(
            margin,
          );
        }
      }
    },
  );

  test("each stage of a task pays once, though its work be undone and done again", async () => {
    const world = await make("place");
    await world.reset(1);
    const [pick, place, ...rest] = (await world.solve?.()) ?? [];
    if (pick === undefined || place === undefined) throw new Error("no plan");
    expect((await world.act(pick)).reward).toBe(0);
    expect(await world.act(place)).toMatchObject({ valid: true, reward: 0.5, ended: false });
    // Taken off the disc again, and laid back.
    const back = act("pick", place.payload);
    expect((await world.act(back)).reward).toBe(0);
    expect((await world.act(place)).reward).toBe(0);
    let reward = 0;
    let ended = false;
    for (const action of rest) ({ reward, ended } = await world.act(action));
    expect([reward, ended, await world.success()]).toEqual([0.5, true, true]);
  });

  test("a pick lifts what is there and nothing else, and a miss by a cube's width closes on nothing", async () => {
    const world = await make("stack");
    await world.reset(2);
    const before = await places(world);
    const [name, at] = Object.entries(before)[0] as [string, number[]];
    const miss = act("pick", [
      (at[0] as number) > 20 ? (at[0] as number) - 50 : (at[0] as number) + 50,
      at[1] as number,
      20,
    ]);
    expect(await world.act(miss)).toMatchObject({ valid: false, feedback: "The gripper closed on nothing." });
    expect(await world.act(act("pick", at))).toMatchObject({ valid: true });
    const after = await places(world);
    expect(after[name]?.[2]).toBeGreaterThan(150);
    expect(String(await world.observe("text"))).toContain(`holds the ${name}`);
    for (const other of Object.keys(before)) if (other !== name) expect(after[other]).toEqual(before[other]);
    expect(await world.act(act("pick", at))).toMatchObject({ valid: false, reward: 0 });
  });

  test("an empty gripper places nothing", async () => {
    const world = await make("align");
    await world.reset(0);
    const before = await world.save?.();
    expect(await world.act(act("place", [0, 0, 20]))).toMatchObject({ valid: false, reward: 0, ended: false });
    expect(await world.save?.()).toEqual(before);
  });

  test("a push shuts the drawer, but only with the apple in it is the task done", async () => {
    const world = await make("drawer");
    await world.reset(0);
    expect(await world.act(act("push", [0, 30, 35, 0, -160, 35]))).toMatchObject({
      valid: true,
      reward: 0,
      ended: false,
    });
    const { drawer = [] } = await places(world);
    expect(drawer[1]).toBeLessThan(-240);
    expect(await world.success()).toBe(false);
  });

  test("beside the picture stand the places, in an order that names nothing", async () => {
    const world = await make("place");
    await world.reset(4);
    const seen = await world.observe("image");
    if (!Array.isArray(seen)) throw new Error("expected parts");
    expect(seen.map((part) => part.type)).toEqual(["image", "text"]);
    const told = [...String(seen[1]?.text).matchAll(/\((-?\d+), (-?\d+), (-?\d+)\)/g)].map((match) =>
      match.slice(1).map(Number),
    );
    const named = Object.values(await places(world));
    expect(told).toHaveLength(4);
    expect(told.map(String).sort()).toEqual(named.map(String).sort());
    expect(told).toEqual(
      [...told].sort((a, b) => (a[0] as number) - (b[0] as number) || (a[1] as number) - (b[1] as number)),
    );
    const bare = await make("place", { positions: false });
    await bare.reset(4);
    expect(await bare.observe("image")).toHaveLength(1);
  });

  test("cubes are painted as the task names them", async () => {
    const world = await make("stack", { size: 200 });
    const count = async (seed: number) => {
      await world.reset(seed);
      const [part] = (await world.observe("image")) as readonly { image: Image }[];
      const picture = part?.image;
      if (!isImage(picture)) throw new Error("expected a picture");
      let red = 0;
      for (let i = 0; i < picture.data.length; i += 3) {
        const [r = 0, g = 0, b = 0] = picture.data.subarray(i, i + 3);
        if (r > 2.5 * g && r > 2.5 * b) red += 1;
      }
      return red;
    };
    const seeds = Array.from({ length: 20 }, (_, seed) => seed);
    const has = (seed: number) => sceneOf("stack", seed).instruction.includes("red");
    const [withRed, without] = [seeds.find(has) as number, seeds.find((seed) => !has(seed)) as number];
    // The stop button of the robot's base is red too.
    expect(await count(withRed)).toBeGreaterThan((await count(without)) + 40);
  });

  test("scenes: things are far enough apart for open fingers, nothing is done yet, seeds differ", () => {
    for (const task of TASKS) {
      const seen = new Set<string>();
      for (let seed = 0; seed < 200; seed++) {
        const scene = sceneOf(task, seed);
        const { things } = scene;
        const at = (name: string) => things.find((thing) => thing.name === name)?.at ?? ([0, 0, 0] as const);
        expect(stages(scene, { at, closed: 0 }), `${task} ${seed}`).toEqual([false, false]);
        seen.add(JSON.stringify(things));
        const cubes = things.filter((thing) => thing.name.endsWith("cube"));
        for (const [i, a] of cubes.entries()) {
          for (const b of cubes.slice(i + 1)) {
            const [dx, dy] = [Math.abs(a.at[0] - b.at[0]), Math.abs(a.at[1] - b.at[1])];
            expect(dx >= 0.065 || dy >= 0.12, `${task} ${seed}`).toBe(true);
          }
        }
      }
      expect(seen.size).toBeGreaterThan(190);
    }
  });

  test("calls with commas in their brackets are read, two in a reply", async () => {
    const env = await makeWorldEnv("primitive_skill/align", { size: 64 });
    await env.reset(3);
    const [pick, place] = ((await env.world.solve?.()) ?? []) as [Action, Action];
    const written = `pick(${(pick.payload as number[]).join(", ")}), place(${(place.payload as number[]).join(",")})`;
    const step = await env.step(`<think>first one</think><answer>${written}</answer>`);
    expect(step.info.actions).toEqual([pick, place]);
    expect(step.rewards.find((part) => part.name === "task")?.value).toBe(0.5);
  });

  test("facts say how things lie to each other", async () => {
    const world = await make("place");
    await world.reset(0);
    const at = await places(world);
    for (const { subject, relations, object } of (await world.facts?.()) ?? []) {
      const y = (at[subject]?.[1] ?? 0) - (at[object]?.[1] ?? 0);
      expect(relations[1]).toBe(y < -15 ? "left" : y > 15 ? "right" : "same column");
    }
  });

  test.each([
    [{ task: "stack" }, /primitive_skill\/stack/],
    [{ seed: -1 }, /seed/],
    [{ physics: [1] }, /another model/],
    [{ paid: 3 }, /paid/],
  ])("a state with %j is refused by name", async (wrong, message) => {
    const world = await make("align");
    await world.reset(0);
    const state = { ...((await world.save?.()) as object), ...wrong } as Json;
    expect(() => world.load?.(state)).toThrow(message);
  });
});
