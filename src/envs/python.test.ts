import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { ArgSpec } from "./action.ts";
import { PyFloat, PyTuple, parseLiteral, printLiteral, printString, readTupleAt } from "./python.ts";

const float = (value: number) => new PyFloat(value);
const tuple = (...items: ConstructorParameters<typeof PyTuple>[0]) => new PyTuple(items);

describe("parseLiteral", () => {
  test.each([
    ["3", 3],
    [" -3 ", -3],
    ["+ 7", 7],
    ["-0", 0],
    ["00", 0],
    ["1_000", 1000],
    ["0x1F", 31],
    ["0b101", 5],
    ["0o17", 15],
    ["9007199254740991", Number.MAX_SAFE_INTEGER],
    ["-99999999999999999999", -1e20],
    ["1.0", float(1)],
    ["5.", float(5)],
    [".5e-3", float(0.0005)],
    ["1e3", float(1000)],
    ["1E+2", float(100)],
    ["-1.5e-07", float(-1.5e-7)],
    ["01.5", float(1.5)],
    ["1e999", float(Number.POSITIVE_INFINITY)],
    ["True", true],
    ["False", false],
    ["None", null],
    ["'a'", "a"],
    ['"it\'s"', "it's"],
    ["'it\\'s'", "it's"],
    ["'\\n\\t\\\\\\x41\\u00e9\\U0001F600\\101\\d'", "\n\t\\Aé😀A\\d"],
    ["'''a\n'b''\nc'''", "a\n'b''\nc"],
    ['""', ""],
    ["'a' \"b\"", "ab"],
    ["()", tuple()],
    ["(1)", 1],
    ["(1,)", tuple(1)],
    ["1, 2", tuple(1, 2)],
    ["'stop',", tuple("stop")],
    ["('move', 0)", tuple("move", 0)],
    ["('mark', (0.5, 0.5))", tuple("mark", tuple(float(0.5), float(0.5)))],
    ["( 'move' ,\n[ 1 , 2, ] , )", tuple("move", [1, 2])],
    ["[]", []],
    ["[[1, 2], (3,)]", [[1, 2], tuple(3)]],
  ])("reads %s as Python does", (text, value) => {
    expect(parseLiteral(text)).toStrictEqual(value);
  });

  test.each([
    "",
    " ",
    "move",
    "(move, 0)",
    "012",
    "1__0",
    "1_",
    "0x",
    "1.2.3",
    "1e",
    "-",
    "-True",
    "-'a'",
    "1j",
    "1 2",
    "1+2",
    "--2",
    "+-2",
    "nan",
    "inf",
    "'a",
    "'a\nb'",
    "'''a''",
    "'\\x4'",
    "'\\U00110000'",
    "'\\N{BULLET}'",
    "'\\",
    "b'a'",
    "(,)",
    "[1,,2]",
    "(1",
    "1)",
    "(1]",
    "{1: 2}",
    "{1}",
    "Truex",
    "True()",
    "1\u0000",
  ])("does not read %j", (text) => {
    expect(parseLiteral(text)).toBeUndefined();
  });

  test("reads nesting up to its limit and gives up beyond it without overflowing the stack", () => {
    const nested = (depth: number) => "[".repeat(depth) + "]".repeat(depth);
    expect(parseLiteral(nested(64))).toBeDefined();
    expect(parseLiteral(nested(65))).toBeUndefined();
    expect(parseLiteral(nested(100_000))).toBeUndefined();
    expect(parseLiteral("(".repeat(100_000))).toBeUndefined();
    expect(parseLiteral(`${"-".repeat(100_000)}1`)).toBeUndefined();
    expect(parseLiteral("1".repeat(100_000))).toBeUndefined();
  });

  test("never throws, whatever the text", () => {
    const soup = fc.string({
      unit: fc.constantFrom(..."()[]'\",.+-_0123456789eExT\\\n \u0000\ud800😀"),
      maxLength: 60,
    });
    fc.assert(fc.property(fc.oneof(soup, fc.string({ unit: "binary" })), (text) => void parseLiteral(text)));
  });
});

describe("readTupleAt", () => {
  test("stops at the closing bracket, whatever follows", () => {
    const text = "go ('say', ':)') now)";
    expect(readTupleAt(text, 3, text.length, false)).toStrictEqual({ tuple: tuple("say", ":)"), end: 16 });
    expect(readTupleAt(text, 3, 15, false)).toBeUndefined();
  });

  test("takes an unquoted name only at the head, and only when asked", () => {
    expect(readTupleAt("(move, 0)", 0, 9, true)?.tuple).toStrictEqual(tuple("move", 0));
    expect(readTupleAt("(move, 0)", 0, 9, false)).toBeUndefined();
    expect(readTupleAt("(stop, stop)", 0, 12, true)).toBeUndefined();
  });
});

describe("printLiteral", () => {
  const int: ArgSpec = { type: "int", name: "n", min: -1e9, max: 1e9 };
  const real: ArgSpec = { type: "real", name: "x" };
  test.each([
    [3, int, "3"],
    [1, real, "1.0"],
    [-0.5, real, "-0.5"],
    [1e-7, real, "1e-07"],
    [1.5e-5, real, "1.5e-05"],
    [0.0001, real, "0.0001"],
    [1e16, real, "1e+16"],
    [123456789012345, real, "123456789012345.0"],
    [1e300, real, "1e+300"],
    [30, { ...real, whole: true }, "30"],
    [2 ** 53, { ...real, whole: true }, "9007199254740992.0"],
    ["stop", { type: "word", maxLength: 4 }, "'stop'"],
    [[2, 0, 1], { type: "permutation", name: "order", size: 3, start: 0 }, "[2, 0, 1]"],
    [[0, 2, 3], { type: "tuple", items: [int, int, int] }, "(0, 2, 3)"],
    [[1, 2], { type: "list", items: [int, int] }, "[1, 2]"],
    [[5], { type: "tuple", items: [int] }, "(5,)"],
    [
      [
        [0, 1],
        [1, 0.5],
      ],
      {
        type: "tuple",
        items: [
          { type: "tuple", items: [int, int] },
          { type: "list", items: [int, real] },
        ],
      },
      "((0, 1), [1, 0.5])",
    ],
  ] as const)("prints %j as %s", (value, arg, text) => {
    expect(printLiteral(value, arg as ArgSpec)).toBe(text);
  });

  test("reals read back exactly", () => {
    fc.assert(
      fc.property(fc.double({ noNaN: true, noDefaultInfinity: true }), (value) => {
        expect(parseLiteral(printLiteral(value, real))).toStrictEqual(new PyFloat(value));
      }),
    );
  });

  test("strings read back exactly, lone surrogates and control characters too", () => {
    fc.assert(
      fc.property(
        fc.string({ unit: fc.constantFrom(..."ab'\"\\\n\r\t\u0000\u007f\ud800\udc00é😀\u2028") }),
        (value) => {
          expect(parseLiteral(printString(value))).toBe(value);
        },
      ),
    );
  });
});
