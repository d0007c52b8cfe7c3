import { describe, expect, test } from "vitest";
import { checkSchedule, scheduleFactor } from "./schedule.ts";

describe("learning-rate schedules", () => {
  test("warm-up rises in equal steps from above 0 to the peak, for every kind", () => {
    for (const kind of ["constant", "linear", "cosine"] as const) {
      const factors = [0, 1, 2, 3].map((step) => scheduleFactor({ kind, warmup: 4, steps: 10 }, step));
      expect(factors).toEqual([0.25, 0.5, 0.75, 1]);
    }
  });
  test("constant stays at the peak; linear and cosine go from it to the floor and stay there", () => {
    expect(scheduleFactor({ kind: "constant" }, 1e6)).toBe(1);
    for (const kind of ["linear", "cosine"] as const) {
      const at = (step: number) => scheduleFactor({ kind, warmup: 2, steps: 12, floor: 0.1 }, step);
      expect(at(2)).toBe(1);
      expect(at(7)).toBeCloseTo(0.55, 12);
      expect(at(12)).toBeCloseTo(0.1, 12);
      expect(at(500)).toBeCloseTo(0.1, 12);
      for (let step = 3; step <= 12; step++) expect(at(step)).toBeLessThan(at(step - 1));
    }
    const quarter = scheduleFactor({ kind: "cosine", steps: 8 }, 2);
    expect(quarter).toBeCloseTo((1 + Math.SQRT1_2) / 2, 12);
  });
  test("schedules that can't be are refused", () => {
    expect(() => checkSchedule({ kind: "linear" })).toThrow(/steps/);
    expect(() => checkSchedule({ kind: "cosine", warmup: 5, steps: 5 })).toThrow(/above its warmup/);
    expect(() => checkSchedule({ kind: "constant", warmup: -1 })).toThrow(/warmup/);
    expect(() => checkSchedule({ kind: "constant", floor: 2 })).toThrow(/floor/);
    expect(() => checkSchedule({ kind: "step" as "linear", steps: 3 })).toThrow(/constant, linear or cosine/);
  });
});
