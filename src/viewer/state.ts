/** What the server holds between requests: a few open runs, who follows them, and who plays. The ones not used for longest go first. */
import { HttpError } from "../http/errors.ts";
import { Slots } from "../http/limits.ts";
import { LiveFeed } from "./live.ts";
import { findRuns } from "./paths.ts";
import { PlayRoom } from "./play.ts";
import { RunView } from "./run-view.ts";

const MAX_OPEN = 8;
/** Films are computed, not read. */
const FILMS = { most: 2, waiting: 32 };

type Open = { readonly path: string; readonly feed: Promise<LiveFeed> };

export class ViewerState {
  readonly folder: string;
  readonly play: PlayRoom;
  readonly films = new Slots(FILMS);
  readonly #open = new Map<string, Open>();

  constructor(folder: string, envs: readonly string[]) {
    this.folder = folder;
    this.play = new PlayRoom(envs);
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
    const feed = RunView.open(id, path).then((view) => new LiveFeed(view));
    this.#open.set(id, { path, feed });
    feed.catch(() => this.#open.delete(id));
    await this.#closeUnused();
    return feed;
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
    for (const [id, { feed }] of [...this.#open].slice(0, -MAX_OPEN)) {
      const open = await feed.catch(() => undefined);
      if (open !== undefined && open.followers > 0) continue;
      this.#open.delete(id);
      await open?.view.close();
    }
  }
}
