/**
 * How far a run is and how long the rest takes. Updates of a warm start and steps differ in length many times over, so a run is measured in time: by the pace of
 * the latest updates and steps, of this process or as they are logged; before there is one, an episode of a step is taken to cost as much as one of the warm start.
 */
import type { RunEvent } from "../run/index.ts";

export type Plan = {
  /** Updates of the warm start, and the episodes that each learns. */
  readonly warm: number;
  readonly warmEpisodes: number;
  /** Steps of reinforcement learning, and the episodes that each plays. */
  readonly steps: number;
  readonly stepEpisodes: number;
};

/** Updates or steps whose times tell how long the next ones take. */
const RECENT = 10;

/** One kind of work, piece by piece. */
class Stretch {
  done = 0;
  /** When the latest pieces of this process ended, on `performance`'s clock. */
  readonly #ends: number[] = [];
  readonly #logged: number[] = [];

  see(done: number, seconds: number | undefined, at: number | undefined): void {
    this.done = done;
    if (at !== undefined) keep(this.#ends, at, RECENT + 1);
    if (seconds !== undefined) keep(this.#logged, seconds * 1000, RECENT);
  }

  /** Milliseconds a piece; with everything that lies between pieces, where that was seen. */
  get pace(): number | undefined {
    const [first, last] = [this.#ends[0], this.#ends.at(-1)];
    if (first !== undefined && last !== undefined && this.#ends.length > 2)
      return (last - first) / (this.#ends.length - 1);
    const { length } = this.#logged;
    return length === 0 ? undefined : this.#logged.reduce((sum, ms) => sum + ms, 0) / length;
  }
}

export class Pace {
  readonly #plan: Plan;
  readonly #warm = new Stretch();
  readonly #steps = new Stretch();

  constructor(plan: Plan) {
    this.#plan = plan;
  }

  /** `at`: when it happened, for events of this process. */
  see({ kind, step, metrics }: RunEvent, at?: number): void {
    const { warm } = this.#plan;
    if (kind === "sft") this.#warm.see(step, metrics["time/step"], at);
    if (kind === "train") {
      this.#warm.done = warm;
      this.#steps.see(step - warm, metrics["time/step"], at);
    }
  }

  get warm(): number {
    return this.#warm.done;
  }

  get step(): number {
    return this.#steps.done;
  }

  /** Of the run's time; 1 for a run without anything to do. */
  get share(): number {
    const { warm, steps, warmEpisodes, stepEpisodes } = this.#plan;
    const update = this.#update ?? warmEpisodes;
    const step = this.#step ?? stepEpisodes;
    const all = warm * update + steps * step;
    return all === 0 ? 1 : (this.warm * update + this.step * step) / all;
  }

  /** Milliseconds until the end; undefined before the first update or step. */
  get leftMs(): number | undefined {
    const { warm, steps } = this.#plan;
    const parts = [
      [warm - this.warm, this.#update],
      [steps - this.step, this.#step],
    ] as const;
    if (this.#update === undefined && this.#step === undefined) return undefined;
    return parts.reduce((sum, [count, ms]) => sum + Math.max(0, count) * (ms ?? 0), 0);
  }

  get #update(): number | undefined {
    const { warmEpisodes, stepEpisodes } = this.#plan;
    return this.#warm.pace ?? scaled(this.#steps.pace, warmEpisodes / stepEpisodes);
  }

  get #step(): number | undefined {
    const { warmEpisodes, stepEpisodes } = this.#plan;
    return this.#steps.pace ?? scaled(this.#warm.pace, stepEpisodes / warmEpisodes);
  }
}

const scaled = (ms: number | undefined, by: number) => (ms === undefined || !Number.isFinite(by) ? undefined : ms * by);

function keep(list: number[], value: number, most: number): void {
  list.push(value);
  if (list.length > most) list.shift();
}
