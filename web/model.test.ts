/** Models at the board in a real browser, served by the real command: one that ships, a checkpoint of a run that is trained here, and a hosted one. */
import { type ChildProcess, execFile, spawn } from "node:child_process";
import { mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { promisify } from "node:util";
import type { Browser, Page } from "playwright-core";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import "../worlds/register.ts";
import { imagesOf } from "../src/core/index.ts";
import { makeEnv } from "../src/envs/index.ts";
import { type Script, TestServer } from "../src/evaluate/test-server.ts";
import { decodePng } from "../src/images/index.ts";
import { type RecipeInput, resolveRecipe } from "../src/train/recipe.ts";
import { train } from "../src/train/train.ts";
import { httpSource, type Source } from "../src/viewer/index.ts";
import { errorsOf, hasBrowser, openBrowser } from "./fixture/browser.ts";
import { textOf as text } from "./fixture/viewer.ts";
import { href } from "./route.ts";

const bin = resolve(import.meta.dirname, "../dist/cli.js");
const OPTIONS = { cellSize: 16, protocol: "keyword", prompt: "brief", feedback: false, maxTurns: 6 };

/** Updates of the warm start, then steps of reinforcement learning. */
const [WARM, STEPS] = [32, 2];
const NEWEST = WARM + STEPS;

/** Seconds of training: it says moves, and that is all. */
const OWN = {
  name: "lake",
  model: { preset: "quickstart" },
  envs: [{ env: "frozen_lake", options: OPTIONS }],
  warmStart: {
    episodes: WARM * 16,
    batch: 16,
    optimizer: { name: "muon", learningRate: 0.01, adamLearningRate: 0.003 },
  },
  ...{ steps: STEPS, groups: 2, siblings: 2, minibatch: 4 },
  sampling: { temperature: 1, maxTokens: 12, contextTokens: 512 },
  optimizer: { name: "adamw", learningRate: 0.001 },
  evaluate: { every: 2, seeds: [1_000_000_000, 1_000_000_003] },
  sight: { every: 0 },
  checkpoint: { every: 1 },
} satisfies RecipeInput;

describe.skipIf(!hasBrowser)("a model at the board", { timeout: 300_000 }, () => {
  let folder: string;
  let browser: Browser;
  let server: TestServer;
  let hosted: string;
  let viewer: ChildProcess;
  let url: string;
  let source: Source;
  /** Moves right, whatever it sees. */
  const right: Script = () => ({ text: "<action>right</action>" });

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), "saccade-model-"));
    await train({ recipe: resolveRecipe(OWN), folder: join(folder, "runs/lake") });
    server = await new TestServer(right).start();
    hosted = server.model("server").model;
    viewer = spawn(process.execPath, [bin, "view", join(folder, "runs"), "--port", "0", "--model", hosted], {
      stdio: ["ignore", "pipe", "inherit"],
    });
    url = await new Promise<string>((found, failed) => {
      viewer.stdout?.setEncoding("utf8").once("data", (line: string) => found(line.trim()));
      viewer.once("exit", (code) => failed(new Error(`saccade view ended with ${code}`)));
    });
    source = httpSource(url.replace(/\/$/, ""));
    browser = await openBrowser();
  }, 300_000);
  afterEach(() => {
    server.script = right;
  });
  afterAll(async () => {
    await browser?.close();
    viewer?.kill();
    await server?.stop();
    await rm(folder, { recursive: true, force: true });
  });

  async function visit(hash: string, body: (page: Page) => Promise<void>): Promise<void> {
    expect(await errorsOf(browser, url + hash, body)).toEqual([]);
  }
  const played = (page: Page) => page.locator(".history li").count();
  const press = (page: Page, name: string) => page.getByRole("button", { name }).click();

  /** Takes the demonstration away. */
  async function saved(page: Page) {
    const link = page.getByRole("link", { name: "Save as a demonstration" });
    const [file] = await Promise.all([page.waitForEvent("download"), link.click()]);
    return JSON.parse(await readFile(await file.path(), "utf8"));
  }
  const replies = (row: { messages: { role: string; content: unknown }[] }) =>
    row.messages.filter(({ role }) => role === "assistant").map(({ content }) => JSON.stringify(content));

  test.each([
    ["that ships", "shipped:generalist", "generalist"],
    ["of a run's checkpoint", `run:lake@${NEWEST}`, `lake@${NEWEST}`],
  ])(
    "%s tells how likely each action is and where it looks, moves, is taken over and handed back, and is saved",
    (_, id, name) =>
      visit(href(["play"], { env: "frozen_lake", seed: 3, model: id }), async (page) => {
        await page.waitForSelector(".likely");
        const shares = (await page.locator(".likely td:last-child").allInnerTexts()).map(Number.parseFloat);
        expect(shares).toHaveLength(5);
        const sum = shares.reduce((total, share) => total + share, 0);
        expect(sum).toBeGreaterThan(99);
        expect(sum).toBeLessThan(101);
        // Greedy: its move is the likeliest, and the list begins with it.
        await expect.poll(() => page.locator(".likely tr").first().getAttribute("class")).toBe("its-move");
        await press(page, "Where it looks");
        await page.waitForSelector(".look-map i");
        const strengths = await page
          .locator(".look-map i")
          .evaluateAll((cells) =>
            cells.map((cell) => Number((cell as HTMLElement).style.getPropertyValue("--strength"))),
          );
        expect(Math.max(...strengths)).toBe(1);
        expect(new Set(strengths).size).toBeGreaterThan(3);
        const would = await text(page, ".likely .its-move th");
        await press(page, "Model moves");
        await page.waitForSelector(".history li >> nth=0");
        // What it said it would do is what it did.
        await expect.poll(() => text(page, ".history li")).toContain(would);
        await expect.poll(() => text(page, ".history li small")).toContain(name);
        await page.keyboard.press("ArrowDown");
        await expect.poll(() => played(page)).toBe(2);
        await page.waitForSelector(".likely, .verdict");
        if ((await page.locator(".verdict").count()) === 0) {
          await press(page, "Let it play");
          await page.waitForSelector(".verdict, .history li >> nth=2");
        }
        const row = await saved(page);
        expect(row).toMatchObject({ env: "frozen_lake", seed: 3 });
        expect(replies(row).length).toBeGreaterThan(1);
        expect(replies(row)[1]).toContain("down");
      }),
  );

  test("of a run plays what it was trained on, and can be chosen from the list", () =>
    visit(href(["play"], { env: "frozen_lake", seed: 5 }), async (page) => {
      const size = () => page.locator(".frame.large").evaluate((image) => (image as HTMLImageElement).naturalWidth);
      const before = await size();
      const models = page.locator(".setup label", { hasText: /^Model/ }).locator("select");
      await models.locator(`option[value="run:lake@${WARM}"]`).waitFor({ state: "attached" });
      const choices = await models.locator("option").allInnerTexts();
      const own = choices.filter((name) => name.startsWith("lake, step"));
      expect(own.map((name) => Number.parseInt(name.slice("lake, step ".length), 10))).toEqual([34, 33, 32]);
      expect(own.filter((name) => name.endsWith("(best)"))).toHaveLength(1);
      await models.selectOption(`run:lake@${WARM}`);
      await press(page, "Start");
      await expect.poll(size).toBe(4 * OPTIONS.cellSize);
      expect(before).not.toBe(4 * OPTIONS.cellSize);
      await expect.poll(() => text(page, ".controls")).toContain(`turn 0 of ${OPTIONS.maxTurns}`);
    }));

  /** Runs what a button copies, as a shell reads it. */
  async function pasted(page: Page, what: string, more: string): Promise<string> {
    await page.context().grantPermissions(["clipboard-read", "clipboard-write"]);
    await page.evaluate(() => navigator.clipboard.writeText(""));
    await press(page, `Copy: ${what}`);
    await expect.poll(() => page.evaluate(() => navigator.clipboard.readText())).not.toBe("");
    const command = await page.evaluate(() => navigator.clipboard.readText());
    const shell = `saccade() { "${process.execPath}" "${bin}" "$@"; }; ${command} ${more}`;
    return (await promisify(execFile)("bash", ["-c", shell], { cwd: folder })).stdout;
  }

  test("of a run is measured and replayed by the commands that its pages copy", async () => {
    await visit(href(["run", "lake"]), async (page) => {
      const report = await pasted(page, `evaluate the checkpoint of step ${NEWEST}`, "--out evaluated");
      expect(report).toMatch(/^4 seeds/m);
    });
    const { rows } = await source.trajectories("lake", { split: "train" });
    const { record } = await source.trajectory("lake", rows[0]?.key ?? "");
    await visit(href(["run", "lake", "episode", rows[0]?.key ?? ""]), async (page) => {
      const [first] = (await pasted(page, "play this episode", "--json")).split("\n");
      expect(JSON.parse(first ?? "")).toMatchObject({ seed: record.seed, seen: record.turns[0]?.frames[0] });
    });
  });

  test("that is hosted sees what the player sees, moves, is taken over and handed back, and is saved", () =>
    visit(href(["play"], { env: "frozen_lake", seed: 3, model: `hosted:${hosted}` }), async (page) => {
      await expect
        .poll(() => text(page, ".model-bar"))
        .toContain("What a hosted model will say is known when it moves.");
      await expect.poll(() => page.locator(".likely").count()).toBe(0);
      const asked = server.asked.length;
      await press(page, "Model moves");
      await expect.poll(() => played(page)).toBe(1);
      await expect.poll(() => text(page, ".history li")).toMatch(/right.*test-model/);
      const env = await makeEnv("frozen_lake");
      const [first] = (await env.reset(3)).flatMap(imagesOf);
      expect(decodePng(server.asked[asked]?.turns[0]?.images[0] as Buffer).hash).toBe(first?.hash);
      await page.keyboard.press("ArrowUp");
      await expect.poll(() => played(page)).toBe(2);
      await press(page, "Let it play");
      await page.waitForSelector(".verdict, .history li >> nth=2");
      // Handed back, it is told what the person did, in the words that a model would have used.
      const turns = server.asked[asked + 1]?.turns ?? [];
      expect(turns.map(({ role }) => role)).toEqual(["user", "assistant", "user", "assistant", "user"]);
      expect(turns[1]?.text).toBe("<action>right</action>");
      expect(turns[3]?.text).toContain("up");
      if ((await page.locator(".verdict").count()) === 0) await press(page, "Take over");
      expect(replies(await saved(page)).length).toBeGreaterThan(2);
    }));

  test("whose provider refuses says so, and the person plays on", async () => {
    const errors = await errorsOf(
      browser,
      url + href(["play"], { env: "frozen_lake", seed: 3, model: `hosted:${hosted}` }),
      async (page) => {
        server.script = () => ({ status: 401, message: "no such key", code: "invalid_api_key" });
        await press(page, "Let it play");
        await page.locator(".alarm").waitFor();
        await expect.poll(() => text(page, ".alarm")).toMatch(/no such key|401/);
        await expect.poll(() => page.getByRole("button", { name: "Take over" }).count()).toBe(0);
        await page.keyboard.press("ArrowUp");
        await expect.poll(() => played(page)).toBe(1);
        await expect.poll(() => page.locator(".alarm").count()).toBe(0);
      },
    );
    // The browser's own line about the answer to that one move.
    expect(errors).toEqual([expect.stringContaining("status of 400")]);
  });

  test("of a path or an unknown name is refused", async () => {
    const { session } = await source.play!.start({ env: "frozen_lake", seed: 1 });
    await mkdir(join(folder, "secret"), { recursive: true });
    await writeFile(join(folder, "secret/config.json"), "{}");
    for (const model of ["run:../secret@1", "folder:/etc", "hosted:openai:gpt", "shipped:../recipes", "run:lake@7"]) {
      await expect(source.play!.think(session, { model, greedy: true })).rejects.toThrow(/There is no model/);
    }
  });

  // Last: the run grows.
  test("of a run is trained anew and further by the commands that its page copies", async () => {
    await writeFile(join(folder, "lake.ts"), `export default ${JSON.stringify(OWN)};\n`);
    await visit(href(["run", "lake"]), async (page) => {
      const { config } = JSON.parse(await readFile(join(folder, "runs/lake/run.json"), "utf8"));
      expect(JSON.parse(await pasted(page, "reproduce", "--dry-run"))).toEqual(config);
      const report = await pasted(page, "resume", `--set steps=${STEPS + 2}`);
      expect(report).toContain(`| after (step ${NEWEST + 2}) |`);
      await page.waitForFunction(
        (last) => document.querySelector(".run-name")?.textContent?.includes(`step ${last}`),
        NEWEST + 2,
      );
    });
  });
});
