/** Whether decisions are those of the oracle, in warm starts and evaluations. */
import { describe, expect, test } from "vitest";
import type { Datum, Learner } from "../engine/engine.ts";
import { makeWorldEnv } from "../envs/registry.ts";
import type { AgentFactory } from "../rollout/agents.ts";
import { builtinAgent } from "../rollout/builtin-agents.ts";
import { measureDecisions } from "../rollout/decisions.ts";
import { EnvHost } from "../rollout/hosts.ts";
import { playSeeds } from "../rollout/play.ts";
import { testModel } from "../rollout/test-model.ts";
import type { Trajectory } from "../rollout/trajectory.ts";
import { openData } from "./data.ts";
import type { Recipe } from "./recipe.ts";
import { tinyRecipe } from "./test-run.ts";
import { warmStart } from "./warm-start.ts";

const MAZE = {
  env: "maze_2d/easy",
  options: { protocol: "keyword", prompt: "brief", maxTurns: 40, feedback: false },
} as const;
const entry = { ...MAZE, label: MAZE.env, seeds: [1, 2, 3, 4, 5, 6] };

async function decided(agent: AgentFactory): Promise<Record<string, number>> {
  const trajectories: Trajectory[] = [];
  const host = new EnvHost();
  const env = { id: MAZE.env, options: MAZE.options };
  await playSeeds({ agent, env, seeds: entry.seeds, host, onTrajectory: (one) => trajectories.push(one) });
  await host.close();
  return measureDecisions([{ entry, trajectories }]);
}

describe("An evaluation", () => {
  test("finds the oracle right in every turn, at every distance, turn and junction", async () => {
    const metrics = await decided(builtinAgent("oracle"));
    const { "decisions/count": count, ...shares } = metrics;
    expect(count).toBeGreaterThan(60);
    expect(new Set(Object.values(shares))).toEqual(new Set([1]));
    for (const name of ["by_distance/1", "by_distance/5-8", "by_turn/1", "by_turn/9-16", "by_ways/2", "by_ways/3"]) {
      expect(shares).toHaveProperty([`decisions/accuracy_${name}`]);
    }
  });

  test("counts the turns that came nearer, whoever played them", async () => {
    const metrics = await decided(builtinAgent("random"));
    // By hand: the same episodes once more, a turn at a time.
    const env = await makeWorldEnv(MAZE.env, MAZE.options);
    let [right, count] = [0, 0];
    for (const seed of entry.seeds) {
      const host = new EnvHost();
      const turns: Trajectory[] = [];
      await playSeeds({
        agent: builtinAgent("random"),
        env: { id: MAZE.env, options: MAZE.options },
        seeds: [seed],
        host,
        onTrajectory: (one) => turns.push(one),
      });
      await host.close();
      await env.world.reset(seed);
      for (const { info } of turns[0]?.turns ?? []) {
        const before = (await env.world.solve?.())?.length ?? 0;
        const plan = (await env.world.solve?.())?.[0];
        const [action] = info.actions;
        const outcome = action && (await env.world.act(action));
        const after = (await env.world.solve?.())?.length ?? 0;
        count += 1;
        right += outcome?.ended ? Number(action?.name === plan?.name) : Number(after === before - 1);
      }
    }
    expect(metrics["decisions/count"]).toBe(count);
    expect(metrics["decisions/accuracy"]).toBeCloseTo(right / count, 12);
    expect(right).toBeGreaterThan(0);
  });

  test("has nothing to say of environments without an oracle", async () => {
    const faulty = new URL("../rollout/test-faulty-env.ts", import.meta.url).pathname;
    expect(
      await measureDecisions([{ entry: { env: faulty, options: {}, label: "x", seeds: [1] }, trajectories: [] }]),
    ).toEqual({});
  });
});

/** Log-probabilities of a reply's ids: −0.5 for those that write a part of the command between the tags, `around` for all others. */
function costs(ids: Int32Array, around: number): number[] {
  const { text, offsets } = testModel.renderer.decode(ids);
  const [from, to] = [text.indexOf(">") + 1, text.indexOf("</")];
  return Array.from(offsets, (end, i) => (end > from && (offsets[i - 1] ?? 0) < to ? -0.5 : around));
}

/** A warm start over a learner that finds each reply as likely as `costs` says. */
async function taught(around: number, labels: "oracle" | "played" = "oracle") {
  const recipe = tinyRecipe("none", {
    envs: [MAZE],
    sampling: { maxTokens: 32, contextTokens: 4096 },
    warmStart: { episodes: 4, batch: 4, noise: 0.3, labels, optimizer: { learningRate: 0.001 } },
  });
  const policy = {
    async forwardBackward(data: readonly Datum[]) {
      const outputs = data.map(({ targets }) => {
        const output = new Float32Array(targets.length).fill(-99);
        for (let start = 0, end = 0; start < targets.length; start = end + 1) {
          for (end = start; end < targets.length && (targets[end] as number) >= 0; ) end += 1;
          output.set(costs(targets.slice(start, end), around), start);
        }
        return output;
      });
      return { loss: 1, metrics: {}, outputs, finite: true };
    },
    step: async () => ({ gradNorm: 1, applied: true }),
  } as unknown as Learner;
  const seen: Record<string, number>[] = [];
  await warmStart({
    recipe,
    plan: recipe.warmStart as NonNullable<Recipe["warmStart"]>,
    data: await openData(recipe),
    model: testModel,
    folder: "none",
    policy,
    from: 0,
    onUpdate: async (_, __, metrics) => {
      seen.push(metrics);
    },
    onStop: async () => {},
  });
  return seen[0] as Record<string, number>;
}

describe("A warm start", () => {
  test("measures the actions alone: what stands around them in a reply costs a decision nothing", async () => {
    const [sure, unsure] = [await taught(0), await taught(-9)];
    expect(unsure).toEqual({
      ...sure,
      "speed/trained_tokens": unsure["speed/trained_tokens"],
      "time/step": unsure["time/step"],
      "time/wait": unsure["time/wait"],
    });
    // One to three ids write a direction.
    expect(sure["decisions/nll"]).toBeGreaterThanOrEqual(0.5);
    expect(sure["decisions/nll"]).toBeLessThan(1.6);
    expect(sure["decisions/probability"]).toBeLessThanOrEqual(Math.exp(-0.5));
  });

  test("knows what a blind choice would cost, and speaks of the oracle's moves only", async () => {
    const metrics = await taught(-1);
    expect(metrics["decisions/chance"]).toBeGreaterThan(Math.log(1.5));
    expect(metrics["decisions/chance"]).toBeLessThan(Math.log(4));
    const played = await taught(-1, "played");
    expect(played["decisions/count"]).toBeLessThan(metrics["decisions/count"] ?? 0);
    for (const name of ["by_distance/3-4", "by_turn/1", "by_ways/2"]) {
      expect(metrics).toHaveProperty([`decisions/probability_${name}`]);
    }
  });
});
