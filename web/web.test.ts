/** The viewer in a real browser, over runs written by the real writers and served by the real server. */
import { execFile } from "node:child_process";
import { cp, mkdtemp, rm, stat } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { promisify } from "node:util";
import type { Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { RunFolder } from "../src/run/index.ts";
import { exportRuns, type Source, startViewer, type TrajectoryRow } from "../src/viewer/index.ts";
import { CHROMIUM, errorsOf, hasBrowser, settled } from "./fixture/browser.ts";
import { EVAL_SEED, makeRun, startRun } from "./fixture/make-run.ts";
import { OpenViewer, textOf as text } from "./fixture/viewer.ts";
import { href } from "./route.ts";

const BIN = resolve(import.meta.dirname, "../dist/cli.js");
const ATTACK = "<script>window.hacked = 1</script><img src=x onerror='window.hacked = 1'><answer>left</answer>";

if (!hasBrowser && (process.env.SACCADE_REQUIRE ?? "").split(",").includes("browser")) {
  test("a browser is there", () =>
    expect.fail(`SACCADE_REQUIRE asks for a browser, and there is none at ${CHROMIUM}.`));
}

describe.skipIf(!hasBrowser)("the viewer in Chromium", () => {
  let folder: string;
  let viewer: OpenViewer;
  let source: Source;
  let run: RunFolder;
  let row: TrajectoryRow;

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), "saccade-web-"));
    await makeRun(join(folder, "runs", "done"), {
      name: "done one",
      steps: 4,
      siblings: 3,
      seeds: 1,
      blind: true,
      learningRate: 0.5,
    });
    run = await startRun(join(folder, "runs", "alive"), {
      name: "alive one",
      steps: 4,
      siblings: 3,
      seeds: 1,
      firstReply: ATTACK,
    });
    viewer = await OpenViewer.open(folder);
    source = viewer.source;
    const { rows } = await source.trajectories("alive", { env: "frozen_lake", split: "train", stepMax: 1 });
    row = rows.find(({ turns }) => turns > 2) ?? rows[0]!;
  });

  afterAll(async () => {
    await viewer?.close();
    await run?.close("finished");
    await rm(folder, { recursive: true, force: true });
  });

  const visit: OpenViewer["visit"] = (...what) => viewer.visit(...what);

  /** Keeps back requests to `url` until the function it gives is called, which waits for their answers. */
  async function hold(page: Page, url: RegExp | ((url: URL) => boolean)): Promise<() => Promise<void>> {
    let free = () => {};
    const freed = new Promise<void>((resolve) => {
      free = resolve;
    });
    const held: Promise<unknown>[] = [];
    await page.route(url, async (route) => {
      held.push(page.waitForResponse((response) => response.request() === route.request()));
      await freed;
      await route.continue();
    });
    // The route stays: taken away while a request is on its way, it would swallow the word that the request was made.
    return async () => {
      free();
      await Promise.all(held);
    };
  }

  test("the list of runs shows success between floor and ceiling, searches, and leads to a comparison by keyboard", () =>
    visit(href([]), async (page) => {
      await expect.poll(() => page.locator(".run-row").count()).toBe(2);
      await expect.poll(() => text(page, ".run-row >> nth=0")).toMatch(/floor 0 %, random 11 %, ceiling 98 %/);
      for (const key of ["x", "j", "x", "c"]) await page.keyboard.press(key);
      await page.waitForURL(/compare/);
      // The address is there before the page behind it.
      await expect.poll(() => page.locator(".chart").count()).toBeGreaterThan(4);
      await expect.poll(() => text(page, ".differences")).toContain("optimizer.learningRate");
      await page.goto(`${viewer.url}${href([])}`);
      await page.waitForSelector(".run-row");
      await page.keyboard.press("/");
      await page.keyboard.type("done");
      await page.waitForFunction(() => document.querySelectorAll(".run-row").length === 1);
    }));

  test("an overview of several environments has a row for each, on a phone, too", async () => {
    for (const width of [1280, 360]) {
      await visit(
        href(["run", "done"]),
        async (page) => {
          const table = page.getByRole("table").filter({ hasText: "Evaluation success" });
          await table.waitFor();
          const heads = await table.locator("thead th").allTextContents();
          expect(heads).toEqual(["Evaluation success", "sampled", "oracle"]);
          const { metrics } = await source.overview("done");
          const envs = await table.locator("tbody th").allTextContents();
          expect(envs.length).toBeGreaterThan(1);
          const shown = await table.locator("tbody td:nth-child(2)").allTextContents();
          expect(shown.map(Number)).toEqual(
            envs.map((env) => expect.closeTo(metrics[`eval/success/${env}`] as number, 2)),
          );
          await expect.poll(() => page.evaluate(() => document.documentElement.scrollWidth <= innerWidth)).toBe(true);
        },
        width,
      );
    }
  });

  test("smoothing changes the curve and stands in the link", () =>
    visit(href(["compare"], { run: ["done", "alive"], metric: "train/reward" }), async (page) => {
      await expect.poll(() => page.locator(".chart h3").allInnerTexts()).toEqual(["train/reward"]);
      const caption = await text(page, ".chart ul");
      const drawn = () => page.locator(".chart canvas").evaluate((canvas) => (canvas as HTMLCanvasElement).toDataURL());
      const raw = await drawn();
      for (let i = 0; i < 5; i++) await page.keyboard.press("+");
      await page.waitForURL(/smooth=0\.50/);
      await expect.poll(drawn, { timeout: 100_000 }).not.toBe(raw);
      await expect.poll(() => text(page, ".chart ul")).toBe(caption);
    }));

  test("the last metric can be taken away, and none come back with the link", () =>
    visit(href(["compare"], { run: ["done", "alive"], metric: "train/reward" }), async (page) => {
      await page.getByRole("button", { name: "Take train/reward away" }).click();
      await page.waitForURL(/metric=none/);
      await page.reload();
      await settled(page);
      await expect.poll(() => page.locator(".legend li").count()).toBe(2);
      await expect.poll(() => page.locator(".chart").count()).toBe(0);
    }));

  test("runs with a comma in their names are compared, and as many as are chosen", async () => {
    const many = join(folder, "many");
    const names = ["a", "b", "a,b", "c", "d", "e", "f"];
    for (const name of names) await cp(join(folder, "runs", "done"), join(many, name), { recursive: true });
    const other = await startViewer({ folder: many, webFolder: viewer.webFolder });
    try {
      const errors = await errorsOf(
        viewer.browser,
        other.url + href(["compare"], { run: ["a,b", "c"] }),
        async (page) => {
          const shown = () =>
            page.locator(".legend a").evaluateAll((links) => links.map((a) => a.getAttribute("href")));
          await expect.poll(shown).toEqual([href(["run", "a,b"]), href(["run", "c"])]);
          // Both come from one recipe, so they have one name; their folders tell them apart.
          await expect.poll(() => page.locator(".legend a").allInnerTexts()).toEqual(["a,b", "c"]);
          await expect
            .poll(() => page.locator(".chart").first().locator("li span").allInnerTexts())
            .toEqual(["a,b", "c"]);
          await page.keyboard.press("+");
          await page.waitForURL(/smooth=0\.10/);
          await expect.poll(shown).toHaveLength(2);
          await page.goto(other.url + href([]));
          await page.waitForSelector(".run-row");
          for (const _ of names) await page.keyboard.press("x").then(() => page.keyboard.press("j"));
          await page.getByRole("button", { name: "Compare 7" }).click();
          await page.waitForURL(/compare/);
          await expect.poll(shown).toHaveLength(7);
        },
      );
      expect(errors).toEqual([]);
    } finally {
      await other.close();
    }
  });

  test("the overview has five sections, at most twenty charts, alarms in words, and the manifest", () =>
    visit(href(["run", "done"]), async (page) => {
      await expect
        .poll(() => page.locator(".chart-section > h2").allInnerTexts())
        .toEqual(["Learning", "Evaluation", "Decisions", "Stability", "Performance"]);
      const charts = await page.locator(".chart canvas").count();
      expect(charts).toBeGreaterThan(8);
      expect(charts).toBeLessThanOrEqual(20);
      const chart = page.locator(".chart", { has: page.getByText("As good as the oracle, by distance") });
      await expect.poll(() => chart.locator("li span").allInnerTexts()).toEqual(["1", "2", "3-4", "5-8", "9-16"]);
      await expect.poll(() => text(page, ".alarms")).toMatch(/The model is blind.*check that the vision part/);
      await page.getByText("Manifest").click();
      await expect.poll(() => text(page, ".manifest")).toContain('"learningRate": 0.5');
    }));

  test("what a live run logs arrives without a reload", () =>
    visit(href(["run", "alive"]), async (page) => {
      await page.waitForSelector(".live");
      run.log("train", 77, { "train/success": 0.5, "policy/entropy": 0.125 });
      await run.flush();
      await page.waitForFunction(() => document.querySelector(".run-name")?.textContent?.includes("step 77"));
      await page.waitForFunction(() => document.querySelector(".figures")?.textContent?.includes("0.13 nats"));
    }));

  test("a new trajectory of a live run joins the list", () =>
    visit(href(["run", "alive", "episodes"], { stepMin: 90 }), async (page) => {
      await expect.poll(() => text(page)).toContain("No episode matches");
      const { record } = await source.trajectory("alive", row.key);
      run.trajectories.append(90, [{ ...record, step: 90 }]);
      await run.flush();
      await page.waitForSelector(".episode-row");
    }));

  test("episodes are filtered by what the link says, and opened by keyboard", () =>
    visit(href(["run", "alive", "episodes"], { env: "frozen_lake", stepMax: 4, split: "eval" }), async (page) => {
      const { total } = await source.trajectories("alive", { env: "frozen_lake", stepMax: 4, split: "eval" });
      await expect.poll(() => text(page, ".list-head [role=status]")).toMatch(new RegExp(`^${total} of `));
      await expect.poll(() => page.locator(".episode-row").count()).toBe(total);
      await page.keyboard.press("j");
      await page.keyboard.press("Enter");
      await page.waitForURL(/\/episode\//);
    }));

  test("a slow answer to a search that was cleared changes nothing", () =>
    visit(href(["run", "alive", "episodes"]), async (page) => {
      await expect.poll(() => text(page, ".list-head [role=status]")).toMatch(/\d/);
      const before = await text(page, ".list-head [role=status]");
      const release = await hold(page, /text=nowhere/);
      await page.getByRole("searchbox").fill("nowhere");
      await page.waitForURL(/text=nowhere/);
      await page.getByRole("button", { name: "Clear" }).click();
      await page.waitForURL((url) => !url.href.includes("text="));
      await release();
      await settled(page);
      await expect.poll(() => text(page, ".list-head [role=status]")).toBe(before);
      await expect.poll(() => text(page)).not.toContain("No episode matches");
    }));

  test("a long list draws only the rows in view and fetches the rest as it scrolls", () =>
    visit(href(["run", "alive", "episodes"]), async (page) => {
      const { all } = await source.trajectories("alive");
      await expect.poll(() => page.locator(".episode-row").count()).toBeLessThan(all);
      for (let i = 0; i < all; i++) await page.keyboard.press("ArrowDown");
      await page.waitForFunction(
        (last) => document.querySelector(`.windowed li[aria-posinset="${last}"] .names`) !== null,
        all,
      );
    }));

  test("the film strip follows the arrow keys, keeps the turn in the link and shows both frames", () =>
    visit(href(["run", "alive", "episode", row.key, 1]), async (page) => {
      await expect.poll(() => page.locator(".shot").count()).toBe(row.turns + 1);
      await expect.poll(() => text(page, ".shot.current .turn-number")).toBe("1");
      const src = () => page.locator(".frame.large").getAttribute("src");
      const before = await src();
      await page.keyboard.press("ArrowLeft");
      await page.waitForURL(/\/0$/);
      await page.keyboard.press("f");
      await page.waitForURL(/frames=env/);
      await expect.poll(src).not.toBe(before);
      await page.keyboard.press("End");
      await page.waitForSelector(`.shot.current:has-text("end")`);
      await expect.poll(() => page.locator(".shot mark").count()).toBeGreaterThan(0);
      await expect.poll(() => page.getByRole("link", { name: "GIF" }).getAttribute("href")).toContain("frames=env");
    }));

  test("a key pressed while the next episode loads does not lead back to the old one", async () => {
    const { next = "" } = await source.trajectory("alive", row.key);
    const there = href(["run", "alive", "episode", next]);
    await visit(href(["run", "alive", "episode", row.key]), async (page) => {
      const release = await hold(page, (url) => url.pathname.endsWith(`/trajectories/${encodeURIComponent(next)}`));
      await page.keyboard.press("n");
      await page.waitForURL(viewer.url + there);
      await page.keyboard.press("ArrowRight");
      expect(page.url()).toBe(viewer.url + there);
      await release();
      // The page takes keys once it has drawn what arrived; until then they do nothing.
      const pressed = async () => {
        await page.keyboard.press("End");
        return page.url();
      };
      await expect.poll(pressed, { timeout: 60_000 }).toContain(`${there}/`);
    });
  });

  test("a turn's reward is told part by part, its claims are marked right or wrong, and the parts have curves", async () => {
    const { rows } = await source.trajectories("done", { env: "frozen_lake" });
    const records = await Promise.all(
      rows.map(async ({ key }) => ({ key, ...(await source.trajectory("done", key)) })),
    );
    const turnWith = (right: boolean) => {
      for (const { key, record } of records) {
        const turn = record.turns.findIndex(({ rewards = [] }) =>
          rewards.some(({ claims = [] }) => claims.some((claim) => claim.right === right)),
        );
        if (turn >= 0) return { key, turn };
      }
      throw new Error("the fixture has no such claim");
    };
    for (const right of [true, false]) {
      const { key, turn } = turnWith(right);
      await visit(href(["run", "done", "episode", key, turn]), async (page) => {
        const [mark, words, paid] = right
          ? ["right", "the next cell is safe", "+0.25"]
          : ["wrong", "There is a hole ahead", "0"];
        await expect.poll(() => text(page, `.shot.current mark.${mark}`)).toBe(words);
        await expect
          .poll(() => page.locator(".shot.current .earned .part dt").allInnerTexts())
          .toEqual(["task", "format", "state"]);
        await expect.poll(() => text(page, ".shot.current .earned .part >> nth=2")).toBe(`state${paid}`);
      });
    }
    await visit(href(["run", "done"]), async (page) => {
      const chart = page.locator(".chart", { has: page.getByText("Reward and its parts") });
      await expect.poll(() => chart.locator("li span").allInnerTexts()).toEqual(["reward", "format", "state", "task"]);
    });
  });

  test("a reply with script tags is text and does nothing", () =>
    visit(href(["run", "alive", "episode", row.key]), async (page) => {
      await expect.poll(() => text(page, ".reply >> nth=0")).toBe(ATTACK);
      await expect.poll(() => page.evaluate(() => "hacked" in window)).toBe(false);
      await page.goto(`${viewer.url}${href(["run", "alive", "tokens", row.key])}`);
      await settled(page);
      await expect.poll(() => page.evaluate(() => "hacked" in window)).toBe(false);
    }));

  test("the group stands side by side with its advantages and the turn in which it parts", () =>
    visit(href(["run", "alive", "group", row.key]), async (page) => {
      const group = await source.group("alive", row.key);
      await expect.poll(() => page.locator(".sibling-head").count()).toBe(group.members.length);
      await expect.poll(() => page.locator(".sibling-head .advantage").count()).toBe(group.members.length);
      expect(group.divergence).toBeDefined();
      await expect.poll(() => text(page, ".divergence")).toContain(`turn ${group.divergence}`);
    }));

  test("every token can be reached and is spelled out, the most surprising first", () =>
    visit(href(["run", "alive", "tokens", row.key]), async (page) => {
      const { record } = await source.trajectory("alive", row.key);
      const { kinds, images } = record.tokens![0]!;
      const single = [...kinds].filter((kind) => kind !== "i").length;
      await expect.poll(() => page.locator(".token-text .token").count()).toBe(single);
      await expect
        .poll(() => page.locator(".token-image").allInnerTexts())
        .toEqual(images.map(({ length }) => `${length} tokens`));
      const listed = () => page.locator(".worst span").allInnerTexts();
      const surprises = (await listed()).map(Number);
      expect(surprises.length).toBeGreaterThan(3);
      expect(surprises).toEqual(surprises.toSorted((a, b) => b - a));
      await expect.poll(() => page.locator('.worst [aria-pressed="true"]').count()).toBe(1);
      const spelled = await text(page, ".spelled");
      for (const word of ["sampler", "learner", "ratio", "advantage", "clipped"]) expect(spelled).toContain(word);
      await page.keyboard.press("ArrowLeft");
      await page.waitForFunction((old) => document.querySelector(".spelled")?.textContent !== old, spelled);
      await page.getByRole("button", { name: "Drift", exact: true }).click();
      await page.waitForURL(/colour=drift/);
      const drifts = (await listed()).map((cell) => Math.abs(Number(cell.replace("−", "-"))));
      expect(drifts).toEqual(drifts.toSorted((a, b) => b - a));
      await page.keyboard.press("v");
      await page.waitForSelector(".token-table .token-line.kind-s");
    }));

  test("the way into tokens is sorted by drift", () =>
    visit(href(["run", "alive", "tokens"], { stepMax: 4 }), async (page) => {
      await page.waitForSelector(".episode-row .last");
      const cells = await page.locator(".episode-row .last").allInnerTexts();
      const drifts = cells.map((cell) => Number(cell.replace("drift ", "")));
      expect(drifts.length).toBeGreaterThan(5);
      expect(drifts).toEqual(drifts.toSorted((a, b) => b - a));
    }));

  test("a pinned seed is shown at every evaluation, all films at one turn", () =>
    visit(href(["run", "alive", "learn"], { pin: `frozen_lake ${EVAL_SEED} 1` }), async (page) => {
      await expect.poll(() => page.locator(".film strong").allInnerTexts()).toEqual(["step 0", "step 4"]);
      await page.keyboard.press("ArrowRight");
      await page.waitForFunction(() => document.querySelector(".films output")?.textContent === "turn 1");
    }));

  test("sight says in words that a model is blind, and lists the episodes", () =>
    visit(href(["run", "done", "sight"]), async (page) => {
      await expect.poll(() => text(page, ".verdict.bad")).toMatch(/the model is blind.*all the same/i);
      await expect.poll(() => page.locator(".heat tbody tr").count()).toBe(2);
      await expect.poll(() => page.locator(".episode-row").count()).toBeGreaterThan(0);
    }));

  test("the timeline has a lane for each kind of work and a trace to take away", () =>
    visit(href(["run", "done", "timeline"]), async (page) => {
      await page.waitForSelector(".lane-name", { state: "attached" });
      const lanes = await page.locator(".lane-name").allInnerTexts();
      expect(lanes).toEqual(expect.arrayContaining(["sample", "env", "encode", "learn", "wait"]));
      await expect.poll(() => page.locator(".work").count()).toBeGreaterThan(20);
      await page.keyboard.press("ArrowLeft");
      await page.waitForURL(/to=/);
      await expect
        .poll(() => page.getByRole("link", { name: "Perfetto" }).getAttribute("href"))
        .toContain("perfetto.json");
    }));

  test("an environment can be played with keys, buttons and words", () =>
    visit(href(["play"], { env: "frozen_lake", seed: 3 }), async (page) => {
      await page.waitForSelector(".board .frame");
      await page.keyboard.press("ArrowRight");
      await page.waitForSelector(".history li >> nth=0");
      await page.locator(".say input").fill("up");
      await page.keyboard.press("Enter");
      await page.waitForSelector(".history li >> nth=1");
      await page.getByRole("button", { name: "oracle" }).click();
      await page.waitForFunction(() => (document.querySelector(".controls")?.textContent ?? "").includes("turn 3"));
    }));

  test("a saved episode can be taken over from a turn", () =>
    visit(href(["play"], { run: "alive", key: row.key, turn: 1 }), async (page) => {
      await page.waitForSelector(".history li");
      await expect.poll(() => page.locator(".history li").count()).toBe(1);
    }));

  test("a saved episode that is left for another seed is put away, and the other can be started and played", () =>
    visit(href(["play"], { run: "alive", key: row.key, turn: 1 }), async (page) => {
      await page.waitForSelector(".history li");
      await page.getByLabel("Seed").fill("3");
      await page.getByLabel("Seed").blur();
      await page.waitForSelector(".board", { state: "detached" });
      await page.getByRole("button", { name: "Start" }).click();
      await page.waitForSelector(".board .frame");
      await page.getByRole("button", { name: "random" }).click();
      await page.waitForSelector(".history li");
      await expect.poll(() => page.locator(".alarm").count()).toBe(0);
    }));

  test("of two starts the newest is shown, and one that is answered late is stopped", () =>
    visit(href(["play"]), async (page) => {
      const stopped = page.waitForRequest((request) => request.method() === "DELETE");
      const release = await hold(page, (url) => url.pathname === "/api/play");
      await page.getByRole("button", { name: "Start" }).click();
      await page.getByLabel("Seed").fill("3");
      await page.keyboard.press("Enter");
      await release();
      await stopped;
      await page.waitForSelector(".board .frame");
      await expect.poll(() => text(page, ".board h2")).toContain("seed 3");
      const left = page.waitForRequest((request) => request.method() === "DELETE");
      const answer = await hold(page, (url) => url.pathname === "/api/play");
      await page.keyboard.press("Escape");
      await page.keyboard.press("Backspace");
      await left;
      const late = page.waitForRequest((request) => request.method() === "DELETE");
      await page.goto(viewer.url + href([]));
      await page.waitForSelector(".run-row");
      await answer();
      await late;
    }));

  test("? shows the keys of the page, t goes through the themes", () =>
    visit(href(["run", "alive", "episode", row.key]), async (page) => {
      await page.keyboard.press("?");
      await expect.poll(() => text(page, "dialog.help")).toContain("play or pause");
      await page.keyboard.press("Escape");
      const ground = () => page.evaluate(() => getComputedStyle(document.documentElement).backgroundColor);
      const light = await ground();
      for (const key of ["t", "t"]) await page.keyboard.press(key);
      await page.waitForSelector("html[data-theme=dark]");
      await expect.poll(ground).not.toBe(light);
    }));

  test("no page is wider than a phone", { timeout: 300_000 }, async () => {
    const pages = ["", "/episodes", "/learn", "/sight", "/tokens", "/timeline"].map((page) => `#/run/done${page}`);
    const more = [
      href([]),
      href(["play"]),
      ...["episode", "group", "tokens"].map((page) => href(["run", "alive", page, row.key])),
    ];
    await visit(
      href([]),
      async (page) => {
        for (const hash of [...pages, ...more]) {
          await page.goto("about:blank");
          await page.goto(viewer.url + hash);
          await settled(page);
          const over = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
          expect({ hash, over }).toEqual({ hash, over: 0 });
        }
      },
      390,
    );
  });

  test("an exported page opens from disk without a network and shows its data", async () => {
    const out = join(folder, "run.html");
    await exportRuns({ folder: join(folder, "runs"), out, webFolder: viewer.webFolder });
    const context = await viewer.browser.newContext({ offline: true });
    const page = await context.newPage();
    const problems: string[] = [];
    page.on("console", (message) => message.type() === "error" && problems.push(message.text()));
    page.on("pageerror", (error) => problems.push(error.message));
    page.on("request", (request) => /^(file|data|blob):/.test(request.url()) || problems.push(request.url()));
    const base = pathToFileURL(out).href;
    await page.goto(base);
    await settled(page);
    await expect.poll(() => page.locator(".run-row").count()).toBe(2);
    for (const name of ["overview", "episodes", "learn", "sight", "timeline"]) {
      await page.goto(base + href(["run", "done", name]));
      await settled(page);
    }
    await expect.poll(() => page.locator(".work").count()).toBeGreaterThan(0);
    await page.goto(base + href(["run", "alive", "episode", row.key]));
    await settled(page);
    await expect.poll(() => page.locator(".frame.large").getAttribute("src")).toMatch(/^data:image\/png/);
    await expect.poll(() => text(page, ".reply >> nth=0")).toBe(ATTACK);
    await expect.poll(() => page.evaluate(() => "hacked" in window)).toBe(false);
    // Where a size is asked for, the command says what was left out, and the page lists it.
    const most = "600KB";
    const small = join(folder, "small.html");
    const words = ["run", "pack", join(folder, "runs"), "--out", small, "--max-size", most];
    const { stdout } = await promisify(execFile)(process.execPath, [BIN, ...words]);
    const [, ...leftOut] = stdout.trim().split("\n");
    expect((await stat(small)).size).toBeLessThanOrEqual(600 * 1024);
    expect(leftOut.join("\n")).toMatch(/^left out: .*\d+ of \d+ trajectories, the oldest first\.$/m);
    await page.goto(pathToFileURL(small).href);
    await settled(page);
    for (const line of leftOut)
      await expect.poll(() => text(page, ".missing")).toContain(line.replace("left out: ", ""));
    expect(problems).toEqual([]);
    await context.close();
  });
});
