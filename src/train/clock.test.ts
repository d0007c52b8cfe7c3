import { expect, test } from "vitest";
import { Lanes, mergeIntervals } from "./clock.ts";
import { playedEpisode } from "./test-run.ts";

const at = (...pairs: readonly (readonly [number, number])[]) => pairs.map(([from, to]) => ({ from, to }));

test("overlapping intervals become one, others stay apart", () => {
  expect(mergeIntervals(at([5, 9], [0, 2], [1, 3], [3, 4]), 10)).toEqual(at([0, 4], [5, 9]));
});

test("too many intervals lose their smallest gaps", () => {
  expect(mergeIntervals(at([0, 1], [2, 3], [10, 11], [13, 14]), 2)).toEqual(at([0, 3], [10, 14]));
});

/** An episode whose turns begin at these times: 1 ms of encoding, 2 of sampling, 3 of the environment. */
const played = (...starts: number[]) => {
  const episode = playedEpisode(
    "g",
    0,
    starts.map(() => ({ reward: 0, said: [[1, 0]] })),
  );
  const turns = episode.turns.map((turn, i) => ({
    ...turn,
    startedAt: starts[i] as number,
    encodeMs: 1,
    sampleMs: 3,
    envMs: 3,
  }));
  return { ...episode, turns };
};

test("lanes say when anything was encoded, sampled or stepped", () => {
  const { spans, times } = new Lanes().see([played(100, 106), played(101)]);
  expect(spans).toEqual([
    { lane: "encode", start: 100, ms: 2 },
    { lane: "encode", start: 106, ms: 1 },
    { lane: "sample", start: 101, ms: 3 },
    { lane: "sample", start: 107, ms: 2 },
    { lane: "env", start: 103, ms: 4 },
    { lane: "env", start: 109, ms: 3 },
  ]);
  expect(times).toEqual({ "time/encode": 0.003, "time/sample": 0.005, "time/env": 0.007 });
});

test("of lanes with many gaps, the seconds are exact though the spans are merged", () => {
  const starts = Array.from({ length: 200 }, (_, i) => 100 + 50 * i);
  const { spans, times } = new Lanes().see([played(...starts)]);
  expect(spans.filter(({ lane }) => lane === "sample")).toHaveLength(64);
  expect(times["time/sample"]).toBeCloseTo(0.4, 9);
});

test("an instant is logged once, by the step that comes first", () => {
  const lanes = new Lanes();
  lanes.see([played(100)]);
  expect(lanes.see([played(98), played(102)]).spans).toEqual([
    { lane: "encode", start: 102, ms: 1 },
    { lane: "sample", start: 103, ms: 2 },
    { lane: "env", start: 106, ms: 2 },
  ]);
});
