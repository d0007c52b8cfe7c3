/**
 * The protocols that wrap several commands into tags that must follow each other: `think` and `world-model`. One tag
 * holds the commands, split by a separator; they are played in order up to the limit, and the first that can't be read
 * ends the list. What stands before and after the tags is ignored unless the protocol is strict.
 */
import type { Action, ActionSpec } from "../action.ts";
import type { ParsedReply, Protocol } from "../protocol.ts";
import type { PromptStyle } from "../world.ts";
import type { Form } from "../world-model/speak.ts";
import {
  checkCount,
  commandChoices,
  commandList,
  commandText,
  exampleAction,
  joinText,
  namesSentence,
  readCommand,
  takesDocument,
  tooManyActions,
} from "./command.ts";
import { type Block, findSequence, sectionIn, sectionsOf, spanIn, textIn, wrap } from "./tags.ts";

export type AnswerForm = {
  readonly name: string;
  /** Tags in the order the reply must have; one of them is `answer`. */
  readonly tags: readonly string[];
  readonly answer: string;
  readonly gaps: "free" | "blank";
  /** Nothing may stand outside the tags. */
  readonly strict: boolean;
  readonly separator: string;
  readonly maxActions: number;
  readonly bonus: number;
  /** What each tag but the answer is for, as a phrase: "what you see". */
  readonly hints: Readonly<Record<string, string>>;
  /** How descriptions are written. */
  readonly form?: Form;
};

export function makeAnswer(form: AnswerForm): Protocol {
  const { tags, answer, gaps, strict, separator, maxActions } = form;
  const skeleton = tags.map((tag) => `<${tag}>…</${tag}>`).join("");

  function parse(reply: string, specs: readonly ActionSpec[]): ParsedReply {
    const blocks = findSequence(reply, tags, gaps);
    if (blocks === undefined) {
      const problem = `The reply does not have the form ${skeleton}. Write your actions in <${answer}>. ${namesSentence(specs)}`;
      return { actions: [], wellFormed: false, problem, sections: sectionsOf(reply, tags) };
    }
    const sections = Object.fromEntries(blocks.map((block) => [block.name, sectionIn(reply, block)]));
    const answered = blocks.find((block) => block.name === answer) as Block;
    const span = spanIn(reply, answered);
    if (strict && hasTextAround(reply, blocks)) {
      const problem = `Write nothing before or after the tags: ${skeleton}.`;
      return { actions: [], wellFormed: false, problem, sections, span };
    }
    const { actions, problem } = readList(textIn(reply, answered), specs);
    return {
      actions,
      wellFormed: actions.length > 0,
      ...(problem === undefined ? {} : { problem }),
      sections,
      span,
    };
  }

  function readList(text: string, specs: readonly ActionSpec[]): { actions: Action[]; problem?: string } {
    const listed = takesDocument(specs) ? [text] : joinText(splitCommands(text, separator), separator, specs);
    const commands = listed.filter((command) => command.trim() !== "");
    if (commands.length === 0) {
      return { actions: [], problem: `<${answer}> is empty: write an action in it. ${namesSentence(specs)}` };
    }
    const actions: Action[] = [];
    for (const command of commands.slice(0, maxActions)) {
      const read = readCommand(command, specs);
      if (!read.ok) {
        const kept = actions.length === 0 ? "" : ` The actions before it count, it and the rest do not.`;
        return { actions, problem: read.problem + kept };
      }
      actions.push(read.action);
    }
    return commands.length > maxActions ? { actions, problem: tooManyActions(maxActions) } : { actions };
  }

  function print(actions: readonly Action[], specs: readonly ActionSpec[], sections: Record<string, string> = {}) {
    checkCount(form.name, actions, maxActions);
    const gap = separator === "\n" ? separator : separator === "," ? ", " : ` ${separator} `;
    const commands = actions.map((action) => commandText(action, specs)).join(gap);
    return tags
      .map((tag) => (tag === answer ? `<${tag}>${commands}</${tag}>` : wrap(tag, sections[tag] ?? "", tags)))
      .join("");
  }

  function instruction(specs: readonly ActionSpec[], style: PromptStyle): string {
    const most = maxActions === 1 ? "one action" : `up to ${maxActions} actions`;
    const between = separator === "\n" ? "one on a line" : `separated by ${separator === "," ? "commas" : separator}`;
    if (style === "brief") {
      const brief = tags.map((tag) => `<${tag}>${tag === answer ? "X" : "…"}</${tag}>`).join("");
      return `Answer ${brief}, X ${commandChoices(specs)}${maxActions === 1 ? "" : `, at most ${maxActions}, ${between}`}.`;
    }
    const asked = tags.map((tag) => `<${tag}> holds ${tag === answer ? most : form.hints[tag]}`);
    const several = maxActions > 1 ? ` Actions are ${between} and played in order.` : "";
    const outside = strict ? " Write nothing outside the tags." : "";
    const [one, two] = specs.map(exampleAction);
    const shown = (one === undefined ? [] : maxActions > 1 && two !== undefined ? [one, two] : [one]) as Action[];
    return (
      `Actions:\n${commandList(specs)}\n\nReply in this form: ${skeleton}\n${asked.join("; ")}.${several}${outside}\n` +
      `For example: ${print(shown, specs, Object.fromEntries(tags.map((tag) => [tag, "…"])))}`
    );
  }

  const says = tags.filter((tag) => tag === "observation" || tag === "prediction");
  const formatReward = { kind: "bonus", bonus: form.bonus } as const;
  const described = form.form === undefined ? {} : { form: form.form };
  return { name: form.name, maxActions, formatReward, says, ...described, instruction, parse, print };
}

function hasTextAround(reply: string, blocks: readonly Block[]): boolean {
  const before = reply.slice(0, blocks[0]?.outerStart);
  const after = reply.slice(blocks.at(-1)?.outerEnd);
  return (before + after).trim() !== "";
}

/** At separators, but not inside the brackets of a call: `pick(1, 2, 3), place(4, 5, 6)` are two. */
function splitCommands(text: string, separator: string): string[] {
  const calls = [...text.matchAll(/\w\([^()]*\)/g)].map((call) => [call.index, call.index + call[0].length] as const);
  if (calls.length === 0) return text.split(separator);
  const parts: string[] = [];
  let from = 0;
  let next = 0;
  for (let at = text.indexOf(separator); at >= 0; at = text.indexOf(separator, at + separator.length)) {
    while (next < calls.length && (calls[next] as readonly [number, number])[1] <= at) next += 1;
    const [start = Infinity] = calls[next] ?? [];
    if (at > start) continue;
    parts.push(text.slice(from, at));
    from = at + separator.length;
  }
  return [...parts, text.slice(from)];
}
