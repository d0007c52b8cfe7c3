/** Where the time of a run goes: the parts of a step, and when anything was encoded, sampled or stepped. */

import { grouped } from "../core/numbers.ts";
import type { Trajectory } from "../rollout/trajectory.ts";
import type { TimeSpan } from "../run/events.ts";

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
    const step = this.total();
    const times: Record<string, number> = { "time/step": step };
    for (const [name, parts] of grouped(this.#parts, (part) => part.name))
      times[name] = parts.reduce((sum, { ms }) => sum + ms / 1000, 0);
    times["time/other"] = step - this.#parts.reduce((sum, { ms }) => sum + ms / 1000, 0);
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

/** Most spans of a lane that a step logs. */
const MAX_SPANS = 64;

/**
 * From many episodes at once to lanes that don't overlap: a lane is on while any episode was at it. In asynchronous runs the rollouts of
 * later steps overlap this one's; an instant belongs to the step that is logged first.
 */
export class Lanes {
  readonly #until = new Map<string, number>();

  /** The spans, and for how many seconds each lane was on. */
  see(trajectories: readonly Trajectory[]): { readonly spans: TimeSpan[]; readonly times: Record<string, number> } {
    const times: Record<string, number> = {};
    const turns = trajectories.flatMap((trajectory) => trajectory.turns);
    const lane = (name: string, at: (turn: (typeof turns)[number]) => readonly [start: number, ms: number]) => {
      const free = this.#until.get(name) ?? 0;
      const intervals = turns.map(at).flatMap(([start, ms]) => {
        const [from, to] = [Math.max(start, free), start + ms];
        return ms > 0 && to > from ? [{ from, to }] : [];
      });
      const exact = mergeIntervals(intervals, Number.POSITIVE_INFINITY);
      times[`time/${name}`] = exact.reduce((sum, { from, to }) => sum + (to - from) / 1000, 0);
      const merged = mergeIntervals(exact, MAX_SPANS);
      this.#until.set(name, Math.max(free, ...merged.map(({ to }) => to)));
      return merged.map(({ from, to }) => ({ lane: name, start: from, ms: to - from }));
    };
    const spans = [
      ...lane("encode", ({ startedAt, encodeMs }) => [startedAt, encodeMs]),
      ...lane("sample", ({ startedAt, encodeMs, sampleMs }) => [startedAt + encodeMs, sampleMs - encodeMs]),
      ...lane("env", ({ startedAt, sampleMs, envMs }) => [startedAt + sampleMs, envMs]),
    ];
    return { spans, times };
  }
}

type Interval = { readonly from: number; readonly to: number };

/** The union, with the smallest gaps closed until at most `most` intervals are left. */
export function mergeIntervals(intervals: readonly Interval[], most: number): Interval[] {
  const union: { from: number; to: number }[] = [];
  for (const { from, to } of [...intervals].sort((a, b) => a.from - b.from)) {
    const last = union.at(-1);
    if (last !== undefined && from <= last.to) last.to = Math.max(last.to, to);
    else union.push({ from, to });
  }
  if (union.length <= most) return union;
  const gapBefore = (i: number) => (union[i]?.from as number) - (union[i - 1]?.to as number);
  const kept = new Set(
    union
      .map((_, i) => i)
      .slice(1)
      .sort((a, b) => gapBefore(b) - gapBefore(a))
      .slice(0, most - 1),
  );
  const merged: { from: number; to: number }[] = [];
  for (const [i, { from, to }] of union.entries()) {
    if (i === 0 || kept.has(i)) merged.push({ from, to });
    else (merged.at(-1) as { to: number }).to = to;
  }
  return merged;
}
