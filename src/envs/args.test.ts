import { describe, expect, test } from "vitest";
import { EnvError } from "../core/errors.ts";
import { type ActionSpec, type ArgSpec, bare } from "./action.ts";
import { acceptAction, acceptPayload, actionText, describeArg, leavesOf, sampleAction } from "./args.ts";
import { PyFloat, PyTuple, parseLiteral } from "./python.ts";

const direction: ArgSpec = { type: "int", name: "direction", min: 0, max: 3, labels: ["right", "up", "left", "down"] };
const turn: ArgSpec = { type: "int", name: "turn", min: 1, max: 3 };
const unit: ArgSpec = { type: "real", name: "x", min: 0, max: 1 };
const any: ArgSpec = { type: "real", name: "dx" };
const hue: ArgSpec = { type: "real", name: "hue", min: -360, max: 360, whole: true };
const word: ArgSpec = { type: "word", maxLength: 4 };
const order: ArgSpec = { type: "permutation", name: "order", size: 3, start: 1 };
const cell: ArgSpec = { type: "tuple", items: [turn, direction] };
const cells: ArgSpec = { type: "tuple", items: [cell, cell] };

/** The payload that a Python literal gives, or "refused". */
function payload(arg: ArgSpec, literal: string) {
  const value = parseLiteral(literal);
  if (value === undefined) return "unread";
  const accepted = acceptPayload(arg, value);
  return accepted.ok ? accepted.payload : "refused";
}

describe("acceptPayload", () => {
  test.each([
    [direction, "0", 0],
    [direction, "3", 3],
    [direction, "True", 1],
    [direction, "4", "refused"],
    [direction, "-1", "refused"],
    [direction, "1.0", "refused"],
    [direction, "'1'", "refused"],
    [direction, "'right'", "refused"],
    [direction, "None", "refused"],
    [direction, "(1,)", "refused"],
    [turn, "0", "refused"],
    [turn, "1", 1],
    [unit, "0", 0],
    [unit, "1.0", 1],
    [unit, "True", 1],
    [unit, "1.0000001", "refused"],
    [unit, "-0.0", 0],
    [unit, "'0.5'", 0.5],
    [any, "-1e6", -1e6],
    [any, "1e999", "refused"],
    [hue, "30.7", 30],
    [hue, "-30.7", -30],
    [hue, "360.9", 360],
    [hue, "-0.3", 0],
    [hue, "361", "refused"],
    [word, "'stop'", "stop"],
    [word, "'x'", "x"],
    [word, "'A1'", "A1"],
    [word, "''", "refused"],
    [word, "'stop!'", "refused"],
    [word, "'stops'", "refused"],
    [word, "'é'", "refused"],
    [word, "0", "refused"],
    [order, "[3, 1, 2]", [3, 1, 2]],
    [order, "(3, 1, 2)", [3, 1, 2]],
    [order, "[3, 1, 1]", "refused"],
    [order, "[0, 1, 2]", "refused"],
    [order, "[3, 1, 2.0]", "refused"],
    [order, "[3, 1, 2, 2]", "refused"],
    [order, "3", "refused"],
    [cell, "(2, 3)", [2, 3]],
    [cell, "[2, 3]", [2, 3]],
    [cell, "(2, 3, 1)", "refused"],
    [cell, "(2,)", "refused"],
    [cell, "(2, 3.0)", "refused"],
    [cell, "(2, (3,))", "refused"],
    [cell, "2", "refused"],
    [
      cells,
      "((1, 0), [2, 1])",
      [
        [1, 0],
        [2, 1],
      ],
    ],
    [cells, "(1, 0, 2, 1)", "refused"],
  ] as const)("%j given %s comes out as %j", (arg, literal, expected) => {
    expect(payload(arg, literal)).toStrictEqual(expected);
  });

  test("takes JSON as it stands, and refuses what is not a number, objects included", () => {
    expect(
      acceptPayload(cells, [
        [1, 0],
        [2, 1],
      ]),
    ).toStrictEqual({
      ok: true,
      payload: [
        [1, 0],
        [2, 1],
      ],
    });
    expect(acceptPayload(unit, 0.5)).toStrictEqual({ ok: true, payload: 0.5 });
    expect(acceptPayload(direction, 0.5).ok).toBe(false);
    expect(acceptPayload(unit, Number.NaN).ok).toBe(false);
    expect(acceptPayload(unit, new PyFloat(Number.NEGATIVE_INFINITY)).ok).toBe(false);
    expect(acceptPayload(direction, { value: 1 }).ok).toBe(false);
    expect(acceptPayload(cell, new PyTuple([1, null])).ok).toBe(false);
  });

  test("a refusal names the argument and says which values fit", () => {
    const problem = (arg: ArgSpec) => acceptPayload(arg, null);
    expect(problem(direction)).toMatchObject({ problem: "direction must be 0 (right), 1 (up), 2 (left) or 3 (down)" });
    expect(problem(turn)).toMatchObject({ problem: "turn must be a whole number from 1 to 3" });
    expect(problem(cell)).toMatchObject({ problem: "the argument must hold 2 values, (turn, direction)" });
  });

  test("the word that an author chose fits its own action even with an underscore in it", () => {
    const spec = bare("turn_left", "turn left");
    expect(acceptAction(spec, "turn_left").ok).toBe(true);
    expect(acceptPayload(spec.arg, "turn_left").ok).toBe(false);
    expect(acceptAction(spec, "turn_right").ok).toBe(false);
  });
});

describe("what is said of arguments", () => {
  test("leaves have names of their own", () => {
    expect(leavesOf(cells).map(({ name }) => name)).toEqual(["turn", "direction", "turn_2", "direction_2"]);
  });

  test("describeArg gives every range", () => {
    expect(describeArg({ type: "list", items: [turn, unit, any, order] })).toBe(
      "turn: a whole number from 1 to 3; x: a number from 0 to 1; dx: any number; " +
        "order: the numbers 1 to 3, each once, in any order",
    );
    expect(describeArg({ type: "real", name: "x", min: 2 })).toBe("x: a number of at least 2");
    expect(describeArg(word)).toBe("no argument");
  });

  test.each([
    [{ name: "move", payload: 2 }, direction, true, "left"],
    [{ name: "move", payload: 2 }, direction, false, "move left"],
    [{ name: "slide", payload: [2, 0] }, cell, false, "slide 2 right"],
    [
      {
        name: "swap",
        payload: [
          [1, 3],
          [2, 0],
        ],
      },
      cells,
      false,
      "swap 1 down 2 right",
    ],
    [{ name: "order", payload: [3, 1, 2] }, order, false, "order 3 1 2"],
    [{ name: "shift", payload: [-3.5, 4] }, { type: "list", items: [any, any] }, false, "shift -3.5 4"],
    [{ name: "stop", payload: "x" }, word, false, "stop"],
  ] as const)("%j is written %4$s", (action, arg, shorthand, text) => {
    const spec: ActionSpec = { name: action.name, description: "", arg, example: action.payload, shorthand };
    expect(actionText(action, spec)).toBe(text);
  });

  test("a label that is no plain word is written as its number", () => {
    const arg: ArgSpec = { type: "int", name: "angle", min: 0, max: 1, labels: ["to the left", "90"] };
    const spec: ActionSpec = { name: "turn", description: "", arg, example: 0, shorthand: true };
    expect([0, 1].map((n) => actionText({ name: "turn", payload: n }, spec))).toEqual(["turn 0", "turn 1"]);
  });
});

describe("sampleAction", () => {
  const specs: ActionSpec[] = [
    ["move", direction],
    ["mark", { type: "tuple", items: [unit, unit] }],
    [
      "shift",
      { type: "list", items: [any, { type: "real", name: "y", min: 5 }, { type: "real", name: "z", max: -5 }] },
    ],
    ["hue", hue],
    ["order", order],
  ].map(([name, arg]) => ({ name: name as string, description: "", arg: arg as ArgSpec, example: 0 }));
  specs.push(bare("stop", "end"));

  /** A small generator, so that the test does not rest on another room's. */
  function draws(seed: number) {
    let state = seed;
    const random = () => {
      state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
      return state / 2 ** 32;
    };
    return { random, integers: (low: number, high: number) => low + Math.floor(random() * (high - low)) };
  }

  test("draws every action, and only payloads that fit", () => {
    const rng = draws(1);
    for (const spec of specs) {
      for (let i = 0; i < 100; i++) {
        const action = sampleAction([spec], rng);
        expect(action.name).toBe(spec.name);
        expect(acceptAction(spec, action.payload)).toStrictEqual({ ok: true, payload: action.payload });
      }
    }
  });

  test("draws evenly from all that can be done, not from the names", () => {
    const rng = draws(4);
    const spec = (name: string, arg: ArgSpec): ActionSpec => ({ name, description: "", arg, example: 0 });
    const counted = [spec("move", direction), spec("order", order), spec("cell", cell), bare("stop", "end")];
    const thousandths: ArgSpec = { type: "real", name: "x", min: 0, max: 0.002 };
    counted.push(
      spec("mark", thousandths),
      spec("whole", { type: "real", name: "n", min: -1.5, max: 1.5, whole: true }),
    );
    const seen = new Map<string, number>();
    for (let i = 0; i < 29 * 400; i++) {
      const { name, payload } = sampleAction(counted, rng);
      const key = name === "mark" ? name : JSON.stringify([name, payload]);
      seen.set(key, (seen.get(key) ?? 0) + 1);
    }
    // 4 ways to move, 6 orders, 12 cells, stop, 3 whole numbers; the ends of rounded reals come half as often.
    expect(seen.get("mark")).toBeGreaterThan(1000);
    seen.delete("mark");
    expect(seen.size).toBe(4 + 6 + 12 + 1 + 3);
    for (const count of seen.values()) expect(Math.abs(count - 400)).toBeLessThan(120);
  });

  test("unbounded reals lie in [-10, 10] with one decimal", () => {
    const rng = draws(2);
    const drawn = Array.from({ length: 200 }, () => sampleAction(specs.slice(2, 3), rng).payload as number[]);
    for (const [x] of drawn) {
      expect(Math.abs(x as number)).toBeLessThanOrEqual(10);
      expect(Number((x as number).toFixed(1))).toBe(x);
    }
    expect(Math.max(...drawn.map(([x]) => x as number))).toBeGreaterThan(8);
    expect(Math.min(...drawn.map(([x]) => x as number))).toBeLessThan(-8);
  });

  test("says so when there is nothing to draw from", () => {
    expect(() => sampleAction([], draws(3))).toThrow(EnvError);
  });
});
