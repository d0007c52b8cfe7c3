/**
 * Images of every page, light, dark and on a phone: `npx jiti web/screenshots.ts <runs folder> [run [out [pages]]]` writes view-<page>-<light|dark|phone>.png,
 * by default into docs/images. Those in the docs are of the quickstart's runs.
 */
import "../worlds/register.ts";
import { mkdir, mkdtemp, readdir, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Page } from "playwright-core";
import { httpSource, type Source, startViewer } from "../src/viewer/index.ts";
import { buildWeb, openBrowser, settled } from "./fixture/browser.ts";
import { href } from "./route.ts";

const MODES = {
  light: { viewport: { width: 1360, height: 850 }, colorScheme: "light" },
  dark: { viewport: { width: 1360, height: 850 }, colorScheme: "dark" },
  phone: { viewport: { width: 390, height: 844 }, colorScheme: "light", deviceScaleFactor: 2 },
} as const;

type Shot = { readonly hash: string; readonly before?: (page: Page) => Promise<void> };

const [runs, chosen, out = join(import.meta.dirname, "../docs/images"), only] = process.argv.slice(2);
if (runs === undefined) throw new Error("usage: npx jiti web/screenshots.ts <runs folder> [run [out [pages]]]");
const names = (await readdir(runs)).sort();
const run = chosen ?? names[0] ?? "";
const folder = await mkdtemp(join(tmpdir(), "saccade-view-"));
try {
  await mkdir(out, { recursive: true });
  const webFolder = join(folder, "web");
  await buildWeb(webFolder);
  const viewer = await startViewer({ folder: runs, webFolder });
  const browser = await openBrowser();
  try {
    const shots = await shotsOf(httpSource(viewer.url.replace(/\/$/, "")));
    for (const [mode, options] of Object.entries(MODES)) {
      const page = await (await browser.newContext(options)).newPage();
      // Machines are busy while others train.
      page.setDefaultTimeout(200_000);
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
  const { rows } = await source.trajectories(run, { split: "train", limit: 500 });
  const row = rows.find(({ turns, success, advantage = 0 }) => turns >= 4 && success && advantage > 0.5) ?? rows[0];
  if (row === undefined) throw new Error("The run has no episodes to show.");
  const checkpoint = (await source.overview(run)).checkpoints.at(-1);
  const { rows: evaluated } = await source.trajectories(run, { split: "eval", limit: 50 });
  const pinned = evaluated.find(({ turns, success }) => turns >= 4 && success) ?? evaluated[0] ?? row;
  return {
    runs: { hash: href([]) },
    compare: { hash: href(["compare"], { run: names, smooth: 0.5 }) },
    overview: { hash: href(["run", run]) },
    episodes: { hash: href(["run", run, "episodes"]) },
    trajectory: { hash: href(["run", run, "episode", row.key, 1]) },
    group: { hash: href(["run", run, "group", row.key]) },
    tokens: { hash: href(["run", run, "tokens", row.key]) },
    learn: { hash: href(["run", run, "learn"], { pin: `${pinned.env} ${pinned.seed} 1` }) },
    sight: { hash: href(["run", run, "sight"]) },
    timeline: { hash: href(["run", run, "timeline"]) },
    play: {
      hash: href(["play"], { env: "frozen_lake", seed: 4, model: `run:${run}@${checkpoint}` }),
      before: async (page) => {
        await page.waitForSelector(".likely");
        await page.getByRole("button", { name: "Where it looks" }).click();
        await page.waitForSelector(".look-map i");
      },
    },
  };
}
