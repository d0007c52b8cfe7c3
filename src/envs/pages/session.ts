/**
 * One tab of the browser, alone in its context: opening an episode in it, input, scripts and screenshots, all through DevTools. Every
 * call has a deadline; a tab that crashed, hung or was closed is dead and says why, and its owner gets another. Whatever a page asks of
 * the network goes through `serve`; downloads, windows, dialogs and service workers are refused.
 */
import type { Browser, BrowserContext, CDPSession, Page, Route } from "playwright-core";
import { EnvError, errorMessage } from "../../core/errors.ts";
import type { Image } from "../../core/image.ts";
import type { Json } from "../../core/json.ts";
import { decodePng } from "../../images/png.ts";
import type { Box, Viewport } from "./actions.ts";
import { quietScript, seedWords } from "./quiet.ts";

/** What answers a request; null: nobody does, "network": the network, where the world may use it. */
export type Served = { readonly type: string; readonly body: string | Buffer } | "network" | null;
export type Serve = (url: URL) => Promise<Served>;

export type Opening = {
  readonly url: string;
  readonly seed: number;
  /** The part of the window that is shown. */
  readonly view: Box;
  readonly window: Viewport;
  readonly theme: "light" | "dark";
  readonly serve: Serve;
  /** Names a document that starts episodes itself: where it is open already, it is not loaded again. */
  readonly inPlace: string | undefined;
  /** How long the page may take for one thing. */
  readonly timeoutMs: number;
};

const NOT_SERVED = { status: 404, contentType: "text/plain", body: "not served" };
const CLOSE_MS = 3_000;
/** Opening a page starts a process, which takes seconds on a busy machine. */
const MIN_OPEN_MS = 20_000;
/** Documents that may follow each other after one action; a page that leaves for ever is played as it is. */
const MOST_LEFT = 5;
/** DevTools' words where a document went away under a script. */
const LEFT = /context was destroyed|navigated or closed|cannot find context/i;

export class PageSession {
  readonly context: BrowserContext;
  readonly #page: Page;
  readonly #cdp: CDPSession;
  #serve: Serve | undefined;
  #script: string | undefined;
  #waiting = 0;
  #dead: string | undefined;
  #timeoutMs = 20_000;
  #look = "";
  #view: Box | undefined;
  #document: string | undefined;
  #requests = 0;
  /** The page has asked for another document, or loads it. */
  #leaving = false;
  #landed: (() => void) | undefined;
  /** Documents that the tab has shown. */
  #documents = 0;
  /** When the open document began, which tells it from every other; undefined: it was not asked yet. */
  #born: Json | undefined;
  #opening = false;
  /** Episodes that were opened here. */
  episodes = 0;
  busy = false;
  usedAt = 0;

  private constructor(context: BrowserContext, page: Page, cdp: CDPSession) {
    this.context = context;
    this.#page = page;
    this.#cdp = cdp;
    page.on("crash", () => this.fail("the page crashed, or took more memory than it may"));
    page.on("close", () => this.fail("the page was closed"));
    // A page that asks to be kept is left all the same.
    page.on("dialog", (dialog) => {
      void (dialog.type() === "beforeunload" ? dialog.accept() : dialog.dismiss()).catch(() => undefined);
    });
    page.on("download", (download) => void download.cancel().catch(() => undefined));
    page.on("filechooser", () => undefined);
    context.on("page", (other) => void (other !== page && other.close().catch(() => undefined)));
  }

  static async make(browser: Browser): Promise<PageSession> {
    const context = await browser.newContext({
      viewport: { width: 320, height: 240 },
      acceptDownloads: false,
      serviceWorkers: "block",
      locale: "en-US",
      timezoneId: "UTC",
      reducedMotion: "reduce",
      permissions: [],
    });
    const page = await context.newPage();
    const session = new PageSession(context, page, await context.newCDPSession(page));
    await context.route("**/*", (route) => session.#answer(route));
    await session.#cdp.send("Page.enable");
    await session.#watchDocuments();
    return session;
  }

  /** Why it can't be used any more. */
  get dead(): string | undefined {
    return this.#dead;
  }

  fail(why: string): void {
    this.#dead ??= why;
  }

  /** DevTools says that a document asks for another before it says what a script in it returned. */
  async #watchDocuments(): Promise<void> {
    const cdp = this.#cdp;
    const { frameTree } = await cdp.send("Page.getFrameTree");
    const top = frameTree.frame.id;
    cdp.on("Page.frameRequestedNavigation", ({ frameId, disposition }) => {
      if (frameId === top && disposition === "currentTab") this.#leaving = true;
    });
    cdp.on("Page.frameStartedNavigating", ({ frameId, navigationType }) => {
      if (frameId === top && !this.#opening && !/sameDocument/i.test(navigationType)) this.#leaving = true;
    });
    cdp.on("Page.frameNavigated", ({ frame }) => {
      if (frame.id === top) this.#documents += 1;
    });
    cdp.on("Page.frameStoppedLoading", ({ frameId }) => {
      if (frameId === top) this.#land();
    });
  }

  #land(): void {
    this.#leaving = false;
    this.#landed?.();
  }

  /** Where the page leaves: until the next document has loaded, or half its time is over. */
  async #arrived(): Promise<void> {
    this.#born = undefined;
    if (!this.#leaving) return;
    let timer: NodeJS.Timeout | undefined;
    await new Promise<void>((go) => {
      this.#landed = go;
      timer = setTimeout(go, this.#timeoutMs / 2);
    });
    clearTimeout(timer);
    this.#landed = undefined;
    this.#leaving = false;
  }

  async #answer(route: Route): Promise<void> {
    this.#waiting += 1;
    this.#requests += 1;
    try {
      const served = await this.#serve?.(new URL(route.request().url()));
      if (served === "network") await route.continue();
      else if (served != null) await route.fulfill({ status: 200, contentType: served.type, body: served.body });
      // The page that asked to leave stays where it is.
      else if (route.request().isNavigationRequest()) await route.abort("aborted");
      else if (served === null) await route.fulfill(NOT_SERVED);
      else await route.abort("blockedbyclient");
    } catch {
      await route.abort("failed").catch(() => undefined);
    } finally {
      this.#waiting -= 1;
    }
  }

  /** The document that is open and can start another episode. */
  get document(): string | undefined {
    return this.#document;
  }

  /** Starts an episode: nothing of the one before is left. True where the page was loaded, false where it starts again in place. */
  async open({ url, seed, view, window, theme, serve, inPlace, timeoutMs }: Opening): Promise<boolean> {
    this.episodes += 1;
    this.#timeoutMs = timeoutMs;
    this.#serve = serve;
    const openMs = Math.max(timeoutMs, MIN_OPEN_MS);
    return this.#within("open", openMs, async () => {
      this.#view = view;
      const look = `${window.width} ${window.height} ${theme}`;
      if (look !== this.#look) {
        await this.#page.setViewportSize(window);
        await this.#page.emulateMedia({ colorScheme: theme, reducedMotion: "reduce" });
        this.#look = look;
      }
      if (inPlace !== undefined && this.#document === inPlace && (await this.#again(url, seed))) return false;
      this.#document = undefined;
      const { origin } = new URL(url);
      const cdp = this.#cdp;
      const old = this.#script;
      const [made] = await Promise.all([
        cdp.send("Page.addScriptToEvaluateOnNewDocument", { source: startScript(this.episodes) + quietScript(seed) }),
        old === undefined ? undefined : cdp.send("Page.removeScriptToEvaluateOnNewDocument", { identifier: old }),
        ...(this.episodes === 1
          ? []
          : [
              cdp.send("Network.clearBrowserCookies"),
              cdp.send("Storage.clearDataForOrigin", { origin, storageTypes: "indexeddb,cache_storage,websql" }),
            ]),
      ]);
      this.#script = made.identifier;
      await this.#navigate(url, openMs);
      await Promise.all([
        cdp.send("Page.resetNavigationHistory").catch(() => undefined),
        this.pointer("mouseMoved", { x: -10, y: -10 }),
      ]);
      this.#document = inPlace;
      return true;
    });
  }

  /** The page's clock and random numbers begin anew; false where it is another page by now. */
  async #again(url: string, seed: number): Promise<boolean> {
    const expression = `location.href === ${JSON.stringify(url)} && __saccade.restart(${seedWords(seed).join(", ")})`;
    const [{ result }] = await Promise.all([
      this.#cdp.send("Runtime.evaluate", { expression, returnByValue: true }),
      this.pointer("mouseMoved", { x: -10, y: -10 }),
    ]);
    return result.value === true;
  }

  /** Until the page has loaded, or half its time is over: one that keeps loading is played as it is. */
  async #navigate(url: string, timeoutMs: number): Promise<void> {
    const cdp = this.#cdp;
    this.#born = undefined;
    this.#opening = true;
    let timer: NodeJS.Timeout | undefined;
    let done = () => {};
    const loaded = new Promise<void>((go) => {
      done = go;
      timer = setTimeout(go, timeoutMs / 2);
      cdp.once("Page.loadEventFired", done);
    });
    try {
      const { errorText } = await cdp.send("Page.navigate", { url });
      if (errorText !== undefined) throw new EnvError(`The page ${url} can't be opened: ${errorText}.`);
      await loaded;
    } finally {
      this.#opening = false;
      clearTimeout(timer);
      cdp.off("Page.loadEventFired", done);
    }
  }

  /** The value of an expression in the page; promises are awaited. */
  async evaluate(expression: string): Promise<Json> {
    const value = await this.#evaluated(expression, false);
    return value ?? null;
  }

  /** `mayLeave`: undefined where the page goes away before it answers. */
  async #evaluated(expression: string, mayLeave: boolean): Promise<Json | undefined> {
    const asked = { expression, returnByValue: true, awaitPromise: true, userGesture: false };
    const answer = await this.#within("run a script", this.#timeoutMs, () =>
      this.#cdp.send("Runtime.evaluate", asked).catch((error: unknown) => {
        if (mayLeave && LEFT.test(errorMessage(error))) return undefined;
        throw error;
      }),
    );
    if (answer === undefined) return undefined;
    const { result, exceptionDetails } = answer;
    if (exceptionDetails !== undefined) {
      const said = exceptionDetails.exception?.description ?? exceptionDetails.text;
      throw new EnvError(`A script of the world failed in the page: ${said.split("\n").slice(0, 3).join(" ")}`);
    }
    return (result.value ?? null) as Json;
  }

  /**
   * Lets the page's clock run, and waits for what it asks of the network. The value of `then` after that, where one is given: a message less than asking for it. Where the page leaves
   * for another, the clock of that one runs, too, and it is the one that is asked.
   */
  async advance(ms: number, then = "null"): Promise<Json> {
    let value: Json | undefined;
    for (let left = 0; left <= MOST_LEFT; left++) {
      const documents = this.#documents;
      value = await this.#run(ms, then);
      for (let round = 0; this.#waiting > 0 && !this.#leaving && round < 50; round++) {
        await this.#within("load", this.#timeoutMs, () => new Promise((done) => setTimeout(done, 20)));
        if (this.#waiting === 0 && !this.#leaving) value = await this.#run(50, then);
      }
      if (!this.#leaving && this.#documents === documents && value !== undefined) return value;
      await this.#arrived();
      await this.#evaluated("__saccade.painted()", true);
    }
    return value ?? this.evaluate(then);
  }

  /** Undefined where the page went away meanwhile: DevTools may hand a script to the next document, which has not loaded yet. */
  async #run(ms: number, then: string): Promise<Json | undefined> {
    const born = "__saccade.born";
    const work = `__saccade.advance(${ms}).then(() => [${born}, (${then})])`;
    const told = await this.#evaluated(`${this.#born ?? born} === ${born} ? ${work} : null`, true);
    if (!Array.isArray(told)) return undefined;
    const [known, value] = told as [Json, Json];
    this.#born = known;
    return value;
  }

  /** Requests that the page has made so far. */
  get requests(): number {
    return this.#requests;
  }

  /** Waits until everything that the page shows has come. */
  async painted(): Promise<void> {
    await this.evaluate("__saccade.painted()");
    await this.advance(0);
    await this.evaluate("__saccade.painted()");
  }

  pointer(type: string, at: { x: number; y: number }, more: Record<string, unknown> = {}): Promise<void> {
    return this.input("Input.dispatchMouseEvent", { type, ...at, ...more });
  }

  async input(method: "Input.dispatchMouseEvent" | "Input.dispatchKeyEvent" | "Input.insertText", params: object) {
    await this.#within("take input", this.#timeoutMs, () => this.#cdp.send(method, params as never));
  }

  async screenshot(): Promise<Image> {
    // One that is asked for while the page leaves never comes.
    if (this.#leaving) await this.#arrived();
    // The whole window: DevTools lays the page out anew for a part of it, which takes ten times as long as cutting it here.
    const { data } = await this.#within("be drawn", this.#timeoutMs, () =>
      this.#cdp.send("Page.captureScreenshot", { format: "png", optimizeForSpeed: true }),
    );
    return decodePng(Buffer.from(data, "base64"), this.#view);
  }

  /** What fails or takes too long ends the tab. */
  async #within<T>(what: string, ms: number, body: () => Promise<T>): Promise<T> {
    if (this.#dead !== undefined) throw lost(this.#dead);
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<never>((_, reject) => {
      timer = setTimeout(() => reject(new Error("late")), ms);
    });
    try {
      return await Promise.race([body(), late]);
    } catch (error) {
      const why = errorMessage(error);
      if (error instanceof EnvError) throw error;
      if (why === "late" || /Timeout/.test(why)) {
        this.fail(`it did not ${what} within ${ms / 1000} s`);
        // A script that never ends would keep a core busy until the tab is gone.
        void this.#cdp.send("Runtime.terminateExecution").catch(() => undefined);
      } else this.fail(`${why.split("\n")[0]}`);
      throw lost(this.#dead ?? why);
    } finally {
      clearTimeout(timer);
    }
  }

  /** True when the tab went; false: it hangs so badly that only its browser's end will end it. */
  async close(): Promise<boolean> {
    this.fail("it was given up");
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<boolean>((done) => {
      timer = setTimeout(() => done(false), CLOSE_MS);
    });
    const closed = this.context.close().then(
      () => true,
      () => true,
    );
    return Promise.race([closed, late]).finally(() => clearTimeout(timer));
  }
}

/** What a tab keeps from one page to the next is cleared in the first document of an episode. */
function startScript(episode: number): string {
  return `try { if (top === self && sessionStorage.getItem("saccade episode") !== "${episode}") {
    localStorage.clear(); sessionStorage.clear(); window.name = ""; sessionStorage.setItem("saccade episode", "${episode}");
  } } catch {}\n`;
}

function lost(why: string): EnvError {
  return new EnvError(`The page of this episode was lost: ${why}. The next episode gets another.`);
}
