/**
 * Actions and what they may carry. A world lists `ActionSpec`s; a protocol prints them into the prompt, reads
 * replies against them and hands the world only actions that fit. The payload rules are those of VisGym's spaces
 * (`spec` words in brackets): whole numbers in a range [Discrete], reals in bounds [Box], fixed lists [MultiDiscrete],
 * permutations [Permutation] and a bare word for actions without an argument [Text].
 */
import type { Json } from "../core/json.ts";

export type Action = { readonly name: string; readonly payload: Json };

export type ArgSpec =
  /** A whole number in `min..max`; `labels[i]` is a word for `min + i`. */
  | {
      readonly type: "int";
      readonly name: string;
      readonly min: number;
      readonly max: number;
      readonly labels?: readonly string[];
    }
  /** A finite real within bounds (absent: unbounded). `whole`: only its integer part is checked and used. */
  | {
      readonly type: "real";
      readonly name: string;
      readonly min?: number;
      readonly max?: number;
      readonly whole?: boolean;
    }
  /** A fixed number of arguments. `tuple` and `list` differ only in how they are printed. */
  | { readonly type: "tuple" | "list"; readonly items: readonly ArgSpec[] }
  /** Every number `start..start+size-1` once. */
  | { readonly type: "permutation"; readonly name: string; readonly size: number; readonly start: number }
  /**
   * A text, which takes the rest of the command, spaces, commas and all. A document begins with `opening`, and by that it is known
   * where the action's name is left out; without one the name is needed. `samples` are what a random agent draws from.
   */
  | {
      readonly type: "text";
      readonly name: string;
      readonly opening?: string;
      readonly maxLength: number;
      readonly samples: readonly string[];
    }
  /** No argument: tuples carry a word of letters and digits there (`('stop', 'stop')`), other protocols nothing. */
  | { readonly type: "word"; readonly maxLength: number };

export type ActionSpec = {
  readonly name: string;
  /** What it does, as a phrase that can follow a colon: "move one cell". */
  readonly description: string;
  readonly arg: ArgSpec;
  /** A payload that makes sense, for the examples in a prompt. */
  readonly example: Json;
  /** The labels of its one argument are commands by themselves: `left` for `move left`. */
  readonly shorthand?: boolean;
  /** Playing it always ends the episode, as `stop` and a final answer do: noise in demonstrations leaves it out. */
  readonly ends?: boolean;
  /** How often a random agent plays it, compared with the others; absent: as often as it has different payloads. */
  readonly weight?: number;
};

/** An action without an argument, such as `stop`. */
export function bare(name: string, description: string, maxLength = 32): ActionSpec {
  return { name, description, arg: { type: "word", maxLength }, example: name };
}

/** `stop`, by which an agent ends the episode. */
export function stopAction(description: string): ActionSpec {
  return { ...bare("stop", description, 4), ends: true };
}

/** The action as `makeWorld` users write it: `act("left")`, `act("move", 0)`. */
export function act(name: string, payload: Json = name): Action {
  return { name, payload };
}
