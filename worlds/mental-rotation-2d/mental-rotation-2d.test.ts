import { describe, expect, test } from "vitest";
import type { Image, Json } from "../../src/core/index.ts";
import { act } from "../../src/envs/index.ts";
import { difference, goldenFrame, PHOTOS, playRecorded, type Recorded, recorded } from "../shared/test-replay.ts";
import { type MentalRotation2D, mentalRotation2d } from "./mental-rotation-2d.ts";

const make = (given: object = {}) => mentalRotation2d.create(mentalRotation2d.options.parse(given)) as MentalRotation2D;
const angle = (world: MentalRotation2D) => (world.save() as { agent_angle: number }).agent_angle;

describe.each([
  ["easy", 10],
  ["hard", 5],
])("VisGym's recorded %s episodes", (difficulty, tolerance) => {
  const episodes = recorded<Recorded<{ agent_angle: number }>>(`mental_rotation_2d_${difficulty}`);

  test.each(episodes)("seed $seed ($mode) replays action by action", async (episode) => {
    const world = make({ tolerance, folder: PHOTOS });
    world.load(episode.state);
    for (const step of episode.steps) {
      if (step.raises !== undefined) continue;
      const { reward, terminated, ok, feedback_kind } = step;
      expect(await playRecorded(world, step.action), step.action).toEqual({ reward, terminated, ok, feedback_kind });
      expect(angle(world)).toBe(step.agent_angle);
    }
  });
});

describe("mental_rotation_2d", () => {
  test("frames are VisGym's, before and after two turns", async () => {
    const [episode] = recorded<Recorded<object>>("mental_rotation_2d_easy");
    const world = make({ folder: PHOTOS });
    world.load(episode!.state);
    expect(difference(world.observe("image") as Image, goldenFrame("mental_rotation_2d_easy_0_t0"))).toBeLessThan(0.2);
    for (const { action } of episode!.steps.slice(0, 2)) await playRecorded(world, action);
    expect(difference(world.observe("image") as Image, goldenFrame("mental_rotation_2d_easy_0_t2"))).toBeLessThan(0.2);
  });

  test("turned back, the right panel is the left one", () => {
    const world = make();
    world.load({ image_name: "scene:4", secret_angle: 90, agent_angle: 0 });
    world.act(act("rotate", 90));
    const { data } = world.observe("image") as Image;
    for (let y = 0; y < 128; y++) {
      const row = data.subarray(y * 768, (y + 1) * 768);
      expect(Buffer.compare(row.subarray(0, 384), row.subarray(384))).toBe(0);
    }
  });

  test.each([
    [0, 10, 1],
    [0, 11, 0],
    [355, 5, 1],
    [180, 181, 1],
  ])("with the picture at %d and the angle at %d, stopping pays %d", (secret_angle, agent_angle, reward) => {
    const world = make({ tolerance: 10 });
    world.load({ image_name: "scene:1", secret_angle, agent_angle });
    expect(world.act(act("stop"))).toMatchObject({ reward, ended: true });
  });

  test.each([[undefined, 1, 4] as const, [7, 7, 7] as const])(
    "the oracle, asked every turn, takes its steps (%s) and goes straight when others interfere",
    (solverSteps, least, most) => {
      const world = make(solverSteps === undefined ? {} : { solverSteps });
      for (let seed = 0; seed < 100; seed++) {
        world.reset(seed);
        const secret = (world.save() as { secret_angle: number }).secret_angle;
        const moves = world.solve().length - 1;
        if (Math.min(secret, 360 - secret) >= 8) {
          expect(moves).toBeGreaterThanOrEqual(least);
          expect(moves).toBeLessThanOrEqual(most);
        }
        if (seed % 3 === 0) world.act(act("rotate", 77));
        let [turns, reward] = [0, 0];
        for (let [next] = world.solve(); next !== undefined; [next] = world.solve()) {
          ({ reward } = world.act(next));
          turns += 1;
        }
        expect(reward).toBe(1);
        expect(turns).toBeLessThanOrEqual(most + 1);
      }
    },
  );

  test("the text view gives brightness around the picture, shifted by the turn", () => {
    const world = make();
    world.load({ image_name: "scene:2", secret_angle: 340, agent_angle: 0 });
    const [goal, now] = String(world.observe("text"))
      .split("\n")
      .map((line) => line.split(": ")[1]?.split(" ").map(Number) ?? []);
    expect(goal).toHaveLength(36);
    expect(now).toEqual([...goal!.slice(-2), ...goal!.slice(0, -2)]);
  });

  test.each([
    [{ secret_angle: "x" }, /secret_angle/],
    [{ agent_angle: null }, /agent_angle/],
    [{ image_name: "" }, /image_name/],
  ])("a state with %j is refused by name", (wrong, message) => {
    const world = make();
    expect(() => world.load({ ...(world.save() as object), ...wrong } as Json)).toThrow(message);
  });
});
