/**
 * One episode of a program that brings its own loop: an address is opened for it, it runs until it ends or its time is over, and its requests become turns and
 * sequences like those of any episode. Nothing is thrown. A program that fails, hangs or asks nothing leaves no sequences; one that met the end of
 * its context, or of its turns, was stopped by what the policy said, and is trained with what it earned.
 */
import { EnvError, errorMessage } from "../core/errors.ts";
import { type Json, jsonOrText } from "../core/json.ts";
import { EngineLost } from "../engine/errors.ts";
import type { Driver, Earned, EarnedPart, RewardPart } from "../envs/env.ts";
import { readEarned } from "../envs/reward.ts";
import { stackAtUser } from "../run/failures.ts";
import { episodeSignal, within } from "./deadline.ts";
import { sharedDoor } from "./door.ts";
import type { EpisodeRequest } from "./episode.ts";
import { EpisodeLine, type LineTurn, noRequests } from "./line.ts";
import { OUR_FAULTS, type Trajectory, type Turn } from "./trajectory.ts";

type Ending = Pick<Trajectory, "end" | "error" | "fault"> & { readonly earned?: Earned };

export async function playDriven(request: EpisodeRequest, driver: Driver): Promise<Trajectory> {
  const { name, label, agent, seed, sibling = 0, retries = 0, maxTurns = 1000 } = request;
  const group = request.group ?? `${name}#${seed}`;
  const limit = episodeSignal(request.episodeTimeoutMs ?? 3_600_000, request.signal);
  const over = new AbortController();
  const signal = AbortSignal.any([limit.signal, over.signal]);
  const converser = agent.converse?.();
  let line: EpisodeLine | undefined;
  let ending: Ending;
  let sequences: Trajectory["sequences"] = [];
  try {
    if (converser === undefined) throw new EnvError("This agent can't answer the requests of a program.");
    const opened = new EpisodeLine({ converser, driver, signal, maxTurns });
    line = opened;
    ending = await play(request, driver, opened, limit.signal);
    // Before requests that are still under way can end.
    if (!OUR_FAULTS.includes(ending.end)) sequences = agent.sequences?.() ?? [];
  } catch (error) {
    ending = { end: "engine_error", error: errorMessage(error) };
  } finally {
    over.abort(new Error("The episode is over."));
    limit.release();
    closeQuietly(agent);
  }
  const failed = OUR_FAULTS.includes(ending.end);
  const { earned, ...end } = ending;
  const turns = turnsOf(line?.turns ?? [], earned);
  return {
    ...{ id: `${group}/${sibling}`, env: name, seed, group, sibling, temperature: agent.temperature ?? 0, sequences },
    ...(label !== undefined && { label }),
    ...{ turns, final: [], reward: turns.reduce((sum, turn) => sum + turn.reward, 0) },
    success: !failed && earned?.success === true,
    retries,
    ...end,
    program: {
      log: line?.log ?? [],
      ...(earned && { paidBy: earned.by }),
      ...(converser?.kind === "tokens" && { branches: converser.conversations.branches() }),
    },
  };
}

async function play(request: EpisodeRequest, driver: Driver, line: EpisodeLine, signal: AbortSignal): Promise<Ending> {
  const { name, seed, signal: outer } = request;
  const door = request.door ?? (await sharedDoor());
  const address = door.open(line);
  try {
    const earned = await within(() => driver.drive(line.face(address, seed)), Number.POSITIVE_INFINITY, signal);
    if (line.fault !== undefined) throw line.fault;
    if (line.turns.length === 0) throw noRequests(name);
    return { end: "done", earned };
  } catch (error) {
    if (outer?.aborted) return { end: "aborted", error: errorMessage(error) };
    if (line.fault !== undefined) {
      const lost = line.fault instanceof EngineLost;
      const why = `The model failed in request ${line.turns.length + 1}: ${errorMessage(line.fault)}`;
      return { end: "engine_error", error: why, fault: { ...(lost && { lost }) } };
    }
    if (line.limit !== undefined && line.turns.length > 0 && !signal.aborted) {
      const posted = line.posted;
      return { end: line.limit, ...(posted !== undefined && { earned: lastWord(posted, name, seed) }) };
    }
    const stack = stackAtUser(error);
    const said = line.log.slice(-5).map((text) => `\n  ${text}`);
    return {
      end: error instanceof Error && error.name === "TimedOut" ? "env_timeout" : "env_error",
      error: `The agent failed after ${line.turns.length} answers: ${errorMessage(error)}${said.join("")}`,
      fault: { ...(stack !== undefined && { stack }) },
    };
  } finally {
    address.close();
  }
}

/** A reward that was posted before the program was stopped; one that can't be read pays nothing. */
function lastWord(posted: Json, name: string, seed: number): Earned {
  try {
    return readEarned(posted, "post", `${name}, seed ${seed}: the posted reward`);
  } catch {
    return { rewards: [], success: false, by: "post" };
  }
}

/** What the episode earned is paid on its last answer that can learn from it. */
function turnsOf(turns: readonly LineTurn[], earned: Earned | undefined): Turn[] {
  const paid = new Map<number, RewardPart[]>();
  for (const { conversation, ...part } of earned?.rewards ?? []) {
    const at = placeOf(turns, conversation);
    paid.set(at, [...(paid.get(at) ?? []), part]);
  }
  return turns.map((turn, i) => {
    const rewards = paid.get(i) ?? [];
    const next = turns[i + 1]?.askedAt ?? turn.answeredAt;
    return {
      observation: turn.messages,
      reply: turn.reply,
      stopReason: turn.stopReason,
      reward: rewards.reduce((sum, { value }) => sum + value, 0),
      rewards,
      ...(turn.offsets && { offsets: turn.offsets }),
      info: {
        actions: turn.calls.map((call) => ({ name: call.name, payload: jsonOrText(call.arguments) })),
        played: turn.calls.map((call) => `${call.name} ${call.arguments}`),
        parsed: true,
        wellFormed: true,
        valid: true,
        conversation: turn.conversation,
        wire: turn.wire,
        ...(turn.variables && { variables: turn.variables }),
      },
      startedAt: turn.askedAt,
      sampleMs: turn.answeredAt - turn.askedAt,
      encodeMs: turn.encodeMs,
      envMs: Math.max(0, next - turn.answeredAt),
    };
  });
}

function placeOf(turns: readonly LineTurn[], conversation: EarnedPart["conversation"]): number {
  const own = (turn: LineTurn) => conversation === undefined || turn.conversation === conversation;
  const trained = turns.findLastIndex((turn) => turn.trained && own(turn));
  if (trained >= 0) return trained;
  const any = turns.findLastIndex(own);
  return any >= 0 ? any : turns.length - 1;
}

function closeQuietly(agent: EpisodeRequest["agent"]): void {
  try {
    agent.close?.();
  } catch {
    // The episode is recorded; a cache that could not be released is the engine's to count.
  }
}
