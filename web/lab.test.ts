/** The lab in a real browser: it bundles without Node, learns with threads from a server and without them from a file, and asks nobody for anything. */
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, relative, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { exportLab, LAB_HEADERS } from "../src/viewer/lab.ts";
import { startViewer, type Viewer } from "../src/viewer/server.ts";
import { hasBrowser, openBrowser } from "./fixture/browser.ts";
import { MainThread } from "./fixture/main-thread.ts";
import { bundleWorker, labPage } from "./lab/build.ts";

const root = resolve(import.meta.dirname, "..");

test("what learns in the page is the framework itself, without Node's modules", async () => {
  const { code, modules } = await bundleWorker();
  // Vite puts an empty module where Node's is wanted.
  expect(modules.filter((id) => /browser-external|node:|\/jiti\//.test(id))).toEqual([]);
  expect([...code.matchAll(/["'`]node:[\w/]+/g)].map(([found]) => found)).toEqual([]);
  const files = modules.map((id) => relative(root, id));
  expect(files).toEqual(
    expect.arrayContaining([
      "src/core/platform-browser.ts",
      "src/engine/native/learner.ts",
      "src/engine/native/network.ts",
      "src/engine/native/kernels/wasm.ts",
      "src/rollout/ledger.ts",
      "src/train/advantages.ts",
      "src/train/sight.ts",
      "worlds/frozen-lake/frozen-lake.ts",
    ]),
  );
  expect(files).not.toContain("src/core/platform.ts");
});

describe.skipIf(!hasBrowser)("in Chromium", () => {
  let folder: string;
  let viewer: Viewer;
  let browser: Browser;

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), "saccade-lab-"));
    await writeFile(join(folder, "index.html"), "<!doctype html><title>viewer</title>");
    await writeFile(join(folder, "lab.html"), await labPage());
    viewer = await startViewer({ folder, webFolder: folder });
    browser = await openBrowser();
  });
  afterAll(async () => {
    await browser?.close();
    await viewer?.close();
    await rm(folder, { recursive: true, force: true });
  });

  /** Learns for some updates; what the console said, and what was asked of the network. */
  async function learn(address: string): Promise<{ problems: string[]; asked: string[]; threads: string }> {
    const page = await browser.newPage();
    const thread = await MainThread.trace(browser, page);
    const problems: string[] = [];
    const asked: string[] = [];
    page.on("console", (message) => message.type() === "error" && problems.push(message.text()));
    page.on("pageerror", (error) => problems.push(error.message));
    page.on("request", (request) => asked.push(request.url()));
    await page.goto(address);
    await page.getByRole("button", { name: "Start" }).click();
    await updated(page, 3);
    await page.getByRole("button", { name: "Pause" }).click();
    const [success] = await page.locator("tbody tr").first().locator("td").nth(3).allTextContents();
    expect(Number(success)).toBeGreaterThanOrEqual(0);
    const threads = (await page.locator(".lab-status").textContent()) ?? "";
    await expect.poll(() => page.locator(".alarm").count()).toBe(0);
    // All learning is in workers. Time on the clock would count what other programs took.
    const tasks = await thread.tasks(false);
    expect(tasks.length).toBeGreaterThan(0);
    expect(tasks.filter(({ cpuMs }) => cpuMs > 50)).toEqual([]);
    await page.close();
    return { problems, asked: asked.filter((url) => !url.startsWith("blob:") && !url.startsWith("data:")), threads };
  }

  test("it learns at /lab, with threads, and asks for nothing but itself", async () => {
    const address = `${viewer.url}lab`;
    const { problems, asked, threads } = await learn(address);
    expect(problems).toEqual([]);
    expect(asked).toEqual([address]);
    expect(threads).toMatch(/thread/);
  });

  test("it learns from a file, on one thread", async () => {
    const file = join(folder, "exported.html");
    expect(await exportLab(file, folder)).toBeGreaterThan(100_000);
    const address = pathToFileURL(file).href;
    const { problems, asked, threads } = await learn(address);
    expect(problems).toEqual([]);
    expect(asked).toEqual([address]);
    expect(threads).toMatch(/1 thread$/);
  });

  test("only the lab may compile WebAssembly, and only there is the page isolated", async () => {
    const [lab, page] = await Promise.all([fetch(`${viewer.url}lab`), fetch(viewer.url)]);
    for (const [name, value] of Object.entries(LAB_HEADERS)) expect(lab.headers.get(name)).toBe(value);
    expect(page.headers.get("content-security-policy")).not.toMatch(/wasm-unsafe-eval|unsafe-inline/);
    expect(page.headers.get("cross-origin-embedder-policy")).toBeNull();
  });
});

async function updated(page: Page, updates: number): Promise<void> {
  await page.waitForFunction(
    (wanted) => Number(document.querySelector("main")?.dataset.updates) >= wanted || document.querySelector(".alarm"),
    updates,
    { timeout: 100_000 },
  );
}
