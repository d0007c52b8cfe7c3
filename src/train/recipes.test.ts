/** Where the paths of a recipe start. */
import { mkdirSync, mkdtempSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, relative, resolve } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import type { Recipe } from "./recipe.ts";
import { loadRecipe } from "./recipes.ts";

const folder = realpathSync(mkdtempSync(join(tmpdir(), "saccade-recipes-")));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const home = join(folder, "mine");
mkdirSync(home);
const file = join(home, "recipe.mjs");
writeFileSync(
  file,
  `export default {
    name: "mine", model: "../model", steps: 1, optimizer: { learningRate: 1e-4 },
    envs: [{ env: "./worlds/maze.ts#hard" }, { env: "frozen_lake" }, { env: "/abs/world.ts" }],
    warmStart: { files: ["demos.jsonl", "/abs/demos.jsonl"], optimizer: { learningRate: 1e-3 } },
  };`,
);

const envOf = (source: Recipe["envs"][number]) => ("env" in source ? source.env : undefined);

describe("Paths", () => {
  test.each([
    ["an absolute name", file],
    ["a name relative to the working directory", `./${relative(process.cwd(), file)}`],
  ])("in a recipe start at its file, whatever the working directory: %s", (_, name) => {
    const { model, envs, warmStart } = loadRecipe(name);
    expect(model).toBe(join(folder, "model"));
    expect(envs.map(envOf)).toEqual([join(home, "worlds/maze.ts#hard"), "frozen_lake", "/abs/world.ts"]);
    expect(warmStart?.files).toEqual([join(home, "demos.jsonl"), "/abs/demos.jsonl"]);
  });

  test("in overrides start at the working directory", () => {
    const { model, envs, warmStart } = loadRecipe(file, {
      model: "model",
      envs: [{ env: "./other.ts" }],
      warmStart: { files: ["d.jsonl"] },
    });
    expect(model).toBe(resolve("model"));
    expect(envs.map(envOf)).toEqual([resolve("other.ts")]);
    expect(warmStart).toMatchObject({ files: [resolve("d.jsonl")], optimizer: { learningRate: 1e-3 } });
  });

  test("of sources, wherever a recipe takes them, start at its file too", () => {
    const sources = '[{ tickets: "t.jsonl" }, { records: "r.parquet", env: "./task.ts" }, { plan: "../p.yaml" }]';
    const other = join(home, "sources.mjs");
    writeFileSync(
      other,
      `export default { name: "mine", model: "m", steps: 1, optimizer: { learningRate: 1e-4 }, envs: ${sources},
        warmStart: { episodes: 1, envs: ${sources}, optimizer: { learningRate: 1e-3 } }, evaluate: { envs: ${sources} } };`,
    );
    const { envs, warmStart, evaluate } = loadRecipe(other);
    for (const found of [envs, warmStart?.envs, evaluate.envs]) {
      expect(found).toMatchObject([
        { tickets: join(home, "t.jsonl"), weight: 1 },
        { records: join(home, "r.parquet"), env: join(home, "task.ts") },
        { plan: join(folder, "p.yaml") },
      ]);
    }
  });

  test("a model that is made, and environments by id, are left alone", () => {
    expect(loadRecipe("quickstart")).toMatchObject({ model: { preset: "quickstart" }, envs: [{ env: "frozen_lake" }] });
  });
});
