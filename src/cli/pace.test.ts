import { describe, expect, test } from "vitest";
import { Pace } from "./pace.ts";

/** The quickstart: 1,700 updates of 8 episodes, 130 steps of 512. */
const PLAN = { warm: 1700, warmEpisodes: 8, steps: 130, stepEpisodes: 512 };
const event = (kind: "sft" | "train" | "eval", step: number, seconds?: number) => ({
  kind,
  step,
  time: 0,
  metrics: seconds === undefined ? {} : { "time/step": seconds },
});

describe("how far a run is", () => {
  test("an update of eight episodes is not as much as a step of 512", () => {
    const pace = new Pace(PLAN);
    expect([pace.share, pace.leftMs]).toEqual([0, undefined]);
    pace.see(event("sft", 1700));
    expect(pace.share).toBeCloseTo(13_600 / (13_600 + 66_560));
  });

  test("before the first step its time is that of the warm start, by episodes; then it is its own", () => {
    const pace = new Pace(PLAN);
    for (let update = 1; update <= 5; update++) pace.see(event("sft", update), update * 30);
    // 1,695 updates of 30 ms, and 130 steps of 64 × 30 ms.
    expect(pace.leftMs).toBeCloseTo(1695 * 30 + 130 * 64 * 30);
    pace.see(event("sft", 1700), 51_000);
    for (let step = 1; step <= 4; step++) pace.see(event("train", 1700 + step), 51_000 + step * 1500);
    expect([pace.warm, pace.step]).toEqual([1700, 4]);
    expect(pace.leftMs).toBeCloseTo(126 * 1500);
  });

  test("after one update or step of this process, its own time is the pace", () => {
    const pace = new Pace({ warm: 0, warmEpisodes: 0, steps: 10, stepEpisodes: 8 });
    pace.see(event("train", 1, 2), 5000);
    expect([pace.share, pace.leftMs]).toEqual([0.1, 18_000]);
    pace.see(event("train", 2, 2), 7500);
    expect(pace.leftMs).toBe(16_000);
  });

  test("a run that goes on knows the pace from what was logged", () => {
    const pace = new Pace(PLAN);
    for (let update = 1; update <= 1700; update++) pace.see(event("sft", update, 0.03));
    for (let step = 1; step <= 65; step++) pace.see(event("train", 1700 + step, 1.5));
    expect(pace.leftMs).toBeCloseTo(65 * 1500);
    expect(pace.share).toBeCloseTo((1700 * 30 + 65 * 1500) / (1700 * 30 + 130 * 1500));
    // What an evaluation took is no pace of steps.
    pace.see(event("eval", 1765, 60));
    expect(pace.leftMs).toBeCloseTo(65 * 1500);
  });

  test("what has one kind of work alone is measured by it", () => {
    const supervised = new Pace({ warm: 10, warmEpisodes: 8, steps: 0, stepEpisodes: 0 });
    supervised.see(event("sft", 5, 1));
    expect([supervised.share, supervised.leftMs]).toEqual([0.5, 5000]);
    const reinforced = new Pace({ warm: 0, warmEpisodes: 0, steps: 4, stepEpisodes: 8 });
    reinforced.see(event("train", 1, 2));
    expect([reinforced.share, reinforced.leftMs]).toEqual([0.25, 6000]);
    expect(new Pace({ warm: 0, warmEpisodes: 0, steps: 0, stepEpisodes: 8 }).share).toBe(1);
  });
});
