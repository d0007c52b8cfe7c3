/**
 * `npx jiti web/tasks.ts [older checkout]`: ten things that a new user wants on the first day, done by a script as a person does them, in the terminal (a
 * pseudo-terminal) and in the viewer (Chromium). Counted are keys, clicks and the seconds until the result is there; nobody thinks in between, so the seconds
 * are the machine's. The older checkout must be built; it writes its own runs. `–`: what is wanted can't be done there.
 */
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { cpus, loadavg, tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import type { Browser, Locator, Page } from "playwright-core";
import { Terminal } from "../src/cli/test-terminal.ts";
import { openBrowser, settled } from "./fixture/browser.ts";

type Place = { readonly root: string; readonly work: string; readonly newer: boolean; readonly browser: Browser };
type Effort = { readonly keys: number; readonly clicks: number; readonly seconds: number };
type Task = { readonly wanted: string; do(place: Place): Promise<Effort | undefined> };

/** A person at the keyboard: counts what is pressed, and takes the time from the first key on. */
class Person {
  keys = 0;
  clicks = 0;
  readonly #began = performance.now();

  get effort(): Effort {
    return { keys: this.keys, clicks: this.clicks, seconds: (performance.now() - this.#began) / 1000 };
  }

  async click(at: Locator): Promise<void> {
    this.clicks += 1;
    await at.click();
  }

  async press(page: Page, ...keys: string[]): Promise<void> {
    for (const key of keys) {
      this.keys += 1;
      await page.keyboard.press(key);
    }
  }

  /** Opening a list and taking an entry. */
  async choose(at: Locator, value: string): Promise<void> {
    this.clicks += 2;
    await at.selectOption(value);
  }

  /** A command line, typed and sent. */
  run({ root, work }: Place, words: readonly string[]): Terminal {
    this.keys += ["saccade", ...words].join(" ").length + 1;
    return new Terminal([process.execPath, join(root, "dist/cli.js"), ...words], { columns: 100, cwd: work });
  }

  /** Keys of a program in the terminal; an escape sequence is one. */
  type(terminal: Terminal, ...keys: string[]): void {
    for (const key of keys) {
      this.keys += key.startsWith("\x1b") ? 1 : key.length;
      terminal.press(key);
    }
  }
}

const [UP, RIGHT, CTRL_C] = ["\x1b[A", "\x1b[C", "\x03"];
const RUNS = ["warm", "cold", "seed-1"];

const TASKS: readonly Task[] = [
  {
    wanted: "Reach the goal of a frozen lake in the terminal",
    async do(place) {
      const person = new Person();
      const game = person.run(place, ["play", "frozen_lake", "--seed", "3"]);
      await startOf(place, game);
      if (place.newer) person.type(game, UP, UP, RIGHT);
      else for (const word of ["up\r", "up\r", "right\r"]) person.type(game, word);
      await game.until(/Success/);
      return done(person, game);
    },
  },
  {
    wanted: "There, take a wrong move back and then reach the goal",
    async do(place) {
      const person = new Person();
      const words = ["play", "frozen_lake", "--seed", "3"];
      let game = person.run(place, words);
      await startOf(place, game);
      if (place.newer) {
        person.type(game, RIGHT, "u");
        await game.until(/Taken back/);
        person.type(game, UP, UP, RIGHT);
      } else {
        // Nothing is taken back: the episode starts again (Ctrl-C, the last command once more).
        person.type(game, "right\r", CTRL_C);
        await game.ended;
        game = new Terminal([process.execPath, join(place.root, "dist/cli.js"), ...words], {
          columns: 100,
          cwd: place.work,
        });
        person.keys += 2;
        await startOf(place, game);
        for (const word of ["up\r", "up\r", "right\r"]) person.type(game, word);
      }
      await game.until(/Success/);
      return done(person, game);
    },
  },
  {
    wanted: "Stop a training run and let it go on",
    async do(place) {
      const person = new Person();
      const words = ["train", "./tiny.ts"];
      const run = person.run(place, words);
      await run.until(place.newer ? /playing +[█░]+/ : /reinforcement learning/, 240_000);
      person.type(run, CTRL_C);
      await run.ended;
      person.keys += 2;
      const again = new Terminal([process.execPath, join(place.root, "dist/cli.js"), ...words], {
        columns: 100,
        cwd: place.work,
      });
      await again.ended;
      return done(person, again);
    },
  },
  {
    wanted: "Which of three runs is best, in the terminal",
    async do(place) {
      const person = new Person();
      const list = person.run(place, place.newer ? ["runs", "--sort", "success"] : ["runs"]);
      await list.ended;
      return done(person, list);
    },
  },
  {
    wanted: "A project of one's own that can be trained",
    async do(place) {
      const person = new Person();
      if (place.newer) {
        const init = person.run(place, ["init", "my-agent"]);
        await init.ended;
        symlinked(place, "my-agent");
      } else {
        // The guide's example is typed (or copied), and a recipe for it is put together from the guide's table of fields.
        mkdirSync(join(place.work, "my-agent"));
        const world = guideExample(place.root);
        writeFileSync(join(place.work, "my-agent/env.ts"), world);
        writeFileSync(join(place.work, "my-agent/recipe.ts"), SHORTEST);
        person.keys += world.length + SHORTEST.length;
      }
      const check = person.run(place, ["train", "./my-agent/recipe.ts", "--dry-run"]);
      if ((await check.ended) !== 0) throw new Error(check.screen());
      return done(person, check);
    },
  },
  {
    wanted: "A lost evaluation episode of a run, opened",
    do: (place) =>
      inViewer(place, async (page, person) => {
        await person.click(page.locator('a[href="#/run/warm"]').first());
        await person.click(page.getByRole("link", { name: "Episodes" }).first());
        await person.click(page.getByRole("button", { name: "Filters" }));
        const pick = (label: string) => page.locator("label", { hasText: label }).locator("select").first();
        await person.choose(pick("Split"), "eval");
        await person.choose(pick("Success"), "false");
        await page.waitForURL(/split=eval.*success=false/);
        await settled(page);
        await person.click(page.locator(".episode-row").first());
        await page.waitForSelector(".shot, .turns");
        return true;
      }),
  },
  {
    wanted: "Training success of two runs, smoothed, from the first step of reinforcement learning on",
    do: (place) =>
      inViewer(place, async (page, person) => {
        // Both draw the curves; before, one begins 40 steps later than the other, and nothing can move it.
        await person.click(page.getByLabel("Compare warm"));
        await person.click(page.getByLabel("Compare cold"));
        await person.click(page.getByRole("button", { name: "Compare 2" }));
        await page.waitForSelector(".chart canvas");
        await person.press(page, "+", "+", "+", "+", "+");
        await page.waitForURL(/smooth=0\.50/);
        await settled(page);
        return place.newer;
      }),
  },
  {
    wanted: "A stretch of a curve, enlarged, as a link",
    do: (place) =>
      inViewer(place, async (page, person) => {
        await person.click(page.locator('a[href="#/run/warm"]').first());
        const over = page.locator(".chart .u-over").first();
        await over.waitFor();
        await settled(page);
        const box = await over.boundingBox();
        if (box === null) throw new Error("The chart is not on the screen.");
        await page.mouse.move(box.x + box.width * 0.3, box.y + 30);
        await page.mouse.down();
        await page.mouse.move(box.x + box.width * 0.7, box.y + 30, { steps: 4 });
        await page.mouse.up();
        person.clicks += 1;
        await page.waitForTimeout(200);
        return page.url().includes("zoom=");
      }),
  },
  {
    wanted: "The numbers of a curve for a spreadsheet",
    do: (place) =>
      inViewer(place, async (page, person) => {
        await person.click(page.locator('a[href="#/run/warm"]').first());
        const chart = page.locator(".chart").first();
        await chart.hover();
        const csv = chart.getByRole("button", { name: "as CSV" });
        if ((await csv.count()) === 0) return false;
        await Promise.all([page.waitForEvent("download"), person.click(csv)]);
        return true;
      }),
  },
  {
    wanted: "A first move of one's own in the browser, then a model plays on",
    do: (place) =>
      inViewer(place, async (page, person) => {
        await person.click(page.getByRole("link", { name: "Play" }).first());
        const pick = (label: string) => page.locator(".setup label", { hasText: label }).locator("select").first();
        await pick("Environment").waitFor();
        await person.choose(pick("Environment"), "frozen_lake");
        if ((await pick("nobody but me").count()) === 0) return false;
        await person.choose(pick("nobody but me"), "shipped:generalist");
        await person.click(page.getByRole("button", { name: "Start" }));
        await page.waitForSelector(".likely");
        await person.press(page, "ArrowDown");
        await page.waitForSelector(".history li >> nth=0");
        await person.click(page.getByRole("button", { name: "Let it play" }));
        await page.waitForSelector(".history li >> nth=1");
        return true;
      }),
  },
];

const TINY = `import { defineRecipe } from "saccade";
export default defineRecipe({
  name: "tiny",
  model: { preset: "nano" },
  envs: [{ env: "frozen_lake", options: { cellSize: 16, protocol: "keyword", prompt: "brief", feedback: false, maxTurns: 6 } }],
  warmStart: { episodes: 64, batch: 8, optimizer: { name: "adamw", learningRate: 0.001 } },
  steps: 3, groups: 8, siblings: 4, minibatch: 8,
  sampling: { temperature: 1, maxTokens: 12, contextTokens: 512 },
  optimizer: { name: "adamw", learningRate: 0.001 },
  evaluate: { every: 3, seeds: [1000000000, 1000000015] },
  sight: { every: 0 },
});
`;

const SHORTEST = `import { defineRecipe } from "saccade";

export default defineRecipe({
  name: "catch",
  model: { preset: "nano" },
  envs: [{ env: "./env.ts", options: { protocol: "keyword" } }],
  warmStart: { episodes: 6400, batch: 8, optimizer: { name: "adamw", learningRate: 0.001 } },
  steps: 30,
  sampling: { maxTokens: 12, contextTokens: 1024 },
  optimizer: { name: "adamw", learningRate: 0.001 },
});
`;

function guideExample(root: string): string {
  const [, code = ""] =
    /```ts\n([\s\S]*?)```/.exec(readFileSync(join(root, "docs/write-an-environment.md"), "utf8")) ?? [];
  return code;
}

/** A project finds the package that made it, as after `npm install`. */
function symlinked({ root, work }: Place, project: string): void {
  mkdirSync(join(work, project, "node_modules"), { recursive: true });
  if (!existsSync(join(work, project, "node_modules/saccade")))
    symlinkSync(root, join(work, project, "node_modules/saccade"));
}

/** The first board is there. */
function startOf({ newer }: Place, game: Terminal): Promise<string> {
  return game.until(newer ? /q quit/ : /turn 1>/);
}

function done(person: Person, terminal: Terminal): Effort {
  const { effort } = person;
  terminal.close();
  return effort;
}

/** From the list of runs on. A body that gives false found that it can't be done. */
async function inViewer(
  { root, work, browser }: Place,
  body: (page: Page, person: Person) => Promise<boolean>,
): Promise<Effort | undefined> {
  const viewer = new Terminal(
    [process.execPath, join(root, "dist/cli.js"), "view", join(work, "runs"), "--port", "0"],
    { columns: 100, cwd: work },
  );
  const context = await browser.newContext({ viewport: { width: 1280, height: 850 }, acceptDownloads: true });
  try {
    const [url = ""] = /http:\S+/.exec(await viewer.until(/http:\S+/)) ?? [];
    const page = await context.newPage();
    await page.goto(url);
    await settled(page);
    const person = new Person();
    return (await body(page, person)) === false ? undefined : person.effort;
  } finally {
    await context.close();
    viewer.close();
  }
}

/** Runs and a recipe, by the checkout's own writers. */
async function prepare(root: string, newer: boolean, browser: Browser): Promise<Place> {
  const work = mkdtempSync(join(tmpdir(), "saccade-tasks-"));
  const { makeRun } = await import(pathToFileURL(join(root, "web/fixture/make-run.ts")).href);
  for (const [i, name] of RUNS.entries())
    await makeRun(join(work, "runs", name), {
      name,
      steps: 16,
      skill: [0.25, 0.6 + i / 10],
      ...(i === 0 && { warm: 40 }),
    });
  writeFileSync(join(work, "tiny.ts"), TINY);
  return { root, work, newer, browser };
}

async function main(): Promise<void> {
  const older = process.argv[2];
  const browser = await openBrowser();
  const places: Place[] = [];
  try {
    if (older !== undefined) places.push(await prepare(resolve(older), false, browser));
    places.push(await prepare(resolve(import.meta.dirname, ".."), true, browser));
    const heads = ["keys", "clicks", "seconds"];
    const names = places.length === 2 ? ["before", "now"] : ["now"];
    console.log(
      `| what is wanted | ${names.map((name) => heads.map((head) => `${head}, ${name}`).join(" | ")).join(" | ")} |`,
    );
    console.log(`|---|${names.map(() => "---|---|---|").join("")}`);
    for (const { wanted, do: attempt } of TASKS) {
      const cells: string[] = [];
      for (const place of places) {
        const effort = await attempt(place);
        cells.push(...(effort ? [`${effort.keys}`, `${effort.clicks}`, effort.seconds.toFixed(1)] : ["–", "–", "–"]));
      }
      console.log(`| ${wanted} | ${cells.join(" | ")} |`);
    }
    console.log(`\n${cpus().length} cores (${cpus()[0]?.model}), load ${loadavg()[0]?.toFixed(1)}`);
  } finally {
    await browser.close();
    for (const { work } of places) rmSync(work, { recursive: true, force: true });
  }
}

await main();
