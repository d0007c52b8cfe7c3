/**
 * Regular expressions of JSON schemas as EBNF, for text inside a JSON string. The grammar makes texts that match from beginning to end, which match wherever
 * the expression may be found as well. What looks around, looks back or depends on words has no grammar and is refused.
 */
import { complement, jsonCharacters, PLAIN, type Ranges, type Rules, union } from "./grammar-text.ts";

const DIGIT: Ranges = [[0x30, 0x39]];
const WORD: Ranges = [...DIGIT, [0x41, 0x5a], [0x5f, 0x5f], [0x61, 0x7a]];
const SPACE: Ranges = [
  [0x09, 0x0d],
  [0x20, 0x20],
  [0xa0, 0xa0],
  [0x1680, 0x1680],
  [0x2000, 0x200a],
  [0x2028, 0x2029],
  [0x202f, 0x202f],
  [0x205f, 0x205f],
  [0x3000, 0x3000],
  [0xfeff, 0xfeff],
];
const CLASSES: Readonly<Record<string, Ranges>> = {
  d: DIGIT,
  D: complement(DIGIT),
  w: WORD,
  W: complement(WORD),
  s: SPACE,
  S: complement(SPACE),
};
const CONTROLS: Readonly<Record<string, number>> = { n: 10, r: 13, t: 9, f: 12, v: 11, 0: 0 };
/** Repeated more often, an expression makes a grammar too large. */
const MAX_REPEATS = 1024;

export class PatternError extends Error {}

export function patternGrammar(pattern: string, rules: Rules): string {
  try {
    new RegExp(pattern, "u");
  } catch {
    throw new PatternError("it is not a regular expression");
  }
  const reader = new Reader(pattern, rules);
  const made = reader.alternatives(true);
  if (!reader.isOver) throw new PatternError("it closes a bracket that it did not open");
  return made;
}

class Reader {
  readonly #chars: readonly string[];
  readonly #rules: Rules;
  #at = 0;

  constructor(pattern: string, rules: Rules) {
    this.#chars = [...pattern];
    this.#rules = rules;
  }

  get isOver(): boolean {
    return this.#at >= this.#chars.length;
  }

  /** Anchors are only read at both ends of the outermost alternatives, where the whole text is matched anyway. */
  alternatives(isOutermost: boolean): string {
    const ways: string[] = [];
    do {
      if (isOutermost) this.#skip("^");
      const parts: string[] = [];
      while (!this.isOver && !"|)".includes(this.#peek())) {
        if (isOutermost && this.#peek() === "$" && ["|", undefined].includes(this.#chars[this.#at + 1])) {
          this.#at += 1;
          break;
        }
        parts.push(this.#quantified());
      }
      ways.push(parts.length === 0 ? '""' : parts.join(" "));
    } while (this.#skip("|"));
    return `(${ways.join(" | ")})`;
  }

  #quantified(): string {
    const atom = this.#atom();
    const rest = this.#chars.slice(this.#at, this.#at + 12).join("");
    const found = /^(?:[*+?]|\{(\d+)(,?)(\d*)\})\??/.exec(rest);
    if (found === null) return atom;
    const [all, least, comma, most] = found;
    this.#at += all.length;
    if (least === undefined) return `${this.#rules.add(atom)}${all[0]}`;
    const until = comma === "" ? Number(least) : most === "" ? Number.POSITIVE_INFINITY : Number(most);
    if (Math.max(Number(least), Number.isFinite(until) ? until : 0) > MAX_REPEATS) {
      throw new PatternError(`it repeats more than ${MAX_REPEATS} times`);
    }
    return `(${this.#rules.repeat(atom, Number(least), until)})`;
  }

  #atom(): string {
    const char = this.#next();
    switch (char) {
      case "(": {
        if (this.#skip("?")) {
          const kind = this.#next();
          if (kind !== ":") throw new PatternError("it uses look-around or a named group");
        }
        const inside = this.alternatives(false);
        if (!this.#skip(")")) throw new PatternError("it does not close a bracket");
        return inside;
      }
      case "[":
        return this.#set(this.#class());
      case ".":
        // JSON has no plain line ends; two that Unicode adds are left in, since no set without them can be written.
        return this.#set(PLAIN);
      case "\\":
        return this.#set(this.#escape());
      case "^":
      case "$":
        throw new PatternError("it has an anchor that is not at its beginning or end");
      default: {
        const code = char.codePointAt(0) as number;
        return this.#set([[code, code]]);
      }
    }
  }

  #class(): Ranges {
    const isNegated = this.#skip("^");
    const parts: Ranges[] = [];
    while (this.#peek() !== "]") {
      const from = this.#member();
      const isRange = this.#peek() === "-" && this.#chars[this.#at + 1] !== "]";
      if (!isRange) {
        parts.push(from);
        continue;
      }
      this.#at += 1;
      const to = this.#member();
      parts.push([[from[0]?.[0] ?? 0, to[0]?.[0] ?? 0]]);
    }
    this.#at += 1;
    return isNegated ? complement(union(...parts)) : union(...parts);
  }

  #member(): Ranges {
    const char = this.#next();
    if (char === "\\") return this.#peek() === "b" && this.#skip("b") ? [[8, 8]] : this.#escape();
    const code = char.codePointAt(0) as number;
    return [[code, code]];
  }

  #escape(): Ranges {
    const char = this.#next();
    const known = CLASSES[char];
    if (known !== undefined) return known;
    if (/[bBkpP1-9]/.test(char)) throw new PatternError(`it uses \\${char}`);
    const hex = char === "x" ? 2 : char === "u" && this.#peek() !== "{" ? 4 : 0;
    let code = CONTROLS[char] ?? (char.codePointAt(0) as number);
    if (hex > 0) code = Number.parseInt(this.#take(hex), 16);
    else if (char === "u") {
      const end = this.#chars.indexOf("}", this.#at);
      code = Number.parseInt(this.#take(end + 1 - this.#at).slice(1, -1), 16);
    } else if (char === "c") code = (this.#next().codePointAt(0) as number) % 32;
    return [[code, code]];
  }

  #set(ranges: Ranges): string {
    const made = jsonCharacters(ranges);
    if (made === undefined) throw new PatternError("it needs a character that has no plain form in JSON");
    return made;
  }

  #peek(): string {
    return this.#chars[this.#at] ?? "";
  }

  #next(): string {
    const char = this.#chars[this.#at];
    if (char === undefined) throw new PatternError("it ends too early");
    this.#at += 1;
    return char;
  }

  #take(count: number): string {
    this.#at += count;
    return this.#chars.slice(this.#at - count, this.#at).join("");
  }

  #skip(char: string): boolean {
    const found = this.#peek() === char;
    if (found) this.#at += 1;
    return found;
  }
}
