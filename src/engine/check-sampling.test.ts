import { expect, test } from "vitest";
import { checkSampling } from "./check-sampling.ts";
import type { SamplingParams } from "./engine.ts";

const base: SamplingParams = { maxTokens: 1, temperature: 1, seed: 0 };

test("bad sampling options are named", () => {
  for (const bad of [
    { maxTokens: 0 },
    { temperature: -1 },
    { topK: 0 },
    { topP: 0 },
    { minP: 2 },
    { seed: -1 },
    { stopStrings: [""] },
  ]) {
    expect(() => checkSampling({ ...base, ...bad })).toThrow(
      Object.keys(bad)[0] === "stopStrings" ? /stop string/ : new RegExp(Object.keys(bad)[0]!),
    );
  }
});
