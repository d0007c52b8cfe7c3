/**
 * One episode: reset, reply, step, until the environment ends it or turns, tokens or time run out. Nothing is thrown: whatever goes
 * wrong ends the episode with a reason, and an episode that ended for our reasons leaves no token sequences, so that it can't be
 * trained by accident.
 */
import { errorMessage } from "../core/errors.ts";
import type { Message } from "../core/message.ts";
import { assistant } from "../core/message.ts";
import { EngineLost } from "../engine/errors.ts";
import { checkMessages, checkRewards, checkStep } from "../envs/contract.ts";
import { type Env, type RewardPart, sumRewards } from "../envs/env.ts";
import { stackAtUser } from "../run/failures.ts";
import { type Agent, OutOfTokens, PromptTooLong } from "./agents.ts";
import { episodeSignal, TimedOut, within } from "./deadline.ts";
import type { Address, Face } from "./door.ts";
import { OUR_FAULTS, type Trajectory, type Turn } from "./trajectory.ts";

export type EpisodeLimits = {
  /** Most turns, whatever the environment's own limit is (which also pays what it owes at its end); default 1000. */
  readonly maxTurns?: number;
  /** Most milliseconds for one `reset` or `step`; default a minute. */
  readonly stepTimeoutMs?: number;
  /** Most milliseconds for all of it; default an hour. */
  readonly episodeTimeoutMs?: number;
};

export type EpisodeRequest = EpisodeLimits & {
  /** The environment's name, for the record. */
  readonly name: string;
  readonly label?: string;
  readonly env: Env;
  readonly agent: Agent;
  readonly seed: number;
  readonly group?: string;
  readonly sibling?: number;
  readonly retries?: number;
  readonly signal?: AbortSignal;
  /** Where a program finds the model of its episode; default: the process's own. */
  readonly door?: { open(face: Face): Address };
};

type Ending = Pick<Trajectory, "end" | "error" | "fault">;

/** Plays an episode to its end. The environment stays open; the agent is closed. */
export async function playEpisode(request: EpisodeRequest): Promise<Trajectory> {
  const { name, label, agent, seed, sibling = 0, retries = 0 } = request;
  const group = request.group ?? `${name}#${seed}`;
  const record: Recording = { turns: [], observation: [], success: false };
  const { signal, release } = episodeSignal(request.episodeTimeoutMs ?? 3_600_000, request.signal);
  let ending: Ending;
  try {
    ending = await play(request, record, signal);
  } finally {
    release();
    closeQuietly(agent);
  }
  const failed = OUR_FAULTS.includes(ending.end);
  return {
    id: `${group}/${sibling}`,
    env: name,
    ...(label !== undefined && { label }),
    seed,
    group,
    sibling,
    temperature: agent.temperature ?? 0,
    sequences: failed ? [] : (agent.sequences?.() ?? []),
    turns: record.turns,
    final: record.observation,
    reward: record.turns.reduce((sum, turn) => sum + turn.reward, 0),
    success: !failed && record.success,
    retries,
    ...ending,
  };
}

type Phase = "reset" | "reply" | "step";
type Recording = { readonly turns: Turn[]; observation: readonly Message[]; success: boolean };

async function play(request: EpisodeRequest, record: Recording, signal: AbortSignal): Promise<Ending> {
  const { name, env, agent, seed, maxTurns = 1000, stepTimeoutMs = 60_000 } = request;
  const conversation: Message[] = [];
  const by = (call: string) => `${name}, seed ${seed}: ${call}`;
  let phase: Phase = "reset";
  let said: string | undefined;
  /** The environment did not end it: it pays what it owes at the end of an episode, as it does at its own turn limit. */
  const cutShort = async (end: "max_turns" | "max_tokens"): Promise<Ending> => {
    phase = "step";
    const last = record.turns.at(-1);
    if (last === undefined) return { end };
    const owed = checkRewards(
      await within(() => env.truncate?.() ?? [], stepTimeoutMs, signal),
      last.reply,
      by("truncate()"),
    );
    record.turns.splice(-1, 1, withRewards(last, owed));
    return { end };
  };
  try {
    record.observation = checkMessages(await within(() => env.reset(seed), stepTimeoutMs, signal), by("reset()"));
    conversation.push(...record.observation);
    for (;;) {
      phase = "reply";
      const asked = performance.now();
      const reply = await within(() => agent.reply(conversation, signal), Number.POSITIVE_INFINITY, signal).catch(full);
      if (reply === undefined) return await cutShort("max_tokens");
      phase = "step";
      said = reply;
      const answered = performance.now();
      const step = checkStep(await within(() => env.step(reply), stepTimeoutMs, signal), reply, by("step()"));
      record.turns.push({
        observation: record.observation,
        reply,
        stopReason: agent.stopReason ?? "stop",
        reward: sumRewards(step.rewards),
        rewards: step.rewards,
        ...(agent.offsets && { offsets: agent.offsets }),
        info: step.info,
        startedAt: performance.timeOrigin + asked,
        sampleMs: answered - asked,
        encodeMs: agent.encodeMs ?? 0,
        envMs: performance.now() - answered,
      });
      record.observation = step.observation;
      record.success = step.success === true;
      if (step.terminated) return { end: "done" };
      if (step.truncated) return { end: "max_turns" };
      if (record.turns.length >= maxTurns) return await cutShort("max_turns");
      conversation.push(assistant(reply), ...step.observation);
    }
  } catch (error) {
    if (request.signal?.aborted) return { end: "aborted", error: errorMessage(error) };
    const stack = stackAtUser(error);
    const fault = {
      ...(phase === "step" && { reply: said ?? "" }),
      ...(stack !== undefined && { stack }),
      ...(error instanceof EngineLost && { lost: true }),
    };
    return { ...endingOf(error, phase, record.turns.length + 1), fault };
  }
}

function endingOf(error: unknown, phase: Phase, turn: number): Ending {
  const message = errorMessage(error);
  if (error instanceof PromptTooLong) return { end: "engine_error", error: message };
  if (phase === "reply") {
    return { end: "engine_error", error: `The agent failed in turn ${turn}: ${message}` };
  }
  const end = error instanceof TimedOut ? "env_timeout" : "env_error";
  return { end, error: `The environment failed ${phase === "reset" ? "at reset" : `in turn ${turn}`}: ${message}` };
}

/** The turn with further parts of its reward. */
export function withRewards(turn: Turn, more: readonly RewardPart[]): Turn {
  const rewards = [...turn.rewards, ...more];
  return { ...turn, rewards, reward: sumRewards(rewards) };
}

/** Undefined: the context is full, which is no fault of the agent's. */
function full(error: unknown): undefined {
  if (error instanceof OutOfTokens) return undefined;
  throw error;
}

function closeQuietly(agent: Agent): void {
  try {
    agent.close?.();
  } catch {
    // The episode is recorded; a cache that could not be released is the engine's to count.
  }
}
