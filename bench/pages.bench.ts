/**
 * `npm run bench -- pages [id…]`: steps a second on browser worlds, by the number of pages at once. A step is a random click, the score,
 * and the frame; an episode that ended or had ten steps is reset, which counts. Where SACCADE_BROWSERGYM_PYTHON names a Python with
 * `browsergym-miniwob`, its loop plays the same pages in the same run, in turns with ours, SACCADE_ROUNDS times. On Linux each of ours also says how many
 * milliseconds of processor a step took, in Node and in all processes of the browser: on a busy machine that says more than the clock.
 */
import { spawnSync } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { systemBrowser } from "../src/envs/pages/find-browser.ts";
import { findPages } from "../worlds/miniwob/miniwob.ts";
import { table } from "./peer.ts";
import { makeWorld, NumpyRandom, sampleAction, type World } from "./saccade.ts";

const named = process.argv.slice(2).filter((word) => word.includes("/") && !word.endsWith(".ts"));
const ids = named.length > 0 ? named : ["pages/login", "pages/shop", "miniwob/click-test-2", "miniwob/click-button"];
const SECONDS = Number(process.env.SACCADE_SECONDS ?? 8);
const ROUNDS = Number(process.env.SACCADE_ROUNDS ?? 1);
const PYTHON = process.env.SACCADE_BROWSERGYM_PYTHON;
const TABS = [1, 4, 8];

type Rate = { readonly steps: number; readonly episodes: number; readonly processorMs?: number };

/** Seconds of processor that this process and all that it started have used; undefined where there is no /proc. */
function processorSeconds(): number | undefined {
  if (process.platform !== "linux") return undefined;
  const of = (id: number): number => {
    try {
      const stat = readFileSync(`/proc/${id}/stat`, "utf8");
      const [user, system] = stat
        .slice(stat.lastIndexOf(")") + 2)
        .split(" ")
        .slice(11, 13)
        .map(Number);
      const children = readdirSync(`/proc/${id}/task`).flatMap((thread) =>
        readFileSync(`/proc/${id}/task/${thread}/children`, "utf8").split(" ").filter(Boolean).map(Number),
      );
      return (Number(user) + Number(system)) / 100 + children.reduce((sum, child) => sum + of(child), 0);
    } catch {
      // It ended meanwhile.
      return 0;
    }
  };
  return of(process.pid);
}

async function play(world: World, random: NumpyRandom, steps: number): Promise<number> {
  const clicks = world.actions.filter((spec) => spec.name === "click");
  await world.reset(random.integers(0, 1_000_000));
  await world.observe("image");
  for (let step = 1; step <= steps; step++) {
    const { ended } = await world.act(sampleAction(clicks, random));
    await world.observe("image");
    if (ended) return step;
  }
  return steps;
}

async function ours(id: string, tabs: number): Promise<Rate> {
  const worlds = await Promise.all(Array.from({ length: tabs }, () => makeWorld(id)));
  await Promise.all(worlds.map((world) => world.reset(0)));
  const before = processorSeconds();
  const start = performance.now();
  let [steps, episodes] = [0, 0];
  await Promise.all(
    worlds.map(async (world, i) => {
      const random = new NumpyRandom(i);
      while (performance.now() - start < SECONDS * 1000) {
        const played = await play(world, random, 10);
        steps += played;
        episodes += 1;
      }
    }),
  );
  const seconds = (performance.now() - start) / 1000;
  const after = processorSeconds();
  for (const world of worlds) await world.close?.();
  const spent = before === undefined || after === undefined ? {} : { processorMs: ((after - before) * 1000) / steps };
  return { steps: steps / seconds, episodes: episodes / seconds, ...spent };
}

/** BrowserGym's loop as it comes, and without its half second of waiting and all but the screenshot. */
function theirs(id: string): { whole: Rate; bare: Rate } | undefined {
  if (PYTHON === undefined) return undefined;
  const site = resolve(import.meta.dirname, "../worlds/pages/site");
  const { stdout, stderr, status } = spawnSync(
    PYTHON,
    [
      join(import.meta.dirname, "peers/browsergym_loop.py"),
      id.startsWith("pages/") ? `${id}#${site}` : id,
      String(SECONDS),
    ],
    {
      encoding: "utf8",
      env: {
        ...process.env,
        MINIWOB_URL: `${pathToFileURL(join(findPages() ?? "", "miniwob")).href}/`,
        CHROMIUM: systemBrowser() ?? "",
      },
    },
  );
  if (status !== 0) throw new Error(`BrowserGym's loop failed on ${id}: ${stderr.trim().split("\n").at(-1)}`);
  return JSON.parse(stdout.trim().split("\n").at(-1) ?? "") as { whole: Rate; bare: Rate };
}

const head = ["page", ...TABS.map((tabs) => `${tabs} at once`), "BrowserGym", "BrowserGym, no wait, screenshot alone"];
const told = ({ steps, episodes, processorMs }: Rate) =>
  `${steps.toFixed(1)} (${episodes.toFixed(1)})${processorMs === undefined ? "" : `, ${processorMs.toFixed(0)} ms`}`;
const best = (rates: readonly Rate[]) => rates.reduce((most, rate) => (rate.steps > most.steps ? rate : most));
const rows: string[][] = [];
for (const id of ids) {
  const rounds: Rate[][] = [];
  for (let round = 0; round < ROUNDS; round++) {
    const rates: Rate[] = [];
    for (const tabs of TABS) rates.push(await ours(id, tabs));
    const gym = theirs(id);
    if (gym !== undefined) rates.push(gym.whole, gym.bare);
    rounds.push(rates);
  }
  const columns = rounds[0]?.map((_, i) => told(best(rounds.map((rates) => rates[i] as Rate)))) ?? [];
  rows.push([id, ...columns, ...Array.from({ length: head.length - 1 - columns.length }, () => "–")]);
}
console.log(
  `Steps with frame a second (episodes a second), and processor time of a step, best of ${ROUNDS} × ${SECONDS} s:\n`,
);
table(head, rows);
process.exit(0);
