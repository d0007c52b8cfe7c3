/**
 * Every recipe in this folder resolves, fits its own limits, and plays and trains its first step with what was sampled: at its own temperature, protocol, turns and
 * estimator, drift is exactly 0 at every turn. Models and batches are tiny here; filters are off, so that the episodes of a model that knows nothing reach the learner all the same.
 */
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import { recipeMemory } from "../src/cli/scale.ts";
import { textOf } from "../src/core/index.ts";
import { checkEngineConfig, NativeEngine } from "../src/engine/index.ts";
import { isWorld, makeEnv, playDemo, WorldEnv } from "../src/envs/index.ts";
import { systemBrowser } from "../src/envs/pages/find-browser.ts";
import {
  createFolder,
  findPreset,
  KNOWN_MODELS,
  loadFolder,
  type ModelShape,
  type PresetName,
} from "../src/model/index.ts";
import type { RunEvent } from "../src/run/index.ts";
import { checkRecipe, checkSources, loadRecipe, recipeNames, train } from "../src/train/index.ts";
import { findPages } from "../worlds/miniwob/miniwob.ts";
import "../src/index.ts";

const scratch = mkdtempSync(join(tmpdir(), "saccade-recipes-"));
const tiny = join(scratch, "tiny");
const engine = new NativeEngine({ threads: 2 });

beforeAll(async () => {
  await createFolder(tiny, {
    preset: "nano",
    text: {
      hidden_size: 32,
      intermediate_size: 64,
      num_hidden_layers: 2,
      num_attention_heads: 2,
      num_key_value_heads: 1,
    },
    vision: { hidden_size: 16, intermediate_size: 32, num_heads: 1 },
  });
});

afterAll(async () => {
  await engine.close();
  rmSync(scratch, { recursive: true, force: true });
});

const names = recipeNames();
const required = (process.env.SACCADE_REQUIRE ?? "").split(",");
/** What a recipe's worlds need beside this package is not on every machine; SACCADE_REQUIRE (browser, miniwob) makes its absence a failure. */
const lacks = (name: string) => {
  const worlds = loadRecipe(name).envs.map((source) => ("env" in source ? source.env.split("/")[0] : ""));
  const noBrowser = worlds.some((world) => world === "pages" || world === "miniwob") && systemBrowser() === undefined;
  if (noBrowser && !required.includes("browser")) return true;
  return worlds.includes("miniwob") && findPages() === undefined && !required.includes("miniwob");
};
/** What a recipe of real size names instead of a preset, and the same model's shape. */
const realSize = (name: string) => {
  const { model } = loadRecipe(name);
  return typeof model === "string" ? model : undefined;
};
const gib = 2 ** 30;

test("the guide lists every recipe, and no other", () => {
  const page = readFileSync(join(import.meta.dirname, "..", "docs", "guide", "recipes.md"), "utf8");
  const rows = page.split("\n").flatMap((line) => /^\| (`[^|]*`) \|/.exec(line)?.[1] ?? []);
  const listed = rows.flatMap((row) => [...row.matchAll(/`([a-z0-9*-]+)`/g)].map((match) => match[1] as string));
  const covers = (entry: string, name: string) => new RegExp(`^${entry.replace("*", ".*")}$`).test(name);
  expect(names.filter((name) => !listed.some((entry) => covers(entry, name)))).toEqual([]);
  expect(listed.filter((entry) => !names.some((name) => covers(entry, name)))).toEqual([]);
});

describe.each(names)("%s", (name) => {
  test("passes every check that can be made before a run, and says what to expect", () => {
    const recipe = loadRecipe(name);
    checkRecipe(recipe);
    expect(recipe.name).toBe(name);
    expect(recipe.expect).toMatch(/\w/);
    const place = realSize(name) ? "large" : ".";
    const lines = readFileSync(join(import.meta.dirname, place, `${name}.ts`), "utf8")
      .trimEnd()
      .split("\n");
    expect(lines[0]).toMatch(/^\/\*\*/);
    expect(lines.length).toBeLessThanOrEqual(60);
  });

  test.skipIf(realSize(name))("makes a model that vLLM can serve: language heads of 32 or more", () => {
    const { model } = loadRecipe(name);
    if (typeof model === "string") return;
    expect(model.set.text?.head_dim ?? findPreset(model.preset).text.headDim).toBeGreaterThanOrEqual(32);
  });

  test.skipIf(lacks(name))("an episode of noisy play fits its tokens", async () => {
    const { model, envs, sampling } = loadRecipe(name);
    // A tiny model's words are shorter than those of Qwen: what fits its tokens fits theirs.
    const { renderer } = await loadFolder(typeof model === "string" ? tiny : await folderOf(model));
    for (const source of envs) {
      if (!("env" in source)) throw new Error("a recipe of ours names its environments");
      const { env, options } = source;
      const world = await makeEnv(env, options);
      for (let seed = 0; seed < 4; seed++) {
        const { messages } = await playDemo(env, world, seed, {}, { probability: 0.5, labels: "played" });
        const replies = messages
          .filter(({ role }) => role === "assistant")
          .map((reply) => renderer.reply(textOf(reply)));
        expect(Math.max(...replies.map((ids) => ids.length))).toBeLessThanOrEqual(sampling.maxTokens);
        const given = messages.filter(({ role }) => role !== "assistant");
        const first = renderer.prompt(given.slice(0, 1)).ids.length;
        const turn = Math.max(
          0,
          ...given.slice(1).map((message) => renderer.delta([message], { ended: true }).ids.length),
        );
        const turns = world instanceof WorldEnv ? world.options.maxTurns : Number(options.maxTurns);
        // What the longest possible episode takes, if every reply is as long as the longest of these.
        const longest = first + (turns - 1) * turn + turns * Math.max(...replies.map((ids) => ids.length));
        expect(longest).toBeLessThanOrEqual(sampling.contextTokens);
      }
    }
  });

  test.skipIf(lacks(name))("its first step trains without drift at any turn", async () => {
    const own = loadRecipe(name);
    const recipe = loadRecipe(name, {
      model: tiny,
      engine: "native",
      steps: 1,
      groups: own.siblings === 1 ? 4 : 2,
      siblings: Math.min(own.siblings, 2),
      minibatch: 64,
      filters: [],
      sampling: { maxTokens: Math.min(own.sampling.maxTokens, 16) },
      // Threads of sources are compiled one by one.
      rollout: { workers: "inline" },
      ...(own.warmStart && {
        warmStart: { episodes: 16, batch: 8, threads: Math.min(own.warmStart.threads, 1) },
      }),
      ...(own.critic && { critic: { warmupSteps: 0 } }),
      schedule: { name: "constant" },
      evaluate: { before: false, greedy: false, seeds: [1_000_000_000, 1_000_000_001] },
      sight: { every: 0 },
    });
    const events: RunEvent[] = [];
    const folder = join(scratch, name);
    const result = await train({ recipe, folder, mode: "new", engine, onEvent: (event) => events.push(event) });
    expect(result).toMatchObject({ finished: true, step: 1 });
    const steps = events.filter(({ kind }) => kind === "train");
    expect(steps).toHaveLength(1);
    const metrics = steps[0]!.metrics;
    // A model that knows nothing earns the same everywhere: its mini-batch goes through the learner and pulls at nothing.
    expect((metrics["optimizer/updates"] ?? 0) + (metrics["optimizer/idle"] ?? 0)).toBe(1);
    expect(metrics["drift/max"]).toBe(0);
    const turns = Object.keys(metrics).filter((key) => key.startsWith("drift/turn/"));
    // A task is over with the first reply that calls no tool, and this model knows of none.
    const { env, options } = own.envs[0] as { env: string; options: { maxTurns?: number } };
    expect(turns.length).toBeGreaterThanOrEqual((await isWorld(env)) ? Math.min(2, options.maxTurns ?? 2) : 1);
    for (const key of turns) expect([key, metrics[key]]).toEqual([key, 0]);
    expect(events.filter(({ kind, data }) => kind === "alarm" && JSON.stringify(data).includes('"drift"'))).toEqual([]);
  });
});

describe.each(names.filter(realSize))("%s, at its own size", (name) => {
  test.skipIf(lacks(name))(
    "passes a dry run against the config.json of its model, and of Qwen3-VL-2B, and fits GPUs of 80 GB",
    async () => {
      const own = /([^/]+)-Instruct$/.exec(realSize(name) ?? "")?.[1] ?? "";
      for (const model of new Set([own, "Qwen3-VL-2B"])) {
        const folder = join(scratch, `${name}-${model}`);
        mkdirSync(folder);
        writeFileSync(join(folder, "config.json"), JSON.stringify(KNOWN_MODELS[model]));
        const recipe = loadRecipe(name, { model: folder });
        checkRecipe(recipe);
        checkEngineConfig(recipe.engine);
        await checkSources(recipe);
        const memory = await recipeMemory(recipe);
        expect(memory?.first).toBeGreaterThan(5 * gib);
        expect(memory?.first).toBeLessThan(80e9);
      }
    },
  );

  test("without its model it says how to get it", async () => {
    vi.stubEnv("HF_HUB_CACHE", join(scratch, "empty"));
    await expect(checkSources(loadRecipe(name))).rejects.toThrow(/hf download Qwen\/Qwen\S+-Instruct/);
    vi.unstubAllEnvs();
  });
});

test("a model is found in the Hugging Face cache by its name", async () => {
  const cache = join(scratch, "hub");
  const repository = join(cache, "models--Qwen--Qwen3-VL-8B-Instruct");
  mkdirSync(join(repository, "snapshots", "abc"), { recursive: true });
  mkdirSync(join(repository, "refs"));
  writeFileSync(join(repository, "refs", "main"), "abc");
  writeFileSync(join(repository, "snapshots", "abc", "config.json"), JSON.stringify(KNOWN_MODELS["Qwen3-VL-8B"]));
  vi.stubEnv("HF_HUB_CACHE", cache);
  await checkSources(loadRecipe("maze-2d-instruct-8b"));
  const tooLong = loadRecipe("maze-2d-instruct-8b", { sampling: { contextTokens: 300_000 } });
  await expect(checkSources(tooLong)).rejects.toThrow(/contextTokens is 300000.*262144/);
  const wrong = loadRecipe("maze-2d-instruct-8b", { engine: { name: "native" } });
  await checkSources(wrong);
  writeFileSync(join(repository, "snapshots", "abc", "config.json"), JSON.stringify(KNOWN_MODELS["Qwen2.5-VL-3B"]));
  await expect(checkSources(wrong)).rejects.toThrow(/Qwen2_5_VL/);
  vi.unstubAllEnvs();
});

const folders = new Map<string, Promise<string>>();

/** A folder as the recipe would make it; recipes with the same model share it. */
function folderOf(model: { preset: PresetName; set: ModelShape }): Promise<string> {
  const key = JSON.stringify(model);
  const path = join(scratch, `model-${folders.size}`);
  const made = folders.get(key) ?? createFolder(path, { preset: model.preset, ...model.set }).then(() => path);
  folders.set(key, made);
  return made;
}
