/**
 * Follows a run while somebody looks: what is logged goes out as server-sent events. The file system says when something was written;
 * because not every file system does, the run is looked at every second besides. Each message's id is a byte of `events.jsonl`, so a
 * browser that lost the connection goes on where it was.
 */
import { type FSWatcher, watch } from "node:fs";
import { EventStream } from "../http/event-stream.ts";
import type { PlacedEvent } from "../run/events.ts";
import type { LiveMessage, NewestMetrics } from "./api.ts";
import { logLine, type RunView, statusOf } from "./run-view.ts";

const POLL_MS = 1000;
const SETTLE_MS = 50;

type Follower = { readonly stream: EventStream; position: number };

export class LiveFeed {
  readonly view: RunView;
  readonly #followers = new Set<Follower>();
  #watcher: FSWatcher | undefined;
  #timer: NodeJS.Timeout | undefined;
  #looking = false;
  #again = false;
  #status = "";

  constructor(view: RunView) {
    this.view = view;
  }

  get followers(): number {
    return this.#followers.size;
  }

  /** `from`: a byte of `events.jsonl`; what was logged there and later is sent. Undefined: only what comes. */
  async follow(from: number | undefined): Promise<Response> {
    await this.view.refreshEvents();
    this.#status ||= await statusOf(this.view.path);
    const stream = new EventStream({
      onClose: () => {
        this.#followers.delete(follower);
        if (this.#followers.size === 0) this.#rest();
      },
    });
    const follower: Follower = { stream, position: from ?? this.view.position };
    this.#followers.add(follower);
    this.#sendEvents(follower);
    if (this.#watcher === undefined && this.#timer === undefined) this.#start();
    return stream.response;
  }

  close(): void {
    for (const { stream } of [...this.#followers]) stream.close();
  }

  #start(): void {
    try {
      this.#watcher = watch(this.view.path, () => this.#lookIn(SETTLE_MS)).on("error", () => {});
    } catch {
      // No notice from this file system; looking every second is enough.
    }
    this.#lookIn(POLL_MS);
  }

  #rest(): void {
    this.#watcher?.close();
    this.#watcher = undefined;
    clearTimeout(this.#timer);
    this.#timer = undefined;
  }

  #lookIn(ms: number): void {
    if (this.#looking) {
      this.#again = true;
      return;
    }
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => void this.#look(), ms);
    this.#timer.unref();
  }

  async #look(): Promise<void> {
    this.#looking = true;
    this.#again = false;
    try {
      await this.view.refreshEvents();
      for (const follower of this.#followers) this.#sendEvents(follower);
      const steps = await this.view.index.refresh();
      if (steps.length > 0) this.#broadcast({ type: "trajectories", total: this.view.index.size, steps });
      const status = await statusOf(this.view.path);
      if (status !== this.#status) {
        this.#status = status;
        this.#broadcast({ type: "status", status, step: this.view.events.at(-1)?.event.step ?? 0 });
      }
    } catch {
      // A file that is being replaced; it is looked at again in a second.
    } finally {
      this.#looking = false;
    }
    if (this.#followers.size > 0) this.#lookIn(this.#again ? SETTLE_MS : POLL_MS);
  }

  #sendEvents(follower: Follower): void {
    // A file that got shorter is another run: all of it is new.
    if (this.view.position < follower.position) follower.position = 0;
    for (const placed of this.view.events) {
      if (placed.start < follower.position) continue;
      this.#send(follower, liveEvent(placed), placed.end);
      follower.position = placed.end;
    }
  }

  #broadcast(message: LiveMessage): void {
    for (const follower of this.#followers) this.#send(follower, message);
  }

  #send({ stream }: Follower, message: LiveMessage, id?: number): void {
    stream.send({ data: JSON.stringify(message), ...(id !== undefined && { id }) });
  }
}

function liveEvent({ event, end }: PlacedEvent): LiveMessage {
  return { type: "event", event: { ...logLine(event), metrics: event.metrics as NewestMetrics }, position: end };
}
