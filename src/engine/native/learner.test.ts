import { readdir, readFile, rename } from "node:fs/promises";
import { basename, join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { Image } from "../../core/image.ts";
import { readSafetensors, type Tensors } from "../../model/safetensors.ts";
import type { Datum, Learner, LearnerSpec, Loss, OptimizerParams } from "../engine.ts";
import { NativeEngine } from "./engine.ts";
import { Growing, playEpisode, type TestModel, tinyImages, tinyModel } from "./test-model.ts";

let model: TestModel;
let one: NativeEngine;
let two: NativeEngine;
let data: Datum[];
let saves = 0;
const images = tinyImages(6);
const adamw: OptimizerParams = { name: "adamw", learningRate: 1e-3 };
const muon: OptimizerParams = {
  name: "muon",
  learningRate: 0.01,
  adamLearningRate: 1e-3,
  maxGradNorm: 1,
  weightDecay: 0.01,
};
const ppo: Loss = {
  name: "ppo",
  clipLow: 0.8,
  clipHigh: 1.2,
  kl: { coefficient: 0.1, estimator: "k3" },
  entropy: 0.01,
};

beforeAll(async () => {
  model = await tinyModel();
  one = new NativeEngine({ threads: 1 });
  two = new NativeEngine({ threads: 2 });
  const sampler = await two.sampler(model.folder);
  const played = await Promise.all(Array.from({ length: 24 }, (_, i) => playEpisode(sampler, model.config, images, i)));
  data = played.map(({ datum, sampled }, i) => ({
    ...datum,
    weights: datum.weights.map((w) => w / 24),
    advantages: datum.weights.map((_, at) => Math.sin(i + at)),
    // A little off, so that ratios, clips and KL are not trivial.
    oldLogprobs: sampled.map((logprob, at) => logprob + 0.3 * Math.sin(at + 2 * i)),
    referenceLogprobs: sampled.map((logprob, at) => logprob + 0.2 * Math.cos(at)),
    returns: datum.weights.map((_, at) => 1 + (at % 2)),
    oldValues: datum.weights.map(() => 0.1),
  }));
  await sampler.close();
});
afterAll(async () => {
  await one.close();
  await two.close();
  await model.remove();
});

function open(engine: NativeEngine, spec: Partial<LearnerSpec> = {}): Promise<Learner> {
  return engine.learner({ folder: model.folder, seed: 3, ...spec });
}

async function saved(learner: Learner, whole = false): Promise<string> {
  const folder = join(model.root, `save ${saves++}`);
  await (whole ? learner.checkpoint(folder) : learner.export(folder));
  return folder;
}

async function weightsOf(learner: Learner): Promise<Tensors> {
  return readSafetensors(join(await saved(learner), "model.safetensors"));
}

/** The gradient of a call, read back from AdamW's first moments. */
async function gradientOf(learner: Learner): Promise<Tensors> {
  await learner.step({ ...adamw, learningRate: 0, beta1: 0 });
  const state = await readSafetensors(`${await saved(learner, true)}.state.safetensors`);
  return new Map([...state].filter(([name]) => name.startsWith("first.")));
}

describe("learning", () => {
  test.each([
    { which: "default", options: {}, counts: [1, 2, 5, 8, 16] },
    { which: "wasm", options: { kernels: "wasm" }, counts: [1, 2, 5] },
  ] as const)(
    "$which kernels: $counts threads give the same bits after accumulated batches and steps",
    async ({ options, counts }) => {
      const results: { file: Buffer; reports: unknown[] }[] = [];
      for (const threads of counts) {
        const engine = new NativeEngine({ ...options, threads });
        const learner = await open(engine);
        const reports: unknown[] = [];
        for (const optimizer of [adamw, muon]) {
          reports.push(
            await learner.forwardBackward(data, ppo),
            await learner.forwardBackward(data.slice(3, 8), { name: "cross-entropy" }),
          );
          reports.push(await learner.step(optimizer));
        }
        results.push({ file: await readFile(join(await saved(learner), "model.safetensors")), reports });
        await engine.close();
      }
      for (const { file, reports } of results.slice(1)) {
        expect(file.equals(results[0]!.file)).toBe(true);
        expect(reports).toEqual(results[0]!.reports);
      }
    },
  );

  test("packed equals unpacked: losses to the bit, gradients within 1e-5, sequences without images included", async () => {
    expect(data.some(({ input }) => input.images.length === 0)).toBe(true);
    const packed = await open(two);
    const unpacked = await open(one);
    const whole = await packed.forwardBackward(data, ppo);
    let loss = 0;
    for (const datum of data) loss += (await unpacked.forwardBackward([datum], ppo)).loss;
    expect(whole.loss).toBe(loss);
    const [a, b] = [await gradientOf(packed), await gradientOf(unpacked)];
    for (const [name, { data: left }] of a) {
      const right = b.get(name)!.data;
      const size = Math.hypot(...left);
      expect(Math.hypot(...left.map((x, i) => x - right[i]!)), name).toBeLessThanOrEqual(1e-5 * Math.max(size, 1e-3));
    }
  });

  test("every loss can be learned from and reports its sum, tokens and metrics", async () => {
    const losses: Loss[] = [
      { name: "cross-entropy" },
      { name: "importance-sampling" },
      ppo,
      { name: "cispo", clipLow: 0, clipHigh: 4 },
      { name: "gspo", clipLow: 0.95, clipHigh: 1.05 },
      { name: "dro", beta: 0.05 },
    ];
    const learner = await open(two);
    const tokens = data.reduce((sum, { weights }) => sum + weights.filter((w) => w !== 0).length, 0);
    for (const loss of losses) {
      const report = await learner.forwardBackward(data, loss);
      expect(report.finite).toBe(true);
      expect(report.metrics.tokens).toBe(tokens);
      expect(report.metrics.entropy).toBeGreaterThan(0);
      expect((await learner.step(adamw)).gradNorm).toBeGreaterThan(0);
    }
  });

  test("cross entropy falls when it is trained on", async () => {
    const learner = await open(two);
    const first = await learner.forwardBackward(data, { name: "cross-entropy" });
    for (let i = 0; i < 12; i++) {
      await learner.step(muon);
      await learner.forwardBackward(data, { name: "cross-entropy" });
    }
    learner.discard();
    const last = await learner.forwardBackward(data, { name: "cross-entropy" });
    expect(last.loss).toBeLessThan(0.8 * first.loss);
  });

  test("a custom loss that says what cross entropy says moves the weights by the same bits", async () => {
    const [plain, custom] = [await open(two), await open(two)];
    const expected = await plain.forwardBackward(data, { name: "cross-entropy" });
    const report = await custom.forwardBackward(data, {
      name: "custom",
      compute: (sequences) => ({
        loss: sequences.reduce(
          (sum, { datum, logprobs }) => sum - logprobs.reduce((s, l, i) => s + l * datum.weights[i]!, 0),
          0,
        ),
        gradients: sequences.map(({ datum }) => datum.weights.map((w) => -w)),
        metrics: { mine: 7 },
      }),
    });
    expect(report.loss).toBeCloseTo(expected.loss, 6);
    expect(report.metrics).toMatchObject({ mine: 7 });
    await plain.step(adamw);
    await custom.step(adamw);
    expect(await weightsOf(custom)).toEqual(await weightsOf(plain));
  });

  test("discarded gradients leave no trace", async () => {
    const [clean, messy] = [await open(two), await open(two)];
    await messy.forwardBackward(data, ppo);
    messy.discard();
    for (const learner of [clean, messy]) {
      await learner.forwardBackward(data.slice(0, 5), { name: "cross-entropy" });
      await learner.step(adamw);
    }
    expect(await weightsOf(messy)).toEqual(await weightsOf(clean));
  });
});

describe("what is not finite", () => {
  const cases: [string, () => [Datum[], Loss]][] = [
    [
      "an impossible target's infinite loss",
      () => {
        const datum = data[0]!;
        const at = datum.weights.findIndex((w) => w !== 0);
        return [
          [{ ...datum, targets: datum.targets.with(at, model.config.ids.imageToken) }],
          { name: "cross-entropy" },
        ];
      },
    ],
    [
      "a gradient that overflows",
      () => [
        data.map((datum) => ({ ...datum, advantages: datum.weights.map(() => 3e38) })),
        { name: "importance-sampling" },
      ],
    ],
    [
      "a custom loss of NaN",
      () => [data, { name: "custom", compute: () => ({ loss: Number.NaN, gradients: data.map((d) => d.weights) }) }],
    ],
  ];
  test.each(cases)("%s is reported and never applied", async (_, make) => {
    const learner = await open(two);
    const before = await weightsOf(learner);
    await learner.forwardBackward(data, { name: "cross-entropy" });
    const [bad, loss] = make();
    await learner.forwardBackward(bad, loss);
    expect(await learner.step(adamw)).toMatchObject({ applied: false, step: 0 });
    expect(await weightsOf(learner)).toEqual(before);
    // And the next step is as if nothing had happened.
    const fresh = await open(two);
    for (const each of [learner, fresh]) {
      await each.forwardBackward(data, { name: "cross-entropy" });
      expect(await each.step(adamw)).toMatchObject({ applied: true, step: 1 });
    }
    expect(await weightsOf(learner)).toEqual(await weightsOf(fresh));
  });
});

describe("checkpoints", () => {
  test.each([
    ["a policy", {}, ppo],
    ["a critic", { head: "value" }, { name: "value", clip: 0.2 }],
    ["an adapter", { lora: { rank: 2, alpha: 4 } }, ppo],
  ] as [string, Partial<LearnerSpec>, Loss][])(
    "%s that is saved and loaded learns on with the same bits",
    async (_, spec, loss) => {
      const straight = await open(two, spec);
      const train = async (learner: Learner) => {
        for (const optimizer of [adamw, muon]) {
          await learner.forwardBackward(data, loss);
          await learner.step(optimizer);
        }
      };
      await train(straight);
      const folder = await saved(straight, true);
      const resumed = await open(one, { ...spec, seed: 99 });
      await resumed.restore(folder);
      await train(straight);
      await train(resumed);
      const [a, b] = [await saved(straight, true), await saved(resumed, true)];
      const names = (await readdir(model.root, { recursive: true })).filter(
        (name) => name.startsWith(basename(a)) && name.endsWith(".safetensors"),
      );
      expect(names).toContain(`${basename(a)}.state.safetensors`);
      for (const name of names) {
        const [one, other] = [join(model.root, name), join(model.root, name.replace(basename(a), basename(b)))];
        expect((await readFile(one)).equals(await readFile(other)), name).toBe(true);
      }
    },
  );

  test("a model folder holds what Hugging Face writes and nothing else; the rest lies beside it", async () => {
    for (const [spec, beside] of [
      [{}, ["state.safetensors"]],
      [{ head: "value" }, ["state.safetensors", "value_head.safetensors"]],
      [{ lora: { rank: 2, alpha: 4 } }, ["state.safetensors"]],
    ] as [Partial<LearnerSpec>, string[]][]) {
      const folder = await saved(await open(two, spec), true);
      const weights = spec.lora ? "adapter_model.safetensors" : "model.safetensors";
      expect((await readdir(folder)).filter((name) => name.endsWith(".safetensors"))).toEqual([weights]);
      const siblings = (await readdir(model.root)).filter((name) => name.startsWith(`${basename(folder)}.`)).sort();
      expect(siblings).toEqual(beside.map((name) => `${basename(folder)}.${name}`));
    }
  });

  test("folders of earlier versions, with value head and optimizer state inside, still load", async () => {
    const critic = await open(two, { head: "value" });
    await critic.forwardBackward(data, { name: "value" });
    await critic.step(adamw);
    const folder = await saved(critic, true);
    await rename(`${folder}.state.safetensors`, join(folder, "optimizer.safetensors"));
    await rename(`${folder}.value_head.safetensors`, join(folder, "value_head.safetensors"));
    const resumed = await open(two, { head: "value", seed: 99 });
    await resumed.restore(folder);
    expect(await resumed.forward(data)).toEqual(await critic.forward(data));
    await resumed.forwardBackward(data, { name: "value" });
    expect(await resumed.step(adamw)).toMatchObject({ step: 2 });
  });

  test("a fresh optimizer takes the step that a new learner of these weights would take", async () => {
    const learner = await open(two);
    await learner.forwardBackward(data, { name: "cross-entropy" });
    await learner.step(muon);
    await learner.freshOptimizer();
    const other = await open(two, { folder: await saved(learner) });
    for (const each of [learner, other]) {
      await each.forwardBackward(data, ppo);
      expect(await each.step(adamw)).toMatchObject({ applied: true, step: 1 });
    }
    expect(await weightsOf(learner)).toEqual(await weightsOf(other));
  });

  test("versions count weights that changed, also across a restore", async () => {
    const learner = await open(two);
    const publish = async (from: Learner) => {
      const sampler = await from.publish();
      await sampler.close();
      return sampler.version;
    };
    expect([await publish(learner), await publish(learner)]).toEqual([1, 1]);
    await learner.forwardBackward(data, ppo);
    await learner.step(adamw);
    const unpublished = await saved(learner, true);
    expect(await publish(learner)).toBe(2);
    const published = await saved(learner, true);
    for (const folder of [unpublished, published]) {
      const resumed = await open(one);
      await resumed.restore(folder);
      expect(await publish(resumed)).toBe(2);
    }
  });

  test("a saved folder is a model folder, and saving over it replaces it whole", async () => {
    const learner = await open(two);
    const folder = await saved(learner, true);
    await learner.forwardBackward(data, ppo);
    await learner.step(adamw);
    await learner.export(folder);
    expect(await readdir(model.root)).not.toContain(`${basename(folder)}.state.safetensors`);
    expect((await readdir(model.root)).filter((name) => name.startsWith("."))).toEqual([]);
    const sampler = await two.sampler(folder);
    const [current] = await learner.forward(data.slice(0, 1));
    expect((await sampler.score(data.slice(0, 1)))[0]!.logprobs).toEqual(current!.logprobs);
  });

  test("loading what does not fit changes nothing", async () => {
    const learner = await open(two);
    const before = await weightsOf(learner);
    await expect(learner.restore(join(model.root, "nowhere"))).rejects.toThrow(/nowhere/);
    const critic = await open(two, { head: "value" });
    await expect(critic.restore(model.folder)).rejects.toThrow(/not the checkpoint of a critic/);
    expect(await weightsOf(learner)).toEqual(before);
  });
});

describe("parts of a model", () => {
  test("frozen parts do not change by a bit, the others do", async () => {
    const before = await readSafetensors(join(model.folder, "model.safetensors"));
    for (const freeze of ["vision", "language"] as const) {
      const learner = await open(two, { freeze });
      await learner.forwardBackward(data, { name: "cross-entropy" });
      await learner.step(muon);
      const after = await weightsOf(learner);
      for (const [name, { data: values }] of before) {
        const frozen = name.startsWith("model.visual.") === (freeze === "vision");
        const same = Buffer.from(values.buffer, values.byteOffset, values.byteLength).equals(
          Buffer.from(after.get(name)!.data.slice().buffer),
        );
        expect(same, name).toBe(frozen);
      }
    }
  });

  test("under LoRA the base stays, the adapter samples as it learns, and its folder opens as a sampler", async () => {
    const learner = await open(two, { lora: { rank: 4, alpha: 8 } });
    const base = await two.sampler(model.folder);
    const subset = data.slice(0, 6);
    const untrained = await learner.forward(subset);
    const reference = await base.score(subset);
    for (const [i, { logprobs }] of untrained.entries()) expect(logprobs).toEqual(reference[i]!.logprobs);
    await learner.forwardBackward(data, { name: "cross-entropy" });
    await learner.step({ name: "adamw", learningRate: 0.05 });
    const trained = await learner.forward(subset);
    expect(trained[0]!.logprobs).not.toEqual(reference[0]!.logprobs);
    const published = await learner.publish();
    const opened = await two.sampler(await saved(learner));
    for (const sampler of [published, opened]) {
      for (const [i, { logprobs }] of (await sampler.score(subset)).entries())
        expect(logprobs).toEqual(trained[i]!.logprobs);
    }
    expect(await base.score(subset)).toEqual(reference);
  });

  test("a critic's values approach the returns", async () => {
    const critic = await open(two, { head: "value" });
    const first = await critic.forwardBackward(data, { name: "value" });
    for (let i = 0; i < 15; i++) {
      await critic.step({ name: "adamw", learningRate: 3e-3 });
      await critic.forwardBackward(data, { name: "value" });
    }
    critic.discard();
    const last = await critic.forwardBackward(data, { name: "value" });
    expect(last.loss).toBeLessThan(0.5 * first.loss);
    const [{ values } = {}] = await critic.forward(data.slice(0, 1));
    expect(values).toEqual(last.outputs[0]);
    expect([...values!].filter((value, i) => data[0]!.targets[i]! < 0 && value !== 0)).toEqual([]);
    await expect(critic.forwardBackward(data, ppo)).rejects.toThrow(/"value"/);
  });
});

describe("bad input ends in an error that says what to do, and the engine lives on", () => {
  test.each([
    ["a context that is too long", /context of 600/, () => ({ ids: new Int32Array(601), images: [] })],
    ["an id outside the vocabulary", /outside the vocabulary/, () => ({ ids: Int32Array.of(1, 9999), images: [] })],
    [
      "a placeholder without an image",
      /there is no image/,
      () => ({ ids: Int32Array.of(1, model.config.ids.imageToken), images: [] }),
    ],
    [
      "an image with the wrong number of placeholders",
      /has 4 tokens but 1/,
      () => {
        const { ids, images } = new Growing(model.config).show(images32()).input();
        return { ids, images: [{ ...images[0]!, image: new Image(64, 64, new Uint8Array(64 * 64 * 3)) }] };
      },
    ],
    [
      "an image that is too large",
      /too large/,
      () => {
        const { ids, images } = new Growing(model.config).show(images32()).input();
        return { ids, images: [{ ...images[0]!, image: new Image(4000, 4000, new Uint8Array(48_000_000)) }] };
      },
    ],
  ] as const)("%s", async (_, message, make) => {
    const learner = await open(two);
    const input = make();
    const datum = {
      input,
      targets: new Int32Array(input.ids.length).fill(-1),
      weights: new Float32Array(input.ids.length),
    };
    await expect(learner.forward([datum])).rejects.toThrow(message);
    expect(await learner.forward(data.slice(0, 1))).toHaveLength(1);
  });

  test("a worker that dies takes its call down, is replaced, and half-made gradients are not applied", async () => {
    const engine = new NativeEngine({ threads: 2 });
    const learner = await open(engine);
    const before = await weightsOf(learner);
    const batch = Array.from({ length: 40 }, () => data).flat();
    const call = learner.forwardBackward(batch, ppo);
    const caught = expect(call).rejects.toThrow(/died/);
    await engine.pool.kill(0);
    await engine.pool.kill(1);
    await caught;
    expect((await learner.step(adamw)).applied).toBe(false);
    expect(await weightsOf(learner)).toEqual(before);
    expect((await learner.forwardBackward(data, ppo)).finite).toBe(true);
    expect((await learner.step(adamw)).applied).toBe(true);
    await engine.close();
    await expect(learner.forward(data)).rejects.toThrow(/closed/);
  });
});

function images32(): Image {
  return new Image(32, 32, new Uint8Array(32 * 32 * 3));
}
