/**
 * Groups of episodes: n siblings of each episode seed, a bounded number of them live, each going on as soon as its environment answers.
 * An episode that fails for our reasons is played again on a fresh environment with the same seeds; when retries are used up it is
 * dropped and counted. Groups come out in the order they were issued, whatever finished first, so that what a synchronous trainer sees
 * does not depend on concurrency.
 */
import { ConfigError } from "../core/errors.ts";
import { Permits } from "../core/permits.ts";
import { expectListeners } from "../core/platform.ts";
import { checkSeed } from "../core/seed.ts";
import type { AgentFactory } from "./agents.ts";
import { attemptEpisode } from "./attempt.ts";
import type { RolloutCounters } from "./counters.ts";
import { within } from "./deadline.ts";
import type { EpisodeLimits } from "./episode.ts";
import type { EnvLender, EnvSpec } from "./hosts.ts";
import { type Judge, judgeEpisode } from "./judge.ts";
import { isOurFault, type Trajectory } from "./trajectory.ts";

export type GroupRequest = {
  readonly env: EnvSpec;
  /** How the environment is shown, where that is not its id. */
  readonly label?: string;
  readonly seed: number;
  readonly siblings: number;
  /** Default `<env>#<seed>`, with `~2`, `~3`, … when it was issued before. */
  readonly group?: string;
  /** Instead of the options' own: a trainer that plays a seed again in a later step mixes the step in. */
  readonly samplingSeed?: number;
};

export type GroupOptions = EpisodeLimits & {
  readonly agent: AgentFactory;
  readonly host: EnvLender;
  /** The run's seed: turn t of sibling i samples with mixSeed(samplingSeed, seed, i, t). */
  readonly samplingSeed: number;
  /** Most episodes at a time. */
  readonly live: number;
  /** Most groups that are issued and not yet taken; default twice `live`. */
  readonly ahead?: number;
  /** Fresh attempts at an episode that failed for our reasons; default 2. */
  readonly retries?: number;
  /** Pays after an episode, while others play. A group waits for it, unless `judgeBehind` asks for groups as they were played. */
  readonly judge?: Judge;
  readonly judgeBehind?: boolean;
  readonly judgeTimeoutMs?: number;
  readonly counters?: RolloutCounters;
  readonly signal?: AbortSignal;
};

export type PlayedGroup = {
  readonly id: string;
  readonly env: EnvSpec;
  readonly seed: number;
  /** Siblings that may be trained and scored, by number. */
  readonly trajectories: readonly Trajectory[];
  /** Siblings that failed for our reasons in every attempt: for logs only. */
  readonly dropped: readonly Trajectory[];
  /** With `judgeBehind`: the group with what the judge pays. It does not fail. */
  readonly judged?: Promise<PlayedGroup>;
};

type Requests = Iterable<GroupRequest> | AsyncIterable<GroupRequest>;

/** Plays groups as they are asked for. A request is drawn only when an episode of it can start at once. */
export async function* playGroups(requests: Requests, options: GroupOptions): AsyncGenerator<PlayedGroup, void, void> {
  const { live, ahead = 2 * live } = options;
  for (const [name, value] of Object.entries({ live, ahead })) {
    if (!Number.isSafeInteger(value) || value < 1) {
      throw new ConfigError(`${name} must be a whole number of at least 1, got ${value}.`);
    }
  }
  const { signal, stop, release } = stoppable(options.signal);
  const slots = new Permits(live);
  const places = new Permits(ahead);
  const issued = new Queue<Promise<PlayedGroup>>();
  const producer = issueGroups(requests, options, { signal, stop, slots, places, issued });
  producer.then(
    () => issued.end(),
    (error) => {
      stop(error);
      issued.end();
    },
  );
  try {
    for (let next = await issued.shift(); next !== undefined; next = await issued.shift()) {
      const group = await next;
      places.give();
      yield group;
    }
    await producer;
  } finally {
    release();
    stop(new Error("The episode is no longer wanted."));
    await Promise.allSettled([producer, ...issued.items]);
  }
}

type Flow = {
  readonly signal: AbortSignal;
  readonly stop: (reason: unknown) => void;
  readonly slots: Permits;
  readonly places: Permits;
  readonly issued: Queue<Promise<PlayedGroup>>;
};

async function issueGroups(requests: Requests, options: GroupOptions, flow: Flow): Promise<void> {
  const { signal, slots, places, issued } = flow;
  const source = Symbol.asyncIterator in requests ? requests[Symbol.asyncIterator]() : requests[Symbol.iterator]();
  const timesIssued = new Map<string, number>();
  const forever = Number.POSITIVE_INFINITY;
  let drawn = false;
  try {
    for (;;) {
      await within(() => places.take(), forever, signal);
      // Permits are given in the order they were asked for, so every sibling issued before this has started by now.
      await within(() => slots.take(), forever, signal);
      const { value: request, done } = await within(() => source.next(), forever, signal);
      if (done) {
        drawn = true;
        return;
      }
      checkRequest(request);
      const id = groupId(request, timesIssued);
      const played = Array.from({ length: request.siblings }, async (_, sibling) => {
        // The first sibling has the permit taken above.
        if (sibling > 0) await slots.take();
        try {
          return await playSibling(request, id, sibling, options, signal);
        } catch (error) {
          flow.stop(error);
          throw error;
        } finally {
          slots.give();
        }
      });
      const group = handedOut(id, request, played, options, signal);
      // Met where it is awaited; until then it must not count as unhandled.
      group.catch(() => undefined);
      issued.push(group);
    }
  } finally {
    // It may be waiting for something that never comes, so it is told and not waited for.
    if (!drawn) Promise.resolve(source.return?.()).catch(() => undefined);
  }
}

/** The group as the caller wants it: paid by the judge, or as it was played with the judge behind. */
function handedOut(
  id: string,
  request: GroupRequest,
  played: Promise<Trajectory>[],
  { judge, judgeTimeoutMs: timeoutMs, judgeBehind, counters }: GroupOptions,
  signal: AbortSignal,
): Promise<PlayedGroup> {
  if (judge === undefined) return settledAll(played).then((all) => gathered(id, request, all, counters));
  const limits = { signal, ...(timeoutMs !== undefined && { timeoutMs }) };
  const paid = played.map(async (one) => {
    const episode = await one;
    return isOurFault(episode) ? episode : judgeEpisode(judge, episode, limits);
  });
  const judged = settledAll(paid).then((all) => gathered(id, request, all, counters));
  if (!judgeBehind) return judged;
  // Where an episode could not be played, that is met below.
  judged.catch(() => undefined);
  return settledAll(played).then((all) => ({ ...gathered(id, request, all), judged }));
}

/** Like Promise.all, but it waits for every one before it fails: nothing plays on behind the caller's back. */
async function settledAll<T>(promises: Promise<T>[]): Promise<T[]> {
  await Promise.allSettled(promises);
  return Promise.all(promises);
}

/** Attempts an episode until it ends for the policy's reasons or retries are used up. Throws only when all is over. */
async function playSibling(
  request: GroupRequest,
  group: string,
  sibling: number,
  options: GroupOptions,
  signal: AbortSignal,
): Promise<Trajectory> {
  const { host, agent, samplingSeed, retries = 2, counters, judge, judgeBehind, judgeTimeoutMs, ...limits } = options;
  for (let attempt = 0; ; attempt++) {
    signal.throwIfAborted();
    const { trajectory } = await attemptEpisode(host, request.env, agent, {
      ...limits,
      seed: request.seed,
      ...(request.label !== undefined && { label: request.label }),
      group,
      sibling,
      samplingSeed: request.samplingSeed ?? samplingSeed,
      retries: attempt,
      signal,
    });
    signal.throwIfAborted();
    if (!isOurFault(trajectory) || attempt >= retries) return trajectory;
    counters?.retry(trajectory);
  }
}

function gathered(id: string, { env, seed }: GroupRequest, all: Trajectory[], counters?: RolloutCounters): PlayedGroup {
  for (const trajectory of all) counters?.add(trajectory);
  return {
    id,
    env,
    seed,
    trajectories: all.filter((trajectory) => !isOurFault(trajectory)),
    dropped: all.filter(isOurFault),
  };
}

function groupId({ env, seed, group = `${env.id}#${seed}` }: GroupRequest, timesIssued: Map<string, number>): string {
  const times = (timesIssued.get(group) ?? 0) + 1;
  timesIssued.set(group, times);
  return times === 1 ? group : `${group}~${times}`;
}

function checkRequest({ seed, siblings, env }: GroupRequest): void {
  checkSeed(seed, `The episode seed for ${env.id}`);
  if (!Number.isSafeInteger(siblings) || siblings < 1) {
    throw new ConfigError(`A group of ${env.id} needs at least one sibling, got ${siblings}.`);
  }
}

/** A signal of our own that follows `outer`. */
function stoppable(outer?: AbortSignal): { signal: AbortSignal; stop: (reason: unknown) => void; release: () => void } {
  const controller = new AbortController();
  // Every live episode listens to it, and waits of the producer do.
  expectListeners(controller.signal);
  const onAbort = () => controller.abort(outer?.reason);
  if (outer?.aborted) onAbort();
  outer?.addEventListener("abort", onAbort, { once: true });
  return {
    signal: controller.signal,
    stop: (reason) => controller.abort(reason),
    release: () => outer?.removeEventListener("abort", onAbort),
  };
}

/** A queue that one reader waits on. */
class Queue<T> {
  readonly items: T[] = [];
  #ended = false;
  #wake = () => {};

  push(item: T): void {
    this.items.push(item);
    this.#wake();
  }

  end(): void {
    this.#ended = true;
    this.#wake();
  }

  /** The next item, or undefined after the end. */
  async shift(): Promise<T | undefined> {
    while (this.items.length === 0 && !this.#ended) {
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    }
    return this.items.shift();
  }
}
