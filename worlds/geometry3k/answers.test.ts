import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { answerOf, sameAnswer } from "./answers.ts";

describe("the same answer, said otherwise", () => {
  test.each([
    ["40", "40"],
    [" 40. ", "40"],
    ["\\boxed{40}", "40"],
    ["The answer is \\boxed{\\frac{1}{2}}", "0.5"],
    ["40°", "40"],
    ["40^\\circ", "40"],
    ["40^{\\circ}", "40"],
    ["40 degrees", "40"],
    ["x = 40", "40"],
    ["m\\angle ABC = 40", "40"],
    ["$40$", "40"],
    ["12 cm", "12"],
    ["12 \\text{ cm}^2", "12"],
    ["12 square units", "12"],
    ["12.5 m", "12.5"],
    ["45%", "45"],
    ["45\\%", "45"],
    ["1,234", "1234"],
    ["40.0", "40"],
    ["5\\sqrt{2}", "5 \\sqrt { 2 }"],
    ["5sqrt(2)", "5\\sqrt{2}"],
    ["5√2", "5\\sqrt{2}"],
    ["\\frac{10}{\\sqrt{2}}", "5\\sqrt{2}"],
    ["\\sqrt{50}", "5\\sqrt{2}"],
    ["\\sqrt[3]{16}", "2\\sqrt[3]{2}"],
    ["\\dfrac{3}{4}", "\\frac{3}{4}"],
    ["3/4", "\\frac{3}{4}"],
    ["0.75", "\\frac{3}{4}"],
    ["2 1/2", "\\frac{5}{2}"],
    ["2\\frac{1}{2}", "2.5"],
    ["\\frac12", "1/2"],
    ["49π", "49\\pi"],
    ["49 * pi", "49 \\pi"],
    ["64-16\\pi", "16(4-\\pi)"],
    ["2x+6", "2(x+3)"],
    ["-(-1.5)^2", "-2.25"],
    ["(2, 3)", "(2,3)"],
    ["(5, 120)", "(5,120)"],
    ["[1,000]", "[1,000]"],
    ["(\\sqrt{8}, 1)", "(2\\sqrt{2}, 1)"],
  ])("%s is %s", (given, truth) => {
    expect(sameAnswer(given, truth)).toBe(true);
  });
});

describe("another answer", () => {
  test.each([
    ["41", "40"],
    ["", "40"],
    ["forty", "40"],
    ["1.414", "\\sqrt{2}"],
    ["0.333", "\\frac{1}{3}"],
    ["-5", "5"],
    ["0.45", "45%"],
    ["x+y", "2x"],
    ["(2,3)", "[2,3]"],
    ["(5120)", "(5,120)"],
    ["(2,3)", "(3,2)"],
    ["1/0", "5"],
    // The grader wants whole numbers as such and fractions in lowest terms.
    ["\\sqrt{16}", "4"],
    ["8/2", "4"],
    ["2/4", "\\frac{1}{2}"],
    ["sin(30)", "\\frac{1}{2}"],
    ["40 or 41", "40"],
    ["2 1/2", "21/2"],
  ])("%s is not %s", (given, truth) => {
    expect(sameAnswer(given, truth)).toBe(false);
  });
});

test("fractions, roots and products of random numbers are compared by value", () => {
  fc.assert(
    fc.property(
      fc.integer({ min: 2, max: 30 }),
      fc.integer({ min: 2, max: 30 }),
      fc.integer({ min: 2, max: 9 }),
      (a, b, k) => {
        expect(sameAnswer(`\\sqrt{${a * k * k}}`, `${k}\\sqrt{${a}}`)).toBe(true);
        expect(sameAnswer(`\\frac{${a}\\pi}{${b}}`, `${a}/${b}*pi`)).toBe(true);
        expect(sameAnswer(`${a}\\sqrt{${b}}+1`, `1+${a}*sqrt(${b})`)).toBe(true);
        expect(sameAnswer(`${a}\\sqrt{${b}}+1`, `2+${a}*sqrt(${b})`)).toBe(false);
      },
    ),
    { numRuns: 300 },
  );
});

test("no text makes it throw, or take long", () => {
  const pieces = [
    "\\frac",
    "{",
    "}",
    "(",
    ")",
    "\\sqrt",
    "12",
    "^",
    "-",
    "/",
    "x",
    "\\boxed",
    "π",
    " ",
    ",",
    "\\text{",
    "🙂",
  ];
  fc.assert(
    fc.property(fc.array(fc.constantFrom(...pieces), { maxLength: 60 }), (parts) => {
      expect(typeof sameAnswer(parts.join(""), "40")).toBe("boolean");
    }),
    { numRuns: 2000 },
  );
  for (const piece of pieces) expect(sameAnswer(piece.repeat(20_000), "40")).toBe(false);
});

test("a reply without a call answers in its last box, or in its last line", () => {
  expect(answerOf("so \\boxed{3}, no, \\boxed{\\frac{1}{2}}.\nDone.")).toBe("\\frac{1}{2}");
  expect(answerOf("I think\nx = 4\n\n")).toBe("x = 4");
  expect(answerOf("")).toBe("");
});
