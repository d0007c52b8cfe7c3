/**
 * 10,000 episodes on our pages and MiniWoB++'s, eight at a time, while the browser is killed now and then: every failed episode is one that a killed browser showed,
 * no tab is left over, and neither this process nor the browser grows.
 *
 *     npm run prove -- pages/soak          SACCADE_EPISODES=1000 for a shorter one
 */
import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { EnvError, NumpyRandom } from "../../src/core/index.ts";
import { makeWorld, sampleAction, type World } from "../../src/envs/index.ts";
import { browserPool } from "../../src/envs/pages/pool.ts";
import "../register.ts";
import { findPages } from "../miniwob/miniwob.ts";
import { PAGES } from "./pages.ts";

const EPISODES = Number(process.env.SACCADE_EPISODES ?? 10_000);
const AT_ONCE = 8;
const KILLS = 4;
const MEGABYTE = 2 ** 20;

/** Resident memory of a process and of all that it started. */
function familyMegabytes(id: number): number {
  try {
    const own = Number(readFileSync(`/proc/${id}/statm`, "utf8").split(" ")[1]) * 4096;
    const children = readFileSync(`/proc/${id}/task/${id}/children`, "utf8").trim();
    return (
      own / MEGABYTE +
      (children === "" ? 0 : children.split(" ").reduce((sum, child) => sum + familyMegabytes(Number(child)), 0))
    );
  } catch {
    // It ended meanwhile.
    return 0;
  }
}

test(`${EPISODES} episodes: no leaked page, memory flat, a killed browser costs its episodes only`, async () => {
  const tasks = findPages() === undefined ? [] : ["click-test", "click-tab", "click-dialog", "enter-text"];
  const ids = [...PAGES.map((page) => `pages/${page}`), ...tasks.map((task) => `miniwob/${task}`)];
  const pool = browserPool({ hosts: [] });
  let [started, finished, lost] = [0, 0, 0];
  const memory: { episodes: number; node: number; browser: number; tabs: number }[] = [];
  const note = async () => {
    const [browser] = await pool.processIds();
    memory.push({
      episodes: finished,
      node: Math.round(process.memoryUsage().rss / MEGABYTE),
      browser: browser === undefined ? 0 : Math.round(familyMegabytes(browser)),
      tabs: pool.tabs,
    });
    console.log(JSON.stringify(memory.at(-1)));
  };
  const killAt = new Set(Array.from({ length: KILLS }, (_, i) => Math.floor((EPISODES * (i + 0.5)) / KILLS)));
  let killed = 0;
  async function play(world: World, random: NumpyRandom): Promise<void> {
    await world.reset(random.integers(0, 1_000_000));
    await world.observe("image");
    for (let step = 0; step < 3; step++) {
      const { ended } = await world.act(sampleAction(world.actions, random));
      await world.observe("image");
      if (ended) return;
    }
  }
  const start = performance.now();
  await Promise.all(
    Array.from({ length: AT_ONCE }, async (_, i) => {
      const random = new NumpyRandom(i);
      for (let round = i; started < EPISODES; round++) {
        // Worlds come and go, as they do in a run.
        const world = await makeWorld(ids[round % ids.length] as string);
        for (let k = 0; k < 25 && started < EPISODES; k++) {
          started += 1;
          if (killAt.delete(started)) {
            for (const id of await pool.processIds()) process.kill(id, "SIGKILL");
            killed += 1;
          }
          await play(world, random).catch((error: unknown) => {
            expect(error).toBeInstanceOf(EnvError);
            lost += 1;
          });
          finished += 1;
          if (finished % Math.ceil(EPISODES / 10) === 0) await note();
        }
        await world.close?.();
      }
    }),
  );
  const seconds = (performance.now() - start) / 1000;
  console.log(
    `${finished} episodes in ${seconds.toFixed(0)} s (${(finished / seconds).toFixed(1)} a second); ${killed} browsers killed, ${lost} episodes lost`,
  );
  expect(finished).toBe(EPISODES);
  expect(killed).toBe(KILLS);
  // Each killed browser showed at most as many episodes as play at once.
  expect(lost).toBeLessThanOrEqual(KILLS * AT_ONCE);
  expect(Math.max(...memory.map(({ tabs }) => tabs))).toBeLessThanOrEqual(AT_ONCE);
  const [early, late] = [memory.slice(1, 4), memory.slice(-3)].map((part) => Math.max(...part.map(({ node }) => node)));
  expect(late).toBeLessThan((early as number) * 1.25 + 50);
  const [warm, end] = [memory.slice(1, 4), memory.slice(-3)].map((part) =>
    Math.max(...part.map(({ browser }) => browser)),
  );
  expect(end).toBeLessThan((warm as number) * 1.25 + 200);
});
