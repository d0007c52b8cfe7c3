/**
 * The built front end. Its files are listed once at start and served from that list, so no path of a request ever touches the disk.
 * The build puts them into `dist/web`, which the package holds too.
 */
import { existsSync } from "node:fs";
import { readdir, readFile } from "node:fs/promises";
import { extname, join, relative, sep } from "node:path";
import { ConfigError } from "../core/errors.ts";

export type WebFile = { readonly path: string; readonly type: string; readonly immutable: boolean };

const TYPES: Readonly<Record<string, string>> = {
  ".html": "text/html; charset=utf-8",
  ".js": "text/javascript; charset=utf-8",
  ".css": "text/css; charset=utf-8",
  ".svg": "image/svg+xml",
  ".png": "image/png",
  ".ico": "image/x-icon",
  ".woff2": "font/woff2",
  ".json": "application/json",
  ".webmanifest": "application/manifest+json",
};

/** Undefined when it was not built. */
export function findWebFolder(): string | undefined {
  const here = import.meta.dirname;
  // In the package beside this file; from sources, where the build puts it.
  const places = [join(here, "web"), join(here, "../../dist/web")];
  return places.find((place) => existsSync(join(place, "index.html")));
}

/** By URL path; `/` is the page. */
export async function listWebFiles(folder: string | undefined): Promise<Map<string, WebFile>> {
  const files = new Map<string, WebFile>();
  if (folder === undefined) return files;
  for (const entry of await readdir(folder, { recursive: true, withFileTypes: true })) {
    if (!entry.isFile()) continue;
    const path = join(entry.parentPath, entry.name);
    const type = TYPES[extname(entry.name)];
    if (type === undefined) continue;
    const url = `/${relative(folder, path).split(sep).join("/")}`;
    // Vite puts a hash of the content into the names of assets.
    files.set(url === "/index.html" ? "/" : url, { path, type, immutable: url.startsWith("/assets/") });
  }
  return files;
}

export const NOT_BUILT =
  "<!doctype html><meta charset=utf-8><title>Saccade</title><p>The viewer's page was not built. Run <code>npm run build</code>.";

/** The page's parts, for one file that needs no other: its HTML without references, its one script, its styles. */
export async function readPage(folder: string | undefined): Promise<{ html: string; script: string; styles: string }> {
  if (folder === undefined) {
    throw new ConfigError("The viewer's page was not built, so nothing can be exported. Run npm run build.");
  }
  let html = await readFile(join(folder, "index.html"), "utf8");
  const read = (url: string | undefined) => readFile(join(folder, (url ?? "").replace(/^\.?\//, "")), "utf8");
  const scripts = [...html.matchAll(/<script[^>]*\bsrc="([^"]+)"[^>]*>\s*<\/script>/g)];
  const links = [...html.matchAll(/<link[^>]*\brel="?(\w+)[^>]*>/g)];
  if (scripts.length !== 1) {
    throw new ConfigError(`The built page has ${scripts.length} scripts; it must have one to be exported.`);
  }
  const styles = links.filter(([, kind]) => kind === "stylesheet").map(([tag]) => /\bhref="([^"]+)"/.exec(tag)?.[1]);
  // A picture that is part of the link itself may stay.
  for (const [tag] of [...scripts, ...links.filter(([tag]) => !tag.includes('href="data:'))])
    html = html.replace(tag, "");
  return { html, script: await read(scripts[0]?.[1]), styles: (await Promise.all(styles.map(read))).join("\n") };
}
