/**
 * `think`: `<think>…</think><answer>left, down</answer>`, VAGEN's free thinking. `thinking: false` asks for the answer
 * alone. By default text around the tags is forgiven; `strict` forbids it.
 */
import { z } from "zod";
import { ConfigError } from "../../core/errors.ts";
import type { Protocol } from "../protocol.ts";
import { makeAnswer } from "./answer.ts";
import { answerOptions, readOptions } from "./options.ts";

export const thinkOptions = z.strictObject({
  thinking: z.boolean().default(true).describe("Ask for `<think>` before the answer."),
  ...answerOptions,
});

export function makeThink(options: unknown): Protocol {
  const { thinking, tag, ...rest } = readOptions("think", thinkOptions, options);
  if (tag === "think") throw new ConfigError('Protocol "think": tag can\'t be "think", which holds the thoughts.');
  return makeAnswer({
    ...rest,
    name: "think",
    tags: thinking ? ["think", tag] : [tag],
    answer: tag,
    gaps: "blank",
    hints: { think: "your reasoning" },
  });
}
