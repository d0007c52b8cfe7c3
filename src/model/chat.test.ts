import { cp, readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { Image } from "../core/image.ts";
import { image, text, user } from "../core/message.ts";
import { NativeEngine } from "../engine/native/engine.ts";
import { chatModel, loadChat } from "./chat.ts";
import { createFolder, loadFolder } from "./folder.ts";
import { TINY_CORPUS, temporaryFolder } from "./test-folder.ts";

let base = "";
let model = "";
beforeAll(async () => {
  base = await temporaryFolder();
  model = join(base, "model");
  await createFolder(model, { preset: "nano", corpus: TINY_CORPUS, seed: 5, text: { num_hidden_layers: 1 } });
});
afterAll(() => rm(base, { recursive: true }));

async function changed(
  name: string,
  files: Record<string, (json: Record<string, unknown>) => unknown>,
): Promise<string> {
  const copy = join(base, name);
  await cp(model, copy, { recursive: true });
  for (const [file, change] of Object.entries(files)) {
    const json = JSON.parse(await readFile(join(copy, file), "utf8")) as Record<string, unknown>;
    await writeFile(join(copy, file), JSON.stringify(change(json)));
  }
  return copy;
}

/** The layout of a Qwen2.5-VL folder: the language model's fields beside the others, patches of 14 pixels, other means. */
const older = () =>
  changed("older", {
    "config.json": ({ text_config, vision_config: _, ...rest }) => ({
      ...rest,
      ...(text_config as object),
      architectures: ["Qwen2_5_VLForConditionalGeneration"],
      model_type: "qwen2_5_vl",
      vision_config: {
        depth: 2,
        patch_size: 14,
        spatial_patch_size: 14,
        temporal_patch_size: 2,
        spatial_merge_size: 2,
      },
    }),
    "preprocessor_config.json": (json) => ({
      ...json,
      patch_size: 14,
      size: { shortest_edge: 784, longest_edge: 200704 },
      image_mean: [0.48, 0.46, 0.41],
      image_std: [0.27, 0.26, 0.28],
    }),
  });

describe("the chat side", () => {
  test("of a Qwen2.5-VL folder loads, and only the native engine refuses the architecture", async () => {
    const path = await older();
    const chat = chatModel(await loadChat(path));
    const testImage = new Image(56, 84, new Uint8Array(56 * 84 * 3));
    const { ids, images } = await chat.renderer.prompt([user(image(testImage), text("left"))]);
    // 2 × 3 tokens of 28 pixels.
    expect(images.map(({ length }) => length)).toEqual([6]);
    expect(ids.filter((id) => id === chat.imageToken).length).toBe(6);
    expect(chat.generation.eos[0]).toBe(chat.renderer.endOfTurn);
    const engine = new NativeEngine({ threads: 1 });
    await expect(engine.chat(path)).rejects.toThrow(/Qwen2_5_VLForConditionalGeneration; supported: Qwen3VL/);
    await expect(engine.sampler(path)).rejects.toThrow(/Qwen2_5_VLForConditionalGeneration; supported: Qwen3VL/);
    await engine.close();
  });

  test("says which models there are when it does not know one", async () => {
    const path = await changed("strange", { "config.json": (json) => ({ ...json, model_type: "llava" }) });
    await expect(loadChat(path)).rejects.toThrow(/model_type is "llava"; supported: qwen2_vl/);
  });

  test("is the same read alone and with the architecture", async () => {
    const messages = [user(text("where is the left door?"))];
    const [alone, whole] = [await loadChat(model), await loadFolder(model)];
    expect(alone.renderer.prompt(messages).ids).toEqual(whole.renderer.prompt(messages).ids);
    expect(chatModel(alone).visionIds).toEqual(chatModel(whole).visionIds);
  });
});

test("a reply's offsets say how long its text is after each id, characters of several ids included", async () => {
  const { renderer } = await loadChat(model);
  const said = "go left é🙂!";
  const ids = renderer.reply(said);
  const { text: heard, offsets } = renderer.decode(ids);
  expect(heard).toBe(said);
  expect(offsets.length).toBe(ids.length);
  expect(offsets.at(-1)).toBe(said.length);
  expect([...offsets]).toEqual([...offsets].sort((a, b) => a - b));
  for (const [i, offset] of offsets.entries()) {
    const { text: start } = renderer.decode(ids.slice(0, i + 1));
    // What is not finished yet reads as a replacement character at the end.
    expect(start.replace(/\uFFFD+$/, "")).toBe(said.slice(0, offset));
  }
});
