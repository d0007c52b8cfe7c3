/**
 * What a world serves to its page: one document, a folder, or a site. Pages of the first two live on an origin that exists nowhere
 * else, and nothing but the world answers there; a site is reached over the network, and nothing but its host.
 */
import { readFile } from "node:fs/promises";
import { extname, resolve, sep } from "node:path";
import { ConfigError } from "../../core/errors.ts";
import type { Network } from "./find-browser.ts";
import type { Serve, Served } from "./session.ts";

export const ORIGIN = "https://page.test";

const TYPES: Readonly<Record<string, string>> = {
  ".html": "text/html; charset=utf-8",
  ".css": "text/css; charset=utf-8",
  ".js": "text/javascript; charset=utf-8",
  ".mjs": "text/javascript; charset=utf-8",
  ".json": "application/json",
  ".svg": "image/svg+xml",
  ".png": "image/png",
  ".jpg": "image/jpeg",
  ".gif": "image/gif",
  ".webp": "image/webp",
  ".woff2": "font/woff2",
  ".woff": "font/woff",
  ".ttf": "font/ttf",
};

/** Files are read once: an episode reloads its page, and most pages share theirs. */
const files = new Map<string, Promise<Served>>();
const MAX_FILES = 2000;

function fileServed(path: string): Promise<Served> {
  const known = files.get(path);
  if (known !== undefined) return known;
  const served = readFile(path).then(
    (body): Served => ({ type: TYPES[extname(path)] ?? "application/octet-stream", body }),
    () => null,
  );
  if (files.size < MAX_FILES) files.set(path, served);
  return served;
}

const icon = (url: URL): boolean => url.pathname === "/favicon.ico";

export function serveHtml(html: string): Serve {
  const page: Served = { type: "text/html; charset=utf-8", body: html };
  return async (url) => (url.origin === ORIGIN && url.pathname === "/" ? page : null);
}

/** The files below a folder, and nothing outside it. */
export function serveFolder(folder: string): Serve {
  const root = resolve(folder);
  return async (url) => {
    if (url.origin !== ORIGIN || icon(url)) return null;
    const path = resolve(root, `.${decodeURIComponent(url.pathname)}`);
    return path.startsWith(root + sep) ? fileServed(path) : null;
  };
}

const isLocal = (host: string): boolean => /^(localhost|127(\.\d+){3}|\[::1\]|[\w.-]+\.localhost)$/.test(host);

/** The site's own host alone; one that is not this machine must be allowed by name. */
export function siteNetwork(url: string, allowNetwork: boolean): { network: Network; serve: Serve } {
  if (!URL.canParse(url)) throw new ConfigError(`url must be an address such as http://localhost:3000; got "${url}".`);
  const site = new URL(url);
  if (!/^https?:$/.test(site.protocol)) {
    throw new ConfigError(
      `url must begin with http:// or https://; got "${url}". Pages in a folder are given by files.`,
    );
  }
  if (!isLocal(site.hostname) && !allowNetwork) {
    throw new ConfigError(
      `${site.hostname} is not this machine. Pages of other hosts change under an agent and are reached only with allowNetwork: true (--allow-network).`,
    );
  }
  if (allowNetwork) return { network: "open", serve: async () => "network" };
  return {
    network: { hosts: [site.hostname] },
    serve: async (asked) => (asked.hostname === site.hostname ? "network" : null),
  };
}
