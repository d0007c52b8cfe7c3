import { spawnSync } from "node:child_process";
import { join, resolve } from "node:path";
import { expect, test } from "vitest";
import type { Costs } from "../train/explain.ts";
import { loadRecipe, recipeNames } from "../train/index.ts";

const root = resolve(import.meta.dirname, "../..");
const explain = (...words: string[]) => explainWith({}, ...words);
const explainWith = (more: Record<string, string>, ...words: string[]) => {
  const { status, stdout, stderr } = spawnSync(process.execPath, ["dist/cli.js", "recipe", "explain", ...words], {
    cwd: root,
    encoding: "utf8",
    env: { ...process.env, ...more },
  });
  expect([status, stderr]).toEqual([0, expect.any(String)]);
  return stdout;
};

test("explains the quickstart in words that fit 80 columns, with tokens, time and memory of this machine", () => {
  const text = explain("quickstart");
  expect(Math.max(...text.split("\n").map((line) => line.length))).toBeLessThanOrEqual(80);
  const flat = text.replace(/\s+/g, " ");
  expect(flat).toContain(
    "imitates 13,600 episodes of the oracle, in which 30 % of the actions are random, in 1,700 updates of 8",
  );
  expect(flat).toContain("130 steps. In each, the model plays 128 tasks 4 times, 512 episodes.");
  expect(flat).toMatch(/On this machine, by a short try: about \d+ (s|minutes) in all/);
  expect(flat).toMatch(/\d\.\d GiB of memory/);
  expect(flat).toContain("Recorded: 2 CPU cores, 5 minutes.");
});

test("what it takes grows with what the recipe does", () => {
  const costs = (...words: string[]) =>
    JSON.parse(explain("examples/templates/task/recipe.ts", "--json", ...words)) as Costs;
  const [short, long] = [costs(), costs("--set", "steps=400", "--set", "warmStart.episodes=8000")];
  expect(long.warmTokens).toBeCloseTo(10 * (short.warmTokens as number));
  expect(long.playedTokens).toBeCloseTo(10 * (short.playedTokens as number));
  expect(long.seconds?.all).toBeGreaterThan(2 * (short.seconds?.all as number));
});

test("a recipe whose pages are not installed is explained, and the words say what is missing", () => {
  const text = explainWith({ SACCADE_MINIWOB: "/nowhere" }, "click").replace(/\s+/g, " ");
  expect(text).toContain(loadRecipe("click").teaches);
  expect(text).toMatch(/Tokens are not counted: .*MiniWoB\+\+/);
});

test.each(recipeNames())("%s is explained without trying it", (name) => {
  const { teaches } = loadRecipe(name);
  const text = explain(join(name), "--no-measure").replace(/\s+/g, " ");
  expect(text).toContain(teaches);
  expect(text).not.toMatch(/undefined|NaN|\[object/);
});
