/**
 * Pictures of every page, light, dark and on a phone, of runs made by fixture/make-run.ts: `npx jiti web/screenshots.ts [folder [pages]]`
 * writes view-<page>-<light|dark|phone>.png, by default into docs/images.
 */
import { mkdir, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Page } from "playwright-core";
import { httpSource, type Source, startViewer } from "../src/viewer/index.ts";
import { buildWeb, openBrowser, settled } from "./fixture/browser.ts";
import { makeRun } from "./fixture/make-run.ts";
import { href } from "./route.ts";

const MODES = {
  light: { viewport: { width: 1360, height: 850 }, colorScheme: "light" },
  dark: { viewport: { width: 1360, height: 850 }, colorScheme: "dark" },
  phone: { viewport: { width: 390, height: 844 }, colorScheme: "light", deviceScaleFactor: 2 },
} as const;

type Shot = { readonly hash: string; readonly before?: (page: Page) => Promise<void> };

const [out = join(import.meta.dirname, "../docs/images"), only] = process.argv.slice(2);
const folder = await mkdtemp(join(tmpdir(), "saccade-view-"));
try {
  await mkdir(out, { recursive: true });
  await makeRun(join(folder, "runs", "three-worlds"), { name: "three worlds" });
  await makeRun(join(folder, "runs", "high-rate"), {
    name: "high rate",
    learningRate: 3e-3,
    skill: [0.25, 0.6],
    blind: true,
  });
  await makeRun(join(folder, "runs", "first-try"), {
    name: "first try",
    steps: 12,
    learningRate: 1e-4,
    skill: [0.2, 0.75],
  });
  const webFolder = join(folder, "web");
  await buildWeb(webFolder);
  const viewer = await startViewer({ folder: join(folder, "runs"), webFolder });
  const browser = await openBrowser();
  try {
    const shots = await shotsOf(httpSource(viewer.url.replace(/\/$/, "")));
    for (const [mode, options] of Object.entries(MODES)) {
      const page = await (await browser.newContext(options)).newPage();
      for (const [name, { hash, before }] of Object.entries(shots)) {
        if (only !== undefined && !only.split(",").includes(name)) continue;
        await page.goto("about:blank");
        await page.goto(viewer.url + hash);
        await settled(page);
        if (before !== undefined) {
          await before(page);
          await settled(page);
        }
        await page.screenshot({ path: join(out, `view-${name}-${mode}.png`) });
      }
      await page.context().close();
    }
  } finally {
    await browser.close();
    await viewer.close();
  }
} finally {
  await rm(folder, { recursive: true, force: true });
}

async function shotsOf(source: Source): Promise<Record<string, Shot>> {
  const run = "three-worlds";
  const { rows } = await source.trajectories(run, { split: "train", env: "frozen_lake", stepMax: 14, limit: 500 });
  const row = rows.find(({ turns, success, advantage = 0 }) => turns >= 4 && success && advantage > 0.5) ?? rows[0];
  if (row === undefined) throw new Error("The run has no episodes to show.");
  const press = (key: string, times: number) => async (page: Page) => {
    for (let i = 0; i < times; i++) await page.keyboard.press(key);
  };
  return {
    runs: { hash: href([]) },
    compare: { hash: href(["compare"], { runs: "three-worlds,high-rate,first-try", smooth: 0.5 }) },
    overview: { hash: href(["run", run]) },
    alarms: { hash: href(["run", "high-rate"]) },
    episodes: { hash: href(["run", run, "episodes"], { env: "sokoban" }) },
    trajectory: { hash: href(["run", run, "episode", row.key, 1]) },
    group: { hash: href(["run", run, "group", row.key]) },
    tokens: { hash: href(["run", run, "tokens", row.key]) },
    learn: { hash: href(["run", run, "learn"], { pin: "maze_2d/easy 1000000000 0" }), before: press("ArrowRight", 9) },
    sight: { hash: href(["run", run, "sight"]) },
    timeline: { hash: href(["run", run, "timeline"]) },
    play: { hash: href(["play"], { env: "maze_2d/easy", seed: 4 }), before: press("o", 3) },
  };
}
