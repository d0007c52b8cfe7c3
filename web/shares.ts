/**
 * What share of a step's time each lane took. Lanes work side by side, and a lane may do many things at once; so every moment is divided alike
 * among the lanes that work in it, and what no lane claims is named. The shares add up to the whole.
 */
import type { TimelineStep } from "../src/viewer/api.ts";

export type LaneShare = {
  readonly lane: string;
  /** Its part of the moments it worked in. */
  readonly ms: number;
  /** How long it worked, whoever else did. */
  readonly busy: number;
};

export function sharesOf(steps: readonly Pick<TimelineStep, "start" | "ms" | "spans">[]) {
  const parts = new Map<string, { ms: number; busy: number }>();
  const total = steps.reduce((sum, { ms }) => sum + ms, 0);
  for (const { start, ms, spans } of steps) {
    const edges = spans
      .flatMap((span) => {
        const [from, to] = [Math.max(start, span.start), Math.min(start + ms, span.start + span.ms)];
        return to > from
          ? [
              { at: from, lane: span.lane, by: 1 },
              { at: to, lane: span.lane, by: -1 },
            ]
          : [];
      })
      .sort((a, b) => a.at - b.at);
    const open = new Map<string, number>();
    let before = start;
    for (const { at, lane, by } of edges) {
      const working = [...open].filter(([, count]) => count > 0);
      for (const [name] of working) {
        const part = parts.get(name) ?? { ms: 0, busy: 0 };
        part.ms += (at - before) / working.length;
        part.busy += at - before;
        parts.set(name, part);
      }
      before = at;
      open.set(lane, (open.get(lane) ?? 0) + by);
    }
  }
  const rows = [...parts].map(([lane, part]): LaneShare => ({ lane, ...part })).sort((a, b) => b.ms - a.ms);
  const timed = rows.reduce((sum, { ms }) => sum + ms, 0);
  // Rounding of times leaves crumbs.
  const rest = total - timed;
  return { total, rows, idle: rest > total * 1e-6 ? rest : 0 };
}
