/** What a model at the board thinks, in numbers, against what its sampler says by itself. */
import { afterAll, beforeAll, expect, test } from "vitest";
import { Image } from "../core/image.ts";
import { image, text, user } from "../core/message.ts";
import { NumpyRandom } from "../core/random-numpy.ts";
import { NativeEngine } from "../engine/index.ts";
import { type TestFolder, testFolder } from "../train/test-run.ts";
import { LocalPlayer } from "./player.ts";

let folder: TestFolder;
let player: LocalPlayer;
let engine: NativeEngine;
beforeAll(async () => {
  folder = await testFolder();
  engine = new NativeEngine({ threads: 2 });
  player = await LocalPlayer.open(engine, folder.model);
});
afterAll(async () => {
  await player?.close();
  await folder?.remove();
});

const random = new NumpyRandom(0);
const noise = new Image(
  64,
  64,
  Uint8Array.from({ length: 64 * 64 * 3 }, () => random.integers(0, 256)),
);
const grey = new Image(64, 64, new Uint8Array(64 * 64 * 3).fill(128));
const never = new AbortController().signal;

const asks = () => player.prompt([], [user(image(noise), text("Signal?"))]);

test("the probability of each action is the one that the sampler draws its words with", async () => {
  const prompt = await asks();
  const words = ["go", "halt", "turn", "wait"];
  const chances = await player.probabilities(prompt, words);
  const { renderer } = await engine.chat(folder.model);
  const sampler = await engine.sampler(folder.model);
  for (const [i, word] of words.entries()) {
    const reply = await renderer.reply(word);
    const ids = Int32Array.from([...prompt.ids, ...reply]);
    const { promptLogprobs = [] } = await sampler.sample(
      { ids, images: prompt.images },
      { maxTokens: 1, temperature: 1, seed: 0, promptLogprobs: true },
      { sequence: word, signal: never },
    );
    const logprob = [...promptLogprobs].slice(prompt.ids.length).reduce((sum, one) => sum + one, 0);
    expect(chances[i]).toBeCloseTo(Math.exp(logprob), 6);
  }
  expect(new Set(chances).size).toBe(words.length);
  await sampler.close();
});

test("actions are compared after the words that all of them begin with", async () => {
  const prompt = await asks();
  const [go = 0, halt = 0] = await player.probabilities(prompt, ["Say go", "Say halt"]);
  const [whole = 0] = await player.probabilities(prompt, ["Say go", "wait"]);
  expect(await player.sharedStart(["Say go", "Say halt"])).toBeGreaterThan(0);
  expect(whole).toBeLessThan(go);
  expect(go + halt).toBeLessThanOrEqual(1);
});

test("greying a patch changes what the model says as much as the map tells, and a grey frame has an empty map", async () => {
  const prompt = await asks();
  const said = await player.reply(prompt, { greedy: true, seed: 0 }, never);
  const map = await player.occlusion(prompt, said.ids, 0);
  expect(map).toMatchObject({ hash: noise.hash, columns: 2, rows: 2 });
  expect(map?.values.every((value) => value !== 0)).toBe(true);
  // The second patch by hand: upper right.
  const data = Uint8Array.from(noise.data, (value, i) => {
    const [x, y] = [Math.floor(i / 3) % 64, Math.floor(i / 3 / 64)];
    return x >= 32 && y < 32 ? 128 : value;
  });
  const covered = await player.prompt([], [user(image(new Image(64, 64, data)), text("Signal?"))]);
  const without = await player.occlusion(covered, said.ids, 0);
  expect(map?.values[1]).toBeCloseTo((map?.logprob ?? 0) - (without?.logprob ?? 0), 6);

  const blank = await player.prompt([], [user(image(grey), text("Signal?"))]);
  expect((await player.occlusion(blank, said.ids, 0))?.values).toEqual([0, 0, 0, 0]);
});
