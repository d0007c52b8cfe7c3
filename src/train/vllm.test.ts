/**
 * A checkpoint in the real vLLM: the folder that a run writes loads as it is, and greedy replies there are our own sampler's, id for id. And a run
 * that samples there: no drift, with its pixels or ours, with adapters, rendered apart and asleep while it learns, and through kills.
 * Runs where SACCADE_VLLM_PYTHON names the Python of an environment with vLLM (python/vllm_cpu.py makes one); SACCADE_REQUIRE=vllm makes
 * its absence a failure.
 */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { Json, JsonObject } from "../core/json.ts";
import { assistant, type Message } from "../core/message.ts";
import type { Engine, Sampler } from "../engine/engine.ts";
import { NativeEngine } from "../engine/index.ts";
import { openEngine } from "../engine/registry.ts";
import { CPU_SETTINGS, TORCH } from "../engine/torch/test-worker.ts";
import { startVllm, type VllmServer } from "../engine/vllm/launch.ts";
import { makeEnv } from "../envs/registry.ts";
import { toOpenAI } from "../images/openai.ts";
import { type CreateOptions, createFolder } from "../model/folder.ts";
import { loadFolder } from "../model/index.ts";
import { findAlarms } from "../run/alarms.ts";
import type { Metrics, RunEvent } from "../run/events.ts";
import { readTrajectories } from "../run/trajectories.ts";
import { rowOf } from "../viewer/row.ts";
import type { Recipe, RecipeInput } from "./recipe.ts";
import { signalsEnv, TINY, tinyRecipe } from "./test-run.ts";
import { train } from "./train.ts";

const python = process.env.SACCADE_VLLM_PYTHON;
const LOOKS = signalsEnv(3, { side: 64 });
const MUON = { name: "muon", learningRate: 0.02, adamLearningRate: 0.01 } as const;
/** vLLM serves no head below 32. The model takes more tokens, and larger images, than the servers below. */
const SERVABLE: CreateOptions = {
  ...TINY,
  max_pixels: 640 * 32 ** 2,
  text: { ...TINY.text, head_dim: 32, mrope_section: [6, 5, 5], max_position_embeddings: 1024 },
};
const required = (process.env.SACCADE_REQUIRE ?? "").split(",").includes("vllm");

test.runIf(required)("an environment with vLLM is there when it is required", () => {
  expect(python, "SACCADE_VLLM_PYTHON names the Python of an environment with vLLM").toBeTruthy();
});

describe.runIf(python)("the real vLLM", () => {
  let root = "";
  let model = "";
  let server: VllmServer | undefined;
  /** Renders only. */
  let renderer: VllmServer | undefined;
  const start = (port?: number) =>
    startVllm({
      python: python as string,
      model,
      contextTokens: 512,
      images: 24,
      loraRank: 8,
      transfer: true,
      ...(port !== undefined && { port }),
    });
  const recipe = (sampler: Record<string, Json>, changes: Partial<RecipeInput> = {}) =>
    tinyRecipe(join(root, "model"), {
      envs: [LOOKS],
      warmStart: { episodes: 320, noise: 0.1, batch: 32, optimizer: MUON },
      steps: 3,
      engine: { learner: { name: "native", threads: 2 }, sampler: { vllm: [server?.url as string], ...sampler } },
      ...changes,
    });
  /** Trains and says, step by step, what was measured. No episode is handed to the learner twice. */
  const follow = async (name: string, given: Recipe, onStep?: (step: number) => void) => {
    const steps: Metrics[] = [];
    const played: string[] = [];
    const { finished } = await train({
      recipe: {
        ...given,
        // Pays nothing; it is shown every episode that is trained.
        judge: async ({ id }) => {
          played.push(id);
          return [];
        },
      },
      folder: join(root, name),
      onEvent: ({ kind, metrics }) => {
        if (kind !== "train") return;
        steps.push(metrics);
        onStep?.(steps.length);
      },
    });
    expect(finished).toBe(true);
    expect(played.length).toBe(steps.length * given.groups * given.siblings);
    expect(new Set(played).size).toBe(played.length);
    return steps;
  };
  const expectNoDrift = (steps: readonly Metrics[]) => {
    for (const metrics of steps) {
      const turns = Object.entries(metrics).filter(([key]) => key.startsWith("drift/turn/"));
      expect(turns.length).toBe(3);
      for (const [turn, drift] of turns) expect(drift, turn).toBeLessThan(1e-4);
    }
  };
  /** Every episode that was asked for was trained, once. */
  const expectWhole = (steps: readonly Metrics[], count: number) => {
    expect(steps.length).toBe(count);
    for (const metrics of steps) {
      expect(metrics).toMatchObject({ "groups/trained": 4, "episodes/engine_errors": 0, "episodes/retries": 0 });
    }
  };

  beforeAll(async () => {
    root = await mkdtemp(join(tmpdir(), "saccade-vllm-"));
    await createFolder(join(root, "model"), SERVABLE);
    const recipe = tinyRecipe(join(root, "model"), {
      envs: [LOOKS],
      warmStart: { episodes: 960, noise: 0.1, batch: 32, optimizer: MUON },
      steps: 3,
    });
    ({ model } = await train({ recipe, folder: join(root, "run") }));
    const aside = startVllm({ python: python as string, model, contextTokens: 512, images: 24, renderOnly: true });
    [server, renderer] = await Promise.all([start(), aside]);
  }, 600_000);
  afterAll(async () => {
    await Promise.all([server?.close(), renderer?.close()]);
    await rm(root, { recursive: true, force: true });
  });

  test("a run's checkpoint loads, and greedy replies to several images are ours, id for id", async () => {
    const { url, name } = server as VllmServer;
    const { renderer, generation } = await loadFolder(model);
    const engine = new NativeEngine({ threads: 2 });
    try {
      const sampler = await engine.sampler(model);
      const said = new Set<string>();
      for (let i = 0; i < 8; i++) {
        const messages = await conversation(i);
        const prompt = renderer.prompt(messages);
        const params = { maxTokens: 24, temperature: 0, seed: 0, stopIds: generation.eos };
        const ours = await sampler.sample(prompt, params, { sequence: `conversation ${i}` });
        const theirs = await askVllm(url, name, messages);
        expect(theirs.prompt_token_ids).toEqual([...prompt.ids]);
        expect(theirs.choices[0]?.token_ids).toEqual([...ours.ids]);
        said.add(String(ours.ids));
      }
      // Replies that all read the same would show little.
      expect(said.size).toBeGreaterThan(1);
    } finally {
      await engine.close();
    }
  }, 120_000);

  test.each(["server", "own"])(
    "what it samples is what the learner computes, with pixels of its own and of ours (%s)",
    async (renderer) => {
      const steps = await follow(renderer, recipe({ renderer }));
      expectWhole(steps, 3);
      expectNoDrift(steps);
    },
    300_000,
  );

  test("images rendered by a server apart, and servers that sleep while it learns", async () => {
    const before = await requestsOf(server);
    const given = recipe({ render: [renderer?.url as string], sleep: true });
    const steps = await follow("apart", given);
    expectWhole(steps, 3);
    expectNoDrift(steps);
    const asked = (route: string, counts: ReadonlyMap<string, number>) => counts.get(route) ?? 0;
    const [after, aside] = [await requestsOf(server), await requestsOf(renderer)];
    expect(asked("/v1/chat/completions/render", aside)).toBeGreaterThan(0);
    const more = (route: string) => asked(route, after) - asked(route, before);
    expect(more("/v1/chat/completions/render")).toBe(0);
    // Once after each publication but the last, which nothing is learned after.
    expect([more("/sleep"), more("/wake_up")]).toEqual([3, 3]);
  }, 300_000);

  test("a model that looks is not called blind, and no frame is marked as another: with the server's pixels and with ours", async () => {
    for (const renderer of ["server", "own"]) {
      const { warmStart: _, ...given } = recipe({ renderer }, { model, sight: { every: 3, episodes: 40 } });
      const events: RunEvent[] = [];
      const seeds: [number, number] = [1_000_000_000, 1_000_000_039];
      const evaluate = { ...given.evaluate, seeds };
      const folder = join(root, `sight-${renderer}`);
      await train({ recipe: { ...given, evaluate }, folder, onEvent: (event) => events.push(event) });
      const probes = events.filter(({ kind }) => kind === "sight").map(({ metrics }) => metrics);
      expect(probes.length).toBe(2);
      for (const metrics of probes) {
        expect(metrics).toMatchObject({ "sight/episodes": 40, "sight/hash_mismatches": 0 });
        expect(metrics["sight/gap_low"]).toBeGreaterThan(0.3);
        expect(metrics["sight/success"]).toBeGreaterThan((metrics["sight/success_grey"] as number) + 0.3);
      }
      expect(findAlarms(events).filter(({ kind }) => kind === "blind")).toEqual([]);
      const trained = (await readTrajectories(folder, 3)).filter(({ split }) => split === "train");
      expect(trained.length).toBeGreaterThan(8);
      for (const record of trained) {
        expect(rowOf(record)?.frames).toEqual({ checked: 3, mismatched: 0 });
        const images = record.tokens?.flatMap((sequence) => sequence.images) ?? [];
        expect(images.map(({ learnerHash }) => learnerHash)).toEqual(record.turns.flatMap(({ frames }) => frames));
      }
    }
  }, 300_000);

  test.each(["server", "own"])(
    "a prompt over its limit stops the run in our words, and the server is never asked (%s)",
    async (renderer) => {
      const before = await requestsOf(server);
      // One image of 24 × 24 tokens; the server's limit is 512.
      const sampling = { maxTokens: 4, contextTokens: 1024 };
      const { warmStart: _, ...given } = recipe({ renderer }, { envs: [signalsEnv(1, { side: 768 })], sampling });
      const notes: (string | undefined)[] = [];
      const outcome = await train({
        recipe: given,
        folder: join(root, `long-${renderer}`),
        onEvent: ({ kind, message }) => void (kind === "note" && notes.push(message)),
      }).catch(String);
      expect(outcome).toMatch(/16 of 16 episodes of step 1 failed/);
      expect(outcome).toMatch(
        /The first prompt has 5\d\d tokens, and the context has 512 \(.*max_model_len, below sampling\.contextTokens, 1024\)/,
      );
      expect(outcome).not.toMatch(/\b400\b|Input length/);
      expect(notes).toContainEqual(expect.stringMatching(/takes at most 512 .*max_model_len/));
      const after = await requestsOf(server);
      const route = "/v1/chat/completions/render";
      // The renderer's own three at its start; and the one sample by which we try the route.
      expect((after.get(route) ?? 0) - (before.get(route) ?? 0)).toBe(renderer === "server" ? 3 : 0);
      expect((after.get(GENERATE) ?? 0) - (before.get(GENERATE) ?? 0)).toBe(1);
    },
    120_000,
  );

  describe("a sampler there", () => {
    let engine: Engine;
    let sampler: Sampler;
    beforeAll(async () => {
      engine = await openEngine({
        learner: { name: "native", threads: 2 },
        sampler: { vllm: [server?.url as string] },
      });
      sampler = await (await engine.learner({ folder: model, seed: 0 })).publish();
    }, 120_000);
    afterAll(async () => {
      await sampler?.close();
      await engine?.close();
    });

    test("tells ids as they are drawn, the ones that it returns", async () => {
      const prompt = await (await engine.chat(model)).renderer.prompt(await conversation(3));
      const params = { maxTokens: 24, temperature: 2, seed: 11 };
      const whole = await sampler.sample(prompt, params, { sequence: "whole" });
      const told: number[] = [];
      const logprobs: number[] = [];
      const onToken = (id: number, logprob: number) => {
        told.push(id);
        logprobs.push(logprob);
      };
      const streamed = await sampler.sample(prompt, params, { sequence: "streamed", onToken });
      expect(told).toEqual([...streamed.ids]);
      expect(Float32Array.from(logprobs)).toEqual(streamed.logprobs);
      expect(streamed.ids).toEqual(whole.ids);
      expect(streamed.versions).toEqual(whole.versions);
      expect(told.length).toBe(24);
    });

    test("survives more prompts than fit into one batch, and each keeps its seed", async () => {
      const promptOf = (seed: number) => ({
        ids: Int32Array.from({ length: 400 }, (_, i) => 5 + ((seed + i) % 90)),
        images: [],
      });
      const draw = (seed: number, name: string) =>
        sampler.sample(promptOf(seed), { maxTokens: 8, temperature: 1, seed }, { sequence: `${name} ${seed}` });
      const seeds = Array.from({ length: 32 }, (_, seed) => seed);
      const crowd = await Promise.all(seeds.map((seed) => draw(seed, "crowd")));
      for (const seed of [0, 13, 31]) expect((await draw(seed, "alone")).ids).toEqual(crowd[seed]?.ids);
    });
  });

  test.runIf(TORCH)(
    "weights from a torch learner's memory, over the weight-transfer routes",
    async () => {
      const before = await requestsOf(server);
      const sampler = { vllm: [server?.url as string], transfer: {} };
      const given = recipe({}, { engine: { learner: { name: "torch", ...CPU_SETTINGS } as JsonObject, sampler } });
      const steps = await follow("transfer", given);
      expectWhole(steps, 3);
      expectNoDrift(steps);
      const after = await requestsOf(server);
      const more = (route: string) => (after.get(route) ?? 0) - (before.get(route) ?? 0);
      // Before the first step and after each that moved the weights: siblings with equal rewards move nothing.
      const moved = steps.filter((metrics) => (metrics["optimizer/grad_norm"] ?? 0) > 0).length;
      expect(moved).toBeGreaterThan(0);
      expect([more("/finish_weight_update"), more("/pause")]).toEqual([moved + 1, moved + 1]);
    },
    300_000,
  );

  test("adapters: one per version, and what they sample is what the learner computes", async () => {
    const given = recipe({}, { lora: { rank: 4, alpha: 8 }, freeze: "vision" });
    const steps = await follow("adapters", given);
    expectWhole(steps, 3);
    expectNoDrift(steps);
  }, 300_000);

  test("two servers, one of which is killed −9 in the middle: play goes on, nothing is lost, nothing is trained twice", async () => {
    const other = await start();
    try {
      const urls = [other.url, server?.url as string];
      let before: Promise<Map<string, number>> | undefined;
      const steps = await follow("two", recipe({ vllm: urls }, { steps: 4 }), (step) => {
        if (step === 1) before = requestsOf(other);
        if (step === 2) setTimeout(() => process.kill(-other.pid, "SIGKILL"), 20);
      });
      expectWhole(steps, 4);
      expectNoDrift(steps);
      expect((await before)?.get(GENERATE)).toBeGreaterThan(0);
      await expect(fetch(`${other.url}/health`)).rejects.toThrow();
    } finally {
      await other.close();
    }
  }, 600_000);

  test("killed −9 in the middle and started again: nothing is lost, nothing is trained twice", async () => {
    const { url, pid, ended } = server as VllmServer;
    const restarted = new Promise<void>((done) => {
      void ended.then(async () => {
        server = await start(Number(new URL(url).port));
        done();
      });
    });
    const steps = await follow("killed", recipe({}, { steps: 4 }), (step) => {
      // Just after a publication: episodes of the next step are being played.
      if (step === 2) setTimeout(() => process.kill(-pid, "SIGKILL"), 20);
    });
    await restarted;
    expectWhole(steps, 4);
    expectNoDrift(steps);
  }, 600_000);
});

const GENERATE = "/inference/v1/generate";
/** vLLM closes a connection after five idle seconds, and a test that trains in between learns of that only when it writes into it. */
const ALONE = { headers: { connection: "close" } };

/** How often each route was asked, by the server's own count. */
async function requestsOf(server: VllmServer | undefined): Promise<Map<string, number>> {
  const text = await (await fetch(`${server?.url}/metrics`, ALONE)).text();
  const counts = new Map<string, number>();
  for (const [, route, count] of text.matchAll(/^http_requests_total\{handler="([^"]+)".*\} (\S+)$/gm)) {
    counts.set(route as string, (counts.get(route as string) ?? 0) + Number(count));
  }
  return counts;
}

type Answer = { prompt_token_ids: number[]; choices: { token_ids: number[] }[] };

async function askVllm(url: string, model: string, messages: readonly Message[]): Promise<Answer> {
  const body = {
    model,
    messages: toOpenAI(messages),
    temperature: 0,
    max_tokens: 24,
    return_token_ids: true,
  };
  const answer = await fetch(`${url}/v1/chat/completions`, {
    method: "POST",
    headers: { ...ALONE.headers, "content-type": "application/json" },
    body: JSON.stringify(body),
  });
  expect(answer.status, await answer.clone().text()).toBe(200);
  return (await answer.json()) as Answer;
}

/** Three looks of an episode, answered at random: as a policy meets them. */
async function conversation(seed: number): Promise<Message[]> {
  const env = await makeEnv(LOOKS.env, { ...LOOKS.options, prompt: "brief" });
  const messages = [...(await env.reset(seed))];
  for (const word of seed % 2 === 0 ? ["go", "halt"] : ["wait", "wait"]) {
    messages.push(assistant(word), ...(await env.step(word)).observation);
  }
  return messages;
}
