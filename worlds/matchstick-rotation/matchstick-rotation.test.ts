import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import type { Image, Json } from "../../src/core/index.ts";
import { act } from "../../src/envs/index.ts";
import { type MatchstickRotation, matchstickRotation } from "./matchstick-rotation.ts";

type Golden = {
  seed: number;
  state: Record<string, Json>;
  steps: { action: string; reward: number; terminated: boolean; ok: boolean }[];
  plan_len: number;
};
const golden = JSON.parse(
  readFileSync(new URL("./golden/matchstick_rotation_easy.json", import.meta.url), "utf8"),
) as Golden[];

const evalEasy = { canvas: [120, 120], stickLength: 20, positionTolerance: 10, angleTolerance: 15 };
const make = (given: object = evalEasy) =>
  matchstickRotation.create(matchstickRotation.options.parse(given)) as MatchstickRotation;

/** What the protocol would let through: a move of three numbers, or stop. */
function parse(text: string) {
  const [, name, payload] = /^\('(move|stop)', (.+)\)$/.exec(text) ?? [];
  if (name === "stop") return act("stop");
  return name === "move" && payload?.startsWith("[") ? act("move", JSON.parse(payload)) : undefined;
}

describe("matchstick_rotation", () => {
  test("recorded episodes of the original replay with the same rewards, ends and verdicts", async () => {
    for (const episode of golden) {
      const world = make();
      world.load?.(episode.state);
      for (const step of episode.steps) {
        const action = parse(step.action);
        const outcome = action ? await world.act(action) : { valid: false, reward: 0, ended: false };
        expect(outcome, `seed ${episode.seed}: ${step.action}`).toMatchObject({
          valid: step.ok,
          reward: step.reward,
          ended: step.terminated,
        });
      }
    }
  });

  test("a seed gives the original's episode", () => {
    const world = make();
    for (const { seed, state } of golden) {
      world.reset(seed);
      expect(world.save?.()).toMatchObject(state);
    }
  });

  test.each([
    ["easy", evalEasy],
    ["hard", { ...evalEasy, positionTolerance: 5, angleTolerance: 10 }],
    ["registered", {}],
    ["tolerances finer than a decimal", { positionTolerance: 1e-4, angleTolerance: 1e-4 }],
  ])("the plan succeeds from every start and from wherever moves have led (%s)", async (_, given) => {
    const world = make(given);
    let solvedAtOnce = 0;
    for (let seed = 0; seed < 300; seed++) {
      world.reset(seed);
      const plan = world.solve?.() ?? [];
      if (plan.length === 1) solvedAtOnce++;
      else expect(plan.map(({ name }) => name)).toEqual(["move", "move", "stop"]);
      if (seed % 3 === 0)
        for (const dx of [7, -3.3]) await world.act(act("move", [dx, 1e300 * (seed - 150), 400 + dx]));
      let reward = 0;
      for (const action of world.solve?.() ?? []) ({ reward } = await world.act(action));
      expect(reward, `seed ${seed}`).toBe(1);
      expect(world.success()).toBe(true);
    }
    expect(solvedAtOnce).toBeLessThanOrEqual(6);
  });

  test("a plan starts with one unit step towards the target and numbers have one decimal", () => {
    const world = make();
    world.reset(0);
    expect(world.solve?.()).toEqual([act("move", [-1, -1, 0]), act("move", [-15, -24.6, -32.4]), act("stop")]);
  });

  test("the oracle's first step and its decimals are as one likes, and it succeeds all the same", () => {
    const world = make({ ...evalEasy, probe: 5, solverDecimals: 0 });
    for (let seed = 0; seed < 50; seed++) {
      world.reset(seed);
      let reward = 0;
      for (let [next] = world.solve(); next !== undefined; [next] = world.solve()) {
        if (next.name === "move") expect((next.payload as number[]).every(Number.isInteger)).toBe(true);
        ({ reward } = world.act(next));
      }
      expect(reward, `seed ${seed}`).toBe(1);
    }
  });

  test("a shift moves the stick by the scale in hidden units, is cut off at the canvas, and angles wrap", async () => {
    const world = make();
    const state = { scale: 2, target_mid: [50, 50], target_ang: 0, initial_mid: [10, 10], initial_ang: 350 };
    world.load?.(state);
    await world.act(act("move", [3, -2, 20]));
    expect(world.save?.()).toMatchObject({ mid: [16, 6], ang: 10 });
    await world.act(act("move", [1000, -1000, -20]));
    expect(world.save?.()).toMatchObject({ mid: [60, 0], ang: 350 });
  });

  test.each([
    [{ mid: [40, 50], ang: 195 }, 1],
    [{ mid: [39.9, 50], ang: 0 }, 0],
    [{ mid: [50, 50], ang: 16 }, 0],
    [{ mid: [50, 50], ang: 345 }, 1],
  ])(
    "at %j stopping pays %d: tolerances are inclusive, in hidden units, and ends do not matter",
    async (now, reward) => {
      const world = make();
      world.load?.({ scale: 2, target_mid: [50, 50], target_ang: 0, initial_mid: [0, 0], initial_ang: 0, ...now });
      expect(await world.act(act("stop"))).toMatchObject({ valid: true, reward, ended: true });
      expect(world.success()).toBe(reward === 1);
      expect(await world.act(act("move", [1, 1, 1]))).toMatchObject({ valid: false, reward: 0, ended: true });
    },
  );

  test("a saved state goes on and looks like the original", async () => {
    const [world, copy] = [make(), make()];
    world.reset(5);
    await world.act(act("move", [2, 3, 45]));
    copy.load?.(JSON.parse(JSON.stringify(world.save?.())));
    expect(copy.save?.()).toEqual(world.save?.());
    expect((copy.observe("image") as Image).hash).toBe((world.observe("image") as Image).hash);
    expect(copy.solve?.()).toEqual(world.solve?.());
  });

  test.each([
    [{ scale: 0 }, /scale/],
    [{ target_mid: [1] }, /target_mid/],
    [{ initial_ang: "x" }, /initial_ang/],
    [{ mid: [1, null] }, /mid/],
    [{ stopped: 1 }, /stopped/],
  ])("a state with %j is refused by name", (wrong, message) => {
    const world = make();
    expect(() => world.load?.({ ...(world.save?.() as object), ...wrong } as Json)).toThrow(message);
  });

  test("the picture has frame, target and stick where the original has them, and only inside the frame", () => {
    const world = make();
    world.reset(0);
    const picture = world.observe("image") as Image;
    expect([picture.width, picture.height]).toEqual([400, 400]);
    const pixel = (x: number, y: number) => [...picture.data.subarray((y * 400 + x) * 3, (y * 400 + x) * 3 + 3)];
    expect(pixel(50, 200)).toEqual([0, 0, 0]);
    expect(pixel(200, 48)).toEqual([0, 0, 0]);
    expect(pixel(49, 200)).toEqual([255, 255, 255]);
    expect(pixel(302, 75)).toEqual([0, 0, 255]);
    expect(pixel(112, 345)).toEqual([255, 0, 0]);
    expect(pixel(120, 345)).toEqual([255, 255, 255]);
    world.load?.({ scale: 1, target_mid: [0, 0], target_ang: 45, initial_mid: [120, 60], initial_ang: 0 });
    const edge = world.observe("image") as Image;
    const blue = (x: number) =>
      [...edge.data.subarray((202 * 400 + x) * 3, (202 * 400 + x) * 3 + 3)].join() === "0,0,255";
    expect([blue(358), blue(360), blue(365)]).toEqual([true, false, false]);
  });

  test("the text view tells where both sticks are on the canvas, as the picture does", () => {
    const world = make();
    world.load?.({ scale: 2, target_mid: [50, 25], target_ang: 200, initial_mid: [10, 5], initial_ang: 30.04 });
    expect(world.observe("text")).toBe(
      "canvas: 120 wide, 120 high\ntarget: centre (100.0, 50.0), angle 20.0\nstick: centre (20.0, 10.0), angle 30.0",
    );
  });
});
