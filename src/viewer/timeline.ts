/** Where a run's time went: spans of each step by lane, and the same as a Chrome trace for Perfetto. */
import type { PlacedEvent } from "../run/events.ts";
import type { TimelineReply, TimelineStep } from "./api.ts";
import type { RunView } from "./run-view.ts";

const DEFAULT_STEPS = 40;
const MAX_STEPS = 1000;
/** Lanes in the order of a step; others follow by name. */
const LANES = ["sample", "env", "encode", "wait", "score", "learn", "publish", "eval", "sight", "checkpoint", "other"];

/** `from` and `to`: steps, inclusive; without them the last ones. */
export async function timelineOf(view: RunView, from?: number, to?: number): Promise<TimelineReply> {
  await view.refreshEvents();
  const placed = view.events.filter((one) => view.hasSpans(one));
  const wanted =
    from === undefined && to === undefined
      ? placed.slice(-DEFAULT_STEPS)
      : placed.filter(({ event: { step } }) => step >= (from ?? 0) && step <= (to ?? Number.POSITIVE_INFINITY));
  const steps: TimelineStep[] = [];
  for await (const { step, kind, spans = [] } of view.withSpans(wanted.slice(0, MAX_STEPS))) {
    const start = spans.reduce((earliest, span) => Math.min(earliest, span.start), Number.POSITIVE_INFINITY);
    const end = spans.reduce((latest, span) => Math.max(latest, span.start + span.ms), start);
    steps.push({ step, kind, start, ms: end - start, spans });
  }
  const [first, last] = [placed[0], placed.at(-1)];
  return {
    lanes: laneOrder(new Set(steps.flatMap(({ spans }) => spans.map(({ lane }) => lane)))),
    steps,
    ...(first && last && { range: [first.event.step, last.event.step] as const }),
  };
}

/** Pieces of a JSON object in the trace event format: one process, one thread a lane, times in microseconds from the first span. */
export async function* perfettoTrace(view: RunView): AsyncGenerator<string, void, void> {
  await view.refreshEvents();
  const threads = new Map<string, number>();
  let zero: number | undefined;
  yield `{"displayTimeUnit":"ms","traceEvents":[${JSON.stringify(meta("process_name", 0, view.id))}`;
  for await (const { step, kind, spans = [] } of view.withSpans(view.events as readonly PlacedEvent[])) {
    let piece = "";
    for (const { lane, start, ms } of spans) {
      zero ??= start;
      let tid = threads.get(lane);
      if (tid === undefined) {
        tid = LANES.indexOf(lane) >= 0 ? LANES.indexOf(lane) + 1 : LANES.length + 1 + threads.size;
        threads.set(lane, tid);
        piece += `,${JSON.stringify(meta("thread_name", tid, lane))}`;
        piece += `,${JSON.stringify({ ...meta("thread_sort_index", tid, lane), args: { sort_index: tid } })}`;
      }
      const [ts, dur] = [Math.round((start - zero) * 1000), Math.round(ms * 1000)];
      piece += `,${JSON.stringify({ name: `${lane} ${step}`, cat: kind, ph: "X", pid: 1, tid, ts, dur, args: { step } })}`;
    }
    yield piece;
  }
  yield "]}\n";
}

function meta(name: string, tid: number, value: string) {
  return { name, ph: "M", pid: 1, tid, args: { name: value } };
}

function laneOrder(lanes: ReadonlySet<string>): string[] {
  const known = LANES.filter((lane) => lanes.has(lane));
  return [...known, ...[...lanes].filter((lane) => !LANES.includes(lane)).sort()];
}
