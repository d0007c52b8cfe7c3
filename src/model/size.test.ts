/** Sizes from a config.json alone are those of the models that are built from it. */
import { execFileSync } from "node:child_process";
import { describe, expect, test } from "vitest";
import { parseConfig } from "./config.ts";
import { KNOWN_MODELS } from "./known.ts";
import { parameterCount } from "./parameters.ts";
import { modelSize } from "./size.ts";

const total = (json: unknown) => Object.values(modelSize(json).parameters).reduce((sum, part) => sum + part, 0);
const required = (process.env.SACCADE_REQUIRE ?? "").split(",").includes("torch");
const COUNT = `
import json, sys, torch
from transformers import AutoConfig, AutoModelForImageTextToText
found = {}
for name, given in json.load(sys.stdin).items():
    config = AutoConfig.for_model(**given)
    with torch.device("meta"):
        model = AutoModelForImageTextToText.from_config(config)
    # parameters() names a tied head once.
    found[name] = sum(p.numel() for p in model.parameters())
print(json.dumps(found))`;

function counted(): Record<string, number> | undefined {
  try {
    const input = JSON.stringify(KNOWN_MODELS);
    return JSON.parse(execFileSync("python3", ["-c", COUNT], { input, encoding: "utf8", stdio: "pipe" }));
  } catch (error) {
    if (required) throw error;
    return undefined;
  }
}

describe("the size of a model", () => {
  test.each(["Qwen3-VL-2B", "Qwen3-VL-4B", "Qwen3-VL-8B", "Qwen3-VL-32B"])(
    "%s: as many parameters as we would load",
    (name) => {
      expect(total(KNOWN_MODELS[name])).toBe(parameterCount(parseConfig(KNOWN_MODELS[name])));
    },
  );

  test("every known model, experts and Qwen2.5-VL too: as many as transformers builds", ({ skip }) => {
    const built = counted();
    if (built === undefined) skip();
    for (const [name, json] of Object.entries(KNOWN_MODELS)) expect([name, total(json)]).toEqual([name, built?.[name]]);
  });

  test("another family's config.json is refused by name", () => {
    expect(() => modelSize({ model_type: "llava" }, "there/config.json")).toThrow(/there\/config.json.*model_type/);
  });
});
