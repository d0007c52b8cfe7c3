/**
 * `npm run bench -- view`: the viewer on a run of 100,000 trajectories of 10 frames, written through the run folder's own writers
 * (`VIEW_TRAJECTORIES` sets another number), and on ten runs that are written while they are compared.
 * Prints the time of the first (cold) index, of opening again, of filters and text search (median of five), the server's memory, bytes
 * on disk and what storing each frame once saves, and, when the front end is built, the first paint in Chromium.
 * The server runs in a process of its own, so that its memory is its own.
 */
import { fork } from "node:child_process";
import { existsSync } from "node:fs";
import { mkdtemp, readdir, rm, stat } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Image } from "../src/core/image.ts";
import { NumpyRandom } from "../src/core/random-numpy.ts";
import { Canvas, type Color } from "../src/images/canvas.ts";
import { openRun } from "../src/run/folder.ts";
import type { TrajectoryRecord, TurnRecord } from "../src/run/trajectories.ts";
import { routes, type TrajectoryPage } from "../src/viewer/api.ts";
import { startViewer } from "../src/viewer/server.ts";
import { findWebFolder } from "../src/viewer/web-files.ts";

const TRAJECTORIES = Number(process.env.VIEW_TRAJECTORIES ?? 100_000);
const TURNS = 9; // and the frame after the last reply: 10 frames
const SIBLINGS = 8;
const PER_STEP = 64;
const CELLS = 6;
const CELL = 20;
const RUN = "bench";
const COLORS: readonly Color[] = [
  [219, 234, 254],
  [191, 219, 254],
  [30, 58, 138],
];

const boards = new Map<number, Image[]>();

/** Pages with what shows that their data is there. */
const PAGES = [
  ["runs", "#/", `a[href^="#/run/${RUN}"]`],
  ["overview", `#/run/${RUN}`, "figure.chart canvas"],
  ["episodes", `#/run/${RUN}/episodes`, ".windowed li"],
] as const;

type Server = { readonly port: number; memory(): Promise<number>; close(): Promise<void> };

async function main(): Promise<void> {
  const folder = await mkdtemp(join(tmpdir(), "saccade-bench-view-"));
  try {
    const frames = await timed(() => writeRun(join(folder, RUN)));
    say("written", `${TRAJECTORIES} trajectories, ${frames.value.shown} frames shown, ${seconds(frames.ms)}`);
    await reportDisk(join(folder, RUN), frames.value);
    await measure(folder);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
  await compareLive();
}

const LIVE = { runs: 10, steps: 400, metrics: 40, seconds: 30, everyMs: 1000 };

/** Ten runs that log a step each second, compared in one page: the share of a core that the page's thread works. */
async function compareLive(): Promise<void> {
  if (findWebFolder() === undefined || !existsSync("/usr/bin/chromium")) return;
  const folder = await mkdtemp(join(tmpdir(), "saccade-bench-live-"));
  const names = Array.from({ length: LIVE.runs }, (_, i) => `live-${i}`);
  const runs = await Promise.all(
    names.map((name, seed) => openRun(join(folder, name), { config: { name: "live", seed }, name })),
  );
  const random = new NumpyRandom(5);
  let step = 0;
  const log = () => {
    step++;
    for (const run of runs) {
      const noise = () => random.random() * 0.2;
      const more = Array.from({ length: LIVE.metrics }, (_, i) => [`custom/m${i}`, noise()] as const);
      const known = { "train/success": step / 1000 + noise(), "train/reward": noise(), "policy/entropy": noise() };
      const rest = { "drift/mean": noise(), "time/step": 1, "train/episodes": 64, "train/episode_tokens": 300 };
      run.log("train", step, { ...known, ...rest, ...Object.fromEntries(more) });
    }
  };
  for (const run of runs) await run.begin();
  while (step < LIVE.steps) log();
  for (const run of runs) await run.flush();
  const server = await serve(folder);
  const browser = await openChromium();
  const timer = setInterval(log, LIVE.everyMs);
  try {
    for (const [name, hash] of [
      ["compare", `#/compare?${names.map((run) => `run=${run}`).join("&")}`],
      ["overview", `#/run/${names[0]}`],
    ] as const) {
      const page = await browser.newPage();
      await page.goto(`http://127.0.0.1:${server.port}/${hash}`);
      await page.waitForSelector("figure.chart canvas");
      await page.waitForTimeout(3000);
      const cdp = await page.context().newCDPSession(page);
      await cdp.send("Performance.enable");
      const worked = async () =>
        (await cdp.send("Performance.getMetrics")).metrics.find((one) => one.name === "TaskDuration")?.value ?? 0;
      const [before, began] = [await worked(), performance.now()];
      await page.waitForTimeout(LIVE.seconds * 1000);
      const share = (await worked()) - before;
      const taken = (performance.now() - began) / 1000;
      say(
        `ten live runs, ${name}`,
        `the page works ${((share / taken) * 100).toFixed(1)} % of a core over ${taken.toFixed(0)} s`,
      );
      await page.close();
    }
    say("server memory, ten live runs", megabytes(await server.memory()));
  } finally {
    clearInterval(timer);
    await browser.close();
    await server.close();
    for (const run of runs) await run.close("stopped");
    await rm(folder, { recursive: true, force: true });
  }
}

async function openChromium() {
  const { chromium } = await import("playwright-core");
  const args = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
  ];
  return chromium.launch({ executablePath: "/usr/bin/chromium", args });
}

async function measure(folder: string): Promise<void> {
  let server = await serve(folder);
  const before = await server.memory();
  const cold = await timed(async () => {
    for (;;) {
      const page = await list(server, "");
      if (page.indexing === undefined && page.all === TRAJECTORIES) return;
    }
  });
  say("cold index", seconds(cold.ms));
  await server.close();
  server = await serve(folder);
  say("opened again, first list", milliseconds((await timed(() => list(server, ""))).ms));
  const step = Math.floor(TRAJECTORIES / PER_STEP / 2);
  const filters: Record<string, (i: number) => string> = {
    "by environment, success and reward": () => "env=frozen_lake&success=true&rewardMin=0.5&sort=reward",
    "by step range and end": (i) => `stepMin=${step - i}&stepMax=${step + i}&end=max_turns`,
    "worst drift first": () => "sort=drift",
    "text in many": (i) => `text=${["left", "right", "up", "down", "action"][i]}`,
    "text in one": (i) => `text=${encodeURIComponent(`frozen_lake#${i * 7 + 3}/2`)}`,
    "text in none": (i) => `text=nowhere-${i}`,
  };
  for (const [name, query] of Object.entries(filters)) {
    const times: number[] = [];
    for (let i = 0; i < 5; i++) times.push((await timed(() => list(server, query(i)))).ms);
    say(`filter ${name}`, `${milliseconds(median(times))} median of five, ${milliseconds(Math.max(...times))} worst`);
  }
  await firstPaint(server.port);
  const after = await server.memory();
  say("server memory", `${megabytes(before)} at start, ${megabytes(after)} after all of this (resident)`);
  await server.close();
}

/** A board by seed, the player somewhere on it: siblings start alike, and every place they meet again is the same image. */
async function writeRun(path: string): Promise<{ shown: number; hashes: Map<string, number> }> {
  const run = await openRun(path, {
    config: { name: RUN, envs: [{ env: "frozen_lake" }] },
    frames: { maxBytes: 1e10, maxPendingBytes: 1e10, concurrency: 16 },
    trajectories: { maxBytes: 1e10 },
  });
  await run.begin();
  const random = new NumpyRandom(1);
  const hashes = new Map<string, number>();
  let shown = 0;
  for (let n = 0, step = 1; n < TRAJECTORIES; step++) {
    const rows: TrajectoryRecord[] = [];
    for (let i = 0; i < PER_STEP && n < TRAJECTORIES; i++, n++) {
      const seed = Math.floor(n / SIBLINGS);
      const film: Image[] = [];
      rows.push(episode(seed, n % SIBLINGS, step, random, boardOf(seed), film));
      for (const image of film) {
        shown++;
        hashes.set(run.frames.put(image), (hashes.get(image.hash) ?? 0) + 1);
      }
    }
    run.log("train", step, {
      "train/success": step / 200,
      "train/reward": step / 200,
      "policy/entropy": 1 / step,
      "drift/mean": 0.001,
    });
    run.trajectories.append(step, rows);
    await run.flush();
  }
  await run.close("finished");
  return { shown, hashes };
}

/** The images of one seed's board by the player's place. */
function boardOf(seed: number): Image[] {
  const known = boards.get(seed);
  if (known !== undefined) return known;
  boards.clear(); // siblings come one after the other
  const random = new NumpyRandom(seed + 1);
  const colors = Array.from({ length: CELLS * CELLS }, () => random.integers(0, 3));
  const images = colors.map((_, player) => {
    const canvas = new Canvas(CELLS * CELL, CELLS * CELL);
    for (const [at, color] of colors.entries()) {
      const [x, y] = [(at % CELLS) * CELL, Math.floor(at / CELLS) * CELL];
      const fill = COLORS[color] as Color;
      canvas.fillRect(x + 1, y + 1, CELL - 2, CELL - 2, fill);
      if (at === player) canvas.fillRect(x + 6, y + 6, CELL - 12, CELL - 12, [220, 38, 38]);
    }
    return canvas.toImage();
  });
  boards.set(seed, images);
  return images;
}

function episode(
  seed: number,
  sibling: number,
  step: number,
  random: NumpyRandom,
  board: readonly Image[],
  film: Image[],
): TrajectoryRecord {
  let place = 0;
  const turns: TurnRecord[] = [];
  for (let turn = 0; turn < TURNS; turn++) {
    const image = board[place] as Image;
    film.push(image);
    const move = random.integers(0, 4);
    place = moved(place, move);
    const name = ["left", "right", "up", "down"][move] as string;
    turns.push({
      observation:
        turn === 0 ? "<image>\nCross the lake without falling in.\nReply with <action>…</action>." : "<image>",
      frames: [image.hash],
      reply: `I am at cell ${place} and want to go ${name} because the ice there looks firm. <action>${name}</action>`,
      stopReason: "stop",
      actions: [name],
      parsed: move !== 3 || turn > 0,
      wellFormed: true,
      valid: true,
      reward: turn === TURNS - 1 ? sibling / SIBLINGS : 0,
      return: sibling / SIBLINGS,
      version: step,
      sampleMs: 12.5,
      envMs: 0.75,
    });
  }
  const last = board[place] as Image;
  film.push(last);
  const ids = Array.from({ length: 400 }, (_, i) => i);
  return {
    id: `frozen_lake#${seed}/${sibling}`,
    env: "frozen_lake",
    seed,
    group: `frozen_lake#${seed}`,
    sibling,
    split: "train",
    step,
    temperature: 1,
    reward: sibling / SIBLINGS,
    success: sibling >= SIBLINGS / 2,
    end: sibling % 3 === 0 ? "max_turns" : "done",
    advantage: { mean: sibling - 3.5, min: sibling - 3.5, max: sibling - 3.5 },
    turns,
    final: { observation: "<image>", frames: [last.hash] },
    // One sibling of each group keeps its tokens, as a run that logs some would.
    ...(sibling === 0 && {
      tokens: [
        {
          ids,
          kinds: "p".repeat(40) + "s".repeat(360),
          samplerLogprobs: ids.map((i) => -((i * 37 + seed) % 1000) / 997),
          learnerLogprobs: ids.map((i) => -((i * 37 + seed) % 1000) / 997 - ((i + seed) % 13) / 1000),
          images: [],
          replies: [{ turn: 0, start: 40, end: 400 }],
        },
      ],
    }),
  };
}

function moved(place: number, move: number): number {
  const [x, y] = [place % CELLS, Math.floor(place / CELLS)];
  const inside = (value: number) => Math.min(CELLS - 1, Math.max(0, value));
  const column = inside(x + (move === 0 ? -1 : move === 1 ? 1 : 0));
  return inside(y + (move === 2 ? -1 : move === 3 ? 1 : 0)) * CELLS + column;
}

async function reportDisk(
  path: string,
  { hashes, shown }: { hashes: Map<string, number>; shown: number },
): Promise<void> {
  let [stored, every] = [0, 0];
  for (const [hash, times] of hashes) {
    const { size } = await stat(join(path, "frames", `${hash}.png`));
    stored += size;
    every += size * times;
  }
  let rows = 0;
  for (const name of await readdir(join(path, "trajectories")))
    rows += (await stat(join(path, "trajectories", name))).size;
  say(
    "frames on disk",
    `${hashes.size} distinct of ${shown} shown, ${megabytes(stored)} instead of ${megabytes(every)}`,
  );
  say("saved by hashing", `${((1 - stored / every) * 100).toFixed(1)} %`);
  say("trajectories on disk", megabytes(rows));
}

async function firstPaint(port: number): Promise<void> {
  if (findWebFolder() === undefined || !existsSync("/usr/bin/chromium")) {
    say("first paint", "not measured: build the front end and install Chromium");
    return;
  }
  const browser = await openChromium();
  try {
    for (const [name, hash, content] of PAGES) {
      const [paints, contents]: [number[], number[]] = [[], []];
      for (let i = 0; i < 5; i++) {
        const page = await browser.newPage();
        await page.goto(`http://127.0.0.1:${port}/${hash}`);
        await page.waitForSelector(content, { timeout: 30_000 });
        // Strings: they run in the page, whose types are not ours.
        contents.push(await page.evaluate<number>("performance.now()"));
        paints.push(await page.evaluate<number>("performance.getEntriesByName('first-contentful-paint')[0].startTime"));
        await page.close();
      }
      say(
        `first paint, ${name}`,
        `${milliseconds(median(paints))}, with data ${milliseconds(median(contents))} (medians of five)`,
      );
    }
  } finally {
    await browser.close();
  }
}

async function list(server: Server, query: string): Promise<TrajectoryPage> {
  const response = await fetch(`http://127.0.0.1:${server.port}${routes.trajectories(RUN)}?${query}`);
  return (await response.json()) as TrajectoryPage;
}

async function serve(folder: string): Promise<Server> {
  const jiti = join(import.meta.dirname, "../node_modules/jiti/lib/jiti-cli.mjs");
  const child = fork(jiti, [import.meta.filename, "serve-child", folder]);
  const answer = <T>() => new Promise<T>((done) => child.once("message", (message) => done(message as T)));
  const { port } = await answer<{ port: number }>();
  return {
    port,
    async memory() {
      child.send("memory");
      return (await answer<{ memory: number }>()).memory;
    },
    async close() {
      const gone = new Promise((done) => child.once("exit", done));
      child.send("close");
      await gone;
    },
  };
}

async function serveChild(folder: string): Promise<void> {
  const viewer = await startViewer({ folder });
  process.on("message", async (message) => {
    if (message === "memory") process.send?.({ memory: process.memoryUsage().rss });
    if (message !== "close") return;
    await viewer.close();
    process.disconnect();
  });
  process.on("disconnect", () => process.exit());
  process.send?.({ port: viewer.port });
}

async function timed<T>(work: () => Promise<T>): Promise<{ value: T; ms: number }> {
  const start = performance.now();
  const value = await work();
  return { value, ms: performance.now() - start };
}

function median(values: readonly number[]): number {
  return values.toSorted((a, b) => a - b)[values.length >> 1] as number;
}

function say(what: string, value: string): void {
  process.stdout.write(`${what.padEnd(44)} ${value}\n`);
}

const seconds = (ms: number) => `${(ms / 1000).toFixed(2)} s`;
const milliseconds = (ms: number) => `${ms.toFixed(0)} ms`;
const megabytes = (bytes: number) => `${(bytes / 1e6).toFixed(1)} MB`;

if (process.argv[2] === "serve-child") await serveChild(process.argv[3] as string);
else await main();
