/** Which run a recipe belongs to: the same recipe goes on, a changed one starts another, and the manifest says what governed which steps. */
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { ConfigError } from "../core/errors.ts";
import { NativeEngine } from "../engine/index.ts";
import { openRun } from "../run/folder.ts";
import type { Manifest } from "../run/manifest.ts";
import { chooseRun, MAY_CHANGE } from "./continue.ts";
import { type RecipeInput, recipeConfig } from "./recipe.ts";
import { type TestFolder, testFolder, tinyRecipe } from "./test-run.ts";
import { train } from "./train.ts";

let folder: TestFolder;
let engine: NativeEngine;
beforeAll(async () => {
  engine = new NativeEngine({ threads: 1 });
  folder = await testFolder();
});
afterAll(async () => {
  await engine.close();
  await folder.remove();
});

const recipe = (changes: Partial<RecipeInput> = {}) => tinyRecipe(folder.model, { name: "mine", ...changes });
const slow = { optimizer: { learningRate: 1e-5 } };

/** A place for runs, with runs of these recipes in it as if they had been trained. */
async function runs(
  ...made: [name: string, changes: Partial<RecipeInput>, status: "finished" | "stopped"][]
): Promise<string> {
  const root = mkdtempSync(join(folder.root, "runs-"));
  for (const [name, changes, status] of made) {
    const run = await openRun(join(root, name), { config: recipeConfig(recipe(changes)), mode: "new" });
    await run.close(status);
  }
  return join(root, "mine");
}
const either = { mode: "either", named: false } as const;

describe("A recipe", () => {
  test("starts a run where there is none", async () => {
    const path = await runs();
    expect(await chooseRun(recipe(), path, either)).toEqual({ folder: path, what: "new" });
  });

  test("that is unchanged goes on with its unfinished run, and has nothing to do with a finished one", async () => {
    const open = await runs(["mine", {}, "stopped"]);
    expect(await chooseRun(recipe(), open, either)).toEqual({ folder: open, what: "resume" });
    const done = await runs(["mine", {}, "finished"], ["mine-2", { seed: 5 }, "stopped"]);
    expect(await chooseRun(recipe(), done, either)).toEqual({ folder: done, what: "finished" });
  });

  test("that has changed in what a run can't change starts name-2, then name-3, and says why", async () => {
    const path = await runs(["mine", {}, "stopped"]);
    const choice = await chooseRun(recipe({ seed: 5 }), path, either);
    expect(choice).toMatchObject({ folder: `${path}-2`, what: "new" });
    expect(choice.note).toMatch(/differs from that of .*mine \(seed was 0, is 5\), so this is a new run: .*mine-2/);
    const more = await runs(["mine", {}, "finished"], ["mine-2", { seed: 5 }, "stopped"]);
    expect(await chooseRun(recipe({ siblings: 3 }), more, either)).toMatchObject({ folder: `${more}-3`, what: "new" });
    expect(await chooseRun(recipe({ seed: 5 }), more, either)).toMatchObject({ folder: `${more}-2`, what: "resume" });
  });

  test("that has changed in what may change goes on with an unfinished run, and starts another beside a finished one", async () => {
    const open = await runs(["mine", {}, "stopped"]);
    expect(await chooseRun(recipe(slow), open, either)).toMatchObject({ folder: open, what: "resume" });
    const done = await runs(["mine", {}, "finished"]);
    const choice = await chooseRun(recipe(slow), done, either);
    expect(choice).toMatchObject({ folder: `${done}-2`, what: "new", note: expect.stringContaining("it is finished") });
    const further = await chooseRun(recipe({ steps: 9 }), done, { mode: "resume", named: false });
    expect(further).toMatchObject({ folder: done, what: "resume" });
  });

  test("with --new starts another run, whatever is there", async () => {
    const path = await runs(["mine", {}, "stopped"]);
    expect(await chooseRun(recipe(), path, { mode: "new", named: false })).toEqual({
      folder: `${path}-2`,
      what: "new",
    });
  });

  test.each<["resume" | "either", boolean]>([
    ["resume", false],
    ["either", true],
  ])("that may not go on (%s, folder named: %s) is refused with the fields", async (mode, named) => {
    const path = await runs(["mine", {}, "stopped"]);
    const asked = chooseRun(recipe({ seed: 5, ...slow }), path, { mode, named });
    await expect(asked).rejects.toThrow(ConfigError);
    await expect(asked).rejects.toThrow(/another recipe: seed was 0, is 5\. A run can change only steps, optimizer, /);
  });

  test("is the same though this version of Saccade has fields that the run had not", async () => {
    const root = mkdtempSync(join(folder.root, "runs-"));
    const { reduction: _, ...older } = recipeConfig(recipe());
    const run = await openRun(join(root, "mine"), { config: older, mode: "new" });
    await run.close("stopped");
    expect(await chooseRun(recipe(), join(root, "mine"), either)).toMatchObject({ what: "resume" });
  });

  test("may change what the list names, and the list names fields that there are", () => {
    const config = recipeConfig(
      recipe({
        warmStart: { episodes: 1, optimizer: { learningRate: 1 } },
        critic: { optimizer: { learningRate: 1 } },
        kl: { as: "reward", coefficient: 1, target: 1 },
        hub: { repo: "a/b" },
        needs: { hardware: "any" },
      }),
    );
    for (const field of MAY_CHANGE) {
      const found = field.split(".").reduce<unknown>((at, key) => (at as Record<string, unknown>)?.[key], config);
      expect(found, field).toBeDefined();
    }
  });
});

describe("A run that is trained", () => {
  const manifestOf = (path: string) => JSON.parse(readFileSync(join(path, "run.json"), "utf8")) as Manifest;
  const until = async (path: string, step: number, changes: Partial<RecipeInput>) => {
    const stop = new AbortController();
    const onStep = ({ step: now }: { step: number }) => void (now >= step && stop.abort());
    return train({ recipe: recipe(changes), folder: path, engine, signal: stop.signal, onStep });
  };
  const rates = ({ history = [] }: Manifest) =>
    history.map(({ from, to, config }) => [from, to, (config.optimizer as { learningRate: number }).learningRate]);

  test("keeps every configuration with the steps that it governed, and refuses another recipe untouched", {
    timeout: 120_000,
  }, async () => {
    const path = join(mkdtempSync(join(folder.root, "runs-")), "mine");
    const first = recipe().optimizer.learningRate;
    await until(path, 2, {});
    expect(rates(manifestOf(path))).toEqual([[0, undefined, first]]);
    await until(path, 3, slow);
    expect(rates(manifestOf(path))).toEqual([
      [0, 2, first],
      [3, undefined, 1e-5],
    ]);
    const before = readFileSync(join(path, "run.json"), "utf8");
    await expect(train({ recipe: recipe({ siblings: 3 }), folder: path, engine })).rejects.toThrow(
      /another recipe: siblings was 4, is 3/,
    );
    expect(readFileSync(join(path, "run.json"), "utf8")).toBe(before);
    // As before, so the same entry governs on; nothing is claimed that did not run.
    await train({ recipe: recipe(slow), folder: path, engine });
    expect(rates(manifestOf(path))).toEqual([
      [0, 2, first],
      [3, undefined, 1e-5],
    ]);
    expect(manifestOf(path)).toMatchObject({ status: "finished", step: 4 });
  });

  test("keeps its untrained start where its name says so, and its number in its name", {
    timeout: 120_000,
  }, async () => {
    const path = join(mkdtempSync(join(folder.root, "runs-")), "mine-2");
    const fresh = recipe({
      model: { preset: "nano" },
      steps: 1,
      groups: 1,
      siblings: 2,
      filters: [],
      sight: { every: 0 },
    });
    await train({ recipe: fresh, folder: path, engine });
    expect(readFileSync(join(path, "start/config.json"), "utf8")).toContain("Qwen3VL");
    expect(() => readFileSync(join(path, "model/config.json"))).toThrow();
    expect(manifestOf(path).name).toBe("mine-2");
    rmSync(path, { recursive: true });
  });
});
