/**
 * Formulas as answers hold them: numbers, fractions, roots, powers, π, products without a sign, in LaTeX or as one types them. Anything else (words, functions, relations)
 * is no formula. Reading is one pass, and nesting is bounded: a reply may hold anything.
 */

export type Formula =
  | { readonly kind: "number"; readonly value: number }
  | { readonly kind: "variable"; readonly name: string }
  | { readonly kind: "sum" | "product" | "quotient" | "power" | "root"; readonly a: Formula; readonly b: Formula };

const TOKEN =
  /\s*(?:(\d+(?:\.\d*)?|\.\d+)|(\\frac|\\sqrt|sqrt|√|\\pi|pi|π|\\cdot|\\times|\\div|[×·÷])(?![a-z])|([a-zA-Z])|([-+*/^(){}[\]]))/uy;
const SAME: Readonly<Record<string, string>> = {
  "\\cdot": "*",
  "\\times": "*",
  "×": "*",
  "·": "*",
  "\\div": "/",
  "÷": "/",
  "{": "(",
  "}": ")",
  "[": "[",
  sqrt: "\\sqrt",
  "√": "\\sqrt",
  pi: "\\pi",
  π: "\\pi",
};
const DEEPEST = 40;

type Token = { readonly text: string; readonly kind: "number" | "word" | "variable" | "sign" };

/** Undefined where the text is no formula. */
export function parseFormula(text: string): Formula | undefined {
  const tokens = tokensOf(mixedNumbers(text));
  if (tokens === undefined || tokens.length === 0) return undefined;
  const reader = new Reader(tokens);
  const formula = reader.sum();
  return reader.done ? formula : undefined;
}

export function evaluate(formula: Formula, probe: number): number {
  switch (formula.kind) {
    case "number":
      return formula.value;
    case "variable":
      // Different letters, different numbers.
      return probe + (formula.name.codePointAt(0) as number) / 97;
    default: {
      const [a, b] = [evaluate(formula.a, probe), evaluate(formula.b, probe)];
      if (formula.kind === "sum") return a + b;
      if (formula.kind === "product") return a * b;
      if (formula.kind === "quotient") return a / b;
      if (formula.kind === "root") return a < 0 && b % 2 === 1 ? -((-a) ** (1 / b)) : a ** (1 / b);
      return a ** b;
    }
  }
}

/** `2 1/2` and `2\frac{1}{2}` are sums. */
function mixedNumbers(text: string): string {
  return text
    .replaceAll(/(?<![\d.}^])(\d+)\s*\\frac\s*\{\s*(\d+)\s*\}\s*\{\s*(\d+)\s*\}/g, "($1+$2/$3)")
    .replaceAll(/(?<![\d.}^])(\d+)\s+(\d+)\s*\/\s*(\d+)/g, "($1+$2/$3)");
}

function tokensOf(text: string): Token[] | undefined {
  const tokens: Token[] = [];
  TOKEN.lastIndex = 0;
  const end = text.trimEnd().length;
  while (TOKEN.lastIndex < end) {
    const match = TOKEN.exec(text);
    if (match === null) return undefined;
    const [, number, word, variable, sign] = match;
    const found = (number ?? word ?? variable ?? sign) as string;
    const same = SAME[found] ?? found;
    const kind =
      number !== undefined ? "number" : variable !== undefined ? "variable" : same.startsWith("\\") ? "word" : "sign";
    tokens.push({ text: same, kind });
  }
  return tokens;
}

const number = (value: number): Formula => ({ kind: "number", value });
const NEGATIVE = number(-1);

class Reader {
  readonly #tokens: readonly Token[];
  #at = 0;
  #depth = 0;

  constructor(tokens: readonly Token[]) {
    this.#tokens = tokens;
  }

  get done(): boolean {
    return this.#at === this.#tokens.length;
  }

  sum(): Formula | undefined {
    let left = this.#product();
    while (left !== undefined) {
      const minus = this.#take("-");
      if (!minus && !this.#take("+")) return left;
      const right = this.#product();
      if (right === undefined) return undefined;
      left = { kind: "sum", a: left, b: minus ? { kind: "product", a: NEGATIVE, b: right } : right };
    }
    return undefined;
  }

  #product(): Formula | undefined {
    let left = this.#factor();
    while (left !== undefined) {
      const divide = this.#take("/");
      const next = this.#tokens[this.#at];
      const bare = next !== undefined && (next.kind !== "sign" || next.text === "(" || next.text === "[");
      if (!divide && !this.#take("*") && !bare) return left;
      const right = this.#factor();
      if (right === undefined) return undefined;
      left = { kind: divide ? "quotient" : "product", a: left, b: right };
    }
    return undefined;
  }

  #factor(): Formula | undefined {
    if (++this.#depth > DEEPEST) return undefined;
    const formula = this.#signed();
    this.#depth -= 1;
    return formula;
  }

  #signed(): Formula | undefined {
    if (this.#take("+")) return this.#factor();
    if (this.#take("-")) {
      const right = this.#factor();
      return right && { kind: "product", a: NEGATIVE, b: right };
    }
    const base = this.#atom();
    if (base === undefined || !this.#take("^")) return base;
    const exponent = this.#factor();
    return exponent && { kind: "power", a: base, b: exponent };
  }

  #atom(): Formula | undefined {
    const token = this.#tokens[this.#at++];
    if (token === undefined) return undefined;
    if (token.kind === "number") return number(Number(token.text));
    if (token.kind === "variable") return { kind: "variable", name: token.text };
    switch (token.text) {
      case "\\pi":
        return number(Math.PI);
      case "(":
        return this.#closed(")");
      case "[":
        return this.#closed("]");
      case "\\frac": {
        const [a, b] = [this.#argument(), this.#argument()];
        return a && b && { kind: "quotient", a, b };
      }
      case "\\sqrt": {
        const degree = this.#take("[") ? this.#closed("]") : number(2);
        const a = this.#argument();
        return a && degree && { kind: "root", a, b: degree };
      }
      default:
        return undefined;
    }
  }

  /** `{…}`, or the one thing that stands there: of `\frac12` a digit each. */
  #argument(): Formula | undefined {
    const token = this.#tokens[this.#at];
    if (token?.kind === "number" && token.text.length > 1 && this.#tokens[this.#at - 1]?.text === "\\frac")
      return undefined;
    return this.#atom();
  }

  #closed(bracket: string): Formula | undefined {
    if (++this.#depth > DEEPEST) return undefined;
    const inside = this.sum();
    this.#depth -= 1;
    return inside !== undefined && this.#take(bracket) ? inside : undefined;
  }

  #take(sign: string): boolean {
    const token = this.#tokens[this.#at];
    if (token?.kind !== "sign" || token.text !== sign) return false;
    this.#at += 1;
    return true;
  }
}
