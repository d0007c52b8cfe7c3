/**
 * The unmodified tinker-cookbook 0.5.8 from PyPI on our server: `SACCADE_COOKBOOK_PYTHON=… npm run prove -- cookbook`, with a Python of an environment of
 * its own (`pip install torch==2.13.0 'tinker-cookbook[math-rl]==0.5.8'`). Data sets are made by python/cookbook.py; nothing is downloaded.
 */
import { execFile } from "node:child_process";
import { mkdir, readdir, readFile, rename, rm } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { NativeEngine } from "../../engine/index.ts";
import { createFolder } from "../../model/folder.ts";
import { temporaryFolder } from "../../model/test-folder.ts";
import { type ServeServer, startServer } from "../server.ts";

const python = process.env.SACCADE_COOKBOOK_PYTHON ?? "";
/** A name that the cookbook knows; the folder of that name in the working directory is a small model. */
const MODEL = "Qwen/Qwen3-VL-30B-A3B-Instruct";
const run = promisify(execFile);

let root = "";
let engine: NativeEngine;
let server: ServeServer;

type Metrics = Readonly<Record<string, number>>;
type Settings = Readonly<Record<string, string | number>>;

/** Ends with the recipe; what it logged, step by step. */
async function recipe(module: string, settings: Settings): Promise<Metrics[]> {
  const name = module.split(".").join("-");
  const log = join(root, "runs", name);
  const given = { model_name: MODEL, ...settings };
  const args = Object.entries(given).map(([key, value]) => `${key}=${value === "LOG" ? log : value}`);
  await run(python, ["-m", `tinker_cookbook.recipes.${module}`, ...args], options());
  const files = await readdir(log, { recursive: true });
  const file = files.find((one) => one.endsWith("metrics.jsonl")) as string;
  const rows = (await readFile(join(log, file), "utf8")).trim().split("\n");
  return rows.map((row) => JSON.parse(row) as Metrics);
}

function options() {
  return {
    cwd: root,
    maxBuffer: 256 * 1024 * 1024,
    env: {
      ...process.env,
      TINKER_API_KEY: "tml-any",
      TINKER_BASE_URL: server?.url ?? "",
      HF_HUB_OFFLINE: "1",
      HF_HOME: join(root, "cache"),
      TOKENIZERS_PARALLELISM: "false",
    },
  };
}

const column = (rows: readonly Metrics[], key: string) =>
  rows.flatMap((row) => (row[key] === undefined ? [] : [row[key]]));
const mean = (values: readonly number[]) => values.reduce((sum, value) => sum + value, 0) / values.length;

async function open(store: string): Promise<void> {
  engine = new NativeEngine();
  await mkdir(join(root, store), { recursive: true });
  server = await startServer({ engine, folder: join(root, MODEL), name: MODEL, store: join(root, store) });
}

async function close(): Promise<void> {
  await server?.close();
  await engine?.close();
}

beforeAll(async () => {
  expect(python, "SACCADE_COOKBOOK_PYTHON names a Python with tinker-cookbook").toBeTruthy();
  root = await temporaryFolder();
  const script = fileURLToPath(new URL("../../../python/cookbook.py", import.meta.url));
  await run(python, [script, "data", root], options());
  const corpus = (await readFile(join(root, "corpus.txt"), "utf8")).split("\n");
  await createFolder(join(root, MODEL), { preset: "nano", seed: 1, corpus, vocab_size: 768 });
  // The base model is warmed up over the same wire, all its weights, and served again.
  await open("first");
  const { stdout } = await run(python, [script, "warm", root, server.url, MODEL], options());
  const { nll } = JSON.parse(stdout.trim().split("\n").at(-1) as string) as { nll: number[] };
  process.stdout.write(`warm start: nll ${nll[0]} → ${nll.at(-1)}\n`);
  await close();
  await rm(join(root, MODEL), { recursive: true });
  await rename(join(root, "warm"), join(root, MODEL));
  await open("store");
}, 1_200_000);
afterAll(async () => {
  await close();
  await rm(root, { recursive: true, force: true });
});

const RENDERER = "qwen3_vl_instruct";

describe("supervised recipes", () => {
  const plain = { log_path: "LOG", learning_rate: 2e-3, max_steps: 12 };
  test.each<[string, Settings]>([
    ["sl_loop", { ...plain, batch_size: 16 }],
    // Its batch of 128 is fixed: two a time through the data.
    ["sl_basic", { ...plain, num_epochs: 6, eval_every: 4 }],
    ["chat_sl.train", { ...plain, batch_size: 16, eval_every: 4, save_every: 5, rolling_save_every: 2 }],
    [
      "prompt_distillation.train",
      { ...plain, batch_size: 16, file_path: "conversations.jsonl", renderer_name: RENDERER },
    ],
  ])("%s learns its conversations", async (module, settings) => {
    const rows = await recipe(module, settings);
    const nll = column(rows, "train_mean_nll");
    const held = column(rows, "test/nll");
    process.stdout.write(
      `${module}: nll ${nll[0]} → ${nll.at(-1)} in ${nll.length} steps; test/nll ${held.join(" ")}\n`,
    );
    expect(nll.length).toBe(plain.max_steps);
    expect(nll.at(-1)!).toBeLessThan(0.6 * nll[0]!);
  });
});

/** What a recipe must get better at, by a metric that it logs. */
type Better = { readonly key: string; readonly by: number };
const REWARD = "env/all/reward/total";

describe("rewarded recipes", () => {
  const renderer = { renderer_name: RENDERER };
  const builder = "tinker_cookbook.recipes.math_rl.math_env:Gsm8kDatasetBuilder";
  const gsm8k = {
    dataset_builder: builder,
    "dataset_builder.batch_size": 8,
    "dataset_builder.group_size": 8,
    "dataset_builder.model_name_for_tokenizer": MODEL,
    "dataset_builder.renderer_name": RENDERER,
  };
  test.each<[string, Better, Settings]>([
    [
      "rl_loop",
      { key: "reward/total", by: 0.1 },
      { batch_size: 8, group_size: 8, max_tokens: 16, learning_rate: 4e-3, max_steps: 12 },
    ],
    ["rl_basic", { key: REWARD, by: 0.1 }, { ...gsm8k, max_tokens: 16, learning_rate: 4e-3, max_steps: 12 }],
    [
      // To add is beyond so small a model; that a reply of five tokens must end is not.
      "math_rl.train",
      { key: "env/all/format", by: 0.02 },
      { ...renderer, env: "arithmetic", groups_per_batch: 16, group_size: 8, learning_rate: 2e-3, max_steps: 10 },
    ],
    [
      "multiplayer_rl.guess_number.train",
      { key: REWARD, by: 0.5 },
      { ...renderer, batch_size: 8, group_size: 8, max_tokens: 12, learning_rate: 4e-3, max_steps: 10, eval_every: 0 },
    ],
    [
      "preference.shorter.train",
      { key: "env/all/ac_tokens_per_turn", by: -1 },
      { ...renderer, batch_size: 8, group_size: 4, max_tokens: 48, learning_rate: 1e-3, max_steps: 10, eval_every: 0 },
    ],
  ])("%s learns, and sampler and learner agree to the bit", async (module, { key, by }, settings) => {
    const rows = await recipe(module, { log_path: "LOG", ...settings });
    const values = column(rows, key);
    const drift = [...column(rows, "optim/kl_sample_train_v1"), ...column(rows, "optim/kl_sample_train_v2")];
    const most = Math.max(0, ...drift.map(Math.abs));
    const [first, last] = [mean(values.slice(0, 3)), mean(values.slice(-3))];
    const shown = values.map((one) => one.toFixed(3)).join(" ");
    process.stdout.write(
      `${module}: ${key} ${first.toFixed(3)} → ${last.toFixed(3)} (${shown}); drift ${most} in ${drift.length} rows\n`,
    );
    expect(values.length).toBe(settings.max_steps);
    // The loop without abstractions does not compare them.
    if (module !== "rl_loop") expect(drift.length).toBeGreaterThan(4);
    expect(drift.every((one) => one === 0)).toBe(true);
    expect((last - first) / by).toBeGreaterThan(1);
  });
});

test("vlm_classifier learns to see", async () => {
  const rows = await recipe("vlm_classifier.train", {
    experiment_dir: "LOG",
    renderer_name: RENDERER,
    learning_rate: 4e-3,
    batch_size: 32,
    num_epochs: 3,
    eval_every: 16,
    n_eval: 64,
    max_tokens: 12,
  });
  const nll = column(rows, "train_mean_nll");
  const key = Object.keys(Object.assign({}, ...rows) as Metrics).find((one) => one.includes("accuracy")) as string;
  const accuracy = column(rows, key);
  process.stdout.write(`vlm_classifier: nll ${nll[0]} → ${mean(nll.slice(-4))}, ${key} ${accuracy.join(" ")}\n`);
  expect(mean(nll.slice(-4))).toBeLessThan(0.8 * nll[0]!);
  expect(accuracy[0]!).toBeLessThan(0.4);
  expect(accuracy.at(-1)!).toBeGreaterThanOrEqual(0.8);
});
