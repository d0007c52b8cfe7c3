/**
 * One episode: reset, reply, step, until the environment ends it or turns, tokens or time run out. Nothing is thrown: whatever goes
 * wrong ends the episode with a reason, and an episode that ended for our reasons leaves no token sequences, so that it can't be
 * trained by accident.
 */
import { EnvError, errorMessage } from "../core/errors.ts";
import type { Message } from "../core/message.ts";
import { assistant } from "../core/message.ts";
import type { Env, Step } from "../envs/env.ts";
import { type Agent, OutOfTokens } from "./agents.ts";
import { episodeSignal, TimedOut, within } from "./deadline.ts";
import { type EndReason, OUR_FAULTS, type Trajectory, type Turn } from "./trajectory.ts";

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
  readonly env: Env;
  readonly agent: Agent;
  readonly seed: number;
  readonly group?: string;
  readonly sibling?: number;
  readonly retries?: number;
  readonly signal?: AbortSignal;
};

type Ending = { readonly end: EndReason; readonly error?: string };

/** Plays an episode to its end. The environment stays open; the agent is closed. */
export async function playEpisode(request: EpisodeRequest): Promise<Trajectory> {
  const { name, agent, seed, sibling = 0, retries = 0 } = request;
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
  const { env, agent, seed, maxTurns = 1000, stepTimeoutMs = 60_000 } = request;
  const conversation: Message[] = [];
  let phase: Phase = "reset";
  try {
    record.observation = checkMessages(
      await within(() => env.reset(seed), stepTimeoutMs, signal),
      "reset() must return",
    );
    conversation.push(...record.observation);
    for (;;) {
      phase = "reply";
      const asked = performance.now();
      const reply = await within(() => agent.reply(conversation, signal), Number.POSITIVE_INFINITY, signal);
      phase = "step";
      const answered = performance.now();
      const step = checkStep(await within(() => env.step(reply), stepTimeoutMs, signal));
      record.turns.push({
        observation: record.observation,
        reply,
        stopReason: agent.stopReason ?? "stop",
        reward: step.reward,
        info: step.info,
        startedAt: performance.timeOrigin + asked,
        sampleMs: answered - asked,
        encodeMs: agent.encodeMs ?? 0,
        envMs: performance.now() - answered,
      });
      record.observation = step.observation;
      record.success = step.success === true;
      if (step.terminated) return { end: "done" };
      if (step.truncated || record.turns.length >= maxTurns) return { end: "max_turns" };
      conversation.push(assistant(reply), ...step.observation);
    }
  } catch (error) {
    if (request.signal?.aborted) return { end: "aborted", error: errorMessage(error) };
    return endingOf(error, phase, record.turns.length + 1);
  }
}

function endingOf(error: unknown, phase: Phase, turn: number): Ending {
  const message = errorMessage(error);
  if (phase === "reply") {
    if (error instanceof OutOfTokens) return { end: "max_tokens", error: message };
    return { end: "engine_error", error: `The agent failed in turn ${turn}: ${message}` };
  }
  const end = error instanceof TimedOut ? "env_timeout" : "env_error";
  return { end, error: `The environment failed ${phase === "reset" ? "at reset" : `in turn ${turn}`}: ${message}` };
}

/** A user's environment may return anything; a reward that is no number would poison the whole group. */
function checkStep(step: Step): Step {
  if (!Number.isFinite(step?.reward)) {
    throw new EnvError(`step() must return a finite \`reward\`, got ${String(step?.reward)}.`);
  }
  if (typeof step.info !== "object" || step.info === null) throw new EnvError("step() must return `info`, an object.");
  checkMessages(step.observation, "step() must return `observation`,");
  return step;
}

function checkMessages(messages: readonly Message[], what: string): readonly Message[] {
  if (!Array.isArray(messages)) throw new EnvError(`${what} a list of messages.`);
  return messages;
}

function closeQuietly(agent: Agent): void {
  try {
    agent.close?.();
  } catch {
    // The episode is recorded; a cache that could not be released is the engine's to count.
  }
}
