/**
 * Arguments of actions: which payloads fit, how to draw one at random, and how to say them to a person or a model.
 * The membership rules are those of VisGym's spaces, with the cases that crash there decided: floats never fit a whole
 * number (not even `1.0`), True and False count as 1 and 0 as in Python, lists and tuples are the same on input, and a
 * payload that fits comes out as plain JSON, so worlds never see a NaN, a negative zero or a ragged array.
 */
import { EnvError } from "../core/errors.ts";
import type { Json } from "../core/json.ts";
import type { Action, ActionSpec, ArgSpec } from "./action.ts";
import { PyFloat, PyTuple, type PyValue, printReal } from "./python.ts";

export type Accepted = { readonly ok: true; readonly payload: Json } | { readonly ok: false; readonly problem: string };
export type ArgLeaf = Exclude<ArgSpec, { readonly type: "tuple" | "list" }>;
type Loose = PyValue | Json | undefined;

/** The payload as a world gets it, or a clause that says what fits ("direction must be …"). */
export function acceptPayload(arg: ArgSpec, value: PyValue | Json): Accepted {
  return accept(arg, value);
}

/** `acceptPayload`, but the word an author chose for an action without argument fits whatever its letters are. */
export function acceptAction(spec: ActionSpec, value: PyValue | Json): Accepted {
  if (spec.arg.type === "word" && value === spec.example && typeof value === "string") {
    return { ok: true, payload: value };
  }
  return accept(spec.arg, value);
}

function accept(arg: ArgSpec, value: Loose): Accepted {
  switch (arg.type) {
    case "int": {
      const whole = wholeNumber(value);
      const fits = whole !== undefined && whole >= arg.min && whole <= arg.max;
      return fits ? { ok: true, payload: whole } : misfit(arg);
    }
    case "real": {
      const real = realNumber(value);
      if (real === undefined || !Number.isFinite(real)) return misfit(arg);
      const used = (arg.whole ? Math.trunc(real) : real) + 0; // + 0 turns -0 into 0
      const fits = used >= (arg.min ?? -Infinity) && used <= (arg.max ?? Infinity);
      return fits ? { ok: true, payload: used } : misfit(arg);
    }
    case "text":
      return typeof value === "string" && value.length <= arg.maxLength && opens(value, arg)
        ? { ok: true, payload: value.trim() }
        : misfit(arg);
    case "word":
      return typeof value === "string" && value.length <= arg.maxLength && /^[A-Za-z0-9]+$/.test(value)
        ? { ok: true, payload: value }
        : misfit(arg);
    case "permutation": {
      const items = elements(value);
      if (items?.length !== arg.size) return misfit(arg);
      const numbers = items.map(wholeNumber);
      const seen = new Set(numbers);
      for (let i = 0; i < arg.size; i++) if (!seen.has(arg.start + i)) return misfit(arg);
      return { ok: true, payload: numbers as number[] };
    }
    case "tuple":
    case "list": {
      const items = elements(value);
      if (items?.length !== arg.items.length) {
        const names = leavesOf(arg).map((leaf) => leaf.name);
        const shape = arg.items.some((item) => "items" in item) ? "nested as in the example" : `(${names.join(", ")})`;
        return { ok: false, problem: `the argument must hold ${arg.items.length} values, ${shape}` };
      }
      const payload: Json[] = [];
      for (const [index, item] of arg.items.entries()) {
        const accepted = accept(item, items[index]);
        if (!accepted.ok) return accepted;
        payload.push(accepted.payload);
      }
      return { ok: true, payload };
    }
  }
}

type TextArg = Extract<ArgSpec, { readonly type: "text" }>;

function opens(value: string, { opening }: TextArg): boolean {
  if (opening === undefined) return true;
  return value.trimStart().slice(0, opening.length).toLowerCase() === opening.toLowerCase();
}

/** The action whose document this text is, where its name was left out. */
export function documentOf(text: string, specs: readonly ActionSpec[]): ActionSpec | undefined {
  return specs.find(({ arg }) => arg.type === "text" && arg.opening !== undefined && opens(text, arg));
}

function misfit(leaf: ArgLeaf): Accepted {
  return { ok: false, problem: `${leaf.type === "word" ? "the argument" : leaf.name} must be ${rangeText(leaf)}` };
}

function wholeNumber(value: Loose): number | undefined {
  if (typeof value === "boolean") return Number(value);
  return typeof value === "number" && Number.isSafeInteger(value) ? value + 0 : undefined;
}

function realNumber(value: Loose): number | undefined {
  if (value instanceof PyFloat) return value.value;
  // numpy reads numbers in quotes.
  if (typeof value === "string" && /^[+-]?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?$/i.test(value.trim())) return Number(value);
  return typeof value === "number" ? value : typeof value === "boolean" ? Number(value) : undefined;
}

function elements(value: Loose): readonly Loose[] | undefined {
  if (value instanceof PyTuple) return value.items;
  return Array.isArray(value) ? (value as readonly Loose[]) : undefined;
}

/** The single arguments of `arg` in order, each with a name of its own: of two `row`s the second is `row_2`. */
export function leavesOf(arg: ArgSpec): readonly { readonly name: string; readonly leaf: ArgLeaf }[] {
  const leaves: { name: string; leaf: ArgLeaf }[] = [];
  const taken = new Set<string>();
  const visit = (part: ArgSpec): void => {
    if ("items" in part) {
      for (const item of part.items) visit(item);
      return;
    }
    const base = part.type === "word" ? "word" : part.name;
    let name = base;
    for (let n = 2; taken.has(name); n++) name = `${base}_${n}`;
    taken.add(name);
    leaves.push({ name, leaf: part });
  };
  visit(arg);
  return leaves;
}

/** What a single argument may be: "a whole number from 0 to 10". */
function rangeText(leaf: ArgLeaf): string {
  switch (leaf.type) {
    case "int": {
      if (leaf.labels?.length === leaf.max - leaf.min + 1) {
        const choices = leaf.labels.map((label, index) => `${leaf.min + index} (${label})`);
        return choices.length === 1 ? `${choices[0]}` : `${choices.slice(0, -1).join(", ")} or ${choices.at(-1)}`;
      }
      return leaf.min === leaf.max ? `${leaf.min}` : `a whole number from ${leaf.min} to ${leaf.max}`;
    }
    case "real": {
      const kind = leaf.whole ? "whole number" : "number";
      if (leaf.min !== undefined && leaf.max !== undefined) return `a ${kind} from ${leaf.min} to ${leaf.max}`;
      if (leaf.min !== undefined) return `a ${kind} of at least ${leaf.min}`;
      return leaf.max !== undefined ? `a ${kind} of at most ${leaf.max}` : `any ${kind}`;
    }
    case "permutation":
      return `the numbers ${leaf.start} to ${leaf.start + leaf.size - 1}, each once, in any order`;
    case "text":
      return `a text of at most ${leaf.maxLength} characters${leaf.opening === undefined ? "" : ` that begins with ${leaf.opening}`}`;
    case "word":
      return `a word of at most ${leaf.maxLength} letters and digits`;
  }
}

/** What the argument may be, for prompts: "block: a whole number from 0 to 10; direction: 0 (up) or 1 (down)". */
export function describeArg(arg: ArgSpec): string {
  if (arg.type === "word") return "no argument";
  return leavesOf(arg)
    .map(({ name, leaf }) => `${name}: ${rangeText(leaf)}`)
    .join("; ");
}

/**
 * The action as a command: `left`, `move 7 right`, `place 0 2 3`, `stop`. Labels stand for their numbers.
 * `short: false` keeps the name before a label that could stand alone.
 */
export function actionText(action: Action, spec: ActionSpec, short: boolean = spec.shorthand === true): string {
  if (spec.arg.type === "word") return action.name;
  if (spec.arg.type === "text") return short ? String(action.payload) : `${action.name} ${action.payload}`;
  const words = argWords(spec.arg, action.payload);
  if (short && shorthandLabels(spec).includes(words[0] ?? "")) return words[0] as string;
  return [action.name, ...words].join(" ");
}

/** Whole numbers with at most so many values have a command each. */
const MAX_COMMANDS = 12;

/** The commands of an action that need no typing: for keys and buttons. */
export function commandsOf(spec: ActionSpec): string[] {
  const { name, arg } = spec;
  if (arg.type === "word") return [name];
  const labels = shorthandLabels(spec);
  if (labels.length > 0) return [...labels];
  if (arg.type !== "int" || arg.max - arg.min >= MAX_COMMANDS) return [];
  return Array.from({ length: arg.max - arg.min + 1 }, (_, i) => actionText({ name, payload: arg.min + i }, spec));
}

/** Labels that are commands by themselves. */
export function shorthandLabels(spec: ActionSpec): readonly string[] {
  const labels = spec.shorthand && spec.arg.type === "int" ? (spec.arg.labels ?? []) : [];
  return labels.every(isWord) ? labels : [];
}

/** Only a plain word can be told from numbers, separators and brackets. */
function isWord(label: string): boolean {
  return /^[\p{L}_][\p{L}\p{N}_-]*$/u.test(label);
}

function argWords(arg: ArgSpec, payload: Json): string[] {
  if (arg.type === "int") {
    const label = labelOf(arg, payload);
    return [label !== undefined && isWord(label) ? label : String(payload)];
  }
  if (arg.type === "real") return [printReal(Number(payload))];
  if (!Array.isArray(payload)) return [String(payload)];
  if (arg.type !== "tuple" && arg.type !== "list") return payload.map(String);
  return arg.items.flatMap((item, index) => argWords(item, payload[index] ?? null));
}

/** The label of a value of a labelled whole number; none where an earlier value has the same label. */
export function labelOf(leaf: ArgLeaf, value: Json): string | undefined {
  if (leaf.type !== "int" || typeof value !== "number") return undefined;
  const label = leaf.labels?.[value - leaf.min];
  return label !== undefined && leaf.labels?.indexOf(label) === value - leaf.min ? label : undefined;
}

/** `integers(low, high)` draws a whole number in `low..high-1`, `random()` a real in [0, 1). */
export type Draws = { integers(low: number, high: number): number; random(): number };

/** An action drawn evenly from all that can be done: `move` in four directions and `stop` are five choices. */
export function sampleAction(specs: readonly ActionSpec[], rng: Draws): Action {
  const total = specs.reduce((sum, spec) => sum + share(spec), 0);
  if (total === 0) throw new EnvError("There is no action to draw from.");
  let drawn = total <= 2 ** 32 ? rng.integers(0, total) : rng.random() * total;
  let spec = specs[0] as ActionSpec;
  for (spec of specs) {
    drawn -= share(spec);
    if (drawn < 0) break;
  }
  return { name: spec.name, payload: spec.arg.type === "word" ? spec.example : samplePayload(spec.arg, rng) };
}

const share = (spec: ActionSpec): number => spec.weight ?? choices(spec.arg);

/** How many payloads `samplePayload` can give. */
function choices(arg: ArgSpec): number {
  switch (arg.type) {
    case "int":
      return arg.max - arg.min + 1;
    case "real": {
      const { low, high, digits } = realGrid(arg);
      return arg.whole ? Math.floor(high) - Math.ceil(low) + 1 : Math.round((high - low) * digits) + 1;
    }
    case "text":
      return arg.samples.length;
    case "word":
      return 1;
    case "permutation":
      return Array.from({ length: arg.size }, (_, i) => i + 1).reduce((product, n) => product * n, 1);
    case "tuple":
    case "list":
      return arg.items.reduce((product, item) => product * choices(item), 1);
  }
}

function samplePayload(arg: ArgSpec, rng: Draws): Json {
  switch (arg.type) {
    case "int":
      return rng.integers(arg.min, arg.max + 1);
    case "real":
      return sampleReal(arg, rng);
    case "text":
      return arg.samples[rng.integers(0, arg.samples.length)] ?? arg.opening ?? "";
    case "word":
      return "x";
    case "permutation": {
      const order = Array.from({ length: arg.size }, (_, index) => arg.start + index);
      for (let i = order.length - 1; i > 0; i--) {
        const j = rng.integers(0, i + 1);
        [order[i], order[j]] = [order[j] as number, order[i] as number];
      }
      return order;
    }
    case "tuple":
    case "list":
      return arg.items.map((item) => samplePayload(item, rng));
  }
}

type RealArg = Extract<ArgSpec, { readonly type: "real" }>;

/** An open side lies 20 from the other, or at ±10. One decimal then, three within bounds: numbers a person would write. */
function realGrid(arg: RealArg): { readonly low: number; readonly high: number; readonly digits: number } {
  const low = arg.min ?? (arg.max === undefined ? -10 : arg.max - 20);
  const high = arg.max ?? low + 20;
  return { low, high, digits: arg.min === undefined || arg.max === undefined ? 10 : 1000 };
}

function sampleReal(arg: RealArg, rng: Draws): number {
  const { low, high, digits } = realGrid(arg);
  if (arg.whole) return rng.integers(Math.ceil(low), Math.floor(high) + 1);
  const drawn = Math.round((low + rng.random() * (high - low)) * digits) / digits;
  return Math.min(high, Math.max(low, drawn)) + 0;
}
