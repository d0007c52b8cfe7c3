/** Rollouts over the native engine: what the ledger keeps is what the model computes, bit for bit, however it was scheduled. */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { Datum } from "../engine/engine.ts";
import { NativeEngine } from "../engine/native/engine.ts";
import { type TestModel, tinyModel } from "../engine/native/test-model.ts";
import { type ChatModel, chatModel } from "../model/chat.ts";
import { loadFolder } from "../model/folder.ts";
import { type TokenAgentOptions, tokenAgent } from "./agents.ts";
import { RolloutCounters } from "./counters.ts";
import { playGroups } from "./groups.ts";
import { EnvHost } from "./hosts.ts";
import type { Sequence, Trajectory } from "./trajectory.ts";

let folder: TestModel;
let model: ChatModel;
let engine: NativeEngine;
beforeAll(async () => {
  folder = await tinyModel();
  model = chatModel(await loadFolder(folder.folder));
  engine = new NativeEngine({ threads: 2 });
});
afterAll(async () => {
  await engine.close();
  await folder.remove();
});

/** Small frames and few words: the tiny model holds 600 ids. */
const env = { id: "frozen_lake", options: { prompt: "brief", protocol: "keyword", cellSize: 16, maxTurns: 4 } };

async function play(more: Partial<TokenAgentOptions> = {}, live = 6, counters = new RolloutCounters(), on = engine) {
  const sampler = await on.sampler(folder.folder);
  const host = new EnvHost();
  const agent = tokenAgent({ model, sampler: () => sampler, temperature: 0.7, maxTokens: 12, ...more });
  const requests = [3, 4, 5].map((seed) => ({ env, seed, siblings: 3 }));
  const played: Trajectory[] = [];
  for await (const group of playGroups(requests, { agent, host, samplingSeed: 11, live, counters })) {
    expect(group.dropped).toEqual([]);
    played.push(...group.trajectories);
  }
  await host.close();
  return { played, sampler };
}

/** Position i predicts id i + 1 where that was sampled. */
function datum({ ids, images, sampled }: Sequence, temperature: number): Datum {
  const targets = Int32Array.from(ids, (_, i) => (sampled[i + 1] === 1 ? (ids[i + 1] as number) : -1));
  return {
    input: { ids, images },
    targets,
    weights: Float32Array.from(targets, (id) => (id < 0 ? 0 : 1)),
    temperature,
  };
}

describe("Over the native engine", () => {
  test.each([
    ["joined", {}],
    ["split with a window", { turns: "split", history: 1 } as const],
    ["joined, short of room", { contextTokens: 150 }],
  ])("%s: every sampled id has exactly the log-probability that a fresh forward gives it", async (_, more) => {
    const { played, sampler } = await play(more);
    let ids = 0;
    for (const { sequences, temperature, turns, end } of played) {
      expect(turns.length).toBeGreaterThan(0);
      expect(["done", "max_turns", "max_tokens"]).toContain(end);
      const scores = await sampler.score(sequences.map((sequence) => datum(sequence, temperature)));
      for (const [i, { sampled, samplerLogprobs: logprobs }] of sequences.entries()) {
        sampled.forEach((flag, at) => {
          if (flag === 0) return;
          ids += 1;
          expect(scores[i]?.logprobs[at - 1]).toBe(logprobs[at]);
        });
      }
    }
    expect(ids).toBeGreaterThan(50);
    await sampler.close();
  });

  test("the same trajectories come out with 1 and 9 live episodes and with 1 and 2 threads", async () => {
    const single = new NativeEngine({ threads: 1 });
    const [alone, together, narrow] = [await play({}, 1), await play({}, 9), await play({}, 9, undefined, single)];
    const essence = ({ played }: typeof alone) =>
      played.map(({ id, reward, end, sequences, turns }) => ({
        id,
        reward,
        end,
        sequences,
        said: turns.map((t) => t.reply),
      }));
    expect(essence(together)).toEqual(essence(alone));
    expect(essence(narrow)).toEqual(essence(alone));
    await Promise.all([alone, together, narrow].map(({ sampler }) => sampler.close()));
    await single.close();
  });

  test("a turn computes only what is new: the ledger's prefix is in the sampler's cache", async () => {
    const before = engine.stats();
    const counters = new RolloutCounters();
    const { played, sampler } = await play({}, 6, counters);
    const prefilled = engine.stats().prefilledTokens - before.prefilledTokens;
    // Each sequence once, its last reply aside; the rest of every prompt came from the cache.
    const written = played.reduce((sum, { sequences }) => sum + (sequences[0]?.replies.at(-1)?.start ?? 0), 0);
    expect(prefilled).toBeLessThanOrEqual(written);
    expect(counters.sampledTokens).toBeGreaterThan(0);
    await sampler.close();
  });
});
