/**
 * `/lab`, the page that learns: a document of its own. It compiles WebAssembly and starts workers from its own text, which no other page of the viewer may;
 * two headers isolate it from other origins, so that its threads may share memory. The page's own policy (in its head) also lets nothing out.
 */
import { copyFile, stat } from "node:fs/promises";
import { ConfigError } from "../core/errors.ts";
import { fileResponse, type StaticFile } from "../http/files.ts";
import type { HttpRequest } from "../http/request.ts";
import { findLab } from "./web-files.ts";

/** In place of the viewer's own. Scripts are further limited by the hash in the page's head. */
export const LAB_HEADERS: Readonly<Record<string, string>> = {
  "Content-Security-Policy":
    "default-src 'none'; script-src 'unsafe-inline' 'wasm-unsafe-eval' blob:; worker-src blob:; style-src 'unsafe-inline'; " +
    "img-src data: blob:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
  "Cross-Origin-Embedder-Policy": "require-corp",
  "Cross-Origin-Opener-Policy": "same-origin",
};

/** Under its file's name it is the same page: with the viewer's own headers it could not learn. */
export const isLab = (pathname: string) => pathname === "/lab" || pathname === "/lab.html";

export async function labResponse(files: ReadonlyMap<string, StaticFile>, request: HttpRequest): Promise<Response> {
  const page = files.get("/lab.html");
  const named = page === undefined ? [] : (["/lab", "/lab.html"] as const).map((name) => [name, page] as const);
  const response = await fileResponse(new Map(named), request);
  for (const [name, value] of Object.entries(LAB_HEADERS)) response.headers.set(name, value);
  return response;
}

/** Writes the page as a file that learns without a server, on one thread. Returns its size. */
export async function exportLab(out: string, webFolder?: string): Promise<number> {
  const page = findLab(webFolder);
  if (page === undefined) throw new ConfigError("The lab's page was not built. Run npm run build.");
  await copyFile(page, out);
  return (await stat(out)).size;
}
