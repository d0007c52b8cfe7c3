/** Memory by calculation: bytes that can be counted by hand, and what each setting does to them. */
import { readFileSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { describe, expect, test } from "vitest";
import { KNOWN_MODELS } from "../../model/known.ts";
import { modelSize } from "../../model/size.ts";
import { gpusNeeded, type MemoryPlan, memoryOf } from "./memory.ts";

const size = modelSize(KNOWN_MODELS["Qwen3-VL-8B"]);
const parameters = Object.values(size.parameters).reduce((sum, part) => sum + part, 0);
const plan: MemoryPlan = {
  gpus: 1,
  freezeVision: false,
  dtype: "bfloat16",
  packTokens: 8192,
  images: 0.5,
  checkpointing: true,
  offload: false,
  critic: false,
  reference: false,
  sampler: "worker",
  staleness: 0,
  live: 64,
  contextTokens: 8192,
  cacheBytes: 2 ** 40,
};
const of = (changes: Partial<MemoryPlan>) => memoryOf(size, { ...plan, ...changes });

describe("memory by calculation", () => {
  test("masters, gradients and two moments are 16 bytes a parameter, in pieces over GPUs, or in host memory", () => {
    const { gradients, moments } = of({}).parts;
    expect(gradients + moments).toBe(12 * parameters);
    for (const gpus of [2, 8]) expect(of({ gpus }).parts.moments).toBe((8 * parameters) / gpus);
    const offloaded = of({ gpus: 8, offload: true });
    expect(offloaded.parts.gradients + offloaded.parts.moments).toBe(0);
    expect(offloaded.host).toBe((16 * parameters) / 8);
    expect(offloaded.first).toBeLessThan(of({ gpus: 8 }).first);
  });

  test("the cache has a slot for every live episode and one more, as long as the context, up to its limit", () => {
    // 36 layers of 8 heads of 128, keys and values, two bytes each.
    const token = 36 * 8 * 128 * 2 * 2;
    expect(of({}).parts.cache).toBe(65 * 8192 * token);
    expect(of({ contextTokens: 6145 }).parts.cache).toBe(of({}).parts.cache);
    expect(of({ contextTokens: 5000 }).parts.cache).toBe(65 * 6144 * token);
    expect(of({ live: 65 }).parts.cache).toBe(257 * 8192 * token);
    expect(of({ live: 9999, contextTokens: 1024 }).parts.cache).toBe(513 * 1024 * token);
    expect(of({ cacheBytes: 10.5 * 8192 * token }).parts.cache).toBe(11 * 8192 * token);
    expect(of({ sampler: "apart" }).parts.cache).toBe(0);
  });

  test("the cache never has fewer slots than the worker starts with, nor shorter ones, and each version has its own", async () => {
    const smallest = of({ live: 1, contextTokens: 16 }).parts.cache;
    const python = await readFile("python/saccade_torch/kv_cache.py", "utf8");
    const [, tokens, slots] = /SMALLEST = \{.*"cuda": (\d+)\}\nFEWEST = \{.*"cuda": (\d+)\}/.exec(python) ?? [];
    expect(smallest).toBe((Number(slots) + 1) * Number(tokens) * 36 * 8 * 128 * 2 * 2);
    expect(of({ live: 1, contextTokens: 16, staleness: 2 }).parts.cache).toBe(3 * smallest);
    expect(of({ cacheBytes: 1 }).parts.cache).toBe(2 * 8192 * 36 * 8 * 128 * 2 * 2);
  });

  test("a snapshot is kept for each version, also where servers sample; with LoRA on one GPU it is the adapter alone", () => {
    for (const sampler of ["apart", "worker"] as const) {
      expect(of({ sampler }).parts.sampler).toBe(2 * parameters);
      expect(of({ sampler, staleness: 2, gpus: 4 }).parts.sampler).toBe(3 * 2 * parameters);
      const adapter = of({ sampler, lora: 8 }).parts.sampler;
      expect(adapter).toBeLessThan(0.01 * parameters);
      // A learner in pieces opens the base again for each; adapters are then in 32 bits.
      for (const pieces of [{ gpus: 2 }, { offload: true }])
        expect(of({ sampler, lora: 8, ...pieces }).parts.sampler).toBe(2 * parameters + 2 * adapter);
    }
  });

  test("a reference for KL is a model of its own; under LoRA that is another base with an adapter in 32 bits", () => {
    expect(of({ reference: true }).parts.reference).toBe(2 * parameters);
    const adapter = of({ lora: 8 }).parts.sampler;
    expect(of({ reference: true, lora: 8 }).parts.reference).toBe(2 * parameters + 2 * adapter);
  });

  test("a base in 4 or 8 bits keeps tower, embedding, head and norms; 8-bit moments are a quarter, with their scales", () => {
    const { layers, hidden, queries, keys, inner } = size.text;
    const matrices = layers * (hidden * 2 * (queries + keys) + 3 * hidden * inner);
    const adapter = { lora: 32, freezeVision: true } as const;
    const { weights } = of(adapter).parts;
    expect(weights - of({ ...adapter, base: "nf4" }).parts.weights).toBeCloseTo((2 - 0.5625) * matrices, 0);
    expect(weights - of({ ...adapter, base: "int8" }).parts.weights).toBeCloseTo((2 - 1.0625) * matrices, 0);
    // The sampler shares it.
    expect(of({ ...adapter, base: "nf4" }).parts.sampler).toBe(of(adapter).parts.sampler);
    expect(of({ moments: "int8" }).parts.moments / of({}).parts.moments).toBeCloseTo((1 + 4 / 256) / 4, 9);
    const python = readFileSync("python/saccade_torch/quantized.py", "utf8");
    expect(python).toContain('BYTES = {"nf4": 0.5 + 4 / BLOCK, "int8": 1 + 4 / BLOCK}');
  });

  test("every GPU samples, so only the reference is the first one's alone", () => {
    const { first, others, parts } = of({ gpus: 4, reference: true });
    expect(first - others).toBe(parts.reference);
    const apart = of({ gpus: 4, sampler: "apart" });
    expect(apart.first - apart.others).toBe(apart.parts.sampler);
  });

  test("an adapter, checkpointing, fewer tokens, a frozen tower take less; a critic, a reference, older versions take more", () => {
    for (const changes of [{ lora: 32 }, { packTokens: 4096 }, { freezeVision: true }, { sampler: "apart" } as const])
      expect(of(changes).first).toBeLessThan(of({}).first);
    for (const changes of [{ critic: true }, { reference: true }, { staleness: 2 }, { checkpointing: false }])
      expect(of(changes).first).toBeGreaterThan(of({}).first);
    expect(of({ reference: true, gpus: 4 }).others).toBe(of({ gpus: 4 }).others);
  });

  test("the fewest GPUs: one fewer would not do; none, where a whole copy on the first is too much", () => {
    const room = 80e9;
    const gpus = gpusNeeded(size, { ...plan, sampler: "apart" }, room) as number;
    expect(of({ sampler: "apart", gpus }).first).toBeLessThanOrEqual(room);
    expect(of({ sampler: "apart", gpus: gpus / 2 }).first).toBeGreaterThan(room);
    expect(gpusNeeded(modelSize(KNOWN_MODELS["Qwen3-VL-235B-A22B"]), plan, room)).toBeUndefined();
  });
});
