/** Sampling with a grammar: only what it allows is drawn, and every sample says where that changed the distribution. */
import { rm } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type ChatFolder, loadChat } from "../../model/chat.ts";
import { createFolder } from "../../model/folder.ts";
import { TINY_CORPUS, temporaryFolder } from "../../model/test-folder.ts";
import { MAX_MASKED, type Sampler, type SamplingParams } from "../engine.ts";
import { NativeEngine } from "./engine.ts";

const YES = 'root ::= "yes" | "no"';
const DIGITS = "root ::= digit+\ndigit ::= [0-9]";
const LETTERS = "root ::= letter*\nletter ::= [a-z ]";
let root: string;
let engine: NativeEngine;
let sampler: Sampler;
let chat: ChatFolder;
let prompt: { ids: Int32Array; images: [] };

beforeAll(async () => {
  root = await temporaryFolder();
  const folder = join(root, "model");
  await createFolder(folder, {
    corpus: TINY_CORPUS,
    vocab_size: 300,
    seed: 1,
    text: { initializer_range: 0.3 },
  });
  engine = new NativeEngine({ threads: 2 });
  sampler = await engine.sampler(folder);
  chat = await loadChat(folder);
  prompt = { ids: chat.tokenizer.encode("Hello"), images: [] };
});
afterAll(async () => {
  await engine.close();
  await rm(root, { recursive: true, force: true });
});

async function draw(params: Partial<SamplingParams>, from = prompt) {
  const asked = { maxTokens: 40, temperature: 1, seed: 1, stopIds: [chat.generation.eos[0] as number], ...params };
  const sample = await sampler.sample(from, asked, { sequence: "a" });
  sampler.release("a");
  return sample;
}

const textOf = (ids: Int32Array) => chat.tokenizer.decode(ids, { skipSpecial: true });

test("every reply is in the grammar and ends with it", async () => {
  const said = new Set<string>();
  for (let seed = 0; seed < 12; seed++) {
    const { ids, stopReason } = await draw({ grammar: YES, seed, temperature: 9 });
    expect([stopReason, chat.generation.eos.includes(ids.at(-1) as number)]).toEqual(["stop", true]);
    said.add(textOf(ids));
  }
  expect([...said].sort()).toEqual(["no", "yes"]);
});

test("without ids that end it, a reply ends where nothing can follow", async () => {
  const { ids, stopReason } = await draw({ grammar: YES, stopIds: [] });
  expect([stopReason, ["yes", "no"].includes(textOf(ids))]).toEqual(["stop", true]);
});

test("an id is marked where the mask took more than a thousandth away; elsewhere the log-probability is the policy's", async () => {
  const flags: number[] = [];
  for (let seed = 0; seed < 4; seed++) {
    // Cold enough that now and then the policy is sure of an id that the grammar allows.
    const temperature = 0.03;
    const sample = await draw({ grammar: LETTERS, temperature, seed });
    expect(textOf(sample.ids)).toMatch(/^[a-z ]*$/);
    const ids = Int32Array.from([...prompt.ids, ...sample.ids]);
    const targets = Int32Array.from(ids, (_, i) => (i >= prompt.ids.length - 1 ? (ids[i + 1] ?? -1) : -1));
    const datum = { input: { ids, images: [] }, targets, weights: new Float32Array(ids.length), temperature };
    const [free] = await sampler.score([datum]);
    for (const [i, flag] of sample.masked!.entries()) {
      const gap = sample.logprobs[i]! - free!.logprobs[prompt.ids.length - 1 + i]!;
      // Of the distribution that was drawn from: what was taken away went to the others.
      if (flag === 1) expect(gap).toBeGreaterThan(-Math.log(1 - MAX_MASKED) - 1e-6);
      else expect(Math.abs(gap)).toBeLessThan(1e-5);
    }
    flags.push(...sample.masked!);
  }
  expect(new Set(flags)).toEqual(new Set([0, 1]));
});

test("a reply that is continued goes on in its grammar", async () => {
  const grammar = 'root ::= "yes, yes, yes."';
  const whole = await draw({ grammar });
  const first = await draw({ grammar, maxTokens: 2 });
  const longer = { ids: Int32Array.from([...prompt.ids, ...first.ids]), images: [] as [] };
  const rest = await draw({ grammar, grammarIds: [...first.ids] }, longer);
  expect(textOf(Int32Array.from([...first.ids, ...rest.ids]))).toBe("yes, yes, yes.");
  expect(textOf(whole.ids)).toBe("yes, yes, yes.");
});

test("a sample without a grammar has no marks, and greedy ones follow a grammar too", async () => {
  expect((await draw({})).masked).toBeUndefined();
  const [first, second] = [
    await draw({ grammar: DIGITS, temperature: 0 }),
    await draw({ grammar: DIGITS, temperature: 0 }),
  ];
  expect([...first.ids]).toEqual([...second.ids]);
  expect(textOf(first.ids)).toMatch(/^[0-9]+$/);
});
