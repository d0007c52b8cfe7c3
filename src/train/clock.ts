import { grouped } from "./measure.ts";

/** Where a step's time went. */
export class Clock {
  readonly #start = Date.now();
  readonly #began = performance.now();
  readonly #parts: { name: string; from: number; ms: number }[] = [];
  #last = this.#began;

  mark(name: string): void {
    const now = performance.now();
    this.#parts.push({ name, from: this.#last - this.#began, ms: now - this.#last });
    this.#last = now;
  }

  total(): number {
    return (performance.now() - this.#began) / 1000;
  }

  times(): Record<string, number> {
    const times: Record<string, number> = { "time/step": this.total() };
    for (const [name, parts] of grouped(this.#parts, (part) => part.name))
      times[name] = parts.reduce((sum, { ms }) => sum + ms / 1000, 0);
    return times;
  }

  spans() {
    return this.#parts.map(({ name, from, ms }) => ({
      lane: name.replace("time/", ""),
      start: this.#start + from,
      ms,
    }));
  }
}
