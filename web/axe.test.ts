/** Every page of the viewer, light, dark and on a phone: axe-core finds no serious fault, and the console is quiet. */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { seriousFaults } from "./fixture/axe.ts";
import { hasBrowser, settled } from "./fixture/browser.ts";
import { makeRun } from "./fixture/make-run.ts";
import { OpenViewer } from "./fixture/viewer.ts";
import { href } from "./route.ts";

const MODES = {
  light: { viewport: { width: 1280, height: 850 }, colorScheme: "light" },
  dark: { viewport: { width: 1280, height: 850 }, colorScheme: "dark" },
  phone: { viewport: { width: 390, height: 844 }, colorScheme: "light" },
} as const;

describe.skipIf(!hasBrowser)("pages for everybody", { timeout: 300_000 }, () => {
  let folder: string;
  let viewer: OpenViewer;
  let pages: Record<string, string>;
  /** What stands open on a page only when somebody asks for it. */
  const opened: Record<string, (page: Page) => Promise<unknown>> = {
    runs: async (page) => {
      await page.getByRole("button", { name: "More of one" }).click();
      await page.getByText("Columns", { exact: true }).click();
    },
    overview: async (page) => {
      await page.locator(".chart").first().hover();
      await page.locator(".chart").first().getByRole("button", { name: "on the whole screen" }).click();
    },
    episodes: async (page) => {
      await page.getByRole("button", { name: "Filters" }).click();
      await page.locator(".windowed input[type=checkbox]").first().check();
    },
    play: (page) => page.keyboard.press("?"),
    lab: async (page) => {
      await page.getByRole("button", { name: "Start" }).click();
      await page.waitForFunction(() => Number(document.querySelector("main")?.dataset.updates) > 0);
      await page.getByRole("button", { name: "Pause" }).click();
    },
    model: async (page) => {
      await page.waitForSelector(".likely");
      await page.getByRole("button", { name: "Where it looks" }).click();
      await page.waitForSelector(".look-map i");
    },
  };

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), "saccade-axe-"));
    const small = { steps: 4, siblings: 2, groups: 2, seeds: 1, warm: 3 };
    await makeRun(join(folder, "runs/one"), { ...small, name: "one", blind: true });
    await makeRun(join(folder, "runs/two"), { ...small, name: "two", learningRate: 0.5 });
    viewer = await OpenViewer.open(folder, { lab: true });
    const { rows } = await viewer.source.trajectories("one", { split: "train" });
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
      model: href(["play"], { env: "frozen_lake", seed: 3, model: "shipped:generalist" }),
      lab: "lab",
    };
  }, 200_000);
  afterAll(async () => {
    await viewer?.close();
    await rm(folder, { recursive: true, force: true });
  });

  test.each(Object.entries(MODES))("%s", async (_, options) => {
    // What is looked for is in the page; the page's own policy lets nothing else run in it.
    const context = await viewer.browser.newContext({ ...options, bypassCSP: true });
    // Machines that test are often busy.
    context.setDefaultTimeout(100_000);
    const page = await context.newPage();
    const errors: string[] = [];
    page.on("console", (message) => message.type() === "error" && errors.push(message.text()));
    page.on("pageerror", (error) => errors.push(error.message));
    const faults: string[] = [];
    for (const [name, hash] of Object.entries(pages)) {
      await page.goto("about:blank");
      await page.goto(viewer.url + hash);
      // The lab draws nothing before it learns.
      await (name === "lab" ? page.getByRole("button", { name: "Start" }).waitFor() : settled(page));
      const found = await seriousFaults(page);
      if (opened[name] !== undefined) {
        await opened[name](page);
        found.push(...(await seriousFaults(page)));
      }
      faults.push(...found.map((fault) => `${name}: ${fault}`));
    }
    expect(faults).toEqual([]);
    expect(errors).toEqual([]);
    await context.close();
  });
});
