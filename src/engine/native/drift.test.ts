/** Zero drift: what the sampler reports is what the learner computes, bit for bit, so a ratio to the sampling policy is exactly 1. */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { ModelInput } from "../../core/model-input.ts";
import type { Learner, Sampler } from "../engine.ts";
import { NativeEngine } from "./engine.ts";
import { type Played, playEpisode, type TestModel, tinyImages, tinyModel } from "./test-model.ts";

let model: TestModel;
const images = tinyImages(12);

beforeAll(async () => {
  model = await tinyModel();
});
afterAll(() => model.remove());

function play(sampler: Sampler, seeds: readonly number[]): Promise<Played[]> {
  return Promise.all(seeds.map((seed) => playEpisode(sampler, model.config, images, seed)));
}

function range(from: number, count: number): number[] {
  return Array.from({ length: count }, (_, i) => from + i);
}

/** Trains the whole model a little, the vision tower too. */
async function train(learner: Learner, played: readonly Played[]): Promise<void> {
  const data = played.slice(0, 16).map(({ datum, sampled }, i) => ({
    ...datum,
    weights: datum.weights.map((w) => w / 16),
    advantages: datum.weights.map((_, at) => ((i + at) % 3) - 1),
    oldLogprobs: sampled,
  }));
  const report = await learner.forwardBackward(data, { name: "ppo", clipLow: 0.8, clipHigh: 1.28 });
  // Zero drift, said the trainer's way.
  expect(report.metrics.ratio).toBe(1);
  expect(report.metrics.kl_old).toBe(0);
  expect(report.metrics.clip_high).toBe(0);
  expect(
    (await learner.step({ name: "muon", learningRate: 0.01, adamLearningRate: 0.003, maxGradNorm: 1 })).applied,
  ).toBe(true);
}

/** The fastest of this machine, and those that run everywhere. */
describe.each([
  { which: "default", options: {}, rounds: 5 },
  { which: "wasm", options: { kernels: "wasm" }, rounds: 2 },
] as const)("zero drift, $which kernels", ({ options, rounds }) => {
  let one: NativeEngine;
  let two: NativeEngine;
  beforeAll(() => {
    one = new NativeEngine({ ...options, threads: 1 });
    two = new NativeEngine({ ...options, threads: 2 });
  });
  afterAll(async () => {
    await one.close();
    await two.close();
  });

  test("hundreds of episodes on one and two threads, with weight updates between, give the training forward's bits", async () => {
    for (const [engine, start] of [
      [two, 0],
      [one, 10_000],
    ] as const) {
      const learner = await engine.learner({ folder: model.folder, seed: 1 });
      let tokens = 0;
      for (let round = 0; round < rounds; round++) {
        const sampler = await learner.publish();
        expect(sampler.version).toBe(round + 1);
        const played = await play(sampler, range(start + round * 1000, 100));
        const forwards = await learner.forward(played.map(({ datum }) => datum));
        const scores = await sampler.score(played.map(({ datum }) => datum));
        for (const [i, { sampled, datum }] of played.entries()) {
          expect(forwards[i]!.logprobs).toEqual(sampled);
          expect(scores[i]!.logprobs).toEqual(sampled);
          tokens += datum.weights.reduce((sum, w) => sum + w, 0);
        }
        await train(learner, played);
        await sampler.close();
      }
      expect(tokens).toBeGreaterThan(800 * rounds);
      await learner.close();
    }
  });

  test("an episode played alone on one thread and among others on two has the same ids and bits", async () => {
    const alone = await one.sampler(model.folder);
    const crowded = await two.sampler(model.folder);
    const together = await play(crowded, range(500, 40));
    for (let i = 0; i < 40; i += 4) {
      const single = await playEpisode(alone, model.config, images, 500 + i);
      expect(single.datum.input.ids).toEqual(together[i]!.datum.input.ids);
      expect(single.sampled).toEqual(together[i]!.sampled);
    }
    await alone.close();
    await crowded.close();
  });

  test("a forward gives the same bits however sequences are packed", async () => {
    const sampler = await two.sampler(model.folder);
    const played = await play(sampler, range(900, 20));
    const packed = await sampler.score(played.map(({ datum }) => datum));
    for (const [i, { datum }] of played.entries()) {
      const [single] = await sampler.score([datum]);
      expect(single!.logprobs).toEqual(packed[i]!.logprobs);
    }
    await sampler.close();
  });

  test("caching never shows: prompts that extend, repeat, shrink, branch or swap an image give what a fresh sequence gives", async () => {
    const sampler = await two.sampler(model.folder);
    const reference = await one.sampler(model.folder);
    const { datum } = await playEpisode(sampler, model.config, images, 77, { turns: 4 });
    const { ids, images: spans } = datum.input;
    const cut = (length: number) => ({
      ids: ids.slice(0, length),
      images: spans.filter((span) => span.start + span.length <= length),
    });
    const ends = spans.map((span) => span.start + span.length + 1);
    const prompts: ModelInput[] = [ids.length, ids.length, ends[0]!, ids.length - 3, ends[1]!, 2].map(cut);
    const other = images.find(
      (image) =>
        image.hash !== spans[0]!.image.hash &&
        image.width * image.height === spans[0]!.image.width * spans[0]!.image.height,
    );
    const swapped = { ids, images: [{ ...spans[0]!, image: other! }, ...spans.slice(1)] };
    prompts.push(datum.input, swapped, datum.input);
    for (const [i, prompt] of prompts.entries()) {
      const params = { maxTokens: 5, temperature: 1, seed: i };
      const cached = await sampler.sample(prompt, params, { sequence: "same" });
      const fresh = await reference.sample(prompt, params, { sequence: `fresh ${i}` });
      reference.release(`fresh ${i}`);
      expect(cached.ids).toEqual(fresh.ids);
      expect(cached.logprobs).toEqual(fresh.logprobs);
    }
    await sampler.close();
    await reference.close();
  });
});
