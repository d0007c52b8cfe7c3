/** The seven invariants of the ledger. Each test names its own and fails when the rule is broken. */
import { describe, expect, test } from "vitest";
import { DataError } from "../core/errors.ts";
import { assistant, image, type Message, text, user } from "../core/message.ts";
import { NumpyRandom } from "../core/random-numpy.ts";
import { mixSeed } from "../core/seed.ts";
import type { Sample } from "../engine/engine.ts";
import { EngineError } from "../engine/errors.ts";
import type { Env, Step } from "../envs/env.ts";
import { type Agent, type TokenAgentOptions, tokenAgent } from "./agents.ts";
import { playEpisode } from "./episode.ts";
import { TokenLedger } from "./ledger.ts";
import { frame, ScriptedSampler, testModel, tokenizer } from "./test-model.ts";
import type { Trajectory } from "./trajectory.ts";

const IMAGE = testModel.imageToken;
const END = testModel.renderer.endOfTurn;
const limits = { contextTokens: 64, imageToken: IMAGE, visionIds: testModel.visionIds };

function sampleOf(ids: number[], version = 3): Sample {
  return { ids: Int32Array.from(ids), logprobs: new Float32Array(ids.length).fill(-0.5), stopReason: "stop", version };
}

/** Shows a new image each turn (or only at first), pays 1 per turn and ends after `turns`. */
function slides(turns: number, shownImages: "always" | "first" = "always"): Env & { heard: string[] } {
  let turn = 0;
  const look = (): Message =>
    user(text(`Look ${turn}.`), ...(turn === 0 || shownImages === "always" ? [image(frame(turn))] : []));
  const heard: string[] = [];
  return {
    heard,
    reset: () => [look()],
    step(reply): Step {
      heard.push(reply);
      turn += 1;
      const info = { actions: [], parsed: true, wellFormed: true, valid: true };
      const rewards = [{ name: "task", value: 1 }];
      return { observation: [look()], rewards, terminated: turn >= turns, truncated: false, success: true, info };
    },
  };
}

const options = (sampler: ScriptedSampler, more: Partial<TokenAgentOptions> = {}): TokenAgentOptions => ({
  model: testModel,
  sampler: () => sampler,
  temperature: 1,
  maxTokens: 40,
  ...more,
});

async function playWith(
  env: Env,
  sampler: ScriptedSampler,
  more: Partial<TokenAgentOptions> = {},
): Promise<Trajectory> {
  const agent = tokenAgent(options(sampler, more))({ env, seed: 5, sibling: 2, samplingSeed: 9 });
  return playEpisode({ name: "slides", env, agent, seed: 5, sibling: 2 });
}

const startsWith = (whole: Int32Array, prefix: Int32Array) => prefix.every((id, i) => whole[i] === id);

describe("1. Append only", () => {
  test("no later call changes an id, and no caller's array is the ledger's own", () => {
    const ledger = new TokenLedger({ ...limits, contextTokens: 4096 });
    const random = new NumpyRandom(1);
    let before = ledger.sequence();
    for (let round = 0; round < 100; round++) {
      const ids = Array.from({ length: random.integers(1, 30) }, () => random.integers(0, 200));
      const given = Int32Array.from(ids);
      if (round % 3 === 0) ledger.give({ ids: given, images: [] });
      else if (round % 3 === 1) ledger.sample(sampleOf(ids), round);
      else ledger.force(ids[0] as number);
      given.fill(0);
      const after = ledger.sequence();
      expect(after.ids.length).toBeGreaterThan(before.ids.length);
      for (const key of ["ids", "sampled", "samplerLogprobs", "versions"] as const) {
        expect(after[key].subarray(0, before[key].length)).toEqual(before[key]);
      }
      expect(after.replies.slice(0, before.replies.length)).toEqual(before.replies);
      before = ledger.sequence();
      ledger.prompt().ids.fill(7);
      after.ids.fill(7);
      expect(ledger.sequence()).toEqual(before);
    }
  });
});

describe("2. Sampled ids are the trained ids", () => {
  test("ids that no text would give, and their log-probabilities, are kept as drawn", async () => {
    // "le" + "ft" in single bytes is not how the tokenizer writes "left".
    const odd = [..."left"].map((letter) => tokenizer.encodeText(letter)[0] as number);
    expect(Array.from(tokenizer.encodeText("left"))).not.toEqual(odd);
    const sampler = new ScriptedSampler(() => [...odd, END], 4);
    const { sequences } = await playWith(slides(4), sampler);
    const [sequence] = sequences;
    expect(sequence?.replies).toHaveLength(4);
    for (const { turn, start, end } of sequence?.replies ?? []) {
      expect(sequence?.ids.slice(start, end)).toEqual(sampler.samples[turn]?.ids);
      expect(sequence?.samplerLogprobs.slice(start, end)).toEqual(sampler.samples[turn]?.logprobs);
      expect([...(sequence?.versions.slice(start, end) ?? [])].every((version) => version === 4)).toBe(true);
    }
  });

  test("a sample whose log-probabilities are missing, not finite or positive is refused", () => {
    const ledger = new TokenLedger(limits);
    const sample = sampleOf([1, 2, 3]);
    expect(() => ledger.sample({ ...sample, logprobs: new Float32Array(2) }, 0)).toThrow(EngineError);
    for (const bad of [Number.NaN, Number.NEGATIVE_INFINITY, 0.5]) {
      expect(() => ledger.sample({ ...sample, logprobs: Float32Array.of(-1, bad, -1) }, 0)).toThrow(EngineError);
    }
    expect(() => ledger.sample(sampleOf([]), 0)).toThrow(EngineError);
    expect(ledger.length).toBe(0);
  });

  test("turn t of sibling i samples with the seed mixed from the run's, the episode's, i and t", async () => {
    const sampler = new ScriptedSampler(() => "left");
    await playWith(slides(3), sampler);
    expect(sampler.asked.map(({ params }) => params.seed)).toEqual([0, 1, 2].map((turn) => mixSeed(9, 5, 2, turn)));
  });
});

describe("3. Only sampled ids carry loss", () => {
  test("prompts, observations and forced ends have no loss, no log-probability and no version", async () => {
    const sampler = new ScriptedSampler(() => "left right up down left right up down");
    const { sequences, turns } = await playWith(slides(3), sampler, { maxTokens: 5 });
    expect(turns.map((turn) => turn.stopReason)).toEqual(["length", "length", "length"]);
    const [sequence] = sequences;
    if (sequence === undefined) throw new Error("no sequence");
    const inReply = new Uint8Array(sequence.ids.length);
    for (const { start, end } of sequence.replies) inReply.fill(1, start, end);
    expect(sequence.sampled).toEqual(inReply);
    expect(sequence.sampled.reduce((a, b) => a + b)).toBe(15);
    sequence.sampled.forEach((flag, i) => {
      if (flag === 0) expect([sequence.samplerLogprobs[i], sequence.versions[i]]).toEqual([0, -1]);
    });
    // The end that the model did not say follows each reply but the last, which nothing follows.
    for (const { end } of sequence.replies.slice(0, -1)) {
      expect([sequence.ids[end], sequence.sampled[end]]).toEqual([END, 0]);
    }
    expect(sequence.replies.at(-1)?.end).toBe(sequence.ids.length);
    expect(sequence.forced).toEqual(sequence.replies.slice(0, -1).map(({ end }) => end));
  });

  test("a split ledger knows which of the ids that it copied were forced", async () => {
    const sampler = new ScriptedSampler((_, call) => (call === 1 ? "left" : "left right up down left right up down"));
    const { sequences } = await playWith(slides(3), sampler, { maxTokens: 5, turns: "split", history: 2 });
    // Replies 0 and 2 are cut; what ends the last is never written.
    expect(sequences.map(({ forced }) => forced?.length)).toEqual([0, 1, 1]);
    for (const { forced = [], ids, sampled } of sequences) {
      for (const at of forced) expect([ids[at], sampled[at]]).toEqual([END, 0]);
    }
  });

  test("a turn that was cut reads to the model exactly as one that ended", async () => {
    const words = Array.from(tokenizer.encodeText("left"));
    const cut = await playWith(slides(2), new ScriptedSampler(() => [...words, 1, 1]), { maxTokens: words.length });
    const whole = await playWith(slides(2), new ScriptedSampler(() => "left"));
    const end = cut.sequences[0]?.replies[1]?.start ?? 0;
    expect(cut.sequences[0]?.ids.slice(0, end)).toEqual(whole.sequences[0]?.ids.slice(0, end));
  });
});

describe("4. Images are whole and exact", () => {
  const testImage = frame(1);
  const given = (ids: number[], ...images: { start: number; length: number }[]) => ({
    ids: Int32Array.from(ids),
    images: images.map((span) => ({ ...span, image: testImage })),
  });

  test("a span holds exactly its placeholders, and no placeholder stands outside a span", () => {
    const ledger = new TokenLedger(limits);
    const wrong = [
      given([1, IMAGE, IMAGE, 2], { start: 1, length: 1 }),
      given([1, IMAGE, IMAGE, 2]),
      given([1, IMAGE, IMAGE, 2], { start: 1, length: 3 }),
      given([1, IMAGE, IMAGE, 2], { start: 2, length: 2 }),
      given([1, IMAGE, IMAGE], { start: 1, length: 3 }),
      given([IMAGE, IMAGE, 1], { start: 0, length: 2 }, { start: 1, length: 1 }),
      given([1, 2], { start: 1, length: 0 }),
    ];
    for (const each of wrong) expect(() => ledger.give(each)).toThrow(DataError);
    expect(ledger.length).toBe(0);
    ledger.give(given([1, IMAGE, IMAGE, 2], { start: 1, length: 2 }));
    ledger.give(given([IMAGE, 2], { start: 0, length: 1 }));
    expect(ledger.sequence().images.map(({ start, length }) => [start, length])).toEqual([
      [1, 2],
      [4, 1],
    ]);
  });

  test("vision ids can't be sampled or forced", () => {
    const ledger = new TokenLedger(limits);
    for (const id of testModel.visionIds) {
      expect(() => ledger.sample(sampleOf([1, id]), 0)).toThrow(EngineError);
      expect(() => ledger.force(id)).toThrow(DataError);
    }
    expect(ledger.length).toBe(0);
  });

  test("what does not fit is refused whole", () => {
    const ledger = new TokenLedger({ ...limits, contextTokens: 5 });
    ledger.give(given([1, 2, 3]));
    expect(() => ledger.give(given([IMAGE, IMAGE, IMAGE], { start: 0, length: 3 }))).toThrow(DataError);
    expect(() => ledger.sample(sampleOf([1, 2, 3]), 0)).toThrow(DataError);
    expect([ledger.length, ledger.room]).toEqual([3, 2]);
  });

  test("a span of the ledger never halves an image", () => {
    const ledger = new TokenLedger(limits);
    ledger.give(given([1, IMAGE, IMAGE, 2], { start: 1, length: 2 }));
    for (const [start, end] of [
      [0, 2],
      [2, 4],
    ] as const) {
      expect(() => ledger.span(start, end)).toThrow(DataError);
    }
    expect(ledger.span(1, 4).images).toEqual([{ start: 0, length: 2, image: testImage }]);
  });

  test.each(["joined", "split"] as const)(
    "at every context length a %s episode holds whole images and ends as max_tokens when the next does not fit; where the first does not, the episode failed",
    async (turns) => {
      const split = turns === "split" ? { turns, history: 9 } : {};
      const full = await playWith(slides(4), new ScriptedSampler(() => "left"), split);
      const longest = Math.max(...full.sequences.map(({ ids }) => ids.length));
      const ends = new Set<string>();
      for (let contextTokens = 2; contextTokens <= longest; contextTokens++) {
        const sampler = new ScriptedSampler(() => "left");
        const played = await playWith(slides(4), sampler, { ...split, contextTokens });
        ends.add(played.end);
        for (const { prompt, params } of sampler.asked) {
          expect(prompt.ids.length + params.maxTokens).toBeLessThanOrEqual(contextTokens);
          expect(params.maxTokens).toBeGreaterThanOrEqual(1);
          expect(prompt.ids.filter((id) => id === IMAGE)).toHaveLength(
            prompt.images.reduce((sum, span) => sum + span.length, 0),
          );
        }
        expect(sampler.asked).toHaveLength(played.turns.length);
        const { length } = played.turns;
        expect(played.end).toBe(length === 0 ? "engine_error" : length < 4 ? "max_tokens" : "done");
        if (length === 0) expect(played.error).toContain(`the context has ${contextTokens} (the model's own limit)`);
        expect(played.reward).toBe(played.turns.length);
      }
      expect(ends).toEqual(new Set(["done", "engine_error", "max_tokens"]));
    },
  );
});

describe("5. The prompt of turn t is the ledger's prefix", () => {
  test.each(["always", "first"] as const)("with images shown %s", async (shownImages) => {
    const sampler = new ScriptedSampler((_, call) => (call % 2 === 0 ? "left" : "up down"));
    const { sequences } = await playWith(slides(5, shownImages), sampler);
    const [sequence] = sequences;
    expect(sampler.asked).toHaveLength(5);
    sampler.asked.forEach(({ prompt }, turn) => {
      expect(prompt.ids.length).toBe(sequence?.replies[turn]?.start);
      expect(startsWith(sequence?.ids ?? new Int32Array(), prompt.ids)).toBe(true);
      expect(prompt.images).toEqual(sequence?.images.slice(0, prompt.images.length));
    });
    expect(sequence?.images).toHaveLength(shownImages === "always" ? 5 : 1);
    expect(new Set(sampler.asked.map((asked) => asked.sequence)).size).toBe(1);
    expect(sampler.released).toEqual([sampler.asked[0]?.sequence]);
  });

  test("where the tokenizer would write the replies so, it is the rendering of the whole conversation", async () => {
    const sampler = new ScriptedSampler((_, call) => ["left", "up down", "right"][call] as string);
    const { turns } = await playWith(slides(3), sampler);
    const said: Message[] = [];
    for (const [turn, { observation, reply }] of turns.entries()) {
      said.push(...observation);
      expect(sampler.asked[turn]?.prompt).toEqual(testModel.renderer.prompt(said));
      said.push(assistant(reply));
    }
    expect(turns).toHaveLength(3);
  });

  test("split with a window over everything prompts exactly as joined does", async () => {
    // Every other reply is cut, so that forced ends are copied too.
    const script = (_: unknown, call: number) => (call % 2 === 0 ? "left" : "up down up down up down");
    const joined = new ScriptedSampler(script);
    const split = new ScriptedSampler(script);
    await playWith(slides(6), joined, { maxTokens: 6 });
    const { sequences } = await playWith(slides(6), split, { maxTokens: 6, turns: "split", history: 6 });
    expect(split.asked.map(({ prompt }) => prompt)).toEqual(joined.asked.map(({ prompt }) => prompt));
    expect(sequences).toHaveLength(6);
  });

  test("a split ledger copies the first turn, the last turns of the window and the observation, and trains its own reply only", async () => {
    const replies = ["left", "up up up up up up up", "down", "right", "left up"];
    const script = (_: unknown, call: number) => replies[call] as string;
    const whole = await playWith(slides(5), new ScriptedSampler(script), { maxTokens: 8 });
    const joined = whole.sequences[0];
    if (joined === undefined) throw new Error("no sequence");
    const sampler = new ScriptedSampler(script);
    const { sequences } = await playWith(slides(5), sampler, { maxTokens: 8, turns: "split", history: 1 });
    // Turn k of the joined ledger: from the end of turn k-1 (its forced end included) to the end of its own.
    const endOf = joined.replies.map(({ end }) => end + (joined.ids[end - 1] === END ? 0 : 1));
    const startOf = [0, ...endOf];
    const turn = (k: number) => Array.from(joined.ids.slice(startOf[k], endOf[k]));
    sequences.forEach((sequence, t) => {
      const kept = t === 0 ? [] : t === 1 ? [0] : [0, t - 1];
      const last = joined.replies[t]?.end ?? 0;
      const expected = [...kept.flatMap(turn), ...joined.ids.slice(startOf[t], last)];
      expect(Array.from(sequence.ids)).toEqual(expected);
      expect(startsWith(sequence.ids, sampler.asked[t]?.prompt.ids ?? new Int32Array())).toBe(true);
      expect(sequence.replies.map((reply) => reply.turn)).toEqual([t]);
      expect(sequence.sampled.reduce((a, b) => a + b)).toBe(sampler.samples[t]?.ids.length);
      expect(sequence.images.map((span) => span.image.data[0])).toEqual([...kept, t]);
    });
    expect(sequences).toHaveLength(5);
  });
});

describe("6. The environment gets the decoded reply without special tokens", () => {
  test("ends of turns and stray special tokens never reach it", async () => {
    const env = slides(2);
    const start = tokenizer.specialId("<|im_start|>");
    const stop = tokenizer.specialId("<|endoftext|>");
    const words = Array.from(tokenizer.encodeText("<action>left</action>"));
    const sampler = new ScriptedSampler((_, call) => (call === 0 ? [start, ...words, END] : [...words, stop]));
    const { turns, sequences } = await playWith(env, sampler);
    expect(env.heard).toEqual(["<action>left</action>", "<action>left</action>"]);
    expect(turns.map((turn) => turn.reply)).toEqual(env.heard);
    // They stay in what is trained.
    expect(sequences[0]?.ids[sequences[0]?.replies[0]?.start ?? 0]).toBe(start);
  });
});

describe("7. Our failures are never trained", () => {
  const failing = (where: "reset" | "step"): Env => {
    const env = slides(5);
    let steps = 0;
    return {
      reset: (seed) => {
        if (where === "reset") throw new Error("no board");
        return env.reset(seed);
      },
      step: (reply) => {
        if (++steps === 3) throw new Error("the board broke");
        return env.step(reply);
      },
    };
  };
  const cases: [string, () => Promise<Trajectory>, string][] = [
    [
      "an environment that can't start",
      () => playWith(failing("reset"), new ScriptedSampler(() => "left")),
      "env_error",
    ],
    ["an environment that throws", () => playWith(failing("step"), new ScriptedSampler(() => "left")), "env_error"],
    [
      "a reward that is no number",
      () => {
        const env = slides(5);
        const step = async (reply: string) => ({
          ...(await env.step(reply)),
          rewards: [{ name: "task", value: Number.NaN }],
        });
        return playWith({ reset: env.reset, step }, new ScriptedSampler(() => "left"));
      },
      "env_error",
    ],
    [
      "a sampler that fails in a later turn",
      () =>
        playWith(
          slides(5),
          new ScriptedSampler((_, call) => {
            if (call === 2) throw new EngineError("The server is gone.");
            return "left";
          }),
        ),
      "engine_error",
    ],
    [
      "a sampler that draws a vision id",
      () => playWith(slides(5), new ScriptedSampler(() => [IMAGE, END])),
      "engine_error",
    ],
  ];

  test.each(cases)("%s leaves a reason and no sequences", async (_, run, end) => {
    const played = await run();
    expect(played).toMatchObject({ end, sequences: [], success: false });
    expect(played.error).toMatch(/reset|turn/);
  });

  test("a hung environment and an aborted episode end, leave no sequences and release the sampler's cache", async () => {
    const env = slides(5);
    const hung: Env = { reset: env.reset, step: () => new Promise<never>(() => {}) };
    for (const end of ["env_timeout", "aborted"] as const) {
      const sampler = new ScriptedSampler(() => "left");
      const agent: Agent = tokenAgent(options(sampler))({ env: hung, seed: 1, sibling: 0, samplingSeed: 0 });
      const abort = new AbortController();
      const request = { name: "slides", env: hung, agent, seed: 1, signal: abort.signal };
      const playing = playEpisode({ ...request, stepTimeoutMs: end === "env_timeout" ? 20 : 600_000 });
      if (end === "aborted") setTimeout(() => abort.abort(), 20);
      expect(await playing).toMatchObject({ end, sequences: [] });
      expect(sampler.released).toHaveLength(1);
    }
  });

  test("running out of turns or tokens is the policy's doing and keeps its sequences", async () => {
    const env = slides(9);
    const agent = tokenAgent(options(new ScriptedSampler(() => "left")))({ env, seed: 1, sibling: 0, samplingSeed: 0 });
    const played = await playEpisode({ name: "slides", env, agent, seed: 1, maxTurns: 3 });
    expect(played).toMatchObject({ end: "max_turns", reward: 3 });
    expect(played.sequences[0]?.replies).toHaveLength(3);
    const short = await playWith(slides(9), new ScriptedSampler(() => "left"), { contextTokens: 60 });
    expect(short.end).toBe("max_tokens");
    expect(short.sequences[0]?.replies).toHaveLength(short.turns.length);
  });
});

describe("Options of the token agent", () => {
  test("are refused when they make no sense, with a message that says what to do", () => {
    const sampler = new ScriptedSampler(() => "left");
    for (const [wrong, message] of [
      [{ maxTokens: 0 }, /maxTokens/],
      [{ temperature: -1 }, /temperature/],
      [{ contextTokens: 9999 }, /4096/],
      [{ history: 2 }, /split/],
      [{ turns: "split", history: -1 }, /history/],
    ] as const) {
      expect(() => tokenAgent(options(sampler, wrong))).toThrow(message);
    }
  });
});
