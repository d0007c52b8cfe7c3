import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { readText } from "./reader.ts";
import { cellsHold, holds, Luck, linksHold, matchClaims, shareOf, worthOf } from "./score.ts";
import { type Cell, GRID_AXES, linkedOf, type Place, type Placed, placedOf, type View } from "./view.ts";

const THINGS = { goal: { weight: 0.7 }, hole: { weight: 0.3 } };
const VIEW: View = { things: THINGS, axes: GRID_AXES, from: "player" };
const read = (text: string) => readText(text, VIEW).claims;
const TRUTH = read("goal: above, left; hole: below, same column; hole: same row, right");
/** In a hundred other states nothing of it is so, so that luck is next to nothing. */
const luck = new Luck(
  Array.from({ length: 5000 }, () => read("goal: below, right")),
  THINGS,
);
const worth = (text: string, before?: readonly Placed[]) =>
  worthOf(read(text), TRUTH, { things: THINGS, luck }, before);

describe("what claims are worth", () => {
  test.each([
    ["goal: above, left; hole: same row, right; hole: below, same column", 1],
    // Part of the truth is worth its share: the goal 0.7, half of it 0.35, one of two holes 0.15.
    ["goal: above, left", 0.7],
    ["goal: above", 0.35],
    ["hole: below, same column", 0.15],
  ])("what is so is worth its share of the truth: %s", (text, expected) => {
    expect(worth(text)).toBeCloseTo(expected, 12);
  });

  test.each([
    ["goal: above, right"],
    ["goal: above, left; hole: above, left"],
    ["goal: above, left; goal: below, right"],
    ["goal: above, left; hole: below, same column; hole: below, same column"],
    ["goal: above, left; goal: above, left"],
  ])("one false claim, or one thing too many, leaves nothing: %s", (text) => {
    expect(worth(text)).toBeLessThanOrEqual(0);
    expect(worth(text)).toBeGreaterThan(-0.01);
  });

  test("claiming nothing is worth nothing", () => expect(worth("Nothing to see.")).toBe(0));

  test("a prediction of what was so before is worth nothing, one of what changed its share", () => {
    const before = read("goal: above, same column; hole: below, same column; hole: same row, right");
    expect(worth("hole: below, same column", before)).toBe(0);
    expect(worth("goal: above, left", before)).toBeCloseTo(0.7, 12);
  });

  test("each claim is matched with a thing of its own", () => {
    const claims = read("hole: right; hole: below; goal: below");
    expect(matchClaims(claims, TRUTH).map((thing) => thing >= 0)).toEqual([true, true, false]);
    // The first gives way to the second, which has no other; of three that fit two things, two have one.
    const holes = read("hole: below, left; hole: below, right");
    expect(matchClaims(read("hole: below; hole: below, left"), holes)).toEqual([1, 0]);
    expect(matchClaims(read("hole: below; hole: below; hole: below"), holes).filter((thing) => thing < 0)).toEqual([
      -1,
    ]);
  });
});

test("numbered things are of one kind, and facts that the view does not list are left out", () => {
  const facts = [
    { subject: "hole 2", relations: ["above", "left"], object: "player" },
    { subject: "hole 2", relations: ["above", "left"], object: "goal 1" },
  ];
  expect(placedOf(facts, VIEW)).toEqual([{ kind: "hole", at: [0, 0] }]);
});

describe("what claims are drawn from", () => {
  const board = (["player", "goal", "hole", "hole"] as const).map((name, i) => {
    const cells: Cell[] = [
      [1, 1],
      [2, 3],
      [0, 0],
      [3, 1],
    ];
    return { name, cell: cells[i] as Cell };
  });
  const moved = (down: number, right: number) =>
    board.map(({ name, cell: [row, column] }) => ({ name, cell: [row + down, column + right] as const }));

  test("cells are so from whichever corner they are counted, at most one row and column off", () => {
    for (const [down, right] of [
      [0, 0],
      [1, 1],
      [-1, -1],
      [1, 0],
    ] as const) {
      expect(cellsHold(moved(down, right), board)).toBe(true);
    }
    expect(cellsHold(moved(2, 0), board)).toBe(false);
    expect(cellsHold(board.slice(0, 3), board)).toBe(true);
    expect(cellsHold([...board, { name: "hole", cell: [0, 0] }], board)).toBe(false);
  });

  test("cells of which one alone is moved, or has another name, are not so", () => {
    const step = fc.integer({ min: -3, max: 3 });
    fc.assert(
      fc.property(fc.nat(3), step, step, (which, down, right) => {
        fc.pre(down !== 0 || right !== 0);
        expect(
          cellsHold(
            board.map((one, i) => (i === which ? (moved(down, right)[i] as typeof one) : one)),
            board,
          ),
        ).toBe(false);
      }),
    );
    const exchanged = board.map(({ name, cell }, i) => ({ name: i === 1 ? "hole" : i === 2 ? "goal" : name, cell }));
    expect(cellsHold(exchanged, board)).toBe(false);
  });

  test("a link is so, is not so, or can't be told", () => {
    const link = (kind: string, from: string, ...at: (Place | undefined)[]) => [{ kind, from, at }];
    const seen = linkedOf([], board, VIEW);
    expect(linksHold(link("hole", "goal", undefined, 0), seen)).toBe(true);
    expect(linksHold(link("goal", "hole", undefined, 0), seen)).toBe(false);
    // One hole is above the goal, the other below.
    expect(linksHold(link("hole", "goal", 0), seen)).toBe(undefined);
    expect(linksHold(link("hole", "goal", 1), seen)).toBe(false);
    const told = linkedOf([{ subject: "hole 2", relations: ["above"], object: "goal" }], [], VIEW);
    expect(linksHold(link("goal", "hole", 2), told)).toBe(true);
    expect(linksHold(link("goal", "hole", 1), told)).toBe(false);
    expect(linksHold(link("goal", "hole", undefined, 1), told)).toBe(undefined);
    expect(linksHold(link("goal", "hole", 2), [])).toBe(undefined);
  });
});

const place = fc.constantFrom<Place>(0, 1, 2);
const thing = (places: fc.Arbitrary<Place | undefined>) =>
  fc.record({ kind: fc.constantFrom("goal", "hole"), at: fc.tuple(places, places) });
const state = fc.array(thing(place), { minLength: 1, maxLength: 4 });

test("words that are chosen without looking earn nothing in the mean, whatever they are", () => {
  const said = fc.array(thing(fc.option(place, { nil: undefined })), { minLength: 1, maxLength: 4 });
  fc.assert(
    fc.property(fc.array(state, { minLength: 20, maxLength: 60 }), said, (states, claims) => {
      const world = { things: THINGS, luck: new Luck(states, THINGS) };
      const mean = states.reduce((sum, truth) => sum + worthOf(claims, truth, world), 0) / states.length;
      expect(mean).toBeLessThanOrEqual(1e-12);
    }),
    { numRuns: 500 },
  );
});

test("where the prompt tells the names, what is so of things under any name earns nothing, and a look still does", () => {
  const COLORS = ["red", "blue", "green", "purple", "yellow"];
  const names = COLORS.flatMap((one) => COLORS.map((other) => `${one} from ${other}`));
  const things = Object.fromEntries(names.map((name) => [name, {}]));
  // Two things of any colours, one before, level with or behind the other, always at one height.
  const states = Array.from({ length: 120 }, (_, i): readonly [Placed] => [
    { kind: names[i % 25] as string, at: [(i % 3) as Place, (Math.floor(i / 3) % 3) as Place, 1 as Place] },
  ]);
  const mean = (say: (truth: Placed) => (Place | undefined)[], told: boolean) => {
    const luck = new Luck(states, things, told);
    const pays = states.map((truth) => {
      const [{ kind, at }] = truth;
      return worthOf([{ kind, at: say({ kind, at }) }], truth, { things, luck });
    });
    return pays.reduce((sum, pay) => sum + pay, 0) / pays.length;
  };
  const level = () => [undefined, undefined, 1 as Place];
  expect(mean(level, false)).toBeGreaterThan(0.3);
  expect(mean(level, true)).toBeLessThan(0.01);
  expect(mean(({ at }) => [...at], true)).toBeGreaterThan(0.95);
  expect(mean(() => [0, 0, 1], true)).toBeLessThanOrEqual(0);
});

test("the truth, and any part of it, is never worth less than silence", () => {
  fc.assert(
    fc.property(
      fc.array(state, { minLength: 5, maxLength: 30 }),
      state,
      fc.integer({ min: 1 }),
      (states, truth, mask) => {
        const part = truth
          .filter((_, i) => (mask >> i) & 1)
          .map(({ kind, at }) => ({ kind, at: [at[0], mask & 16 ? at[1] : undefined] }));
        expect(holds(part, truth)).toBe(true);
        expect(worthOf(part, truth, { things: THINGS, luck: new Luck(states, THINGS) })).toBeGreaterThanOrEqual(0);
        expect(shareOf(part, truth, THINGS)).toBeLessThanOrEqual(1);
      },
    ),
    { numRuns: 500 },
  );
});
