/** Static files: listed once and served from that list, so that no path of a request ever touches the disk. */
import { readdir, readFile } from "node:fs/promises";
import { extname, join, relative, sep } from "node:path";
import { HttpError } from "./errors.ts";
import type { HttpRequest } from "./request.ts";
import { bytes } from "./responses.ts";

export type StaticFile = { readonly path: string; readonly type: string; readonly immutable: boolean };

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

/** By URL path; `/` is the page. Files of other types are left out. */
export async function listFiles(folder: string): Promise<Map<string, StaticFile>> {
  const files = new Map<string, StaticFile>();
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

export async function fileResponse(files: ReadonlyMap<string, StaticFile>, request: HttpRequest): Promise<Response> {
  const file = files.get(new URL(request.url).pathname);
  if (file === undefined || (request.method !== "GET" && request.method !== "HEAD")) {
    throw new HttpError(404, "There is no such page.");
  }
  return bytes(await readFile(file.path), { type: file.type, immutable: file.immutable, revalidate: true });
}
