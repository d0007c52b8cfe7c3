/**
 * Which browser draws the pages: the one that SACCADE_BROWSER names, else Chromium or Chrome of the system, else the one that
 * `npx playwright install chromium` keeps. Playwright is an optional dependency and loaded here, when the first page is opened.
 */
import { accessSync, constants, existsSync } from "node:fs";
import { delimiter, join } from "node:path";
import type { Browser, BrowserType } from "playwright-core";
import { ConfigError, errorMessage } from "../../core/errors.ts";

const NAMES = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "microsoft-edge", "chrome"];
const PLACES = [
  "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
  "/Applications/Chromium.app/Contents/MacOS/Chromium",
  "C:\\Program Files\\Google\\Chrome\\Application\\chrome.exe",
  "C:\\Program Files (x86)\\Google\\Chrome\\Application\\chrome.exe",
  "C:\\Program Files (x86)\\Microsoft\\Edge\\Application\\msedge.exe",
];
const WAYS =
  "Install Chromium or Chrome, run npx playwright install chromium, or set SACCADE_BROWSER to the program of one.";

/** The path of a browser; undefined: the system has none. */
export function systemBrowser(env: NodeJS.ProcessEnv = process.env): string | undefined {
  const named = env.SACCADE_BROWSER;
  if (named !== undefined && named !== "") {
    if (isProgram(named)) return named;
    throw new ConfigError(`SACCADE_BROWSER is "${named}", but there is no such program. ${WAYS}`);
  }
  const onPath = (env.PATH ?? "").split(delimiter).flatMap((folder) => NAMES.map((name) => join(folder, name)));
  return [...onPath, ...PLACES].find(isProgram);
}

function isProgram(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}

async function playwright(): Promise<BrowserType> {
  try {
    return (await import("playwright-core")).chromium;
  } catch (error) {
    throw new ConfigError(
      `Browser worlds need the package playwright-core: npm install playwright-core. (${errorMessage(error).split("\n")[0]})`,
    );
  }
}

/** The hosts that a browser may reach; everything else is shut before a name is looked up. */
export type Network = { readonly hosts: readonly string[] } | "open";

const QUIET = [
  "--disable-gpu",
  // What changed is drawn whole: edges that are drawn over themselves come out one shade darker.
  "--disable-partial-raster",
  "--disable-lcd-text",
  "--font-render-hinting=none",
  "--force-color-profile=srgb",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-domain-reliability",
  "--disable-sync",
  "--no-pings",
  "--dns-prefetch-disable",
  "--force-webrtc-ip-handling-policy=disable_non_proxied_udp",
];

/** Nothing listens there, and pages may not name the machine itself either: what slips through every other net ends here. */
const DEAD_PROXY = ["--proxy-server=http://127.0.0.1:9", "--proxy-bypass-list=<-loopback>"];

function networkFlags(network: Network): string[] {
  if (network === "open") return [];
  if (network.hosts.length === 0) return ["--host-resolver-rules=MAP * ~NOTFOUND", ...DEAD_PROXY];
  return [`--host-resolver-rules=MAP * ~NOTFOUND${network.hosts.map((host) => `, EXCLUDE ${host}`).join("")}`];
}

/** A new browser. `heapMb`: what the scripts of one page may take. */
export async function launchBrowser(network: Network, heapMb: number): Promise<Browser> {
  const chromium = await playwright();
  const own = chromium.executablePath();
  const path = systemBrowser() ?? (existsSync(own) ? own : undefined);
  if (path === undefined) throw new ConfigError(`Saccade found no browser for web pages. ${WAYS}`);
  // Root has no sandbox to use; everybody else has one unless it is switched off.
  const sandbox = process.env.SACCADE_BROWSER_SANDBOX !== "off" && process.getuid?.() !== 0;
  try {
    return await chromium.launch({
      executablePath: path,
      chromiumSandbox: sandbox,
      // A signal is the program's to handle; a browser whose program is gone ends by itself.
      handleSIGINT: false,
      handleSIGTERM: false,
      handleSIGHUP: false,
      args: [...QUIET, `--js-flags=--max-old-space-size=${heapMb}`, ...networkFlags(network)],
    });
  } catch (error) {
    const hint = sandbox ? " Where the system forbids its sandbox, set SACCADE_BROWSER_SANDBOX=off." : "";
    throw new ConfigError(`The browser ${path} does not start.${hint} It says: ${errorMessage(error).slice(0, 600)}`);
  }
}
