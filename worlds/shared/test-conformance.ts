/** For tests: what every built-in world promises, for every difficulty and variant. A world's `conformance.test.ts` calls `conforms`. */
import { isDeepStrictEqual } from "node:util";
import { crc32 } from "node:zlib";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { type Image, isImage, NumpyRandom } from "../../src/core/index.ts";
import {
  makeWorld,
  makeWorldEnv,
  type Options,
  sampleAction,
  type World,
  type WorldDefinition,
} from "../../src/envs/index.ts";

type Case = { id: string; variants: string[]; options: Options };

/** Difficulties and variants with the same settings are one case. */
function casesOf({ id, difficulties = { "": {} }, variants = { "": {} } }: WorldDefinition): Case[] {
  const cases: Case[] = [];
  for (const [difficulty, preset] of Object.entries(difficulties)) {
    for (const [variant, presets] of Object.entries(variants)) {
      const options = { ...preset, ...presets[difficulty] };
      const twin = cases.find((other) => isDeepStrictEqual(other.options, options));
      if (twin !== undefined) twin.variants.push(`${difficulty} ${variant}`);
      else cases.push({ id: difficulty === "" ? id : `${id}/${difficulty}`, variants: [variant], options });
    }
  }
  return cases;
}
const label = ({ id, variants: [first, ...more] }: Case) =>
  `${id}${first === "" ? "" : ` (${[first, ...more].join(", ")})`}`;

/** Images may be small here: what is promised does not depend on their size. */
const SMALL: Readonly<Record<string, Options>> = {
  colorization: { size: [112, 104] },
  counting: { size: [96, 72] },
  jigsaw: { size: [96, 72] },
  maze_3d: { size: [64, 36] },
  mental_rotation_2d: { size: [64, 64], panel: 64 },
  mental_rotation_3d_cube: { panel: 64 },
  mental_rotation_3d_objaverse: { panel: 32, samples: 1 },
  referring_dot_pointing: { size: [128, 96] },
  zoom_in_puzzle: { size: [96, 72], tile: 32 },
  video_unshuffle: { tile: 32 },
  svg: { size: 48 },
  fetch_reach: { size: 64 },
  fetch_pick_and_place: { size: 64 },
  primitive_skill: { size: 64 },
  navigation: { size: 64 },
};
const settings = ({ id, variants: [variant] }: Case): Options => ({
  ...SMALL[id.split("/")[0] ?? ""],
  ...(variant === "" ? {} : { variant }),
});

/** How often the first state is a solved one, where that is not (almost) never. */
const FLOORS: Readonly<Record<string, number>> = {
  // The share of colours within the tolerance; it depends on the images (VisGym's measured 9.5 % and 17 % on others).
  "colorization/easy (eval, hard strict)": 0.12,
  "colorization/easy (strict, hard eval)": 0.22,
  "colorization/easy (registered)": 0.019,
  "colorization/hard (registered)": 0.041,
  "mental_rotation_2d/easy": 21 / 360,
  "mental_rotation_2d/hard": 11 / 360,
  // The share of goals (a cube of 30 cm) that lie within 10 cm of its middle; a sample of the original gave 0.13.
  "fetch_reach/easy": 0.155,
  "fetch_pick_and_place/easy": 0.043,
  "video_unshuffle/easy": 1 / 24,
  "video_unshuffle/hard": 1 / 120,
  "zoom_in_puzzle/easy": 1 / 24,
  "zoom_in_puzzle/hard": 1 / 120,
};

/** `SACCADE_SHARE=3/16` makes this process the third of 16 that do the work together: of every list it takes each sixteenth. */
const [share, shares] = (process.env.SACCADE_SHARE ?? "1/1").split("/").map(Number) as [number, number];
if (!(share >= 1 && share <= shares)) throw new Error("SACCADE_SHARE must look like 3/16.");
const mine = (index: number) => index % shares === share - 1;
const seedsBelow = (count: number) => Array.from({ length: count }, (_, seed) => seed).filter(mine);

/** How much is played: `FULL` if SACCADE_CONFORMANCE=full, which `npm run prove -- conformance` sets, else `EVERYDAY`, or less where a world thinks long. */
type Budget = { readonly seeds: number; readonly replies: number };
const FULL: Budget = { seeds: 500, replies: 100_000 };
const EVERYDAY: Budget = { seeds: 500, replies: 10_000 };
const SLOW: Readonly<Record<string, Budget>> = {
  fetch_reach: { seeds: 150, replies: 2000 },
  fetch_pick_and_place: { seeds: 60, replies: 2000 },
  primitive_skill: { seeds: 6, replies: 80 },
  navigation: { seeds: 150, replies: 5000 },
};
function budget({ id }: Case): Budget {
  if (process.env.SACCADE_CONFORMANCE === "full") return FULL;
  return SLOW[id.split("/")[0] ?? ""] ?? EVERYDAY;
}
const STOPS = 500;

async function frame(world: World): Promise<Image> {
  const seen = await world.observe("image");
  const frame = Array.isArray(seen) ? seen.find((part) => part.type === "image")?.image : seen;
  if (!isImage(frame)) throw new Error("expected an image");
  return frame;
}

/** A few random actions, ignoring whether they help. */
async function wander(world: World, random: NumpyRandom, steps: number): Promise<void> {
  const lasting = world.actions.filter((spec) => !spec.ends);
  for (let step = 0; step < steps; step++) {
    const { ended } = await world.act(sampleAction(lasting, random));
    if (ended) return;
  }
}

const PROTOCOLS = ["tuple", "keyword", "think", "world-model", "tool-call"] as const;
/** What a reply is made of: noise alone, noise inside a good reply, a good reply that lost its start, a good reply. */
const SHAPES = ["noise", "inside", "cut", "good"] as const;
const HOSTILE = [
  "",
  " ",
  "\0",
  "\ud800",
  "(",
  "(".repeat(5000),
  "('move', ".repeat(800),
  "('move', 1e999)",
  "('move', -0)",
  "('move', [nan, inf, 0])",
  "('move', 99999999999999999999)",
  "('stop', 'stop",
  "<action>",
  "<action></action>",
  "<answer><answer>left</answer></answer>",
  "<think></think><answer>,,,,</answer>",
  '<tool_call>{"name":"move","arguments":{"__proto__":1}}</tool_call>',
  '<tool_call>{"name":"constructor","arguments":[]}</tool_call>',
  "<tool_call>{</tool_call>".repeat(200),
  "('__proto__', 0)",
  "('constructor', 0)",
  "('move', ((((((((0))))))))",
  "('move', 0) ('stop', 'stop'",
  "left right up down stop",
  "\u202e('move', 0)",
];

export function conforms(definition: WorldDefinition): void {
  for (const [index, it] of casesOf(definition).entries()) {
    describe(label(it), () => promises(it, mine(index + definition.id.length)));
  }
}

function promises(it: Case, whole: boolean): void {
  const { seeds, replies } = budget(it);
  const once = test.runIf(whole);

  test(`the oracle succeeds on ${seeds} seeds`, async () => {
    const world = await makeWorld(it.id, settings(it));
    const failed: number[] = [];
    for (const seed of seedsBelow(seeds)) {
      await world.reset(seed);
      let ended = false;
      let reward = 0;
      for (const action of (await world.solve?.()) ?? []) {
        const outcome = await world.act(action);
        reward += outcome.reward;
        ended = outcome.ended;
      }
      if (!(ended && (await world.success()) && reward === 1)) failed.push(seed);
    }
    expect(failed).toEqual([]);
  });

  once("the oracle finds its way back after random play", async () => {
    const world = await makeWorld(it.id, settings(it));
    let solvable = 0;
    for (let seed = 0; seed < Math.min(40, seeds); seed++) {
      await world.reset(seed);
      await wander(world, new NumpyRandom(seed), 8);
      const plan = (await world.solve?.()) ?? [];
      if (plan.length === 0) continue; // a box in a corner, a fall into a hole
      solvable += 1;
      for (const action of plan) await world.act(action);
      expect(await world.success(), `seed ${seed}`).toBe(true);
    }
    expect(solvable).toBeGreaterThan(Math.min(40, seeds) / 10);
  });

  once("stopping at once succeeds as often as is published, within three standard deviations", async () => {
    const world = await makeWorld(it.id, settings(it));
    const stop = world.actions.find((action) => action.name === "stop");
    if (stop === undefined) return; // these worlds end by themselves: an agent that does nothing earns nothing
    let solved = 0;
    for (let seed = 0; seed < STOPS; seed++) {
      await world.reset(seed);
      const outcome = await world.act({ name: "stop", payload: "stop" });
      expect(outcome.ended).toBe(true);
      if (await world.success()) solved += 1;
    }
    const floor = FLOORS[label(it)] ?? FLOORS[it.id];
    if (floor === undefined) expect(solved / STOPS).toBeLessThanOrEqual(0.02);
    else expect(Math.abs(solved / STOPS - floor)).toBeLessThanOrEqual(3 * Math.sqrt((floor * (1 - floor)) / STOPS));
  });

  once("a seed gives the same frame whatever was played before", async () => {
    const used = await makeWorld(it.id, settings(it));
    for (const seed of [0, 1, 7, 4_294_967_296, 9_007_199_254_740_991]) {
      const fresh = await makeWorld(it.id, settings(it));
      await fresh.reset(seed);
      await used.reset(seed + (seed > 10 ? -1 : 1));
      await wander(used, new NumpyRandom(seed), 12);
      await used.reset(seed);
      expect((await frame(used)).hash).toBe((await frame(fresh)).hash);
      expect(await used.save?.()).toEqual(await fresh.save?.());
    }
  });

  once("a saved episode has the same future when loaded elsewhere", async () => {
    for (let seed = 0; seed < Math.min(12, seeds); seed++) {
      const first = await makeWorld(it.id, settings(it));
      const second = await makeWorld(it.id, settings(it));
      await first.reset(seed);
      await wander(first, new NumpyRandom(seed), 5);
      const state = JSON.parse(JSON.stringify(await first.save?.()));
      await second.reset(seed + 1000);
      await second.load?.(state);
      const random = new NumpyRandom(seed);
      for (let step = 0; step < 10; step++) {
        expect((await frame(second)).hash).toBe((await frame(first)).hash);
        expect(await second.observe("text")).toEqual(await first.observe("text"));
        const action = sampleAction(first.actions, random);
        const outcome = await first.act(action);
        expect(await second.act(action)).toEqual(outcome);
        if (outcome.ended) break;
      }
      expect(await second.success()).toBe(await first.success());
    }
  });

  test(`${replies} random, malformed and adversarial replies never throw or end an episode by their form`, async () => {
    const envs = await Promise.all(
      PROTOCOLS.map((protocol) =>
        makeWorldEnv(it.id, { ...settings(it), protocol, observation: "text", maxTurns: 1e9 }),
      ),
    );
    // Cases draw different replies, so that together they try more than one could.
    const seed = crc32(label(it));
    const random = new NumpyRandom(seed);
    const junk = junkOf(seed);
    // Every hostile text alone and inside a good reply, in every protocol; then chance.
    const directed = HOSTILE.flatMap((noise) => (["noise", "inside"] as const).map((shape) => ({ noise, shape })));
    for (const env of envs) await env.reset(0);
    for (let index = share - 1; index < directed.length * envs.length + replies; index += shares) {
      const env = envs[index % envs.length] as (typeof envs)[number];
      const planned = directed[Math.floor(index / envs.length)];
      const shape = planned?.shape ?? SHAPES[random.integers(0, SHAPES.length)];
      const good = env.randomReply(random);
      const cut = random.integers(0, good.length);
      const noise = planned?.noise ?? (junk[random.integers(0, junk.length)] as string);
      const reply =
        shape === "noise"
          ? noise
          : shape === "inside"
            ? good.slice(0, cut) + noise + good.slice(cut)
            : shape === "cut"
              ? good.slice(cut)
              : good;
      const step = await env.step(reply);
      if (!step.info.parsed && (step.terminated || step.info.feedback === undefined)) {
        throw new Error(`a reply without an action must cost a turn and get feedback: ${JSON.stringify(reply)}`);
      }
      if (step.terminated) await env.reset(index);
    }
  });
}

/** Texts of any characters, lone surrogates among them, printable ones, JSON and hostile ones. */
function junkOf(seed: number): string[] {
  const character = fc.integer({ min: 0, max: 0x10ffff }).map((code) => String.fromCodePoint(code));
  const texts = [
    fc.string({ unit: character, maxLength: 60 }),
    fc.string({ maxLength: 200 }),
    fc.json(),
    fc.constantFrom(...HOSTILE),
  ];
  return fc.sample(fc.oneof(...texts), { seed, numRuns: 4000 });
}
