import { describe, expect, test } from "vitest";
import { ConfigError } from "../core/errors.ts";
import { configJson, type ModelConfig, parseConfig } from "./config.ts";
import { initialParameters, parameterCount, parameterShapes } from "./parameters.ts";
import { findPreset, PRESETS, type PresetName } from "./presets.ts";

function configOf(name: PresetName): ModelConfig {
  const { vocab, text, vision } = findPreset(name);
  const ids = { imageToken: 1, videoToken: 2, visionStart: 3, visionEnd: 4, eos: [5], pad: 6 };
  return { text: { ...text, vocabSize: vocab }, vision, ids };
}

type Raw = { [key: string]: unknown; text_config: Record<string, unknown>; vision_config: Record<string, unknown> };
const raw = () => structuredClone(configJson(configOf("nano"))) as unknown as Raw;

describe("config.json", () => {
  test.each(Object.keys(PRESETS) as PresetName[])("of the preset %s reads back as the same configuration", (name) => {
    expect(parseConfig(configJson(configOf(name)))).toEqual(configOf(name));
  });

  test("the older rotary layout means the same as the newer one", () => {
    const older = raw();
    delete older.text_config.rope_parameters;
    Object.assign(older.text_config, {
      rope_theta: 10_000,
      rope_scaling: { rope_type: "default", mrope_section: [6, 5, 5], mrope_interleaved: true },
    });
    expect(parseConfig(older)).toEqual(configOf("nano"));
  });

  test("an untied model and Qwen's defaults are understood", () => {
    const config = parseConfig({
      architectures: ["Qwen3VLForConditionalGeneration"],
      text_config: { hidden_size: 3584, num_key_value_heads: null },
      vision_config: {},
    });
    expect(config.text).toMatchObject({ kvHeads: 32, headDim: 128, tied: false, mropeSection: [24, 20, 20] });
    expect(config.vision).toMatchObject({ depth: 27, deepstackIndexes: [8, 16, 24], patchSize: 16 });
    expect(config.ids.imageToken).toBe(151655);
  });

  test("an unknown architecture is refused with a list of those that work", () => {
    const other = { ...raw(), architectures: ["LlavaForConditionalGeneration"] };
    expect(() => parseConfig(other)).toThrow(ConfigError);
    expect(() => parseConfig(other)).toThrow(/is LlavaForConditionalGeneration; supported: Qwen3VLForCond/);
    expect(() => parseConfig({ model_type: "llama" })).toThrow(/model_type "llama"/);
    expect(() => parseConfig(null)).toThrow(/architecture is none/);
  });

  test.each<[string, (json: Raw) => void, RegExp]>([
    ["a missing part", (j) => Reflect.deleteProperty(j, "vision_config"), /vision_config/],
    ["a fractional size", (j) => Object.assign(j.text_config, { hidden_size: 1.5 }), /text_config.hidden_size/],
    ["another activation", (j) => Object.assign(j.vision_config, { hidden_act: "relu" }), /vision_config.hidden_act/],
    ["attention biases", (j) => Object.assign(j.text_config, { attention_bias: true }), /text_config.attention_bias/],
    [
      "scaled rotary positions",
      (j) => Object.assign(j.text_config, { rope_scaling: { rope_type: "yarn" } }),
      /type "yarn"/,
    ],
    [
      "a rotary section that does not add up",
      (j) => Object.assign(j.text_config.rope_parameters as object, { mrope_section: [8, 4, 5] }),
      /must add up to head_dim \/ 2 = 16/,
    ],
    ["uneven query groups", (j) => Object.assign(j.text_config, { num_key_value_heads: 3 }), /multiple of key-value/],
    ["a table that is no square", (j) => Object.assign(j.vision_config, { num_position_embeddings: 200 }), /square/],
    ["a merger of the wrong width", (j) => Object.assign(j.vision_config, { out_hidden_size: 32 }), /out_hidden_size/],
    [
      "a block that is not there",
      (j) => Object.assign(j.vision_config, { deepstack_visual_indexes: [1] }),
      /below depth/,
    ],
    ["an id outside the vocabulary", (j) => Object.assign(j, { image_token_id: 512 }), /image token id 512/],
  ])("%s is refused with the name of the field", (_, spoil, message) => {
    const json = raw();
    spoil(json);
    expect(() => parseConfig(json)).toThrow(ConfigError);
    expect(() => parseConfig(json)).toThrow(message);
  });
});

describe("parameters", () => {
  test.each([
    ["nano", 0.35e6, 0.45e6],
    ["micro", 2.7e6, 3.3e6],
    ["mini", 18e6, 22e6],
  ] as const)("of the preset %s are as many as it promises", (name, least, most) => {
    expect(parameterCount(configOf(name))).toBeGreaterThan(least);
    expect(parameterCount(configOf(name))).toBeLessThan(most);
  });

  test("include a head of their own only when the embedding is not tied", () => {
    const tied = configOf("nano");
    const untied = { ...tied, text: { ...tied.text, tied: false } };
    expect(parameterShapes(tied).has("lm_head.weight")).toBe(false);
    expect([...parameterShapes(untied)].at(-1)).toEqual(["lm_head.weight", [512, 64]]);
  });

  test("start as normal weights of the configured size, unit norms and zero biases, decided by the seed", () => {
    const config = configOf("nano");
    const start = initialParameters(config, 3);
    expect(initialParameters(config, 3)).toEqual(start);
    expect(initialParameters(config, 4)).not.toEqual(start);
    const weights = start.get("model.visual.patch_embed.proj.weight")!.data;
    const mean = weights.reduce((sum, x) => sum + x, 0) / weights.length;
    const deviation = Math.sqrt(weights.reduce((sum, x) => sum + (x - mean) ** 2, 0) / weights.length);
    expect(Math.abs(mean)).toBeLessThan(3e-4);
    expect(deviation).toBeCloseTo(0.02, 3);
    expect(new Set(start.get("model.visual.merger.norm.weight")!.data)).toEqual(new Set([1]));
    expect(new Set(start.get("model.language_model.layers.0.self_attn.q_norm.weight")!.data)).toEqual(new Set([1]));
    expect(new Set(start.get("model.visual.merger.norm.bias")!.data)).toEqual(new Set([0]));
  });
});
