/**
 * `world-model`: the model says what it sees, thinks, acts and says what it expects to see:
 * `<observation>…</observation><think>…</think><answer>…</answer><prediction>…</prediction>` (VAGEN's `wm`). With
 * `thinking: "free"` there is no think tag and text may stand between the others (`free_wm`).
 */
import { z } from "zod";
import { ConfigError } from "../../core/errors.ts";
import type { Protocol } from "../protocol.ts";
import { makeAnswer } from "./answer.ts";
import { maxActionsOption, readOptions, separatorOption, tagOption } from "./options.ts";

export const worldModelOptions = z.strictObject({
  thinking: z.enum(["required", "free"]).default("required"),
  strict: z.boolean().default(false),
  separator: separatorOption.default(","),
  maxActions: maxActionsOption.default(5),
  /** Paid on every well-formed turn that plays an action. */
  bonus: z.number().default(0.1),
  /** The tag that holds the actions. */
  tag: tagOption.default("answer"),
});

export function makeWorldModel(options: unknown): Protocol {
  const { thinking, tag, ...rest } = readOptions("world-model", worldModelOptions, options);
  const hints = {
    observation: "what you see now",
    think: "your reasoning",
    prediction: "what you expect to see after your actions",
  };
  if (tag in hints) throw new ConfigError(`Protocol "world-model": tag can't be "${tag}", it has its own use here.`);
  const free = thinking === "free";
  return makeAnswer({
    ...rest,
    name: "world-model",
    tags: free ? ["observation", tag, "prediction"] : ["observation", "think", tag, "prediction"],
    answer: tag,
    gaps: free ? "free" : "blank",
    hints,
  });
}
