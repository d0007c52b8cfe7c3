/** Training conducted from here and computed at a Tinker server, which is ours: what comes out is what an engine in this process computes. */
import { mkdir, rm } from "node:fs/promises";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { NativeEngine, openEngine, TinkerEngine } from "../engine/index.ts";
import { readPlace } from "../engine/tinker/learner.ts";
import { loadEvents } from "../run/events.ts";
import { type ServeServer, startServer } from "../serve/server.ts";
import type { RecipeInput } from "./recipe.ts";
import { resumeRecipe, signalsEnv, type TestFolder, tinyRecipe, warmFolder } from "./test-run.ts";
import { train } from "./train.ts";

let folder: TestFolder;
let native: NativeEngine;
let server: ServeServer;
const adamw = { name: "adamw", learningRate: 0.003, weightDecay: 0.01 } as const;

beforeAll(async () => {
  process.env.TINKER_API_KEY = "tml-test";
  native = new NativeEngine({ threads: 2 });
  folder = await warmFolder(native, 1);
  await mkdir(join(folder.root, "store"));
  server = await startServer({
    engine: native,
    folder: folder.model,
    name: "policy",
    store: join(folder.root, "store"),
  });
}, 300_000);
afterAll(async () => {
  await server?.close();
  await native?.close();
  await folder?.remove();
});

const settings = () => ({ name: "tinker", url: server.url, model: "policy" });

/** Everything a run logged but times, by kind and step. */
async function logged(run: string): Promise<Record<string, unknown>> {
  const { events } = await loadEvents(run);
  return Object.fromEntries(
    events.flatMap(({ kind, step, metrics }) =>
      Object.entries(metrics)
        .filter(([name]) => !/^(time|speed|memory|cache|log)\//.test(name))
        .map(([name, value]) => [`${kind} ${step} ${name}`, value]),
    ),
  );
}

/** Metrics that both runs have, and the names that only one has. */
function compare(mine: Record<string, unknown>, theirs: Record<string, unknown>) {
  const both = Object.keys(mine).filter((name) => name in theirs);
  const pick = (from: Record<string, unknown>) => Object.fromEntries(both.map((name) => [name, from[name]]));
  return { mine: pick(mine), theirs: pick(theirs), only: Object.keys(mine).filter((name) => !(name in theirs)) };
}

async function both(name: string, changes: Partial<RecipeInput>) {
  const recipe = (engine: RecipeInput["engine"]) =>
    resumeRecipe(folder.model, "kl", { optimizer: adamw, ...changes, engine });
  await train({ recipe: recipe("native"), folder: join(folder.root, `${name} here`), engine: native });
  await train({ recipe: recipe(settings()), folder: join(folder.root, `${name} there`) });
  return compare(await logged(join(folder.root, `${name} here`)), await logged(join(folder.root, `${name} there`)));
}

/** The same server as one that speaks the API and nothing beyond it: it does not announce what only ours takes. */
async function withoutExtensions(url: string): Promise<{ readonly url: string; close(): Promise<void> }> {
  const proxy = createServer(async (request, response) => {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    const { host: _, connection: __, "content-length": ___, ...headers } = request.headers;
    const answer = await fetch(`${url}${request.url}`, {
      method: request.method as string,
      headers: headers as Record<string, string>,
      ...(chunks.length > 0 && { body: Buffer.concat(chunks) }),
    });
    let body = Buffer.from(await answer.arrayBuffer());
    if (request.url?.endsWith("client/config")) {
      const { saccade: ____, ...config } = JSON.parse(body.toString());
      body = Buffer.from(JSON.stringify(config));
    }
    response.writeHead(answer.status, { "content-type": answer.headers.get("content-type") ?? "application/json" });
    response.end(body);
  });
  await new Promise<void>((done) => proxy.listen(0, "127.0.0.1", done));
  const { port } = proxy.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}`,
    close: () => {
      proxy.closeAllConnections();
      return new Promise((done) => proxy.close(() => done()));
    },
  };
}

describe("through a server of the Tinker API", { timeout: 300_000 }, () => {
  test.each<[string, Partial<RecipeInput>]>([
    ["of all weights", {}],
    ["of an adapter", { lora: { rank: 4, alpha: 32, targets: ["q_proj", "k_proj", "v_proj", "o_proj"] }, steps: 4 }],
  ])(
    "a run %s, warm start, references, evaluations and all, logs bit for bit what it logs in this process",
    async (name, changes) => {
      const { mine, theirs, only } = await both(name, changes);
      expect(theirs).toEqual(mine);
      expect(Object.keys(mine).filter((key) => key.endsWith("policy/loss")).length).toBeGreaterThanOrEqual(4);
      expect(Object.keys(mine).some((key) => key.endsWith("policy/kl_reference"))).toBe(true);
      expect(new Set(only.map((key) => key.split(" ")[2]))).toEqual(new Set(["policy/entropy"]));
      expect(Object.entries(mine).filter(([key, value]) => key.endsWith("drift/max") && value !== 0)).toEqual([]);
    },
  );

  test("a run that was interrupted goes on from its checkpoint, which stays at the server, and a sampler opens it", async () => {
    const run = join(folder.root, "interrupted");
    const recipe = resumeRecipe(folder.model, "kl", { optimizer: adamw, engine: settings() });
    const stop = new AbortController();
    const first = await train({
      recipe,
      folder: run,
      signal: stop.signal,
      onStep: ({ step }) => void (step === 3 && stop.abort()),
    });
    expect(first.finished).toBe(false);
    const last = await train({ recipe, folder: run, mode: "resume" });
    expect(last.finished).toBe(true);
    const { mine, theirs } = compare(await logged(join(folder.root, "of all weights here")), await logged(run));
    expect(theirs).toEqual(mine);
    expect(await readPlace(last.model)).toMatchObject({
      server: server.url,
      model: "policy",
      step: expect.any(Number),
    });
    const engine = await openEngine(settings());
    const sampler = await engine.sampler(last.model);
    const chat = await engine.chat(last.model);
    const ids = Int32Array.from(await chat.renderer.reply("go"));
    const { logprobs } = await sampler.sample(
      { ids, images: [] },
      { maxTokens: 2, temperature: 0, seed: 1 },
      { sequence: "a" },
    );
    expect(logprobs.length).toBeGreaterThan(0);
    await engine.close();
  });

  test("a loss of the recipe's own, and advantages of 0, are computed as in this process", async () => {
    const changes = { loss: { name: "dppo" }, steps: 3, envs: [signalsEnv(1)] } as Partial<RecipeInput>;
    const { mine, theirs } = await both("own loss", changes);
    expect(theirs).toEqual(mine);
  });

  test.each(["dro", "gspo", "ppo"])(
    "at a server that does not say it is ours, %s pulls at what it pulls at in this process, and at nothing else",
    async (name) => {
      const foreign = await withoutExtensions(server.url);
      try {
        const engine = { name: "tinker", url: foreign.url, model: "policy" };
        // Weights of 1 are all that the API knows, and the one thing that our own server adds.
        const changes = { loss: { name }, optimizer: { ...adamw, weightDecay: 0 }, steps: 2, envs: [signalsEnv(2)] };
        const run = (at: string, more: Partial<RecipeInput>) =>
          train({
            recipe: tinyRecipe(folder.model, { ...(changes as Partial<RecipeInput>), ...more }),
            folder: join(folder.root, `${name} ${at}`),
            ...(at === "here" && { engine: native }),
          });
        await run("here", {});
        await run("elsewhere", { engine });
        const [mine, theirs] = [
          await logged(join(folder.root, `${name} here`)),
          await logged(join(folder.root, `${name} elsewhere`)),
        ];
        for (const metric of ["policy/loss", "optimizer/grad_norm", "policy/kl_old"]) {
          for (const step of [1, 2]) {
            const key = `train ${step} ${metric}`;
            expect(theirs[key], key).toBeCloseTo(mine[key] as number, 4);
          }
        }
        expect(mine["train 2 optimizer/grad_norm"]).toBeGreaterThan(0.01);
      } finally {
        await foreign.close();
      }
    },
  );

  test("tokens are counted, and cost what the prices say", async () => {
    const engine = await TinkerEngine.open({
      url: server.url,
      patienceMs: 1000,
      prices: { prefill: 1, sample: 2, train: 3 },
    });
    const notes: string[] = [];
    const recipe = tinyRecipe(folder.model, { optimizer: adamw, steps: 1, engine: settings() });
    const run = join(folder.root, "counted");
    const { folder: path } = await train({
      recipe,
      folder: run,
      engine,
      onEvent: ({ kind, message }) => void (kind === "note" && message && notes.push(message)),
    });
    const used = engine.bill.used();
    expect(used.sample).toBeGreaterThan(16);
    expect(used.train).toBeGreaterThan(used.sample);
    expect(engine.bill.cost(used)).toBeCloseTo((used.prefill + 2 * used.sample + 3 * used.train) / 1e6, 12);
    expect(notes.join("\n")).toMatch(/at most .* tokens.*\$[\s\S]*used .* tokens.*\$/);
    await engine.close();
    await rm(path, { recursive: true });
  });

  test.each<[string, Partial<RecipeInput>, RegExp]>([
    [
      "a critic",
      { advantage: { name: "gae" }, critic: { optimizer: adamw } },
      /"tinker" has no critic: leave critic out/,
    ],
    ["a temperature", { sampling: { temperature: 0.7, maxTokens: 4 } }, /set sampling.temperature to 1/],
    ["KL in the loss", { kl: { as: "loss", coefficient: 0.1 } }, /set kl.as to "reward"/],
    ["an entropy bonus", { loss: { name: "ppo", entropy: 0.01 } }, /leave loss.entropy out/],
    ["Muon", { optimizer: { name: "muon", learningRate: 0.01 } }, /set optimizer.name to one of adamw/],
    ["a fresh model", { model: { preset: "nano" } }, /--tokenizer/],
    ["another alpha", { lora: { rank: 4, alpha: 8 } }, /set lora.alpha to 32/],
    ["some layers", { lora: { rank: 4, alpha: 32, targets: ["q_proj"] } }, /lora.targets/],
    ["a frozen part", { freeze: "vision" }, /leave freeze out/],
  ])("a recipe that asks for %s is refused, and the error names the change", async (name, changes, message) => {
    const recipe = tinyRecipe(folder.model, { optimizer: adamw, ...changes, engine: settings() });
    await expect(train({ recipe, folder: join(folder.root, `refused ${name}`) })).rejects.toThrow(message);
  });

  test("another tokenizer than the server's, an unknown model and a missing key are refused", async () => {
    const other = await warmFolder(native, 2);
    const wrong = await openEngine(settings());
    const { createFolder } = await import("../model/folder.ts");
    await createFolder(join(other.root, "other"), { corpus: ["quite other words"], vocab_size: 300, seed: 1 });
    await expect(wrong.learner({ folder: join(other.root, "other"), seed: 0 })).rejects.toThrow(
      /tokenizer is .*--tokenizer/,
    );
    await wrong.close();
    await other.remove();
    await expect(openEngine({ ...settings(), model: "Qwen/none" })).rejects.toThrow(
      /has no model "Qwen\/none".*policy/,
    );
    const key = process.env.TINKER_API_KEY;
    delete process.env.TINKER_API_KEY;
    await expect(openEngine(settings())).rejects.toThrow(/TINKER_API_KEY/);
    process.env.TINKER_API_KEY = key;
  });
});
