/** Turns of an episode that come as whole prompts: what was read is not read again, what differs is, and samples are the same. */
import { rm } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { NativeEngine, type Sampler } from "../../engine/index.ts";
import { loadChat } from "../../model/chat.ts";
import { temporaryFolder } from "../../model/test-folder.ts";
import { frame } from "../../rollout/test-model.ts";
import { createServable } from "../test-serve.ts";
import { Sequences } from "./sequences.ts";

let root = "";
let engine: NativeEngine;
let sampler: Sampler;
beforeAll(async () => {
  root = await temporaryFolder();
  await createServable(join(root, "model"));
  engine = new NativeEngine({ threads: 2 });
  sampler = await engine.sampler(join(root, "model"));
});
afterAll(async () => {
  await engine.close();
  await rm(root, { recursive: true, force: true });
});

const text = (...ids: number[]) => ({ ids: Int32Array.from(ids), images: [] });
const params = { maxTokens: 4, temperature: 1, seed: 3 };

/** Ids that were computed for it, and the sample. */
async function count(sequences: Sequences, prompt: Parameters<Sequences["sample"]>[1]) {
  const before = engine.stats().prefilledTokens;
  const sample = await sequences.sample(sampler, prompt, params);
  return { sample, read: engine.stats().prefilledTokens - before };
}

test("the next turn reads what is new, whatever other episodes did in between, and says what it would have said anyway", async () => {
  const sequences = new Sequences();
  const prompts = [text(40, 41, 42, 43, 44, 45), text(60, 41, 42, 43, 44, 45), text(70, 71, 72, 73, 74, 75)];
  const first = await Promise.all(prompts.map((prompt) => sequences.sample(sampler, prompt, params)));
  for (const [i, prompt] of prompts.entries()) {
    const next = text(...prompt.ids, ...(first[i]?.ids ?? []), 50, 51);
    const { sample, read } = await count(sequences, next);
    // Two new ids, and the last of the reply: nothing followed it yet.
    expect(read).toBe(3);
    const alone = await (await engine.sampler(join(root, "model"))).sample(next, params, { sequence: "alone" });
    expect(sample.ids).toEqual(alone.ids);
    expect(sample.logprobs).toEqual(alone.logprobs);
  }
});

test("a prompt with another image at the same place is read from there", async () => {
  const sequences = new Sequences();
  const { imageToken, visionStart, visionEnd } = (await loadChat(join(root, "model"))).ids;
  const shown = (shade: number, ...more: number[]) => ({
    ids: Int32Array.from([40, 41, visionStart, imageToken, visionEnd, 42, ...more]),
    images: [{ start: 3, length: 1, image: frame(shade, 32, 32) }],
  });
  const { sample } = await count(sequences, shown(10));
  const { read } = await count(sequences, shown(200, ...sample.ids, 50));
  expect(read).toBeGreaterThanOrEqual(sample.ids.length + 4);
});
