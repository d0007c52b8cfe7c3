import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import type { Image, Json } from "../../src/core/index.ts";
import { act } from "../../src/envs/index.ts";
import { drawSymbols, SymbolPainter } from "./glyphs.ts";
import { type MatchstickEquation, matchstickEquation } from "./matchstick-equation.ts";

type Golden = {
  seed: number;
  state: { broken: string[] };
  steps: { action: string; reward: number; terminated: boolean; ok: boolean }[];
  plan_len: number;
};
const golden = JSON.parse(
  readFileSync(new URL("./golden/matchstick_equation_easy.json", import.meta.url), "utf8"),
) as Golden[];

const make = (given: object = {}) =>
  matchstickEquation.create(matchstickEquation.options.parse(given)) as MatchstickEquation;

/** What the protocol would let through: a move of four numbers, undo or stop. */
function parse(text: string) {
  const [, name, payload] = /^\('(move|undo|stop)', (.+)\)$/.exec(text) ?? [];
  if (name === "undo" || name === "stop") return act(name);
  return name === "move" && payload?.startsWith("[") ? act("move", JSON.parse(payload)) : undefined;
}

function load(world: MatchstickEquation, equation: string, rest: object = {}) {
  world.load?.({ broken: [...equation], ...rest });
}

async function play(world: MatchstickEquation): Promise<number> {
  let reward = 0;
  for (const action of world.solve?.() ?? []) {
    const outcome = await world.act(action);
    expect(outcome.valid).toBe(true);
    reward = outcome.reward;
  }
  return reward;
}

describe("matchstick_equation", () => {
  test("recorded episodes of the original replay with the same rewards, ends and verdicts", async () => {
    for (const episode of golden) {
      const world = make();
      world.load?.(episode.state);
      expect(world.solve?.()).toHaveLength(episode.plan_len);
      for (const step of episode.steps) {
        const action = parse(step.action);
        const outcome = action ? await world.act(action) : { valid: false, reward: 0, ended: false };
        expect(outcome, `seed ${episode.seed}: ${step.action}`).toMatchObject({
          valid: step.ok,
          reward: step.reward,
          ended: step.terminated,
        });
      }
    }
  });

  test("a seed gives the original's equation", () => {
    const world = make();
    for (const { seed, state } of golden) {
      world.reset(seed);
      expect(world.save?.()).toMatchObject(state);
    }
  });

  test.each([1, 2, 3])(
    "broken by %d moves, an equation is wrong and takes exactly that many to repair",
    async (breakMoves) => {
      const world = make({ breakMoves });
      for (let seed = 0; seed < (breakMoves === 3 ? 10 : 60); seed++) {
        world.reset(seed);
        expect(world.solve?.(), `seed ${seed}`).toHaveLength(breakMoves + 1);
        expect(await play(world)).toBe(1);
        expect(world.success()).toBe(true);
      }
    },
  );

  test("without a minimum distance, two moves may be repaired by one", () => {
    const world = make({ breakMoves: 2, enforceMinDistance: false });
    const lengths = new Set<number>();
    for (let seed = 0; seed < 100; seed++) {
      world.reset(seed);
      lengths.add(world.solve?.().length ?? 0);
    }
    expect([...lengths].sort()).toEqual([2, 3]);
  });

  test("with no tries left, the first move that breaks 1+1=2 is made", async () => {
    const world = make({ retryLimit: 0 });
    expect(world.save?.()).toMatchObject({ broken: [..."7-1=2"] });
    expect(await play(world)).toBe(1);
  });

  test("any equation that holds is paid, and only by stop", async () => {
    const world = make();
    load(world, "5+3=8");
    expect(world.success()).toBe(false);
    expect(await world.act(act("stop"))).toMatchObject({ valid: true, reward: 1, ended: true });
    expect(world.success()).toBe(true);
    load(world, "5+3=9");
    expect(await world.act(act("stop"))).toMatchObject({ valid: true, reward: 0, ended: true });
    expect(await world.act(act("undo"))).toMatchObject({ valid: false, reward: 0, ended: true });
  });

  test.each([
    [[9, 0, 1, 0], /no symbol 9/],
    [[0, 0, 30, 0], /no symbol 30/],
    [[0, 0, 0, 1], /from one symbol to another/],
    [[0, 1, 2, 5], /no match on segment 1/],
    [[0, 4, 2, 0], /already has a match/],
    [[0, 0, 2, 5], /Without the match on segment 0/],
    [[0, 4, 2, 4], /With a match on segment 4/],
    [[3, 11, 2, 5], /Without the match on segment 11/],
  ])("in 6+3=8 the move %j changes nothing and says why", async (payload, why) => {
    const world = make();
    load(world, "6+3=8");
    const before = world.save?.();
    expect(await world.act(act("move", payload))).toMatchObject({
      valid: false,
      reward: 0,
      ended: false,
      feedback: expect.stringMatching(why),
    });
    expect(world.save?.()).toEqual(before);
  });

  test("moves are limited, undo gives one back, and there is nothing to undo at the start", async () => {
    const world = make();
    load(world, "6+3=8");
    expect(await world.act(act("undo"))).toMatchObject({ valid: false, feedback: expect.stringMatching(/no move/) });
    expect(await world.act(act("move", [0, 4, 2, 5]))).toMatchObject({ valid: true, reward: 0, ended: false });
    expect(world.save?.()).toMatchObject({ broken: [..."6+3=8"], moves: [[0, 4, 2, 5]] });
    expect(await world.act(act("move", [2, 5, 0, 4]))).toMatchObject({
      valid: false,
      feedback: expect.stringMatching(/undo/),
    });
    expect(await world.act(act("undo"))).toMatchObject({ valid: true });
    expect(world.save?.()).toMatchObject({ moves: [] });
  });

  test("a plan undoes moves that spent the budget, and no more of them than needed", async () => {
    const world = make({ breakMoves: 2 });
    world.reset(3);
    const [first, second] = world.solve?.() ?? [];
    await world.act(first!);
    expect(world.solve?.()).toEqual([second, act("stop")]);
    const wrong = wrongMove(world, second!.payload);
    expect(await world.act(act("move", wrong))).toMatchObject({ valid: true });
    expect(world.solve?.()).toEqual([act("undo"), second, act("stop")]);
    expect(await play(world)).toBe(1);
  });

  test("there is no plan where no repair exists", () => {
    const world = make();
    load(world, "4-4=4");
    expect(world.solve?.()).toEqual([]);
  });

  test("a saved state goes on and looks like the original", async () => {
    const [world, copy] = [make({ breakMoves: 2 }), make({ breakMoves: 2 })];
    world.reset(7);
    const [first] = world.solve?.() ?? [];
    await world.act(first!);
    copy.load?.(JSON.parse(JSON.stringify(world.save?.())));
    expect(copy.save?.()).toEqual(world.save?.());
    expect((copy.observe("image") as Image).hash).toBe((world.observe("image") as Image).hash);
    expect(copy.solve?.()).toEqual(world.solve?.());
    for (const action of [act("undo"), act("undo")]) expect(await copy.act(action)).toEqual(await world.act(action));
  });

  test.each([
    [{ broken: "6+3=8" }, /broken/],
    [{ broken: ["6", "x"] }, /broken/],
    [{ broken: [] }, /broken/],
    [{ broken: ["6", "+", "3"], moves: [[0, 0, 2, 5]] }, /moves\[0\]/],
    [{ broken: ["6", "+", "3"], moves: 3 }, /moves/],
    [{ broken: ["6"], stopped: "no" }, /stopped/],
    [null, /object/],
  ])("the state %j is refused by name", (state, message) => {
    expect(() => make().load?.(state as Json)).toThrow(message);
  });

  test("the text view has the original's marks", () => {
    const world = make();
    load(world, "83*1+/=");
    expect(world.observe("text")).toBe(
      [
        " ---   ---                               ",
        "|   |     |  \\ /      |   |      /   --- ",
        "|---|  ---|   /       |  -|-    /        ",
        "|   |     |  / \\      |   |    /         ",
        "|   |     |           |              --- ",
        " ---   ---                               ",
        "  0     1     2     3     4     5     6  ",
        "                                         ",
      ].join("\n"),
    );
  });
});

describe("the picture", () => {
  const equations = ["1+1=2", "73+10/2=33", "8*8-9=0//4", "6+6+6+6+6+6+6+6+6+6+6+6+6+6=88"];

  test.each([
    [300, 80],
    [160, 48],
    [100, 40],
    [600, 160],
    [50, 20],
  ])("put together from cached strips, equals the one drawn in full (%d × %d)", (width, height) => {
    const painter = new SymbolPainter(width, height);
    // Strips come from other equations of the same length than the one they are then used in.
    for (const equation of equations)
      painter.paint([...equation].map((symbol) => swap(symbol, "0123456789", "1234567890")));
    for (const equation of equations) painter.paint([...equation]);
    for (const equation of equations) {
      const mixed = [...equation].map((symbol, at) =>
        at % 2 === 0 ? swap(symbol, "0123456789", "1234567890") : symbol,
      );
      expect(painter.paint(mixed).hash, equation).toBe(drawSymbols(mixed, width, height).hash);
    }
  });

  test("every symbol looks different", () => {
    const hashes = [..."0123456789+-*/="].map((symbol) => drawSymbols([symbol], 60, 40).hash);
    expect(new Set(hashes).size).toBe(15);
  });

  test("is as large as asked for and has red heads on white", () => {
    const world = make();
    world.reset(0);
    const picture = world.observe("image") as Image;
    expect([picture.width, picture.height]).toEqual([300, 80]);
    const pixel = (x: number, y: number) => [...picture.data.subarray((y * 300 + x) * 3, (y * 300 + x) * 3 + 3)];
    expect(pixel(4, 4)).toEqual([200, 0, 0]);
    expect(pixel(13, 12)).toEqual([expect.closeTo(239, -1), expect.closeTo(213, -1), expect.closeTo(152, -1)]);
    expect(pixel(20, 30)).toEqual([255, 255, 255]);
  });
});

function swap(symbol: string, from: string, to: string): string {
  return to[from.indexOf(symbol)] ?? symbol;
}

/** A legal move other than the right one, after which the equation is still wrong. */
function wrongMove(world: MatchstickEquation, right: Json): number[] {
  const state = world.save?.() as { broken: string[]; moves: number[][] };
  const probe = make({ breakMoves: 3 });
  for (let code = 0; code < 8 * 7 * 8 * 13; code++) {
    const move = [Math.floor(code / 728), Math.floor(code / 104) % 7, Math.floor(code / 13) % 8, code % 13];
    if (JSON.stringify(move) === JSON.stringify(right)) continue;
    try {
      probe.load?.({ ...state, moves: [...state.moves, move] });
    } catch {
      continue;
    }
    if (probe.solve?.().length !== 1) return move;
  }
  throw new Error("every legal move repairs the equation");
}
