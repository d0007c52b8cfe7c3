/**
 * The contract of a protocol: how a model speaks to a world. It writes the reply format into the prompt, reads
 * replies back into actions, prints actions as replies (for oracles and demonstrations), and says what a well-formed
 * reply is worth. A protocol never throws on a reply.
 */
import type { Part } from "../core/message.ts";
import type { Action, ActionSpec } from "./action.ts";
import type { PromptStyle } from "./world.ts";
import type { Form } from "./world-model/speak.ts";

/** [start, end) in UTF-16 units of the reply. */
export type Span = readonly [start: number, end: number];

/** What stands in a tag, without the white space around it. */
export type Section = { readonly text: string; readonly span: Span };

export type ParsedReply = {
  /** Actions that fit the world's specs, in order; empty when nothing could be read. */
  readonly actions: readonly Action[];
  /** The reply has the shape the protocol asks for (this is what the format reward pays). */
  readonly wellFormed: boolean;
  /** When no action (or not every action) could be read: one sentence that tells the model what to write instead. */
  readonly problem?: string;
  /** Each tag found (`think`, `observation`, `prediction`, …), and where. */
  readonly sections: Readonly<Record<string, Section>>;
  /** Where the action stands in the reply, for viewers. */
  readonly span?: Span;
};

/**
 * How format is rewarded.
 * `none`: the task's reward alone. `mixture`: when the episode ends, `task`·reward + `format`·share of well-formed turns
 * (VisGym under SkyRL: 0.8 and 0.2). `bonus`: added on every well-formed turn with an executed action (VAGEN).
 */
export type FormatReward =
  | { readonly kind: "none" }
  | { readonly kind: "mixture"; readonly task: number; readonly format: number }
  | { readonly kind: "bonus"; readonly bonus: number };

export interface Protocol {
  readonly name: string;
  /** The most actions one reply may hold. */
  readonly maxActions: number;
  readonly formatReward: FormatReward;
  /** Tags in which a model says what it sees, which way it goes and what it expects (`observation`, `justification`, `prediction`): an oracle fills them with true words. */
  readonly says?: readonly string[];
  /** The form in which a world's things are described there; absent: the prompt prescribes none. */
  readonly form?: Form;
  /** What stands in a system message before the first prompt. */
  system?(actions: readonly ActionSpec[]): string;
  /** What the agent sees after a reply, in the form in which this protocol answers. */
  answer?(parts: readonly Part[]): readonly Part[];
  /** The part of the prompt that lists the actions and asks for the reply format. */
  instruction(actions: readonly ActionSpec[], style: PromptStyle): string;
  parse(reply: string, actions: readonly ActionSpec[]): ParsedReply;
  /** A reply that `parse` reads back as these actions. `sections` fills the tags (`think`, …). */
  print(actions: readonly Action[], specs: readonly ActionSpec[], sections?: Readonly<Record<string, string>>): string;
}
