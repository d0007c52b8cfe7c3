import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import type { Image, Json } from "../../src/core/index.ts";
import { act, makeWorld, makeWorldEnv, type World } from "../../src/envs/index.ts";
import { KINDS as FURNITURE } from "./room.ts";

const KINDS = ["base", "common_sense", "complex_instruction", "visual_appearance", "long_horizon"];
const folder = mkdtempSync(join(tmpdir(), "saccade-thor-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** A task file in AI2-THOR's form. */
function tasks(name: string, rows: readonly object[]): string {
  const file = join(folder, `${name}.json`);
  writeFileSync(file, JSON.stringify({ tasks: rows }));
  return file;
}
const row = (target: { x: number; z: number }, rotation: number | object = 0, type = "Thing") => ({
  scene: "FloorPlan11",
  instruction: "navigate to it",
  targetObjectType: type,
  target_position: { ...target, y: 1 },
  agentPose: { position: { x: 0, y: 0.9, z: 0 }, rotation, horizon: 0 },
});
const make = (id: string, options = {}) => makeWorld(id, { size: 96, ...options });

/** Purple pixels of the marker's ball, by half. */
async function purple(world: World): Promise<{ left: number; right: number }> {
  const { width, data } = (await world.observe("image")) as Image;
  const found = { left: 0, right: 0 };
  for (let i = 0; i < data.length; i += 3) {
    const [r = 0, g = 0, b = 0] = data.subarray(i, i + 3);
    if (b > g * 1.4 && r > g * 1.15) found[(i / 3) % width < width / 2 ? "left" : "right"] += 1;
  }
  return found;
}

describe("navigation", () => {
  test.each(KINDS)(
    "%s: every way has a fitting length, nobody starts at the goal, and long ways start with the back to it",
    async (kind) => {
      const world = await make(`navigation/${kind}`);
      const words = new Set<string>();
      for (let seed = 0; seed < 40; seed++) {
        await world.reset(seed);
        words.add(await world.task("brief", "image"));
        const plan = (await world.solve?.()) ?? [];
        const [least, most] = kind === "long_horizon" ? [12, 24] : [4, 14];
        expect(plan.length, `seed ${seed}`).toBeGreaterThanOrEqual(least);
        expect(plan.length, `seed ${seed}`).toBeLessThanOrEqual(most);
        expect(await world.success()).toBe(false);
      }
      expect(words.size).toBeGreaterThan(8);
    },
  );

  test.each(KINDS)("%s: no first frame of 200 seeds is all but blank, and the way ahead is free", async (kind) => {
    const world = await make(`navigation/${kind}`, { size: 64 });
    const wrong: string[] = [];
    for (let seed = 0; seed < 200; seed++) {
      await world.reset(seed);
      const { width, height, data } = (await world.observe("image")) as Image;
      const counts = new Map<number, number>();
      for (let i = 0; i < data.length; i += 3) {
        const color = ((data[i] as number) << 16) | ((data[i + 1] as number) << 8) | (data[i + 2] as number);
        counts.set(color, (counts.get(color) ?? 0) + 1);
      }
      const share = Math.max(...counts.values()) / (width * height);
      if (share > 0.6) wrong.push(`seed ${seed}: ${Math.round(share * 100)} % of the frame has one colour`);
      if (!/Free: .*move_forward/.test(String(await world.observe("text")))) wrong.push(`seed ${seed}: not free`);
    }
    expect(wrong).toEqual([]);
  });

  test("instructions by use and by looks never name the thing, plain ones do", async () => {
    for (const kind of KINDS) {
      const world = await make(`navigation/${kind}`);
      for (let seed = 0; seed < 30; seed++) {
        await world.reset(seed);
        const told = await world.task("brief", "image");
        const named = FURNITURE.some(({ name }) => told.includes(name));
        expect(named, told).toBe(!["common_sense", "visual_appearance"].includes(kind));
      }
    }
  });

  test("one walks where one looks: forward comes nearer to what is ahead, turns are quarters, and what is right is seen on the right", async () => {
    const file = tasks("right", [row({ x: 2, z: 2 })]);
    const world = await make("navigation/base", { tasks: file });
    await world.reset(0);
    let seen = await purple(world);
    expect(seen.right).toBeGreaterThan(20);
    expect(seen.left).toBe(0);
    await world.act(act("turn_right"));
    seen = await purple(world);
    expect(seen.left).toBeGreaterThan(20);
    expect(seen.right).toBe(0);
    for (let turn = 0; turn < 2; turn++) await world.act(act("turn_right"));
    expect(await purple(world)).toEqual({ left: 0, right: 0 });
    await world.act(act("turn_right"));
    expect((await purple(world)).right).toBeGreaterThan(20);
    expect(String(await world.observe("text"))).toContain("2.0 m ahead, 2.0 m to the right");
    await world.act(act("move_forward"));
    expect(String(await world.observe("text"))).toContain("1.7 m ahead, 2.0 m to the right");
    await world.act(act("move_right"));
    expect(String(await world.observe("text"))).toContain("1.7 m ahead, 1.7 m to the right");
  });

  test("success is the distance along the floor, at the threshold and not before, and pays at once", async () => {
    const file = tasks("ahead", [row({ x: 0, z: 1.9 })]);
    const world = await make("navigation/base", { tasks: file });
    await world.reset(0);
    for (let step = 0; step < 2; step++)
      expect(await world.act(act("move_forward"))).toMatchObject({ reward: 0, ended: false });
    expect(await world.act(act("move_forward"))).toMatchObject({ valid: true, reward: 1, ended: true });
    expect(await world.success()).toBe(true);
  });

  test("so many moves and no more", async () => {
    const world = await make("navigation/base", { maxSteps: 3 });
    await world.reset(0);
    await world.act(act("look_up"));
    await world.act(act("look_down"));
    expect(await world.act(act("look_up"))).toMatchObject({ reward: 0, ended: true });
    expect(await world.act(act("look_up"))).toMatchObject({ valid: false, ended: true });
    expect(await world.solve?.()).toEqual([]);
  });

  test("walls and furniture stop a step, which costs a move all the same", async () => {
    const world = await make("navigation/base", { maxSteps: 100 });
    await world.reset(4);
    let blocked = 0;
    for (let step = 0; step < 40; step++) {
      const before = (await world.save?.()) as { pose: object; steps: number };
      const { valid, feedback } = await world.act(act("move_backward"));
      if (valid) continue;
      blocked += 1;
      expect(feedback).toContain("in the way");
      expect(await world.save?.()).toEqual({ ...before, steps: before.steps + 1 });
    }
    expect(blocked).toBeGreaterThan(10);
  });

  test("a task file of AI2-THOR is played from its own start, one seed a task", async () => {
    const file = tasks("two", [
      row({ x: 3, z: -1 }, { x: 0, y: 90, z: 0 }, "Sofa"),
      row({ x: -2.5, z: 0.5 }, 270, "Unheard"),
    ]);
    const world = await make("navigation/base", { tasks: file });
    for (const seed of [0, 1, 2]) {
      await world.reset(seed);
      expect(await world.task("brief", "image")).toBe("navigate to it");
      expect(String(await world.observe("text"))).toContain(
        seed % 2 === 0 ? "sofa: 3.0 m ahead, 1.0 m to the right" : "marker: 2.5 m ahead, 0.5 m to the right",
      );
      let reward = 0;
      for (const action of (await world.solve?.()) ?? []) ({ reward } = await world.act(action));
      expect(reward, `seed ${seed}`).toBe(1);
    }
  });

  test.each([
    ["nothing", "{}", /tasks/],
    ["half", JSON.stringify({ tasks: [{ instruction: "go" }] }), /target_position/],
    ["broken", "{", /can't be read/],
  ])("a task file with %s in it is refused by name", async (name, content, message) => {
    const file = join(folder, `${name}.json`);
    writeFileSync(file, content);
    await expect(make("navigation/base", { tasks: file })).rejects.toThrow(message);
  });

  test("several moves in a reply stop at the goal", async () => {
    const env = await makeWorldEnv("navigation/base", { size: 64 });
    await env.reset(9); // its way has four moves, and a reply may hold five
    const step = await env.step(await env.oracleReply());
    expect(step).toMatchObject({ terminated: true, success: true });
    expect(step.rewards.map(({ name, value }) => [name, value])).toEqual([
      ["task", 1],
      ["format", 0.1],
    ]);
  });

  test.each([
    [{ kind: "long_horizon" }, /navigation\/long_horizon/],
    [{ seed: 0.5 }, /seed/],
    [{ pose: { right: 0.5 } }, /right/],
    [{ steps: -1 }, /steps/],
  ])("a state with %j is refused by name", async (wrong, message) => {
    const world = await make("navigation/base");
    await world.reset(0);
    expect(() => world.load?.({ ...((world.save?.() as object) ?? {}), ...wrong } as Json)).toThrow(message);
  });
});
