/** The simulated loop where its answer can be worked out by hand, and what its settings do to it. */
import { describe, expect, test } from "vitest";
import { costsOfRun, type LoopCosts, samplersNeeded, simulateLoop } from "./simulate.ts";

const costs: LoopCosts = {
  groups: 4,
  siblings: 2,
  maxStaleness: 0,
  live: 8,
  turns: [3, 3],
  reply: 10,
  env: 0.5,
  samplers: 1,
  decode: { base: 0.1, each: 0 },
  prefill: 0,
  learn: 2,
  publish: 1,
};
const of = (changes: Partial<LoopCosts>) => simulateLoop({ ...costs, ...changes });
// Three turns of ten tokens, an environment before each and after the last.
const PLAY = 3 * 10 * 0.1 + 4 * 0.5;

describe("the simulated loop", () => {
  test("a synchronous step is play, update and publication, one after the other", () => {
    expect(of({}).step).toBeCloseTo(PLAY + 3, 6);
    expect(of({}).wait).toBeCloseTo(PLAY, 6);
    expect(of({}).busy).toBeCloseTo(3 / (PLAY + 3), 6);
  });

  test("with staleness a step takes the longer of playing and learning", () => {
    expect(of({ maxStaleness: 1, live: 16 }).step).toBeLessThan(PLAY + 3);
    expect(of({ maxStaleness: 1, live: 16, learn: 20 })).toMatchObject({ wait: 0 });
    expect(of({ maxStaleness: 1, live: 16, learn: 20 }).step).toBeCloseTo(21, 6);
    // One version behind, each step's episodes begin when the step before the last is learned.
    expect(of({ maxStaleness: 1, live: 16, learn: 0, publish: 0 }).step).toBeCloseTo(PLAY / 2, 1);
  });

  test("fewer places than episodes: they play in turns", () => {
    expect(of({ live: 4 }).wait).toBeCloseTo(2 * PLAY, 6);
  });

  test("where each sequence slows a batch, samplers share the load, down to the longest episode", () => {
    const slow = { decode: { base: 0.1, each: 0.1 } };
    const waits = [1, 2, 4, 8, 16].map((samplers) => of({ ...slow, samplers }).wait);
    for (const [i, wait] of waits.slice(1, 4).entries()) expect(wait).toBeLessThan(waits[i] as number);
    expect(waits[4]).toBeCloseTo(waits[3] as number, 6);
    expect(waits[3]).toBeCloseTo(3 * 10 * 0.2 + 4 * 0.5, 6);
  });

  test("the fewest samplers: one fewer makes the learner wait; none, where an episode alone is too long", () => {
    const slow = { ...costs, maxStaleness: 1, live: 16, learn: 6, decode: { base: 0.05, each: 0.05 } };
    const needed = samplersNeeded(slow) as number;
    expect(needed).toBeGreaterThan(1);
    const share = (samplers: number) => of({ ...slow, samplers }).wait / of({ ...slow, samplers }).step;
    expect(share(needed)).toBeLessThanOrEqual(0.1);
    expect(share(needed - 1)).toBeGreaterThan(0.1);
    expect(samplersNeeded({ ...slow, reply: 10_000 }, 0.1, 4)).toBeUndefined();
  });

  test("costs that are read from a run give its step back", () => {
    const run = { "time/step": 8, "time/learn": 2, "time/publish": 1, "train/turns": 3, "train/reply_tokens": 10 };
    const read = costsOfRun(
      Array.from({ length: 8 }, () => run),
      { groups: 4, siblings: 2, maxStaleness: 0, live: 8 },
      0.5,
    );
    expect(simulateLoop(read, 12).step).toBeCloseTo(8, 2);
  });
});
