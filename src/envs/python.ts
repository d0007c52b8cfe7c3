/**
 * Python literals, as far as replies and demonstrations hold them: numbers, strings, True/False/None, tuples and lists.
 * `parseLiteral` reads what `ast.literal_eval` reads (no dicts, sets, bytes or complex numbers) and never throws; nesting
 * is limited and nothing is scanned twice, so a hostile reply costs linear time. `printLiteral` writes what `repr` writes.
 *
 * A Python `1` and `1.0` are different values to an action space, so a float is kept apart from a whole number, and a
 * tuple from a list. Every JSON value except an object is a `PyValue` as it stands.
 */
import type { Json } from "../core/json.ts";
import type { ArgSpec } from "./action.ts";

export class PyFloat {
  readonly value: number;
  constructor(value: number) {
    this.value = value;
  }
}

export class PyTuple {
  readonly items: readonly PyValue[];
  constructor(items: readonly PyValue[]) {
    this.items = items;
  }
}

/** A bare number read by `parseLiteral` is a Python int; an array is a list. */
export type PyValue = null | boolean | number | string | PyFloat | PyTuple | readonly PyValue[];

/** Deeper brackets than this are not read (CPython gives up at about 200). */
const MAX_DEPTH = 64;
/** No number that we accept is longer: safe integers have 16 digits, doubles at most 17 that count. */
const MAX_NUMBER_LENGTH = 400;

const INT = /^(?:0(?:_?0)*|[1-9](?:_?\d)*|0[xX](?:_?[\da-fA-F])+|0[oO](?:_?[0-7])+|0[bB](?:_?[01])+)$/;
const FLOAT = /^(?:\d(?:_?\d)*(?:\.(?:\d(?:_?\d)*)?)?|\.\d(?:_?\d)*)(?:[eE][+-]?\d(?:_?\d)*)?$/;
const CONSTANT = /(?:True|False|None)\b/y;
const BARE_HEAD = /[A-Za-z_]\w*(?=\s*,)/y;
const SIMPLE_ESCAPES: Readonly<Record<string, string>> = {
  "\n": "",
  "\\": "\\",
  "'": "'",
  '"': '"',
  a: "\x07",
  b: "\b",
  f: "\f",
  n: "\n",
  r: "\r",
  t: "\t",
  v: "\v",
};
const HEX_ESCAPES: Readonly<Record<string, number>> = { x: 2, u: 4, U: 8 };

/** The value of a Python literal, or undefined when `text` is not one. A whole number beyond 2^53 is the nearest double. */
export function parseLiteral(text: string): PyValue | undefined {
  const reader = new LiteralReader(text, 0, text.length, MAX_DEPTH);
  const first = reader.value(0);
  if (first === undefined) return undefined;
  if (reader.atEnd()) return first;
  // A tuple needs no brackets at the top: `'move', 0`.
  const items: PyValue[] = [first];
  while (reader.comma()) {
    if (reader.atEnd()) break;
    const item = reader.value(0);
    if (item === undefined) return undefined;
    items.push(item);
  }
  return reader.atEnd() ? new PyTuple(items) : undefined;
}

/** Payloads nest two or three deep. A reply may hold thousands of brackets to try, each read at most this deep. */
const MAX_PAYLOAD_DEPTH = 8;

/**
 * The tuple that opens with the bracket at `start` and where it ends, whatever follows. `bareHead`: the first element
 * may be an unquoted name, as in `(move, 0)`.
 */
export function readTupleAt(
  text: string,
  start: number,
  limit: number,
  bareHead: boolean,
): { readonly tuple: PyTuple; readonly end: number } | undefined {
  if (text[start] !== "(") return undefined;
  const reader = new LiteralReader(text, start, limit, MAX_PAYLOAD_DEPTH);
  const tuple = reader.sequence(0, bareHead);
  return tuple instanceof PyTuple ? { tuple, end: reader.position } : undefined;
}

class LiteralReader {
  readonly #text: string;
  readonly #end: number;
  readonly #maxDepth: number;
  position: number;

  constructor(text: string, start: number, end: number, maxDepth: number) {
    this.#text = text;
    this.#end = end;
    this.#maxDepth = maxDepth;
    this.position = start;
  }

  atEnd(): boolean {
    this.#skipSpace();
    return this.position >= this.#end;
  }

  comma(): boolean {
    this.#skipSpace();
    if (this.#char() !== ",") return false;
    this.position += 1;
    return true;
  }

  /** `undefined` means "not a literal" all over this class; Python's None is null. */
  value(depth: number): PyValue | undefined {
    this.#skipSpace();
    const char = this.#char();
    if (char === "(" || char === "[") return depth < this.#maxDepth ? this.sequence(depth, false) : undefined;
    if (char === "'" || char === '"') return this.#strings();
    if (/[\d.+-]/.test(char)) return this.#number();
    return this.#constant();
  }

  /** From an opening bracket. `(x)` is x itself; a comma makes the tuple. */
  sequence(depth: number, bareHead: boolean): PyValue | undefined {
    const round = this.#char() === "(";
    const close = round ? ")" : "]";
    this.position += 1;
    const items: PyValue[] = [];
    let comma = false;
    for (;;) {
      this.#skipSpace();
      if (this.#char() === close) break;
      if (items.length > 0 && !comma) return undefined;
      const item = (bareHead && items.length === 0 ? this.#bareHead() : undefined) ?? this.value(depth + 1);
      if (item === undefined) return undefined;
      items.push(item);
      comma = this.comma();
    }
    this.position += 1;
    if (!round) return items;
    return items.length === 1 && !comma ? items[0] : new PyTuple(items);
  }

  #char(): string {
    return this.position < this.#end ? (this.#text[this.position] as string) : "";
  }

  #skipSpace(): void {
    while (" \t\n\r\f".includes(this.#char()) && this.position < this.#end) this.position += 1;
  }

  #match(pattern: RegExp): string | undefined {
    pattern.lastIndex = this.position;
    const found = pattern.exec(this.#text)?.[0];
    if (found === undefined || this.position + found.length > this.#end) return undefined;
    this.position += found.length;
    return found;
  }

  #bareHead(): string | undefined {
    return this.#match(BARE_HEAD);
  }

  #constant(): boolean | null | undefined {
    const word = this.#match(CONSTANT);
    return word === undefined ? undefined : word === "None" ? null : word === "True";
  }

  /** A number, with one sign at most: `literal_eval` reads `- 1` and refuses `--1`. */
  #number(): number | PyFloat | undefined {
    const sign = this.#char();
    const negative = sign === "-";
    if (negative || sign === "+") {
      this.position += 1;
      this.#skipSpace();
    }
    const start = this.position;
    const based = /^0[xXoObB]/.test(this.#text.slice(start, start + 2));
    for (let previous = "", char = this.#char(); char !== ""; previous = char, char = this.#char()) {
      const exponentSign = (char === "+" || char === "-") && (previous === "e" || previous === "E") && !based;
      if (!exponentSign && !/[\w.]/.test(char)) break;
      this.position += 1;
      if (this.position - start > MAX_NUMBER_LENGTH) return undefined;
    }
    const token = this.#text.slice(start, this.position);
    const size = Number(token.replaceAll("_", ""));
    // Too large for any range of whole numbers, but a number: what it does not fit can then be said.
    if (INT.test(token)) return negative && size !== 0 ? -size : size;
    // Without a point or an exponent this is `012`, which Python refuses.
    if (!/[.eE]/.test(token) || !FLOAT.test(token)) return undefined;
    return new PyFloat(negative ? -size : size);
  }

  /** One string literal or several in a row, which Python joins. */
  #strings(): string | undefined {
    let joined = "";
    while (this.#char() === "'" || this.#char() === '"') {
      const piece = this.#string();
      if (piece === undefined) return undefined;
      joined += piece;
      this.#skipSpace();
    }
    return joined;
  }

  #string(): string | undefined {
    const quote = this.#char();
    const triple = this.#text.startsWith(quote.repeat(3), this.position) && this.position + 3 <= this.#end;
    const close = triple ? quote.repeat(3) : quote;
    this.position += close.length;
    const pieces: string[] = [];
    let from = this.position;
    while (this.position < this.#end) {
      const char = this.#char();
      if (char === quote && this.#text.startsWith(close, this.position)) {
        pieces.push(this.#text.slice(from, this.position));
        this.position += close.length;
        return this.position <= this.#end ? pieces.join("") : undefined;
      }
      if (char === "\n" && !triple) return undefined;
      if (char !== "\\") {
        this.position += 1;
        continue;
      }
      pieces.push(this.#text.slice(from, this.position));
      this.position += 1;
      const escaped = this.#escape();
      if (escaped === undefined) return undefined;
      pieces.push(escaped);
      from = this.position;
    }
    return undefined;
  }

  /** What follows a backslash. An unknown escape keeps its backslash, as in Python. */
  #escape(): string | undefined {
    const char = this.#char();
    const octal = this.#match(/[0-7]{1,3}/y);
    if (octal !== undefined) return String.fromCharCode(Number.parseInt(octal, 8));
    this.position += 1;
    const simple = SIMPLE_ESCAPES[char];
    if (simple !== undefined) return simple;
    const digits = HEX_ESCAPES[char];
    if (digits !== undefined) {
      const hex = this.#match(new RegExp(`[\\da-fA-F]{${digits}}`, "y"));
      const code = Number.parseInt(hex ?? "", 16);
      return code <= 0x10ffff ? String.fromCodePoint(code) : undefined;
    }
    return char === "" || char === "N" ? undefined : `\\${char}`;
  }
}

/** A payload that fits `arg`, as Python's `repr` would print it: `(0, 2, 3)`, `[1, 2]`, `-0.5`, `'stop'`. */
export function printLiteral(value: Json, arg: ArgSpec): string {
  switch (arg.type) {
    case "int":
      return String(value);
    case "real":
      return arg.whole ? printReal(Number(value)) : printFloat(Number(value));
    case "text":
    case "word":
      return printString(String(value));
    case "permutation":
      return `[${(value as readonly Json[]).join(", ")}]`;
    case "tuple":
    case "list": {
      const values = value as readonly Json[];
      const items = arg.items.map((item, index) => printLiteral(values[index] ?? null, item));
      if (arg.type === "list") return `[${items.join(", ")}]`;
      return items.length === 1 ? `(${items[0]},)` : `(${items.join(", ")})`;
    }
  }
}

/** A real as a person writes it: `4`, `-3.5`. Beyond 2^53 it is a float, for there not every whole number is a double. */
export function printReal(value: number): string {
  return Number.isSafeInteger(value) ? String(value) : printFloat(value);
}

/** Both languages print the fewest digits that read back exactly; they differ in when they turn to exponents. */
function printFloat(value: number): string {
  if (Object.is(value, -0)) return "-0.0";
  const size = Math.abs(value);
  if (size !== 0 && (size < 1e-4 || size >= 1e16)) {
    return value.toExponential().replace(/e([+-])(\d)$/, "e$10$2");
  }
  const plain = String(value);
  return plain.includes(".") ? plain : `${plain}.0`;
}

/** Single quotes always; whatever can't be seen is escaped. */
export function printString(value: string): string {
  const named: Readonly<Record<string, string>> = { "\\": "\\\\", "'": "\\'", "\n": "\\n", "\r": "\\r", "\t": "\\t" };
  const body = value.replace(/[\\']|\p{C}/gu, (char) => {
    const code = char.codePointAt(0) as number;
    if (named[char] !== undefined) return named[char];
    if (code < 0x100) return `\\x${code.toString(16).padStart(2, "0")}`;
    return code < 0x10000 ? `\\u${code.toString(16).padStart(4, "0")}` : `\\U${code.toString(16).padStart(8, "0")}`;
  });
  return `'${body}'`;
}
