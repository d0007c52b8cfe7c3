import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { DataError } from "../core/errors.ts";
import { trainedBy } from "../train/model-folder.ts";
import { resolveRecipe } from "../train/recipe.ts";
import { readTrained, shippedModel, shippedModels, writeTrained } from "./trained.ts";

let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "saccade-trained-"));
});
afterAll(() => rm(folder, { recursive: true }));

test("a trained folder tells its environments with their options, its sampling and its history", async () => {
  const lake = { env: "frozen_lake", options: { cellSize: 16, protocol: "keyword" } };
  const recipe = resolveRecipe({
    name: "mine",
    model: folder,
    envs: [lake, { env: "sokoban" }],
    steps: 1,
    sampling: { temperature: 0.7, maxTokens: 12 },
    turns: "split",
    history: 2,
    optimizer: { learningRate: 1e-3 },
  });
  await writeTrained(folder, trainedBy(recipe));
  expect(await readTrained(folder)).toEqual({
    recipe: "mine",
    envs: [lake, { env: "sokoban", options: {} }],
    sampling: { temperature: 0.7, maxTokens: 12 },
    history: 2,
  });
});

test("a folder without the file was not trained here, and a broken one is an error that names it", async () => {
  expect(await readTrained(join(folder, "nowhere"))).toBeUndefined();
  await writeFile(join(folder, "saccade.json"), '{"recipe":');
  await expect(readTrained(folder)).rejects.toThrow(DataError);
  await expect(readTrained(folder)).rejects.toThrow(/saccade\.json was not written by a training run/);
});

test("what ships knows how it was trained", async () => {
  expect(shippedModels()).toEqual(expect.arrayContaining(["generalist", "maze-2d"]));
  const worlds = (await readTrained(shippedModel("generalist") as string))?.envs.map(({ env }) => env) ?? [];
  expect(new Set(worlds).size).toBe(19);
  expect(worlds).toEqual(expect.arrayContaining(["sliding_block/easy", "sokoban"]));
  expect(shippedModel("../recipes")).toBeUndefined();
  const { envs } = (await readTrained(shippedModel("maze-2d") as string)) ?? {};
  expect(envs?.map(({ env }) => env)).toEqual(["maze_2d/easy"]);
});
