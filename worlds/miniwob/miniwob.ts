/**
 * MiniWoB++ (Farama, MIT): 128 small tasks on pages of 160 by 210 pixels. The pages are the user's own copy, since one file among them is
 * under another licence and we ship none: `pip install miniwob` holds them all, and its folder is found by itself. Reward is the task's
 * own, from -1 to 1 and without its time penalty; success is a reward above 0, as in BrowserGym. Time is the page's own clock, so tasks
 * that move are as exact as the rest.
 */
import { spawnSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { z } from "zod";
import { ConfigError, packagedFolder } from "../../src/core/index.ts";
import { definePage, type PageView } from "../../src/envs/index.ts";
import { TASKS } from "./tasks.ts";

const options = z.strictObject({
  task: z.enum(TASKS).default("click-test").describe("Which task to play. The id sets it."),
  bar: z
    .boolean()
    .default(true)
    .describe(
      "Show the yellow bar with the instruction. Without it, frames are the 160×160 pixels of the task below; the prompt has the instruction as text either way.",
    ),
  penalty: z
    .boolean()
    .default(true)
    .describe(
      "Whether a wrong end costs 1. Without it, it earns 0, as an end that never came: else a guess that is wrong more often than right pays less than a click beside everything.",
    ),
  pages: z
    .string()
    .optional()
    .describe(
      "Folder of MiniWoB++'s pages (`html` in the package `miniwob`). By default the one in Python's packages.",
    ),
});

/** Tasks whose restart in an open page was compared with a fresh one, byte by byte and after random play; the others are loaded for every episode. */
const IN_PLACE: ReadonlySet<string> = new Set([
  "click-button",
  "click-color",
  "click-dialog",
  "click-link",
  "click-shape",
  "click-tab",
  "click-test",
  "click-test-2",
]);

const isPages = (folder: string) => existsSync(join(folder, "core", "core.js")) && existsSync(join(folder, "miniwob"));
let found: string | undefined;

/** Where the pages are: as given, in SACCADE_MINIWOB, or in the package of `python3`. */
export function findPages(given?: string): string | undefined {
  const named = given ?? process.env.SACCADE_MINIWOB;
  if (named !== undefined && named !== "") {
    const places = [named, join(named, "html"), join(named, "miniwob", "html")].map((place) => resolve(place));
    return places.find(isPages);
  }
  if (found === undefined) {
    const script =
      "import importlib.util as u; s = u.find_spec('miniwob'); print(s.submodule_search_locations[0] if s else '')";
    const { stdout } = spawnSync("python3", ["-c", script], { encoding: "utf8", timeout: 20_000 });
    const folder = (stdout ?? "").trim();
    found = folder === "" ? "" : join(folder, "html");
  }
  return found !== "" && isPages(found) ? found : undefined;
}

function pathOf(task: string): string {
  return task.startsWith("flight.") ? `/flight/${task.slice(7)}/wrapper.html` : `/miniwob/${task}.html`;
}

/** Height of the bar with the instruction. */
const BAR = 50;

function viewOf(task: string, bar: boolean) {
  if (!task.startsWith("flight.")) {
    return bar ? { width: 160, height: 210 } : { y: BAR, width: 160, height: 210 - BAR };
  }
  if (!bar) throw new ConfigError(`${task} has no bar of 50 pixels above its task, so leave bar out.`);
  return { width: 375, height: 667 };
}

/** What the page says of itself, in the words of `definePage`; the oracle where there is one. False where the page does not know the oracles yet. */
function startScript(task: string, penalty: boolean, seed: number): string {
  return `(() => {
    if (globalThis.oracleOf === undefined) return false;
    core.EPISODE_MAX_TIME = 1e8;
    Math.seedrandom("${seed}");
    core.startEpisodeReal();
    const { plan, sights } = globalThis.oracleOf("${task}");
    globalThis.world = {
      goal: () => { const told = core.getUtterance(); return typeof told === "string" ? told : (told.utterance ?? JSON.stringify(told)); },
      score: () => (WOB_DONE_GLOBAL ? Math.max(WOB_RAW_REWARD_GLOBAL, ${penalty ? -1 : 0}) : 0),
      done: () => WOB_DONE_GLOBAL && WOB_RAW_REWARD_GLOBAL > 0,
      over: () => WOB_DONE_GLOBAL,
      plan: () => (WOB_DONE_GLOBAL || plan === undefined ? [] : plan()),
      ...(sights && { sights }),
    };
    return WOB_TASK_READY === true ? "ready" : "started";
  })()`;
}

export const miniwob = definePage({
  id: "miniwob",
  summary: "MiniWoB++: 128 small web tasks, on your own copy of its pages",
  options,
  needs: "a browser and the pages of MiniWoB++",
  difficulties: Object.fromEntries(TASKS.map((task) => [task, { task }])),
  protocol: "keyword",
  maxTurns: 10,
  page: ({ task, bar, penalty, pages }) => {
    const files = findPages(pages);
    if (files === undefined) {
      const where = pages === undefined ? "python3 has no package miniwob" : `they are not in ${pages}`;
      throw new ConfigError(
        `The pages of MiniWoB++ are not part of Saccade, and ${where}. Install them (pip install --no-deps miniwob) or name their folder with the option pages or in SACCADE_MINIWOB.`,
      );
    }
    const folder = packagedFolder("worlds/miniwob");
    if (folder === undefined) {
      throw new ConfigError(
        "worlds/miniwob/oracles.js is missing from this installation of Saccade. Install it again.",
      );
    }
    const oracles = readFileSync(join(folder, "oracles.js"), "utf8");
    return {
      files,
      open: pathOf(task),
      viewport: viewOf(task, bar),
      // The windows of the original, of which it shows the task's corner.
      window: task.startsWith("flight.") ? { width: 600, height: 800 } : { width: 500, height: 320 },
      words: ["hello", "1", "Ada"],
      inPlace: IN_PLACE.has(task),
      timeoutMs: 30_000,
      reset: async (page: PageView, seed: number) => {
        const start = startScript(task, penalty, seed);
        let said = await page.evaluate(start);
        if (said === false) {
          await page.evaluate(oracles);
          said = await page.evaluate(start);
        }
        for (let tries = 0; tries < 50 && said !== "ready"; tries++) {
          await page.advance(100);
          said = await page.evaluate("WOB_TASK_READY === true ? 'ready' : 'started'");
        }
      },
    };
  },
});
