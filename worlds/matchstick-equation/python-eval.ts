/**
 * Arithmetic as Python's `eval` does it, for expressions made of digits and `+ - * /`. Equations are judged by it, so
 * the odd corners count: `**` is power (right-associative, tighter than a sign on its left), `//` floors, `/` gives
 * floats, whole numbers have no limit (BigInt), `00` is zero but `07` is no number. Whatever Python would refuse or
 * raise (syntax, division by zero, overflow to float) is `undefined`.
 * One deliberate limit: a power of more than `MAX_POWER_BITS` bits is refused, where Python would try for hours.
 */

/** A Python int or a Python float. */
export type PythonNumber = bigint | number;

export const MAX_POWER_BITS = 1 << 16;
const EQUAL_WITHIN = 1e-6;

/** Exactly one `=`, both sides evaluate, and they differ by less than a millionth. */
export function isEquationCorrect(equation: string): boolean {
  const sides = equation.split("=");
  if (sides.length !== 2) return false;
  const left = evaluatePython(sides[0] as string);
  if (left === undefined) return false;
  const right = evaluatePython(sides[1] as string);
  if (right === undefined) return false;
  const difference = arithmetic("-", left, right);
  if (difference === undefined) return false;
  return typeof difference === "bigint" ? difference === 0n : Math.abs(difference) < EQUAL_WITHIN;
}

export function evaluatePython(expression: string): PythonNumber | undefined {
  const tokens = expression.match(/\d+|\*\*|\/\/|[-+*/]/g) ?? [];
  if (tokens.join("") !== expression) return undefined;
  const parser = { tokens, at: 0 };
  const value = sum(parser);
  return parser.at === tokens.length ? value : undefined;
}

/** `at` moves over `tokens`; a rule that fails returns undefined and the whole expression is given up. */
type Parser = { readonly tokens: readonly string[]; at: number };

function sum(parser: Parser): PythonNumber | undefined {
  return leftAssociative(parser, ["+", "-"], term);
}

function term(parser: Parser): PythonNumber | undefined {
  return leftAssociative(parser, ["*", "/", "//"], signed);
}

function leftAssociative(
  parser: Parser,
  operators: readonly string[],
  operand: (parser: Parser) => PythonNumber | undefined,
): PythonNumber | undefined {
  let value = operand(parser);
  while (value !== undefined) {
    const operator = parser.tokens[parser.at];
    if (operator === undefined || !operators.includes(operator)) break;
    parser.at += 1;
    const right = operand(parser);
    value = right === undefined ? undefined : arithmetic(operator, value, right);
  }
  return value;
}

function signed(parser: Parser): PythonNumber | undefined {
  const sign = parser.tokens[parser.at];
  if (sign !== "+" && sign !== "-") return power(parser);
  parser.at += 1;
  const value = signed(parser);
  return value === undefined || sign === "+" ? value : -value;
}

function power(parser: Parser): PythonNumber | undefined {
  const literal = parser.tokens[parser.at];
  if (literal === undefined || !/^(0+|[1-9]\d*)$/.test(literal)) return undefined;
  parser.at += 1;
  const base = BigInt(literal);
  if (parser.tokens[parser.at] !== "**") return base;
  parser.at += 1;
  const exponent = signed(parser);
  return exponent === undefined ? undefined : raise(base, exponent);
}

/** The base is a literal, so never negative: no complex numbers. */
function raise(base: bigint, exponent: PythonNumber): PythonNumber | undefined {
  if (typeof exponent === "bigint" && exponent >= 0n) {
    if (base <= 1n || exponent === 0n) return exponent === 0n ? 1n : base;
    const bits = Number(exponent) * Math.log2(Number(base));
    return bits > MAX_POWER_BITS ? undefined : base ** exponent;
  }
  const realExponent = toFloat(exponent);
  const realBase = toFloat(base);
  if (realBase === undefined || realExponent === undefined) return undefined;
  if (realBase === 0 && realExponent < 0) return undefined;
  return finite(realBase ** realExponent);
}

function arithmetic(operator: string, left: PythonNumber, right: PythonNumber): PythonNumber | undefined {
  if (typeof left === "bigint" && typeof right === "bigint") return wholeArithmetic(operator, left, right);
  const a = toFloat(left);
  const b = toFloat(right);
  if (a === undefined || b === undefined) return undefined;
  switch (operator) {
    case "+":
      return a + b;
    case "-":
      return a - b;
    case "*":
      return a * b;
    case "/":
      return b === 0 ? undefined : a / b;
    default:
      return b === 0 ? undefined : floorDivide(a, b);
  }
}

function wholeArithmetic(operator: string, a: bigint, b: bigint): PythonNumber | undefined {
  switch (operator) {
    case "+":
      return a + b;
    case "-":
      return a - b;
    case "*":
      return a * b;
    case "/":
      return b === 0n ? undefined : trueDivide(a, b);
    default: {
      if (b === 0n) return undefined;
      const quotient = a / b;
      return a % b !== 0n && a < 0n !== b < 0n ? quotient - 1n : quotient;
    }
  }
}

/** The float nearest to a/b, also where a or b alone would not fit a float. */
function trueDivide(a: bigint, b: bigint): number | undefined {
  const floatA = Number(a);
  const floatB = Number(b);
  if (Number.isSafeInteger(floatA) && Number.isSafeInteger(floatB)) return floatA / floatB;
  const numerator = a < 0n ? -a : a;
  const denominator = b < 0n ? -b : b;
  // Scale so that the whole quotient has at least 64 bits; its lowest bit then stands for all that was cut off.
  const shift = Math.max(0, 64 + bitLength(denominator) - bitLength(numerator));
  const scaled = numerator << BigInt(shift);
  const quotient = scaled / denominator;
  const rounded = Number(scaled % denominator === 0n ? quotient : quotient | 1n);
  // In two steps, because 2 ** -shift alone may be too small for a float.
  const half = Math.floor(shift / 2);
  return finite((a < 0n !== b < 0n ? -rounded : rounded) / 2 ** half / 2 ** (shift - half));
}

/** Python's float `//`: exact remainder first, then the quotient snapped to the nearest whole number below. */
function floorDivide(a: number, b: number): number {
  let remainder = a % b;
  let quotient = (a - remainder) / b;
  if (remainder !== 0 && b < 0 !== remainder < 0) {
    remainder += b;
    quotient -= 1;
  }
  if (quotient === 0) return 0;
  const floor = Math.floor(quotient);
  return quotient - floor > 0.5 ? floor + 1 : floor;
}

function toFloat(value: PythonNumber): number | undefined {
  return typeof value === "bigint" ? finite(Number(value)) : value;
}

/** Python raises OverflowError where JavaScript would go on with an infinity. */
function finite(value: number): number | undefined {
  return Number.isFinite(value) ? value : undefined;
}

function bitLength(value: bigint): number {
  return value.toString(2).length;
}
