/**
 * The contract of a world: a simulator with typed actions that knows nothing of prompts or reply formats.
 * Write one of these and every protocol, trainer, evaluator and viewer works with it. Every member may answer at once or
 * with a promise, so a simulator may live in another process.
 */
import type { Image } from "../core/image.ts";
import type { Awaitable, Json } from "../core/json.ts";
import type { Part } from "../core/message.ts";
import type { Action, ActionSpec } from "./action.ts";

/** What an action did. A world pays reward on the action that earns it and says when the episode has ended. */
export type Outcome = {
  /** Executed without complaint. An action that changed nothing (a wall, an illegal move) is not valid. */
  readonly valid: boolean;
  /** One sentence for the agent; absent when there is nothing to say. */
  readonly feedback?: string;
  readonly reward: number;
  readonly ended: boolean;
  /** How it ended, in a few words for lists of episodes: "fell into a hole". Absent: what `feedback` says. */
  readonly ending?: string;
  /** Where on the frame it happened, for viewers. */
  readonly mark?: Mark;
};

/** An action on the frame that was seen before it. Lengths are fractions of the frame's width and height. */
export type Mark = {
  readonly action: string;
  readonly x?: number;
  readonly y?: number;
  /** Where a drag ended. */
  readonly to?: readonly [x: number, y: number];
  /** What was typed, or the key. */
  readonly text?: string;
  /** What was hit: `button "Log in"`, and its place. */
  readonly element?: string;
  readonly box?: readonly [x: number, y: number, width: number, height: number];
};

/** What the agent sees: an image, a text, or parts in the order they are to be shown. */
export type Observation = Image | string | readonly Part[];
export type ObservationMode = "image" | "text";

/** `full` explains everything to a large model; `brief` is a line for a small one. */
export type PromptStyle = "full" | "brief";

/** A ground-truth relation between two things in view, for world-model rewards: `box` is `above`, `left` of `player`. */
export type Fact = { readonly subject: string; readonly relations: readonly string[]; readonly object: string };

export interface World<A extends Action = Action> {
  readonly actions: readonly ActionSpec[];
  /** Decides the episode, whatever ran before. */
  reset(seed: number): Awaitable<void>;
  /** Plays one action that fits `actions`. */
  act(action: A): Awaitable<Outcome>;
  observe(mode: ObservationMode): Awaitable<Observation>;
  /** This episode's instruction, free of reply format. `mode` is how the agent will see it. */
  task(style: PromptStyle, mode: ObservationMode): Awaitable<string>;
  /** Whether the task is solved in the state it is in. */
  success(): Awaitable<boolean>;
  /** A plan from the current state towards success (asked for again every turn); empty when there is none. */
  solve?(): Awaitable<readonly A[]>;
  /** What is true now. */
  facts?(): Awaitable<readonly Fact[]>;
  /** The exact episode state, as JSON; `load(save())` gives the same future. */
  save?(): Awaitable<Json>;
  load?(state: Json): Awaitable<void>;
  close?(): Awaitable<void>;
}
