/** The ids that stand for images and videos, and their brackets: they have no probability, so nobody samples or trains them. */
import type { ModelIds } from "./config.ts";

/** `special`: the tokenizer's special tokens, since config.json has no place for `<|vision_pad|>`. */
export function visionIds(
  { imageToken, videoToken, visionStart, visionEnd }: Omit<ModelIds, "eos" | "pad">,
  special: ReadonlyMap<string, number> = new Map(),
): number[] {
  const padding = special.get("<|vision_pad|>");
  return [imageToken, videoToken, visionStart, visionEnd, ...(padding === undefined ? [] : [padding])];
}
