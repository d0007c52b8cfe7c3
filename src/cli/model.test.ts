import { createHash } from "node:crypto";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { PassThrough, Readable } from "node:stream";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { Image, text, user } from "../core/index.ts";
import { NativeEngine } from "../engine/index.ts";
import { encodePng } from "../images/index.ts";
import { loadFolder, readWeights } from "../model/index.ts";
import { type ChatFlags, modelCommand, runChat, runCreate, runInfo } from "./model.ts";

const scratch = mkdtempSync(join(tmpdir(), "saccade-model-cli-"));
const nano = join(scratch, "nano");
afterAll(() => rmSync(scratch, { recursive: true, force: true }));
beforeAll(() => runCreate(nano, { preset: "nano", seed: 3, set: [] }, new PassThrough()));

async function written(run: (output: PassThrough) => Promise<void>): Promise<string> {
  const output = new PassThrough();
  await run(output);
  output.end();
  return (await output.toArray()).join("");
}

function chat(lines: readonly string[], flags: Partial<ChatFlags> = {}): Promise<string> {
  const all = { image: [], maxTokens: 12, seed: 0, ...flags };
  return written((output) => runChat(nano, all, { input: Readable.from(lines.map((line) => `${line}\n`)), output }));
}

describe("saccade model create", () => {
  test("never writes into a folder that holds something, or over a file", async () => {
    await expect(runCreate(nano, { preset: "nano", seed: 0, set: [] })).rejects.toThrow("exists already");
    const file = join(scratch, "file");
    writeFileSync(file, "precious");
    await expect(runCreate(file, { preset: "nano", seed: 0, set: [] })).rejects.toThrow("exists already");
  });

  test("--set changes the preset in the words of config.json", async () => {
    const path = join(scratch, "wide");
    const set = ["text.hidden_size=96", "text.tie_word_embeddings=false", "vocab_size=300", "vision.depth=2"];
    await runCreate(path, { preset: "nano", seed: 0, set }, new PassThrough());
    const { config } = await loadFolder(path);
    expect(config.text).toMatchObject({ hiddenSize: 96, tied: false, vocabSize: 300 });
    expect(config.vision).toMatchObject({ depth: 2, outHiddenSize: 96 });
  });

  test.each([
    ["text.hiden_size=96", 'did you mean "hidden_size"'],
    ["size=96", "vocab_size"],
    ["text.hidden_size=wide", "text.hidden_size"],
    ["vision=3", "vision=3: Invalid input: expected object"],
    ["text.head_dim=18", "mrope_section"],
  ])("refuses --set %s and says what would do", async (setting, hint) => {
    const create = runCreate(join(scratch, "bad"), { preset: "nano", seed: 0, set: [setting] });
    await expect(create).rejects.toThrow(hint);
  });
});

describe("saccade model info", () => {
  test("counts parameters by part, and they are those of the weights file", async () => {
    const info = JSON.parse(await written((output) => runInfo(nano, { json: true }, output))) as {
      parameters: Record<string, number>;
      special: Record<string, number>;
      files: { name: string; bytes: number }[];
    };
    const { total, ...parts } = info.parameters;
    const weights = [...(await readWeights(nano)).values()].reduce((sum, { data }) => sum + data.length, 0);
    expect(total).toBe(weights);
    expect(Object.values(parts).reduce((sum, part) => sum + part, 0)).toBe(total);
    expect(info.special["<|image_pad|>"]).toBe((await loadFolder(nano)).config.ids.imageToken);
    expect(info.files.find(({ name }) => name === "model.safetensors")?.bytes).toBeGreaterThan(4 * weights);
  });

  test("prints the same for people", async () => {
    const text = await written((output) => runInfo(nano, {}, output));
    expect(text).toMatch(/^parameters +\d+\.\d thousand: vision .*, embedding .*\(the head is the embedding\)$/m);
    expect(text).toContain("<|im_end|>");
    const weights = createHash("sha256").update(await readFile(join(nano, "model.safetensors")));
    expect(text).toContain(`sha256 ${weights.digest("hex")}`);
  });

  test("a folder without a model is an error that says so", async () => {
    await expect(runInfo(scratch, {})).rejects.toThrow("config.json");
  });
});

describe("saccade model chat", () => {
  test("greedy replies are what the sampler says in one go, the earlier turns before it", async () => {
    const { renderer, tokenizer, generation } = await loadFolder(nano);
    const engine = new NativeEngine({ threads: 1 });
    const sampler = await engine.sampler(nano);
    const params = { maxTokens: 12, temperature: 0, seed: 0, stopIds: generation.eos };
    const first = renderer.prompt([user(text("Where am I?"))]).ids;
    const one = await sampler.sample({ ids: first, images: [] }, params, { sequence: "all" });
    const delta = renderer.delta([user(text("Go left."))], { ended: one.ids.at(-1) === renderer.endOfTurn });
    const second = Int32Array.from([...first, ...one.ids, ...delta.ids]);
    const two = await sampler.sample({ ids: second, images: [] }, params, { sequence: "all" });
    await engine.close();
    const expected = [one, two].map(({ ids }) => `${tokenizer.decode(ids, { skipSpecial: true })}\n`);
    expect(await chat(["Where am I?", "Go left."], { temperature: 0 })).toBe(expected.join(""));
  });

  test("the seed decides the replies", async () => {
    const first = await chat(["left"], { seed: 5 });
    expect(await chat(["left"], { seed: 5 })).toBe(first);
    expect(await chat(["left"], { seed: 6 })).not.toBe(first);
  });

  test("the model sees the image", async () => {
    const seen = await Promise.all(
      [20, 235].map((grey) => {
        const file = join(scratch, `${grey}.png`);
        writeFileSync(file, encodePng(new Image(64, 64, new Uint8Array(64 * 64 * 3).fill(grey))));
        return chat(["What is this?"], { image: [file], maxTokens: 40 });
      }),
    );
    expect(seen[0]).not.toBe(seen[1]);
  });

  test("an image that can't be read is an error that names it", async () => {
    await expect(chat(["x"], { image: [join(scratch, "none.png")] })).rejects.toThrow("none.png");
    const file = join(scratch, "text.png");
    writeFileSync(file, "<svg/>");
    await expect(chat(["x"], { image: [file] })).rejects.toThrow(/text\.png.*PNG or JPEG/);
  });
});

test("the command takes its flags and refuses a temperature below 0", async () => {
  const parse = (...args: string[]) => modelCommand().exitOverride().parseAsync(args, { from: "user" });
  await expect(parse("chat", nano, "--temperature", "-1")).rejects.toThrow("--temperature");
  await expect(parse("chat", join(scratch, "nowhere"))).rejects.toThrow("nowhere");
});
