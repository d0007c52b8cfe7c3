/** The command that trains a run again, as its page and its card print it: read as a shell and `saccade train` read it, it gives the run's recipe. */
import { execFileSync } from "node:child_process";
import { describe, expect, test } from "vitest";
import "../index.ts";
import type { JsonObject } from "../core/index.ts";
import { loadRecipe, recipeConfig } from "../train/index.ts";
import { type RecipeWords, shippedRecipeWords } from "../train/reproduce.ts";
import { runCommands } from "../viewer/commands.ts";
import { parseSettings } from "./common.ts";

const configOf = (name: string, set: Record<string, unknown> = {}) => recipeConfig(loadRecipe(name, set));
const wordsOf = (config: JsonObject) => shippedRecipeWords(String(config.name), config) as RecipeWords;

/** The configuration that the words give. */
function read(words: string): JsonObject {
  const [name = "", ...rest] = execFileSync("sh", ["-c", `printf '%s\\0' ${words}`], { encoding: "utf8" })
    .split("\0")
    .slice(0, -1);
  const pairs = rest.filter((word) => word !== "--set");
  expect(pairs.length).toBe(rest.length / 2);
  return configOf(name, parseSettings(pairs));
}

describe("The command that trains a run again", () => {
  test.each<[string, string, Record<string, unknown>, string]>([
    ["changes a field", "quickstart", { steps: 6 }, "--set steps=6"],
    ["leaves a part out", "quickstart", { warmStart: null }, "--set warmStart=null"],
    ["leaves a field of a part out", "sokoban-ppo", { loss: { dualClip: null } }, "--set loss.dualClip=null"],
    [
      "leaves out what the run left out and changes the rest",
      "generalist",
      { engine: { packTokens: null, compile: false } },
      "--set engine.compile=false --set engine.packTokens=null",
    ],
    ["names another loss with all of its constants", "sokoban-ppo", { loss: { name: "cispo" } }, "--set 'loss={"],
    [
      "names another engine with all of its settings",
      "generalist",
      { engine: { name: "native", threads: 2 } },
      "--set 'engine={",
    ],
    ["keeps a text that reads as a number a text", "quickstart", { expect: "12" }, `--set 'expect="12"'`],
  ])("%s, and gives the recipe that the run had", (_, name, set, said) => {
    const config = configOf(name, set);
    const { words, complete, left } = wordsOf(config);
    expect(words).toContain(said);
    expect(read(words)).toEqual(config);
    expect([complete, left]).toEqual([true, []]);
  });

  test("says which fields it can't express, and the page says so with it", () => {
    // A version that did not know mixtures wrote the one; the other, as null, `--set` can only leave out.
    const { mixture: _, ...older } = configOf("quickstart", { steps: 6 });
    const config = { ...older, warmStart: { ...(older.warmStart as JsonObject), noise: null } };
    const { words, complete, left } = wordsOf(config);
    expect(words).toContain("--set steps=6");
    expect(words).not.toContain("mixture");
    expect([complete, left.toSorted()]).toEqual([false, ["mixture", "warmStart.noise"]]);
    const commands = runCommands("runs/quickstart", { config } as never, []);
    expect(commands[0]?.note).toContain("warmStart.noise");
  });
});
