/** The PyTorch engine against the native one, on the same tiny folder: the same numbers, the same training, the same draws. */
import { rm } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { NumpyRandom } from "../../core/random-numpy.ts";
import { readSafetensors } from "../../model/safetensors.ts";
import type { Datum, Engine, LearnerSpec, Loss, OptimizerParams, Sampler } from "../engine.ts";
import { LOSS_SCHEMAS } from "../loss-schemas.ts";
import { NativeEngine } from "../native/engine.ts";
import { Growing, playEpisode, type TestModel, tinyImages, tinyModel } from "../native/test-model.ts";
import { cpuEngine, TORCH } from "./test-worker.ts";

// A first step of AdamW is the gradient's sign; a large epsilon keeps rounding from choosing it where the gradient is nothing.
const ADAMW: OptimizerParams = { name: "adamw", learningRate: 3e-3, weightDecay: 0.1, maxGradNorm: 0.5, epsilon: 1e-3 };
const MUON: OptimizerParams = {
  name: "muon",
  learningRate: 0.02,
  adamLearningRate: 3e-3,
  weightDecay: 0.05,
  epsilon: 1e-3,
  rates: { vision: 0.01, embedding: 1e-3, lora: 2e-3 },
};
const kl = { kl: { coefficient: 0.2, estimator: "k3" } } as const;
const LOSSES: readonly Exclude<Loss, { name: "custom" | "value" }>[] = [
  { name: "cross-entropy" },
  { name: "importance-sampling", entropy: 0.02 },
  { name: "ppo", clipLow: 0.8, clipHigh: 1.28, dualClip: 3, ...kl },
  { name: "cispo", clipLow: 0.2, clipHigh: 2 },
  { name: "gspo", clipLow: 0.9, clipHigh: 1.1 },
  { name: "dro", beta: 0.05 },
];

describe.runIf(TORCH)("the PyTorch engine equals the native one", () => {
  const images = tinyImages(6);
  let model: TestModel;
  let untied: TestModel;
  let native: NativeEngine;
  let torch: Engine;
  let data: Datum[];

  beforeAll(async () => {
    model = await tinyModel(1);
    untied = await tinyModel(2, false);
    native = new NativeEngine({ threads: 1 });
    torch = cpuEngine({ packTokens: 96 }).engine;
    const sampler = await native.sampler(model.folder);
    const random = new NumpyRandom(5);
    const near = (array: Float32Array, spread: number) =>
      array.map((value) => value + spread * (random.random() + random.random() - 1));
    data = [];
    for (let count = 0; count <= 6; count++) {
      const { datum, sampled } = await episodeWith(sampler, count);
      const zeros = new Float32Array(sampled.length);
      data.push({
        ...datum,
        weights: datum.weights.map((weight) => weight * (0.2 + random.random())),
        advantages: near(zeros, 1),
        oldLogprobs: near(sampled, 0.4),
        referenceLogprobs: near(sampled, 0.4),
        returns: near(zeros, 1),
        oldValues: near(zeros, 0.3),
      });
    }
    await sampler.close();
    expect(data.map(({ input }) => input.images.length)).toEqual([0, 1, 2, 3, 4, 5, 6]);
  });
  afterAll(async () => {
    await torch?.close();
    await native?.close();
    await model?.remove();
    await untied?.remove();
  });

  /** An episode of three turns that happens to show so many images. */
  async function episodeWith(sampler: Sampler, count: number) {
    for (let seed = 70; ; seed++) {
      const options = { turns: 3, temperature: 0.8 + 0.1 * count };
      const played = await playEpisode(sampler, model.config, images, seed, options);
      if (played.datum.input.images.length === count) return played;
    }
  }

  /** Both engines do the same; the weights they end with are compared tensor by tensor. */
  async function trained(
    engine: Engine,
    spec: Omit<LearnerSpec, "seed">,
    losses: readonly Loss[],
    options: OptimizerParams,
  ) {
    const learner = await engine.learner({ ...spec, seed: 3 });
    const reports = [];
    for (const loss of losses) {
      const report = await learner.forwardBackward(data, loss);
      reports.push({ report, step: await learner.step(options) });
    }
    const to = join(model.root, `trained-${engine === native ? "native" : "torch"}`, "policy");
    await rm(join(to, ".."), { recursive: true, force: true });
    await learner.checkpoint(to);
    await learner.close();
    const file = spec.lora ? "adapter_model.safetensors" : "model.safetensors";
    const weights = await readSafetensors(join(to, file));
    if (spec.head === "value" && !spec.lora)
      for (const [name, tensor] of await readSafetensors(`${to}.value_head.safetensors`)) weights.set(name, tensor);
    return { reports, weights, state: await readSafetensors(`${to}.state.safetensors`) };
  }

  async function compare(spec: Omit<LearnerSpec, "seed">, losses: readonly Loss[], options: OptimizerParams) {
    const ours = await trained(native, spec, losses, options);
    const theirs = await trained(torch, spec, losses, options);
    for (const [i, { report, step }] of ours.reports.entries()) {
      const other = theirs.reports[i]!;
      expect(Math.abs(other.report.loss - report.loss)).toBeLessThan(1e-3 * Math.max(1, Math.abs(report.loss)));
      expect(Object.keys(other.report.metrics).sort()).toEqual(Object.keys(report.metrics).sort());
      for (const [name, value] of Object.entries(report.metrics))
        expect(Math.abs(other.report.metrics[name]! - value), name).toBeLessThan(1e-3 * Math.max(1, Math.abs(value)));
      expect(other.step.applied).toBe(step.applied);
      expect(other.step.step).toBe(step.step);
      expect(Math.abs(other.step.gradNorm / step.gradNorm - 1)).toBeLessThan(1e-3);
      expect(other.report.frameHashes).toEqual(data.map(({ input }) => input.images.map(({ image }) => image.hash)));
      for (const [d, output] of report.outputs.entries())
        for (const [at, value] of output.entries())
          expect(Math.abs(other.report.outputs[d]![at]! - value)).toBeLessThan(1e-4 * Math.max(1, i * 10));
    }
    // After one step the first moment is the gradient, times what is the same for all of them.
    for (const [name, { data: wanted }] of losses.length === 1 ? ours.state : []) {
      if (!name.startsWith("first.")) continue;
      const got = theirs.state.get(name)!.data;
      const norm = (of: (value: number, i: number) => number) =>
        Math.hypot(...Array.from({ length: wanted.length }, (_, i) => of(wanted[i]!, i)));
      expect(
        norm((value, i) => got[i]! - value),
        name,
      ).toBeLessThanOrEqual(1e-3 * norm((value) => value) + 1e-9);
    }
    expect([...theirs.weights.keys()].sort()).toEqual([...ours.weights.keys()].sort());
    for (const [name, { data: wanted }] of ours.weights) {
      const got = theirs.weights.get(name)!.data;
      const worst = wanted.reduce((most, value, i) => Math.max(most, Math.abs(value - got[i]!)), 0);
      expect(worst, name).toBeLessThan(1e-4);
    }
  }

  test("every loss that there is, is among those below", () => {
    const tried = [...LOSSES.map(({ name }) => name), "value", "custom"];
    expect(tried.sort()).toEqual(Object.keys(LOSS_SCHEMAS).sort());
  });

  test.each(LOSSES)(
    "one full step with $name: loss, metrics, every gradient in norm and every weight",
    async (loss) => {
      await compare({ folder: model.folder }, [loss], loss.name === "gspo" ? MUON : ADAMW);
    },
  );

  test("Muon in 32 bits, untied head", async () => {
    await compare({ folder: untied.folder }, [{ name: "ppo", clipLow: 0.8, clipHigh: 1.28 }], MUON);
  });

  test("LoRA, with a frozen tower and with rates of its own", async () => {
    const lora = { rank: 4, alpha: 8 };
    const ppo: Loss = { name: "ppo", clipLow: 0.8, clipHigh: 1.28 };
    await compare({ folder: model.folder, lora }, [ppo, ppo], ADAMW);
    await compare(
      { folder: model.folder, lora: { ...lora, targets: ["q_proj", "down_proj"] }, freeze: "vision" },
      [ppo, ppo],
      MUON,
    );
  });

  test("a critic, whole and under LoRA, begins with the same head and learns the same", async () => {
    await compare({ folder: model.folder, head: "value" }, [{ name: "value", clip: 0.2 }], ADAMW);
    await compare({ folder: model.folder, head: "value", lora: { rank: 2, alpha: 4 } }, [{ name: "value" }], ADAMW);
  });

  test("a loss written in TypeScript runs on both", async () => {
    const loss: Loss = {
      name: "custom",
      compute: (sequences) => ({
        loss: 1,
        gradients: sequences.map(({ datum, logprobs }) =>
          logprobs.map((value, i) => datum.weights[i]! * Math.exp(value)),
        ),
      }),
    };
    await compare({ folder: model.folder }, [loss], ADAMW);
  });

  test("log-probabilities, entropy and scores of the same folder", async () => {
    const learners = await Promise.all(
      [native, torch].map((engine) => engine.learner({ folder: model.folder, seed: 0 })),
    );
    const [ours, theirs] = await Promise.all(learners.map((learner) => learner.forward(data)));
    const samplers = await Promise.all([native, torch].map((engine) => engine.sampler(model.folder)));
    const [scores, others] = await Promise.all(samplers.map((sampler) => sampler.score(data)));
    for (const [d, wanted] of ours!.entries()) {
      for (let i = 0; i < data[d]!.targets.length; i++) {
        expect(Math.abs(theirs![d]!.logprobs![i]! - wanted.logprobs![i]!)).toBeLessThan(1e-4);
        expect(Math.abs(theirs![d]!.entropy![i]! - wanted.entropy![i]!)).toBeLessThan(1e-4);
        expect(Math.abs(others![d]!.logprobs[i]! - scores![d]!.logprobs[i]!)).toBeLessThan(1e-4);
      }
    }
    for (const part of [...learners, ...samplers]) await part.close();
  });

  test("greedy and sampled replies of several turns are the same ids, with the same log-probabilities", async () => {
    const samplers = await Promise.all([native, torch].map((engine) => engine.sampler(model.folder)));
    for (const [seed, temperature] of [
      [1, 0],
      [2, 1],
      [3, 0.7],
      [4, 1.3],
    ] as const) {
      const played = await Promise.all(
        samplers.map((sampler) =>
          playEpisode(sampler, model.config, images, seed, { turns: 3, temperature, maxTokens: 8 }),
        ),
      );
      expect(played[1]!.datum.input.ids).toEqual(played[0]!.datum.input.ids);
      for (const [i, value] of played[0]!.sampled.entries())
        expect(Math.abs(played[1]!.sampled[i]! - value)).toBeLessThan(1e-4);
    }
    const prompt = new Growing(model.config)
      .words(new NumpyRandom(1), 5)
      .show(images[0]!)
      .words(new NumpyRandom(2), 3)
      .input();
    const asked = { maxTokens: 6, temperature: 0.9, seed: 4, rawLogprobs: true, promptLogprobs: true, topLogprobs: 3 };
    for (const extra of [{}, { topK: 5 }, { topP: 0.6 }, { minP: 0.2 }]) {
      const [wanted, found] = await Promise.all(
        samplers.map((sampler) => sampler.sample(prompt, { ...asked, ...extra }, { sequence: JSON.stringify(extra) })),
      );
      expect(found!.ids).toEqual(wanted!.ids);
      expect(found!.stopReason).toBe(wanted!.stopReason);
      for (const name of ["logprobs", "rawLogprobs", "promptLogprobs"] as const)
        for (const [i, value] of wanted![name]!.entries())
          expect(Math.abs(found![name]![i]! - value)).toBeLessThan(1e-4);
      expect(found!.topLogprobs!.map((row) => row.map(({ id }) => id))).toEqual(
        wanted!.topLogprobs!.map((row) => row.map(({ id }) => id)),
      );
    }
    for (const sampler of samplers) await sampler.close();
  });

  test("a checkpoint of either engine goes on in the other", async () => {
    const loss: Loss = { name: "cross-entropy" };
    for (const [from, to] of [
      [native, torch],
      [torch, native],
    ] as const) {
      const first = await from.learner({ folder: model.folder, seed: 0 });
      await first.forwardBackward(data, loss);
      await first.step(ADAMW);
      const folder = join(model.root, "exchange", "policy");
      await rm(join(folder, ".."), { recursive: true, force: true });
      await first.checkpoint(folder);
      const second = await to.learner({ folder: model.folder, seed: 1 });
      await second.restore(folder);
      const steps = [];
      for (const learner of [first, second]) {
        const report = await learner.forwardBackward(data, loss);
        steps.push({ loss: report.loss, ...(await learner.step(ADAMW)) });
        await learner.close();
      }
      expect(steps[1]!.step).toBe(2);
      expect(Math.abs(steps[1]!.loss / steps[0]!.loss - 1)).toBeLessThan(1e-4);
      expect(Math.abs(steps[1]!.gradNorm / steps[0]!.gradNorm - 1)).toBeLessThan(1e-3);
    }
  });
});
