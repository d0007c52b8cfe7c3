/** Something that takes a while and has no steps to count: on a terminal one line whose seconds run, elsewhere a line now and then. On stderr. */
import { drawsPanels } from "./common.ts";

const TICK_MS = 200;
const LINE_MS = 5000;

export class Waiting {
  readonly #label: string;
  readonly #started = performance.now();
  readonly #terminal = drawsPanels(process.stderr);
  readonly #timer: NodeJS.Timeout;

  constructor(label: string) {
    this.#label = label;
    this.#timer = setInterval(() => this.#tick(), this.#terminal ? TICK_MS : LINE_MS);
    // It must not keep a process alive that has nothing else to do.
    this.#timer.unref();
    if (this.#terminal) this.#tick();
  }

  /** `how`: "done", or what else came of it. */
  end(how: string): void {
    clearInterval(this.#timer);
    process.stderr.write(`${this.#start}${this.#label}: ${how} after ${this.#seconds} s\n`);
  }

  get #start(): string {
    return this.#terminal ? "\r\x1b[2K" : "";
  }

  get #seconds(): string {
    return ((performance.now() - this.#started) / 1000).toFixed(0);
  }

  #tick(): void {
    process.stderr.write(`${this.#start}${this.#label}: ${this.#seconds} s${this.#terminal ? "" : "\n"}`);
  }
}
