/**
 * The lab learns in a real browser, within five minutes on two cores: success on held-out lakes rises, by reward alone too, and no task holds up the page. Then
 * the exported file, on one thread, in half that time. `npm run prove -- lab`; LAB_SECONDS shortens it, LAB_SHOTS names a folder for screenshots.
 */
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, expect, test } from "vitest";
import { exportLab } from "../src/viewer/lab.ts";
import { startViewer, type Viewer } from "../src/viewer/server.ts";
import { openBrowser } from "./fixture/browser.ts";
import { labPage } from "./lab/build.ts";

const SECONDS = Number(process.env.LAB_SECONDS ?? 300);
const SHOTS = process.env.LAB_SHOTS;
/** Between two screenshots. */
const SHOT_SECONDS = 15;

let folder: string;
let viewer: Viewer;
let browser: Browser;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "saccade-lab-"));
  await writeFile(join(folder, "index.html"), "<!doctype html><title>viewer</title>");
  await writeFile(join(folder, "lab.html"), await labPage());
  viewer = await startViewer({ folder, webFolder: folder });
  browser = await openBrowser();
  if (SHOTS !== undefined) await mkdir(SHOTS, { recursive: true });
});
afterAll(async () => {
  await browser?.close();
  await viewer?.close();
  await rm(folder, { recursive: true, force: true });
});

type Row = { seconds: number; updates: number; phase: string; success: number; grey: number; gap: number };
type Learned = {
  readonly rows: readonly Row[];
  readonly problems: readonly string[];
  readonly long: readonly number[];
};

async function learn(address: string, seconds: number, shots?: string): Promise<Learned> {
  const page = await browser.newPage({ viewport: { width: 1180, height: 720 } });
  const problems: string[] = [];
  page.on("console", (message) => message.type() === "error" && problems.push(message.text()));
  page.on("pageerror", (error) => problems.push(error.message));
  await page.addInitScript(() => {
    const tasks: number[] = [];
    Object.assign(window, { tasks });
    new PerformanceObserver((list) => {
      tasks.push(...list.getEntries().map(({ duration }) => duration));
    }).observe({ type: "longtask", buffered: true });
  });
  await page.goto(address);
  await page.getByRole("button", { name: "Start" }).click();
  const began = performance.now();
  for (let shot = 0; performance.now() - began < seconds * 1000; shot++) {
    await page.waitForTimeout(SHOT_SECONDS * 1000);
    if (shots !== undefined) await page.screenshot({ path: join(shots, `${String(shot).padStart(3, "0")}.png`) });
    if ((await page.locator(".alarm").count()) > 0) problems.push((await page.locator(".alarm").textContent()) ?? "");
    if (problems.length > 0) break;
  }
  const rows = await rowsOf(page);
  const long = await page.evaluate(() => (window as unknown as { tasks: number[] }).tasks);
  if (shots !== undefined) await looks(page, shots);
  await page.close();
  for (const row of rows) process.stdout.write(`${JSON.stringify(row)}\n`);
  process.stdout.write(`tasks of 50 ms or more on the page: ${long.map(Math.round).join(" ") || "none"}\n`);
  return { rows, problems, long };
}

/** The page as it is now: wide and light, wide and dark, on a phone. */
async function looks(page: Page, shots: string): Promise<void> {
  const folder = join(shots, "looks");
  await mkdir(folder, { recursive: true });
  for (const colorScheme of ["light", "dark"] as const) {
    await page.emulateMedia({ colorScheme });
    await page.waitForTimeout(500);
    await page.screenshot({ path: join(folder, `lab-${colorScheme}.png`) });
  }
  await page.emulateMedia({ colorScheme: "light" });
  await page.setViewportSize({ width: 390, height: 844 });
  await page.waitForTimeout(500);
  await page.screenshot({ path: join(folder, "lab-phone.png"), fullPage: true });
}

function rowsOf(page: Page): Promise<Row[]> {
  return page.evaluate(() =>
    [...document.querySelectorAll<HTMLTableRowElement>("tbody tr")].map(({ cells }) => {
      const [seconds, updates, phase, success, grey, gap] = [...cells].map(({ textContent }) => textContent);
      const figures = { seconds: Number(seconds), updates: Number(updates), success: Number(success) };
      return { ...figures, phase: phase ?? "", grey: Number(grey), gap: Number(gap) };
    }),
  );
}

const mean = (values: readonly number[]) => values.reduce((sum, value) => sum + value, 0) / values.length;

test("success on held-out lakes rises by 0.2 and more, it sees, and the page stays quick", async () => {
  const { rows, problems, long } = await learn(`${viewer.url}lab`, SECONDS, SHOTS);
  expect(problems).toEqual([]);
  const imitated = rows.filter(({ phase }) => phase === "imitate");
  const reinforced = rows.filter(({ phase }) => phase === "reinforce");
  // The last of imitation, and the mean of the last three: a single evaluation is 64 lakes.
  const before = imitated.at(-1)?.success ?? Number.NaN;
  const after = mean(reinforced.slice(-3).map(({ success }) => success));
  process.stdout.write(`untrained ${rows[0]?.success}, imitation ${before}, reward ${after.toFixed(3)}\n`);
  expect(after - (rows[0]?.success ?? Number.NaN)).toBeGreaterThanOrEqual(0.2);
  expect(after - before).toBeGreaterThanOrEqual(0.2);
  expect(rows.at(-1)?.gap).toBeGreaterThan(0.5);
  expect(after - mean(reinforced.slice(-3).map(({ grey }) => grey))).toBeGreaterThan(0.2);
  // Taking screenshots holds up the page.
  if (SHOTS === undefined) expect(long.filter((ms) => ms > 100)).toEqual([]);
});

test("in the exported file, opened from disk, it rises too", async () => {
  const file = join(folder, "exported.html");
  await exportLab(file, folder);
  const { rows, problems } = await learn(pathToFileURL(file).href, SECONDS / 2);
  expect(problems).toEqual([]);
  expect((rows.at(-1)?.success ?? 0) - (rows[0]?.success ?? 1)).toBeGreaterThanOrEqual(0.2);
});
