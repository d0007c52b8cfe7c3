/**
 * `events.jsonl`: what happened in a run, in order, one line an event, never rewritten. After a crash a run goes on from its last
 * checkpoint and plays some steps again; a `resume` event then names the byte of the file from which earlier events no longer count,
 * so nothing is counted twice and nothing is erased.
 * A metric that is not finite is written as "NaN", "Infinity" or "-Infinity": JSON has no number for it, and it must not vanish.
 */
import { join } from "node:path";
import type { JsonObject } from "../core/json.ts";
import { LineWriter, readLines } from "./jsonl.ts";

export const EVENTS_FILE = "events.jsonl";

export type EventKind =
  | "start"
  | "resume"
  | "sft"
  | "train"
  | "eval"
  | "sight"
  | "alarm"
  | "failure"
  | "checkpoint"
  | "note"
  | "end";

export type Metrics = Readonly<Record<string, number>>;

/** Work on one lane of the timeline. `start`: milliseconds since 1970. */
export type TimeSpan = { readonly lane: string; readonly start: number; readonly ms: number };

export type RunEvent = {
  readonly step: number;
  /** Milliseconds since 1970. */
  readonly time: number;
  readonly kind: EventKind;
  readonly metrics: Metrics;
  /** For people: an alarm, a note, the first episode that failed for our reasons. */
  readonly message?: string;
  readonly spans?: readonly TimeSpan[];
  /** Anything else, by kind. */
  readonly data?: JsonObject;
  /** Of a `resume`: events that start at this byte or later, and before this one, were played again. */
  readonly from?: number;
};

/** An event with its place in the file. */
export type PlacedEvent = { readonly event: RunEvent; readonly start: number; readonly end: number };

export class EventWriter {
  readonly #lines: LineWriter;

  private constructor(lines: LineWriter) {
    this.#lines = lines;
  }

  static async open(runPath: string): Promise<{ writer: EventWriter; repaired?: string }> {
    const { writer, ...rest } = await LineWriter.open(join(runPath, EVENTS_FILE));
    return { writer: new EventWriter(writer), ...rest };
  }

  /** Takes an event and returns at once. */
  append(event: RunEvent): void {
    const metrics = Object.fromEntries(Object.entries(event.metrics).map(([name, x]) => [name, writeNumber(x)]));
    this.#lines.append({ ...event, metrics });
  }

  flush(durable = false): Promise<void> {
    return this.#lines.flush(durable);
  }

  close(): Promise<void> {
    return this.#lines.close();
  }

  /** Bytes of the file; exact after `flush`. */
  get position(): number {
    return this.#lines.position;
  }

  get lost(): number {
    return this.#lines.lost;
  }
}

/** Streams every event from byte `from` on, the ones that were played again included. Adds to `missing` what can't be read. */
export async function* readEvents(
  runPath: string,
  missing: string[] = [],
  from = 0,
): AsyncGenerator<PlacedEvent, void, void> {
  for await (const { value, start, end } of readLines(join(runPath, EVENTS_FILE), missing, from)) {
    const event = asEvent(value);
    if (event === undefined) missing.push(`${EVENTS_FILE}: the line at byte ${start} is not an event; it is skipped.`);
    else yield { event, start, end };
  }
}

/** The events that count, in order: those a resumed run played again are left out. */
export async function loadEvents(runPath: string, from = 0): Promise<{ events: RunEvent[]; missing: string[] }> {
  const missing: string[] = [];
  const placed: PlacedEvent[] = [];
  for await (const next of readEvents(runPath, missing, from)) addEvent(placed, next);
  return { events: placed.map(({ event }) => event), missing };
}

/** Adds an event to a list in file order; a `resume` first removes those it makes void. For readers that follow a live run. */
export function addEvent(placed: PlacedEvent[], next: PlacedEvent): void {
  if (next.event.kind === "resume") {
    const from = next.event.from ?? 0;
    while (placed.length > 0 && (placed[placed.length - 1] as PlacedEvent).start >= from) placed.pop();
  }
  placed.push(next);
}

/** The curve of one metric: a value per step, the last one written where a step has several. */
export function series(events: readonly RunEvent[], name: string): { step: number; value: number }[] {
  const values = new Map<number, number>();
  for (const { step, metrics } of events) {
    const value = metrics[name];
    if (value !== undefined) values.set(step, value);
  }
  return [...values].map(([step, value]) => ({ step, value }));
}

function asEvent(value: JsonObject): RunEvent | undefined {
  const { step, time, kind, metrics } = value;
  if (typeof step !== "number" || typeof time !== "number" || typeof kind !== "string") return undefined;
  const numbers: Record<string, number> = {};
  for (const [name, x] of Object.entries(metrics ?? {})) {
    const number = typeof x === "number" ? x : NON_FINITE[String(x)];
    if (number !== undefined) numbers[name] = number;
  }
  return { ...value, metrics: numbers } as unknown as RunEvent;
}

const NON_FINITE: Readonly<Record<string, number>> = {
  NaN: Number.NaN,
  Infinity: Number.POSITIVE_INFINITY,
  "-Infinity": Number.NEGATIVE_INFINITY,
};

function writeNumber(x: number): number | string {
  return Number.isFinite(x) ? x : String(x);
}
