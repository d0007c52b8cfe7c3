/** What every engine asks of sampling parameters. */
import { ConfigError } from "../core/errors.ts";
import { checkSeed } from "../core/seed.ts";
import type { SamplingParams } from "./engine.ts";

/** Throws a ConfigError that names the option. */
export function checkSampling(params: SamplingParams): void {
  const { maxTokens, temperature, topK, topP, minP, topLogprobs, stopStrings } = params;
  const rules: [boolean, string][] = [
    [
      Number.isSafeInteger(maxTokens) && maxTokens >= 1,
      `maxTokens must be a whole number of at least 1, got ${maxTokens}`,
    ],
    [Number.isFinite(temperature) && temperature >= 0, `temperature must be 0 (greedy) or more, got ${temperature}`],
    [
      topK === undefined || (Number.isSafeInteger(topK) && topK >= 1),
      `topK must be a whole number of at least 1, got ${topK}`,
    ],
    [topP === undefined || (topP > 0 && topP <= 1), `topP must be above 0 and at most 1, got ${topP}`],
    [minP === undefined || (minP >= 0 && minP <= 1), `minP must be from 0 to 1, got ${minP}`],
    [
      topLogprobs === undefined || (Number.isSafeInteger(topLogprobs) && topLogprobs >= 0),
      `topLogprobs must be a whole number, got ${topLogprobs}`,
    ],
    [stopStrings === undefined || stopStrings.every((text) => text !== ""), "a stop string can't be empty"],
  ];
  for (const [holds, message] of rules) if (!holds) throw new ConfigError(`Sampling: ${message}.`);
  checkSeed(params.seed, "Sampling: the seed");
}
