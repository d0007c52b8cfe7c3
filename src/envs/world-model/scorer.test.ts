/** What the program scorer pays in real worlds: the truth its full worth, and whatever does not look nothing. */
import { describe, expect, test } from "vitest";
import { NumpyRandom } from "../../core/random-numpy.ts";
import "../index.ts";
import { makeWorldEnv } from "../registry.ts";
import type { WorldEnv } from "../world-env.ts";
import { builtinWorlds } from "../worlds/index.ts";
import type { Placed } from "./reader.ts";
import { HORIZONTAL, VERTICAL } from "./reader.ts";
import { placedOf } from "./score.ts";
import { worldBaseline } from "./scorer.ts";
import { describePlaces } from "./speak.ts";

const PAY = { state: 1, transition: 1 };
const OPTIONS = {
  protocol: { name: "world-model", thinking: "free", maxActions: 1 },
  worldModel: PAY,
  maxTurns: 3,
} as const;

/** Says `observation` and `prediction` of the state at hand and plays at random; the mean of each part over episodes. */
async function meanPay(
  env: WorldEnv,
  speak: (
    now: readonly Placed[],
    next: readonly Placed[],
    random: NumpyRandom,
  ) => { observation: string; prediction: string },
): Promise<Record<"state" | "transition", number>> {
  const sums = { state: 0, transition: 0 };
  let turns = 0;
  for (let seed = 50_000; seed < 50_250; seed++) {
    await env.reset(seed);
    const random = new NumpyRandom(seed);
    for (;;) {
      const { world, protocol } = env;
      const now = placedOf((await world.facts?.()) ?? []);
      const { actions } = protocol.parse(
        (await env.builtinReply("random", random.integers(0, 1e9))) ?? "",
        world.actions,
      );
      const state = (await world.save?.()) ?? null;
      await world.act(actions[0] as (typeof actions)[number]);
      const next = placedOf((await world.facts?.()) ?? []);
      await world.load?.(state);
      const step = await env.step(protocol.print(actions, world.actions, speak(now, next, random)));
      expect(step.info.wellFormed).toBe(true);
      for (const name of ["state", "transition"] as const) {
        const parts = step.rewards.filter((part) => part.name === name);
        expect(parts).toHaveLength(1);
        sums[name] += parts[0]?.value ?? 0;
      }
      turns += 1;
      if (step.terminated || step.truncated) break;
    }
  }
  return { state: sums.state / turns, transition: sums.transition / turns };
}

describe.each([
  ["frozen_lake", { minSteps: 3 }],
  ["sokoban", {}],
])("%s", (id, options) => {
  const env = () => makeWorldEnv(id, { ...OPTIONS, ...options });
  const brief = (things: readonly Placed[], random: NumpyRandom) => describePlaces(things, random, "brief", "now");
  const anywhere = (things: readonly Placed[], random: NumpyRandom) =>
    things.map(({ kind }) => ({
      kind,
      vertical: VERTICAL[random.integers(0, 3)] as (typeof VERTICAL)[number],
      horizontal: HORIZONTAL[random.integers(0, 3)] as (typeof HORIZONTAL)[number],
    }));

  test("the truth earns all of the state's pay, and something wherever a move changed what can be said", async () => {
    const paid = await meanPay(await env(), (now, next, random) => ({
      observation: brief(now, random),
      prediction: brief(next, random),
    }));
    expect(paid.state).toBeCloseTo(1, 10);
    expect(paid.transition).toBeGreaterThan(0.2);
  });

  test("chance earns nothing", async () => {
    const paid = await meanPay(await env(), (now, _, random) => ({
      observation: brief(anywhere(now, random), random),
      prediction: brief(anywhere(now, random), random),
    }));
    expect(paid.state).toBeLessThanOrEqual(0.02);
    expect(paid.transition).toBeLessThanOrEqual(0.02);
  });

  test("the best stock phrase, said in every episode, earns nothing", async () => {
    const definition = builtinWorlds.find((world) => world.id === id);
    const things = definition?.things ?? {};
    const given = definition?.options.parse(options) ?? {};
    const make = async () => (definition as NonNullable<typeof definition>).create(given);
    const { answer } = await worldBaseline(JSON.stringify([id, things, given]), things, make);
    expect(answer.length).toBeGreaterThan(0);
    const phrase = brief(answer, new NumpyRandom(0));
    const paid = await meanPay(await env(), () => ({ observation: phrase, prediction: phrase }));
    expect(paid.state).toBeLessThanOrEqual(0.02);
    expect(paid.transition).toBeLessThanOrEqual(0.02);
  });

  test("what is copied earns nothing: another episode's description, or the present as the future", async () => {
    let last = "";
    const paid = await meanPay(await env(), (now, _, random) => {
      const words = brief(now, random);
      const told = { observation: last === "" ? "nothing" : last, prediction: words };
      last = words;
      return told;
    });
    expect(paid.transition).toBeLessThanOrEqual(0.02);
    const episodes: string[] = [];
    const other = await meanPay(await env(), (now, _, random) => {
      episodes.push(brief(now, random));
      return { observation: episodes[Math.max(0, episodes.length - 40)] as string, prediction: "" };
    });
    expect(other.state).toBeLessThanOrEqual(0.02);
  });
});

test("each part is paid on its own tag, marks its claims, and says nothing where nothing was claimed or the form is wrong", async () => {
  const board = ["SFF", "FHF", "FFG"];
  const env = await makeWorldEnv("frozen_lake", { ...OPTIONS, board, minSteps: 1 });
  await env.reset(0);
  const reply =
    "<observation>The goal is below and right of me. A hole is above me.</observation><answer>right</answer>" +
    "<prediction>The goal will be below and right of me; the hole will be straight below me.</prediction>";
  const { rewards } = await env.step(reply);
  const [state, transition] = [
    rewards.find(({ name }) => name === "state"),
    rewards.find(({ name }) => name === "transition"),
  ];
  expect(reply.slice(...(state?.span ?? ([0, 0] as const)))).toBe(
    "The goal is below and right of me. A hole is above me.",
  );
  expect(state?.claims?.map(({ span, right }) => [reply.slice(...span), right])).toEqual([
    ["goal is below and right of me", true],
    ["hole is above me", false],
  ]);
  expect(reply.slice(...(transition?.span ?? ([0, 0] as const)))).toMatch(/^The goal will be/);
  // All of it is so, and it is not what was so before.
  expect(transition?.value).toBe(1);
  const silent = await env.step("<observation>nice</observation><answer>down</answer><prediction>fine</prediction>");
  expect(
    silent.rewards.filter(({ name }) => name === "state" || name === "transition").map(({ value }) => value),
  ).toEqual([0, 0]);
  await env.reset(0);
  const broken = await env.step("<observation>The goal is below and right of me.</observation>");
  expect(broken.rewards.map(({ name }) => name)).toEqual(["task", "format"]);
});

test("a world without facts says what is missing", async () => {
  await expect(makeWorldEnv("color_codeword", { worldModel: { state: 1 } })).rejects.toThrow("has no facts");
});
