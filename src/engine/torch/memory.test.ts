/** Memory by calculation: bytes that can be counted by hand, and what each setting does to them. */
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
  pictures: 0.5,
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

  test("the cache holds keys and values of every layer for every live token, up to its limit", () => {
    // 36 layers of 8 heads of 128, keys and values, two bytes each.
    expect(of({}).parts.cache).toBe(64 * 8192 * 36 * 8 * 128 * 2 * 2);
    expect(of({ cacheBytes: 1000 }).parts.cache).toBe(1000);
    expect(of({ sampler: "apart" }).parts).toMatchObject({ cache: 0, sampler: 0 });
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
