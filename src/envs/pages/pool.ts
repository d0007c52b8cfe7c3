/**
 * The browsers of this process: one Chromium for each set of hosts that worlds may reach, started when a page is first needed and
 * stopped when no world holds one. A world owns a tab as long as nobody else needs it: where all tabs are taken, the one that was idle
 * longest changes hands, and its owner, whose episode is a seed and a list of actions, plays it again in another. So any number of
 * worlds can share a few tabs; they are fast as long as no more of them play at once than there are tabs.
 */
import { readFileSync } from "node:fs";
import type { Browser } from "playwright-core";
import { ConfigError, EnvError, errorMessage } from "../../core/errors.ts";
import { launchBrowser, type Network } from "./find-browser.ts";
import { PageSession } from "./session.ts";

/** Tabs at once. Each is a process of 30 to 80 MB. */
const MAX_TABS = 32;
/** A tab is replaced after this many episodes, so that what a browser keeps of a tab can't pile up. */
const MAX_EPISODES = 1000;
/** What the scripts of one page may take, and what its process may. */
const HEAP_MB = 256;
const PROCESS_MB = 1024;
const WATCH_MS = 2_000;
/** How long a browser without tabs in use is kept. */
const IDLE_MS = 300;

const pools = new Map<string, BrowserPool>();

/** The pool of this process for worlds that may reach these hosts. */
export function browserPool(network: Network): BrowserPool {
  const key = JSON.stringify(network);
  const pool = pools.get(key) ?? new BrowserPool(network);
  pools.set(key, pool);
  return pool;
}

export class BrowserPool {
  readonly #network: Network;
  readonly #maxTabs = tabLimit();
  readonly #sessions = new Set<PageSession>();
  readonly #owners = new Map<object, PageSession>();
  readonly #waiting: (() => void)[] = [];
  #browser: Promise<Browser> | undefined;
  #making = 0;
  #users = 0;
  #clock = 0;
  #idle: NodeJS.Timeout | undefined;
  #watch: NodeJS.Timeout | undefined;

  constructor(network: Network) {
    this.#network = network;
  }

  /** Tabs that are open now. */
  get tabs(): number {
    return this.#sessions.size;
  }

  /** Runs `body` with the owner's tab; `fresh`: it is another one than before. One in which `document` is open is taken first. */
  async use<T>(
    owner: object,
    body: (session: PageSession, fresh: boolean) => Promise<T>,
    document?: string,
  ): Promise<T> {
    clearTimeout(this.#idle);
    this.#users += 1;
    let session: PageSession | undefined;
    try {
      const taken = await this.#take(owner, document);
      session = taken.session;
      return await body(session, taken.fresh);
    } finally {
      this.#users -= 1;
      if (session !== undefined) this.#rest(session);
      this.#endSoon();
    }
  }

  #rest(session: PageSession): void {
    session.busy = false;
    session.usedAt = ++this.#clock;
    if (session.dead !== undefined) this.#drop(session);
    this.#waiting.shift()?.();
  }

  /** The owner needs no tab any more. */
  release(owner: object): void {
    this.#owners.delete(owner);
    this.#waiting.shift()?.();
    this.#endSoon();
  }

  /** An open browser keeps the process alive, so one that nobody needs is ended. */
  #endSoon(): void {
    clearTimeout(this.#idle);
    if (this.#isIdle) this.#idle = setTimeout(() => void (this.#isIdle && this.close()), IDLE_MS);
  }

  /** Nobody has a tab, or waits for one. */
  get #isIdle(): boolean {
    return this.#owners.size === 0 && this.#users === 0;
  }

  /** Ends the browser. Worlds that still play get another, and play again what they had. */
  async close(): Promise<void> {
    clearTimeout(this.#idle);
    clearInterval(this.#watch);
    const browser = this.#browser;
    this.#browser = undefined;
    this.#owners.clear();
    for (const session of this.#sessions) session.fail("the browser was closed");
    this.#sessions.clear();
    await (await browser?.catch(() => undefined))?.close().catch(() => undefined);
  }

  /** The operating system's number of the browser's process, for tests that end it. */
  async processIds(): Promise<number[]> {
    const browser = await this.#browser;
    if (browser === undefined) return [];
    const cdp = await browser.newBrowserCDPSession();
    const { processInfo } = await cdp.send("SystemInfo.getProcessInfo");
    await cdp.detach();
    return processInfo.filter(({ type }) => type === "browser").map(({ id }) => id);
  }

  async #take(owner: object, document: string | undefined): Promise<{ session: PageSession; fresh: boolean }> {
    for (;;) {
      const own = this.#owners.get(owner);
      if (own !== undefined && own.dead === undefined && own.episodes < MAX_EPISODES) return hold(own, false);
      if (own !== undefined) this.#drop(own);
      const owned = new Set(this.#owners.values());
      const unused = [...this.#sessions].filter((one) => !owned.has(one) && !one.busy && one.dead === undefined);
      const free = unused.find((one) => document !== undefined && one.document === document) ?? unused[0];
      if (free !== undefined) return this.#give(free, owner);
      if (this.#sessions.size + this.#making < this.#maxTabs) return this.#give(await this.#make(), owner);
      const idle = [...this.#sessions].filter((one) => !one.busy).sort((a, b) => a.usedAt - b.usedAt)[0];
      if (idle !== undefined) {
        for (const [other, session] of this.#owners) if (session === idle) this.#owners.delete(other);
        return this.#give(idle, owner);
      }
      await new Promise<void>((go) => this.#waiting.push(go));
    }
  }

  #give(session: PageSession, owner: object): { session: PageSession; fresh: boolean } {
    this.#owners.set(owner, session);
    return hold(session, true);
  }

  async #make(): Promise<PageSession> {
    this.#making += 1;
    try {
      this.#browser ??= this.#launch();
      const browser = await this.#browser;
      const session = await PageSession.make(browser).catch((error: unknown) => {
        throw new EnvError(`The browser can't open a page: ${errorMessage(error).split("\n")[0]}`);
      });
      session.busy = true;
      this.#sessions.add(session);
      return session;
    } finally {
      this.#making -= 1;
    }
  }

  async #launch(): Promise<Browser> {
    try {
      const browser = await launchBrowser(this.#network, HEAP_MB);
      browser.on("disconnected", () => this.#lost(browser));
      clearInterval(this.#watch);
      this.#watch = setInterval(() => void this.#checkMemory(browser).catch(() => undefined), WATCH_MS);
      this.#watch.unref();
      return browser;
    } catch (error) {
      this.#browser = undefined;
      throw error;
    }
  }

  /** Its episodes are lost; the next one starts another browser. */
  #lost(browser: Browser): void {
    for (const session of this.#sessions) {
      if (session.context.browser() !== browser) continue;
      session.fail("the browser ended");
      this.#drop(session);
    }
    void this.#browser?.then((now) => {
      if (now === browser) this.#browser = undefined;
    });
  }

  #drop(session: PageSession): void {
    for (const [owner, own] of this.#owners) if (own === session) this.#owners.delete(owner);
    if (!this.#sessions.delete(session)) return;
    const browser = session.context.browser();
    void session.close().then((closed) => {
      if (!closed) void browser?.close().catch(() => undefined);
    });
  }

  /** Ends the process of a page that takes too much memory; its episode fails, and no other. */
  async #checkMemory(browser: Browser): Promise<void> {
    if (process.platform !== "linux" || !browser.isConnected()) return;
    const cdp = await browser.newBrowserCDPSession();
    const { processInfo } = await cdp.send("SystemInfo.getProcessInfo");
    await cdp.detach();
    for (const { type, id } of processInfo) {
      if (type !== "renderer") continue;
      const pages = Number(readFileSync(`/proc/${id}/statm`, "utf8").split(" ")[1]);
      if (pages * 4096 > PROCESS_MB * 1024 * 1024) process.kill(id, "SIGKILL");
    }
  }
}

function hold(session: PageSession, fresh: boolean): { session: PageSession; fresh: boolean } {
  session.busy = true;
  return { session, fresh };
}

function tabLimit(): number {
  const given = process.env.SACCADE_BROWSER_TABS;
  if (given === undefined || given === "") return MAX_TABS;
  const tabs = Number(given);
  if (Number.isInteger(tabs) && tabs >= 1) return tabs;
  throw new ConfigError(`SACCADE_BROWSER_TABS is the number of pages open at once, at least 1; got "${given}".`);
}
