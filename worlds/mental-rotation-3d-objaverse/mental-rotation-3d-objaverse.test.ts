import { mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { Image, type Json } from "../../src/core/index.ts";
import { act } from "../../src/envs/index.ts";
import { SOLVERS } from "../shared/rotation.ts";
import { blobs } from "../shared/test-blobs.ts";
import { difference, goldenFrame, playRecorded, type Recorded, recorded } from "../shared/test-replay.ts";
import { type MentalRotation3DObjaverse, mentalRotation3dObjaverse } from "./mental-rotation-3d-objaverse.ts";

const make = (given: object = {}) =>
  mentalRotation3dObjaverse.create(
    mentalRotation3dObjaverse.options.parse({ frame: "world", ...given }),
  ) as MentalRotation3DObjaverse;
const rotation = (world: MentalRotation3DObjaverse) => (world.save() as { current_rot: number[][] }).current_rot;
const folder = join(import.meta.dirname, "golden/meshes");

describe.each([
  ["easy", 15],
  ["hard", 5],
])("VisGym's recorded %s episodes", (difficulty, tolerance) => {
  const episodes = recorded<Recorded<{ rot: number[][] }>>(`mental_rotation_3d_objaverse_${difficulty}`);

  test.each(episodes)("seed $seed ($mode) replays action by action", async ({ state, steps }) => {
    const world = make({ tolerance, folder });
    world.load(state);
    for (const step of steps) {
      if (step.raises !== undefined) continue;
      const { reward, terminated, ok } = step;
      expect(await playRecorded(world, step.action), step.action).toMatchObject({ reward, terminated, ok });
      step.rot.flat().forEach((value, i) => {
        expect(Math.abs(rotation(world).flat()[i]! - value)).toBeLessThan(1e-5);
      });
    }
  });
});

describe("mental_rotation_3d_objaverse", () => {
  test("GLB files are shown much as VisGym shows them", async () => {
    const [episode] = recorded<Recorded<object>>("mental_rotation_3d_objaverse_easy");
    const world = make({ folder });
    world.load(episode!.state);
    const golden = goldenFrame("mental_rotation_3d_objaverse_easy_0_t0");
    expect(difference((await world.observe("image")) as Image, golden)).toBeLessThan(12);
  });

  test.each(SOLVERS.flatMap((solver) => (["world", "object"] as const).map((frame) => [solver, frame] as const)))(
    "the oracle %s in the %s frame, asked every turn, succeeds",
    (solver, frame) => {
      const world = make({ solver, frame, tolerance: 2, solverSteps: 2 });
      for (let seed = 0; seed < 25; seed++) {
        world.reset(seed);
        if (seed % 5 === 4) world.act(act("rotate", [10, -20, 33]));
        let reward = 0;
        for (let [next] = world.solve(); next !== undefined; [next] = world.solve()) ({ reward } = world.act(next));
        expect(reward, `seed ${seed}`).toBe(1);
      }
    },
  );

  test("turned back, both panels agree, and before they do not", async () => {
    const world = make();
    const halves = async () => {
      const { data } = (await world.observe("image")) as Image;
      const rows = Array.from({ length: 128 }, (_, y) => data.subarray(y * 768, (y + 1) * 768));
      return rows.reduce(
        (sum, row) => sum + row.subarray(0, 384).reduce((all, value, i) => all + Math.abs(value - row[384 + i]!), 0),
        0,
      );
    };
    for (let seed = 0; seed < 5; seed++) {
      world.reset(seed);
      const before = await halves();
      for (const action of world.solve()) world.act(action);
      expect(await halves()).toBeLessThan(before / 4);
    }
  });

  test("of 200 seeds no toy is cut by its panel, and none is seen edge-on", async () => {
    const world = make();
    const wrong: string[] = [];
    for (let seed = 0; seed < 200; seed++) {
      world.reset(seed);
      const { width, height, data } = (await world.observe("image")) as Image;
      for (const side of ["left", "right"]) {
        const panel = new Uint8Array((data.length / 2) | 0);
        const from = side === "left" ? 0 : 1;
        for (let y = 0; y < height; y++) {
          panel.set(
            data.subarray((2 * y + from) * (width / 2) * 3, (2 * y + from + 1) * (width / 2) * 3),
            y * (width / 2) * 3,
          );
        }
        const seen = blobs(new Image(width / 2, height, panel), (...color) => Math.min(...color) < 250);
        const pixels = seen.reduce((sum, blob) => sum + blob.pixels, 0);
        const [left, top] = [Math.min(...seen.map((blob) => blob.left)), Math.min(...seen.map((blob) => blob.top))];
        const [right, bottom] = [
          Math.max(...seen.map((blob) => blob.right)),
          Math.max(...seen.map((blob) => blob.bottom)),
        ];
        const label = `seed ${seed}, ${side}`;
        if (Math.min(left, top, height - 1 - right, height - 1 - bottom) < 2) wrong.push(`${label}: cut`);
        if (pixels < 0.05 * height * height || Math.min(right - left, bottom - top) < 0.15 * height)
          wrong.push(`${label}: edge-on`);
      }
    }
    expect(wrong).toEqual([]);
  });

  test("the text view tells where parts should be and where they are", async () => {
    const world = make();
    world.reset(3);
    expect(String(await world.observe("text"))).toMatch(
      /^part 1 \(colour \d+ \d+ \d+\): should be at \((-?\d\.\d\d(, )?){3}\), is at \((-?\d\.\d\d(, )?){3}\)/,
    );
  });

  test("folders without models, and states that do not fit, are refused by name", () => {
    expect(() => make({ folder: mkdtempSync(`${tmpdir()}/saccade-`) })).toThrow(".glb");
    const world = make();
    const load = (wrong: object) => world.load({ ...(world.save() as object), ...wrong } as Json);
    expect(() => load({ current_rot: [[1]] })).toThrow("current_rot");
    expect(() => load({ object_path: "" })).toThrow("object_path");
    load({ object_path: "thing.glb" });
    expect(() => world.observe("image")).toThrow('"folder"');
  });
});
