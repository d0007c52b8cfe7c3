/**
 * The docs as a site, built by `npm run site` and served as a static host serves it: compressed, with clean addresses. Every link leads to a page, a heading or a
 * file that is there; the first page takes at most 200 KB; pages have no console error and no serious fault of axe-core's; a reader can search, and solve a lake in the page.
 */
import { execFileSync } from "node:child_process";
import { existsSync, readdirSync, readFileSync, statSync } from "node:fs";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { extname, join, resolve } from "node:path";
import { gzipSync } from "node:zlib";
import { type Browser, chromium } from "playwright-core";
import { afterAll, beforeAll, expect, test } from "vitest";
import { seriousFaults } from "../web/fixture/axe.ts";

const root = resolve(import.meta.dirname, "..");
const dist = join(root, "site/dist");
const MOST_BYTES = 200_000;
const TYPES: Record<string, string> = {
  ".html": "text/html",
  ".js": "text/javascript",
  ".css": "text/css",
  ".gif": "image/gif",
  ".png": "image/png",
};

let server: Server;
let browser: Browser;
let url = "";

/** The file behind an address; undefined: there is none. */
function fileAt(path: string): string | undefined {
  const plain = decodeURIComponent(path.split(/[?#]/)[0] ?? "");
  return [plain, `${plain}.html`, join(plain, "index.html")]
    .map((name) => join(dist, name))
    .find((file) => existsSync(file) && statSync(file).isFile());
}

beforeAll(async () => {
  execFileSync("npm", ["run", "site"], { cwd: root, stdio: "ignore" });
  server = createServer((request, response) => {
    const file = fileAt(request.url ?? "/");
    if (file === undefined) return response.writeHead(404).end();
    const body = gzipSync(readFileSync(file));
    const type = TYPES[extname(file)] ?? "text/plain";
    response
      .writeHead(200, { "content-type": type, "content-encoding": "gzip", "content-length": body.length })
      .end(body);
  });
  await new Promise<void>((done) => server.listen(0, "127.0.0.1", done));
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const executablePath = process.env.SACCADE_BROWSER ?? "/usr/bin/chromium";
  browser = await chromium.launch({ executablePath, args: ["--no-sandbox", "--disable-gpu"] });
}, 300_000);

afterAll(async () => {
  await browser?.close();
  server?.close();
});

const pages = () => readdirSync(dist, { recursive: true, encoding: "utf8" }).filter((name) => name.endsWith(".html"));

test("has a page for every page of docs/", () => {
  const docs = readdirSync(join(root, "docs"), { recursive: true, encoding: "utf8" }).filter((name) =>
    name.endsWith(".md"),
  );
  const wanted = docs.map((name) => name.replace(/README\.md$/, "index.md").replace(/\.md$/, ".html"));
  expect(
    pages()
      .filter((name) => name !== "404.html")
      .sort(),
  ).toEqual(wanted.sort());
});

test("every link and image of every page leads somewhere, to its heading", () => {
  const texts = new Map(pages().map((name) => [name, readFileSync(join(dist, name), "utf8")]));
  const ids = (file: string) =>
    new Set([...readFileSync(file, "utf8").matchAll(/\sid="([^"]+)"/g)].map(([, id]) => id));
  let links = 0;
  const broken = [...texts].flatMap(([page, text]) =>
    [...text.matchAll(/\s(?:href|src)="([^"]+)"/g)].flatMap(([, link = ""]) => {
      if (/^(https?|mailto|data):/.test(link)) return [];
      links += 1;
      const { pathname, hash } = new URL(
        link.replaceAll("&amp;", "&"),
        `http://site/${page.replace(/index\.html$/, "")}`,
      );
      const file = fileAt(pathname);
      if (file === undefined) return [`${page}: ${link}`];
      const anchor = decodeURIComponent(hash.slice(1));
      return anchor === "" || !file.endsWith(".html") || ids(file).has(anchor) ? [] : [`${page}: ${link}`];
    }),
  );
  expect(broken).toEqual([]);
  expect(links).toBeGreaterThan(1000);
  console.log(`${texts.size} pages, ${links} links`);
});

test.each([
  ["light", 1280],
  ["dark", 1280],
  ["light", 390],
] as const)("the first page, %s, %d pixels wide, takes at most 200 KB and fits", async (colorScheme, width) => {
  const page = await browser.newPage({ colorScheme, viewport: { width, height: 844 } });
  const problems: string[] = [];
  page.on("console", (message) => message.type() === "error" && problems.push(message.text()));
  page.on("pageerror", (error) => problems.push(String(error)));
  let [bytes, requests] = [0, 0];
  const network = await page.context().newCDPSession(page);
  await network.send("Network.enable");
  network.on("Network.loadingFinished", ({ encodedDataLength }) => {
    bytes += encodedDataLength;
    requests += 1;
  });
  await page.goto(url, { waitUntil: "networkidle" });
  console.log(`first page, ${colorScheme}, ${width} px: ${bytes} bytes in ${requests} requests`);
  expect(bytes).toBeLessThan(MOST_BYTES);
  expect(bytes).toBeGreaterThan(20_000);
  expect(problems).toEqual([]);
  expect(await page.evaluate<number>("document.documentElement.scrollWidth")).toBeLessThanOrEqual(width);
  expect(await seriousFaults(page)).toEqual([]);
  if (process.env.SITE_SHOTS)
    await page.screenshot({ path: join(process.env.SITE_SHOTS, `first-${colorScheme}-${width}.png`) });
  await page.close();
});

test("a reader finds a page by a word, and solves a lake with the oracle's hints", async () => {
  const page = await browser.newPage({ viewport: { width: 1280, height: 900 } });
  await page.goto(url, { waitUntil: "networkidle" });
  await page.getByRole("button", { name: "Frozen lake" }).click();
  const status = page.getByRole("status");
  for (let turn = 0; turn < 20; turn++) {
    if ((await status.textContent())?.includes("Solved")) break;
    await page.getByRole("button", { name: "hint" }).click();
    await expect.poll(() => status.textContent()).toMatch(/The oracle goes (\w+)\./);
    const word = /goes (\w+)\./.exec((await status.textContent()) ?? "")?.[1] ?? "";
    if (turn % 2 === 0) await page.getByRole("button", { name: word, exact: true }).click();
    else await page.getByRole("application").press(`Arrow${word[0]?.toUpperCase()}${word.slice(1)}`);
    await expect.poll(() => status.textContent()).not.toMatch(/The oracle goes/);
  }
  expect(await status.textContent()).toBe("Solved.");
  if (process.env.SITE_SHOTS) await page.screenshot({ path: join(process.env.SITE_SHOTS, "play.png") });
  for (const world of ["Maze", "Sokoban"]) {
    await page.getByRole("button", { name: world }).click();
    await expect
      .poll(() => page.locator(".board canvas").evaluate((one) => (one as unknown as { width: number }).width))
      .toBeGreaterThan(64);
  }
  await page.keyboard.press("Control+k");
  await page.getByRole("searchbox").fill("warm start");
  await expect.poll(() => page.locator(".VPLocalSearchBox .result").count()).toBeGreaterThan(3);
  await page.close();
});

test("every page opens without an error, on a phone too, and none is wider than it", async () => {
  const page = await browser.newPage({ colorScheme: "dark", viewport: { width: 390, height: 844 } });
  const problems: string[] = [];
  page.on("console", (message) => message.type() === "error" && problems.push(`${page.url()}: ${message.text()}`));
  page.on("pageerror", (error) => problems.push(`${page.url()}: ${error}`));
  for (const name of pages().filter((one) => one !== "404.html")) {
    await page.goto(`${url}/${name.replace(/(index)?\.html$/, "")}`, { waitUntil: "load" });
    const wide = await page.evaluate<number>("document.documentElement.scrollWidth");
    if (wide > 390) problems.push(`${name} is ${wide} pixels wide`);
    problems.push(...(await seriousFaults(page)).map((fault) => `${name}: ${fault}`));
  }
  expect(problems).toEqual([]);
  await page.close();
}, 900_000);
