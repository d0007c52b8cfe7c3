/**
 * Ten thousand turns of agents that bring their own loop, over the native engine: the ids that are trained are the ids that were sampled, a fresh forward gives each of
 * them the log-probability it was drawn with (drift 0), and an image has one hash in the request, in the prompt that was sampled from, and in what the learner trains.
 * The clients behave as clients do: they reorder JSON keys, trim, drop thoughts, encode images anew, start sub-agents and go back in history.
 *
 *     npm run prove -- agents-exact          SACCADE_TURNS=2000 for fewer
 */
import { afterAll, beforeAll, expect, test } from "vitest";
import { NumpyRandom } from "../core/random-numpy.ts";
import { NativeEngine } from "../engine/native/engine.ts";
import { type TestModel, tinyModel } from "../engine/native/test-model.ts";
import { defineAgent } from "../envs/agent.ts";
import type { Driver } from "../envs/env.ts";
import { encodePng } from "../images/png.ts";
import { type ChatModel, chatModel } from "../model/chat.ts";
import { loadFolder } from "../model/folder.ts";
import { probeDatum } from "../train/batch.ts";
import { tokenAgent } from "./agents.ts";
import { playDriven } from "./drive.ts";
import { frame } from "./test-model.ts";

const TURNS = Number(process.env.SACCADE_TURNS ?? 10_000);
let folder: TestModel;
let model: ChatModel;
let engine: NativeEngine;
beforeAll(async () => {
  folder = await tinyModel();
  model = chatModel(await loadFolder(folder.folder));
  engine = new NativeEngine({ threads: 2 });
});
afterAll(async () => {
  await engine.close();
  await folder.remove();
});

type Json = Record<string, unknown>;
type Wire = { role: string; content?: unknown; tool_calls?: { function: { arguments: string } }[] };

/** What a client may do with an answer before it sends it back; the last one is another history. */
const REWRITES: readonly ((message: Wire) => Wire)[] = [
  (message) => message,
  (message) => ({
    ...message,
    content: typeof message.content === "string" ? ` ${message.content}\n` : message.content,
  }),
  (message) => ({
    ...message,
    content: typeof message.content === "string" ? message.content.trim() : message.content,
  }),
  (message) => ({
    ...message,
    ...(message.tool_calls && {
      tool_calls: message.tool_calls.map((call) => ({
        ...call,
        function: { ...call.function, arguments: respaced(call.function.arguments) },
      })),
    }),
  }),
];

function respaced(text: string): string {
  try {
    const value = JSON.parse(text) as Json;
    return JSON.stringify(Object.fromEntries(Object.entries(value).reverse()), null, 2);
  } catch {
    return text;
  }
}

test(`${TURNS} turns: ids and images are the same in request, sampling and training, with drift 0`, {
  timeout: 3_600_000,
}, async () => {
  const sampler = await engine.sampler(folder.folder);
  const sent = new Set<string>();
  const agent = defineAgent<number>({
    id: "exact",
    tasks: (seed) => seed,
    async run({ seed, baseURL, apiKey }) {
      const random = new NumpyRandom(seed);
      const ask = async (messages: readonly Wire[], n = 1) => {
        const headers = { "content-type": "application/json", authorization: `Bearer ${apiKey}` };
        const body = JSON.stringify({ model: "m", messages, n, max_tokens: 6 });
        const answer = await fetch(`${baseURL}/chat/completions`, { method: "POST", headers, body });
        const { choices, error } = (await answer.json()) as {
          choices: { message: Wire }[];
          error?: { message: string };
        };
        if (error !== undefined) throw new Error(error.message);
        return choices.map(({ message }) => ({
          role: message.role,
          content: message.content,
          ...(message.tool_calls && { tool_calls: message.tool_calls }),
        }));
      };
      const show = (shade: number) => {
        const image = frame(shade, 32, 32);
        sent.add(image.hash);
        // Compressed anew each time: other bytes, the same pixels.
        const url = `data:image/png;base64,${Buffer.from(encodePng(image)).toString("base64")}`;
        return {
          role: "user",
          content: [
            { type: "text", text: "look" },
            { type: "image_url", image_url: { url } },
          ],
        };
      };
      const talk = async (turns: number, shade: number) => {
        const messages: Wire[] = [show(shade)];
        for (let turn = 0; turn < turns; turn++) {
          const back = random.random() < 0.1 && messages.length > 3;
          if (back) messages.splice(-2, 2);
          const answers = await ask(messages, random.random() < 0.1 ? 2 : 1);
          const said = answers[random.integers(0, answers.length)] as Wire;
          const rewrite = REWRITES[random.integers(0, REWRITES.length)] as (message: Wire) => Wire;
          messages.push(
            rewrite(said),
            random.random() < 0.5 ? show(random.integers(0, 256)) : { role: "user", content: "and?" },
          );
        }
      };
      await Promise.all([talk(6, random.integers(0, 256)), talk(3, random.integers(0, 256))]);
      return random.random();
    },
  });
  const env = await agent.create({ blindfold: false });
  let turns = 0;
  let sampled = 0;
  let images = 0;
  let sequences = 0;
  for (let seed = 0; turns < TURNS; seed += 16) {
    const played = await Promise.all(
      Array.from({ length: 16 }, (_, i) => {
        const made = tokenAgent({ model, sampler: () => sampler, temperature: 0.8, maxTokens: 6 })({
          env,
          seed: seed + i,
          sibling: 0,
          samplingSeed: 7,
        });
        return playDriven({ name: "exact", env, seed: seed + i, agent: made }, env.driver as Driver);
      }),
    );
    for (const episode of played) {
      expect(episode.error).toBeUndefined();
      turns += episode.turns.length;
      sequences += episode.sequences.length;
      const replies = episode.sequences.flatMap((sequence) =>
        sequence.replies.map((reply) => ({ sequence, ...reply })),
      );
      // Every answer is trained in one place, with the ids that make up its text.
      expect(replies.map(({ turn }) => turn).sort((a, b) => a - b)).toEqual(episode.turns.map((_, i) => i));
      for (const { sequence, turn, start, end } of replies) {
        const ids = sequence.ids.slice(start, end);
        expect(model.renderer.decode(ids).text).toBe(episode.turns[turn]?.reply);
        expect(sequence.sampled.slice(start, end).every((flag) => flag === 1)).toBe(true);
        sampled += ids.length;
      }
      const carrying = episode.sequences.reduce((sum, one) => sum + one.sampled.reduce((a, b) => a + b, 0), 0);
      expect(carrying).toBe(replies.reduce((sum, { start, end }) => sum + end - start, 0));
      const data = episode.sequences.map((sequence) => probeDatum(sequence, 0.8));
      const scores = await sampler.score(data);
      for (const [k, sequence] of episode.sequences.entries()) {
        for (let i = 0; i < sequence.ids.length; i++) {
          if (sequence.sampled[i] === 1) expect(scores[k]?.logprobs[i - 1]).toBe(sequence.samplerLogprobs[i]);
        }
        for (const { image } of data[k]?.input.images ?? []) {
          expect(sent.has(image.hash)).toBe(true);
          images += 1;
        }
      }
    }
  }
  console.log(
    `${turns} turns in ${sequences} sequences: ${sampled} sampled ids, all trained once with drift 0; ${images} image spans, all of them images that were sent`,
  );
  await sampler.close();
});
