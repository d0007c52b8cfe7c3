/** The TensorBoard tracker: event files in a folder, by default `tensorboard/` in the run. Look with `tensorboard --logdir runs`. */
import { join, resolve } from "node:path";
import type { JsonObject } from "../../core/json.ts";
import { TensorBoardFile } from "./tensorboard-file.ts";
import type { Tracked, TrackedRun, Tracker } from "./tracker.ts";

export class TensorBoardTracker implements Tracker {
  readonly label = "TensorBoard";
  readonly #folder: string | undefined;
  #file: TensorBoardFile | undefined;

  constructor(folder?: string) {
    this.#folder = folder;
  }

  async open(run: TrackedRun): Promise<JsonObject> {
    const folder = this.#folder === undefined ? join(run.path, "tensorboard") : resolve(this.#folder);
    this.#file = await TensorBoardFile.create(folder, Date.now());
    return {};
  }

  async write(items: readonly Tracked[]): Promise<void> {
    for (const item of items) {
      if (item.restart) this.#file?.restart(item.step, item.time);
      else this.#file?.add(item);
    }
    await this.#file?.flush();
  }

  async close(): Promise<void> {
    await this.#file?.flush();
  }
}
