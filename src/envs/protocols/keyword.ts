/**
 * `keyword`: one command in a tag, `<action>left</action>`, anywhere in the reply. The simplest protocol, and the one a
 * small model can learn. Which tag counts when there are several is `pick`; with `maxActions` above 1 every tag is an
 * action, in order.
 */
import { z } from "zod";
import type { Action, ActionSpec } from "../action.ts";
import type { ParsedReply, Protocol } from "../protocol.ts";
import type { PromptStyle } from "../world.ts";
import {
  checkCount,
  commandChoices,
  commandList,
  commandText,
  exampleActions,
  namesSentence,
  readCommand,
} from "./command.ts";
import { maxActionsOption, readOptions, tagOption } from "./options.ts";
import { parseTagged } from "./tagged.ts";
import { wrap } from "./tags.ts";

export const keywordOptions = z.strictObject({
  tag: tagOption.default("action").describe("Tag that holds the command."),
  pick: z.enum(["last", "first"]).default("last").describe("Which tag counts if a reply has several."),
  maxActions: maxActionsOption.default(1).describe("Maximum number of actions in a reply."),
  lenient: z.boolean().default(false).describe("Also read a reply that is only the command, without a tag."),
});

const MAX_COMMAND = 1000;

export function makeKeyword(options: unknown): Protocol {
  const { tag, pick, maxActions, lenient } = readOptions("keyword", keywordOptions, options);
  const names = [tag, "think"];

  function parse(reply: string, specs: readonly ActionSpec[]): ParsedReply {
    const read = (text: string) => readCommand(text, specs);
    return parseTagged(reply, {
      tag,
      pick,
      maxActions,
      read,
      untagged: (sections) => untagged(reply, specs, sections),
    });
  }

  function untagged(reply: string, specs: readonly ActionSpec[], sections: ParsedReply["sections"]): ParsedReply {
    const read = lenient && reply.length <= MAX_COMMAND ? readCommand(reply, specs) : undefined;
    if (read?.ok) {
      const start = reply.length - reply.trimStart().length;
      return { actions: [read.action], wellFormed: false, sections, span: [start, start + reply.trim().length] };
    }
    const problem = `No action was found in the reply. Write it as <${tag}>…</${tag}>. ${namesSentence(specs)}`;
    return { actions: [], wellFormed: false, problem, sections };
  }

  function print(actions: readonly Action[], specs: readonly ActionSpec[], sections: Record<string, string> = {}) {
    checkCount("keyword", actions, maxActions);
    const think = sections.think === undefined ? "" : wrap("think", sections.think, names);
    return think + actions.map((action) => `<${tag}>${commandText(action, specs)}</${tag}>`).join("");
  }

  function instruction(specs: readonly ActionSpec[], style: PromptStyle): string {
    const form = `<${tag}>X</${tag}>`;
    if (style === "brief") {
      const several = maxActions > 1 ? ` Up to ${maxActions} times.` : "";
      return `Answer ${form}, X ${commandChoices(specs)}.${several}`;
    }
    const which = pick === "last" ? "last" : "first";
    const ask =
      maxActions > 1
        ? `Write up to ${maxActions} actions, each in its own <${tag}> tag; they are played in order.`
        : `Write one action in an <${tag}> tag. If there are several tags, only the ${which} counts.`;
    const examples = exampleActions(specs).map((action) => print([action], specs));
    return `Actions:\n${commandList(specs)}\n\n${ask} For example: ${examples.join(" or ")}`;
  }

  return { name: "keyword", maxActions, formatReward: { kind: "none" }, instruction, parse, print };
}
