/** Scenes to count and point in are unambiguous: a second look that sees only the id buffer agrees on a thousand of each. */
import { expect, test } from "vitest";
import { makeWorld } from "../../../src/envs/index.ts";
import { countingScene, referringScene } from "./index.ts";
import { countKind, lookFor } from "./test-look.ts";

const SCENES = 1000;
const size = { width: 320, height: 240 };
/** A thing of which less is seen would be missed. */
const PIXELS = 12;

test.each(["counting/easy", "counting/hard"])(`%s: ${SCENES} scenes hold the number that is true`, async (id) => {
  const world = await makeWorld(id);
  const wrong: string[] = [];
  for (let seed = 0; seed < SCENES; seed++) {
    await world.reset(seed);
    const state = await world.save?.();
    const { category_name: kind, true_count: count } = state as { category_name: string; true_count: number };
    const found = countKind(kind, countingScene(seed, kind, count, size), PIXELS);
    if (found !== count) wrong.push(`seed ${seed}: ${found} ${kind}, not ${count}`);
  }
  expect(wrong).toEqual([]);
});

test(`referring_dot_pointing: the phrase of ${SCENES} scenes fits the target alone`, () => {
  const wrong: string[] = [];
  for (let seed = 0; seed < SCENES; seed++) {
    const { scene, target, phrase } = referringScene(seed, size);
    const found = lookFor(phrase, scene);
    if (found.length !== 1 || found[0] !== target.id) wrong.push(`seed ${seed}: "${phrase}" fits ${found.join(", ")}`);
  }
  expect(wrong).toEqual([]);
});
