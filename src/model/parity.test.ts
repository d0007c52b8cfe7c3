/**
 * Our folder, ids and pixels beside those of `transformers` (python/parity/processor.py). Skipped where Python has no
 * transformers, unless SACCADE_REQUIRE names torch.
 */
import { execFileSync } from "node:child_process";
import { rm } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { Image } from "../core/image.ts";
import { assistant, image, imagesOf, type Message, text, textOf, user } from "../core/message.ts";
import { NumpyRandom } from "../core/random-numpy.ts";
import { createFolder, loadFolder, type ModelFolder, readWeights } from "./folder.ts";
import { parameterShapes } from "./parameters.ts";
import { TINY_CORPUS, temporaryFolder } from "./test-folder.ts";

const required = (process.env.SACCADE_REQUIRE ?? "").split(/[\s,]+/).includes("torch");
const available = required || hasTransformers();
if (!available) console.warn("Skipped: python3 has no torch, transformers and pillow to compare with.");

function hasTransformers(): boolean {
  try {
    const probe =
      "import importlib.util as u, sys; sys.exit(not all(map(u.find_spec, ('torch', 'transformers', 'PIL'))))";
    execFileSync("python3", ["-c", probe], { stdio: "ignore" });
    return true;
  } catch {
    return false;
  }
}

const random = new NumpyRandom(7);
const noise = (width: number, height: number) =>
  new Image(width, height, Uint8Array.from(random.integers(0, 256, width * height * 3)));

const chats: Message[][] = [
  [user(text("Where is the goal?"))],
  [
    { role: "system", content: [text("Reply with one action.")] },
    user(
      text("Look "),
      image(noise(64, 96)),
      text(" and\n\n"),
      image(noise(225, 225)),
      text("  move 12 'times'. é漢🙂"),
    ),
    assistant("<think>The goal is left.</think><answer>left</answer>"),
    user(image(noise(112, 144)), text("You hit the wall.\n")),
  ],
  [user(image(noise(31, 17))), assistant("('move', 3)"), user(image(noise(700, 500)))],
  [user(image(noise(150, 420)), image(noise(33, 600)))],
];
const texts = ["", " a  b\n\n c\t", "12345 can't WON'T <|im_end|>x<think>", "naïve Å Å ﬁ", "<action>up</action>"];

type Answer = {
  tokenizer: string;
  parameters: Record<string, number[]>;
  problems: string[];
  chats: { ids: number[]; grids: [number, number][]; pixels: string }[];
  texts: { ids: number[]; decoded: string }[];
};

describe.skipIf(!available)("beside transformers", () => {
  let base = "";
  let ours: ModelFolder;
  let theirs: Answer;
  beforeAll(async () => {
    base = await temporaryFolder();
    const folder = join(base, "model");
    await createFolder(folder, { preset: "nano", corpus: TINY_CORPUS, seed: 1 });
    ours = await loadFolder(folder);
    const input = JSON.stringify({
      folder,
      texts,
      save: join(base, "saved"),
      chats: chats.map((c) => c.map(forPython)),
    });
    const script = fileURLToPath(new URL("../../python/parity/processor.py", import.meta.url));
    const options = { input, maxBuffer: 1 << 28, stdio: ["pipe", "pipe", "ignore"] as ["pipe", "pipe", "ignore"] };
    theirs = JSON.parse(execFileSync("python3", [script], options).toString()) as Answer;
  });
  afterAll(() => rm(base, { recursive: true, force: true }));

  test("the folder loads with every parameter in place", () => {
    expect(theirs.tokenizer).toBe("Qwen2Tokenizer");
    expect(theirs.problems).toEqual([]);
    expect(new Map(Object.entries(theirs.parameters))).toEqual(parameterShapes(ours.config));
  });

  test("texts have the same ids and decode the same", () => {
    for (const [i, said] of texts.entries()) {
      const ids = ours.tokenizer.encode(said);
      expect([...ids]).toEqual(theirs.texts[i]!.ids);
      expect(ours.tokenizer.decode(ids)).toBe(theirs.texts[i]!.decoded);
    }
  });

  test("chats have the same ids, placeholders included", () => {
    for (const [i, messages] of chats.entries()) {
      expect([...ours.renderer.prompt(messages).ids]).toEqual(theirs.chats[i]!.ids);
    }
  });

  test("images have the same grids and the same pixel values, bit for bit", () => {
    for (const [i, messages] of chats.entries()) {
      const mine = messages.flatMap(imagesOf).map((image) => ours.processor.preprocess(image));
      expect(mine.map(({ gridH, gridW }) => [gridH, gridW])).toEqual(theirs.chats[i]!.grids);
      const bytes = Buffer.concat(mine.map(({ patches }) => new Uint8Array(patches.buffer)));
      expect(bytes.equals(Buffer.from(theirs.chats[i]!.pixels, "base64"))).toBe(true);
    }
  });

  test("a folder that transformers saved, in bfloat16 and shards, loads here with the same parts", async () => {
    const saved = await loadFolder(join(base, "saved"));
    expect(saved.config).toEqual(ours.config);
    const messages = chats[1]!;
    expect(saved.renderer.prompt(messages).ids).toEqual(ours.renderer.prompt(messages).ids);
    const before = await readWeights(ours.path);
    for (const [name, { data }] of await readWeights(saved.path)) {
      const exact = before.get(name)!.data;
      expect(data.every((x, i) => Math.abs(x - exact[i]!) <= Math.abs(exact[i]!) / 256)).toBe(true);
    }
  });
});

function forPython(message: Message) {
  if (imagesOf(message).length === 0) return { role: message.role, content: textOf(message) };
  const content = message.content.map((part) => {
    if (part.type === "text") return { type: "text", text: part.text };
    const { width, height, data } = part.image;
    return { type: "image", width, height, data: Buffer.from(data).toString("base64") };
  });
  return { role: message.role, content };
}
