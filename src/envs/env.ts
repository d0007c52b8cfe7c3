/**
 * The contract of an environment: messages in, reply text out. `WorldEnv` makes one from a world and a protocol;
 * authors of odd environments implement `Env` directly.
 */
import type { Awaitable, Json } from "../core/json.ts";
import type { Message } from "../core/message.ts";
import type { Action } from "./action.ts";

export type StepInfo = {
  /** What the agent is told about its action. */
  readonly feedback?: string;
  /** Actions that were played. */
  readonly actions: readonly Action[];
  /** The same in words (`left`, `move 7 right`), for people. */
  readonly played?: readonly string[];
  /** Where the actions stand in the reply: [start, end) in UTF-16 units. */
  readonly span?: readonly [number, number];
  /** False when no action could be read from the reply. */
  readonly parsed: boolean;
  readonly wellFormed: boolean;
  /** False when the world refused an action (a wall, an illegal move) or none was read. */
  readonly valid: boolean;
  /** The parts the reward is made of. */
  readonly taskReward: number;
  readonly formatReward: number;
  readonly [key: string]: Json | readonly Action[] | undefined;
};

export type Step = {
  /** What is said to the agent next; also given on the last step, for viewers. */
  readonly observation: readonly Message[];
  readonly reward: number;
  /** The world ended the episode. */
  readonly terminated: boolean;
  /** The turn limit ended it. */
  readonly truncated: boolean;
  readonly success?: boolean;
  readonly info: StepInfo;
};

export interface Env {
  /** Starts the episode that `seed` decides and says the first messages. */
  reset(seed: number): Awaitable<readonly Message[]>;
  /** Plays a reply. No reply throws. */
  step(reply: string): Awaitable<Step>;
  close?(): Awaitable<void>;
}

/** The actions of a step for people; environments that say nothing themselves get names and payloads. */
export function playedWords({ actions, played }: StepInfo): readonly string[] {
  return played ?? actions.map(({ name, payload }) => (payload === name ? name : `${name} ${JSON.stringify(payload)}`));
}
