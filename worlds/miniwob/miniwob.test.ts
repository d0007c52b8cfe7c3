/** A few tasks of MiniWoB++, where a browser and its pages are; SACCADE_REQUIRE=miniwob makes their absence a failure. `npm run prove -- miniwob` plays all. */
import { existsSync } from "node:fs";
import { afterAll, describe, expect, test } from "vitest";
import { isImage } from "../../src/core/index.ts";
import { type Action, makeWorld, type World } from "../../src/envs/index.ts";
import "../register.ts";
import { findPages } from "./miniwob.ts";
import { TASKS } from "./tasks.ts";

/** Of the recipe `click`. */
const CLICK_TASKS = ["test", "test-2", "color", "shape", "button", "tab", "link", "dialog"].map(
  (name) => `click-${name}`,
);

const required = (process.env.SACCADE_REQUIRE ?? "").split(",").includes("miniwob");
const hasBrowser = ["/usr/bin/chromium", "/usr/bin/google-chrome", process.env.SACCADE_BROWSER ?? ""].some(existsSync);

const open: World[] = [];
async function task(name: string, options: Record<string, boolean> = {}): Promise<World> {
  const world = await makeWorld(`miniwob/${name}`, options);
  open.push(world);
  return world;
}
async function hash(world: World): Promise<string> {
  const seen = await world.observe("image");
  if (!isImage(seen)) throw new Error("expected an image");
  expect([seen.width, seen.height]).toEqual([160, 210]);
  return seen.hash;
}
const colorIn = (instruction: string) => /the (\w+) colored/.exec(instruction)?.[1];
afterAll(async () => {
  for (const world of open) await world.close?.();
});

test("all 125 tasks and three flights are known", () => {
  expect(TASKS.length).toBe(128);
  expect(TASKS.filter((name) => name.startsWith("flight.")).length).toBe(3);
});

test("a folder without the pages is refused, with what to do", async () => {
  await expect(makeWorld("miniwob/click-test", { pages: "/nowhere" })).rejects.toThrow(/pip install --no-deps miniwob/);
});

describe.runIf(required || (hasBrowser && findPages() !== undefined))("MiniWoB++", () => {
  test("a seed gives the same frame twice, and the oracle's clicks and keys succeed", async () => {
    for (const name of ["click-test-2", "click-dialog", "enter-text", "choose-list"]) {
      const world = await task(name);
      await world.reset(4);
      const first = await hash(world);
      for (let turn = 0; turn < 12 && !(await world.success()); turn++) {
        for (const action of (await world.solve?.()) ?? []) if ((await world.act(action)).ended) break;
      }
      expect(await world.success(), name).toBe(true);
      await world.reset(5);
      expect(await hash(world)).not.toBe(first);
      await world.reset(4);
      expect(await hash(world)).toBe(first);
    }
  }, 120_000);

  test("a wrong click ends the episode with -1, or with 0 where there is no penalty", async () => {
    for (const [penalty, cost] of [
      [true, -1],
      [false, 0],
    ] as const) {
      const world = await task("click-shape", { penalty });
      await world.reset(0);
      const { reward, ended } = await world.act({ name: "click", payload: [158, 205] });
      expect([reward, ended, await world.success()]).toEqual([cost, true, false]);
    }
  }, 60_000);

  test("in the tasks of the recipe click, the facts name first what the oracle clicks, then at most three others, in an order that does not tell their places", async () => {
    for (const name of CLICK_TASKS) {
      const world = await task(name);
      await world.reset(3);
      const facts = (await world.facts?.()) ?? [];
      expect(await world.facts?.(), name).toEqual(facts);
      const [aim] = (await world.solve?.()) ?? [];
      const places = facts.map(({ relations }) => relations.join());
      expect(places[0]?.split(" ").map(Number), name).toEqual(aim?.payload);
      expect(facts.length, name).toBeLessThanOrEqual(4);
      if (name === "click-color") expect(facts[0]?.subject).toBe(colorIn(await world.task("brief", "image")));
      await world.act(aim as Action);
      expect(await world.success(), name).toBe(true);
    }
    const world = await task("click-color");
    const seconds = new Set<string>();
    for (let seed = 0; seed < 40; seed++) {
      await world.reset(seed);
      seconds.add(((await world.facts?.()) ?? [])[1]?.relations.join() ?? "none");
    }
    expect(seconds.size).toBe(4);
  }, 120_000);

  test("where one button lies on the other, the oracle clicks the part beside it", async () => {
    const world = await task("click-test-2");
    for (let seed = 0; seed < 20; seed++) {
      await world.reset(seed);
      for (const action of (await world.solve?.()) ?? []) await world.act(action);
      expect(await world.success(), `seed ${seed}`).toBe(true);
    }
  }, 60_000);
});
