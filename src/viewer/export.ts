/**
 * One self-contained page of a folder of runs: the built front end with the data inside, to be opened from disk without a network.
 * It holds every run's overview and curves, and as many trajectories with their frames as fit: evaluations first, then training, the
 * newest steps before the older. What does not fit is left out and said.
 */
import { createHash } from "node:crypto";
import { writeFile } from "node:fs/promises";
import { resolve } from "node:path";
import { ConfigError } from "../core/errors.ts";
import { shellWord } from "../train/reproduce.ts";
import { type Command, type Embedded, routes, type TrajectoryReply, type TrajectoryRow } from "./api.ts";
import { shown } from "./commands.ts";
import { DEFAULT_POINTS, facetsOf } from "./query.ts";
import { listRuns } from "./routes.ts";
import { framesOf, type RunView } from "./run-view.ts";
import { ViewerState } from "./state.ts";
import { timelineOf } from "./timeline.ts";
import { findWebFolder, readPage } from "./web-files.ts";

export const EXPORT_BYTES = 20 * 1024 * 1024;
/** Points of a curve, fewer where the page would grow too large; with the last the timelines go, too. */
const POINTS = [DEFAULT_POINTS, 200, 60] as const;
/** Trajectories of a run that keep their tokens, which are most of a record. */
const WITH_TOKENS = 32;
/** After so many trajectories in a row that do not fit, no other is tried. */
const MAX_MISSES = 20;

export type ExportOptions = {
  readonly folder: string;
  readonly out: string;
  /** Default 20 MiB. */
  readonly maxBytes?: number;
  readonly webFolder?: string;
};

export type ExportReport = {
  readonly bytes: number;
  readonly trajectories: number;
  readonly leftOut: readonly string[];
};

export async function exportRuns({
  folder,
  out,
  maxBytes = EXPORT_BYTES,
  webFolder,
}: ExportOptions): Promise<ExportReport> {
  const page = await readPage(webFolder ?? findWebFolder());
  const state = new ViewerState(resolve(folder), []);
  try {
    const room = maxBytes - sizeOf(page.html) - sizeOf(page.script) - sizeOf(page.styles);
    const collected = await collect(state, room);
    const html = assemble(page, collected.embedded);
    if (sizeOf(html) > maxBytes) {
      throw new ConfigError(
        `The page without any episode has ${megabytes(sizeOf(html))}, more than the ${megabytes(maxBytes)} that were asked for: allow more, or name fewer runs.`,
      );
    }
    await writeFile(out, html);
    return { bytes: sizeOf(html), trajectories: collected.trajectories, leftOut: collected.embedded.leftOut };
  } finally {
    await state.close();
  }
}

async function collect(state: ViewerState, maxBytes: number): Promise<{ embedded: Embedded; trajectories: number }> {
  const leftOut: string[] = [];
  const data: Record<string, unknown> = {};
  const frames: Record<string, string> = {};
  let spent = 4096;
  const put = (route: string, value: unknown): void => {
    data[route] = value;
    spent += entrySize(route, value);
  };
  const { runs, ...rest } = await listRuns(state);
  const views: RunView[] = [];
  for (const points of POINTS) {
    spent = 4096;
    leftOut.length = views.length = 0;
    const last = points === POINTS.at(-1);
    put(routes.runs(), { ...rest, folder: "", writable: false, runs });
    for (const { id } of runs) {
      const view = await state.run(id);
      await view.index.refresh(true);
      const overview = await view.overview();
      put(routes.overview(id), { ...overview, commands: overview.commands.map(elsewhere(view)), writable: false });
      put(routes.series(id), await view.series([], points));
      put(routes.sight(id), await view.sight());
      const timeline = await timelineOf(view);
      put(routes.timeline(id), last ? { lanes: [], steps: [] } : timeline);
      const first = timeline.steps[0]?.step;
      if (last && first !== undefined) leftOut.push(`${id}: the timeline.`);
      else if (first !== undefined && timeline.range !== undefined && first > timeline.range[0])
        leftOut.push(`${id}: the timeline of steps before ${first}.`);
      if (points < DEFAULT_POINTS) leftOut.push(`${id}: points of curves, of which ${points} each are left.`);
      views.push(view);
    }
    // Half of the page is for episodes, where that can be had.
    if (spent <= maxBytes / 2) break;
  }
  let trajectories = 0;
  for (const [i, view] of views.entries()) {
    // Runs share what is left alike; what one does not need the next ones get.
    const share = spent + (maxBytes - spent) / (views.length - i);
    const chosen = await choose(view, frames, share - spent, leftOut);
    spent += chosen.bytes;
    trajectories += chosen.replies.size;
    for (const [key, reply] of inTheFile(chosen.replies)) data[routes.trajectory(view.id, key)] = reply;
    const rows = [...view.index.rows()].filter(({ key }) => chosen.replies.has(key));
    const all = rows.length;
    data[routes.trajectories(view.id)] = { total: all, all, offset: 0, rows, facets: facetsOf(rows), missing: [] };
  }
  return { embedded: { format: 1, created: new Date().toISOString(), leftOut, data, frames }, trajectories };
}

/** Takes trajectories while there is room; adds their frames to `frames`. */
async function choose(view: RunView, frames: Record<string, string>, room: number, leftOut: string[]) {
  const replies = new Map<string, TrajectoryReply>();
  const rows = [...view.index.rows()];
  let [bytes, misses, tokens, stripped] = [0, 0, 0, 0];
  for (const row of newestFirst(rows)) {
    if (misses >= MAX_MISSES) break;
    const whole = await view.trajectory(row.key);
    if (whole === undefined) continue;
    const strip = whole.record.tokens !== undefined && tokens >= WITH_TOKENS;
    const { tokens: _, ...bare } = whole.record;
    const reply: TrajectoryReply = {
      ...whole,
      command: elsewhere(view)(whole.command),
      ...(strip && { row: { ...whole.row, hasTokens: false }, record: bare }),
    };
    const fresh = new Map<string, string>();
    for (const hash of framesOf(reply.record)) {
      if (hash in frames || whole.missingFrames.includes(hash)) continue;
      const png = await view.frameBytes(hash);
      if (png !== undefined) fresh.set(hash, `data:image/png;base64,${Buffer.from(png).toString("base64")}`);
    }
    const size =
      entrySize(routes.trajectory(view.id, row.key), reply) +
      entrySize("", row) +
      [...fresh].reduce((sum, [hash, uri]) => sum + hash.length + uri.length + 8, 0);
    if (bytes + size > room) {
      misses++;
      continue;
    }
    misses = 0;
    bytes += size;
    if (strip) stripped++;
    else if (reply.record.tokens !== undefined) tokens++;
    replies.set(row.key, reply);
    for (const [hash, uri] of fresh) frames[hash] = uri;
  }
  const left = rows.length - replies.size;
  if (left > 0) leftOut.push(`${view.id}: ${left} of ${rows.length} trajectories, the oldest first.`);
  if (stripped > 0) leftOut.push(`${view.id}: the tokens of ${stripped} trajectories.`);
  return { replies, bytes };
}

/** A command as somebody else would type it: where the run is on this machine is nobody's business. */
function elsewhere({ id, path }: RunView): (command: Command) => Command {
  const here = shellWord(shown(path));
  return (command) => ({ ...command, command: command.command.replaceAll(here, shellWord(`runs/${id}`)) });
}

function newestFirst(rows: readonly TrajectoryRow[]): TrajectoryRow[] {
  return rows.toSorted((a, b) => Number(b.split === "eval") - Number(a.split === "eval") || b.step - a.step);
}

/** Links between trajectories lead only to those that are in the file. */
function* inTheFile(replies: ReadonlyMap<string, TrajectoryReply>): Generator<[string, TrajectoryReply], void, void> {
  for (const [key, { previous, next, siblings, ...reply }] of replies) {
    const here = siblings.filter((sibling) => replies.has(sibling.key));
    const links = {
      ...(previous !== undefined && replies.has(previous) && { previous }),
      ...(next !== undefined && replies.has(next) && { next }),
    };
    yield [key, { ...reply, siblings: here, ...links }];
  }
}

/**
 * Scripts and styles are named by their hashes, so nothing else can run in the page whatever the data holds; and the data has no "<",
 * so it can't end its element.
 */
function assemble(page: { html: string; script: string; styles: string }, embedded: Embedded): string {
  const json = JSON.stringify(embedded).replaceAll("<", "\\u003c");
  const start = `globalThis.__SACCADE__=JSON.parse(document.getElementById("saccade-data").textContent)`;
  const script = page.script.replace(/<\/script/gi, "<\\/script").replaceAll("<!--", "\\x3c!--");
  const policy =
    `default-src 'none'; script-src '${hashOf(start)}' '${hashOf(script)}'; style-src '${hashOf(page.styles)}'; ` +
    "img-src data: blob:; base-uri 'none'; form-action 'none'";
  const meta = `<meta http-equiv="Content-Security-Policy" content="${policy}">`;
  const head = `${meta}<style>${page.styles}</style>`;
  const body =
    `<script type="application/json" id="saccade-data">${json}</script>` +
    `<script>${start}</script><script type="module">${script}</script>`;
  const headEnd = page.html.indexOf("</head>");
  const bodyEnd = page.html.lastIndexOf("</body>");
  return page.html.slice(0, headEnd) + head + page.html.slice(headEnd, bodyEnd) + body + page.html.slice(bodyEnd);
}

function hashOf(text: string): string {
  return `sha256-${createHash("sha256").update(text).digest("base64")}`;
}

/** Bytes of `"route":value,` as it will stand in the page. */
function entrySize(route: string, value: unknown): number {
  return sizeOf(route) + sizeOf(JSON.stringify(value).replaceAll("<", "\\u003c")) + 4;
}

const megabytes = (bytes: number) => `${(bytes / 1024 / 1024).toFixed(1)} MB`;

function sizeOf(text: string): number {
  return Buffer.byteLength(text);
}
