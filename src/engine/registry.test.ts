import { describe, expect, test } from "vitest";
import { z } from "zod";
import { NativeEngine } from "./native/engine.ts";
import { checkEngineConfig, engineConfig, engineNames, nameOfEngine, openEngine, registerEngine } from "./registry.ts";

describe("engines by name", () => {
  test("native is what is opened when nothing is said, and takes its settings", async () => {
    for (const config of [undefined, "native", { name: "native", threads: 1 }] as const) {
      const engine = await openEngine(config);
      expect(engine).toBeInstanceOf(NativeEngine);
      if (typeof config === "object") expect((engine as NativeEngine).pool.threads).toBe(1);
      await engine.close();
    }
  });

  test("a wrong name, setting or address is an error that says what there is", () => {
    expect(() => checkEngineConfig("jax")).toThrow(/no engine "jax".*native/);
    expect(() => checkEngineConfig({ name: "native", thread: 2 })).toThrow(/there is no "thread".*takes threads/);
    expect(() => checkEngineConfig({ name: "native", threads: 0 })).toThrow(/threads/);
    expect(() => checkEngineConfig("native@far:1")).toThrow(/runs in this process/);
  });

  test("a learner with a sampler of its own is read without a name, and its parts are checked", () => {
    const sampler = { vllm: ["http://127.0.0.1:8000"] };
    checkEngineConfig({ sampler });
    checkEngineConfig({ learner: { name: "native", threads: 2 }, sampler });
    expect(nameOfEngine({ learner: "native", sampler })).toBe("vllm");
    expect(nameOfEngine(engineConfig.parse({ sampler }))).toBe("vllm");
    expect(() => checkEngineConfig({ learner: "jax", sampler })).toThrow(/no engine "jax"/);
    expect(() => checkEngineConfig({ sampler: { vllm: [] } })).toThrow(/sampler.vllm/);
    expect(() => checkEngineConfig({ sampler: { vllm: ["localhost"] } })).toThrow(/sampler.vllm.0/);
    expect(() => checkEngineConfig({ sampler: { ...sampler, vlm: 1 } })).toThrow(/vlm/);
    const sglang = ["http://127.0.0.1:30000"];
    checkEngineConfig({ sampler: { sglang } });
    expect(() => checkEngineConfig({ sampler: {} })).toThrow(/vllm or as sglang/);
    expect(() => checkEngineConfig({ sampler: { ...sampler, sglang } })).toThrow(/vllm or as sglang/);
    expect(() => checkEngineConfig({ sampler: { sglang, transfer: {} } })).toThrow(/leave transfer/);
    expect(() => checkEngineConfig({ sampler: { sglang, renderer: "server" } })).toThrow(/leave render/);
  });

  test("a registered engine gets its settings, with defaults, and its address", async () => {
    const seen: unknown[] = [];
    registerEngine("test-engine", {
      settings: z.strictObject({ depth: z.int().default(3) }),
      attachable: true,
      open(settings, address) {
        seen.push([settings, address]);
        return new NativeEngine({ threads: 1 });
      },
    });
    expect(engineNames()).toContain("test-engine");
    await (await openEngine({ name: "test-engine@near:80", depth: 4 })).close();
    await (await openEngine("test-engine")).close();
    expect(seen).toEqual([
      [{ depth: 4 }, "near:80"],
      [{ depth: 3 }, undefined],
    ]);
    expect(() => checkEngineConfig("test-engine@near")).toThrow(/host:port/);
    expect(() =>
      registerEngine("test-engine", { settings: z.strictObject({}), open: async () => openEngine() }),
    ).toThrow(/already/);
  });
});
