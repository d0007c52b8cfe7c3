/**
 * `tool-call`: actions as JSON calls, `<tool_call>{"name": "move", "arguments": {"direction": "right"}}</tool_call>`.
 * OpenAI's `{"function": {…}}` is read too, and arguments may be an object by name, a list in order, or either as a JSON
 * string, and a code fence inside the tag is taken off. The last call counts; with `maxActions` above 1 every call does, in order.
 * `form: "qwen"` makes the actions known as Qwen's chat templates make tools known, and what is seen next the answer of the call.
 */
import { z } from "zod";
import { isJsonObject, type Json, type JsonObject } from "../../core/json.ts";
import type { Part } from "../../core/message.ts";
import type { Action, ActionSpec, ArgSpec } from "../action.ts";
import { type ArgLeaf, acceptAction, describeArg, labelOf, leavesOf } from "../args.ts";
import type { ParsedReply, Protocol } from "../protocol.ts";
import type { PromptStyle } from "../world.ts";
import {
  checkCount,
  exampleAction,
  exampleActions,
  matchWord,
  namesSentence,
  type ReadAction,
  readCall,
  specOf,
  unknownAction,
} from "./command.ts";
import { COMPUTER_USE, computerArgs, computerTool, readComputerCall } from "./computer-use.ts";
import { maxActionsOption, readOptions } from "./options.ts";
import { parseTagged } from "./tagged.ts";
import { wrap } from "./tags.ts";
import {
  qwenTools,
  readCall as readJsonCall,
  resultParts,
  CALL_TAG as TAG,
  TOOL_FORMS,
  type ToolText,
  writeCall,
} from "./tool-text.ts";

export const toolCallOptions = z.strictObject({
  maxActions: maxActionsOption.default(1).describe("Maximum number of calls in a reply."),
  form: z
    .enum([...TOOL_FORMS, "computer_use"])
    .default("tags")
    .describe(
      "How calls are written: `tags`, the form of Qwen's templates (`qwen`), or on pages its one tool `computer_use`.",
    ),
});

const NAMES = [TAG, "think"];
/** Payloads nest two or three deep. */
const DEEPEST_LIST = 8;

export function makeToolCall(options: unknown): Protocol {
  const { maxActions, form: shape } = readOptions("tool-call", toolCallOptions, options);

  function parse(reply: string, specs: readonly ActionSpec[]): ParsedReply {
    return parseTagged(reply, {
      tag: TAG,
      pick: "last",
      maxActions,
      read: (text) => (shape === "computer_use" ? readComputer(text, specs) : readToolCall(text, specs)),
      untagged: (sections) => {
        const problem = `No action was found in the reply. Write it as ${form(specs)}. ${namesOf(specs)}`;
        return { actions: [], wellFormed: false, problem, sections };
      },
    });
  }

  function print(actions: readonly Action[], specs: readonly ActionSpec[], sections: Record<string, string> = {}) {
    checkCount("tool-call", actions, maxActions);
    const think = sections.think === undefined ? "" : wrap("think", sections.think, NAMES);
    const calls = actions.map((action) =>
      shape === "computer_use"
        ? writeCall(COMPUTER_USE, computerArgs(action), "qwen")
        : shape === "qwen"
          ? writeCall(action.name, namedValues(action, specs), shape)
          : `<${TAG}>${callText(action, specs)}</${TAG}>`,
    );
    return think + calls.join("\n");
  }

  function instruction(specs: readonly ActionSpec[], style: PromptStyle): string {
    if (shape !== "tags") return maxActions > 1 ? `Call up to ${maxActions} functions.` : "Call one function.";
    if (style === "brief") {
      const calls = specs.map((spec) => callText(exampleAction(spec), specs)).join(" or ");
      return `Answer <${TAG}>X</${TAG}>, X like ${calls}.${maxActions > 1 ? ` Up to ${maxActions} times.` : ""}`;
    }
    const list = specs.map((spec) => `- ${spec.name}: ${spec.description} (${describeCall(spec.arg)})`);
    const ask =
      maxActions > 1
        ? `Write up to ${maxActions} calls, each in its own <${TAG}> tag; they are played in order.`
        : `Write one call in a <${TAG}> tag. If there are several, only the last counts.`;
    const examples = exampleActions(specs).map((action) => print([action], specs));
    return (
      `Actions you can call, with their arguments:\n${list.join("\n")}\n\n` +
      `${ask} A call is a JSON object with "name" and "arguments". For example: ${examples.join(" or ")}`
    );
  }

  return {
    name: "tool-call",
    maxActions,
    formatReward: { kind: "none" },
    instruction,
    parse,
    print,
    ...(shape !== "tags" && {
      system: (specs: readonly ActionSpec[]) =>
        qwenTools(shape === "computer_use" ? [computerTool(specs)] : specs.map(toolOf)),
      answer: (parts: readonly Part[]) => resultParts([parts], "qwen"),
    }),
  };
}

/** An action as the JSON Schema of a tool. */
function toolOf({ name, description, arg }: ActionSpec): ToolText {
  const leaves = arg.type === "word" ? [] : leavesOf(arg);
  const properties = Object.fromEntries(leaves.map(({ name: key, leaf }) => [key, schemaOf(leaf)]));
  return { name, description, parameters: { type: "object", properties, required: leaves.map((leaf) => leaf.name) } };
}

function schemaOf(leaf: ArgLeaf): JsonObject {
  const description = describeArg(leaf);
  if (leaf.type === "int" && leaf.labels !== undefined) return { enum: leaf.labels, description };
  if (leaf.type === "permutation") return { type: "array", items: { type: "integer" }, description };
  return { type: leaf.type === "int" ? "integer" : leaf.type === "real" ? "number" : "string", description };
}

function describeCall(arg: ArgSpec): string {
  return arg.type === "word" ? "no arguments" : describeArg(arg);
}

function form(specs: readonly ActionSpec[]): string {
  return `<${TAG}>${exampleCall(specs[0])}</${TAG}>`;
}

/** For answers to a reply, which never throw, even where the author's example does not fit. */
function exampleCall(spec: ActionSpec | undefined): string {
  const fits = spec !== undefined && acceptAction(spec, spec.example).ok;
  return fits ? callText(exampleAction(spec), [spec]) : '{"name": …, "arguments": {…}}';
}

function namesOf(specs: readonly ActionSpec[]): string {
  return namesSentence(
    specs,
    specs.map((spec) => spec.name),
  );
}

function callText(action: Action, specs: readonly ActionSpec[]): string {
  return JSON.stringify({ name: action.name, arguments: namedValues(action, specs) });
}

function namedValues(action: Action, specs: readonly ActionSpec[]): JsonObject {
  const { arg } = specOf(action, specs);
  const values = arg.type === "word" ? [] : leafValues(arg, action.payload);
  const named = values.map((value, index) => {
    const { name, leaf } = leavesOf(arg)[index] as ReturnType<typeof leavesOf>[number];
    return [name, labelOf(leaf, value) ?? value];
  });
  return Object.fromEntries(named) as JsonObject;
}

/** The payload's values in the order of `leavesOf`. */
function leafValues(arg: ArgSpec, payload: Json): Json[] {
  if (arg.type !== "tuple" && arg.type !== "list") return [payload];
  const values = payload as readonly Json[];
  return arg.items.flatMap((item, index) => leafValues(item, values[index] ?? null));
}

function readComputer(text: string, specs: readonly ActionSpec[]): ReadAction {
  const call = readJsonCall(text);
  const example = writeCall(COMPUTER_USE, computerArgs(exampleAction(specs[0] as ActionSpec)), "tags");
  if (!call.ok) return { ok: false, problem: `${call.problem} Write it as ${example}.` };
  if (call.name !== COMPUTER_USE) return { ok: false, problem: `The function is ${COMPUTER_USE}, as in ${example}.` };
  return readComputerCall(call.args, specs);
}

function readToolCall(text: string, specs: readonly ActionSpec[]): ReadAction {
  const call = readJsonCall(text);
  if (!call.ok) return { ok: false, problem: `${call.problem} Write it as ${form(specs)}.` };
  const { name, args } = call;
  const names = specs.map((candidate) => candidate.name);
  const spec = specs[matchWord(name, names)];
  const scalars = isJsonObject(args) ? valuesByName(spec, args) : scalarsOf(args);
  // Without a spec, the name may still be a label that is a command by itself: `left`.
  const read = scalars === undefined ? undefined : readCall(name, scalars, specs);
  if (read?.ok) return read;
  if (spec === undefined) return { ok: false, problem: unknownAction(name, specs, names) };
  const problem = `The arguments of '${spec.name}' do not fit (${describeCall(spec.arg)}). For example: ${exampleCall(spec)}.`;
  return { ok: false, problem };
}

/** The values in the order of the action's arguments; undefined when one is missing or unknown. */
function valuesByName(spec: ActionSpec | undefined, args: JsonObject): Json[] | undefined {
  const leaves = spec === undefined || spec.arg.type === "word" ? [] : leavesOf(spec.arg);
  const named = leaves.every(({ name }) => Object.hasOwn(args, name)) && Object.keys(args).length === leaves.length;
  return named ? leaves.flatMap(({ name }) => scalarsOf(args[name])) : undefined;
}

/** Single values of a list, however nested; a lone value is a list of one. */
function scalarsOf(value: Json | undefined, depth = 0): Json[] {
  if (value === undefined || (value === null && depth === 0)) return [];
  if (!Array.isArray(value) || depth >= DEEPEST_LIST) return [value as Json];
  return value.flatMap((item) => scalarsOf(item, depth + 1));
}
