import { describe, expect, test } from "vitest";
import { AlarmWatch, findAlarms } from "./alarms.ts";
import type { RunEvent } from "./events.ts";

const HEALTHY = {
  "train/success": 0.5,
  "policy/entropy": 0.4,
  "policy/repeated_tokens": 0.01,
  "policy/top_reply": 0.3,
  "groups/zero_variance": 0.4,
  "drift/mean": 0,
  "optimizer/skipped": 0,
  "optimizer/updates": 2,
  "optimizer/idle": 0,
};
const SIGHTED = { "sight/gap": 0.8, "sight/gap_low": 0.5, "sight/gap_high": 1.1, "sight/hash_mismatches": 0 };

function event(step: number, metrics: RunEvent["metrics"], kind: RunEvent["kind"] = "train"): RunEvent {
  return { step, time: step, kind, metrics };
}

/** Five healthy steps and a healthy probe, then three steps (or a probe) with these metrics. */
function run(metrics: RunEvent["metrics"], kind: RunEvent["kind"] = "train"): RunEvent[] {
  const healthy = [1, 2, 3, 4, 5].map((step) => event(step, HEALTHY));
  const base = kind === "sight" ? SIGHTED : HEALTHY;
  const then = kind === "sight" ? [6] : [6, 7, 8];
  return [event(0, SIGHTED, "sight"), ...healthy, ...then.map((step) => event(step, { ...base, ...metrics }, kind))];
}

const kinds = (events: readonly RunEvent[]) => findAlarms(events).map(({ kind }) => kind);

test("a healthy run, a young run and no run raise nothing", () => {
  expect(kinds(run({}))).toEqual([]);
  expect(kinds([event(0, { "policy/entropy": 0.2 })])).toEqual([]);
  expect(kinds([])).toEqual([]);
});

describe("an oracle that solves nothing", () => {
  const evaluated = (metrics: RunEvent["metrics"]) => [...run({}), event(8, metrics, "eval")];

  test("is named with its environments and what failed, and only while it lasts", () => {
    const two = { "eval/ceiling": 0.5, "eval/ceiling/lake": 1, "eval/ceiling/maze/easy": 0, "eval/ceiling_failed": 12 };
    const alarms = findAlarms(evaluated(two));
    expect(alarms).toMatchObject([{ kind: "ceiling", step: 8 }]);
    expect(alarms[0]?.message).toContain("no episode of maze/easy; 12 of its episodes failed");
    expect(kinds(evaluated({ "eval/ceiling": 0 }))).toEqual(["ceiling"]);
    expect(kinds([...evaluated({ "eval/ceiling": 0 }), event(9, { "eval/ceiling": 0.9 }, "eval")])).toEqual([]);
  });

  test("is no alarm where there is no oracle, or it solves something", () => {
    expect(kinds(evaluated({ "eval/success": 0 }))).toEqual([]);
    expect(kinds(evaluated({ "eval/ceiling": 0.1, "eval/ceiling/lake": 0.1 }))).toEqual([]);
  });

  test("whose episodes fail is told apart, and so are random play and stopping at once, where more than a twentieth fail", () => {
    const failed = { "eval/asked": 128, "eval/ceiling": 0.063, "eval/ceiling_failed": 120, "eval/random_failed": 7 };
    const alarms = findAlarms(evaluated(failed));
    expect(alarms).toMatchObject([{ kind: "controls", step: 8 }]);
    expect(alarms[0]?.message).toContain(
      "120 of 128 episodes of the oracle and 7 of 128 episodes of random play: they count as lost",
    );
    expect(kinds(evaluated({ "eval/asked": 128, "eval/floor_failed": 6, "eval/ceiling_failed": 6 }))).toEqual([]);
    const [stopped] = findAlarms(evaluated({ "eval/asked": 128, "eval/ceiling": 0.9, "eval/floor_failed": 128 }));
    expect(stopped?.message).toContain("128 of 128 episodes of stopping at once");
    // The model played each of the 32 seeds four times, the oracle once.
    const repeated = { "eval/asked": 128, "eval/seeds": 32, "eval/ceiling": 0.9, "eval/ceiling_failed": 3 };
    expect(findAlarms(evaluated(repeated))[0]?.message).toContain("3 of 32 episodes of the oracle");
    const calm = { "eval/asked": 128, "eval/seeds": 32, "eval/ceiling": 0.9, "eval/ceiling_failed": 1 };
    expect(kinds(evaluated(calm))).toEqual([]);
  });

  test("whose episodes fail in one environment of many is told apart, with the environment", () => {
    const failed = {
      "eval/asked": 200,
      "eval/seeds": 200,
      "eval/ceiling": 0.9,
      "eval/ceiling_failed": 10,
      "eval/ceiling_failed/maze/easy": 10,
      "eval/random_failed": 2,
      "eval/random_failed/lake": 2,
      "eval/seeds/maze/easy": 10,
      "eval/seeds/lake": 100,
    };
    const alarms = findAlarms(evaluated(failed));
    expect(alarms).toMatchObject([{ kind: "controls", step: 8 }]);
    expect(alarms[0]?.message).toMatch(
      /failed in 10 of 200 episodes of the oracle \(maze\/easy: 10 of 10\): they count as lost/,
    );
    const { "eval/ceiling_failed/maze/easy": _, ...calm } = { ...failed, "eval/ceiling_failed": 0 };
    expect(kinds(evaluated(calm))).toEqual([]);
    const many = Object.fromEntries(
      Array.from({ length: 20 }, (_, i) => i).flatMap((i): [string, number][] => [
        [`eval/seeds/w${i}`, 10],
        [`eval/random_failed/w${i}`, 1 + (i % 10)],
      ]),
    );
    const [all] = findAlarms(evaluated({ "eval/seeds": 200, "eval/random_failed": 110, ...many }));
    expect(all?.message).toContain(
      "110 of 200 episodes of random play (w9: 10 of 10, w19: 10 of 10, w8: 9 of 10 and 17 more environments): they",
    );
  });

  test("is said once by a watch that sees the evaluation", () => {
    const watch = new AlarmWatch();
    const zero = event(0, { "eval/ceiling": 0, "eval/ceiling/lake": 0 }, "eval");
    expect(watch.see(zero).map(({ kind }) => kind)).toEqual(["ceiling"]);
    expect(watch.see(event(1, HEALTHY))).toEqual([]);
    expect(watch.see({ ...zero, step: 2 })).toEqual([]);
  });
});

describe("each trouble is named, and only that one", () => {
  test.each([
    ["blind", "sight", { "sight/gap": 0.01, "sight/gap_low": -0.02 }],
    ["blind", "sight", { "sight/hash_mismatches": 3 }],
    ["entropy", "train", { "policy/entropy": 0.001 }],
    ["repetition", "train", { "policy/repeated_tokens": 0.7 }],
    ["repetition", "train", { "policy/top_reply": 1 }],
    ["no-variance", "train", { "groups/zero_variance": 1 }],
    ["no-variance", "train", { "groups/zero_variance": 1, "optimizer/updates": 0, "optimizer/idle": 2 }],
    ["idle", "train", { "optimizer/updates": 0, "optimizer/idle": 2 }],
    ["idle", "train", { "optimizer/updates": 0, "optimizer/idle": 1, "groups/unfit": 16 }],
    ["drift", "train", { "drift/mean": 0.2 }],
    ["non-finite", "train", { "policy/loss": Number.NaN }],
    ["non-finite", "train", { "optimizer/skipped": 1 }],
  ] as const)("%s from a %s event with %o", (kind, from, metrics) => {
    const alarms = findAlarms(run(metrics, from));
    expect(alarms.map((alarm) => alarm.kind)).toEqual([kind]);
    expect(alarms[0]?.message).toMatch(/\.$/);
    expect(alarms[0]?.advice.length).toBeGreaterThan(20);
    expect(alarms[0]?.step).toBe(from === "sight" ? 6 : 8);
  });
});

test("one odd step raises no alarm about a trend", () => {
  const odd = { "policy/entropy": 0, "policy/repeated_tokens": 1, "groups/zero_variance": 1, "drift/mean": 1 };
  expect(kinds([...run({}), event(9, { ...HEALTHY, ...odd })])).toEqual([]);
});

test("a solved task is quiet, not collapsed, and is told that nothing is left to learn", () => {
  const solved = { "train/success": 1, "policy/entropy": 0, "policy/top_reply": 1, "groups/zero_variance": 1 };
  const alarms = findAlarms(run(solved));
  expect(alarms.map(({ kind }) => kind)).toEqual(["no-variance"]);
  expect(alarms[0]?.message).toContain("nothing left to learn");
});

test("idleness of an estimator that can't take negative rewards is told from that of filters", () => {
  const still = { "optimizer/updates": 0, "optimizer/idle": 1 };
  expect(findAlarms(run({ ...still, "groups/unfit": 4 }))[0]?.advice).toContain("maxrl");
  expect(findAlarms(run({ ...still, "groups/unfit": 0 }))[0]?.advice).toContain("filters");
});

test("drift of old episodes is told from drift on policy", () => {
  expect(findAlarms(run({ "drift/mean": 0.2 }))[0]?.advice).toContain("preprocessing");
  expect(findAlarms(run({ "drift/mean": 0.2, "staleness/mean": 1.5 }))[0]?.advice).toContain("maxStaleness");
});

test("a watch sees in a running stream what the whole history shows, and reports a trouble once until it passed", () => {
  const watch = new AlarmWatch();
  const broken = { ...HEALTHY, "drift/mean": 0.2 };
  const steps = [HEALTHY, HEALTHY, broken, broken, broken, broken, HEALTHY, broken, broken, broken];
  const warmStart = [1, 2, 3, 4].map((step) => event(step, { "sft/nll": 1 }, "sft"));
  const events = [...warmStart, ...steps.map((metrics, step) => event(step, metrics))];
  const raised = events.flatMap((next, i) => watch.see(next).map(({ kind }) => `${kind} at ${i - 4}`));
  expect(raised).toEqual(["drift at 4", "drift at 9"]);
});

test("a watch hears of blindness from the probe itself, and of a bad number in a warm start", () => {
  const watch = new AlarmWatch();
  expect(watch.see(event(1, { "sft/nll": Number.NaN }, "sft")).map(({ kind }) => kind)).toEqual(["non-finite"]);
  expect(watch.see(event(2, HEALTHY))).toEqual([]);
  const blind = { ...SIGHTED, "sight/gap_low": -1 };
  expect(watch.see(event(2, blind, "eval")).map(({ kind }) => kind)).toEqual(["blind"]);
  expect(watch.see(event(3, HEALTHY))).toEqual([]);
  expect(watch.see(event(3, SIGHTED, "eval"))).toEqual([]);
  expect(watch.see(event(4, blind, "eval"))).toHaveLength(1);
});

describe("A warm start on a plateau", () => {
  /** 200 updates whose decisions cost what `nats` says of each. */
  const taught = (nats: (update: number) => number, chance = 0.7) =>
    Array.from({ length: 200 }, (_, i) => event(i, { "decisions/nll": nats(i), "decisions/chance": chance }, "sft"));

  test("near a blind choice is told, once, and not when it still falls, is far below, or is over", () => {
    expect(findAlarms(taught(() => 0.62))).toMatchObject([{ kind: "plateau", step: 199, level: "warning" }]);
    expect(findAlarms(taught(() => 0.62))[0]?.message).toContain("0.62 nats per decision for 100 updates");
    expect(kinds(taught((i) => 1.4 - i / 300))).toEqual([]);
    expect(kinds(taught(() => 0.3))).toEqual([]);
    expect(kinds(taught(() => 0.62).slice(1))).toEqual([]);
    expect(kinds([...taught(() => 0.62), event(200, HEALTHY)])).toEqual([]);
    const watch = new AlarmWatch();
    const raised = [...taught(() => 0.62), event(200, { "decisions/nll": 0.62, "decisions/chance": 0.7 }, "sft")];
    expect(raised.flatMap((one) => watch.see(one)).map(({ kind }) => kind)).toEqual(["plateau"]);
  });
});
