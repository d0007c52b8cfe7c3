/**
 * What an author wants to know of an environment before a training run spends an hour on it: whether a seed decides the episode, whether a saved state
 * goes on as it would have, whether the oracle solves it and chance does not, how large frames and prompts are in tokens, and how fast it is. Each
 * finding is given as soon as it is known. A finding that is bad would make a run fail or its figures mislead; a note is for the author to judge.
 */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { errorMessage } from "../core/errors.ts";
import type { Image } from "../core/image.ts";
import type { Json } from "../core/json.ts";
import { imagesOf, type Message } from "../core/message.ts";
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
  sumRewards,
  type World,
} from "../envs/index.ts";
import { createFolder, loadFolder, type ModelFolder } from "../model/index.ts";
import { builtinAgent, builtinReply, playSeeds, type SeedScores } from "../rollout/index.ts";
import { failureLines, stackAtUser } from "../run/failures.ts";

export type Finding = {
  readonly about: string;
  readonly verdict: "good" | "note" | "bad";
  readonly text: string;
  /** What to do about it. */
  readonly advice?: string;
};

export type CheckOptions = {
  readonly options?: Options;
  /** Seeds that are played by the built-in agents; default 32. */
  readonly seeds?: number;
};

/** Seeds whose episodes are compared turn by turn. */
const COMPARED = 4;
/** An episode that never ends is cut here. */
const MAX_TURNS = 200;
/** Frames of more tokens teach a model from nothing slowly; real models take many more. */
const MANY_TOKENS = 64;

type Seen = { readonly digest: string; readonly ms: number };
type Played = {
  readonly turns: readonly Seen[];
  readonly frames: readonly Image[];
  readonly first: readonly Message[];
  readonly later: readonly (readonly Message[])[];
  readonly replies: readonly string[];
  readonly reward: number;
};

/** Checks an environment, by id or path. Ends early when it can't be played at all. */
export async function* checkEnv(
  name: string,
  { options = {}, seeds = 32 }: CheckOptions = {},
): AsyncGenerator<Finding> {
  let env: Env;
  let agent: BuiltinAgent;
  try {
    env = await makeEnv(name, options);
    await env.reset(0);
    agent = (await env.builtinReply?.("oracle", 0)) !== undefined ? "oracle" : "random";
  } catch (error) {
    yield bad("loads", thrown(error));
    return;
  }
  yield good("loads", `${name} starts an episode`);
  const samples: Played[] = [];
  try {
    while (samples.length < COMPARED) samples.push(await play(env, samples.length, agent));
  } catch (error) {
    yield bad("plays", `seed ${samples.length}, played by the ${agent} agent: ${thrown(error)}`);
    return;
  } finally {
    await env.close?.();
  }
  yield await sameAgain(name, options, agent, samples);
  if (await isWorld(name)) yield await savesExactly(name, options);
  yield* await scores(name, options, seeds);
  yield frameSizes(samples);
  yield* await tokens(samples);
  yield speed(samples);
}

const good = (about: string, text: string): Finding => ({ about, verdict: "good", text });
const note = (about: string, text: string, advice?: string): Finding => ({
  about,
  verdict: "note",
  text,
  ...(advice !== undefined && { advice }),
});
const bad = (about: string, text: string, advice?: string): Finding => ({
  ...note(about, text, advice),
  verdict: "bad",
});

/** What an environment threw, and the line of its author's file. */
const thrown = (error: unknown) => [errorMessage(error), ...(stackAtUser(error)?.split("\n", 1) ?? [])].join("\n");

/** What a turn showed, in one string: texts, hashes of images, rewards, how it ended. */
function digest(messages: readonly Message[], rest: Json = null): string {
  const parts = messages.map(({ role, content }) => [
    role,
    ...content.map((part) => (part.type === "image" ? part.image.hash : part.text)),
  ]);
  return JSON.stringify([parts, rest]);
}

async function play(env: Env, seed: number, agent: BuiltinAgent): Promise<Played> {
  const turns: Seen[] = [];
  const later: (readonly Message[])[] = [];
  const replies: string[] = [];
  let began = performance.now();
  const first = await env.reset(seed);
  turns.push({ digest: digest(first), ms: performance.now() - began });
  let reward = 0;
  while (turns.length <= MAX_TURNS) {
    const reply = (await builtinReply(env, agent, mixSeed("check", seed, turns.length))) ?? "";
    began = performance.now();
    const step = await env.step(reply);
    const ms = performance.now() - began;
    reward += sumRewards(step.rewards);
    replies.push(reply);
    later.push(step.observation);
    turns.push({
      digest: digest(step.observation, [
        sumRewards(step.rewards),
        step.terminated,
        step.truncated,
        step.success ?? null,
      ]),
      ms,
    });
    if (step.terminated || step.truncated) break;
  }
  return { turns, frames: [...first, ...later.flat()].flatMap(imagesOf), first, later, replies, reward };
}

/** The same seeds in another order, in another instance: what ran before must not matter. */
async function sameAgain(
  name: string,
  options: Options,
  agent: BuiltinAgent,
  samples: readonly Played[],
): Promise<Finding> {
  const about = "same seed, same episode";
  const env = await makeEnv(name, options);
  try {
    for (let seed = samples.length - 1; seed >= 0; seed--) {
      const before = samples[seed]?.turns ?? [];
      const again = (await play(env, seed, agent)).turns;
      const at = before.findIndex(({ digest }, turn) => again[turn]?.digest !== digest);
      if (at < 0 && again.length === before.length) continue;
      const where = at === 0 ? "its first message" : `turn ${at < 0 ? before.length : at}`;
      return bad(
        about,
        `seed ${seed} played twice differs from ${where} on`,
        "reset(seed) must decide everything: draw with NumpyRandom(seed), never Math.random or the clock, and keep nothing from the episode before.",
      );
    }
  } finally {
    await env.close?.();
  }
  return good(about, `${samples.length} seeds played twice in another order: every message and reward is equal`);
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
      const [mine, theirs] = [await course(world, seed), await course(other, seed)];
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

async function course(world: World, seed: number): Promise<string[]> {
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

function frameSizes(samples: readonly Played[]): Finding {
  const frames = samples.flatMap(({ frames }) => frames);
  if (frames.length === 0)
    return note("frames", "no image is shown", "A model that sees nothing learns from text alone.");
  const sizes = [...new Set(frames.map(({ width, height }) => `${width}×${height}`))];
  const distinct = new Set(frames.map(({ hash }) => hash)).size;
  const text = `${sizes.slice(0, 4).join(", ")} pixels; ${distinct} different ones of ${frames.length}`;
  return distinct === 1 && frames.length > 1
    ? bad("frames", text, "Every frame is the same: observe() must draw the current state.")
    : good("frames", text);
}

/** Counted with the tokenizer and image processor of the presets, which recipes that start from nothing use. */
async function tokens(samples: readonly Played[]): Promise<Finding[]> {
  const folder = await mkdtemp(join(tmpdir(), "saccade-check-"));
  try {
    await createFolder(folder, { preset: "quickstart" });
    return await counted(await loadFolder(folder), samples);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

async function counted({ renderer }: ModelFolder, samples: readonly Played[]): Promise<Finding[]> {
  let [prompt, frame, episode, reply] = [0, 0, 0, 0];
  for (const { first, later, replies } of samples) {
    const input = await renderer.prompt(first);
    prompt = Math.max(prompt, input.ids.length);
    frame = Math.max(frame, ...input.images.map(({ length }) => length));
    let whole = input.ids.length;
    for (const [turn, words] of replies.entries()) {
      const said = (await renderer.reply(words)).length;
      reply = Math.max(reply, said);
      whole += said;
      const next = later[turn];
      // What is shown after the last reply is for viewers.
      if (next !== undefined && turn < replies.length - 1)
        whole += (await renderer.delta(next, { ended: true })).ids.length;
    }
    episode = Math.max(episode, whole);
  }
  const sizes = `prompt ${prompt} tokens, frame ${frame}, reply ${reply}, whole episode ${episode}`;
  const turns = samples.reduce((sum, { replies }) => sum + replies.length, 0) / samples.length;
  const context = 2 ** Math.ceil(Math.log2(episode * 1.5));
  const budget = `${turns.toFixed(1)} decisions and ${episode} tokens an episode; 10,000 demonstrations are ${((episode * 10_000) / 1e6).toFixed(1)} million tokens`;
  return [
    frame > MANY_TOKENS
      ? note(
          "tokens",
          sizes,
          `A frame of ${frame} tokens is much for a model from nothing: maxLongSide shrinks it (32×32 pixels are a token).`,
        )
      : good(
          "tokens",
          `${sizes}: sampling.contextTokens ${context} and sampling.maxTokens ${Math.max(8, 2 * reply)} leave room`,
        ),
    note(
      "warm start",
      budget,
      "Start with 6,400 episodes (enough for 3 decisions in docs/start/your-environment.md); the quickstart clones 13,600 of its lake.",
    ),
  ];
}

function speed(samples: readonly Played[]): Finding {
  const resets = samples.map(({ turns }) => turns[0]?.ms ?? 0);
  const steps = samples.flatMap(({ turns }) => turns.slice(1).map(({ ms }) => ms));
  const median = (values: readonly number[]) => [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)] ?? 0;
  const text = `reset ${median(resets).toFixed(1)} ms, step ${median(steps).toFixed(1)} ms (median)`;
  return median(steps) > 50
    ? note("speed", text, 'Slow steps hold up sampling: give the recipe rollout: { workers: "threads" }.')
    : good("speed", text);
}
