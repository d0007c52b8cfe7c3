import { createHash } from "node:crypto";
import { readFile, rm } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { act, bare, defineWorld, register } from "../envs/index.ts";
import { createFolder } from "./folder.ts";
import { findPreset, PRESETS, type PresetName } from "./presets.ts";
import { temporaryFolder } from "./test-folder.ts";
import { Tokenizer } from "./tokenizer.ts";
import { frozenTokenizer } from "./train-tokenizer.ts";

const names = Object.keys(PRESETS) as PresetName[];
const tokenizers = new Map(names.map((name) => [name, new Tokenizer(frozenTokenizer(PRESETS[name].vocab))]));
const lengths = (name: PresetName, texts: readonly string[]) =>
  texts.map((text) => tokenizers.get(name)?.encodeText(text).length);

// Trained folders, recipes and figures rest on these ids: with other ones every earlier model speaks in tongues.
test.each([
  ["nano", "77a60cde24775fa53c2d902de304bb7061fcf6c46d358aae76b7acddd4643315"],
  ["micro", "8c2c098f2b0f811253f4d61c6c6183e94b0703351459091b0e567e093d66c4f3"],
  ["mini", "5fc76d71d81aaf5f69b749ea705f0e0599a3ac4a1b39d353f42734d6a0d8da10"],
] as const)("the tokenizer.json of %s is frozen, whatever worlds there are", async (preset, hash) => {
  register(
    defineWorld({
      id: `new-world-${preset}`,
      create: () => ({
        actions: [bare("whirl", "whirl the widget"), bare("widget", "whirl")],
        reset() {},
        act: () => ({ valid: true, reward: 1, ended: true }),
        observe: () => "widget whirl widget whirl",
        task: () => "Whirl the widget, whirl the widget.",
        success: () => true,
        solve: () => [act("whirl")],
      }),
    }),
  );
  const root = await temporaryFolder();
  await createFolder(join(root, "model"), {
    preset,
    text: { num_hidden_layers: 1 },
    vision: { depth: 1, deepstack_visual_indexes: [0] },
  });
  const file = await readFile(join(root, "model", "tokenizer.json"));
  await rm(root, { recursive: true, force: true });
  expect(createHash("sha256").update(file).digest("hex")).toBe(hash);
});

test("a vocabulary has exactly the tokens that were asked for, and a smaller one is the beginning of a larger", () => {
  for (const name of names) expect(tokenizers.get(name)?.size).toBe(PRESETS[name].vocab);
  const merges = (vocab: number) => (frozenTokenizer(vocab).model as { merges: string[][] }).merges;
  expect(merges(1024).slice(0, merges(512).length)).toEqual(merges(512));
  expect(() => frozenTokenizer(200)).toThrow("at least 268 tokens");
});

test("what protocols ask for is short, even in the smallest vocabulary", () => {
  const actions = ["left", "right", "up", "down", "stop"].map((word) => `<action>${word}</action>`);
  for (const name of names) {
    expect(lengths(name, actions)).toEqual([5, 5, 5, 5, 5]);
    expect(lengths(name, ["('move', 0)", "('stop', 'stop')", "user\n", "assistant\n"])).toEqual([6, 6, 2, 2]);
    expect(lengths(name, ["<answer>left, down</answer>", "<observation>", "</observation>"])).toEqual([7, 2, 3]);
  }
  const call = '<tool_call>{"name": "move", "arguments": {"direction": "right"}}</tool_call>';
  expect(lengths("micro", ["<prediction>", "<justification>", call])).toEqual([3, 3, 17]);
});

test("relations, routes, colours and words of worlds to come are mostly whole words", () => {
  const said = [
    "The box is above and left of the player.",
    "The goal is two rows down and three columns right; open ways: up, left; route: right, right, down, stop",
    "Rotate the photo by 90 degrees, then count the red and blue objects below the table.",
  ];
  const words = (text: string) => text.match(/\w+|[^\w\s]/g)?.length ?? 0;
  for (const text of said) {
    for (const length of [...lengths("micro", [text]), ...lengths("mini", [text])]) {
      expect(length).toBeLessThanOrEqual(words(text) * 1.5);
    }
  }
});

test("every preset's language heads are ones that vLLM serves", () => {
  for (const name of names) expect(findPreset(name).text.headDim).toBeGreaterThanOrEqual(32);
});
