/** For tests: a corpus that needs no worlds, and a new folder under the system's temporary one. */
import { mkdtemp } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

export const TINY_CORPUS: readonly string[] = [
  "user\nYou are in a maze. Move to the goal: answer with <action>up</action>, <action>down</action>, left or right.",
  "user\nYou moved up. Turn 2 of 15. You hit the wall; nothing changed. Look at the picture and move again.",
  "assistant\n<think>The goal is to the left of the player.</think><answer>left</answer>",
  "assistant\n('move', 3)\nsystem\nReply with one action in a turn. The positions are 0, 1, 2 and 3.",
  "user\nThe reply could not be read: write one action, for example <action>left</action> or ('move', 0).",
];

export function temporaryFolder(): Promise<string> {
  return mkdtemp(join(tmpdir(), "saccade-model-"));
}
