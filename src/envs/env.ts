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
  /** Of the step that ended the episode: how, in a few words for people. */
  readonly ending?: string;
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
  /** A program that brings its own loop and asks the model itself, through an endpoint. `reset` and `step` are then not called. */
  readonly driver?: Driver | undefined;
}

/** An answer that a program got. */
export type AgentTurn = {
  /** Conversations of an episode count from 0. */
  readonly conversation: number;
  /** The messages that were new to the conversation. */
  readonly messages: readonly Message[];
  /** All that the model said, calls included, and the calls that were read from it. */
  readonly reply: string;
  readonly calls: readonly { readonly name: string; readonly arguments: string }[];
};

/** How a program reaches the model of its episode, and those who watch it. */
export type Line = {
  readonly seed: number;
  /** The episode's own address; `POST` a reward to it. */
  readonly url: string;
  /** `url` with `/v1`: what OpenAI's clients take. Anthropic's take `url`. */
  readonly baseURL: string;
  readonly apiKey: string;
  /** Aborted when the episode's time is over, or nobody wants it any more. */
  readonly signal: AbortSignal;
  /** Keeps a line that the program printed, for viewers. */
  log(line: string): void;
  /** The reward that was posted; undefined: none yet. */
  posted(): Json | undefined;
  turns(): readonly AgentTurn[];
};

/** A part of what a program earned: for all of the episode, or for one of its conversations, where its last answer is paid it. */
export type EarnedPart = { readonly name: string; readonly value: number; readonly conversation?: number };
/** What an episode of a program earned, and who said so: `run`, `post`, `output` or `reward`. */
export type Earned = { readonly rewards: readonly EarnedPart[]; readonly success: boolean; readonly by: string };

export interface Driver {
  /** Whether the images that the program sends are shown in grey. */
  readonly blindfold: boolean;
  /** Runs the program to its end. Throws when it fails. */
  drive(line: Line): Promise<Earned>;
  /** Built-in agents that it brings along. */
  readonly builtins: readonly BuiltinAgent[];
  /** What one of them answers to a request; undefined: there is no such agent. */
  reply?(agent: BuiltinAgent, asked: BuiltinAsked): Awaitable<string | undefined>;
}

/** A request that a built-in agent answers. */
export type BuiltinAsked = {
  /** The episode's. */
  readonly seed: number;
  /** The agent's own, for what it draws. */
  readonly draw: number;
  /** The whole conversation. */
  readonly messages: readonly Message[];
};

/** The reward of a turn. */
export function sumRewards(parts: readonly RewardPart[]): number {
  return parts.reduce((sum, { value }) => sum + value, 0);
}

/** The actions of a step for people; environments that say nothing themselves get names and payloads. */
export function playedWords({ actions, played }: StepInfo): readonly string[] {
  return played ?? actions.map(({ name, payload }) => (payload === name ? name : `${name} ${JSON.stringify(payload)}`));
}
