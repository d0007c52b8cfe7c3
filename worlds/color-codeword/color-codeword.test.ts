import { describe, expect, test } from "vitest";
import { EnvError, type Image } from "../../src/core/index.ts";
import { act } from "../../src/envs/index.ts";
import { ColorCodeword, colorCodeword } from "./color-codeword.ts";

function make(options: Record<string, unknown> = {}, seed = 0): ColorCodeword {
  const world = new ColorCodeword(
    colorCodeword.options.parse(options) as ConstructorParameters<typeof ColorCodeword>[0],
  );
  world.reset(seed);
  return world;
}

const pixel = (image: Image, x: number, y: number) =>
  Array.from(image.data.slice((y * image.width + x) * 3).slice(0, 3));

describe("color_codeword", () => {
  test("each colour is shown once, in order, then a question", () => {
    const world = make();
    world.load({ code: ["red", "yellow", "red"], passed: 0, answer: null });
    const seen = [];
    for (let turn = 0; turn < 4; turn++) {
      seen.push(world.observe("text"));
      if (turn < 3) expect(world.act(act("next"))).toEqual({ valid: true, reward: 0, ended: false });
    }
    expect(seen).toEqual([
      "The color is red.",
      "The color is yellow.",
      "The color is red.",
      "All colors have been shown. What was the code?",
    ]);
    const outcome = world.act(act("next"));
    expect(outcome).toMatchObject({ valid: false, reward: 0, ended: false });
    expect(outcome.feedback).toContain("say the code");
  });

  test("the right code pays and ends; a wrong one ends without pay", () => {
    for (const [answer, reward] of [
      [[2, 1, 0], 1],
      [[2, 1, 1], 0],
      [[0, 1, 2], 0],
    ] as const) {
      const world = make();
      world.load({ code: ["blue", "green", "red"], passed: 1, answer: null });
      expect(world.act(act("say", answer))).toMatchObject({ valid: true, reward, ended: true });
      expect(world.success()).toBe(reward === 1);
      expect(world.act(act("say", [2, 1, 0]))).toMatchObject({ valid: false, reward: 0, ended: true });
      expect(world.success()).toBe(reward === 1);
      expect(world.solve()).toEqual([]);
    }
  });

  test("the picture of a turn is its colour and nothing else", () => {
    const world = make({ size: 32 });
    world.load({ code: ["red", "blue", "red"], passed: 0, answer: null });
    const red = world.observe("image") as Image;
    expect([red.width, red.height]).toEqual([32, 32]);
    expect(pixel(red, 16, 16)).toEqual([222, 38, 38]);
    expect(pixel(red, 4, 4)).toEqual([222, 38, 38]);
    world.act(act("next"));
    expect(pixel(world.observe("image") as Image, 16, 16)).toEqual([36, 80, 224]);
    world.act(act("next"));
    expect((world.observe("image") as Image).hash).toBe(red.hash);
    world.act(act("next"));
    const question = (world.observe("image") as Image).hash;
    world.load({ code: ["green", "green", "green"], passed: 3, answer: null });
    expect((world.observe("image") as Image).hash).toBe(question);
  });

  test.each([2, 3, 8])("the oracle looks at all %i colours and then says them, within the default turns", (length) => {
    for (let seed = 0; seed < 10; seed++) {
      const world = make({ length, colors: 8 }, seed);
      if (seed % 2 === 1) world.act(act("next"));
      const plan = world.solve();
      expect(plan.length).toBeLessThanOrEqual(9);
      const outcomes = plan.map((action) => world.act(action));
      expect(outcomes.every(({ valid }) => valid)).toBe(true);
      expect(outcomes.at(-1)).toMatchObject({ reward: 1, ended: true });
    }
  });

  test("a seed decides the code, and codes use just the colours asked for", () => {
    const world = make({ length: 8, colors: 2 }, 3);
    world.act(act("next"));
    const first = new Set<unknown>();
    for (let seed = 0; seed < 20; seed++) {
      world.reset(seed);
      expect(world.save()).toEqual(make({ length: 8, colors: 2 }, seed).save());
      const { code } = world.save() as { code: string[] };
      for (const color of code) first.add(color);
    }
    expect(first).toEqual(new Set(["red", "green"]));
  });

  test("a loaded episode goes on where it was, and broken ones are refused", () => {
    const world = make({}, 7);
    world.act(act("next"));
    const other = make();
    other.load(JSON.parse(JSON.stringify(world.save())));
    expect(other.solve()).toEqual(world.solve());
    expect(other.observe("text")).toBe(world.observe("text"));
    for (const [state, field] of [
      [{ code: ["red", "red"], passed: 0 }, "code"],
      [{ code: ["red", "red", "white"], passed: 0 }, "code"],
      [{ code: ["red", "red", "red"], passed: 4 }, "passed"],
      [{ code: ["red", "red", "red"], passed: 0, answer: "red" }, "answer"],
    ] as const) {
      expect(() => other.load(state)).toThrow(EnvError);
      expect(() => other.load(state)).toThrow(field);
    }
    expect(other.save()).toEqual(world.save());
  });
});
