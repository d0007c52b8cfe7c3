/** SeedScores and the yardsticks beside them. */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { afterAll, describe, expect, test } from "vitest";
import { ConfigError } from "../core/errors.ts";
import * as envs from "../envs/index.ts";
import { shareModule } from "../envs/load.ts";
import { makeWorldEnv } from "../envs/registry.ts";
import { tokenAgent } from "./agents.ts";
import { builtinAgent, scriptedAgent } from "./builtin-agents.ts";
import { playSeeds } from "./play.ts";
import { wilson } from "./scores.ts";
import { ScriptedSampler, testModel } from "./test-model.ts";
import type { Trajectory } from "./trajectory.ts";

const seeds = Array.from({ length: 40 }, (_, i) => 1000 + i);
shareModule("saccade", envs);
const folder = mkdtempSync(join(tmpdir(), "saccade-play-"));
afterAll(() => rmSync(folder, { recursive: true }));
const FAULTY = new URL("./test-faulty-env.ts", import.meta.url).pathname;

describe("Wilson's interval", () => {
  test.each([
    [0, 10],
    [1, 10],
    [5, 10],
    [10, 10],
    [157, 256],
  ])("of %i in %i ends where the share is 1.96 standard errors away", (count, total) => {
    const { value, low, high } = wilson(count, total);
    expect(value).toBe(count / total);
    for (const end of [low, high]) {
      if ((end === 0 && count === 0) || (end === 1 && count === total)) continue;
      expect(Math.abs(value - end) / Math.sqrt((end * (1 - end)) / total)).toBeCloseTo(1.96, 4);
    }
    expect(low <= value && value <= high && low < high).toBe(true);
  });
});

describe("Yardsticks", () => {
  test("a maze: stopping at once never wins, the oracle wins what fits the turn limit", async () => {
    const options = { prompt: "brief", maxTurns: 15 } as const;
    const scores = await playSeeds({ agent: builtinAgent("random"), env: { id: "maze_2d/easy", options }, seeds });
    // The ceiling, found without the rollout: boards whose plan is at most 15 actions.
    const env = await makeWorldEnv("maze_2d/easy", options);
    let solvable = 0;
    for (const seed of seeds) {
      await env.reset(seed);
      solvable += ((await env.world.solve?.())?.length ?? 99) <= 15 ? 1 : 0;
    }
    expect(scores.against.oracle?.success.count).toBe(solvable);
    expect(solvable).toBeGreaterThan(0);
    expect(solvable).toBeLessThan(seeds.length);
    expect(scores.against.stop).toMatchObject({ success: { count: 0, total: 40 }, turns: 1, ended: { done: 40 } });
    expect(scores.against.random?.success.total).toBe(40);
    expect(scores.success).toMatchObject({ total: 40, failed: 0 });
  });

  test("where there is no `stop`, the floor says nothing until its turns are over", async () => {
    const env = { id: "frozen_lake", options: { maxTurns: 3 } };
    const { against } = await playSeeds({ agent: builtinAgent("oracle"), env, seeds });
    expect(against.stop).toMatchObject({ turns: 3, unparsed: 1, ended: { max_turns: 40 }, success: { count: 0 } });
  });

  test("they depend on options and limits, and are played once for the same ones", async () => {
    const env = { id: "frozen_lake", options: { protocol: "keyword", maxTurns: 8 } };
    const first = await playSeeds({ agent: builtinAgent("random"), env, seeds });
    const again = await playSeeds({ agent: builtinAgent("oracle"), env, seeds });
    expect(again.against).toBe(first.against);
    expect(again.success).toEqual(first.against.oracle?.success);
    const short = await playSeeds({ agent: builtinAgent("oracle"), env, seeds, maxTurns: 2 });
    expect(short.success.value).toBeLessThan(again.success.value);
    expect(short.against.oracle?.success).toEqual(short.success);
  });

  test("an environment without a world has the floor alone", async () => {
    const { against, ended } = await playSeeds({ agent: scriptedAgent(["left"]), env: { id: FAULTY }, seeds });
    expect(Object.keys(against)).toEqual(["stop"]);
    expect(ended).toEqual({ done: 40 });
  });
});

describe("SeedScores of a model", () => {
  test("are those of its replies, with tokens and unreadable replies counted", async () => {
    const sampler = new ScriptedSampler((_, call) => (call % 2 === 0 ? "what?" : "<action>left</action>"));
    const agent = tokenAgent({ model: testModel, sampler: () => sampler, temperature: 0, maxTokens: 30 });
    const env = { id: "frozen_lake", options: { protocol: "keyword", prompt: "brief", maxTurns: 2 } };
    const seen: string[] = [];
    const scores = await playSeeds({
      agent,
      env,
      seeds: seeds.slice(0, 6),
      live: 1,
      onTrajectory: ({ id, temperature }) => seen.push(`${id} ${temperature}`),
    });
    expect(scores).toMatchObject({ unparsed: 0.5, cut: 0, seeds: 6, success: { total: 6, failed: 0 } });
    const sampled = sampler.samples.reduce((sum, { ids }) => sum + ids.length, 0);
    expect(scores.sampledTokens).toBe(sampled / 6);
    expect(seen).toEqual(seeds.slice(0, 6).map((seed) => `frozen_lake#${seed}/0 0`));
    expect(sampler.asked.every(({ params }) => params.temperature === 0)).toBe(true);
  });

  test("keep no episode: what was handed on can be forgotten while the rest is played", async () => {
    setFlagsFromString("--expose-gc");
    const gc = runInNewContext("gc") as () => void;
    const handed: WeakRef<Trajectory>[] = [];
    const alive: number[] = [];
    await playSeeds({
      agent: builtinAgent("stop"),
      // Slow, since what a weak reference names is kept until the event loop goes on.
      env: { id: FAULTY, options: { turns: 2, slow: 1 } },
      seeds,
      live: 4,
      onTrajectory: (trajectory) => {
        handed.push(new WeakRef(trajectory));
        gc();
        alive.push(handed.filter((each) => each.deref() !== undefined).length);
      },
    });
    expect(alive).toHaveLength(40);
    expect(Math.max(...alive)).toBeLessThan(20);
  });

  test("failures of ours count against success, and the first is told with its seed", async () => {
    const broken = scriptedAgent((messages) => {
      if (JSON.stringify(messages[0]).includes("seed 1003")) throw new Error("the server is gone");
      return "left";
    });
    const scores = await playSeeds({ agent: broken, env: { id: FAULTY }, seeds, retries: 0 });
    expect(scores).toMatchObject({
      success: { total: 40, failed: 1 },
      failure: { seed: 1003, end: "engine_error", error: "The agent failed in turn 1: the server is gone" },
    });
    expect(Object.values(scores.ended).reduce((sum, count) => sum + count, 0)).toBe(39);
  });

  test("an oracle that throws is no missing oracle: its ceiling counts what failed", async () => {
    const file = join(folder, "lost-oracle.ts");
    writeFileSync(
      file,
      `import { bare, defineWorld } from "saccade";
      export default defineWorld({
        id: "lost_oracle",
        create: () => ({
          actions: [bare("go", "go on")],
          reset() {},
          act: () => ({ valid: true, reward: 1, ended: true }),
          observe: () => "here",
          task: () => "Go.",
          success: () => true,
          solve() { throw new Error("no map"); },
        }),
      });`,
    );
    const { against } = await playSeeds({ agent: builtinAgent("stop"), env: { id: file }, seeds: [1, 2], retries: 0 });
    expect(against.oracle).toMatchObject({ success: { value: 0, total: 2, failed: 2 }, failure: { agent: "oracle" } });
    expect(against.oracle?.failure?.stack).toMatch(/^at .*lost-oracle\.ts:\d+/);
  });

  test("no seeds, or no such environment, is said", async () => {
    const agent = builtinAgent("random");
    await expect(playSeeds({ agent, env: { id: "frozen_lake" }, seeds: [] })).rejects.toThrow(ConfigError);
    await expect(playSeeds({ agent, env: { id: "frozen_leak" }, seeds })).rejects.toThrow(/frozen_leak/);
  });
});
