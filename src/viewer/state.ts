/** What the server holds between requests: a few open runs, who follows them, and who plays. The ones not used for longest go first. */
import { HttpError } from "../http/errors.ts";
import { Slots } from "../http/limits.ts";
import { LiveFeed } from "./live.ts";
import { type Hosted, ModelRoom } from "./models.ts";
import { findRuns } from "./paths.ts";
import { PlayRoom } from "./play.ts";
import { RunView } from "./run-view.ts";

/** Runs that stay open: so many, or as many more as are small. */
const [MAX_OPEN, MAX_OPEN_SMALL, SMALL_ROWS] = [8, 64, 100_000];
/** Films are computed, not read. */
const FILMS = { most: 2, waiting: 32 };

export type StateOptions = { readonly writable?: boolean; readonly hosted?: Hosted };

type Open = { readonly path: string; readonly feed: Promise<LiveFeed> };

export class ViewerState {
  readonly folder: string;
  readonly play: PlayRoom;
  readonly films = new Slots(FILMS);
  readonly #open = new Map<string, Open>();

  /** Whether this viewer may change runs. */
  readonly writable: boolean;

  constructor(folder: string, envs: readonly string[], { writable = false, hosted }: StateOptions = {}) {
    this.folder = folder;
    this.writable = writable;
    this.play = new PlayRoom(envs, new ModelRoom(() => this.runs([]), hosted));
  }

  runs(missing: string[]): Promise<Map<string, string>> {
    return findRuns(this.folder, missing);
  }

  async run(id: string): Promise<RunView> {
    return (await this.feed(id)).view;
  }

  /** The run with this id, opened when it is not. */
  async feed(id: string): Promise<LiveFeed> {
    const path = (await this.runs([])).get(id);
    const known = this.#open.get(id);
    if (path === undefined) throw new HttpError(404, `There is no run "${id}" in ${this.folder}.`);
    if (known !== undefined) {
      this.#open.delete(id);
      this.#open.set(id, known);
      return known.feed;
    }
    const feed = RunView.open(id, path, this.writable).then((view) => new LiveFeed(view));
    this.#open.set(id, { path, feed });
    feed.catch(() => this.#open.delete(id));
    await this.#closeUnused();
    return feed;
  }

  /** Closes a run that is about to be deleted. */
  async forget(id: string): Promise<void> {
    const open = await this.#open.get(id)?.feed.catch(() => undefined);
    this.#open.delete(id);
    open?.close();
    await open?.view.close();
  }

  /** Ends the streams, so that the server can close. */
  endFeeds(): void {
    for (const { feed } of this.#open.values()) feed.then((one) => one.close()).catch(() => {});
  }

  async close(): Promise<void> {
    for (const { feed } of this.#open.values()) {
      const open = await feed.catch(() => undefined);
      open?.close();
      await open?.view.close();
    }
    this.#open.clear();
    await this.play.close();
  }

  async #closeUnused(): Promise<void> {
    let rows = 0;
    for (const [place, [id, { feed }]] of [...this.#open].reverse().entries()) {
      if (place < MAX_OPEN) continue;
      const open = await feed.catch(() => undefined);
      rows += open?.view.index.size ?? 0;
      const small = place < MAX_OPEN_SMALL && rows <= SMALL_ROWS;
      if (open !== undefined && (small || open.followers > 0)) continue;
      this.#open.delete(id);
      await open?.view.close();
    }
  }
}
