import { describe, expect, test } from "vitest";
import { evaluatePython, isEquationCorrect } from "./python-eval.ts";

describe("evaluatePython", () => {
  // Left: expression. Right: what CPython's eval gives (bigint = int, number = float, undefined = any exception).
  const cases: readonly (readonly [string, bigint | number | undefined])[] = [
    ["12+3*4", 24n],
    ["7-2-1", 4n],
    ["5+-3", 2n],
    ["--5", 5n],
    ["-+-2", 2n],
    ["6/4", 1.5],
    ["6/3", 2],
    ["7//2", 3n],
    ["-7//2", -4n],
    ["7//-2", -4n],
    ["-8//2", -4n],
    ["1/2//2", 0],
    ["-1/2//2", -1],
    ["7/2//1", 3],
    ["2**10", 1024n],
    ["-2**2", -4n],
    ["2**3**2", 512n],
    ["2**-1", 0.5],
    ["4**2**-1", 2],
    ["0**0", 1n],
    ["00", 0n],
    ["00**0", 1n],
    ["1**99999999999999999999", 1n],
    ["99999999999999999999-1", 99999999999999999998n],
    ["9007199254740993/1", 9007199254740992],
    ["10**400/10**399", 10],
    ["1/10**400", 0],
    ["10**20/3", 1e20 / 3],
    ["07", undefined],
    ["007", undefined],
    ["", undefined],
    ["5+", undefined],
    ["*5", undefined],
    ["2***3", undefined],
    ["2///3", undefined],
    ["2*/3", undefined],
    ["1/0", undefined],
    ["1//0", undefined],
    ["1/2//0", undefined],
    ["0**-1", undefined],
    ["10**400/1", undefined],
    ["10**400+1/2", undefined],
    ["1+2a", undefined],
    ["1 2", undefined],
  ];
  test.each(cases)("%s is what Python makes of it", (expression, value) => {
    expect(evaluatePython(expression)).toEqual(value);
  });

  test("refuses a power that no machine could hold, at once", () => {
    expect(evaluatePython("9**9**9**9")).toBeUndefined();
    expect(isEquationCorrect("9**9**9=9")).toBe(false);
  });
});

describe("isEquationCorrect", () => {
  test.each(["13+10*2=33", "10/4=5/2", "1/3=1/3", "00=0", "5=+5", "2**0=1", "99999999/99999998=1"])(
    "%s holds",
    (equation) => {
      expect(isEquationCorrect(equation)).toBe(true);
    },
  );
  test.each(["1+1=3", "=", "5=", "=5", "5", "1=1=1", "07=7", "1/0=1/0", "1/3=33/100", "999999/999998=1"])(
    "%s does not hold",
    (equation) => {
      expect(isEquationCorrect(equation)).toBe(false);
    },
  );
});
