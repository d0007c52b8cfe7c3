/** What our pages promise. Runs where there is a browser; SACCADE_REQUIRE=browser makes its absence a failure. SACCADE_PAGES_SEEDS sets how many seeds the oracle plays (2). */
import { existsSync } from "node:fs";
import { afterAll, describe, expect, test } from "vitest";
import { isImage, NumpyRandom } from "../../src/core/index.ts";
import { makeWorld, sampleAction, type World } from "../../src/envs/index.ts";
import "../register.ts";
import { PAGES } from "./pages.ts";

const required = (process.env.SACCADE_REQUIRE ?? "").split(",").includes("browser");
const hasBrowser = ["/usr/bin/chromium", "/usr/bin/google-chrome", process.env.SACCADE_BROWSER ?? ""].some(existsSync);
const seeds = Number(process.env.SACCADE_PAGES_SEEDS ?? 2);

const open: World[] = [];
async function page(name: string, options: Record<string, unknown>): Promise<World> {
  const world = await makeWorld(`pages/${name}`, options);
  open.push(world);
  return world;
}
async function hash(world: World): Promise<string> {
  const seen = await world.observe("image");
  if (!isImage(seen)) throw new Error("expected an image");
  return seen.hash;
}
async function solve(world: World): Promise<number> {
  let earned = 0;
  for (let turn = 0; turn < 40 && !(await world.success()); turn++) {
    const plan = (await world.solve?.()) ?? [];
    if (plan.length === 0) break;
    for (const action of plan) earned += (await world.act(action)).reward;
  }
  return earned;
}
afterAll(async () => {
  for (const world of open) await world.close?.();
});

describe.runIf(required || hasBrowser)("our pages", () => {
  for (const name of PAGES) {
    test(`${name}: the oracle earns 1 in both forms, also after random play and on a grid of 16; seeds differ; saved is loaded`, async () => {
      for (const variant of ["easy", "hard"]) {
        const world = await page(name, { variant, ...(variant === "easy" && { scale: 16 }) });
        const frames = new Set<string>();
        for (let seed = 0; seed < seeds; seed++) {
          await world.reset(seed);
          frames.add(await hash(world));
          const goal = await world.task("brief", "image");
          expect(goal.length).toBeGreaterThan(10);
          expect(await world.success()).toBe(false);
          if (seed === 1) {
            const random = new NumpyRandom(seed);
            const lasting = world.actions.filter((spec) => !spec.ends);
            for (let step = 0; step < 4; step++) await world.act(sampleAction(lasting, random));
            const saved = JSON.parse(JSON.stringify(await world.save?.()));
            const before = await hash(world);
            await world.reset(9);
            await world.load?.(saved);
            expect(await hash(world)).toBe(before);
            await solve(world);
          } else expect(await solve(world)).toBe(1);
          expect(await world.success(), `${variant}, seed ${seed}: ${goal}`).toBe(true);
        }
        expect(frames.size).toBe(seeds);
      }
    }, 120_000);
  }
});
