/**
 * Our client against SkyRL's own Tinker server (skyrl[tinker,jax] from PyPI, text only on the CPU): it learns from demonstrations and from reward, and what it
 * can't do is refused by name. SACCADE_SKYRL_PYTHON names a Python that has it; `npm run prove -- skyrl`.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { copyFile, mkdir, readFile, writeFile } from "node:fs/promises";
import { type AddressInfo, createServer } from "node:net";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type Engine, NativeEngine, openEngine } from "../engine/index.ts";
import { readWeights } from "../model/folder.ts";
import { LANGUAGE_PREFIX } from "../model/parameters.ts";
import { writeSafetensors } from "../model/safetensors.ts";
import type { RecipeInput } from "./recipe.ts";
import { signalsEnv, type TestFolder, tinyRecipe, warmFolder } from "./test-run.ts";
import { train } from "./train.ts";

const python = process.env.SACCADE_SKYRL_PYTHON;

/** Batches of one size are compiled once. */
const BATCHES = { max_lora_adapters: 8, max_lora_rank: 8, sample_max_num_sequences: 128, train_micro_batch_size: 32 };

/** The language part of one of our models as a Qwen3 folder: without images they compute the same. */
async function languageFolder(from: string, to: string): Promise<void> {
  await mkdir(to, { recursive: true });
  const config = JSON.parse(await readFile(join(from, "config.json"), "utf8")) as Record<string, unknown>;
  const { rope_scaling: _, rope_parameters: ropes, ...text } = config.text_config as Record<string, unknown>;
  const qwen = {
    ...text,
    architectures: ["Qwen3ForCausalLM"],
    model_type: "qwen3",
    dtype: "float32",
    rope_theta: (ropes as { rope_theta?: number } | undefined)?.rope_theta ?? text.rope_theta,
    tie_word_embeddings: config.tie_word_embeddings,
  };
  await writeFile(join(to, "config.json"), JSON.stringify(qwen));
  const weights = [...(await readWeights(from))].flatMap(([name, tensor]) => {
    if (name.startsWith(LANGUAGE_PREFIX)) return [[`model.${name.slice(LANGUAGE_PREFIX.length)}`, tensor] as const];
    return name.startsWith("lm_head") ? [[name, tensor] as const] : [];
  });
  await writeSafetensors(join(to, "model.safetensors"), weights);
  for (const file of ["tokenizer.json", "tokenizer_config.json"]) await copyFile(join(from, file), join(to, file));
}

async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((up) => server.listen(0, "127.0.0.1", up));
  const { port } = server.address() as AddressInfo;
  await new Promise((done) => server.close(done));
  return port;
}

describe.runIf(python)("SkyRL's server", () => {
  let folder: TestFolder;
  let server: ChildProcess;
  let url = "";
  let native: NativeEngine;
  let engine: Engine;
  let said = "";

  beforeAll(async () => {
    process.env.TINKER_API_KEY = "tml-dummy";
    native = new NativeEngine({ threads: 2 });
    // It was shown random words for colours that it reads.
    folder = await warmFolder(native, 1, { observation: "text" });
    const served = join(folder.root, "served");
    await languageFolder(folder.model, served);
    const port = await freePort();
    url = `http://127.0.0.1:${port}`;
    const script = fileURLToPath(new URL("../../python/skyrl_server.py", import.meta.url));
    const options = {
      "--base-model": served,
      "--port": String(port),
      "--backend-config": JSON.stringify(BATCHES),
      "--database-url": `sqlite:///${join(folder.root, "tinker.db")}`,
      "--checkpoints-base": join(folder.root, "kept"),
    };
    server = spawn(python as string, [script, ...Object.entries(options).flat()], {
      env: { ...process.env, JAX_PLATFORMS: "cpu" },
      stdio: ["ignore", "pipe", "pipe"],
      detached: true,
    });
    for (const stream of [server.stdout, server.stderr])
      stream?.on("data", (part: Buffer) => {
        said = (said + part.toString()).slice(-4000);
      });
    server.once("exit", (code) => console.log(`SkyRL's server ended with ${code}: ${said}`));
    engine = await openEngine({ name: "tinker", url, patienceMs: 120_000 });
  });
  afterAll(async () => {
    await engine?.close();
    if (server?.pid !== undefined) process.kill(-server.pid);
    await native?.close();
    await folder?.remove();
  });

  const recipe = (changes: Partial<RecipeInput>) =>
    tinyRecipe(folder.model, {
      seed: 1,
      envs: [signalsEnv(1, { observation: "text" })],
      lora: { rank: 8, alpha: 32 },
      optimizer: { learningRate: 0.01, maxGradNorm: 0 },
      engine: { name: "tinker", url },
      ...changes,
    });
  const play = (name: string, changes: Partial<RecipeInput>, onEvent?: Parameters<typeof train>[0]["onEvent"]) =>
    train({ recipe: recipe(changes), folder: join(folder.root, name), engine, ...(onEvent && { onEvent }) });

  test("scores a text as our own engine does, but for the ids of images", async () => {
    const chat = await engine.chat(folder.model);
    const { ids } = await chat.renderer.prompt([{ role: "user", content: [{ type: "text", text: "red" }] }]);
    const targets = Int32Array.from(ids, (_, i) => ids[i + 1] ?? -1);
    const datum = { input: { ids, images: [] }, targets, weights: new Float32Array(ids.length) };
    const scores = async (of: Engine) => (await (await of.sampler(folder.model)).score([datum]))[0]?.logprobs ?? [];
    const [theirs, ours] = [await scores(engine), await scores(native)];
    const learner = await engine.learner({ folder: folder.model, lora: { rank: 8, alpha: 32 }, seed: 0 });
    const [learned] = await learner.forward([datum]);
    const gaps = (one: ArrayLike<number>, other: ArrayLike<number>) =>
      Array.from(one, (value, i) => value - (other[i] as number)).slice(0, -1);
    const own = Math.max(...gaps(theirs, learned?.logprobs ?? []).map(Math.abs));
    const above = gaps(ours, theirs);
    const [least, most] = [Math.min(...above), Math.max(...above)];
    console.log(`their sampler and learner: ${own}; ours less theirs: ${least} to ${most}`);
    expect(own).toBeLessThan(1e-4);
    // Ours never says the ids of images, so what the model would give them goes to all others.
    expect(least).toBeGreaterThan(-1e-4);
    expect(most).toBeLessThan(0.05);
  });

  test("learns from demonstrations: the loss falls", async () => {
    const losses: number[] = [];
    const warmStart = { episodes: 320, batch: 16, optimizer: { learningRate: 0.01, maxGradNorm: 0 } };
    await play("demonstrations", { steps: 0, warmStart }, ({ kind, metrics }) => {
      if (kind === "sft") losses.push(metrics["sft/nll"] as number);
    });
    console.log(`sft/nll: ${losses.map((loss) => loss.toFixed(3)).join(" ")}`);
    expect(losses.at(-1)).toBeLessThan(0.5 * (losses[0] as number));
  });

  test("learns from reward alone, by groups of siblings: success rises", async () => {
    const rewards: number[] = [];
    const success: number[] = [];
    const changes: Partial<RecipeInput> = {
      steps: 40,
      groups: 16,
      siblings: 8,
      loss: { name: "ppo" },
      optimizer: { learningRate: 0.005, maxGradNorm: 0 },
      evaluate: { every: 40, before: true, greedy: false, seeds: [1_000_000_000, 1_000_000_063], decisions: false },
      checkpoint: { every: 40 },
    };
    await play("reward", changes, ({ kind, metrics }) => {
      if (kind === "train") rewards.push(metrics["reward/task"] as number);
      if (kind === "eval") success.push(metrics["eval/success"] as number);
    });
    console.log(`reward: ${rewards.map((one) => one.toFixed(2)).join(" ")}; success ${success.join(" → ")}`);
    expect(success.at(-1)).toBeGreaterThan((success[0] as number) + 0.3);
  });

  test.each<[string, Partial<RecipeInput>, RegExp]>([
    ["images", { envs: [signalsEnv(1)] }, /drops images/],
    ["gspo", { loss: { name: "gspo" } }, /does not know the loss "gspo": choose one of/],
    ["a loss of one's own", { loss: { name: "dppo" } }, /"dppo", a function/],
    ["clipping", { optimizer: { learningRate: 0.01 } }, /does not clip gradients: set optimizer.maxGradNorm to 0/],
    [
      "two phases",
      { warmStart: { episodes: 8, optimizer: { learningRate: 0.01, maxGradNorm: 0 } } },
      /set steps to 0, or leave warmStart out/,
    ],
    ["KL in the loss", { kl: { as: "loss", coefficient: 0.1 } }, /set kl.as to "reward"/],
  ])("%s are refused by name", async (name, changes, message) => {
    await expect(play(`no ${name}`, changes)).rejects.toThrow(message);
  });

  test("had nothing to say", () => {
    expect(said).not.toMatch(/Traceback/);
  });
});
