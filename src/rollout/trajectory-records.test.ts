/** What a run folder says of an episode is what happened: checked on the rows of a real run, with images the model gets in another size. */
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type ImageSpan, nameOf } from "../core/model-input.ts";
import { NativeEngine } from "../engine/index.ts";
import { makeEnv } from "../envs/registry.ts";
import { readSafetensors } from "../model/safetensors.ts";
import { loadEvents } from "../run/events.ts";
import { readFrame } from "../run/frames.ts";
import { readTrajectories, type TokensRecord, type TrajectoryRecord } from "../run/trajectories.ts";
import { playedEpisode, signalsEnv, type TestFolder, tinyRecipe, warmFolder } from "../train/test-run.ts";
import { train } from "../train/train.ts";
import { rowOf } from "../viewer/row.ts";
import { tokenAgent } from "./agents.ts";
import { playEpisode } from "./episode.ts";
import { ScriptedSampler, testModel } from "./test-model.ts";
import type { Sequence } from "./trajectory.ts";
import { recordOf } from "./trajectory-records.ts";

const CLIP = { clipLow: 0.98, clipHigh: 1.02 };
const STEPS = 3;
/** Of the image as the environment draws it; 40 pixels become 32. */
const SIDE = 40;

let folder: TestFolder;
let engine: NativeEngine;
let run: string;
let rows: TrajectoryRecord[];
beforeAll(async () => {
  engine = new NativeEngine({ threads: 2 });
  folder = await warmFolder(engine);
  run = join(folder.root, "run");
  const recipe = tinyRecipe(folder.model, {
    envs: [signalsEnv(2, { side: SIDE })],
    steps: STEPS,
    minibatch: 4,
    epochs: 2,
    loss: { name: "ppo", ...CLIP },
    evaluate: { every: STEPS, greedy: false, seeds: [1_000_000_000, 1_000_000_007] },
    sight: { every: STEPS, episodes: 6 },
  });
  await train({ recipe, engine, folder: run });
  rows = [];
  for (let step = 0; step <= STEPS; step++) rows.push(...(await readTrajectories(run, step)));
}, 300_000);
afterAll(async () => {
  await engine.close();
  await folder.remove();
});

const of = (split: TrajectoryRecord["split"]) => rows.filter((row) => row.split === split);
const sampledAt = ({ kinds }: TokensRecord) => [...kinds].flatMap((kind, i) => (kind === "s" ? [i] : []));

test("the action is told in words and marked where it stands in the reply", () => {
  const turns = rows.flatMap((row) => row.turns);
  const read = turns.filter((turn) => turn.parsed);
  expect(read.length).toBeGreaterThan(20);
  for (const { reply, actions, actionSpan } of read) {
    const [start, end] = actionSpan as [number, number];
    expect(reply.slice(start, end)).toBe(actions[0]);
  }
  for (const turn of turns.filter(({ parsed }) => !parsed)) expect(turn.actionSpan).toBeUndefined();
});

test("both images are kept: as it was drawn and as the model got it", async () => {
  const turn = rows[0]?.turns[0];
  const hashes = [turn?.frames[0], turn?.modelFrames?.[0]];
  const [drawn, seen] = await Promise.all(hashes.map((hash) => readFrame(run, hash as string)));
  expect([drawn?.width, drawn?.height]).toEqual([SIDE, SIDE]);
  expect([seen?.width, seen?.height]).toEqual([32, 32]);
});

test("images have the same hash where they were drawn, sampled from and trained on", () => {
  for (const { turns, tokens } of of("train")) {
    const images = tokens?.flatMap((sequence) => sequence.images) ?? [];
    expect(images.map(({ hash }) => hash)).toEqual(turns.flatMap(({ frames }) => frames));
    expect(images.map(({ learnerHash }) => learnerHash)).toEqual(images.map(({ hash }) => hash));
  }
});

test("a frame that a server rendered has its own hash where it was trained on, and another's is told", () => {
  const episode = playedEpisode("g", 0, [{ reward: 0, said: [[5, -1]] }]);
  const [plain] = episode.sequences as [Sequence];
  const images = plain.images.map((span) => ({
    ...span,
    features: { hash: "of-the-server", grid: [1, 2, 2], dtype: "uint8", data: span.image.data } as const,
  }));
  const frames = (testImage: string) => {
    const seen = { logprobs: plain.samplerLogprobs, frameHashes: [testImage], updatesBefore: 0 };
    const credit = [{ advantages: plain.samplerLogprobs, seen }];
    const played = { ...episode, sequences: [{ ...plain, images }] };
    const record = recordOf(played, { step: 1, split: "train", textOf: String, credit });
    return { row: rowOf(record)?.frames, images: record.tokens?.flatMap((sequence) => sequence.images) };
  };
  const [image] = images as [ImageSpan];
  const same = frames(nameOf(image));
  expect(same.row).toEqual({ checked: 1, mismatched: 0 });
  expect(same.images?.[0]?.learnerHash).toBe(image.image.hash);
  expect(frames("features:of-another").row).toEqual({ checked: 1, mismatched: 1 });
});

test("before the first update of a step the learner says what the sampler said; later rows say how many came before", () => {
  const sequences = of("train").flatMap(({ tokens = [] }) => tokens);
  const first = sequences.filter(({ updatesBefore }) => updatesBefore === 0);
  expect(first.length).toBeGreaterThan(0);
  for (const { learnerLogprobs, samplerLogprobs } of first) expect(learnerLogprobs).toEqual(samplerLogprobs);
  const moved = sequences.filter(({ updatesBefore = 0 }) => updatesBefore > 0);
  expect(moved.some((one) => sampledAt(one).some((i) => one.learnerLogprobs?.[i] !== one.samplerLogprobs[i]))).toBe(
    true,
  );
});

test("clipped tokens are those whose ratio left the bounds on the side that the advantage pushes to", async () => {
  const sequences = of("train").flatMap(({ tokens = [] }) => tokens);
  let known = 0;
  for (const sequence of sequences) {
    const { learnerLogprobs = [], samplerLogprobs, advantages = [], clipped = [] } = sequence;
    for (const i of sampledAt(sequence)) {
      const ratio = Math.exp((learnerLogprobs[i] as number) - (samplerLogprobs[i] as number));
      const advantage = advantages[i] as number;
      const out = advantage < 0 ? ratio < CLIP.clipLow : advantage > 0 && ratio > CLIP.clipHigh;
      // Numbers of the first epoch; the second may clip more.
      if (out) expect(clipped).toContain(i);
      if (out) known += 1;
    }
    for (const i of clipped) expect(sequence.kinds[i]).toBe("s");
  }
  expect(known).toBeGreaterThan(0);
  const { events } = await loadEvents(run);
  const shares = events.filter(({ kind }) => kind === "train").map(({ metrics }) => metrics["policy/clip_high"] ?? 0);
  expect(Math.max(...shares)).toBeGreaterThan(0);
});

test("probed episodes carry the gap of every reply, and their mean is the metric", async () => {
  const { events } = await loadEvents(run);
  const probe = events.filter(({ kind }) => kind === "sight").at(-1);
  const probed = of("sight").filter(({ step }) => step === probe?.step);
  expect(probed).toHaveLength(6);
  const means = probed.map(({ turns }) => turns.reduce((sum, turn) => sum + (turn.sight as number), 0) / turns.length);
  expect(means.reduce((sum, value) => sum + value, 0) / 6).toBeCloseTo(probe?.metrics["sight/gap"] as number, 6);
  const solved = probed.filter(({ success }) => success).length;
  expect(probe?.metrics["sight/success"]).toBeCloseTo(solved / 6, 6);
  expect(probe?.metrics["sight/success_grey"]).toEqual(expect.any(Number));
});

test("evaluation episodes have their tokens, and no credit", () => {
  expect(of("eval").length).toBeGreaterThan(0);
  for (const { tokens, advantage } of of("eval")) {
    expect(advantage).toBeUndefined();
    expect(tokens?.[0]?.texts).toHaveLength(tokens?.[0]?.ids.length as number);
    expect(tokens?.[0]?.learnerLogprobs).toBeUndefined();
  }
});

test("a critic begins with what the warm start has learned", async () => {
  // Too small to change a 32-bit float.
  const still = { learningRate: 1e-30 };
  const recipe = tinyRecipe(folder.model, {
    warmStart: { episodes: 64, noise: 1, batch: 32, optimizer: { learningRate: 0.01 } },
    steps: 1,
    advantage: { name: "gae" },
    critic: { optimizer: still },
    optimizer: still,
  });
  const path = join(folder.root, "critic");
  await train({ recipe, engine, folder: path });
  const saved = join(path, "checkpoints", "step-3");
  const tensors = (part: string) => readSafetensors(join(saved, part, "model.safetensors"));
  const [policy, critic, before] = [
    await tensors("policy"),
    await tensors("critic"),
    await readSafetensors(join(folder.model, "model.safetensors")),
  ];
  const shared = [...policy.keys()].filter((name) => critic.has(name) && name.includes("layers"));
  expect(shared.length).toBeGreaterThan(10);
  for (const name of shared) expect(critic.get(name)).toEqual(policy.get(name));
  expect(shared.some((name) => policy.get(name)?.data.some((value, i) => value !== before.get(name)?.data[i]))).toBe(
    true,
  );
});

test("an end of turn that the model did not say is forced, not observed", async () => {
  const env = await makeEnv("frozen_lake", {
    protocol: "keyword",
    cellSize: 32,
    size: 2,
    maxTurns: 2,
    prompt: "brief",
  });
  const sampler = new ScriptedSampler(() => "<action>up</action> and on and on and on");
  const agent = tokenAgent({ model: testModel, sampler: () => sampler, temperature: 1, maxTokens: 12 });
  const context = { env, seed: 0, sibling: 0, samplingSeed: 0 };
  const played = await playEpisode({ name: "frozen_lake", env, agent: agent(context), seed: 0 });
  expect(played.turns.map(({ stopReason }) => stopReason)).toEqual(["length", "length"]);
  const [tokens] = recordOf(played, { split: "train", step: 1, textOf: String }).tokens ?? [];
  expect(tokens?.kinds).toMatch(/^p+i+p+s{12}fo+i+o+s{12}$/);
});
