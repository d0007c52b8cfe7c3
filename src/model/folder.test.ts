import { cp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { ConfigError, DataError } from "../core/errors.ts";
import { Image } from "../core/image.ts";
import { text, user } from "../core/message.ts";
import { createFolder, loadFolder, orderWeights, readWeights, saveFolder } from "./folder.ts";
import { parameterShapes } from "./parameters.ts";
import { writeSafetensors } from "./safetensors.ts";
import { TINY_CORPUS, temporaryFolder } from "./test-folder.ts";

let base = "";
let model = "";
beforeAll(async () => {
  base = await temporaryFolder();
  model = join(base, "model");
  await createFolder(model, { preset: "nano", corpus: TINY_CORPUS, seed: 5, text: { num_hidden_layers: 1 } });
});
afterAll(() => rm(base, { recursive: true }));

/** A copy of the model with one JSON file changed. */
async function changed(name: string, file: string, change: (json: Record<string, unknown>) => void): Promise<string> {
  const copy = join(base, name);
  await cp(model, copy, { recursive: true });
  const json = JSON.parse(await readFile(join(copy, file), "utf8")) as Record<string, unknown>;
  change(json);
  await writeFile(join(copy, file), JSON.stringify(json));
  return copy;
}

describe("a created folder", () => {
  test("holds every file that transformers looks for", async () => {
    expect((await readdir(model)).sort()).toEqual([
      "chat_template.jinja",
      "config.json",
      "generation_config.json",
      "model.safetensors",
      "preprocessor_config.json",
      "tokenizer.json",
      "tokenizer_config.json",
      "video_preprocessor_config.json",
    ]);
  });

  test("loads with parts that fit together", async () => {
    const { config, tokenizer, renderer, generation, processor } = await loadFolder(model);
    expect(config.text).toMatchObject({ layers: 1, hiddenSize: 64, vocabSize: tokenizer.size });
    expect(tokenizer.token(config.ids.imageToken)).toBe("<|image_pad|>");
    expect(tokenizer.token(renderer.endOfTurn)).toBe("<|im_end|>");
    expect(generation.eos).toEqual([renderer.endOfTurn, tokenizer.specialId("<|endoftext|>")]);
    expect(processor.targetSize(225, 225)).toEqual({ width: 224, height: 224 });
    expect(Math.max(...renderer.prompt([user(text("hi"))]).ids)).toBeLessThan(config.text.vocabSize);
    const weights = await readWeights(model);
    expect([...weights].map(([name, { shape }]) => [name, shape])).toEqual([...parameterShapes(config)]);
  });

  test("begins with the colour that is 0 and with as different places as it was asked for, and nothing else differs", async () => {
    const folder = join(base, "pages");
    const shape = { preset: "nano", corpus: TINY_CORPUS, seed: 5, text: { num_hidden_layers: 1 } } as const;
    await createFolder(folder, { ...shape, image_mean: [1, 1, 1], position_range: 0.5 });
    const { processor, config } = await loadFolder(folder);
    const side = config.vision.patchSize * config.vision.mergeSize;
    const white = new Image(side, side, new Uint8Array(side * side * 3).fill(255));
    expect(new Set(processor.preprocess(white).patches)).toEqual(new Set([0]));
    const [plain, own] = [await readWeights(model), await readWeights(folder)];
    for (const [name, { data }] of own) {
      const factor = name.endsWith("pos_embed.weight") ? 25 : 1;
      const wanted = Array.from(plain.get(name)?.data ?? [], (x) => x * factor);
      expect(Math.max(...Array.from(data, (x, i) => Math.abs(x - (wanted[i] as number)))), name).toBeLessThan(1e-5);
    }
  });

  test("is the same for the same seed and other for another", async () => {
    const bytes = (name: string) => readFile(join(base, name, "model.safetensors"));
    const make = (name: string, seed: number) =>
      createFolder(join(base, name), { preset: "nano", corpus: TINY_CORPUS, seed, text: { num_hidden_layers: 1 } });
    await make("again", 5);
    await make("other", 6);
    expect(await bytes("again")).toEqual(await bytes("model"));
    expect(await bytes("other")).not.toEqual(await bytes("model"));
  });

  test("is never written over something", async () => {
    await expect(createFolder(model, { corpus: TINY_CORPUS })).rejects.toThrow(/not empty; name a new folder/);
  });

  test("can't be made from a preset that is not there or sizes that do not fit", async () => {
    const odd = { preset: "huge" as "nano", corpus: TINY_CORPUS };
    await expect(createFolder(join(base, "odd"), odd)).rejects.toThrow(/no model preset "huge". The presets are nano/);
    const uneven = { corpus: TINY_CORPUS, text: { num_key_value_heads: 3 } };
    await expect(createFolder(join(base, "odd"), uneven)).rejects.toThrow(ConfigError);
  });
});

describe("loading a folder", () => {
  test("that is not there says how to get one", async () => {
    await expect(loadFolder(join(base, "nowhere"))).rejects.toThrow(/Name a Hugging Face model folder/);
  });

  test("whose parts come from different models is refused", async () => {
    const small = await changed("small", "config.json", (json) => {
      Object.assign(json.text_config as object, { vocab_size: 100 });
      Object.assign(json, { image_token_id: 1, video_token_id: 2, vision_start_token_id: 3, vision_end_token_id: 4 });
    });
    await expect(loadFolder(small)).rejects.toThrow(/tokens, but the model only 100/);
    const patch = await changed("patch", "preprocessor_config.json", (json) => Object.assign(json, { patch_size: 14 }));
    await expect(loadFolder(patch)).rejects.toThrow(/cuts patches of 14 pixels.*expects 16/);
    const deeper = await changed("deeper", "config.json", (json) =>
      Object.assign(json.text_config as object, { num_hidden_layers: 2 }),
    );
    await expect(readWeights(deeper)).rejects.toThrow(
      /missing: model.language_model.layers.1.self_attn.q_proj.weight, .* and 8 more/,
    );
    const wider = await changed("wider", "config.json", (json) =>
      Object.assign(json.text_config as object, { intermediate_size: 96 }),
    );
    await expect(readWeights(wider)).rejects.toThrow(/gate_proj.weight is \[128, 64\] and should be \[96, 64\]/);
    const untied = await changed("untied", "config.json", (json) =>
      Object.assign(json, { tie_word_embeddings: false }),
    );
    await expect(readWeights(untied)).rejects.toThrow(/missing: lm_head.weight\./);
  });

  test("with a tensor nobody asked for names it", async () => {
    const weights = await readWeights(model);
    weights.set("model.extra", { shape: [1], data: new Float32Array(1) });
    const copy = await changed("extra", "config.json", () => {});
    await writeSafetensors(join(copy, "model.safetensors"), weights);
    await expect(readWeights(copy)).rejects.toThrow(DataError);
    await expect(readWeights(copy)).rejects.toThrow(/unexpected: model.extra/);
  });

  test("that is broken JSON or has no template says which file", async () => {
    const copy = await changed("broken", "config.json", () => {});
    await rm(join(copy, "chat_template.jinja"));
    await expect(loadFolder(copy)).rejects.toThrow(/no chat template/);
    await writeFile(join(copy, "chat_template.json"), JSON.stringify({ chat_template: await template() }));
    expect((await loadFolder(copy)).renderer.endOfTurn).toBe((await loadFolder(model)).renderer.endOfTurn);
    await writeFile(join(copy, "config.json"), "{");
    await expect(loadFolder(copy)).rejects.toThrow(/config.json is not JSON/);
  });

  const template = () => readFile(join(model, "chat_template.jinja"), "utf8");
});

test("saved weights come back, with the other files of their model and an honest dtype", async () => {
  const source = await changed("half", "config.json", (json) => Object.assign(json, { dtype: "bfloat16" }));
  const weights = await readWeights(source);
  weights.get("model.language_model.norm.weight")!.data.fill(2);
  const saved = join(base, "saved");
  await saveFolder(saved, source, weights);
  expect((await readdir(saved)).sort()).toEqual((await readdir(model)).sort());
  expect(await readWeights(saved)).toEqual(weights);
  expect(JSON.parse(await readFile(join(saved, "config.json"), "utf8"))).toMatchObject({ dtype: "float32" });
  const shuffled = new Map([...weights].reverse());
  expect([...orderWeights(shuffled, (await loadFolder(saved)).config).keys()]).toEqual([...weights.keys()]);
});
