/** The built front end, which the build puts into `dist/web`; the package holds it too. */
import { existsSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { ConfigError } from "../core/errors.ts";

/** Undefined when it was not built. */
export function findWebFolder(): string | undefined {
  const here = import.meta.dirname;
  // In the package beside this file; from sources, where the build puts it.
  const places = [join(here, "web"), join(here, "../../dist/web")];
  return places.find((place) => existsSync(join(place, "index.html")));
}

/** The page of `/lab`, one file with all it needs; undefined when it was not built. */
export function findLab(folder = findWebFolder()): string | undefined {
  const file = folder === undefined ? undefined : join(folder, "lab.html");
  return file !== undefined && existsSync(file) ? file : undefined;
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
  // An image that is part of the link itself may stay.
  for (const [tag] of [...scripts, ...links.filter(([tag]) => !tag.includes('href="data:'))])
    html = html.replace(tag, "");
  return { html, script: await read(scripts[0]?.[1]), styles: (await Promise.all(styles.map(read))).join("\n") };
}
