/** Replies whose actions stand in tags of one name, an action in each: read by `keyword` and `tool-call`. */
import type { Action } from "../action.ts";
import type { ParsedReply } from "../protocol.ts";
import { type ReadAction, tooManyActions } from "./command.ts";
import { type Block, findBlocks, sectionIn, sectionsOf, spanIn, textIn } from "./tags.ts";

type Tagged = {
  readonly tag: string;
  /** Which tag counts where one action is taken; of several the first ones do, in order. */
  readonly pick: "first" | "last";
  readonly maxActions: number;
  readonly read: (text: string) => ReadAction;
  /** The answer to a reply without the tag. */
  readonly untagged: (sections: ParsedReply["sections"]) => ParsedReply;
};

/** Actions up to the first that can't be read, which is the problem. */
export function parseTagged(reply: string, { tag, pick, maxActions, read, untagged }: Tagged): ParsedReply {
  const blocks = findBlocks(reply, [tag]);
  const chosen = maxActions === 1 && pick === "last" ? blocks.slice(-1) : blocks.slice(0, maxActions);
  const sections = sectionsOf(reply, [tag, "think"]);
  const [first] = chosen;
  if (first === undefined) return untagged(sections);
  const actions: Action[] = [];
  let problem = maxActions > 1 && blocks.length > maxActions ? tooManyActions(maxActions) : undefined;
  for (const block of chosen) {
    const found = read(textIn(reply, block));
    if (!found.ok) {
      problem = found.problem;
      break;
    }
    actions.push(found.action);
  }
  const last = chosen.at(-1) as Block;
  return {
    actions,
    wellFormed: actions.length === chosen.length,
    ...(problem === undefined ? {} : { problem }),
    sections: { ...sections, [tag]: sectionIn(reply, last) },
    span: [spanIn(reply, first)[0], spanIn(reply, last)[1]],
  };
}
