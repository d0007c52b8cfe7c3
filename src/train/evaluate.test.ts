/** Evaluation inside a run. */
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import { EnvHost } from "../rollout/hosts.ts";
import { wilson } from "../rollout/scores.ts";
import { ScriptedSampler, testModel } from "../rollout/test-model.ts";
import { openData } from "./data.ts";
import { evaluate } from "./evaluate.ts";
import type { RecipeInput } from "./recipe.ts";
import { tinyRecipe } from "./test-run.ts";

const folder = mkdtempSync(join(tmpdir(), "saccade-evaluate-"));
afterAll(() => rmSync(folder, { recursive: true }));
const FAULTY = new URL("../rollout/test-faulty-env.ts", import.meta.url).pathname;
const lakes = (more: Record<string, unknown> = {}) => ({
  env: "frozen_lake",
  options: { protocol: "keyword", prompt: "brief", maxTurns: 4, ...more },
});

async function evaluated(changes: Partial<RecipeInput>, words: readonly string[] = ["right", "down"]) {
  const recipe = tinyRecipe("none", { evaluate: { seeds: [5000, 5039] }, ...changes });
  const host = new EnvHost();
  const sampler = new ScriptedSampler((_, call) => `<action>${words[call % words.length]}</action>`);
  const { evaluation: entries } = await openData(recipe);
  const agent = { model: testModel, maxTokens: 30, contextTokens: 4096 };
  try {
    return await evaluate({ recipe, sampler, host, agent, entries });
  } finally {
    await host.close();
  }
}

describe("Evaluation in a run", () => {
  test("keeps two entries of one environment apart, in metrics and in the ids of episodes", async () => {
    const { metrics, trajectories } = await evaluated({ envs: [lakes(), lakes({ size: 3, p: 1 })] });
    const [small, large] = [metrics["eval/success/frozen_lake~2"] ?? 0, metrics["eval/success/frozen_lake"] ?? 0];
    expect(small).toBeGreaterThan(large);
    expect(metrics["eval/success"]).toBeCloseTo((small + large) / 2, 12);
    for (const name of ["success_greedy", "floor", "random", "ceiling", "reward"]) {
      expect(metrics).toHaveProperty([`eval/${name}/frozen_lake~2`]);
    }
    expect(new Set(trajectories.map(({ id }) => id)).size).toBe(80);
    // As `saccade eval` puts the interval of a mean together from those of its parts.
    const parts = [small, large].map((value) => wilson(Math.round(value * 40), 40));
    const half = Math.hypot(...parts.map(({ value, low }) => value - low)) / 2;
    expect(metrics["eval/success_low"]).toBeCloseTo((small + large) / 2 - half, 12);
  });

  test("logs no yardstick that an environment does not have", async () => {
    const { metrics } = await evaluated({ envs: [{ env: FAULTY }] });
    expect(metrics["eval/floor"]).toBeTypeOf("number");
    expect(metrics).not.toHaveProperty("eval/random");
    expect(metrics).not.toHaveProperty("eval/ceiling");
  });

  test("tries each seed as often as the recipe says and estimates pass@k; greedy once", async () => {
    const seen = { envs: [lakes()], evaluate: { seeds: [5000, 5019] as [number, number], repeats: 4 } };
    const { metrics, trajectories } = await evaluated(seen, ["right", "down", "left"]);
    expect(trajectories).toHaveLength(80);
    expect(metrics["eval/episodes"]).toBe(80);
    const solved = new Set(trajectories.filter(({ success }) => success).map(({ seed }) => seed));
    expect(metrics["eval/pass_at/4"]).toBe(solved.size / 20);
    expect(metrics["eval/pass_at/2"]).toBeGreaterThan(metrics["eval/success"] ?? 1);
    expect(metrics["eval/pass_at/2"]).toBeLessThan(metrics["eval/pass_at/4"] ?? 0);
  });

  test.each([0, 3])(
    "plays an episode that failed for our reasons again as often as the recipe says: %i times",
    async (retries) => {
      const log = join(folder, `throws-${retries}`);
      const envs = [{ env: FAULTY, options: { throws: 1, log } }];
      const evaluation = { seeds: [1, 1] as [number, number], greedy: false };
      const { metrics } = await evaluated({ envs, evaluate: evaluation, rollout: { retries } });
      expect(metrics).toMatchObject({ "eval/asked": 1, "eval/episodes": 0, "eval/failed": 1, "eval/success": 0 });
      const throws = readFileSync(log, "utf8")
        .split("\n")
        .filter((line) => line === "throw").length;
      // Once by the model and once by the floor, which stops at once.
      expect(throws).toBe(2 * (retries + 1));
    },
  );

  test("gives up on an episode when the recipe's limit for whole episodes is over", async () => {
    const envs = [{ env: FAULTY, options: { hangs: 1 } }];
    const evaluation = { seeds: [1, 2] as [number, number], greedy: false };
    const { metrics } = await evaluated({ envs, evaluate: evaluation, rollout: { retries: 0, episodeTimeoutMs: 50 } });
    expect(metrics).toMatchObject({ "eval/asked": 2, "eval/episodes": 0, "eval/failed": 2, "eval/floor_failed": 2 });
  });
});
