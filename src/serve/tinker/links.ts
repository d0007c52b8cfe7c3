/** Addresses of exported files that need no key, for an hour: each carries one of its own. */
import { randomBytes } from "node:crypto";
import { createReadStream } from "node:fs";
import { readdir, stat } from "node:fs/promises";
import { join } from "node:path";
import { Readable } from "node:stream";
import { HttpError } from "../../http/errors.ts";
import type { HttpRequest } from "../../http/request.ts";
import { json } from "../../http/responses.ts";
import { type CheckpointRow, iso, type Journal, now } from "./journal.ts";
import { ARCHIVE_END, archiveOf } from "./tar.ts";

const LINK_SECONDS = 3600;

/** What lies in a folder itself: a link would lead out of the store. */
async function filesIn(folder: string): Promise<string[]> {
  const entries = await readdir(folder, { withFileTypes: true });
  return entries.filter((entry) => entry.isFile()).map(({ name }) => name);
}

export class Links {
  readonly #links = new Map<string, { readonly folder: string; readonly until: number }>();
  /** Where they are answered. */
  readonly #prefix: string;
  readonly #journal: Journal;

  constructor(prefix: string, journal: Journal) {
    this.#prefix = prefix;
    this.#journal = journal;
  }

  async toFiles(request: HttpRequest, row: CheckpointRow): Promise<Response> {
    const folder = this.#journal.place(row.folder);
    const { base, until } = this.#link(request, folder);
    const files = await filesIn(folder);
    return json({ urls: Object.fromEntries(files.map((file) => [file, `${base}/${file}`])), expires: iso(until) });
  }

  /** What SDKs before 0.36 download. */
  toArchive(request: HttpRequest, { folder, name }: CheckpointRow): Response {
    const { base, until } = this.#link(request, this.#journal.place(folder));
    return json({ url: `${base}/${name}${ARCHIVE_END}`, expires: iso(until) });
  }

  async follow(key: string, name: string): Promise<Response> {
    const link = this.#links.get(key);
    const files = link === undefined || link.until < now() ? [] : await filesIn(link.folder).catch(() => []);
    if (link === undefined || files.length === 0 || !(files.includes(name) || name.endsWith(ARCHIVE_END)))
      throw new HttpError(404, "There is no such file, or its address is too old.");
    const path = join(link.folder, name);
    const { size, content } = files.includes(name)
      ? { size: (await stat(path)).size, content: createReadStream(path) as AsyncIterable<Uint8Array> }
      : await archiveOf(link.folder, files);
    const headers = { "Content-Type": "application/octet-stream", "Content-Length": String(size) };
    return new Response(Readable.toWeb(Readable.from(content)) as ReadableStream, { headers });
  }

  #link(request: HttpRequest, folder: string): { base: string; until: number } {
    for (const [key, { until }] of this.#links) if (until < now()) this.#links.delete(key);
    const key = randomBytes(24).toString("base64url");
    const until = now() + LINK_SECONDS;
    this.#links.set(key, { folder, until });
    return { base: `http://${request.headers.get("host")}${this.#prefix}${key}`, until };
  }
}
