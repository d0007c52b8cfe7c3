/**
 * The contract of an environment: messages in, reply text out. `WorldEnv` builds one from a world and a protocol.
 * If your environment does not fit that split, implement `Env` directly.
 */
import type { Awaitable, Json } from "../core/json.ts";
import type { Message } from "../core/message.ts";
import type { Action } from "./action.ts";
import type { Section, Span } from "./protocol.ts";
import type { Fact, Mark } from "./world.ts";

/**
 * A named part of a turn's reward, with its weight applied. It is credited to the token at the end of `span` (a part of the reply);
 * without a span, to the reply's last token.
 */
export type RewardPart = {
  readonly name: string;
  readonly value: number;
  readonly span?: Span;
  /** Statements of the reply that were checked, for viewers. */
  readonly claims?: readonly Claim[];
};

/** A statement about the world in a reply: where it is in the reply, and whether it is true. */
export type Claim = { readonly span: Span; readonly right: boolean };

export type StepInfo = {
  /** What the agent is told about its action. */
  readonly feedback?: string;
  /** On the last step: how the episode ended, in a few words for people. */
  readonly ending?: string;
  /** The actions that were played. */
  readonly actions: readonly Action[];
  /** The same actions in words (`left`, `move 7 right`), for people. */
  readonly played?: readonly string[];
  /** The part of the reply that names the actions: [start, end) in UTF-16 units. */
  readonly span?: Span;
  /** The contents of the reply's tags. */
  readonly sections?: Readonly<Record<string, Section>>;
  /** The facts before and after the actions, if the protocol asks the model to describe them. */
  readonly facts?: { readonly before: readonly Fact[]; readonly after: readonly Fact[] };
  /** False when no action could be read from the reply. */
  readonly parsed: boolean;
  /** Where on the frame the actions happened, if the world reports it. */
  readonly marks?: readonly Mark[];
  readonly wellFormed: boolean;
  /** False when the world refused an action (a wall, an illegal move), or no action could be read. */
  readonly valid: boolean;
  readonly [key: string]: Json | readonly Action[] | undefined;
};

export type Step = {
  /** The next messages for the agent. The last step has some too, for viewers. */
  readonly observation: readonly Message[];
  /** The parts of the reply's reward. The reward is their sum. */
  readonly rewards: readonly RewardPart[];
  /** The world ended the episode. */
  readonly terminated: boolean;
  /** The turn limit ended it. */
  readonly truncated: boolean;
  readonly success?: boolean;
  readonly info: StepInfo;
};

/**
 * Agents that an environment can provide. `stop` ends the episode immediately if it can. `slip`, the noise in demonstrations, plays
 * random actions that never end the episode; without it, `random` is used.
 */
export type BuiltinAgent = "oracle" | "random" | "stop" | "slip";

export interface Env {
  /** Starts the episode of this seed and returns its first messages. */
  reset(seed: number): Awaitable<readonly Message[]>;
  /** Plays a reply. It must not throw, whatever the reply is. */
  step(reply: string): Awaitable<Step>;
  /**
   * The caller ends the episode early, because the context is full or the caller has a limit of its own. Returns rewards that are due
   * at the end of an episode (such as a format reward); the last turn receives them.
   */
  truncate?(): Awaitable<readonly RewardPart[]>;
  /** The next reply of a built-in agent. Null: it has no reply in this state. Undefined: there is no such agent. */
  builtinReply?(agent: BuiltinAgent, seed: number): Awaitable<string | null | undefined>;
  close?(): Awaitable<void>;
  /** A program with its own loop, which calls the model through an endpoint. Then `reset` and `step` are not called. */
  readonly driver?: Driver | undefined;
}

/** An answer that a program received. */
export type AgentTurn = {
  /** Conversations of an episode count from 0. */
  readonly conversation: number;
  /** The messages that were new to the conversation. */
  readonly messages: readonly Message[];
  /** The whole text of the model, tool calls included, and the calls that were read from it. */
  readonly reply: string;
  readonly calls: readonly { readonly name: string; readonly arguments: string }[];
};

/** A program's connection to the model of its episode, and to the log that viewers show. */
export type Line = {
  readonly seed: number;
  /** The episode's own address; `POST` a reward to it. */
  readonly url: string;
  /** `url` with `/v1`: what OpenAI's clients take. Anthropic's take `url`. */
  readonly baseURL: string;
  readonly apiKey: string;
  /** Aborted when the episode runs out of time or is cancelled. */
  readonly signal: AbortSignal;
  /** Stores a line that the program printed, for viewers. */
  log(line: string): void;
  /** The reward that was posted; undefined: none yet. */
  posted(): Json | undefined;
  turns(): readonly AgentTurn[];
};

/** A part of a program's reward: for the whole episode, or for one conversation, whose last answer then receives it. */
export type EarnedPart = { readonly name: string; readonly value: number; readonly conversation?: number };
/** The reward of a program's episode, and its source: `run`, `post`, `output` or `reward`. */
export type Earned = { readonly rewards: readonly EarnedPart[]; readonly success: boolean; readonly by: string };

export interface Driver {
  /** Whether the model sees grey instead of the images that the program sends. */
  readonly blindfold: boolean;
  /** Runs the program until it ends. Throws if it fails. */
  drive(line: Line): Promise<Earned>;
  /** The built-in agents that it provides. */
  readonly builtins: readonly BuiltinAgent[];
  /** A built-in agent's answer to a request; undefined: there is no such agent. */
  reply?(agent: BuiltinAgent, asked: BuiltinAsked): Awaitable<string | undefined>;
}

/** A request that a built-in agent answers. */
export type BuiltinAsked = {
  /** The seed of the episode. */
  readonly seed: number;
  /** The seed of the agent's random choices. */
  readonly draw: number;
  /** The whole conversation. */
  readonly messages: readonly Message[];
};

/** The reward of a turn. */
export function sumRewards(parts: readonly RewardPart[]): number {
  return parts.reduce((sum, { value }) => sum + value, 0);
}

/** The actions of a step in words. If the environment gives none, their names and payloads. */
export function playedWords({ actions, played }: StepInfo): readonly string[] {
  return played ?? actions.map(({ name, payload }) => (payload === name ? name : `${name} ${JSON.stringify(payload)}`));
}
