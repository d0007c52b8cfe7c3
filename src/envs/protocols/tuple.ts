/**
 * `tuple`: one action as a Python tuple, `('move', 0)`, the language of VisGym. The reader takes the last tuple of the
 * reply that begins with a name (VisGym's evaluation) or the first pair (SkyRL's recipe), and forgives what models do around
 * it: code fences, box and think markers, an `Action:` before it, names without quotes. Where there is an `<action>` or `<answer>`
 * tag, the action stands in it or nowhere. What the model said last is what it meant: when that can't be read, it is told so and nothing
 * that it said before is played. With `tags`, the model is asked to observe and justify before it acts, and is paid for doing so.
 */
import { z } from "zod";
import type { Action, ActionSpec } from "../action.ts";
import { acceptAction, describeArg } from "../args.ts";
import type { ParsedReply, Protocol } from "../protocol.ts";
import { PyTuple, parseLiteral, printLiteral, printString, readTupleAt } from "../python.ts";
import type { PromptStyle } from "../world.ts";
import { checkCount, exampleAction, exampleActions, misfitSentence, specOf, unknownAction } from "./command.ts";
import { readOptions } from "./options.ts";
import { findBlocks, sectionsOf, wrap } from "./tags.ts";

export const tupleOptions = z.strictObject({
  tags: z.boolean().default(false).describe("Ask for `<observation>`, `<justification>` and `<action>` tags."),
  pick: z.enum(["last", "first"]).default("last").describe("Which tuple counts if a reply has several."),
  words: z
    .enum(["stock", "true"])
    .default("stock")
    .describe(
      "With tags: what the oracle writes in them. `stock` is one fixed word; `true` is what it sees and its next moves.",
    ),
});

/** No action is longer; a bracket that is not closed by then is given up. */
const MAX_TUPLE = 16384;
const SECTIONS = ["observation", "justification", "action"];
const ALL_TAGS = [...SECTIONS, "think", "answer"];
/** What a tuple that begins with a name looks like at its bracket. */
const QUOTED_HEAD = /\(\s*['"]/y;
const BARE_HEAD = /\(\s*[A-Za-z_]\w*\s*,/y;
const ANY_HEAD = /\(\s*(?:['"]|[A-Za-z_]\w*\s*,)/y;
const ATTEMPT = /\(\s*(['"]?)(\w+)\1\s*([,)])/y;
const NOISE = /```\w*|`|<\|(?:begin|end)_of_box\|>|◁\/?think▷|\baction\s*:|\s/gi;

type Found = { readonly tuple: PyTuple; readonly start: number; readonly end: number };

export function makeTuple(options: unknown): Protocol {
  const { tags, pick, words } = readOptions("tuple", tupleOptions, options);

  function parse(reply: string, specs: readonly ActionSpec[]): ParsedReply {
    const sections = sectionsOf(reply, ALL_TAGS);
    const tagged = SECTIONS.every((name) => sections[name] !== undefined);
    const found = findTuple(reply, pick, specs);
    const read = readTuple(found, specs);
    const span = found === undefined || found === "broken" ? {} : { span: [found.start, found.end] as const };
    const actions = "action" in read ? [read.action] : [];
    const problem = "problem" in read ? { problem: read.problem } : {};
    return { actions, wellFormed: tags ? tagged : actions.length > 0, ...problem, sections, ...span };
  }

  function print(actions: readonly Action[], specs: readonly ActionSpec[], sections: Record<string, string> = {}) {
    checkCount("tuple", actions, 1);
    const text = actions.map((action) => tupleText(action, specs)).join("");
    if (!tags) {
      if (sections.think === undefined) return text;
      return wrap("think", sections.think, ALL_TAGS) + wrap("answer", text, ALL_TAGS);
    }
    // Who has nothing to say says a word: in a reply of many stock tokens the one that decides gets no weight, and small models never learn it.
    const observation = sections.observation?.trim() || "here";
    const justification = sections.justification?.trim() || "next";
    return [
      wrap("observation", observation, ALL_TAGS),
      wrap("justification", justification, ALL_TAGS),
      wrap("action", text, ALL_TAGS),
    ].join("");
  }

  function instruction(specs: readonly ActionSpec[], style: PromptStyle): string {
    const inTags = (text: string) =>
      `<observation>…</observation><justification>…</justification><action>${text}</action>`;
    if (style === "brief") {
      const examples = specs.map((spec) => tupleText(exampleAction(spec), specs)).join(" or ");
      return tags ? `Answer ${inTags("X")}, X like ${examples}.` : `Answer with one tuple, like ${examples}.`;
    }
    const list = specs.map((spec, index) => {
      const note = spec.arg.type === "word" ? "" : ` (${describeArg(spec.arg)})`;
      return `${index + 1}. ${tupleText(exampleAction(spec), specs)} – ${spec.description}${note}`;
    });
    const ask = tags
      ? "Say what you see, then why you act, then act, each in its own tag:\n" +
        `${inTags("one action")}\nThe action is a Python tuple of its name and its argument.`
      : "Answer with one action: a Python tuple of its name and its argument.";
    const examples = exampleActions(specs).map((action) => tupleText(action, specs));
    const shown = examples.map((text) => (tags ? `<action>${text}</action>` : text)).join(" or ");
    return `Actions, each with an example argument:\n${list.join("\n")}\n\n${ask} For example: ${shown}`;
  }

  return {
    name: "tuple",
    maxActions: 1,
    formatReward: tags ? { kind: "mixture", task: 0.8, format: 0.2 } : { kind: "none" },
    ...(tags && words === "true" && { says: ["observation", "justification"] }),
    instruction,
    parse,
    print,
  };
}

function tupleText(action: Action, specs: readonly ActionSpec[]): string {
  return `(${printString(action.name)}, ${printLiteral(action.payload, specOf(action, specs).arg)})`;
}

function readTuple(
  found: Found | "broken" | undefined,
  specs: readonly ActionSpec[],
): { readonly action: Action } | { readonly problem: string } {
  if (found === "broken") {
    return { problem: `The last action of the reply is no tuple that can be read: write ${exampleText(specs[0])}.` };
  }
  if (found === undefined) {
    return {
      problem: `No action was found in the reply. Write one as a tuple, for example: ${exampleText(specs[0])}.`,
    };
  }
  const [name, payload] = found.tuple.items;
  if (found.tuple.items.length !== 2 || typeof name !== "string" || payload === undefined) {
    const count = found.tuple.items.length;
    return {
      problem: `An action is a tuple of two, its name and its argument, but this one has ${count}: write ${exampleText(specs[0])}.`,
    };
  }
  const spec = specs.find((candidate) => candidate.name === name);
  if (spec === undefined) {
    const names = specs.map((candidate) => candidate.name);
    return { problem: unknownAction(name, specs, names) };
  }
  const accepted = acceptAction(spec, payload);
  if (accepted.ok) return { action: { name, payload: accepted.payload } };
  return { problem: misfitSentence(spec, accepted.problem, exampleText(spec)) };
}

/** For answers to a reply, which never throw, even where the author's example does not fit. */
function exampleText(spec: ActionSpec | undefined): string {
  const fits = spec !== undefined && acceptAction(spec, spec.example).ok;
  return fits ? tupleText(exampleAction(spec), [spec]) : "('name', argument)";
}

function findTuple(reply: string, pick: "last" | "first", specs: readonly ActionSpec[]): Found | "broken" | undefined {
  // Noise becomes spaces rather than nothing, so that offsets stay those of the reply.
  const text = reply.replace(NOISE, (noise) => " ".repeat(noise.length));
  const tag = findBlocks(reply, ["action", "answer"]).at(-1);
  const [from, to] = tag === undefined ? [0, text.length] : [tag.start, tag.end];
  return pick === "last" ? lastTuple(text, from, to, specs) : firstPair(text, from, to);
}

/** The last tuple that begins with a name. Failing that, the whole text may be a tuple without brackets. */
function lastTuple(text: string, from: number, to: number, specs: readonly ActionSpec[]): Found | "broken" | undefined {
  for (let start = to; start > from; ) {
    start = text.lastIndexOf("(", start - 1);
    if (start < from) break;
    const found = namedTuple(text, start, to, ANY_HEAD);
    if (found !== undefined) return found;
    if (isAttempt(text, start, specs)) return "broken";
  }
  if (to - from > MAX_TUPLE) return undefined;
  const whole = parseLiteral(text.slice(from, to));
  const named = whole instanceof PyTuple && typeof whole.items[0] === "string";
  return named ? { tuple: whole, start: from, end: to } : undefined;
}

/** Whether an action was meant here: a quoted name and more, or an action's name. Other brackets are prose: `(left, I think)`. */
function isAttempt(text: string, start: number, specs: readonly ActionSpec[]): boolean {
  ATTEMPT.lastIndex = start;
  const [, quote, name, next] = ATTEMPT.exec(text) ?? [];
  if (name === undefined) return false;
  return (quote !== "" && next === ",") || specs.some((spec) => spec.name === name);
}

/** The first pair whose name is quoted, else the first whose name is not, else the first tuple of another length. */
function firstPair(text: string, from: number, to: number): Found | undefined {
  let other: Found | undefined;
  for (const head of [QUOTED_HEAD, BARE_HEAD]) {
    for (let start = text.indexOf("(", from); start >= 0 && start < to; start = text.indexOf("(", start + 1)) {
      const found = namedTuple(text, start, to, head);
      if (found?.tuple.items.length === 2) return found;
      other ??= found;
    }
  }
  return other;
}

function namedTuple(text: string, start: number, to: number, head: RegExp): Found | undefined {
  head.lastIndex = start;
  if (!head.test(text)) return undefined;
  const read = readTupleAt(text, start, Math.min(to, start + MAX_TUPLE), head !== QUOTED_HEAD);
  return read !== undefined && typeof read.tuple.items[0] === "string" ? { ...read, start } : undefined;
}
