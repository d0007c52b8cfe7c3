/**
 * Learning-rate schedules, as a factor on the peak rate that depends on the step alone (so a resumed run needs no state). Steps count
 * from 0. Warm-up rises linearly and reaches the peak with its last step; the first step is never 0, it would be wasted.
 */
import { ConfigError } from "../core/errors.ts";

export type Schedule = {
  readonly kind: "constant" | "linear" | "cosine";
  /** Steps of warm-up; 0 or absent: none. */
  readonly warmup?: number;
  /** Steps of the run; where linear and cosine reach `floor`. Constant needs none. */
  readonly steps?: number;
  /** Share of the peak that is left at the end; absent: 0. */
  readonly floor?: number;
};

export function checkSchedule(schedule: Schedule): void {
  const { kind, warmup = 0, steps, floor = 0 } = schedule;
  if (!["constant", "linear", "cosine"].includes(kind)) {
    throw new ConfigError(`Unknown learning-rate schedule "${kind}": use constant, linear or cosine.`);
  }
  if (!(warmup >= 0 && Number.isFinite(warmup)))
    throw new ConfigError(`warmup must be 0 or more steps, got ${warmup}.`);
  if (!(floor >= 0 && floor <= 1)) throw new ConfigError(`floor must be from 0 to 1, got ${floor}.`);
  if (kind !== "constant" && !(steps !== undefined && steps > warmup)) {
    throw new ConfigError(`A ${kind} schedule needs steps above its warmup of ${warmup}, got ${steps}.`);
  }
}

/** What to multiply the peak learning rate with at `step`. */
export function scheduleFactor(schedule: Schedule, step: number): number {
  checkSchedule(schedule);
  const { kind, warmup = 0, steps = 0, floor = 0 } = schedule;
  if (step < warmup) return Math.min(1, (step + 1) / warmup);
  if (kind === "constant") return 1;
  const progress = Math.min(1, (step - warmup) / (steps - warmup));
  const left = kind === "linear" ? 1 - progress : 0.5 * (1 + Math.cos(Math.PI * progress));
  return floor + (1 - floor) * left;
}
