/**
 * What the protocols share: the grammar of a command (`left`, `move 7 right`, `place 0 2 3`, `stop`), the sentences that
 * tell a model what went wrong, and the list of actions in a prompt. A command is a name and single values in order;
 * nested tuples are written flat, labels stand for their numbers, and an action without argument is its name alone.
 */
import { EnvError } from "../../core/errors.ts";
import type { Json } from "../../core/json.ts";
import { closestWord } from "../../core/words.ts";
import type { Action, ActionSpec, ArgSpec } from "../action.ts";
import { acceptAction, actionText, describeArg, documentOf, leavesOf, shorthandLabels } from "../args.ts";
import { PyFloat, type PyValue, parseLiteral } from "../python.ts";

export type ReadAction =
  | { readonly ok: true; readonly action: Action }
  | { readonly ok: false; readonly problem: string };

/** A value of a call before it is matched with its argument: a word of the reply or a value of its JSON. */
export type Scalar = PyValue | Json;

const MAX_NAMES = 30;
const MAX_ECHO = 40;

export function readCommand(text: string, specs: readonly ActionSpec[]): ReadAction {
  const document = readDocument(text.trim(), specs);
  if (document !== undefined) return document;
  const [name, ...words] = text.split(/[\s,()[\]'"`]+/).filter((word) => word !== "");
  if (name === undefined) return { ok: false, problem: `The action is empty. ${namesSentence(specs)}` };
  return readCall(name, words, specs);
}

/** A command that is a document, with or without its action's name; undefined when no action takes one. */
function readDocument(text: string, specs: readonly ActionSpec[]): ReadAction | undefined {
  const bare = documentOf(text, specs);
  if (bare !== undefined) return fill(bare, [text]);
  const [name = ""] = text.split(/\s/, 1);
  const spec = specs[matchWord(name, namesOf(specs))];
  return spec?.arg.type === "text" ? fill(spec, [text.slice(name.length).trim()]) : undefined;
}

/** Whether a document may stand in a reply, whose commas then separate nothing. */
export function takesDocument(specs: readonly ActionSpec[]): boolean {
  return specs.some((spec) => spec.arg.type === "text" && spec.arg.opening !== undefined);
}

/** The commands of a list. A text without an opening takes all that follows its action's name. */
export function joinText(commands: readonly string[], separator: string, specs: readonly ActionSpec[]): string[] {
  const isText = (command: string) => {
    const [name = ""] = command.trim().split(/\s/, 1);
    return specs[matchWord(name, namesOf(specs))]?.arg.type === "text";
  };
  const first = commands.findIndex(isText);
  return first < 0 ? [...commands] : [...commands.slice(0, first), commands.slice(first).join(separator)];
}

function namesOf(specs: readonly ActionSpec[]): string[] {
  return specs.map((spec) => spec.name);
}

/** The action that a name and its single values mean. Names and labels match in any case. */
export function readCall(name: string, scalars: readonly Scalar[], specs: readonly ActionSpec[]): ReadAction {
  const spec = specs[matchWord(name, namesOf(specs))];
  if (spec !== undefined) return fill(spec, scalars);
  if (scalars.length === 0) {
    for (const candidate of specs) {
      if (matchWord(name, shorthandLabels(candidate)) >= 0) return fill(candidate, [name]);
    }
  }
  return { ok: false, problem: unknownAction(name, specs, commandWords(specs)) };
}

function fill(spec: ActionSpec, scalars: readonly Scalar[]): ReadAction {
  if (spec.arg.type === "word") {
    // `stop stop` is what the tuple form says; any other word might be a second action that was not meant to be lost.
    const [word, ...more] = scalars;
    const fits = word === undefined || (more.length === 0 && (word === spec.example || matchesName(word, spec)));
    if (fits) return { ok: true, action: { name: spec.name, payload: spec.example } };
    return { ok: false, problem: `'${spec.name}' takes no argument: write ${spec.name} alone.` };
  }
  const wanted = scalarCount(spec.arg);
  const example = actionText({ name: spec.name, payload: spec.example }, spec, false);
  if (scalars.length !== wanted) {
    const values = wanted === 1 ? "1 value" : `${wanted} values`;
    const problem = `'${spec.name}' takes ${values} (${describeArg(spec.arg)}), for example: ${example}.`;
    return { ok: false, problem };
  }
  const accepted = acceptAction(spec, assemble(spec.arg, [...scalars]));
  if (accepted.ok) return { ok: true, action: { name: spec.name, payload: accepted.payload } };
  return { ok: false, problem: misfitSentence(spec, accepted.problem, example) };
}

function matchesName(word: Scalar, spec: ActionSpec): boolean {
  return typeof word === "string" && word.toLowerCase() === spec.name.toLowerCase();
}

export function scalarCount(arg: ArgSpec): number {
  if (arg.type === "permutation") return arg.size;
  if (arg.type !== "tuple" && arg.type !== "list") return 1;
  return arg.items.reduce((sum, item) => sum + scalarCount(item), 0);
}

/** Flat values in the shape of `arg`. Takes what it needs from the front of `queue`. */
function assemble(arg: ArgSpec, queue: Scalar[]): PyValue {
  switch (arg.type) {
    case "tuple":
    case "list":
      return arg.items.map((item) => assemble(item, queue));
    case "permutation":
      return queue.splice(0, arg.size).map(numberOf);
    case "text":
    case "word":
      return queue.shift() as PyValue;
    case "int": {
      const value = queue.shift() as Scalar;
      const label = typeof value === "string" ? matchWord(value, arg.labels ?? []) : -1;
      return label >= 0 ? arg.min + label : numberOf(value);
    }
    case "real":
      return numberOf(queue.shift() as Scalar);
  }
}

/** A word that reads as a number is that number. */
function numberOf(value: Scalar): PyValue {
  if (typeof value !== "string") return value as PyValue;
  const read = parseLiteral(value);
  return typeof read === "number" || read instanceof PyFloat ? read : value;
}

/** Index of the word, exactly or else in any case; -1 when it is not there. */
export function matchWord(word: string, words: readonly string[]): number {
  const exact = words.indexOf(word);
  if (exact >= 0) return exact;
  const lower = word.toLowerCase();
  return words.findIndex((candidate) => candidate.toLowerCase() === lower);
}

/** Every word that can stand for an action or begin one: labels that stand alone, then names. */
export function commandWords(specs: readonly ActionSpec[]): string[] {
  return specs.flatMap((spec) => {
    const labels = shorthandLabels(spec);
    return labels.length > 0 ? labels : [spec.name];
  });
}

/** The action as a command that `readCommand` reads back, even where a label is also the name of an action. */
export function commandText(action: Action, specs: readonly ActionSpec[]): string {
  const spec = specOf(action, specs);
  const short = actionText(action, spec);
  const read = readCommand(short, specs);
  return read.ok && read.action.name === action.name ? short : actionText(action, spec, false);
}

/** The spec of an action that a world or an author hands over; a misfit there is a bug, not a reply. */
export function specOf(action: Action, specs: readonly ActionSpec[]): ActionSpec {
  const spec = specs.find((candidate) => candidate.name === action.name);
  if (spec === undefined) {
    throw new EnvError(`The world has no action '${action.name}'; it lists ${specs.map((s) => s.name).join(", ")}.`);
  }
  const accepted = acceptAction(spec, action.payload);
  if (!accepted.ok) {
    const given = JSON.stringify(action.payload);
    throw new EnvError(`'${action.name}' was given ${given}, but ${accepted.problem}. Fix the action or its ArgSpec.`);
  }
  return spec;
}

/** Throws where a caller asks for more than a reply can hold. */
export function checkCount(protocol: string, actions: readonly Action[], most: number): void {
  if (actions.length <= most) return;
  throw new EnvError(
    `A "${protocol}" reply holds at most ${most} actions, got ${actions.length}: print fewer at a time.`,
  );
}

/** The author's example of each action. */
export function exampleAction(spec: ActionSpec): Action {
  return { name: spec.name, payload: spec.example };
}

/** One or two actions for the examples of a prompt: the first, and the last, which is often `stop`. */
export function exampleActions(specs: readonly ActionSpec[]): Action[] {
  return (specs.length > 1 ? [specs[0], specs.at(-1)] : specs).map((spec) => exampleAction(spec as ActionSpec));
}

// Sentences for the model.

export function namesSentence(specs: readonly ActionSpec[], words: readonly string[] = commandWords(specs)): string {
  const shown = words.slice(0, MAX_NAMES);
  return `The actions are ${shown.join(", ")}${words.length > shown.length ? ", …" : ""}.`;
}

export function unknownAction(name: string, specs: readonly ActionSpec[], words: readonly string[]): string {
  // The model's text goes into the next prompt only where it is a plain word.
  const plain = name.length <= MAX_ECHO && /^[\p{L}\p{N}_.-]+$/u.test(name);
  const close = plain ? closestWord(name, words) : undefined;
  const hint = close === undefined ? "." : `; did you mean '${close}'?`;
  return `${plain ? `There is no action '${name}'` : "There is no such action"}${hint} ${namesSentence(specs, words)}`;
}

export function misfitSentence(spec: ActionSpec, problem: string, example: string): string {
  return `The argument of '${spec.name}' does not fit: ${problem}, for example: ${example}.`;
}

export function tooManyActions(limit: number): string {
  return `Only the first ${limit} actions count: write at most ${limit} in one reply.`;
}

// Actions in a prompt.

/** `- move block direction: slide a block (block: …; direction: …)`, one line an action. */
export function commandList(specs: readonly ActionSpec[]): string {
  return specs.map((spec) => `- ${usage(spec)}: ${spec.description}${argNote(spec)}`).join("\n");
}

function usage(spec: ActionSpec): string {
  const labels = shorthandLabels(spec);
  if (labels.length > 0) return labels.join(", ");
  if (spec.arg.type === "word") return spec.name;
  const names = leavesOf(spec.arg).map(({ name, leaf }) => (leaf.type === "permutation" ? `${name} …` : name));
  return [spec.name, ...names].join(" ");
}

function argNote(spec: ActionSpec): string {
  return spec.arg.type === "word" || shorthandLabels(spec).length > 0 ? "" : ` (${describeArg(spec.arg)})`;
}

/** For one-line prompts: "one of left right stop", or examples where actions have arguments. */
export function commandChoices(specs: readonly ActionSpec[]): string {
  const wordsOnly = specs.every((spec) => spec.arg.type === "word" || shorthandLabels(spec).length > 0);
  if (wordsOnly) return `one of ${commandWords(specs).join(" ")}`;
  return `like ${specs.map((spec) => commandText(exampleAction(spec), specs)).join(" or ")}`;
}
