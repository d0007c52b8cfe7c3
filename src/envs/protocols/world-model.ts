/**
 * `world-model`: the model says what it sees, thinks, acts and says what it expects to see:
 * `<observation>…</observation><think>…</think><answer>…</answer><prediction>…</prediction>` (VAGEN's `wm`). With
 * `thinking: "free"` there is no think tag and text may stand between the others (`free_wm`). `strategy` asks for less: VAGEN's paper compares
 * the answer alone (`none`), thinking (`free`), saying what is seen (`state`), what will be (`transition`), and `both`.
 */
import { z } from "zod";
import { ConfigError } from "../../core/errors.ts";
import type { Protocol } from "../protocol.ts";
import { FORMS } from "../world-model/speak.ts";
import { makeAnswer } from "./answer.ts";
import { answerOptions, readOptions } from "./options.ts";

export const STRATEGIES = ["none", "free", "state", "transition", "both"] as const;

export const worldModelOptions = z.strictObject({
  strategy: z.enum(STRATEGIES).default("both").describe("Which sections to ask for."),
  thinking: z.enum(["required", "free"]).default("required").describe("Whether `<think>` is required."),
  form: z
    .enum(FORMS)
    .default("lines")
    .describe("How the prompt asks for descriptions, in worlds that name their things."),
  ...answerOptions,
});

export function makeWorldModel(options: unknown): Protocol {
  const { strategy, thinking, tag, ...rest } = readOptions("world-model", worldModelOptions, options);
  const hints = {
    observation: "what you see now",
    think: "your reasoning",
    prediction: "what you expect to see after your actions",
  };
  if (tag in hints) throw new ConfigError(`Protocol "world-model": tag can't be "${tag}", it has its own use here.`);
  const free = thinking === "free";
  const tags = [
    ...(strategy === "state" || strategy === "both" ? ["observation"] : []),
    ...(free || strategy === "none" ? [] : ["think"]),
    tag,
    ...(strategy === "transition" || strategy === "both" ? ["prediction"] : []),
  ];
  return makeAnswer({
    ...rest,
    name: "world-model",
    tags,
    answer: tag,
    gaps: free ? "free" : "blank",
    hints,
  });
}
