/** Every page of the viewer, light, dark and on a phone: axe-core finds no serious fault, and the console is quiet. */
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { AxeResults } from "axe-core";
import type { Browser } from "playwright-core";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { httpSource, startViewer, type Viewer } from "../src/viewer/index.ts";
import { buildWeb, hasBrowser, openBrowser, settled } from "./fixture/browser.ts";
import { makeRun } from "./fixture/make-run.ts";
import { href } from "./route.ts";

const MODES = {
  light: { viewport: { width: 1280, height: 850 }, colorScheme: "light" },
  dark: { viewport: { width: 1280, height: 850 }, colorScheme: "dark" },
  phone: { viewport: { width: 390, height: 844 }, colorScheme: "light" },
} as const;

describe.skipIf(!hasBrowser)("pages for everybody", { timeout: 300_000 }, () => {
  let folder: string;
  let browser: Browser;
  let viewer: Viewer;
  let pages: Record<string, string>;
  let axe: string;

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), "saccade-axe-"));
    const small = { steps: 4, siblings: 2, groups: 2, seeds: 1, warm: 3 };
    await makeRun(join(folder, "runs/one"), { ...small, name: "one", blind: true });
    await makeRun(join(folder, "runs/two"), { ...small, name: "two", learningRate: 0.5 });
    await buildWeb(join(folder, "web"));
    viewer = await startViewer({ folder: join(folder, "runs"), webFolder: join(folder, "web") });
    axe = await readFile(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
    const { rows } = await httpSource(viewer.url.replace(/\/$/, "")).trajectories("one", { split: "train" });
    const key = rows.find(({ hasTokens }) => hasTokens)?.key ?? "";
    const run = (...rest: string[]) => href(["run", "one", ...rest]);
    pages = {
      runs: href([]),
      compare: href(["compare"], { run: ["one", "two"], settings: "all" }),
      overview: run(),
      episodes: href(["run", "one", "episodes"], { stepMin: 0 }),
      episode: run("episode", key),
      group: run("group", key),
      tokens: run("tokens", key),
      drift: run("tokens"),
      learn: run("learn"),
      sight: run("sight"),
      timeline: run("timeline"),
      play: href(["play"], { env: "frozen_lake", seed: 3 }),
    };
    browser = await openBrowser();
  }, 200_000);
  afterAll(async () => {
    await browser?.close();
    await viewer?.close();
    await rm(folder, { recursive: true, force: true });
  });

  test.each(Object.entries(MODES))("%s", async (_, options) => {
    // What is looked for is in the page; the page's own policy lets nothing else run in it.
    const context = await browser.newContext({ ...options, bypassCSP: true });
    const page = await context.newPage();
    const errors: string[] = [];
    page.on("console", (message) => message.type() === "error" && errors.push(message.text()));
    page.on("pageerror", (error) => errors.push(error.message));
    const faults: string[] = [];
    for (const [name, hash] of Object.entries(pages)) {
      await page.goto("about:blank");
      await page.goto(viewer.url + hash);
      await settled(page);
      if (name === "runs") await page.getByRole("button", { name: "More of one" }).click();
      await page.evaluate(axe);
      const { violations } = await page.evaluate(() =>
        (globalThis as unknown as { axe: { run(): Promise<AxeResults> } }).axe.run(),
      );
      for (const { id, impact, nodes } of violations) {
        if (impact !== "serious" && impact !== "critical") continue;
        faults.push(
          `${name}: ${id}: ${nodes
            .slice(0, 3)
            .map(({ html }) => html.slice(0, 160))
            .join(" | ")}`,
        );
      }
    }
    expect(faults).toEqual([]);
    expect(errors).toEqual([]);
    await context.close();
  });
});
