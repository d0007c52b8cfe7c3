/**
 * A page as a world: the frame is its screenshot, actions are pointer and keys, the reward is the change of its score. An episode is its
 * seed and the actions played so far; `load`, and a tab that changed hands, play them again. What a page does depends on nothing else
 * (`quiet.ts`), so the frames come out the same.
 */
import { EnvError } from "../../core/errors.ts";
import type { Image } from "../../core/image.ts";
import { isJsonObject, type Json } from "../../core/json.ts";
import { Canvas } from "../../images/canvas.ts";
import type { Action, ActionSpec } from "../action.ts";
import { acceptAction } from "../args.ts";
import type { Fact, Mark, Observation, ObservationMode, Outcome, PromptStyle, World } from "../world.ts";
import {
  actionOf,
  type Box,
  DIRECTIONS,
  Grid,
  KEYS,
  type KeyName,
  type Move,
  type PageActionName,
  pageActions,
} from "./actions.ts";
import { pressKey, typeText } from "./keyboard.ts";
import { type BrowserPool, browserPool } from "./pool.ts";
import { ORIGIN, serveFolder, serveHtml, siteNetwork } from "./serve.ts";
import type { PageSession, Serve } from "./session.ts";
import { DEFAULT_VIEW, type PageSpec, type PageView } from "./spec.ts";

export type PageSettings = {
  readonly scale?: number | undefined;
  readonly actions?: readonly PageActionName[] | undefined;
  readonly marks: boolean;
  /** What the page's own `world.start(seed, options)` gets. */
  readonly options: Json;
};

type Element = { depth: number; role: string; name: string; acts: boolean; box: Box; states: string[]; value?: string };

/** What a page says of itself, asked with every look at it: score, success, whether it is over, and its instruction. */
type Judged = [score: number, success: boolean, over: boolean, goal: string];
const JUDGED =
  "(() => { const w = globalThis.world; const done = w?.done?.() ?? false; return [w?.score?.() ?? Number(done), done, w?.over?.() ?? done, w?.goal?.() ?? '']; })()";

/** How far the page's clock moves after an action, and for `wait`. */
const SETTLE_MS = 200;
const WAIT_MS = 1000;
const DEFAULT_TIMEOUT_MS = 20_000;
const MARK_COLORS = [
  [200, 30, 90],
  [20, 110, 200],
  [20, 130, 60],
  [150, 80, 190],
] as const;

export class PageWorld implements World {
  readonly actions: readonly ActionSpec[];
  readonly #spec: PageSpec;
  readonly #settings: PageSettings;
  /** The part of the window that is shown; coordinates of actions count from its corner. */
  readonly #view: Box;
  readonly #grid: Grid;
  readonly #pool: BrowserPool;
  readonly #site: Serve | undefined;
  /** Names the document of pages that start episodes in place. */
  readonly #document: string | undefined;
  /** What a page that judges itself is asked after everything that was done. */
  readonly #asked: string;
  #seed: number | undefined;
  #played: Action[] = [];
  #score = 0;
  #success = false;
  #ended = false;
  #closed = false;
  #clipboard = "";
  #goal = "";
  #frame: Image | undefined;

  constructor(spec: PageSpec, settings: PageSettings) {
    this.#spec = spec;
    this.#settings = settings;
    this.#view = { x: 0, y: 0, ...(spec.viewport ?? DEFAULT_VIEW) };
    this.#grid = new Grid(this.#view, settings.scale);
    const names = settings.actions ??
      spec.actions ?? ["click", "double_click", "drag", "scroll", "type", "key", "wait", "stop"];
    this.actions = [
      ...pageActions(this.#grid, names, spec.words ?? ["hello", "1"]),
      ...(settings.marks ? [MARK_ACTION] : []),
    ];
    const { task, reward, success, ended } = spec;
    const isAsked = task === undefined || [reward, success, ended].every((judge) => judge === undefined);
    this.#asked = isAsked ? JUDGED : "null";
    const site = spec.url === undefined ? undefined : siteNetwork(spec.url, spec.allowNetwork === true);
    this.#site = site?.serve;
    const source = spec.html === undefined ? `${spec.files} ${spec.open ?? "/"}` : spec.html;
    this.#document = spec.inPlace === true && typeof source === "string" ? source : undefined;
    this.#pool = browserPool(site?.network ?? { hosts: [] });
  }

  async reset(seed: number): Promise<void> {
    this.#seed = seed;
    this.#played = [];
    this.#goal = "";
    this.#ended = false;
    await this.#use((session) => this.#start(session));
  }

  async act(action: Action): Promise<Outcome> {
    if (this.#ended) return { valid: false, feedback: "The episode is over.", reward: 0, ended: true };
    if (action.name === "stop") {
      this.#played.push(action);
      this.#ended = true;
      return { valid: true, reward: 0, ended: true, mark: { action: "stop" } };
    }
    const before = this.#score;
    const mark = await this.#with(async (session) => {
      const { mark: done, judged } = await this.#perform(session, action);
      this.#played.push(action);
      await this.#judge(session, judged);
      return done;
    });
    return { valid: true, reward: this.#score - before, ended: this.#ended, ...(mark && { mark }) };
  }

  async observe(mode: ObservationMode): Promise<Observation> {
    if (mode === "text") return this.#with(async (session) => this.#text(await this.#elements(session)));
    this.#frame ??= await this.#with(async (session) => {
      const frame = await session.screenshot();
      return this.#settings.marks ? this.#marked(frame, await this.#elements(session)) : frame;
    });
    return this.#frame;
  }

  task(style: PromptStyle): string {
    const goal = this.#goal;
    if (style === "brief") return goal;
    return `You see a web page as a person would. ${goal}`;
  }

  success(): boolean {
    return this.#success;
  }

  /** The next moves that are certain; after them the page is asked again. */
  async solve(): Promise<Action[]> {
    if (this.#ended) return [];
    const moves = await this.#with((session) => this.#moves(session));
    const shown = (box: Box) => this.#inView(box);
    const plan = moves
      .flatMap((move) => this.#within(moved(move, shown)))
      .map((move) => actionOf(move, this.#grid, this.#view));
    const possible = plan.findIndex(({ name }) => !this.actions.some((spec) => spec.name === name));
    const kept = possible < 0 ? plan : plan.slice(0, possible);
    // A text takes the rest of a reply.
    const text = kept.findIndex(({ name }) => name === "type");
    return text < 0 ? kept : kept.slice(0, text + 1);
  }

  /** What can be clicked, by name, each at the coordinate of its middle: `ok` is at `3 4`. */
  async facts(): Promise<Fact[]> {
    const sights = await this.#with((session) => this.#sights(session));
    return sights.map(({ name, box }) => ({
      subject: name,
      relations: [this.#grid.aim(box).join(" ")],
      object: "page",
    }));
  }

  save(): Json {
    if (this.#seed === undefined) throw new EnvError("There is no episode yet; call reset(seed) or load(state) first.");
    return { seed: this.#seed, actions: this.#played.map(({ name, payload }) => ({ name, payload })) };
  }

  async load(state: Json): Promise<void> {
    const { seed, actions } = isJsonObject(state) ? state : {};
    if (!Number.isSafeInteger(seed) || Number(seed) < 0 || !Array.isArray(actions)) {
      throw new EnvError("A saved page is { seed, actions }: a whole number and the actions that were played.");
    }
    const played = actions.map((action) => this.#checked(action));
    this.#seed = Number(seed);
    this.#goal = "";
    this.#ended = false;
    this.#played = played;
    await this.#use((session) => this.#restore(session));
  }

  /** Whatever is under way comes to its end; nothing begins after it. */
  close(): void {
    this.#closed = true;
    this.#pool.release(this);
  }

  #use<T>(body: (session: PageSession, fresh: boolean) => Promise<T>): Promise<T> {
    if (this.#closed) throw new EnvError("This world was closed.");
    return this.#pool.use(this, body, this.#document);
  }

  #checked(value: Json): Action {
    const { name, payload } = isJsonObject(value) ? value : {};
    const spec = this.actions.find((candidate) => candidate.name === name);
    const accepted = spec === undefined ? undefined : acceptAction(spec, payload ?? null);
    if (spec === undefined || !accepted?.ok) {
      throw new EnvError(`A saved action must be one of this page's actions; got ${JSON.stringify(value)}.`);
    }
    return { name: spec.name, payload: accepted.payload };
  }

  /** Runs with the episode's tab; where it is a new one, the episode is played again first. */
  #with<T>(body: (session: PageSession) => Promise<T>): Promise<T> {
    if (this.#seed === undefined) throw new EnvError("There is no episode yet; call reset(seed) or load(state) first.");
    const played = async (session: PageSession, fresh: boolean) => {
      if (fresh) await this.#restore(session);
      return body(session);
    };
    return this.#use(played);
  }

  async #restore(session: PageSession): Promise<void> {
    const played = this.#played;
    await this.#start(session);
    for (const action of played) {
      if (action.name === "stop") this.#ended = true;
      else {
        await this.#judge(session, (await this.#perform(session, action)).judged);
      }
    }
  }

  async #start(session: PageSession): Promise<void> {
    const spec = this.#spec;
    const seed = this.#seed ?? 0;
    this.#frame = undefined;
    this.#clipboard = "";
    this.#score = 0;
    const html = typeof spec.html === "function" ? await spec.html(seed) : spec.html;
    const serve = this.#site ?? (html === undefined ? serveFolder(spec.files ?? "") : serveHtml(html));
    const path = typeof spec.open === "function" ? spec.open(seed) : (spec.open ?? "/");
    const { requests } = session;
    const loaded = await session.open({
      url: spec.url ?? new URL(path, ORIGIN).href,
      seed,
      view: this.#view,
      window: spec.window ?? { width: this.#view.x + this.#view.width, height: this.#view.y + this.#view.height },
      theme: typeof spec.theme === "function" ? spec.theme(seed) : (spec.theme ?? "light"),
      serve,
      inPlace: this.#document,
      timeoutMs: spec.timeoutMs ?? DEFAULT_TIMEOUT_MS,
    });
    const view = viewOf(session);
    if (spec.reset !== undefined) await spec.reset(view, seed);
    else if (spec.url === undefined)
      await session.evaluate(`globalThis.world?.start?.(${seed}, ${JSON.stringify(this.#settings.options)})`);
    let judged = await session.advance(SETTLE_MS, this.#asked);
    // A page that goes on has all that it shows, unless it asked for more.
    if (loaded || session.requests > requests) {
      await session.painted();
      judged = await session.evaluate(this.#asked);
    }
    this.#goal = await this.#goalOf(session, judged);
    await this.#judge(session, judged);
    this.#ended = false;
  }

  async #goalOf(session: PageSession, own: Json): Promise<string> {
    const { task } = this.#spec;
    if (typeof task === "string") return task;
    return task === undefined ? String((own as Judged)[3]) : task(viewOf(session));
  }

  /** `own`: what the page says of itself (`JUDGED`). */
  async #judge(session: PageSession, own: Json): Promise<void> {
    const { reward, success, ended } = this.#spec;
    const view = viewOf(session);
    if (reward === undefined && success === undefined && ended === undefined) {
      [this.#score, this.#success, this.#ended] = own as Judged;
    } else {
      this.#success = (await success?.(view)) ?? false;
      this.#score = (await reward?.(view)) ?? Number(this.#success);
      this.#ended = (await ended?.(view)) ?? this.#success;
    }
    if (!Number.isFinite(this.#score))
      throw new EnvError(`The page's score must be a number; got ${JSON.stringify(this.#score)}.`);
  }

  /** Does it and lets the page react. */
  async #perform(session: PageSession, { name, payload }: Action): Promise<{ mark?: Mark; judged: Json }> {
    this.#frame = undefined;
    const [first, second, third, fourth] = (Array.isArray(payload) ? payload : []).map(Number) as number[];
    const at = this.#grid.pixel(first ?? 0, second ?? 0);
    let mark: Mark = { action: name };
    switch (name) {
      case "click":
      case "double_click":
        mark = await this.#press(session, name, at);
        break;
      case "click_mark": {
        const chosen = (await this.#elements(session)).filter(({ acts }) => acts)[Number(payload) - 1];
        if (chosen !== undefined) mark = await this.#press(session, "click", middle(chosen.box));
        break;
      }
      case "drag":
        mark = await this.#drag(session, at, this.#grid.pixel(third ?? 0, fourth ?? 0));
        break;
      case "scroll": {
        const direction = DIRECTIONS[third ?? 1] ?? "down";
        const [dx, dy] = { up: [0, -1], down: [0, 1], left: [-1, 0], right: [1, 0] }[direction] as [number, number];
        const by = `${(dx * this.#view.width) / 2}, ${(dy * this.#view.height) / 2}`;
        const { x, y } = this.#inWindow(at);
        await session.evaluate(`__saccade.scroll(${x}, ${y}, ${by})`);
        mark = { ...this.#place(at), action: "scroll", text: direction };
        break;
      }
      case "type":
        await typeText(session, String(payload));
        mark = { action: "type", text: String(payload) };
        break;
      case "key": {
        const key = KEYS[Number(payload)] as KeyName;
        if (key === "copy") this.#clipboard = String(await session.evaluate("__saccade.text()"));
        await pressKey(session, key, this.#clipboard);
        mark = { action: "key", text: key };
        break;
      }
      case "wait":
        await session.advance(WAIT_MS);
        break;
    }
    return { mark, judged: await session.advance(SETTLE_MS, this.#asked) };
  }

  async #press(session: PageSession, action: "click" | "double_click", at: Point): Promise<Mark> {
    const there = this.#inWindow(at);
    // What is hit is asked before the page can react.
    const seen = await session.evaluate(`__saccade.hit(${there.x}, ${there.y})`);
    const left = { button: "left", buttons: 1 };
    const clicks = action === "click" ? [1] : [1, 2];
    // Sent together: a move alone would wait for the next frame.
    await Promise.all([
      session.pointer("mouseMoved", there),
      ...clicks.flatMap((clickCount) => [
        session.pointer("mousePressed", there, { ...left, clickCount }),
        session.pointer("mouseReleased", there, { button: "left", clickCount }),
      ]),
    ]);
    return { action, ...this.#place(at), ...this.#hitOf(seen) };
  }

  async #drag(session: PageSession, from: Point, to: Point): Promise<Mark> {
    const [start, end] = [this.#inWindow(from), this.#inWindow(to)];
    const hit = await session.evaluate(`__saccade.hit(${start.x}, ${start.y})`);
    const held = { button: "left", buttons: 1 };
    await session.pointer("mouseMoved", start);
    await session.pointer("mousePressed", start, { ...held, clickCount: 1 });
    for (const part of [0.25, 0.5, 0.75, 1]) {
      const x = Math.round(start.x + (end.x - start.x) * part);
      const y = Math.round(start.y + (end.y - start.y) * part);
      await session.pointer("mouseMoved", { x, y }, held);
    }
    await session.pointer("mouseReleased", end, { button: "left", clickCount: 1 });
    const { width, height } = this.#view;
    return { action: "drag", ...this.#place(from), to: [to.x / width, to.y / height], ...this.#hitOf(hit) };
  }

  #inWindow({ x, y }: Point): Point {
    return { x: x + this.#view.x, y: y + this.#view.y };
  }

  #inView(box: Box): Box {
    return { ...box, x: box.x - this.#view.x, y: box.y - this.#view.y };
  }

  #place({ x, y }: { x: number; y: number }): { x: number; y: number } {
    return { x: (x + 0.5) / this.#view.width, y: (y + 0.5) / this.#view.height };
  }

  #hitOf(seen: Json): Pick<Mark, "element" | "box"> {
    if (!isJsonObject(seen)) return {};
    const { element, name, box: there } = seen as { element: string; name: string; box: Box };
    const box = this.#inView(there);
    const { width, height } = this.#view;
    return {
      element: name === "" ? element : `${element} "${name}"`,
      box: [box.x / width, box.y / height, box.width / width, box.height / height],
    };
  }

  async #moves(session: PageSession): Promise<readonly Move[]> {
    if (this.#spec.solve !== undefined) return this.#spec.solve(viewOf(session));
    return (await session.evaluate(withBoxes("globalThis.world?.plan?.() ?? []"))) as unknown as Move[];
  }

  /** A page that draws what it shows, or makes it of elements without a role, says itself what can be clicked. */
  async #sights(session: PageSession): Promise<readonly Sight[]> {
    const own = (await session.evaluate(withBoxes("globalThis.world?.sights?.() ?? null"))) as unknown as
      | Sight[]
      | null;
    if (own !== null) return own.map(({ name, box }) => ({ name, box: this.#inView(box) }));
    return (await this.#elements(session)).filter(({ acts, name }) => acts && name !== "");
  }

  /** A place below or above what is seen is scrolled to first; what follows waits for the next look. */
  #within(move: Move): Move[] {
    const box = "click" in move ? move.click : "double_click" in move ? move.double_click : undefined;
    if (box === undefined) return [move];
    const y = box.y + box.height / 2;
    if (y < 0) return [{ scroll: "up" }];
    return y >= this.#view.height ? [{ scroll: "down" }] : [move];
  }

  async #elements(session: PageSession): Promise<Element[]> {
    const all = (await session.evaluate("__saccade.tree()")) as unknown as Element[];
    return all.map((element) => ({ ...element, box: this.#inView(element.box) })).filter(({ box }) => this.#shows(box));
  }

  #shows({ x, y, width, height }: Box): boolean {
    return x + width > 0 && y + height > 0 && x < this.#view.width && y < this.#view.height;
  }

  #text(elements: readonly Element[]): string {
    let number = 0;
    const lines = elements.map(({ depth, role, name, acts, box, states, value }) => {
      const [x, y] = this.#grid.aim(box);
      const mark = acts && this.#settings.marks ? `[${++number}] ` : "";
      const said = [
        role,
        name === "" ? "" : JSON.stringify(name),
        value === undefined ? "" : `= ${JSON.stringify(value)}`,
      ];
      const where = acts ? `at ${x} ${y}` : "";
      return `${"  ".repeat(depth)}${mark}${[...said, ...states.map((state) => `(${state})`), where].filter((word) => word !== "").join(" ")}`;
    });
    return lines.length === 0 ? "The page is empty." : lines.join("\n");
  }

  #marked(frame: Image, elements: readonly Element[]): Image {
    const canvas = new Canvas(frame.width, frame.height, null, new Uint8Array(frame.data));
    elements
      .filter(({ acts }) => acts)
      .forEach(({ box }, index) => {
        const [r, g, b] = MARK_COLORS[index % MARK_COLORS.length] as readonly [number, number, number];
        canvas.strokeRect(Math.round(box.x), Math.round(box.y), Math.round(box.width), Math.round(box.height), [
          r,
          g,
          b,
        ]);
        const label = String(index + 1);
        canvas.fillRect(Math.round(box.x), Math.round(box.y), 3 + 6 * label.length, 10, [r, g, b]);
        canvas.text(label, Math.round(box.x) + 2, Math.round(box.y) + 1, { size: 8, color: [255, 255, 255] });
      });
    return canvas.toImage();
  }
}

const MARK_ACTION: ActionSpec = {
  name: "click_mark",
  description: "click the element with a number",
  arg: { type: "int", name: "number", min: 1, max: 200 },
  example: 1,
  weight: 8,
};

type Point = { readonly x: number; readonly y: number };
type Sight = { readonly name: string; readonly box: Box };

/** An expression of the page whose elements come back as their boxes. */
const withBoxes = (expression: string) =>
  "(() => { const box = (v) => v instanceof Element ? __saccade.box(v) : Array.isArray(v) ? v.map(box) : v && typeof v === 'object' ? Object.fromEntries(Object.entries(v).map(([k, x]) => [k, box(x)])) : v;" +
  ` return box(${expression}); })()`;

/** A move with its places as `place` gives them. */
function moved(move: Move, place: (box: Box) => Box): Move {
  if ("click" in move) return { click: place(move.click) };
  if ("double_click" in move) return { double_click: place(move.double_click) };
  if ("drag" in move) return { drag: [place(move.drag[0]), place(move.drag[1])] };
  if ("scroll" in move && move.at !== undefined) return { ...move, at: place(move.at) };
  return move;
}

const middle = ({ x, y, width, height }: Box) => ({ x: Math.round(x + width / 2), y: Math.round(y + height / 2) });

function viewOf(session: PageSession): PageView {
  return {
    evaluate: async <R>(script: string | ((...args: never[]) => R), ...args: Json[]) => {
      const expression = typeof script === "string" ? script : `(${script})(...${JSON.stringify(args)})`;
      return (await session.evaluate(expression)) as R;
    },
    advance: async (ms) => void (await session.advance(ms)),
  };
}
