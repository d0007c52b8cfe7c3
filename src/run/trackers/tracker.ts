/**
 * Trackers: other people's dashboards. A tracker is told what a run wrote, in the words that all of them share: scalars, texts, images and
 * histograms at a step. It is told from the run folder, never from the trainer, so a live run and an export go through the same code and a
 * server that hangs can't slow training.
 */
import type { JsonObject } from "../../core/json.ts";

export type Histogram = {
  readonly min: number;
  readonly max: number;
  readonly count: number;
  readonly sum: number;
  readonly sumOfSquares: number;
  /** Right edge of each bucket, ascending, and how many values it holds. */
  readonly edges: readonly number[];
  readonly counts: readonly number[];
};

export type TrackedValue =
  | { readonly tag: string; readonly scalar: number }
  | { readonly tag: string; readonly text: string }
  | { readonly tag: string; readonly histogram: Histogram }
  | { readonly tag: string; readonly png: Uint8Array; readonly width: number; readonly height: number };

/** `time`: milliseconds since 1970. `restart`: the run went on from a checkpoint, and what was said of this step and later ones is void. */
export type Tracked = {
  readonly step: number;
  readonly time: number;
  readonly values: readonly TrackedValue[];
  readonly restart?: true;
};

/** A run, as a tracker sees it when it starts. `memory` is what the tracker returned from `open` when it last followed this run. */
export type TrackedRun = {
  readonly path: string;
  readonly name: string;
  readonly config: JsonObject;
  readonly memory: JsonObject;
};

export interface Tracker {
  /** What to show in messages, for example "MLflow at http://localhost:5000". */
  readonly label: string;
  /** Returns what it must remember of the run, such as its id at a server. */
  open(run: TrackedRun): Promise<JsonObject>;
  /** Rejects when the items did not arrive; they are given again later. */
  write(items: readonly Tracked[], signal: AbortSignal): Promise<void>;
  /** The run has ended. */
  close(status: "finished" | "failed" | "stopped", signal: AbortSignal): Promise<void>;
}

/** Buckets of equal width. */
export function histogramOf(values: readonly (readonly [value: number, count: number])[], buckets = 30): Histogram {
  const finite = values.filter(([value, count]) => Number.isFinite(value) && count > 0);
  if (finite.length === 0) return { min: 0, max: 0, count: 0, sum: 0, sumOfSquares: 0, edges: [], counts: [] };
  const min = finite.reduce((least, [value]) => Math.min(least, value), Number.POSITIVE_INFINITY);
  const max = finite.reduce((most, [value]) => Math.max(most, value), Number.NEGATIVE_INFINITY);
  const many = max > min ? buckets : 1;
  const width = max > min ? (max - min) / many : 1;
  const edges = Array.from({ length: many }, (_, i) => (i === many - 1 && max > min ? max : min + (i + 1) * width));
  const counts = edges.map(() => 0);
  let [count, sum, sumOfSquares] = [0, 0, 0];
  for (const [value, times] of finite) {
    const bucket = Math.min(many - 1, Math.floor((value - min) / width));
    counts[bucket] = (counts[bucket] ?? 0) + times;
    count += times;
    sum += value * times;
    sumOfSquares += value * value * times;
  }
  return { min, max, count, sum, sumOfSquares, edges, counts };
}
