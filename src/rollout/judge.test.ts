import { describe, expect, test } from "vitest";
import { defineEnv } from "../envs/define.ts";
import { register } from "../envs/registry.ts";
import { scriptedAgent } from "./builtin-agents.ts";
import { RolloutCounters } from "./counters.ts";
import { playGroups } from "./groups.ts";
import { EnvHost } from "./hosts.ts";
import type { Judge } from "./judge.ts";
import type { Trajectory } from "./trajectory.ts";

/** Two turns, half a point each. */
register(
  defineEnv({
    id: "two-turns",
    create() {
      let turn = 0;
      return {
        reset() {
          turn = 0;
          return [];
        },
        step: () => ({
          observation: [],
          rewards: [{ name: "task", value: 0.5 }],
          terminated: ++turn === 2,
          truncated: false,
          info: { actions: [], parsed: true, wellFormed: true, valid: true },
        }),
      };
    },
  }),
);

type Plan = { readonly seeds?: readonly number[]; readonly live?: number; readonly judgeTimeoutMs?: number };

async function play(judge: Judge, { seeds = [1], live = 4, judgeTimeoutMs }: Plan = {}): Promise<Trajectory[]> {
  const host = new EnvHost();
  const counters = new RolloutCounters();
  const episodes: Trajectory[] = [];
  const requests = seeds.map((seed) => ({ env: { id: "two-turns" }, seed, siblings: 1 }));
  const options = { agent: scriptedAgent(["I see it."]), host, samplingSeed: 0, live, counters, judge };
  for await (const group of playGroups(requests, { ...options, ...(judgeTimeoutMs && { judgeTimeoutMs }) })) {
    expect(group.dropped).toEqual([]);
    episodes.push(...group.trajectories);
  }
  expect(counters.reward).toBe(episodes.reduce((sum, { reward }) => sum + reward, 0));
  await host.close();
  return episodes;
}

test("what a judge pays is added turn by turn, beside what the environment paid", async () => {
  const [episode] = await play(async ({ turns }) =>
    turns.map((turn, i) => (i === 0 ? [] : [{ name: "style", value: 0.25, span: [0, turn.reply.length] as const }])),
  );
  expect(episode?.turns.map(({ reward }) => reward)).toEqual([0.5, 0.75]);
  expect(episode?.turns[1]?.rewards).toEqual([
    { name: "task", value: 0.5 },
    { name: "style", value: 0.25, span: [0, 9] },
  ]);
  expect(episode?.reward).toBe(1.25);
  expect(episode?.judge?.error).toBeUndefined();
});

describe("a judge that fails scores nothing and fails no episode", () => {
  const never = () => new Promise<never>(() => {});
  const wrong: [string, Judge, string][] = [
    ["it throws", () => Promise.reject(new Error("no credit left")), "no credit left"],
    ["it never answers", never, "the judge took more than 20 ms"],
    ["it forgets a turn", async () => [[]], "turn 2 must be a list"],
    ["it speaks of a turn too many", async () => [[], [], []], "3 turns, the episode has 2"],
    [
      "a reward is no number",
      async () => [[{ name: "style", value: Number.NaN }], []],
      '.value ("style") must be a finite number; got NaN',
    ],
    ["a span lies outside the reply", async () => [[], [{ name: "x", value: 1, span: [0, 99] }]], "0..9"],
    ["it answers nonsense", (async () => 7) as unknown as Judge, "turn 1 must be a list"],
  ];
  test.each(wrong)("%s", async (_, judge, why) => {
    const [episode] = await play(judge, { judgeTimeoutMs: 20 });
    expect(episode).toMatchObject({ end: "done", reward: 1 });
    expect(episode?.turns.flatMap(({ rewards }) => rewards.map(({ name }) => name))).toEqual(["task", "task"]);
    expect(episode?.judge?.error).toContain(why);
  });
});

test("the next episode plays while the last is judged", async () => {
  const asked: number[] = [];
  let bothAsked = () => {};
  const both = new Promise<void>((resolve) => {
    bothAsked = resolve;
  });
  // With one place only, nobody is judged to the end before the second episode is over.
  const episodes = await play(
    async ({ seed, turns }) => {
      if (asked.push(seed) === 2) bothAsked();
      await both;
      return turns.map(() => []);
    },
    { seeds: [1, 2], live: 1 },
  );
  expect(asked).toEqual([1, 2]);
  expect(episodes.map(({ judge }) => judge?.error)).toEqual([undefined, undefined]);
});

test("with the judge behind, groups come as they were played, and what it pays follows", async () => {
  let answer = () => {};
  const told = new Promise<void>((resolve) => {
    answer = resolve;
  });
  const judge: Judge = async ({ turns }) => {
    await told;
    return turns.map(() => [{ name: "style", value: 0.25 }]);
  };
  const host = new EnvHost();
  const counters = new RolloutCounters();
  const requests = [1, 2].map((seed) => ({ env: { id: "two-turns" }, seed, siblings: 2 }));
  const options = { agent: scriptedAgent(["I see it."]), host, samplingSeed: 0, live: 2, counters };
  const groups = [];
  for await (const group of playGroups(requests, { ...options, judge, judgeBehind: true })) {
    expect(group.trajectories.map(({ reward }) => reward)).toEqual([1, 1]);
    groups.push(group);
    // Nobody was answered before both groups were here.
    if (groups.length === 2) {
      expect(counters.episodes).toBe(0);
      answer();
      for (const { judged } of groups)
        expect((await judged)?.trajectories.map(({ reward }) => reward)).toEqual([1.5, 1.5]);
    }
  }
  expect(groups).toHaveLength(2);
  expect([counters.episodes, counters.reward]).toEqual([4, 6]);
  await host.close();
});
