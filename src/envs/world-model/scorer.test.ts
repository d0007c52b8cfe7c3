/** What the program scorer pays in real worlds: the truth its full worth, and whatever does not look nothing. */
import { describe, expect, test } from "vitest";
import { NumpyRandom } from "../../core/random-numpy.ts";
import "../index.ts";
import { makeWorldEnv } from "../registry.ts";
import type { WorldEnv } from "../world-env.ts";
import { describePlaces } from "./speak.ts";
import { GRID_AXES, type Place, type Placed, placedOf, type View } from "./view.ts";

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
  const view = env.options.view as View;
  let turns = 0;
  for (let seed = 50_000; seed < 50_250; seed++) {
    await env.reset(seed);
    const random = new NumpyRandom(seed);
    for (;;) {
      const { world, protocol } = env;
      const now = placedOf((await world.facts?.()) ?? [], view);
      const { actions } = protocol.parse(
        (await env.builtinReply("random", random.integers(0, 1e9))) ?? "",
        world.actions,
      );
      const state = (await world.save?.()) ?? null;
      await world.act(actions[0] as (typeof actions)[number]);
      const next = placedOf((await world.facts?.()) ?? [], view);
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
  const view: View = { things: {}, axes: GRID_AXES, from: "player" };
  const say = (things: readonly Placed[]) => describePlaces(things, view, "lines", "brief");
  const anywhere = (things: readonly Placed[], random: NumpyRandom) =>
    things.map(({ kind }) => ({ kind, at: [random.integers(0, 3) as Place, random.integers(0, 3) as Place] }));

  test("the truth earns all of the state's pay, and something wherever a move changed what can be said", async () => {
    const paid = await meanPay(await env(), (now, next) => ({ observation: say(now), prediction: say(next) }));
    expect(paid.state).toBeCloseTo(1, 10);
    expect(paid.transition).toBeGreaterThan(0.2);
  });

  test("chance earns nothing", async () => {
    const paid = await meanPay(await env(), (now, _, random) => ({
      observation: say(anywhere(now, random)),
      prediction: say(anywhere(now, random)),
    }));
    expect(paid.state).toBeLessThanOrEqual(0.02);
    expect(paid.transition).toBeLessThanOrEqual(0.02);
  });

  test("no stock phrase, said in every episode, earns anything", async () => {
    const kinds = Object.keys((await env()).options.view?.things ?? {});
    const both = (words: string) => kinds.map((kind) => `${kind}: ${words}`).join("; ");
    for (const phrase of [both("below, right"), both("below"), `${kinds[0]}: right`, `${kinds[1]}: same column`]) {
      const paid = await meanPay(await env(), () => ({ observation: phrase, prediction: phrase }));
      expect(paid.state, phrase).toBeLessThanOrEqual(0.02);
      expect(paid.transition, phrase).toBeLessThanOrEqual(0.02);
    }
  });

  test("what is copied earns nothing: another episode's description, or the present as the future", async () => {
    const paid = await meanPay(await env(), (now) => ({ observation: "", prediction: say(now) }));
    expect(paid.transition).toBeLessThanOrEqual(0);
    const episodes: string[] = [];
    const other = await meanPay(await env(), (now) => {
      episodes.push(say(now));
      return { observation: episodes[Math.max(0, episodes.length - 40)] as string, prediction: "" };
    });
    expect(other.state).toBeLessThanOrEqual(0.02);
  });
});

/** The box is below and right of the player, the target above and right. */
const ROOM = ["#######", "#___O_#", "#_P___#", "#___X_#", "#_____#", "#######"];

test.each([
  ["box: below, right; target: above, right", 1],
  ['{"box": ["below", "right"], "target": ["above", "right"]}', 1],
  [ROOM.join("\n"), 1],
  ["player: (2, 2); box: (3, 4); target: (1, 4)", 1],
  ["The box is below and right of me, the target is above and right of me.", 1],
  // True, and less than all of it: no less than silence.
  ["The box is to the right of the player, and the target is above the box.", 0],
  ["The box is to the right of the player.", 0.25],
  ["The box sits a little further down, off to my right; look up and right for the target.", 0],
  // Asked, supposed, denied; more things than there are; another place.
  ["Is the box below and right of me? Is the target above and right of me?", 0],
  ["If I am not mistaken, the box is below and right of me, and the target is above and right of me.", 0],
  ["The box is below and right of me, the target is above and right of me. None of this is true.", 0],
  ["box: below, right; box: above, left; target: above, right; target: below, left", 0],
  ["The target is in the top right corner.", 0],
  // One of four words is wrong.
  ["box: below, right; target: above, left", 0],
  // Cells are counted from 0 or 1, or without the walls around; all directions are right below, and one cell is not.
  ["player: (3, 3); box: (4, 5); target: (2, 5)", 1],
  ["{'player': (1, 1), 'box': (2, 3), 'target': (0, 3)}", 1],
  [ROOM.slice(1, -1).join("\n"), 1],
  ["player: (2, 2); box: (3, 4); target: (1, 5)", 0],
  ["player: (2, 2); box: (3, 4); target: (0, 4)", 0],
  ["{'player': (2, 2), 'box': (4, 4), 'target': (1, 4)}", 0],
  ["player: (98, 97); box: (99, 99); target: (97, 99)", 0],
  ["#######\n#____O#\n#_P___#\n#___X_#\n#_____#\n#######", 0],
  ["#######\n#__#O_#\n#_P___#\n#___X_#\n#_____#\n#######", 0],
  // A place that is seen from another thing must be so as well.
  ["box: below, right; target: above, right of the player", 1],
  ["The box is below and right of me. The target is above me and in the same column as the box.", 1],
  ["The box is below and right of me. The target is above me and right of the box.", 0],
])("sokoban pays %j", async (said, expected) => {
  const env = await makeWorldEnv("sokoban", OPTIONS);
  await env.reset(0);
  await env.world.load?.({ rows: ROOM });
  const { rewards } = await env.step(`<observation>${said}</observation><answer>up</answer><prediction></prediction>`);
  const value = rewards.find(({ name }) => name === "state")?.value ?? 0;
  if (expected > 0) expect(value).toBeCloseTo(expected, 10);
  else expect(Math.abs(value)).toBeLessThanOrEqual(0.02);
});

/** The cells of a board's things, as `player: (2, 2); box: …`. */
async function cellsOf({ world, options }: WorldEnv): Promise<{ name: string; row: number; column: number }[]> {
  const lines = String(await world.observe("text")).split("\n");
  const legend = options.view?.legend ?? {};
  const rows = lines.map((line) => [...(legend[" "] === undefined ? line.replace(/\s/g, "") : line)]);
  return rows.flatMap((symbols, row) =>
    symbols.flatMap((symbol, column) => (legend[symbol] ?? []).map((name) => ({ name, row, column }))),
  );
}

test.each(["sokoban", "frozen_lake"])(
  "%s: all cells earn all of the pay, now and foreseen, counted from 0 or 1, and with one cell moved nothing",
  async (id) => {
    const env = await makeWorldEnv(id, OPTIONS);
    const random = new NumpyRandom(7);
    let foreseen = 0;
    for (let seed = 60_000; seed < 60_060; seed++) {
      await env.reset(seed);
      const { actions } = env.protocol.parse((await env.builtinReply("random", seed)) ?? "", env.world.actions);
      const state = (await env.world.save?.()) ?? null;
      const now = await cellsOf(env);
      await env.world.act(actions[0] as (typeof actions)[number]);
      const next = await cellsOf(env);
      const paid = async (change: (list: typeof now) => typeof now) => {
        await env.reset(seed);
        await env.world.load?.(state);
        const say = (list: typeof now) =>
          change(list)
            .map(({ name, row, column }) => `${name}: (${row}, ${column})`)
            .join("; ");
        const sections = { observation: say(now), prediction: say(next) };
        const { rewards } = await env.step(env.protocol.print(actions, env.world.actions, sections));
        return ["state", "transition"].map((part) => rewards.find(({ name }) => name === part)?.value ?? 0);
      };
      const [seen = 0, told = 0] = await paid((list) => list);
      expect(seen).toBeGreaterThan(0.5);
      expect(told).toBeGreaterThanOrEqual(0);
      if (told > 0.5) foreseen += 1;
      const shift = random.integers(0, 2);
      expect(
        await paid((list) => list.map((one) => ({ ...one, row: one.row + 1, column: one.column + shift }))),
      ).toEqual([seen, told]);
      const wrong = random.integers(0, now.length);
      const [down, right] = [random.integers(-1, 2), random.integers(1, 3)];
      const moved = await paid((list) =>
        list.map((one, i) =>
          i === wrong ? { ...one, row: Math.max(0, one.row + down), column: one.column + right } : one,
        ),
      );
      expect(Math.max(...moved)).toBeLessThanOrEqual(0);
    }
    expect(foreseen).toBeGreaterThan(5);
  },
);

test("without cells, facts about two things decide what is seen from another thing", async () => {
  const env = await makeWorldEnv("fetch_pick_and_place", OPTIONS);
  const axes = env.options.view?.axes ?? [];
  const paid = new Map<boolean, number[]>([
    [true, []],
    [false, []],
  ]);
  for (let seed = 0; seed < 24; seed++) {
    await env.reset(seed);
    const facts = (await env.world.facts?.()) ?? [];
    const from = (subject: string, object: string) =>
      facts.find((fact) => fact.subject === subject && fact.object === object)?.relations ?? [];
    const [cube, ball, between] = [from("cube", "gripper"), from("ball", "gripper"), from("ball", "cube")];
    // Both on one side of the gripper: what is said of the ball follows, whichever side of the cube it is on.
    if (cube[1] === axes[1]?.[1] || ball[1] !== cube[1]) continue;
    const said = `cube: ${cube.join(", ")}; ball: ${cube[1]} of the cube`;
    const { actions } = env.protocol.parse((await env.builtinReply("random", seed)) ?? "", env.world.actions);
    const { rewards } = await env.step(
      env.protocol.print(actions, env.world.actions, { observation: said, prediction: "" }),
    );
    paid.get(between[1] === cube[1])?.push(rewards.find(({ name }) => name === "state")?.value ?? 0);
  }
  expect(paid.get(true)?.length).toBeGreaterThan(0);
  expect(Math.min(...(paid.get(true) ?? []))).toBeGreaterThan(0.3);
  expect(paid.get(false)?.length).toBeGreaterThan(0);
  expect(Math.max(...(paid.get(false) ?? []))).toBeLessThanOrEqual(0);
});

test("a thing that another one hides has no cell on the board, so cells are neither paid nor charged", async () => {
  const env = await makeWorldEnv("maze_2d", { ...OPTIONS, maxTurns: 20 });
  await env.reset(0);
  const plan = (await env.world.solve?.()) ?? [];
  for (const action of plan.slice(0, -1)) await env.world.act(action);
  expect(await env.world.facts?.()).toMatchObject([{ relations: ["same row", "same column"] }]);
  const [{ row, column } = { row: 0, column: 0 }, ...others] = await cellsOf(env);
  expect(others).toEqual([]);
  const state = (await env.world.save?.()) ?? null;
  for (const said of [`player: (${row}, ${column}); target: (${row}, ${column})`, "player: (1, 1); target: (1, 2)"]) {
    await env.reset(0);
    await env.world.load?.(state);
    const reply = env.protocol.print(plan.slice(-1), env.world.actions, { observation: said, prediction: "" });
    const { rewards } = await env.step(reply);
    expect(rewards.find(({ name }) => name === "state")?.value).toBe(0);
  }
});

test("each part is paid on its own tag, marks its claims, and says nothing where nothing was claimed or the form is wrong", async () => {
  const board = ["SFF", "FHF", "FFG"];
  const env = await makeWorldEnv("frozen_lake", { ...OPTIONS, board, minSteps: 1 });
  await env.reset(0);
  const reply =
    "<observation>The goal is below and right of me. A hole is above me.</observation><answer>right</answer>" +
    "<prediction>goal: below, right; hole: below, same column</prediction>";
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
  expect(state?.value).toBeLessThanOrEqual(0);
  expect(reply.slice(...(transition?.span ?? ([0, 0] as const)))).toMatch(/^goal: below/);
  // On a board of one's own every state is nearly the same, so little is foreseen; it is true, and no less than silence.
  expect(transition?.value).toBeGreaterThan(0);
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
