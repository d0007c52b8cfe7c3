/**
 * The contract of an environment: messages in, reply text out. `WorldEnv` makes one from a world and a protocol;
 * authors of odd environments implement `Env` directly.
 */
import type { Awaitable, Json } from "../core/json.ts";
import type { Message } from "../core/message.ts";
import type { Action } from "./action.ts";
import type { Section, Span } from "./protocol.ts";
import type { Fact, Mark } from "./world.ts";

/**
 * A named part of a turn's reward, weight applied. It is credited to the token that ends `span` (of the reply), without one to the
 * reply's last token.
 */
export type RewardPart = {
  readonly name: string;
  readonly value: number;
  readonly span?: Span;
  /** What was found right or wrong in the reply, for viewers. */
  readonly claims?: readonly Claim[];
};

/** Something that a reply says of its world, where it says it, and whether it is so. */
export type Claim = { readonly span: Span; readonly right: boolean };

export type StepInfo = {
  /** What the agent is told about its action. */
  readonly feedback?: string;
  /** Actions that were played. */
  readonly actions: readonly Action[];
  /** The same in words (`left`, `move 7 right`), for people. */
  readonly played?: readonly string[];
  /** Where the actions stand in the reply: [start, end) in UTF-16 units. */
  readonly span?: Span;
  /** What stands in the tags of the reply. */
  readonly sections?: Readonly<Record<string, Section>>;
  /** What was so before the actions and after them, where the protocol asks a model to say it. */
  readonly facts?: { readonly before: readonly Fact[]; readonly after: readonly Fact[] };
  /** False when no action could be read from the reply. */
  readonly parsed: boolean;
  /** Where on the frame the actions happened, where the world says so. */
  readonly marks?: readonly Mark[];
  readonly wellFormed: boolean;
  /** False when the world refused an action (a wall, an illegal move) or none was read. */
  readonly valid: boolean;
  readonly [key: string]: Json | readonly Action[] | undefined;
};

export type Step = {
  /** What is said to the agent next; also given on the last step, for viewers. */
  readonly observation: readonly Message[];
  /** What the reply earned, part by part; the reward is their sum. */
  readonly rewards: readonly RewardPart[];
  /** The world ended the episode. */
  readonly terminated: boolean;
  /** The turn limit ended it. */
  readonly truncated: boolean;
  readonly success?: boolean;
  readonly info: StepInfo;
};

/**
 * Agents that an environment may bring along. `stop` ends the episode at once where that is possible; `slip`, the noise of
 * demonstrations, plays at random but never what ends it (absent: `random` takes its place).
 */
export type BuiltinAgent = "oracle" | "random" | "stop" | "slip";

export interface Env {
  /** Starts the episode that `seed` decides and says the first messages. */
  reset(seed: number): Awaitable<readonly Message[]>;
  /** Plays a reply. No reply throws. */
  step(reply: string): Awaitable<Step>;
  /**
   * The caller ends the episode before the environment did: the context is full, or a limit of its own was met. Returns what is owed
   * at the end of an episode (a format reward); the last turn is paid it.
   */
  truncate?(): Awaitable<readonly RewardPart[]>;
  /** What a built-in agent replies now. Null: it has nothing to say in this state. Undefined: there is no such agent. */
  builtinReply?(agent: BuiltinAgent, seed: number): Awaitable<string | null | undefined>;
  close?(): Awaitable<void>;
}

/** The reward of a turn. */
export function sumRewards(parts: readonly RewardPart[]): number {
  return parts.reduce((sum, { value }) => sum + value, 0);
}

/** The actions of a step for people; environments that say nothing themselves get names and payloads. */
export function playedWords({ actions, played }: StepInfo): readonly string[] {
  return played ?? actions.map(({ name, payload }) => (payload === name ? name : `${name} ${JSON.stringify(payload)}`));
}
