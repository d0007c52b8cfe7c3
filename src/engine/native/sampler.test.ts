import { cp, truncate } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { Image } from "../../core/image.ts";
import type { ModelInput } from "../../core/model-input.ts";
import { NumpyRandom } from "../../core/random-numpy.ts";
import { loadFolder } from "../../model/folder.ts";
import type { Datum, Sampler, SamplingParams } from "../engine.ts";
import { NativeEngine } from "./engine.ts";
import { Growing, playEpisode, type TestModel, tinyImages, tinyModel } from "./test-model.ts";

let model: TestModel;
let engine: NativeEngine;
let sampler: Sampler;
const images = tinyImages(8);
const plain: SamplingParams = { maxTokens: 12, temperature: 1, seed: 5 };
let names = 0;

beforeAll(async () => {
  model = await tinyModel();
  engine = new NativeEngine({ threads: 2 });
  sampler = await engine.sampler(model.folder);
});
afterAll(async () => {
  await engine.close();
  await model.remove();
});

function prompt(seed: number, shownImages = 1): ModelInput {
  const random = new NumpyRandom(seed);
  const growing = new Growing(model.config).words(random, 6);
  for (let i = 0; i < shownImages; i++) growing.show(images[(seed + i) % images.length]!).words(random, 3);
  return growing.input();
}

async function draw(params: Partial<SamplingParams> = {}, from = prompt(1)) {
  const sequence = `test ${names++}`;
  const sample = await sampler.sample(from, { ...plain, ...params }, { sequence });
  sampler.release(sequence);
  return sample;
}

function scored(input: ModelInput, temperature = 1): Datum {
  const targets = Int32Array.from(input.ids, (_, i) => input.ids[i + 1] ?? -1);
  return { input, targets, weights: new Float32Array(input.ids.length), temperature };
}

describe("streaming", () => {
  test("every id comes as it is drawn, in order, before the sample is whole", async () => {
    const heard: { id: number; logprob: number; whole: boolean }[] = [];
    let whole = false;
    const sample = await sampler.sample(prompt(2), plain, {
      sequence: "streamed",
      onToken: (id, logprob) => heard.push({ id, logprob, whole }),
    });
    whole = true;
    sampler.release("streamed");
    expect(heard.map(({ id }) => id)).toEqual([...sample.ids]);
    expect(heard.map(({ logprob }) => Math.fround(logprob))).toEqual([...sample.logprobs]);
    expect(heard.some((one) => one.whole)).toBe(false);
    // A stream changes nothing about what is drawn.
    expect((await draw({}, prompt(2))).ids).toEqual(sample.ids);
  });
});

describe("processed images", () => {
  test("are used as they are, by sampling and by scoring, whatever image stands beside them", async () => {
    const { processor } = await loadFolder(model.folder);
    const [shown, other] = [
      images[1]!,
      new Image(images[1]!.width, images[1]!.height, new Uint8Array(images[1]!.data.length)),
    ];
    const random = () => new NumpyRandom(9);
    const real = new Growing(model.config).words(random(), 4).show(shown).words(random(), 3).input();
    const { patches, gridH, gridW } = processor.preprocess(shown);
    const features = {
      hash: "made elsewhere",
      grid: [1, gridH, gridW] as const,
      dtype: "float32" as const,
      data: new Uint8Array(patches.buffer, patches.byteOffset, patches.byteLength),
    };
    const given = { ids: real.ids, images: real.images.map((span) => ({ ...span, image: other, features })) };
    const blank = { ids: real.ids, images: real.images.map((span) => ({ ...span, image: other })) };
    const expected = await draw({}, real);
    expect(await draw({}, given)).toEqual(expected);
    expect((await draw({}, blank)).logprobs).not.toEqual(expected.logprobs);
    const [own, carried] = await sampler.score([scored(real), scored(given)]);
    expect(carried).toEqual(own);
    const short = { ...features, hash: "short", data: features.data.slice(4) };
    const broken = { ids: real.ids, images: real.images.map((span) => ({ ...span, features: short })) };
    await expect(draw({}, broken)).rejects.toThrow(/processed image/);
  });
});

describe("drawing", () => {
  test("the same seed draws the same ids, another seed others, and a longer sample begins with the shorter", async () => {
    const first = await draw();
    expect(await draw()).toEqual(first);
    expect((await draw({ seed: 6 })).ids).not.toEqual(first.ids);
    expect((await draw({ maxTokens: 5 })).ids).toEqual(first.ids.slice(0, 5));
    expect(first.stopReason).toBe("length");
    expect(first.version).toBe(0);
  });

  test("greedy takes the likeliest id and reports its log-probability at temperature 1", async () => {
    const greedy = await draw({ temperature: 0, topLogprobs: 1 });
    for (const [i, id] of greedy.ids.entries()) {
      expect(greedy.topLogprobs![i]).toEqual([{ id, logprob: greedy.logprobs[i] }]);
    }
    const ids = Int32Array.of(...prompt(1).ids, ...greedy.ids);
    const [score] = await sampler.score([scored({ ids, images: prompt(1).images })]);
    expect(score!.logprobs.slice(prompt(1).ids.length - 1, -1)).toEqual(greedy.logprobs);
    const one = await draw({ topK: 1 });
    expect(one.ids).toEqual(greedy.ids);
    expect([...one.logprobs]).toEqual(new Array(12).fill(0));
  });

  test("raw log-probabilities are those of temperature 1, whatever was sampled", async () => {
    const sample = await draw({ temperature: 0.6, topP: 0.9, rawLogprobs: true });
    const ids = Int32Array.of(...prompt(1).ids, ...sample.ids);
    const [score] = await sampler.score([scored({ ids, images: prompt(1).images })]);
    expect(score!.logprobs.slice(prompt(1).ids.length - 1, -1)).toEqual(sample.rawLogprobs);
    expect(sample.rawLogprobs).not.toEqual(sample.logprobs);
  });

  test("log-probabilities of the prompt are the forward's; the first id and vision ids have none", async () => {
    const input = prompt(4, 2);
    const { promptLogprobs } = await draw({ promptLogprobs: true, temperature: 0.8 }, input);
    const [score] = await sampler.score([scored(input, 0.8)]);
    const { imageToken, visionStart, visionEnd } = model.config.ids;
    for (const [i, id] of input.ids.entries()) {
      const none = i === 0 || [imageToken, visionStart, visionEnd].includes(id);
      expect(promptLogprobs![i]).toBe(none ? 0 : score!.logprobs[i - 1]);
    }
  });

  test("vision ids can't be sampled: every other id has a probability, and they add up to 1", async () => {
    const { vocabSize } = model.config.text;
    const { topLogprobs } = await draw({ topLogprobs: vocabSize, maxTokens: 3 });
    const { imageToken, videoToken, visionStart, visionEnd } = model.config.ids;
    const padding = (await loadFolder(model.folder)).tokenizer.specialId("<|vision_pad|>");
    for (const row of topLogprobs!) {
      expect(row).toHaveLength(vocabSize - 5);
      const ids = row.map(({ id }) => id);
      for (const vision of [imageToken, videoToken, visionStart, visionEnd, padding]) expect(ids).not.toContain(vision);
      expect(row.reduce((sum, { logprob }) => sum + Math.exp(logprob), 0)).toBeCloseTo(1, 5);
    }
  });

  test("a stop id ends a sample and belongs to it", async () => {
    const whole = await draw({ maxTokens: 30 });
    const stopId = whole.ids[7]!;
    const stopped = await draw({ maxTokens: 30, stopIds: [stopId] });
    expect(stopped.ids).toEqual(whole.ids.slice(0, whole.ids.indexOf(stopId) + 1));
    expect(stopped.stopReason).toBe("stop");
  });

  test("a stop string may span ids; it ends the sample with the id that completes it", async () => {
    const { tokenizer } = await loadFolder(model.folder);
    let found = 0;
    for (let seed = 0; seed < 20; seed++) {
      const whole = await draw({ maxTokens: 60, seed });
      const texts = Array.from(whole.ids, (id) => tokenizer.decode([id]));
      const plainText = /^[ -~]+$/;
      const at = texts.findIndex((text, i) => i > 0 && plainText.test(text) && plainText.test(texts[i - 1]!));
      if (at < 0) continue;
      found += 1;
      const stop = texts[at - 1]!.slice(-1) + texts[at]![0]!;
      const cut = await draw({ maxTokens: 60, seed, stopStrings: ["never said", stop] });
      expect(cut.stopReason).toBe("stop");
      expect(cut.ids).toEqual(whole.ids.slice(0, cut.ids.length));
      expect(tokenizer.decode(cut.ids)).toContain(stop);
      expect(tokenizer.decode(cut.ids.slice(0, -1))).not.toContain(stop);
    }
    expect(found).toBeGreaterThan(5);
  });
});

describe("the context", () => {
  test("a full context ends the sample; a prompt that leaves no room is refused with the limit", async () => {
    const growing = new Growing(model.config).words(new NumpyRandom(3), 590);
    expect((await draw({ maxTokens: 50 }, growing.input())).ids).toHaveLength(10);
    await expect(draw({}, growing.words(new NumpyRandom(4), 10).input())).rejects.toThrow(/context of 600/);
    await expect(draw({}, growing.words(new NumpyRandom(4), 10).input())).rejects.toThrow(/context of 600/);
  });

  test("long prompts are computed in pieces beside samples that are decoding, with the same bits", async () => {
    const long = new Growing(model.config)
      .words(new NumpyRandom(3), 250)
      .show(images[0]!)
      .words(new NumpyRandom(4), 300)
      .input();
    const alone = await draw({}, long);
    const [crowded] = await Promise.all([
      draw({}, long),
      ...Array.from({ length: 8 }, (_, i) => draw({ maxTokens: 40 }, prompt(i))),
    ]);
    expect(crowded).toEqual(alone);
  });
});

describe("caches", () => {
  test("a turn computes only its new ids, siblings only what differs, and every distinct frame is encoded once", async () => {
    const own = new NativeEngine({ threads: 2 });
    const cold = await own.sampler(model.folder);
    const random = new NumpyRandom(0);
    const start = new Growing(model.config).words(random, 40).show(images[0]!).show(images[1]!).words(random, 5);
    await Promise.all(
      Array.from({ length: 8 }, (_, i) =>
        cold.sample(start.input(), { ...plain, seed: i }, { sequence: `sibling ${i}` }),
      ),
    );
    const length = start.ids.length;
    // One full prompt on each of two workers; the other six compute its last id alone.
    expect(own.stats()).toMatchObject({
      encoded: 2,
      distinctFrames: 2,
      prefilledTokens: 2 * length + 6,
      cachedTokens: 6 * (length - 1),
    });
    const before = own.stats();
    const grown = start.words(random, 1);
    const first = await cold.sample(grown.input(), plain, { sequence: "sibling 0" });
    grown.ids.push(...first.ids);
    grown.show(images[2]!).words(random, 2);
    await cold.sample(grown.input(), plain, { sequence: "sibling 0" });
    const after = own.stats();
    expect(after.encoded).toBe(3);
    // The last sampled id was never computed, so it counts as new.
    expect(after.prefilledTokens - before.prefilledTokens).toBeLessThan(1 + 1 + (grown.ids.length - length) + 1);
    await own.close();
  });

  test("after training the vision tower, features are new: a stale hit would show", async () => {
    const learner = await engine.learner({ folder: model.folder, seed: 0, freeze: "language" });
    const { datum } = await playEpisode(sampler, model.config, images, 12, { turns: 3, temperature: 1 });
    expect(datum.input.images.length).toBeGreaterThan(0);
    const old = await learner.publish();
    const params = { ...plain, topLogprobs: 3 };
    const before = await old.sample(datum.input, params, { sequence: "a" });
    await learner.forwardBackward([datum], { name: "cross-entropy" });
    await learner.step({ name: "adamw", learningRate: 0.05 });
    const fresh = await learner.publish();
    const after = await fresh.sample(datum.input, params, { sequence: "a" });
    expect(after.topLogprobs![0]).not.toEqual(before.topLogprobs![0]);
    const ids = Int32Array.of(...datum.input.ids, ...after.ids);
    const [forward] = await learner.forward([scored({ ids, images: datum.input.images })]);
    expect(forward!.logprobs!.slice(datum.input.ids.length - 1, -1)).toEqual(after.logprobs);
    // And the old version still answers as it did.
    expect(await old.sample(datum.input, params, { sequence: "b" })).toEqual(before);
    expect([old.version, fresh.version]).toEqual([1, 2]);
  });
});

describe("endings", () => {
  test("an abort ends one sample with the signal's reason and harms no other", async () => {
    const controller = new AbortController();
    const reason = new Error("enough");
    const whole = await draw({ maxTokens: 200 });
    const aborted = sampler.sample(
      prompt(1),
      { ...plain, maxTokens: 500 },
      { sequence: "abort", signal: controller.signal },
    );
    const caught = expect(aborted).rejects.toBe(reason);
    const beside = draw({ maxTokens: 200 });
    setImmediate(() => controller.abort(reason));
    await caught;
    expect(await beside).toEqual(whole);
    await expect(sampler.sample(prompt(1), plain, { sequence: "abort", signal: controller.signal })).rejects.toBe(
      reason,
    );
    // The sequence is free again.
    expect((await sampler.sample(prompt(1), plain, { sequence: "abort" })).ids).toEqual(whole.ids.slice(0, 12));
  });

  test("one sequence can't sample twice at once", async () => {
    const calls = [1, 2].map(() => sampler.sample(prompt(1), plain, { sequence: "twice" }));
    const outcomes = await Promise.allSettled(calls);
    expect(outcomes.map(({ status }) => status).sort()).toEqual(["fulfilled", "rejected"]);
    expect(outcomes.find(({ status }) => status === "rejected")).toMatchObject({ reason: { name: "EngineError" } });
  });

  test("a worker that dies fails its samples with an EngineError; the next calls work and give the same", async () => {
    const own = new NativeEngine({ threads: 1 });
    const doomed = await own.sampler(model.folder);
    const whole = await doomed.sample(prompt(1), plain, { sequence: "a" });
    const lost = doomed.sample(prompt(2), { ...plain, maxTokens: 500 }, { sequence: "b" });
    const caught = expect(lost).rejects.toMatchObject({ name: "EngineError" });
    await own.pool.kill(0);
    await caught;
    for (const sequence of ["a", "c"]) expect(await doomed.sample(prompt(1), plain, { sequence })).toEqual(whole);
    await own.close();
    await expect(doomed.sample(prompt(1), plain, { sequence: "a" })).rejects.toThrow(/closed/);
  });

  test("closing a sampler fails what still runs, and it answers no more", async () => {
    const short = await engine.sampler(model.folder);
    const running = short.sample(prompt(3), { ...plain, maxTokens: 500 }, { sequence: "a" });
    const caught = expect(running).rejects.toThrow(/closed/);
    await short.close();
    await caught;
    await expect(short.sample(prompt(3), plain, { sequence: "a" })).rejects.toThrow(/closed/);
    expect((await draw()).ids).toHaveLength(12);
  });

  test("a folder that is no model, or weights that are cut short, end in an error and the engine lives on", async () => {
    await expect(engine.sampler(join(model.root, "none"))).rejects.toThrow(/config.json/);
    const broken = join(model.root, "broken");
    await cp(model.folder, broken, { recursive: true });
    await truncate(join(broken, "model.safetensors"), 5000);
    await expect(engine.sampler(broken)).rejects.toMatchObject({ name: "DataError" });
    expect((await draw()).ids).toHaveLength(12);
  });
});

test("an image that can't be used fails its own sample and no other that came with it", async () => {
  const good = prompt(1);
  const bad = {
    ...good,
    images: good.images.map((span) => ({ ...span, image: new Image(3200, 8, new Uint8Array(3200 * 8 * 3)) })),
  };
  const asked = [good, bad, prompt(2)].map((input, i) => sampler.sample(input, plain, { sequence: `batch ${i}` }));
  const outcomes = await Promise.allSettled(asked);
  expect(outcomes.map(({ status }) => status)).toEqual(["fulfilled", "rejected", "fulfilled"]);
  expect(outcomes[1]).toMatchObject({ reason: { name: "ImageError" } });
});
