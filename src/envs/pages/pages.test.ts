import { existsSync, mkdtempSync, readdirSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { EnvError } from "../../core/errors.ts";
import { type Image, isImage } from "../../core/image.ts";
import { NumpyRandom } from "../../core/random-numpy.ts";
import type { Action } from "../action.ts";
import { sampleAction } from "../args.ts";
import type { World } from "../world.ts";
import { Grid, PAGE_ACTIONS, pageActions } from "./actions.ts";
import { systemBrowser } from "./find-browser.ts";
import { browserPool } from "./pool.ts";
import { siteNetwork } from "./serve.ts";
import { siteWorld } from "./site.ts";
import { definePage, type PageSpec } from "./spec.ts";
import { attackPage, listen } from "./test-attack.ts";

// Few tabs, so that worlds must share them.
process.env.SACCADE_BROWSER_TABS = "4";
const required = (process.env.SACCADE_REQUIRE ?? "").split(",").includes("browser");
const withBrowser = describe.runIf(required || systemBrowser() !== undefined);

const DEMO = `<!doctype html><body style="font:14px sans-serif"><button id="go">go</button>
<select id="pick"><option>one</option><option>two</option><option>three</option></select><input id="name" placeholder="name">
<p id="clock"></p><div style="height:400px"></div><button id="low">low</button><script>
  const drawn = [Math.random(), Date.now(), performance.now(), crypto.randomUUID()].join(" ");
  setInterval(() => { clock.textContent = drawn.slice(0, 40) + " " + new Date().toISOString() + " " + Math.random().toFixed(6); }, 130);
  let parts = { go: false, pick: false, name: false, low: false };
  go.onclick = () => { parts.go = true; go.textContent = "gone"; };
  low.onclick = () => { parts.low = true; };
  localStorage.visits = Number(localStorage.visits ?? 0) + 1; document.title = "visit " + localStorage.visits;
  const check = () => { parts.pick = pick.value === "two"; parts.name = name_() === "Ada, 1"; return Object.values(parts).filter(Boolean).length; };
  const name_ = () => document.getElementById("name").value;
  globalThis.world = { goal: () => "Do it.", score: () => check() / 4, done: () => check() === 4, plan: () => {
    check();
    const list = document.querySelector("[role=listbox]");
    if (!parts.go) return [{ click: go }];
    if (list) return [{ click: list.children[1] }];
    if (!parts.pick) return [{ click: pick }];
    if (!parts.name) return [{ click: document.getElementById("name") }, { type: "Ada, 1" }];
    return [{ click: low }];
  } };
</script>`;

const open: World[] = [];
async function pageWorld(spec: PageSpec, options: Record<string, unknown> = {}): Promise<World> {
  const world = await definePage({ id: "demo", ...spec }).create({ marks: false, ...options } as never);
  open.push(world);
  return world;
}
async function frame(world: World): Promise<Image> {
  const seen = await world.observe("image");
  if (!isImage(seen)) throw new Error("expected an image");
  return seen;
}
afterAll(async () => {
  for (const world of open) await world.close?.();
});

describe("coordinates", () => {
  test("a grid value is the pixel in the middle of its cell, and aiming at that pixel gives the value back", () => {
    for (const scale of [undefined, 16, 1000]) {
      const grid = new Grid({ width: 160, height: 210 }, scale);
      for (const [x, y] of [
        [0, 0],
        [grid.columns - 1, grid.rows - 1],
        [7, 3],
      ] as const) {
        const at = grid.pixel(x, y);
        expect(at.x).toBeLessThan(160);
        expect(at.y).toBeLessThan(210);
        if (scale !== 1000) expect(grid.aim({ ...at, width: 1, height: 1 })).toEqual([x, y]);
      }
    }
    expect(new Grid({ width: 200, height: 100 }, 1000).pixel(500, 500)).toEqual({ x: 100, y: 50 });
  });

  test("a random agent mostly clicks, though there are many more ways to drag", () => {
    const specs = pageActions(new Grid({ width: 160, height: 210 }, undefined), PAGE_ACTIONS, ["a"]);
    const random = new NumpyRandom(0);
    const names = Array.from({ length: 300 }, () => sampleAction(specs, random).name);
    expect(names.filter((name) => name === "click").length).toBeGreaterThan(100);
    expect(new Set(names).size).toBe(PAGE_ACTIONS.length);
  });
});

test.each([
  [{ html: "a", url: "http://127.0.0.1:1" }, /one of html, files and url; got html and url/],
  [
    { html: "a", viewport: { y: 50, width: 160, height: 160 }, window: { width: 500, height: 200 } },
    /160×160 at 0, 50 and the window is 500×200/,
  ],
  [{ html: "a", window: { width: 300, height: 240 } }, /320×240 at 0, 0 and the window is 300×240/],
  [{ html: "a", viewport: { x: -1, width: 160, height: 160 } }, /160×160 at -1, 0: it must lie inside/],
] as const)("%j is no page", (spec, words) => {
  expect(() => definePage({ id: "wrong", ...spec })).toThrow(words);
});

withBrowser("a page as a world", () => {
  test("a seed and its actions decide every frame, in a used tab as in a new one, and after load", async () => {
    const [one, two] = [await pageWorld({ html: DEMO }), await pageWorld({ html: DEMO })];
    const actions: Action[] = [
      { name: "click", payload: [20, 18] },
      { name: "type", payload: "x" },
      { name: "wait", payload: "wait" },
      { name: "scroll", payload: [100, 100, 1] },
      { name: "drag", payload: [10, 10, 200, 100] },
      { name: "key", payload: 1 },
    ];
    const play = async (world: World, seed: number) => {
      await world.reset(seed);
      const hashes = [(await frame(world)).hash];
      for (const action of actions) {
        await world.act(action);
        hashes.push((await frame(world)).hash);
      }
      return hashes;
    };
    const first = await play(one, 5);
    await play(two, 6);
    expect(await play(two, 5)).toEqual(first);
    expect((await play(two, 6))[0]).not.toBe(first[0]);
    const saved = JSON.parse(JSON.stringify(await one.save?.()));
    await two.load?.(saved);
    expect((await frame(two)).hash).toBe(first.at(-1));
    expect(await two.save?.()).toEqual(saved);
    expect(await two.observe("text")).toEqual(await one.observe("text"));
  });

  test("an oracle is asked again every turn, scrolls to what is out of view, and its steps add up to the score", async () => {
    for (const scale of [undefined, 1000, 40]) {
      const world = await pageWorld({ html: DEMO }, { scale });
      await world.reset(1);
      let earned = 0;
      for (let turn = 0; turn < 12 && !(await world.success()); turn++) {
        for (const action of (await world.solve?.()) ?? []) earned += (await world.act(action)).reward;
      }
      expect([await world.success(), earned]).toEqual([true, 1]);
    }
  });

  test("the text view names what can be clicked and where, and marks can be clicked by number", async () => {
    const world = await pageWorld({ html: DEMO }, { marks: true });
    await world.reset(1);
    const text = String(await world.observe("text"));
    expect(text).toMatch(/\[1\] button "go" at \d+ \d+/);
    expect(text).toContain('combobox = "one"');
    const plain = await pageWorld({ html: DEMO });
    await plain.reset(1);
    expect((await frame(world)).hash).not.toBe((await frame(plain)).hash);
    const { mark, reward } = await world.act({ name: "click_mark", payload: 1 });
    expect([mark?.element, reward]).toEqual(['button "go"', 0.25]);
  });

  test("a view in the middle of the window shows that part of it, and clicks, marks, plans, texts and facts count from its corner", async () => {
    const html = `<body style="margin:0"><button style="position:absolute;left:10px;top:5px">above</button>
      <button id="b" style="position:absolute;left:90px;top:70px;width:40px;height:20px" onclick="done = true">in</button>
      <script>let done = false; globalThis.world = { goal: () => "Press.", done: () => done, plan: () => [{ click: b }] };</script>`;
    const window = { width: 200, height: 160 };
    const view = { x: 60, y: 50, width: 100, height: 80 };
    const whole = await pageWorld({ html, viewport: window });
    const part = await pageWorld({ html, viewport: view, window });
    await whole.reset(1);
    await part.reset(1);
    const [all, seen] = [await frame(whole), await frame(part)];
    expect([seen.width, seen.height]).toEqual([100, 80]);
    const cut = Array.from({ length: view.height }, (_, y) => {
      const from = ((y + view.y) * all.width + view.x) * 3;
      return [...all.data.subarray(from, from + view.width * 3)];
    });
    expect([...seen.data]).toEqual(cut.flat());
    expect(await part.observe("text")).toBe('button "in" at 50 30');
    expect(await part.solve?.()).toEqual([{ name: "click", payload: [50, 30] }]);
    expect(await part.facts?.()).toEqual([{ subject: "in", relations: ["50 30"], object: "page" }]);
    const { mark, reward } = await part.act({ name: "click", payload: [50, 30] });
    expect([mark?.element, mark?.box, reward]).toEqual(['button "in"', [0.3, 0.25, 0.4, 0.25], 1]);
  });

  test("a page that starts episodes in place is loaded once, is seeded anew, and is loaded again after it was left", async () => {
    const html = `<!doctype html><body style="border-radius:9px;border:2px solid"><script>
      let starts = 0;
      globalThis.world = { start: (seed) => {
        starts += 1;
        document.body.replaceChildren(seed + " " + Math.random() + " " + Date.now(), document.createElement("input"));
        setInterval(() => document.body.append("."), 70);
      }, goal: () => "started " + starts, done: () => false };
    </script>`;
    const fresh = await pageWorld({ html });
    const world = await pageWorld({ html, inPlace: true });
    const play = async (one: World, seed: number) => {
      await one.reset(seed);
      const start = (await frame(one)).hash;
      await one.act({ name: "click", payload: [200, 14] });
      await one.act({ name: "type", payload: "Ada" });
      return [start, (await frame(one)).hash];
    };
    const [first, second] = [await play(world, 1), await play(world, 2)];
    expect(await world.task("brief", "image")).toBe("started 2");
    expect(await play(world, 1)).toEqual(first);
    expect(await play(fresh, 2)).toEqual(second);
    expect(first[0]).not.toBe(second[0]);
    // Another document at the same address, and the page itself somewhere else.
    const other = await pageWorld({ html: html.replace("9px", "1px"), inPlace: true });
    await other.reset(1);
    expect(await other.task("brief", "image")).toBe("started 1");
    await play(world, 3);
    for (const step of ["location.hash = 'x'", "history.pushState(0, '', '/y')"]) {
      const leaving = await pageWorld({
        html: html.replace("<body", `<body onclick="${step}"`),
        inPlace: true,
      });
      for (const seed of [1, 2]) {
        await leaving.reset(seed);
        expect(await leaving.task("brief", "image"), step).toBe("started 1");
        await leaving.act({ name: "click", payload: [200, 14] });
      }
    }
  });

  test("more worlds than tabs share them: whoever lost its tab plays its episode again", async () => {
    const worlds = await Promise.all(
      Array.from({ length: 6 }, () =>
        pageWorld({
          html: "<body><p>hi<script>onclick = (e) => document.body.append(e.clientX + ' ' + Math.random())</script>",
        }),
      ),
    );
    await Promise.all(worlds.map((world, i) => world.reset(i)));
    await Promise.all(worlds.map((world, i) => world.act({ name: "click", payload: [i, 9] })));
    const before = await Promise.all(worlds.map(async (world) => (await frame(world)).hash));
    const again = await Promise.all(worlds.map(async (world) => (await frame(world)).hash));
    expect(again).toEqual(before);
    expect(new Set(before).size).toBe(worlds.length);
    expect(browserPool({ hosts: [] }).tabs).toBeLessThanOrEqual(4);
    for (const world of worlds) await world.close?.();
  }, 120_000);

  test("a world that is closed while it plays gives its tab back, and the browser ends when nobody needs it", async () => {
    for (const world of open.splice(0)) await world.close?.();
    const world = await pageWorld({ html: DEMO });
    await world.reset(0);
    const acting = Promise.resolve(world.act({ name: "wait", payload: "wait" }));
    await world.close?.();
    await acting.catch(() => undefined);
    await expect((async () => world.observe("image"))()).rejects.toThrow(/closed/);
    await expect.poll(() => browserPool({ hosts: [] }).tabs, { timeout: 10_000 }).toBe(0);
    expect(await browserPool({ hosts: [] }).processIds()).toEqual([]);
  });

  test("a browser that is killed costs the episodes that it showed, and the next gets another", async () => {
    const world = await pageWorld({ html: DEMO });
    await world.reset(3);
    const before = (await frame(world)).hash;
    for (const id of await browserPool({ hosts: [] }).processIds()) process.kill(id, "SIGKILL");
    await expect(
      (async () => {
        for (let i = 0; i < 50; i++) await world.act({ name: "wait", payload: "wait" });
      })(),
    ).rejects.toThrow(EnvError);
    await world.reset(3);
    expect((await frame(world)).hash).toBe(before);
  });
});

withBrowser("a site", () => {
  test("on this machine is reached; another host must be allowed", async () => {
    const site = await listen();
    try {
      const world = await siteWorld(`http://127.0.0.1:${site.port}/page`, "Look.", false).create({ marks: false });
      open.push(world);
      await world.reset(0);
      expect(site.heard).toContain("GET /page");
      expect([await world.task("brief", "image"), (await frame(world)).width]).toEqual(["Look.", 1024]);
      expect((await world.act({ name: "stop", payload: "stop" })).ended).toBe(true);
      expect(() => siteNetwork("https://example.com", false)).toThrow(/--allow-network/);
    } finally {
      await site.close();
    }
  });
});

withBrowser("a hostile page", () => {
  let port = 0;
  let heard: string[] = [];
  let close = async () => {};
  beforeAll(async () => {
    ({ port, heard, close } = await listen());
  });
  afterAll(() => close());

  test("reaches no network, opens no window, writes no file, and the episode goes on", async () => {
    // The listener hears what gets through.
    await fetch(`http://127.0.0.1:${port}/control`);
    expect(heard.splice(0)).toEqual(["GET /control"]);
    const folder = mkdtempSync(join(tmpdir(), "saccade-attack-"));
    const before = process.cwd();
    const world = await pageWorld({ html: attackPage(port), timeoutMs: 8000 });
    await world.reset(0);
    for (let turn = 0; turn < 2; turn++) {
      const outcome = await world.act({ name: "click", payload: [40, 40] });
      expect(outcome.ended).toBe(false);
      expect((await frame(world)).width).toBe(320);
    }
    expect(heard).toEqual([]);
    const written = [before, folder, tmpdir(), join(process.env.HOME ?? "/", "Downloads")]
      .filter((place) => existsSync(place))
      .flatMap((place) => readdirSync(place))
      .filter((name) => name.startsWith("saccade-attack."));
    expect(written).toEqual([]);
  });

  test("that never stops computing costs its own episode, within its time", async () => {
    const loop = await pageWorld({ html: "<body><script>onclick = () => { for (;;); }</script>", timeoutMs: 4000 });
    await loop.reset(0);
    const other = await pageWorld({ html: DEMO });
    await other.reset(0);
    await expect(loop.act({ name: "click", payload: [9, 9] })).rejects.toThrow(/did not .* within 4 s/);
    expect((await other.act({ name: "click", payload: [20, 18] })).valid).toBe(true);
    await loop.reset(0);
    expect((await frame(loop)).width).toBe(320);
  });

  test("that leaves for another page is judged and shown as that one, whose clock ran as long however it was left for", {
    timeout: 120_000,
  }, async () => {
    const folder = mkdtempSync(join(tmpdir(), "saccade-pages-"));
    const judge = (done: boolean) => `globalThis.world = { goal: () => "Go there.", done: () => ${done} };`;
    // Its scripts take a while to load.
    writeFileSync(join(folder, "slow.js"), "for (let i = 0; i < 1e7; i++) Math.sqrt(i);");
    writeFileSync(
      join(folder, "there.html"),
      `<body><p id="clock"></p><script src="slow.js"></script><script>${judge(true)}
        setInterval(() => { clock.textContent = performance.now(); }, 30);</script>`,
    );
    const frames = new Set<string>();
    for (const [name, leave] of Object.entries({
      now: "location.href = 'there.html'",
      soon: "setTimeout(() => { location = 'there.html'; }, 0)",
      late: "setTimeout(() => { location = 'there.html'; }, 200)",
      form: "document.forms[0].submit()",
      twice: "setTimeout(() => { location = 'soon.html?go'; }, 0)",
    })) {
      const go = `go = () => { ${leave} }; if (location.search) setTimeout(go, 9)`;
      writeFileSync(
        join(folder, `${name}.html`),
        `<body onclick="go()"><form action="there.html"></form><script>${go}; ${judge(false)}</script>`,
      );
      const world = await pageWorld({ files: folder, open: `/${name}.html`, timeoutMs: 6000 });
      for (const seed of [1, 1]) {
        await world.reset(seed);
        expect(await world.act({ name: "click", payload: [9, 9] }), name).toMatchObject({ reward: 1, ended: true });
        expect(await world.success(), name).toBe(true);
        frames.add((await frame(world)).hash);
      }
    }
    expect(frames.size).toBe(1);
  });

  test("that leaves for nowhere, or eats memory, fails as an episode and not as a run", async () => {
    const gone = await pageWorld({
      html: "<body><script>onclick = () => { location.href = 'about:blank'; }</script>",
      timeoutMs: 3000,
    });
    await gone.reset(0);
    const left = (async () => gone.act({ name: "click", payload: [9, 9] }))();
    await left.catch((error: unknown) => expect(error).toBeInstanceOf(EnvError));
    await gone.reset(0);
    const greedy = await pageWorld({
      html: "<body><script>onclick = () => { const a = []; for (;;) a.push(new Array(1e6).fill(a.length + 0.5)); }</script>",
    });
    await greedy.reset(0);
    await expect(greedy.act({ name: "click", payload: [9, 9] })).rejects.toThrow(EnvError);
    await greedy.reset(0);
    expect((await frame(greedy)).width).toBe(320);
  });
});
