/**
 * All of MiniWoB++: every task starts, a seed gives the same bytes in another tab, the oracles succeed, and random clicks reach the
 * floors. `npm run prove -- miniwob` prints a row for each task; it wants the pages (`pip install --no-deps miniwob`) and minutes.
 */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { isImage, NumpyRandom } from "../../src/core/index.ts";
import { makeWorld, sampleAction, type World } from "../../src/envs/index.ts";
import "../register.ts";
import { TASKS } from "./tasks.ts";

const TABS = 4;
const SEEDS = Number(process.env.SACCADE_MINIWOB_SEEDS ?? 10);

async function each(names: readonly string[], body: (world: World, name: string) => Promise<void>): Promise<void> {
  const queue = [...names];
  await Promise.all(
    Array.from({ length: TABS }, async () => {
      for (let name = queue.shift(); name !== undefined; name = queue.shift()) {
        const world = await makeWorld(`miniwob/${name}`);
        await body(world, name).finally(() => world.close?.());
      }
    }),
  );
}
async function hash(world: World): Promise<string> {
  const seen = await world.observe("image");
  return isImage(seen) ? seen.hash : "";
}

/** Success of three random clicks over 60 seeds, as measured in another program on the same pages. */
const FLOORS: Readonly<Record<string, number>> = {
  "click-test": 0.52,
  "focus-text": 0.32,
  "click-color": 0.22,
  "click-test-2": 0.17,
  "identify-shape": 0.13,
  "click-button": 0.12,
  "click-tab": 0.1,
  "click-link": 0.07,
  "click-shape": 0.03,
};

test("every task starts, and the same seed gives the same bytes in a used tab and in another", async () => {
  const different: string[] = [];
  await each(TASKS, async (world, name) => {
    const twin = await makeWorld(`miniwob/${name}`);
    try {
      await world.reset(0);
      const first = await hash(world);
      await world.reset(1);
      const random = new NumpyRandom(1);
      const lasting = world.actions.filter((spec) => !spec.ends);
      for (let turn = 0; turn < 3; turn++) if ((await world.act(sampleAction(lasting, random))).ended) break;
      await world.reset(0);
      await twin.reset(0);
      if ((await hash(world)) !== first || (await hash(twin)) !== first) different.push(name);
    } finally {
      await twin.close?.();
    }
  });
  console.log("other bytes:", different.sort().join(", ") || "none");
  expect(different).toEqual([]);
});

test("oracles succeed", async () => {
  const code = readFileSync(join(import.meta.dirname, "oracles.js"), "utf8");
  const names = TASKS.filter((name) => code.includes(`\n    "${name}":`));
  expect(names.length).toBeGreaterThanOrEqual(40);
  const failed: string[] = [];
  await each(names, async (world, name) => {
    for (let seed = 0; seed < SEEDS; seed++) {
      await world.reset(seed);
      for (let turn = 0, ended = false; turn < 60 && !ended; turn++) {
        const plan = (await world.solve?.()) ?? [];
        if (plan.length === 0) break;
        for (const action of plan) {
          ({ ended } = await world.act(action));
          if (ended) break;
        }
      }
      if (!(await world.success())) failed.push(`${name} seed ${seed}`);
    }
  });
  console.log(`${names.length} oracles, ${SEEDS} seeds each; failed: ${failed.sort().join(", ") || "none"}`);
  expect(failed).toEqual([]);
});

test("three random clicks succeed as often as measured elsewhere, within three standard deviations of both", async () => {
  const rows: string[] = [];
  const wrong: string[] = [];
  await each(Object.keys(FLOORS), async (world, name) => {
    let solved = 0;
    for (let seed = 0; seed < 60; seed++) {
      await world.reset(seed);
      const random = new NumpyRandom(seed);
      // Below the instruction, where the task is: there the others clicked.
      const click = () => ({ name: "click", payload: [random.integers(0, 160), random.integers(50, 210)] });
      for (let turn = 0; turn < 3; turn++) if ((await world.act(click())).ended) break;
      if (await world.success()) solved += 1;
    }
    const [rate, floor] = [solved / 60, FLOORS[name] as number];
    const p = (rate + floor) / 2;
    if (Math.abs(rate - floor) > 3 * Math.sqrt((2 * Math.max(p, 0.02) * (1 - p)) / 60)) wrong.push(name);
    rows.push(`${name} ${rate.toFixed(2)} (${floor.toFixed(2)})`);
  });
  console.log(rows.sort().join("\n"));
  expect(wrong).toEqual([]);
});
