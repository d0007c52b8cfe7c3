/** What people do with the viewer every day, in a real browser: curves, the table of runs, episodes. */
import { mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { RunFolder } from "../src/run/index.ts";
import type { RunListItem, TrajectoryRow } from "../src/viewer/api.ts";
import type { Source } from "../src/viewer/index.ts";
import { hasBrowser, settled } from "./fixture/browser.ts";
import { makeRun, startRun } from "./fixture/make-run.ts";
import { OpenViewer, textOf as text } from "./fixture/viewer.ts";
import { href } from "./route.ts";

const TITLE = "train/success";
const SMALL = { steps: 8, siblings: 2, groups: 2, seeds: 1, warm: 6 };

describe.skipIf(!hasBrowser)("the viewer every day", { timeout: 200_000 }, () => {
  let folder: string;
  let viewer: OpenViewer;
  let source: Source;
  let run: RunFolder;
  /** What the run that is alive logged last. */
  let newest = 0.5;

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), "saccade-daily-"));
    const runs = join(folder, "runs");
    for (const seed of [0, 1, 2]) await makeRun(join(runs, `lake-s${seed}`), { ...SMALL, name: `lake-s${seed}`, seed });
    await makeRun(join(runs, "other"), { ...SMALL, name: "other", warm: 120, learningRate: 0.5 });
    run = await startRun(join(runs, "alive"), { ...SMALL, name: "alive" });
    viewer = await OpenViewer.open(folder);
    source = viewer.source;
  }, 200_000);

  afterAll(async () => {
    await viewer?.close();
    await run?.close("finished");
    await rm(folder, { recursive: true, force: true });
  });

  const visit: OpenViewer["visit"] = (...what) => viewer.visit(...what);
  const chart = (page: Page, title: string) => page.locator(".chart", { has: page.getByText(title, { exact: true }) });
  const drawn = (page: Page, title: string) =>
    chart(page, title)
      .locator("canvas")
      .first()
      .evaluate((canvas) => (canvas as HTMLCanvasElement).toDataURL());

  describe.each([
    ["Overview", () => href(["run", "alive"], { q: TITLE }), () => href(["run", "lake-s0"], { q: TITLE })],
    [
      "Compare",
      () => href(["compare"], { run: ["alive", "lake-s0"], metric: TITLE }),
      () => href(["compare"], { run: ["lake-s0", "lake-s1"], metric: TITLE }),
    ],
  ])("curves on %s", (name, alive, done) => {
    test("smoothing, axis and logarithm change the curve and stand in the link", () =>
      visit(alive(), async (page) => {
        const changes = async (link: RegExp, act: () => Promise<unknown>) => {
          const before = await drawn(page, TITLE);
          await act();
          await page.waitForURL(link);
          await expect.poll(() => drawn(page, TITLE)).not.toBe(before);
        };
        await changes(/smooth=0\.9/, () => page.getByLabel("Smoothing").fill("0.9"));
        const axes = page.getByLabel("Axis");
        const usual = await axes.inputValue();
        const others = ["rl", "step", "episodes", "tokens", "time"].filter((axis) => axis !== usual);
        for (const axis of [...others, usual]) await changes(new RegExp(`x=${axis}`), () => axes.selectOption(axis));
        await changes(/log=y/, () => page.getByRole("button", { name: "log", exact: true }).click());
      }));

    test("a zoom stands in the link, is there after a reload, and stays while the run goes on", () =>
      visit(alive(), async (page) => {
        const box = (await chart(page, TITLE).locator(".u-over").boundingBox())!;
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
        const reloaded = await drawn(page, TITLE);
        newest += 0.125;
        run.log("train", 48 + 16 * newest, { [TITLE]: newest });
        await run.flush();
        await chart(page, TITLE)
          .getByText(`${(100 * newest).toPrecision(2)} %`)
          .waitFor();
        await settled(page);
        expect(page.url()).toBe(link);
        // The new point lies outside: what is shown is the same stretch.
        await expect.poll(() => drawn(page, TITLE)).toBe(reloaded);
        await page.getByRole("button", { name: "Whole axis" }).click();
        await page.waitForURL((url) => !url.href.includes("zoom="));
        await expect.poll(() => drawn(page, TITLE)).not.toBe(reloaded);
      }));

    test("a chart takes the whole screen, and itself away as CSV and PNG", () =>
      visit(done(), async (page) => {
        const one = chart(page, TITLE);
        await one.hover();
        const [csv] = await Promise.all([
          page.waitForEvent("download"),
          one.getByRole("button", { name: `${TITLE} as CSV` }).click(),
        ]);
        const rows = (await readFile(await csv.path(), "utf8")).trim().split("\n");
        const runs = name === "Overview" ? ["lake-s0"] : ["lake-s0", "lake-s1"];
        const replies = await Promise.all(runs.map((id) => source.series(id, [TITLE])));
        const [first, ...others] = replies.map(({ series }) => series[0]!);
        // Compare counts the steps of reinforcement learning.
        const warm = name === "Overview" ? 0 : SMALL.warm;
        expect(rows[0]).toBe(name === "Overview" ? "step,success" : "RL step,lake-s0,lake-s1");
        expect(rows.slice(1)).toEqual(
          first!.steps.map((step, i) =>
            [step - warm, first!.values[i], ...others.map(({ values }) => values[i])].join(","),
          ),
        );
        const [png] = await Promise.all([
          page.waitForEvent("download"),
          one.getByRole("button", { name: `${TITLE} as PNG` }).click(),
        ]);
        expect((await readFile(await png.path())).subarray(1, 4).toString()).toBe("PNG");
        await one.getByRole("button", { name: `${TITLE} on the whole screen` }).click();
        await page.waitForURL(/full=/);
        await expect.poll(async () => (await one.boundingBox())?.width).toBe(1280);
        await page.keyboard.press("Escape");
        await page.waitForURL((url) => !url.href.includes("full="));
      }));

    test("a search finds any metric by its name or meaning", () =>
      visit(done(), async (page) => {
        await page.getByLabel("Search metrics").fill("grad norm");
        await page.waitForURL(/q=grad/);
        await chart(page, "optimizer/grad_norm").waitFor();
        await expect.poll(() => text(page, ".charts >> nth=-1")).not.toContain(TITLE);
      }));
  });

  describe("curves", () => {
    test("runs are aligned where reinforcement learning begins", async () => {
      await visit(href(["compare"], { run: ["other", "lake-s0"], metric: "train/success" }), async (page) => {
        await expect.poll(() => page.getByLabel("Axis").inputValue()).toBe("rl");
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
          await expect.poll(() => page.locator(".chart li").count()).toBe(4);
          await page.getByRole("button", { name: "Seeds as mean" }).click();
          await page.waitForURL(/seeds=mean/);
          await page.waitForFunction(() => document.querySelectorAll(".chart li").length === 2);
          await expect.poll(() => page.locator(".chart li span").allInnerTexts()).toEqual(["lake, 3 seeds", "other"]);
          const odd = page.locator(".differences tr", { hasText: "optimizer.learningRate" }).locator(".odd");
          await expect.poll(() => odd.allInnerTexts()).toEqual(["0.5"]);
          await page.getByRole("button", { name: /in which they agree/ }).click();
          await expect.poll(() => text(page, ".differences")).toContain("loss.name");
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
        await page.waitForSelector(".shares td:nth-child(3)");
        const shares = await page.locator(".shares td:nth-child(3)").allInnerTexts();
        const sum = shares.reduce((total, share) => total + Number.parseFloat(share), 0);
        expect(sum).toBeGreaterThan(99.5);
        expect(sum).toBeLessThan(100.5);
      }));
  });

  describe("runs", () => {
    test("columns are chosen, and the table is sorted by any of them, each way", async () => {
      for (const [run, score] of [
        ["lake-s0", 0.2],
        ["lake-s1", 0.9],
        ["other", 0.5],
      ] as const) {
        const best = { step: 8, score, metric: "eval/success", evaluation: "" };
        await writeFile(join(folder, "runs", run, "checkpoints/best.json"), JSON.stringify(best));
      }
      await visit(href([]), async (page) => {
        await page.getByText("Columns", { exact: true }).click();
        for (const name of ["Recipe", "Size"]) await page.getByLabel(name, { exact: true }).check();
        await page.getByLabel("Updated", { exact: true }).uncheck();
        await page.keyboard.press("Escape");
        await page.locator(".menu[open]").waitFor({ state: "detached" });
        await page.waitForFunction(() =>
          [...document.querySelectorAll(".col-size")].every((cell) => /KB|MB/.test(cell.textContent ?? "")),
        );
        const heads = await page.locator(".run-table thead th button").allInnerTexts();
        expect(heads.map((head) => head.replace(/\W+$/, ""))).toEqual([
          "Run",
          "Status",
          "Success",
          "Best",
          "Sight",
          "Environment",
          "Model",
          "Recipe",
          "Duration",
          "Size",
        ]);
        const { runs } = await source.runs();
        const values: Record<string, (run: RunListItem) => string | number | undefined> = {
          Run: ({ name }) => name,
          Status: ({ status }) => status,
          Success: ({ metrics }) => metrics["eval/success"] ?? undefined,
          Best: ({ best }) => best,
          Sight: ({ metrics }) => metrics["sight/gap"] ?? undefined,
          Environment: ({ envs }) => envs[0],
          Model: ({ model }) => model,
          Recipe: ({ recipe }) => recipe,
          Duration: ({ ms }) => ms,
          Size: ({ bytes }) => bytes,
        };
        const shown = async (of: (run: RunListItem) => string | number | undefined) => {
          const names = await page.locator(".run-row th a").allInnerTexts();
          return names.map((name) => of(runs.find((one) => one.name === name)!));
        };
        for (const [head, of] of Object.entries(values)) {
          const known = runs.map(of).filter((value) => value !== undefined);
          const up = known.toSorted((a, b) => (a < b ? -1 : a > b ? 1 : 0));
          // What has no value comes last, either way.
          const none = runs.slice(known.length).map(() => undefined);
          const words = typeof known[0] === "string";
          const button = page.locator(".run-table thead").getByRole("button", { name: head });
          await button.click();
          await page.waitForURL(/sort=/);
          await expect.poll(() => shown(of)).toEqual([...(words ? up : up.toReversed()), ...none]);
          await button.click();
          await expect.poll(() => shown(of)).toEqual([...(words ? up.toReversed() : up), ...none]);
        }
      });
    });

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
        await expect.poll(() => text(page, ".run-row >> nth=0")).toContain("lake-s1");
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
        await expect.poll(() => page.locator(".run-row th a").allInnerTexts()).toEqual(["lake-s2"]);
        // Its notes are still open.
        await page.getByRole("button", { name: "Unarchive" }).click();
        await page.waitForFunction(() => document.querySelectorAll(".run-row").length === 0);
      }));

    test("are deleted after a question, and only then; others stay", async () => {
      await makeRun(join(folder, "runs", "doomed"), { ...SMALL, name: "doomed", steps: 1 });
      await visit(href([]), async (page) => {
        await page.getByRole("button", { name: "More of doomed" }).click();
        await page.getByRole("button", { name: "Delete…" }).click();
        await expect.poll(() => text(page, "dialog[open]")).toMatch(/Delete doomed\?.*can't be undone/);
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
        await page.getByRole("button", { name: "Copy: reproduce" }).click();
        const again = () => page.evaluate(() => navigator.clipboard.readText());
        await expect.poll(again).toMatch(/^saccade train \S+ --new$/);
      }));
  });

  describe("episodes", () => {
    test("say how they ended in the words of their world, and are filtered by it", async () => {
      const { facets } = await source.trajectories("lake-s0");
      expect(facets.ends).toContain("fell into a hole");
      await visit(href(["run", "lake-s0", "episodes"], { end: "fell into a hole" }), async (page) => {
        await page.waitForSelector(".episode-row .outcome");
        const ends = await page.locator(".episode-row .outcome").allInnerTexts();
        expect(new Set(ends)).toEqual(new Set(["✗ fell into a hole"]));
      });
    });

    test("are sorted by every column, each way, as the column shows", () =>
      visit(href(["run", "lake-s0", "episodes"], { split: "train" }), async (page) => {
        const heads = page.getByRole("group", { name: "Sort by" });
        const number = (cell: string) => Number.parseFloat(cell.replace("−", "-").replace("step ", ""));
        const words = (cell: string) => cell.replace(/^\W+/, "");
        const columns: readonly [head: string, cells: string, value: (cell: string) => number | string][] = [
          ["Step", ".step", number],
          ["Environment", ".names strong", words],
          ["Outcome", ".outcome", words],
          ["Reward", '[title="reward"]', number],
          ["Turns", ".turn-count", number],
          ["Advantage", ".last", number],
        ];
        for (const [head, cells, value] of columns) {
          const ordered = async (rising: boolean) => {
            await settled(page);
            const shown = (await page.locator(`.episode-row ${cells}`).allInnerTexts()).map(value);
            const known = shown.filter((one) => !Number.isNaN(one));
            const [low, high] = rising ? [known.slice(0, -1), known.slice(1)] : [known.slice(1), known.slice(0, -1)];
            return known.length > 5 && low.every((one, i) => one <= high[i]!);
          };
          // By step they are sorted already.
          if (head !== "Step") await heads.getByRole("button", { name: head }).click();
          await expect.poll(() => ordered(false)).toBe(true);
          await heads.getByRole("button", { name: head }).click();
          await page.waitForURL(/order=asc/);
          await expect.poll(() => ordered(true)).toBe(true);
        }
      }));

    test("are filtered by everything that a row shows, with the controls of the page", async () => {
      const { rows } = await source.trajectories("lake-s0", { limit: 1000 });
      const sibling = rows.find((row) => row.sibling > 0)!;
      const drifts = rows.flatMap((row) => row.drift ?? []).sort((a, b) => a - b);
      const drift = drifts[Math.floor(drifts.length / 2)]!;
      // A label's text holds the options of its list.
      const filter = (page: Page, label: string) =>
        page.locator("#filters label", { has: page.locator(`span:text-is("${label}")`) }).locator("select, input");
      const within = (value: number | undefined, low: number) => value !== undefined && value >= low;
      const controls: readonly [label: string, value: string, keeps: (row: TrajectoryRow) => boolean][] = [
        ["Environment", "frozen_lake", ({ env }) => env === "frozen_lake"],
        ["Split", "eval", ({ split }) => split === "eval"],
        ["Success", "true", ({ success }) => success],
        ["End", "fell into a hole", ({ success, ending }) => !success && ending === "fell into a hole"],
        ["Sampling", "true", ({ temperature }) => temperature === 0],
        ["Replies", "true", ({ parseFailures }) => parseFailures > 0],
        ["Seed", String(sibling.seed), ({ seed }) => seed === sibling.seed],
        ["Sibling", String(sibling.sibling), (row) => row.sibling === sibling.sibling],
        ["Step from", "9", ({ step }) => step >= 9],
        ["Reward from", "0.5", ({ reward }) => reward >= 0.5],
        ["Turns from", "4", ({ turns }) => turns >= 4],
        ["Advantage from", "0.1", ({ advantage }) => within(advantage, 0.1)],
        ["Drift from", String(drift), (row) => within(row.drift, drift)],
      ];
      await visit(href(["run", "lake-s0", "episodes"]), async (page) => {
        await page.getByRole("button", { name: "Filters" }).click();
        for (const [label, value, keeps] of controls) {
          const kept = rows.filter(keeps).length;
          // A filter that keeps all, or none, would show nothing.
          expect([label, kept > 0 && kept < rows.length]).toEqual([label, true]);
          const control = filter(page, label);
          if ((await control.evaluate((element) => element.tagName)) === "SELECT") await control.selectOption(value);
          else {
            await control.fill(value);
            await control.press("Enter");
          }
          await expect
            .poll(() => text(page, ".list-head [role=status]"))
            .toMatch(new RegExp(`^${kept} of ${rows.length} episodes`));
          await page.getByRole("button", { name: "Clear" }).click();
          await expect.poll(() => text(page, ".list-head [role=status]")).toBe(`${rows.length} episodes`);
        }
        // Several at once, in the link.
        await filter(page, "Split").selectOption("eval");
        await filter(page, "Success").selectOption("true");
        const both = rows.filter(({ split, success }) => split === "eval" && success).length;
        await expect.poll(() => text(page, ".list-head [role=status]")).toMatch(new RegExp(`^${both} of `));
        expect(page.url()).toMatch(/split=eval&success=true/);
      });
    });

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
        await expect.poll(() => text(page, ".copy-list")).toContain(`--seed ${rows[0]!.seed}`);
      });
      await visit(href(["run", "lake-s0", "episodes"], { label: "odd" }), async (page) => {
        await expect.poll(() => page.locator(".episode-row").count()).toBe(1);
      });
    });

    test("are chosen and taken away as demonstrations and as a film", () =>
      visit(href(["run", "lake-s0", "episodes"], { env: "frozen_lake" }), async (page) => {
        const boxes = page.locator(".pick-row > input");
        await boxes.nth(0).check();
        await boxes.nth(1).check();
        await expect.poll(() => text(page, ".chosen-bar")).toContain("2 episodes chosen");
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

    test.each([1280, 390])("of the chosen seed are named in view, %i pixels wide", async (width) => {
      const { seeds } = await source.evaluations("lake-s0");
      const { env, seed, temperature } = seeds.at(-1)!;
      const link = href(["run", "lake-s0", "learn"], { pin: `${env} ${seed} ${temperature}` });
      const inView = async (page: Page) => {
        const [list, chosen] = await Promise.all([
          page.locator(".seeds ul").boundingBox(),
          page.locator(".seeds [aria-pressed=true]").boundingBox(),
        ]);
        return chosen!.x >= list!.x - 1 && chosen!.x + chosen!.width <= list!.x + list!.width + 1;
      };
      await visit(
        link,
        async (page) => {
          await expect.poll(() => text(page, ".seeds [aria-pressed=true]")).toContain(`seed ${seed}`);
          await expect.poll(() => inView(page)).toBe(true);
          // From the last, the next one is the first.
          await page.keyboard.press("ArrowDown");
          await page.waitForURL((url) => !url.href.endsWith(link));
          await expect.poll(() => inView(page)).toBe(true);
        },
        width,
      );
    });

    test("open their tokens on surprise, with a legend", async () => {
      const { rows } = await source.trajectories("lake-s0", { split: "train" });
      const row = rows.find(({ hasTokens }) => hasTokens)!;
      await visit(href(["run", "lake-s0", "tokens", row.key]), async (page) => {
        await expect.poll(() => page.locator(".token-text").getAttribute("class")).toContain("by-surprise");
        await expect.poll(() => text(page, ".token-legend")).toMatch(/how unlikely.*3 nats or more/);
        // It is on the screen, wherever the most surprising token is.
        const box = await page.locator(".token-legend").boundingBox();
        expect(box?.y).toBeGreaterThan(0);
        await expect.poll(() => page.evaluate(() => scrollY)).toBe(0);
      });
    });
  });
});
