/**
 * What an author wants to know of an environment before a training run spends an hour on it: whether a seed decides the episode, whether a saved state
 * goes on as it would have, whether the oracle solves it and chance does not, how large frames and prompts are in tokens, and how fast it is. Each
 * finding is given as soon as it is known. A finding that is bad would make a run fail or its figures mislead; a note is for the author to judge.
 * Worlds, tasks and agents with a loop of their own are played through the same door as in training.
 */
import { errorMessage } from "../core/errors.ts";
import type { Image } from "../core/image.ts";
import type { Json } from "../core/json.ts";
import type { Message } from "../core/message.ts";
import { NumpyRandom } from "../core/random-numpy.ts";
import { mixSeed } from "../core/seed.ts";
import {
  type BuiltinAgent,
  type Env,
  isWorld,
  makeEnv,
  makeWorldEnv,
  type Options,
  sampleAction,
  type World,
} from "../envs/index.ts";
import { builtinAgent, EnvHost, playGroups, playSeeds, type SeedScores, type Trajectory } from "../rollout/index.ts";
import { firstFailure } from "../rollout/trajectory.ts";
import { failureLines, stackAtUser } from "../run/failures.ts";
import { frameSizes, sizes, speed } from "./check-size.ts";
import { bad, type Finding, good, note } from "./finding.ts";

export type CheckOptions = {
  readonly options?: Options;
  /** Seeds that are played by the built-in agents; default 32. */
  readonly seeds?: number;
};

/** Seeds whose episodes are compared turn by turn. */
const COMPARED = 4;
/** An episode that never ends is cut here. */
const MAX_TURNS = 200;

type Subject = { readonly name: string; readonly options: Options; readonly agent: BuiltinAgent };

/** Checks an environment, by id or path. Ends early when it can't be played at all. */
export async function* checkEnv(
  name: string,
  { options = {}, seeds = 32 }: CheckOptions = {},
): AsyncGenerator<Finding> {
  let subject: Subject;
  const began = performance.now();
  try {
    subject = { name, options, agent: await bestAgent(name, options) };
  } catch (error) {
    yield bad("loads", thrown(error));
    return;
  }
  yield good("loads", `${name} starts in ${Math.ceil(performance.now() - began)} ms`);
  const order = Array.from({ length: COMPARED }, (_, seed) => seed);
  const { played, failure } = await play(subject, order);
  if (failure !== undefined) {
    yield failure;
    return;
  }
  yield await sameAgain(subject, played);
  if (await isWorld(name)) yield await savesExactly(name, options);
  yield* await scores(name, options, seeds);
  yield frameSizes(played);
  yield* await sizes(subject, played);
  yield speed(played);
}

/** What an environment threw, and the line of its author's file. */
const thrown = (error: unknown) => [errorMessage(error), ...(stackAtUser(error)?.split("\n", 1) ?? [])].join("\n");

/** Who plays: the oracle where there is one. */
async function bestAgent(name: string, options: Options): Promise<BuiltinAgent> {
  const env: Env = await makeEnv(name, options);
  try {
    if (env.driver !== undefined) return (["oracle", "random"] as const).find(has(env.driver.builtins)) ?? "stop";
    await env.reset(0);
    return (await env.builtinReply?.("oracle", 0)) !== undefined ? "oracle" : "random";
  } finally {
    await env.close?.();
  }
}

const has = (list: readonly BuiltinAgent[]) => (agent: BuiltinAgent) => list.includes(agent);

/** What a turn showed, in one string: texts, hashes of images, reward. */
function digest(messages: readonly Message[], rest: Json): string {
  const parts = messages.map(({ role, content }) => [
    role,
    ...content.map((part) => (part.type === "image" ? part.image.hash : part.text)),
  ]);
  return JSON.stringify([parts, rest]);
}

function course(trajectory: Trajectory): string[] {
  const { turns, final, success, end } = trajectory;
  return [...turns.map(({ observation, reward }) => digest(observation, reward)), digest(final, [success, end])];
}

/** Plays these seeds in this order, in one fresh environment. */
async function play(
  { name, options, agent }: Subject,
  seeds: readonly number[],
): Promise<{ readonly played: Trajectory[]; readonly failure?: Finding }> {
  const host = new EnvHost();
  const requests = seeds.map((seed) => ({ env: { id: name, options }, seed, siblings: 1 }));
  const shared = { agent: builtinAgent(agent), host, samplingSeed: 0, live: 1, retries: 0, maxTurns: MAX_TURNS };
  const played: Trajectory[] = [];
  try {
    for await (const { trajectories, dropped } of playGroups(requests, shared)) {
      const failed = firstFailure(dropped);
      if (failed !== undefined) return { played, failure: bad("plays", failureLines({ ...failed, agent }).join("\n")) };
      played.push(...trajectories);
    }
  } catch (error) {
    return { played, failure: bad("plays", errorMessage(error)) };
  } finally {
    await host.close();
  }
  return { played };
}

/** The same seeds in another order, in another instance: what ran before must not matter. */
async function sameAgain(subject: Subject, before: readonly Trajectory[]): Promise<Finding> {
  const about = "same seed, same episode";
  const { played, failure } = await play(subject, before.map(({ seed }) => seed).reverse());
  if (failure !== undefined) return { ...failure, about };
  for (const again of played) {
    const first = before.find(({ seed }) => seed === again.seed);
    const [then, now] = [first === undefined ? [] : course(first), course(again)];
    const at = then.findIndex((seen, turn) => now[turn] !== seen);
    if (at < 0 && then.length === now.length) continue;
    const where = at === 0 ? "its first message" : `turn ${at < 0 ? then.length : at}`;
    return bad(
      about,
      `seed ${again.seed} played twice differs from ${where} on`,
      "reset(seed) must decide everything: draw with NumpyRandom(seed), never Math.random or the clock, and keep nothing from the episode before.",
    );
  }
  return good(about, `${played.length} seeds played twice in another order: every message and reward is equal`);
}

/** Saves in mid-episode, loads into a fresh world, and plays the same random actions in both. */
async function savesExactly(name: string, options: Options): Promise<Finding> {
  const about = "save and load";
  const { world } = await makeWorldEnv(name, options);
  const other = (await makeWorldEnv(name, options)).world;
  try {
    if (world.save === undefined || other.load === undefined) {
      return note(about, "the world has no save() and load()", "With both, the viewer can replay from any turn.");
    }
    for (let seed = 0; seed < COMPARED; seed++) {
      await world.reset(seed);
      await wander(world, new NumpyRandom(seed), 2);
      await other.reset(seed + 1);
      await other.load(JSON.parse(JSON.stringify(await world.save())) as Json);
      const [mine, theirs] = [await walk(world, seed), await walk(other, seed)];
      const at = mine.findIndex((seen, turn) => theirs[turn] !== seen);
      if (at >= 0) {
        return bad(
          about,
          `seed ${seed}: after load(save()) the world differs ${at === 0 ? "at once" : `after ${at} actions`}`,
          "save() must return all that decides the future, as JSON, the state of its random numbers included.",
        );
      }
    }
  } catch (error) {
    return bad(about, errorMessage(error));
  } finally {
    await world.close?.();
    await other.close?.();
  }
  return good(about, `${COMPARED} episodes go on from a saved state exactly as they would have`);
}

async function wander(world: World, random: NumpyRandom, steps: number): Promise<void> {
  const lasting = world.actions.filter(({ ends }) => !ends);
  for (let step = 0; step < steps && lasting.length > 0; step++)
    if ((await world.act(sampleAction(lasting, random))).ended) return;
}

async function walk(world: World, seed: number): Promise<string[]> {
  const random = new NumpyRandom(mixSeed("course", seed));
  const seen: string[] = [await view(world)];
  for (let step = 0; step < 4; step++) {
    const outcome = await world.act(sampleAction(world.actions, random));
    seen.push(`${await view(world)} ${JSON.stringify(outcome)} ${await world.success()}`);
    if (outcome.ended) break;
  }
  return seen;
}

async function view(world: World): Promise<string> {
  const seen = await world.observe("image");
  if (typeof seen === "string") return seen;
  const parts = Array.isArray(seen) ? seen : [{ type: "image" as const, image: seen as Image }];
  return parts.map((part) => (part.type === "image" ? part.image.hash : part.text)).join("|");
}

/** Oracle, random play and stopping at once, on the same seeds. */
async function scores(name: string, options: Options, count: number): Promise<Finding[]> {
  const seeds = Array.from({ length: count }, (_, seed) => seed);
  let played: SeedScores;
  try {
    // The yardsticks are what is wanted; who plays beside them does not matter.
    played = await playSeeds({ agent: builtinAgent("stop"), env: { id: name, options }, seeds });
  } catch (error) {
    return [bad("plays", errorMessage(error))];
  }
  const { stop, random, oracle } = played.against;
  const findings: Finding[] = [];
  const failure = [oracle, random, stop].find((figures) => figures?.failure !== undefined)?.failure;
  if (failure !== undefined)
    findings.push(
      bad("plays", failureLines(failure).join("\n"), "A failed episode is never trained and counts against success."),
    );
  const share = (value: number) => `${(100 * value).toFixed(0)} %`;
  if (oracle === undefined) {
    findings.push(
      note(
        "oracle",
        "the environment has no oracle",
        "Without solve() there is no ceiling, and no warm start but from files.",
      ),
    );
  } else if (oracle.success.value < 1) {
    const text = `the oracle solves ${share(oracle.success.value)} of ${count} seeds`;
    findings.push(
      oracle.success.value === 0
        ? bad("oracle", text, "Nothing can be learned from it: check solve(), success() and maxTurns.")
        : note("oracle", text, "The rest may be beyond maxTurns, or solve() gives up: both lower the ceiling."),
    );
  } else
    findings.push(
      good("oracle", `the oracle solves all ${count} seeds, in ${oracle.turns.toFixed(1)} turns on average`),
    );
  const best = Math.max(stop.success.value, random?.success.value ?? 0);
  const floors = `stopping at once solves ${share(stop.success.value)}${random === undefined ? "" : `, random play ${share(random.success.value)}`}`;
  findings.push(best >= 0.9 ? note("floors", floors, "There is little left to learn.") : good("floors", floors));
  if (oracle !== undefined && random !== undefined) {
    const text = `mean reward: oracle ${oracle.reward.toFixed(2)}, random ${random.reward.toFixed(2)}`;
    findings.push(
      oracle.reward > random.reward
        ? good("rewards", `${text}; every reward is a finite number`)
        : bad("rewards", text, "Reward must tell good play from bad: pay the oracle more than chance."),
    );
  }
  return findings;
}
