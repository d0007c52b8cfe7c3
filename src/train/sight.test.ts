import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type Features, type ImageSpan, nameOf } from "../core/model-input.ts";
import type { Datum, Sampler } from "../engine/engine.ts";
import { NativeEngine } from "../engine/index.ts";
import { chatModel } from "../model/chat.ts";
import { loadFolder, readWeights } from "../model/folder.ts";
import { writeSafetensors } from "../model/safetensors.ts";
import { tokenAgent } from "../rollout/agents.ts";
import { playGroups } from "../rollout/groups.ts";
import { EnvHost } from "../rollout/hosts.ts";
import { frame } from "../rollout/test-model.ts";
import type { Sequence, Trajectory } from "../rollout/trajectory.ts";
import { findAlarms } from "../run/alarms.ts";
import { againstGrey, hashMismatches, probeSight } from "./sight.ts";
import { playedEpisode, signalsEnv, type TestFolder, testFolder, tinyRecipe } from "./test-run.ts";
import { train } from "./train.ts";

const TURNS = [0, 1].map(() => ({ reward: 0, said: [[5, -1]] as const }));

/** As a server's render route leaves an episode: every span has the numbers that the server made of its frame. */
function withFeatures(episode: Trajectory): Trajectory {
  const features = ({ image }: ImageSpan): Features => ({
    hash: `server-${image.hash}`,
    grid: [1, 2, 2],
    dtype: "uint8",
    data: image.data,
  });
  const sequences = episode.sequences.map((sequence) => ({
    ...sequence,
    images: sequence.images.map((span) => ({ ...span, features: features(span) })),
  }));
  return { ...episode, sequences };
}

/** Says the same of every token, and keeps what it was asked. */
const scoring = (asked: Datum[], logprob = -1) =>
  ({
    score: async (data: readonly Datum[]) => {
      asked.push(...data);
      return data.map(({ targets }) => ({ logprobs: Float32Array.from(targets, (t) => (t < 0 ? 0 : logprob)) }));
    },
  }) as unknown as Sampler;

let engine: NativeEngine;
let folder: TestFolder;
let taught: string;

beforeAll(async () => {
  engine = new NativeEngine({ threads: 2 });
  folder = await testFolder();
  // The right word is demonstrated: there is no saying it without a look.
  const recipe = tinyRecipe(folder.model, {
    steps: 0,
    warmStart: { episodes: 1600, batch: 32, optimizer: { name: "muon", learningRate: 0.03, adamLearningRate: 0.01 } },
  });
  taught = (await train({ recipe, folder: join(folder.root, "taught"), engine })).model;
}, 300_000);
afterAll(async () => {
  await engine.close();
  await folder.remove();
});

async function withEpisodes<T>(model: string, use: (sampler: Sampler, played: Trajectory[]) => Promise<T>): Promise<T> {
  const { env, options } = signalsEnv(2);
  const sampler = await engine.sampler(model);
  const host = new EnvHost();
  const loaded = chatModel(await loadFolder(model));
  const agent = tokenAgent({ model: loaded, sampler: () => sampler, temperature: 1, maxTokens: 4 });
  const requests = Array.from({ length: 40 }, (_, seed) => ({ env: { id: env, options }, seed, siblings: 1 }));
  const played: Trajectory[] = [];
  for await (const { trajectories } of playGroups(requests, { agent, host, samplingSeed: 1, live: 40 })) {
    played.push(...trajectories);
  }
  try {
    return await use(sampler, played);
  } finally {
    await sampler.close();
    await host.close();
  }
}

describe("The gap", () => {
  test("of a model that was taught to look is clearly above zero", async () => {
    await withEpisodes(taught, async (sampler, played) => {
      const { metrics, gaps } = await probeSight(sampler, played);
      expect(metrics["sight/gap_low"]).toBeGreaterThan(0.5);
      expect(metrics["sight/gap_high"]).toBeGreaterThan(metrics["sight/gap"] as number);
      expect(metrics).toMatchObject({ "sight/replies": 80, "sight/hash_mismatches": 0 });
      expect(gaps.size).toBe(40);
    });
  });

  test("of the same model with its vision features at zero has zero inside its interval", async () => {
    const blind = join(folder.root, "blind");
    const learner = await engine.learner({ folder: taught, seed: 0 });
    await learner.export(blind);
    await learner.close();
    const weights = new Map(
      [...(await readWeights(blind))].map(([name, tensor]) => {
        const data = name.includes("merger") ? new Float32Array(tensor.data.length) : tensor.data;
        return [name, { ...tensor, data }] as const;
      }),
    );
    expect([...weights.keys()].filter((name) => name.includes("merger")).length).toBeGreaterThan(4);
    await writeSafetensors(join(blind, "model.safetensors"), weights);
    await withEpisodes(blind, async (sampler, played) => {
      const { metrics } = await probeSight(sampler, played);
      expect(metrics["sight/gap_low"]).toBeLessThanOrEqual(0);
      expect(metrics["sight/gap_high"]).toBeGreaterThanOrEqual(0);
      expect(metrics["sight/replies"]).toBe(80);
    });
  });

  test("is the difference of log-probabilities, with frames of another episode in the same places", async () => {
    const episodes = [0, 1].map((sibling) =>
      playedEpisode(
        `g${sibling}`,
        sibling,
        [
          {
            reward: 0,
            said: [
              [5, -1],
              [6, -2],
            ],
          },
          { reward: 0, said: [[7, -0.5]] },
        ],
        { seed: sibling },
      ),
    );
    const asked: Parameters<Sampler["score"]>[0][] = [];
    const sampler = {
      score: async (data: Parameters<Sampler["score"]>[0]) => {
        asked.push(data);
        return data.map(({ targets }) => ({ logprobs: Float32Array.from(targets, (t) => (t < 0 ? 0 : -3)) }));
      },
    } as unknown as Sampler;
    const { metrics, gaps } = await probeSight(sampler, episodes);
    expect([...(gaps.get("g0/0") ?? [])]).toEqual([
      [0, 3],
      [1, 2.5],
    ]);
    expect(metrics).toMatchObject({ "sight/gap": 2.75, "sight/gap_turn/0": 3, "sight/gap_turn/1": 2.5 });
    asked[0]?.forEach(({ input }, k) => {
      const [own, other] = [episodes[k], episodes[1 - k]].map((each) => each?.sequences[0] as Sequence);
      expect(input.ids).toBe(own?.ids);
      expect(input.images.map(({ start }) => start)).toEqual(own?.images.map(({ start }) => start));
      expect(input.images.map(({ image }) => image.hash)).toEqual(other?.images.map(({ image }) => image.hash));
    });
  });

  test("swaps what a renderer made of a frame together with the frame: engines look at nothing else", async () => {
    const rendered = [0, 1].map((seed) => withFeatures(playedEpisode(`g${seed}`, seed, TURNS, { seed })));
    const asked: Datum[] = [];
    await probeSight(scoring(asked), rendered);
    expect(asked.length).toBe(2);
    asked.forEach(({ input }, k) => {
      const other = rendered[1 - k]?.sequences[0] as Sequence;
      expect(input.images.map(nameOf)).toEqual(other.images.map(nameOf));
    });
    // A frame that nobody rendered goes without features, never with those of the frame that it replaces.
    const plain = playedEpisode("g1", 1, TURNS, { seed: 1 });
    asked.length = 0;
    await probeSight(scoring(asked), [rendered[0] as Trajectory, plain]);
    expect(asked[0]?.input.images.map(nameOf)).toEqual(plain.sequences[0]?.images.map(nameOf));
  });

  test("compares scores with scores where the sampler's numbers are another program's", async () => {
    const episodes = [0, 1].map((seed) => playedEpisode(`g${seed}`, seed, TURNS, { seed }));
    // Blind, and half a nat off from what the tokens were drawn with.
    const { metrics } = await probeSight(scoring([], -1.5), episodes, { exact: false });
    expect(metrics["sight/gap"]).toBe(0);
    expect((await probeSight(scoring([], -1.5), episodes)).metrics["sight/gap"]).toBe(0.5);
  });

  test("is not reported where no frames can be exchanged: nothing is known, and nobody is called blind", async () => {
    const alone = [playedEpisode("g", 0, [{ reward: 0, said: [[5, -1]] }])];
    const { metrics } = await probeSight({} as Sampler, alone);
    expect(metrics).toEqual({ "sight/hash_mismatches": 0, "sight/episodes": 0, "sight/replies": 0 });
  });

  test("of one episode has no interval, and raises no alarm", async () => {
    const turns = [0, 1].map(() => ({ reward: 0, said: [[5, -1]] as const }));
    const [lone, other] = [0, 1].map((seed) => playedEpisode(`g${seed}`, 0, turns, { seed })) as [
      Trajectory,
      Trajectory,
    ];
    // The other's second frame fits no frame of the first episode, so only the first can be probed.
    const sequences = other.sequences.map((sequence) => ({
      ...sequence,
      images: sequence.images.map((span, k) => (k === 1 ? { ...span, image: frame(3, 64, 64) } : span)),
    }));
    const sampler = {
      score: async (data: readonly Datum[]) =>
        data.map(({ targets }) => ({ logprobs: new Float32Array(targets.length).fill(-0.5) })),
    } as unknown as Sampler;
    const { metrics } = await probeSight(sampler, [lone, { ...other, sequences }]);
    expect(metrics).toMatchObject({ "sight/gap": -0.5, "sight/episodes": 1, "sight/replies": 2 });
    expect(Object.keys(metrics).filter((name) => /low|high/.test(name))).toEqual([]);
    const event = { step: 0, time: 0, kind: "sight", metrics: { ...metrics, "sight/hash_mismatches": 0 } } as const;
    expect(findAlarms([event])).toEqual([]);
  });
});

describe("Hashes", () => {
  const turns = [0, 1].map((turn) => ({ reward: 0, said: [[turn + 1, -1]] as const }));

  test.each([false, true])("agree in an episode as it was played (split turns: %s)", (split) => {
    expect(hashMismatches([playedEpisode("g", 0, turns, { split })])).toBe(0);
  });

  test.each([false, true])("tell a span that shows another image than was drawn (split turns: %s)", (split) => {
    const episode = playedEpisode("g", 0, turns, { split });
    const sequences = episode.sequences.map((sequence, k, all) =>
      k < all.length - 1
        ? sequence
        : {
            ...sequence,
            images: sequence.images.map((span, i) => (i === 1 ? { ...span, image: frame(77, 32, 32) } : span)),
          },
    );
    expect(hashMismatches([{ ...episode, sequences }])).toBe(1);
  });

  test("tell features that stand for two different frames", () => {
    const episode = withFeatures(playedEpisode("g", 0, TURNS));
    expect(hashMismatches([episode])).toBe(0);
    const sequences = episode.sequences.map((sequence) => {
      const [first] = sequence.images as [ImageSpan];
      return {
        ...sequence,
        images: sequence.images.map((span) => ({ ...span, features: first.features as Features })),
      };
    });
    expect(hashMismatches([{ ...episode, sequences }])).toBe(1);
  });

  test("tell an image that was drawn over after it was sampled from", () => {
    const episode = playedEpisode("g", 0, turns);
    const image = episode.sequences[0]?.images[0]?.image;
    expect(image?.hash).toHaveLength(32);
    image?.data.fill(9);
    expect(hashMismatches([episode])).toBe(1);
  });
});

test("success with real and with grey frames is told of the episodes that have both", () => {
  const episode = (group: string, success: boolean) =>
    playedEpisode(group, 0, [{ reward: 0, said: [[1, 0]] }], { success });
  const real = [episode("a", true), episode("b", true), episode("c", false), episode("no world", true)];
  const grey = [episode("a", true), episode("b", false), episode("c", false)];
  const shares = againstGrey(real, grey);
  expect(shares["sight/success"]).toBeCloseTo(2 / 3);
  expect(shares["sight/success_grey"]).toBeCloseTo(1 / 3);
});
