/** The viewer over a run that is trained in the test: watched while it learns, then every page with what the trainer wrote. */
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { NativeEngine } from "../src/engine/index.ts";
import { signalsEnv, type TestFolder, tinyRecipe, warmFolder } from "../src/train/test-run.ts";
import { train } from "../src/train/train.ts";
import { exportRuns, type Source } from "../src/viewer/index.ts";
import { hasBrowser, settled } from "./fixture/browser.ts";
import { OpenViewer, textOf as text } from "./fixture/viewer.ts";
import { href } from "./route.ts";

const STEPS = 10;
const RUN = "trained";

describe.skipIf(!hasBrowser)("a run that is trained here", { timeout: 300_000 }, () => {
  let folder: TestFolder;
  let engine: NativeEngine;
  let viewer: OpenViewer;
  let source: Source;
  /** Lets the trainer make its next step. */
  let goOn: () => void = () => {};
  let training: Promise<unknown>;

  beforeAll(async () => {
    engine = new NativeEngine({ threads: 2 });
    folder = await warmFolder(engine);
    const recipe = tinyRecipe(folder.model, {
      name: "trained-here",
      envs: [signalsEnv(2, { side: 40 })],
      steps: STEPS,
      minibatch: 8,
      loss: { name: "ppo", clipLow: 0.98, clipHigh: 1.02 },
      evaluate: { every: 5, seeds: [1_000_000_000, 1_000_000_007] },
      sight: { every: 5, episodes: 6 },
    });
    // Before it logs step 4 the trainer waits until the page has shown step 3.
    const watched = new Promise<void>((resolve) => {
      goOn = resolve;
    });
    const path = join(folder.root, "runs", RUN);
    await new Promise<void>((begun) => {
      const onStep = async ({ step }: { step: number }): Promise<undefined> => {
        if (step < 4) return undefined;
        begun();
        await watched;
      };
      training = train({ recipe, engine, folder: path, onStep });
    });
    viewer = await OpenViewer.open(folder.root);
    source = viewer.source;
  }, 300_000);
  afterAll(async () => {
    goOn();
    await training;
    await viewer?.close();
    await engine?.close();
    await folder?.remove();
  });

  const visit: OpenViewer["visit"] = (...what) => viewer.visit(...what);
  const trained = async () => (await source.trajectories(RUN, { split: "train", limit: 500 })).rows;

  test("is followed while it learns, to its end", () =>
    visit(href(["run", RUN]), async (page) => {
      await page.waitForFunction(() => document.querySelector(".run-name")?.textContent?.includes("step 3"));
      await expect.poll(() => text(page, ".run-name")).toContain("running");
      goOn();
      await training;
      await page.waitForFunction((last) => {
        const shown = document.querySelector(".run-name")?.textContent ?? "";
        return shown.includes("finished") && shown.includes(`step ${last}`);
      }, STEPS);
    }));

  test("stands in the list with its success between floor and ceiling", () =>
    visit(href([]), async (page) => {
      await expect
        .poll(() => text(page, ".run-row"))
        .toMatch(/trained-here.*finished.*floor \d+ %, random \d+ %, ceiling 100 %/);
    }));

  test("shows the frame the model got and the one that was drawn, and marks the action in the reply", async () => {
    const row = (await trained()).find(({ parseFailures }) => parseFailures === 0);
    await visit(href(["run", RUN, "episode", row?.key ?? "", 0]), async (page) => {
      const size = () => page.locator(".frame.large").evaluate((image) => (image as HTMLImageElement).naturalWidth);
      await expect.poll(size).toBe(32);
      await expect.poll(() => text(page, ".shot mark")).toBe(await text(page, ".shot .chip.action"));
      await page.keyboard.press("f");
      await page.waitForURL(/frames=env/);
      await settled(page);
      await expect.poll(size).toBe(40);
    });
  });

  test("shows tokens with the numbers of sampler and learner, clipped ones marked", async () => {
    const records = await Promise.all((await trained()).map(({ key }) => source.trajectory(RUN, key)));
    const clipped = records.find(({ record }) => record.tokens?.some((sequence) => sequence.clipped?.length));
    const at = clipped?.record.tokens?.[0]?.clipped?.[0];
    await visit(href(["run", RUN, "tokens", clipped?.row.key ?? ""], { at: at ?? 0 }), async (page) => {
      await expect.poll(() => text(page, ".spelled")).toMatch(/kindsampled.*clippedyes/);
    });
  });

  test("shows siblings, evaluations over time, what it sees by turn, and where its time went", async () => {
    const [row] = await trained();
    await visit(href(["run", RUN, "group", row?.key ?? ""]), async (page) => {
      await expect.poll(() => page.locator(".sibling-head").count()).toBeGreaterThan(1);
    });
    await visit(href(["run", RUN, "learn"], { pin: "signals 1000000000 1" }), async (page) => {
      await expect.poll(() => page.locator(".film strong").allInnerTexts()).toEqual(["step 0", "step 5", "step 10"]);
    });
    await visit(href(["run", RUN, "sight"]), async (page) => {
      await expect.poll(() => text(page, ".verdict")).toContain("all the same");
      await expect.poll(() => page.locator(".heat tbody tr").count()).toBe(3);
      await expect.poll(() => text(page, ".list-head")).toContain("looked past the image");
    });
    await visit(href(["run", RUN, "timeline"]), async (page) => {
      await page.waitForSelector(".lane-name", { state: "attached" });
      const lanes = await page.locator(".lane-name").allInnerTexts();
      expect(lanes).toEqual(expect.arrayContaining(["sample", "env", "encode", "learn", "wait"]));
    });
  });

  test("opens from one file on disk without a network", async () => {
    const out = join(folder.root, "trained.html");
    await exportRuns({ folder: join(folder.root, "runs"), out, webFolder: viewer.webFolder });
    const context = await viewer.browser.newContext({ offline: true });
    const page = await context.newPage();
    const asked: string[] = [];
    page.on("request", (request) => /^(file|data|blob):/.test(request.url()) || asked.push(request.url()));
    await page.goto(pathToFileURL(out).href + href(["run", RUN, "sight"]));
    await settled(page);
    await expect.poll(() => text(page, ".verdict")).toContain("all the same");
    expect(asked).toEqual([]);
    await context.close();
  });
});
