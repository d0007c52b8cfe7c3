/**
 * The contract of a protocol: how a model communicates with a world. A protocol describes the reply format in the prompt, parses
 * replies into actions, prints actions as replies (for oracles and demonstrations), and sets the reward for a well-formed reply.
 * It never throws on a reply.
 */
import type { Part } from "../core/message.ts";
import type { Action, ActionSpec } from "./action.ts";
import type { PromptStyle } from "./world.ts";
import type { Form } from "./world-model/speak.ts";

/** [start, end) in UTF-16 units of the reply. */
export type Span = readonly [start: number, end: number];

/** The content of a tag, without the white space around it. */
export type Section = { readonly text: string; readonly span: Span };

export type ParsedReply = {
  /** Actions that match the world's specs, in order; empty if none could be read. */
  readonly actions: readonly Action[];
  /** Whether the reply has the format that the protocol asks for; the format reward pays for it. */
  readonly wellFormed: boolean;
  /** If an action could not be read: one sentence that tells the model what to write instead. */
  readonly problem?: string;
  /** The tags that were found (`think`, `observation`, `prediction`, …), with their places. */
  readonly sections: Readonly<Record<string, Section>>;
  /** The part of the reply that names the actions, for viewers. */
  readonly span?: Span;
};

/**
 * How the format is rewarded.
 * `none`: only the task's reward. `mixture`: at the end of the episode, `task`·reward + `format`·share of well-formed turns
 * (VisGym under SkyRL: 0.8 and 0.2). `bonus`: an extra reward for every well-formed turn in which an action was played (VAGEN).
 */
export type FormatReward =
  | { readonly kind: "none" }
  | { readonly kind: "mixture"; readonly task: number; readonly format: number }
  | { readonly kind: "bonus"; readonly bonus: number };

export interface Protocol {
  readonly name: string;
  /** Maximum number of actions in a reply. */
  readonly maxActions: number;
  readonly formatReward: FormatReward;
  /** Tags in which the model describes what it sees, where it goes and what it expects (`observation`, `justification`, `prediction`). An oracle fills them with true descriptions. */
  readonly says?: readonly string[];
  /** How these descriptions are written; absent: the prompt does not prescribe a form. */
  readonly form?: Form;
  /** The content of a system message before the first prompt. */
  system?(actions: readonly ActionSpec[]): string;
  /** Wraps what the agent sees after a reply in this protocol's form for answers. */
  answer?(parts: readonly Part[]): readonly Part[];
  /** The part of the prompt that lists the actions and asks for the reply format. */
  instruction(actions: readonly ActionSpec[], style: PromptStyle): string;
  parse(reply: string, actions: readonly ActionSpec[]): ParsedReply;
  /** Writes a reply that `parse` reads back as these actions. `sections` fills the tags (`think`, …). */
  print(actions: readonly Action[], specs: readonly ActionSpec[], sections?: Readonly<Record<string, string>>): string;
}
