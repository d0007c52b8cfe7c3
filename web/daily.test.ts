/** What people do with the viewer every day, in a real browser: curves, the table of runs, episodes, a model at the board. */
import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { RunFolder } from "../src/run/index.ts";
import { httpSource, type Source, startViewer, type Viewer } from "../src/viewer/index.ts";
import { buildWeb, errorsOf, hasBrowser, openBrowser, settled } from "./fixture/browser.ts";
import { makeRun, startRun } from "./fixture/make-run.ts";
import { href } from "./route.ts";

const SMALL = { steps: 8, siblings: 2, groups: 2, seeds: 1, warm: 6 };

describe.skipIf(!hasBrowser)("the viewer every day", { timeout: 200_000 }, () => {
  let folder: string;
  let browser: Browser;
  let viewer: Viewer;
  let source: Source;
  let run: RunFolder;

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), "saccade-daily-"));
    const runs = join(folder, "runs");
    for (const seed of [0, 1, 2]) await makeRun(join(runs, `lake-s${seed}`), { ...SMALL, name: `lake-s${seed}`, seed });
    await makeRun(join(runs, "other"), { ...SMALL, name: "other", warm: 120, learningRate: 0.5 });
    run = await startRun(join(runs, "alive"), { ...SMALL, name: "alive" });
    await buildWeb(join(folder, "web"));
    viewer = await startViewer({ folder: runs, webFolder: join(folder, "web") });
    source = httpSource(viewer.url.replace(/\/$/, ""));
    browser = await openBrowser();
  }, 200_000);

  afterAll(async () => {
    await browser?.close();
    await viewer?.close();
    await run?.close("finished");
    await rm(folder, { recursive: true, force: true });
  });

  async function visit(hash: string, body: (page: Page) => Promise<void>, width = 1280): Promise<void> {
    expect(await errorsOf(browser, viewer.url + hash, body, width)).toEqual([]);
  }
  const text = async (page: Page, selector = "main") => (await page.locator(selector).first().textContent()) ?? "";
  const chart = (page: Page, title: string) => page.locator(".chart", { has: page.getByText(title, { exact: true }) });
  const drawn = (page: Page, title: string) =>
    chart(page, title)
      .locator("canvas")
      .first()
      .evaluate((canvas) => (canvas as HTMLCanvasElement).toDataURL());

  describe("curves", () => {
    const pages = {
      overview: () => href(["run", "alive"], { q: "train/success" }),
      compare: () => href(["compare"], { run: ["alive", "lake-s0"], metric: "train/success" }),
    };
    test.each(Object.entries(pages))(
      "on %s: smoothing, axis and logarithm change the curve and stand in the link",
      (_, at) =>
        visit(at(), async (page) => {
          const before = await drawn(page, "train/success");
          await page.getByLabel("Smoothing").fill("0.9");
          await page.waitForURL(/smooth=0\.9/);
          await expect.poll(() => drawn(page, "train/success")).not.toBe(before);
          for (const axis of ["rl", "step", "episodes", "tokens", "time"]) {
            await page.getByLabel("Axis").selectOption(axis);
            await page.waitForURL(new RegExp(`x=${axis}`));
          }
          await page.getByRole("button", { name: "log", exact: true }).click();
          await page.waitForURL(/log=y/);
          await settled(page);
        }),
    );

    test("a zoom stands in the link, is there after a reload, and stays while the run goes on", () =>
      visit(href(["run", "alive"], { q: "train/success" }), async (page) => {
        const box = (await chart(page, "train/success").locator(".u-over").boundingBox())!;
        await page.mouse.move(box.x + box.width * 0.3, box.y + 40);
        await page.mouse.down();
        await page.mouse.move(box.x + box.width * 0.7, box.y + 40, { steps: 5 });
        await page.mouse.up();
        await page.waitForURL(/zoom=/);
        const link = page.url();
        await page.reload();
        await settled(page);
        expect(page.url()).toBe(link);
        await page.mouse.move(0, 0);
        const reloaded = await drawn(page, "train/success");
        run.log("train", 60, { "train/success": 0.75 });
        await run.flush();
        await page.waitForFunction(() => document.querySelector(".run-name")?.textContent?.includes("step 60"));
        await settled(page);
        expect(page.url()).toBe(link);
        // The new point lies outside: what is shown is the same stretch.
        await expect.poll(() => drawn(page, "train/success")).toBe(reloaded);
        await page.getByRole("button", { name: "Whole axis" }).click();
        await page.waitForURL((url) => !url.href.includes("zoom="));
        await expect.poll(() => drawn(page, "train/success")).not.toBe(reloaded);
      }));

    test("a chart takes the whole screen, and itself away as CSV and PNG", () =>
      visit(href(["run", "lake-s0"], { q: "train/success" }), async (page) => {
        const one = chart(page, "train/success");
        await one.hover();
        const [csv] = await Promise.all([
          page.waitForEvent("download"),
          one.getByRole("button", { name: "train/success as CSV" }).click(),
        ]);
        const rows = (await readFile(await csv.path(), "utf8")).trim().split("\n");
        const { series } = await source.series("lake-s0", ["train/success"]);
        expect(rows[0]).toBe("step,success");
        expect(rows.slice(1)).toEqual(series[0]!.steps.map((step, i) => `${step},${series[0]!.values[i]}`));
        const [png] = await Promise.all([
          page.waitForEvent("download"),
          one.getByRole("button", { name: "train/success as PNG" }).click(),
        ]);
        expect((await readFile(await png.path())).subarray(1, 4).toString()).toBe("PNG");
        await one.getByRole("button", { name: "train/success on the whole screen" }).click();
        await page.waitForURL(/full=/);
        await expect.poll(async () => (await one.boundingBox())?.width).toBe(1280);
        await page.keyboard.press("Escape");
        await page.waitForURL((url) => !url.href.includes("full="));
      }));

    test("a search finds any metric by its name or meaning", () =>
      visit(href(["run", "lake-s0"]), async (page) => {
        await page.getByLabel("Search metrics").fill("grad norm");
        await page.waitForURL(/q=/);
        await chart(page, "optimizer/grad_norm").waitFor();
        expect(await text(page, ".charts >> nth=-1")).not.toContain("train/success");
      }));

    test("runs are aligned where reinforcement learning begins", async () => {
      await visit(href(["compare"], { run: ["other", "lake-s0"], metric: "train/success" }), async (page) => {
        expect(await page.getByLabel("Axis").inputValue()).toBe("rl");
        const one = chart(page, "train/success");
        await one.hover();
        const [csv] = await Promise.all([
          page.waitForEvent("download"),
          one.getByRole("button", { name: "train/success as CSV" }).click(),
        ]);
        const rows = (await readFile(await csv.path(), "utf8")).trim().split("\n").slice(1);
        expect(rows.map((row) => row.split(",")[0])).toEqual(["1", "2", "3", "4", "5", "6", "7", "8"]);
        expect(rows.every((row) => row.split(",").every((cell) => cell !== ""))).toBe(true);
      });
    });

    test("what running runs log appears in a comparison without a reload", () =>
      visit(href(["compare"], { run: ["alive", "lake-s0"], metric: "policy/entropy" }), async (page) => {
        run.log("train", 70, { "policy/entropy": 0.4321 });
        await run.flush();
        await page.waitForFunction(() => document.querySelector(".chart ul")?.textContent?.includes("0.43"));
      }));

    test("runs that differ in their seed alone become a mean with its interval; what differs is marked", () =>
      visit(
        href(["compare"], { run: ["lake-s0", "lake-s1", "lake-s2", "other"], metric: "train/success" }),
        async (page) => {
          expect(await page.locator(".chart li").count()).toBe(4);
          await page.getByRole("button", { name: "Seeds as mean" }).click();
          await page.waitForURL(/seeds=mean/);
          await page.waitForFunction(() => document.querySelectorAll(".chart li").length === 2);
          expect(await page.locator(".chart li span").allInnerTexts()).toEqual(["lake, 3 seeds", "other"]);
          const odd = page.locator(".differences tr", { hasText: "optimizer.learningRate" }).locator(".odd");
          expect(await odd.allInnerTexts()).toEqual(["0.5"]);
          await page.getByRole("button", { name: /in which they agree/ }).click();
          expect(await text(page, ".differences")).toContain("loss.name");
        },
      ));

    test("figures of small batches are lines, not a block of colour", () =>
      visit(href(["run", "other"]), async (page) => {
        const title = "Probability of the taught move, by distance";
        await chart(page, title).scrollIntoViewIfNeeded();
        const canvas = chart(page, title).locator("canvas").first();
        const painted = () =>
          canvas.evaluate((element) => {
            const { width, height } = element as HTMLCanvasElement;
            const { data } = (element as HTMLCanvasElement).getContext("2d")!.getImageData(0, 0, width, height);
            let count = 0;
            for (let i = 3; i < data.length; i += 4) if (data[i]! > 100) count++;
            return count / (width * height);
          });
        const smooth = await painted();
        await page.getByLabel("Smoothing").fill("0");
        await page.waitForURL(/smooth=0/);
        // A chart out of sight waits until it is seen.
        await chart(page, title).scrollIntoViewIfNeeded();
        await expect.poll(painted).toBeGreaterThan(smooth * 1.2);
      }));

    test("the shares of the timeline add up to the whole", () =>
      visit(href(["run", "lake-s0", "timeline"]), async (page) => {
        const shares = await page.locator(".shares td:nth-child(3)").allInnerTexts();
        const sum = shares.reduce((total, share) => total + Number.parseFloat(share), 0);
        expect(sum).toBeGreaterThan(99.5);
        expect(sum).toBeLessThan(100.5);
      }));
  });

  describe("runs", () => {
    test("are sorted by any column, and columns are chosen", () =>
      visit(href([]), async (page) => {
        const names = () => page.locator(".run-row th a").allInnerTexts();
        await page.getByRole("button", { name: "Run", exact: true }).click();
        await page.waitForURL(/sort=name/);
        await expect.poll(names).toEqual(["alive", "lake-s0", "lake-s1", "lake-s2", "other"]);
        await page.getByRole("button", { name: "Run", exact: true }).click();
        await page.waitForURL(/order=desc/);
        await expect.poll(async () => (await names())[0]).toBe("other");
        await page.getByText("Columns", { exact: true }).click();
        await page.getByLabel("Recipe").check();
        await page.getByLabel("Size").check();
        await page.getByLabel("Model", { exact: true }).uncheck();
        await page.waitForFunction(() => /KB|MB/.test(document.querySelector(".col-size")?.textContent ?? ""));
        const heads = await page.locator(".run-table thead").innerText();
        expect([heads.includes("Recipe"), heads.includes("Model")]).toEqual([true, false]);
      }));

    test("take a star, tags and a note, which the search finds and the folder keeps", () =>
      visit(href([]), async (page) => {
        await page.getByRole("button", { name: "Star lake-s1" }).click();
        await page.locator(".star.lit").waitFor();
        await page.getByRole("button", { name: "More of lake-s1" }).click();
        await page.getByLabel("Tags").fill("baseline good");
        await page.keyboard.press("Enter");
        await page.locator(".run-row .chip", { hasText: "baseline" }).waitFor();
        await page.getByLabel("Note").fill("three seeds are enough");
        await page.getByLabel("Tags").focus();
        await page.locator(".run-row .run-note", { hasText: "three seeds" }).waitFor();
        expect(await text(page, ".run-row >> nth=0")).toContain("lake-s1");
        await page.getByLabel("Search runs").fill("baseline");
        await page.waitForFunction(() => document.querySelectorAll(".run-row").length === 1);
        const kept = JSON.parse(await readFile(join(folder, "runs/lake-s1/notes.json"), "utf8"));
        expect(kept).toMatchObject({ tags: ["baseline", "good"], note: "three seeds are enough", star: true });
      }));

    test("are put into the archive and taken out again", () =>
      visit(href([]), async (page) => {
        await page.getByRole("button", { name: "More of lake-s2" }).click();
        await page.getByRole("button", { name: "Archive", exact: true }).click();
        await page.waitForFunction(() => document.querySelectorAll(".run-row").length === 4);
        await page.getByRole("button", { name: /Archive · 1/ }).click();
        await page.waitForURL(/archived=true/);
        expect(await page.locator(".run-row th a").allInnerTexts()).toEqual(["lake-s2"]);
        // Its notes are still open.
        await page.getByRole("button", { name: "Take out of the archive" }).click();
        await page.waitForFunction(() => document.querySelectorAll(".run-row").length === 0);
      }));

    test("are deleted after a question, and only then; others stay", async () => {
      await makeRun(join(folder, "runs", "doomed"), { ...SMALL, name: "doomed", steps: 1 });
      await visit(href([]), async (page) => {
        await page.getByRole("button", { name: "More of doomed" }).click();
        await page.getByRole("button", { name: "Delete…" }).click();
        expect(await text(page, "dialog[open]")).toMatch(/Delete doomed\?.*can't be undone/);
        await page.getByRole("button", { name: "Cancel" }).click();
        expect(await readdir(join(folder, "runs"))).toContain("doomed");
        await page.getByRole("button", { name: "Delete…" }).click();
        await page.getByRole("button", { name: "Delete", exact: true }).click();
        await page.waitForFunction(() => !document.querySelector(".run-table")?.textContent?.includes("doomed"));
      });
      const left = await readdir(join(folder, "runs"));
      expect(left.sort()).toEqual(["alive", "lake-s0", "lake-s1", "lake-s2", "other"]);
    });

    test("say how to reproduce and resume them, to be copied", () =>
      visit(href([]), async (page) => {
        await page.context().grantPermissions(["clipboard-read", "clipboard-write"]);
        await page.getByRole("button", { name: "More of other" }).click();
        await page.getByRole("button", { name: "Copy: resume" }).click();
        await page.getByText("copied").waitFor();
        const copied = await page.evaluate(() => navigator.clipboard.readText());
        expect(copied).toMatch(/^saccade train \S+ --resume --out \S*runs\/other$/);
      }));
  });

  describe("episodes", () => {
    test("say how they ended in the words of their world, and are filtered by it", async () => {
      const { facets } = await source.trajectories("lake-s0");
      expect(facets.ends).toContain("fell into a hole");
      await visit(href(["run", "lake-s0", "episodes"], { end: "fell into a hole" }), async (page) => {
        const ends = await page.locator(".episode-row .outcome").allInnerTexts();
        expect(new Set(ends)).toEqual(new Set(["✗ fell into a hole"]));
      });
    });

    test("are sorted by what their columns show", () =>
      visit(href(["run", "lake-s0", "episodes"]), async (page) => {
        const turns = () =>
          page
            .locator(".turn-count")
            .evaluateAll((cells) => cells.map((cell) => Number.parseInt(cell.textContent ?? "", 10)));
        await page.getByRole("group", { name: "Sort by" }).getByRole("button", { name: "Turns" }).click();
        await page.waitForURL(/sort=turns/);
        await expect.poll(async () => (await turns()).every((n, i, all) => i === 0 || n <= all[i - 1]!)).toBe(true);
        await page.getByRole("group", { name: "Sort by" }).getByRole("button", { name: "Turns" }).click();
        await page.waitForURL(/order=asc/);
        await expect.poll(async () => (await turns()).every((n, i, all) => i === 0 || n >= all[i - 1]!)).toBe(true);
      }));

    test("take a label and a comment, and are found by them", async () => {
      const { rows } = await source.trajectories("lake-s0", { split: "train" });
      await visit(href(["run", "lake-s0", "episode", rows[0]!.key]), async (page) => {
        await page.getByLabel("Label").fill("odd");
        await page.keyboard.press("Enter");
        await page.getByText("saved").waitFor();
        await page.getByLabel("Comment").fill("turned back twice");
        await page.getByLabel("Label").focus();
        await expect
          .poll(async () => (await source.trajectories("lake-s0", { label: "odd" })).rows[0]?.comment)
          .toBe("turned back twice");
        expect(await text(page, ".copy-list")).toContain(`--seed ${rows[0]!.seed}`);
      });
      await visit(href(["run", "lake-s0", "episodes"], { label: "odd" }), async (page) => {
        expect(await page.locator(".episode-row").count()).toBe(1);
      });
    });

    test("are chosen and taken away as demonstrations and as a film", () =>
      visit(href(["run", "lake-s0", "episodes"], { env: "frozen_lake" }), async (page) => {
        const boxes = page.locator(".pick-row > input");
        await boxes.nth(0).check();
        await boxes.nth(1).check();
        expect(await text(page, ".chosen-bar")).toContain("2 episodes chosen");
        const [demos] = await Promise.all([
          page.waitForEvent("download"),
          page.getByRole("button", { name: "As demonstrations" }).click(),
        ]);
        const rows = (await readFile(await demos.path(), "utf8"))
          .trim()
          .split("\n")
          .map((line) => JSON.parse(line));
        expect(rows).toHaveLength(2);
        expect(rows[0]).toMatchObject({ env: "frozen_lake", success: expect.any(Boolean) });
        expect(JSON.stringify(rows[0].messages[0])).toContain("data:image/png;base64");
        expect(rows[0].messages.at(-1).role).toBe("assistant");
        const [film] = await Promise.all([
          page.waitForEvent("download"),
          page.getByRole("button", { name: "As a film" }).click(),
        ]);
        expect((await readFile(await film.path())).subarray(0, 6).toString()).toBe("GIF89a");
      }));

    test("of one seed are shown over training", async () => {
      const { rows } = await source.trajectories("lake-s0", { split: "eval", env: "frozen_lake" });
      await visit(href(["run", "lake-s0", "episode", rows[0]!.key]), async (page) => {
        await page.getByRole("link", { name: "Same seed" }).click();
        await page.waitForURL(/learn/);
        await expect.poll(() => page.locator(".film").count()).toBe(3);
      });
    });

    test("open their tokens on surprise, with a legend", async () => {
      const { rows } = await source.trajectories("lake-s0", { split: "train" });
      const row = rows.find(({ hasTokens }) => hasTokens)!;
      await visit(href(["run", "lake-s0", "tokens", row.key]), async (page) => {
        expect(await page.locator(".token-text").getAttribute("class")).toContain("by-surprise");
        expect(await text(page, ".token-legend")).toMatch(/how unlikely.*3 nats or more/);
      });
    });
  });

  describe("a model at the board", () => {
    test("tells how likely each action is and where it looks, moves, is taken over and handed back, and is saved", () =>
      visit(href(["play"], { env: "frozen_lake", seed: 3, model: "shipped:generalist" }), async (page) => {
        await page.waitForSelector(".likely");
        const shares = await page.locator(".likely td:last-child").allInnerTexts();
        expect(shares.length).toBe(5);
        const sum = shares.reduce((total, share) => total + Number.parseFloat(share), 0);
        expect(sum).toBeGreaterThan(99);
        expect(sum).toBeLessThan(101);
        expect(await page.locator(".likely .its-move").count()).toBe(1);
        await page.getByRole("button", { name: "Where it looks" }).click();
        await page.waitForSelector(".look-map i");
        const strengths = await page
          .locator(".look-map i")
          .evaluateAll((cells) =>
            cells.map((cell) => Number((cell as HTMLElement).style.getPropertyValue("--strength"))),
          );
        expect(Math.max(...strengths)).toBe(1);
        expect(new Set(strengths).size).toBeGreaterThan(3);
        const said = await text(page, ".likely .its-move th");
        await page.getByRole("button", { name: "Model moves" }).click();
        await page.waitForSelector(".history li >> nth=0");
        // What it said it would do is what it did.
        expect(await text(page, ".history li")).toContain(said);
        expect(await text(page, ".history li small")).toContain("generalist");
        await page.keyboard.press("ArrowDown");
        await page.waitForSelector(".history li >> nth=1");
        await page.waitForSelector(".likely");
        await page.getByRole("button", { name: "Let it play" }).click();
        await page.waitForSelector(".history li >> nth=2");
        const saved = page.getByRole("link", { name: "Save as a demonstration" });
        const [file] = await Promise.all([page.waitForEvent("download"), saved.click()]);
        const row = JSON.parse(await readFile(await file.path(), "utf8"));
        expect(row).toMatchObject({ env: "frozen_lake", seed: 3 });
        expect(row.messages.filter(({ role }: { role: string }) => role === "assistant").length).toBeGreaterThan(2);
      }));

    test("of a path or an unknown name is refused", async () => {
      const { session } = await source.play!.start({ env: "frozen_lake", seed: 1 });
      await mkdir(join(folder, "secret"), { recursive: true });
      await writeFile(join(folder, "secret/config.json"), "{}");
      for (const model of [
        "run:../secret@1",
        "folder:/etc",
        "hosted:openai:gpt",
        "shipped:../recipes",
        "run:lake-s0@7",
      ]) {
        await expect(source.play!.think(session, { model, greedy: true })).rejects.toThrow(/There is no model/);
      }
    });
  });
});
