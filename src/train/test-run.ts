/**
 * For the tests of this room: a world in which one look decides the right word, a model small enough to learn it in seconds, and a recipe that
 * trains it. Each turn shows a plain colour; the word that belongs to it is right. Who can't see it can only guess.
 */
import { createHash } from "node:crypto";
import { readdirSync, readFileSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { z } from "zod";
import { Image } from "../core/image.ts";
import { image, user } from "../core/message.ts";
import { NumpyRandom } from "../core/random-numpy.ts";
import type { Engine } from "../engine/engine.ts";
import { act, bare } from "../envs/action.ts";
import { defineWorld } from "../envs/define.ts";
import type { Protocol } from "../envs/protocol.ts";
import { isRegistered, register } from "../envs/registry.ts";
import { type CreateOptions, createFolder } from "../model/folder.ts";
import { frame } from "../rollout/test-model.ts";
import type { Sequence, Trajectory } from "../rollout/trajectory.ts";
import { type Recipe, type RecipeInput, resolveRecipe } from "./recipe.ts";
import { train } from "./train.ts";

const SIGNALS = [
  ["go", 40, 200, 60],
  ["halt", 210, 40, 40],
  ["turn", 40, 60, 210],
  ["wait", 220, 200, 40],
] as const;

/** The colours in words, for who can only read. */
const NAMES = ["green", "red", "blue", "yellow"];

export const signals = defineWorld({
  id: "signals",
  summary: "see a colour, say its word",
  options: z.strictObject({
    looks: z.int().min(1).default(1),
    words: z.int().min(2).max(4).default(4),
    // 32 × 32 pixels are one token.
    side: z.int().min(1).default(32),
  }),
  create({ looks, words, side }) {
    const chosen = SIGNALS.slice(0, words);
    let shown: number[] = [];
    let shade = 0;
    let turn = 0;
    let right = 0;
    const wanted = () => (chosen[shown[turn] ?? 0] as (typeof SIGNALS)[number])[0];
    return {
      actions: chosen.map(([word]) => bare(word, "answer")),
      reset(seed) {
        const random = new NumpyRandom(seed);
        shown = Array.from({ length: looks }, () => random.integers(0, words));
        shade = random.integers(-20, 21);
        turn = 0;
        right = 0;
      },
      act({ name }) {
        const hit = name === wanted();
        right += hit ? 1 : 0;
        turn += 1;
        return { valid: true, reward: hit ? 1 / looks : 0, ended: turn >= looks };
      },
      observe(mode) {
        if (mode === "text") return NAMES[shown[turn] ?? 0] as string;
        const [, ...colour] = chosen[shown[turn] ?? 0] as (typeof SIGNALS)[number];
        const data = new Uint8Array(side * side * 3).map((_, i) => (colour[i % 3] as number) + shade);
        return new Image(side, side, data);
      },
      task: () => "Signal?",
      success: () => right === looks,
      solve: () => [act(wanted())],
    };
  },
});

if (!isRegistered(signals.id)) register(signals);

/** What is broken, and for which seeds; a test mends it. */
export const broken = { how: "act", seeds: (_: number): boolean => false };

const brokenSignals = defineWorld({
  ...signals,
  id: "broken_signals",
  async create(options) {
    const world = await signals.create(options);
    let bad = false;
    const when = <T>(how: string, fault: () => T, well: T): T => (bad && broken.how === how ? fault() : well);
    const fail = (): never => {
      throw new Error(`the gears of ${broken.how} jam`);
    };
    return {
      ...world,
      async reset(seed) {
        bad = broken.seeds(seed);
        when("reset", fail, undefined);
        await when("hang", () => new Promise<void>(() => {}), undefined);
        await world.reset(seed);
      },
      async act(action) {
        when("act", fail, undefined);
        const outcome = await world.act(action);
        const reward = when(
          "NaN",
          () => Number.NaN,
          when("Infinity", () => Number.POSITIVE_INFINITY, outcome.reward),
        );
        return { ...outcome, reward };
      },
      async observe(mode) {
        when("observe", fail, undefined);
        return world.observe(mode);
      },
    };
  },
});
if (!isRegistered(brokenSignals.id)) register(brokenSignals);

/** A reply is one word, so its first token decides: no neighbour shares its credit. */
export const oneWord: Protocol = {
  name: "one-word",
  maxActions: 1,
  formatReward: { kind: "none" },
  instruction: () => "Say one word.",
  print: (actions) => actions[0]?.name ?? "",
  parse(reply, specs) {
    const found = specs.find(({ name }) => name === reply.trim());
    if (found === undefined) return { actions: [], wellFormed: false, sections: {} };
    const start = reply.indexOf(found.name);
    return { actions: [act(found.name)], wellFormed: true, sections: {}, span: [start, start + found.name.length] };
  },
};

const CORPUS = [
  "system user assistant <|im_start|>user Signal?\nSay one word. Say one word. Signal?\nSay one word.",
  ...SIGNALS.map(([word]) => `assistant\n${word} ${word}\nuser\n${word}\n`),
  "Turn 0 of seed 1. Turn 2 of seed 3. Turn 4 of seed 56789.",
];

export const TINY: CreateOptions = {
  corpus: CORPUS,
  vocab_size: 320,
  text: {
    hidden_size: 32,
    intermediate_size: 64,
    num_hidden_layers: 2,
    num_attention_heads: 2,
    num_key_value_heads: 1,
    head_dim: 16,
    mrope_section: [4, 2, 2],
    max_position_embeddings: 512,
    initializer_range: 0.1,
  },
  vision: {
    depth: 1,
    hidden_size: 16,
    intermediate_size: 32,
    num_heads: 1,
    num_position_embeddings: 16,
    deepstack_visual_indexes: [0],
    initializer_range: 0.1,
  },
};

export type TestFolder = { readonly root: string; readonly model: string; remove(): Promise<void> };

/** A folder that goes away, with a tiny model inside it. */
export async function testFolder(): Promise<TestFolder> {
  const root = await mkdtemp(join(tmpdir(), "saccade-train-"));
  await createFolder(join(root, "model"), TINY);
  return { root, model: join(root, "model"), remove: () => rm(root, { recursive: true, force: true }) };
}

/** The same with a model that was shown random words: it speaks, earns something now and then, and knows nothing of colours. */
export async function warmFolder(engine: Engine, seed = 0, options: Record<string, unknown> = {}): Promise<TestFolder> {
  const folder = await testFolder();
  const optimizer = { name: "muon", learningRate: 0.02, adamLearningRate: 0.01 } as const;
  const warmStart = { episodes: 1280, noise: 1, batch: 32, optimizer };
  const recipe = tinyRecipe(folder.model, { seed, envs: [signalsEnv(2, options)], steps: 0, warmStart });
  const { model } = await train({ recipe, folder: join(folder.root, "warm"), engine });
  return { ...folder, model };
}

/** The world as a recipe names it. A reply that is no word is a look wasted. */
export function signalsEnv(looks = 1, more: Record<string, unknown> = {}) {
  const options = { looks, maxTurns: looks, protocol: oneWord, prompt: "brief", feedback: false, ...more };
  return { env: signals.id, options };
}

/** A run of a few seconds: every part of the trainer once, and all of it cheap. */
export function tinyRecipe(model: string, changes: Partial<RecipeInput> = {}): Recipe {
  return resolveRecipe({
    name: "tiny",
    model,
    envs: [signalsEnv()],
    steps: 4,
    groups: 4,
    siblings: 4,
    sampling: { maxTokens: 4, contextTokens: 256 },
    filters: [],
    optimizer: { name: "muon", learningRate: 0.01, adamLearningRate: 0.003 },
    evaluate: { every: 100, before: false, greedy: false, seeds: [1_000_000_000, 1_000_000_007] },
    sight: { every: 0 },
    checkpoint: { every: 2 },
    engine: { name: "native", threads: 2 },
    ...changes,
  });
}

/** A hash for every weight and optimizer file under a folder, by name. */
export function weightsUnder(folder: string): Record<string, string> {
  const names = readdirSync(folder, { recursive: true, encoding: "utf8" }).filter((name) =>
    name.endsWith(".safetensors"),
  );
  return Object.fromEntries(
    names.sort().map((name) => [
      name,
      createHash("sha256")
        .update(readFileSync(join(folder, name)))
        .digest("hex"),
    ]),
  );
}

export type PlayedTurn = {
  readonly reward: number;
  /** Sampled ids with the log-probabilities they were drawn with. */
  readonly said: readonly (readonly [id: number, logprob: number])[];
  /** Ids before the reply; default 3, of which the second is an image. */
  readonly given?: number;
  /** The reply met its token limit. */
  readonly cut?: boolean;
};

/** An episode as a rollout leaves it, written by hand. `split`: one sequence per turn, which copies all turns before it. */
export function playedEpisode(
  group: string,
  sibling: number,
  turns: readonly PlayedTurn[],
  more: Partial<Trajectory> & { readonly split?: boolean } = {},
): Trajectory {
  const { split = false, ...rest } = more;
  const images = turns.map((_, turn) => frame((40 * turn + sibling) % 256, 32, 32));
  const sequenceUpTo = (last: number): Sequence => {
    const cells: { id: number; logprob: number; sampled: boolean }[] = [];
    const spans: Sequence["images"][number][] = [];
    const replies: Sequence["replies"][number][] = [];
    turns.slice(0, last + 1).forEach(({ said, given = 3 }, turn) => {
      for (let i = 0; i < given; i++) {
        if (i === 1) spans.push({ start: cells.length, length: 1, image: images[turn] as Image });
        cells.push({ id: 900 + i, logprob: 0, sampled: false });
      }
      const sampled = !split || turn === last;
      if (sampled) replies.push({ turn, start: cells.length, end: cells.length + said.length });
      for (const [id, logprob] of said) cells.push({ id, logprob: sampled ? logprob : 0, sampled });
    });
    // The end of the last turn, forced.
    cells.push({ id: 999, logprob: 0, sampled: false });
    return {
      ids: Int32Array.from(cells, ({ id }) => id),
      images: spans,
      sampled: Uint8Array.from(cells, ({ sampled }) => (sampled ? 1 : 0)),
      samplerLogprobs: Float32Array.from(cells, ({ logprob }) => logprob),
      versions: Int32Array.from(cells, ({ sampled }) => (sampled ? 1 : -1)),
      replies,
    };
  };
  const info = { actions: [], parsed: true, wellFormed: true, valid: true };
  return {
    id: `${group}/${sibling}`,
    env: "hand",
    seed: 1,
    group,
    sibling,
    temperature: 0.7,
    sequences: split ? turns.map((_, turn) => sequenceUpTo(turn)) : [sequenceUpTo(turns.length - 1)],
    turns: turns.map(({ reward, cut }, turn) => ({
      observation: [user(image(images[turn] as Image))],
      reply: "",
      stopReason: cut ? "length" : "stop",
      reward,
      rewards: [{ name: "task", value: reward }],
      info,
      startedAt: 0,
      sampleMs: 0,
      encodeMs: 0,
      envMs: 0,
    })),
    final: [],
    reward: turns.reduce((sum, { reward }) => sum + reward, 0),
    success: false,
    end: "done",
    retries: 0,
    ...rest,
  };
}

/** Runs of 8 updates and 8 steps in which everything that a checkpoint must hold changes: optimizers, references, coefficients, critics, refills. */
export function resumeRecipe(model: string, variant: "kl" | "critic", changes: Partial<RecipeInput> = {}): Recipe {
  const sgd = { learningRate: 0.003, weightDecay: 0.01 };
  const variants: Record<typeof variant, Partial<RecipeInput>> = {
    kl: {
      kl: { as: "reward", coefficient: 0.05, target: 0.01, horizon: 100 },
      referenceEvery: 3,
      filters: [{ name: "zero-variance" }],
      refill: true,
      refillLimit: 2,
    },
    critic: { advantage: { name: "gae" }, critic: { optimizer: sgd, warmupSteps: 1 }, optimizer: sgd },
  };
  return tinyRecipe(model, {
    envs: [signalsEnv(2)],
    warmStart: { episodes: 64, noise: 0.5, batch: 8, optimizer: { ...sgd, learningRate: 0.01 } },
    steps: 8,
    minibatch: 8,
    epochs: 2,
    schedule: { name: "cosine", warmupSteps: 2, floor: 0.1 },
    evaluate: { every: 4, greedy: false, seeds: [1_000_000_000, 1_000_000_007] },
    sight: { every: 4, episodes: 4 },
    ...variants[variant],
    ...changes,
  });
}
