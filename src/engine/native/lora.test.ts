import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import { NumpyRandom } from "../../core/random-numpy.ts";
import { loadKernels } from "./kernels/index.ts";
import { type Adapter, adapterLayout, createAdapter, loadAdapter, saveAdapter } from "./lora.ts";
import { Network } from "./network.ts";
import { Optimizer } from "./optimizer.ts";
import { Arena, Tape } from "./tape.ts";
import { noise, tinyBatch, tinyConfig, tinyParameters } from "./test-tiny.ts";

const config = tinyConfig(2);
const kernels = await loadKernels();
const base = tinyParameters(config, 1, { frozen: true });
const batch = tinyBatch(config, 3, [1, 0, 2]);
const folder = mkdtempSync(join(tmpdir(), "saccade-lora-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

function networkOf(adapter?: Adapter) {
  return new Network(config, kernels, base, { head: "lm", ...(adapter && { lora: adapter }) });
}

function hiddenOf(network: Network): number[] {
  return [...network.forward(new Tape(kernels, new Arena(1 << 20), "inference"), batch).data];
}

function trainSteps(adapter: Adapter, steps: number) {
  const network = networkOf(adapter);
  const optimizer = new Optimizer(kernels, adapter.parameters);
  const losses: number[] = [];
  for (let step = 0; step < steps; step++) {
    const gradient = adapter.parameters.like();
    network.setGradient(gradient);
    const tape = new Tape(kernels, new Arena(1 << 20), "training");
    const hidden = network.forward(tape, batch);
    const targets = new Int32Array(hidden.rows).map((_, i) => i % 50);
    const scores = network.logprobs(tape, hidden, targets, new Float32Array(hidden.rows).fill(1));
    losses.push(-scores.logprobs.reduce((sum, value) => sum + value, 0));
    scores.logprobGradients.fill(-1);
    tape.backward();
    optimizer.apply(gradient, { name: "adamw", learningRate: 0.02 });
    network.invalidate();
  }
  return losses;
}

describe("an adapter", () => {
  test("changes nothing when new: same bits as the base", () => {
    const adapter = createAdapter(config, { rank: 4, alpha: 8 }, { head: "lm", seed: 1 });
    expect(hiddenOf(networkOf(adapter))).toEqual(hiddenOf(networkOf()));
  });

  test("learns while the base keeps every bit, and a second adapter over the same base knows nothing of it", () => {
    const before = base.flat.slice();
    const plain = hiddenOf(networkOf());
    const adapter = createAdapter(config, { rank: 4, alpha: 8 }, { head: "lm", seed: 1 });
    const other = createAdapter(config, { rank: 2, alpha: 8, targets: ["q_proj"] }, { head: "lm", seed: 2 });
    const losses = trainSteps(adapter, 12);
    expect(losses.at(-1)!).toBeLessThan(losses[0]! * 0.97);
    expect(base.flat).toEqual(before);
    expect(hiddenOf(networkOf(adapter))).not.toEqual(plain);
    expect(hiddenOf(networkOf(other))).toEqual(plain);
  });

  test("starts as PEFT starts it: A within 1/√in, B at zero, decided by the seed", () => {
    const make = (seed: number) => createAdapter(config, { rank: 4, alpha: 8 }, { head: "lm", seed }).parameters;
    expect([...make(1).flat]).toEqual([...make(1).flat]);
    expect([...make(1).flat]).not.toEqual([...make(2).flat]);
    const parameters = make(1);
    for (const { name, shape } of parameters.layout) {
      const largest = Math.max(...parameters.view(name).map(Math.abs));
      if (name.includes("lora_B")) expect(largest).toBe(0);
      else expect(largest / (1 / Math.sqrt(shape[1]!))).toSatisfy((x: number) => x > 0.8 && x <= 1);
    }
  });

  test("covers the chosen layers, and none of a frozen part", () => {
    const names = (spec: { targets?: string[] }, freeze?: "vision" | "language") =>
      adapterLayout(config, { rank: 2, alpha: 2, ...spec }, { head: "lm", ...(freeze && { freeze }) }).map(
        ({ name }) => name,
      );
    expect(
      names({ targets: ["q_proj", "proj"] }).every((name) => /\.(q_proj|attn\.proj)\.lora_[AB]\.weight$/.test(name)),
    ).toBe(true);
    expect(names({}).some((name) => /embed|lm_head/.test(name))).toBe(false);
    expect(names({}, "vision").some((name) => name.includes("visual"))).toBe(false);
    expect(names({}, "language").every((name) => name.includes("visual"))).toBe(true);
    expect(() => names({ targets: ["query"] })).toThrow(/names no linear layer.*q_proj/);
    expect(() => names({ targets: ["qkv"] }, "vision")).toThrow(/frozen/);
  });

  test("of a critic holds the value head, trained whole", () => {
    const layout = adapterLayout(config, { rank: 2, alpha: 2, targets: ["v_proj"] }, { head: "value" });
    expect(layout.at(-1)).toMatchObject({ name: "base_model.model.score.weight", group: "head", trainable: true });
    const critic = tinyParameters(config, 1, { head: "value", frozen: true });
    const adapter = createAdapter(config, { rank: 2, alpha: 2, targets: ["v_proj"] }, { head: "value", seed: 1 });
    const network = new Network(config, kernels, critic, { head: "value", lora: adapter });
    const tape = new Tape(kernels, new Arena(1 << 20), "training");
    const gradient = adapter.parameters.like();
    network.setGradient(gradient);
    const { values, gradients } = network.values(tape, network.forward(tape, batch));
    expect(values.every((value) => value === 0)).toBe(true);
    gradients.fill(1);
    tape.backward();
    expect(adapter.parameters.view("base_model.model.score.weight", gradient).some((value) => value !== 0)).toBe(true);
  });

  test("comes back from its files with the same bits", async () => {
    const adapter = createAdapter(
      config,
      { rank: 3, alpha: 6, targets: ["q_proj", "down_proj", "proj"] },
      { head: "lm", seed: 4 },
    );
    adapter.parameters.flat.set(noise(new NumpyRandom(1), adapter.parameters.flat.length, 0.3));
    await saveAdapter(folder, adapter, "somewhere");
    const json = JSON.parse(readFileSync(join(folder, "adapter_config.json"), "utf8"));
    expect(json).toMatchObject({
      peft_type: "LORA",
      r: 3,
      lora_alpha: 6,
      target_modules: ["attn.proj", "down_proj", "q_proj"],
    });
    const loaded = await loadAdapter(folder, config, { head: "lm" });
    expect(loaded.scaling).toBe(2);
    expect(hiddenOf(networkOf(loaded))).toEqual(hiddenOf(networkOf(adapter)));
  });

  test("of another model, or none at all, is refused with what to do", async () => {
    await expect(loadAdapter(folder, tinyConfig(9), { head: "lm" })).rejects.toThrow(/config\.json|lack|shape/);
    await expect(loadAdapter(join(folder, "nowhere"), config, { head: "lm" })).rejects.toThrow(
      /Can't read the adapter/,
    );
  });
});
