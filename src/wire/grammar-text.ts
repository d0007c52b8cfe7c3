/**
 * Pieces of xgrammar's EBNF: rules with names of their own, literal text, and sets of characters as JSON strings hold them. Some of its features are not
 * used because its matcher gets them wrong: counted repetition, sets that list characters beyond ASCII, and a star that follows a set directly.
 */

/** A keyword that a grammar can't keep to. */
export class SchemaError extends Error {
  readonly keyword: string;

  constructor(keyword: string, why: string) {
    super(`${keyword}: ${why}`);
    this.keyword = keyword;
  }
}

/** Code points, both ends included; ascending and apart. */
export type Ranges = readonly (readonly [number, number])[];

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const LAST_ASCII = 0x7f;
const ALL_BEYOND: readonly [number, number] = [LAST_ASCII + 1, 0x10ffff];
/** What may stand in a JSON string as it is: no control characters, neither quote nor backslash. */
export const PLAIN: Ranges = [[0x20, 0x21], [0x23, 0x5b], [0x5d, 0x7e], ALL_BEYOND];
/** Repetitions are built of so many at a time. */
const BLOCK = 16;
/** Beyond ASCII, so many characters of a set are listed. */
const MAX_LISTED = 64;

/** Rules by name. Equal bodies share a rule. */
export class Rules {
  readonly #bodies = new Map<string, string>();
  readonly #names = new Map<string, string>();

  add(body: string): string {
    const known = this.#names.get(body);
    if (known !== undefined) return known;
    const name = this.reserve();
    this.set(name, body);
    this.#names.set(body, name);
    return name;
  }

  /** A name whose body comes later: rules may lead back to themselves. */
  reserve(): string {
    const name = `r${this.#bodies.size}`;
    this.#bodies.set(name, "");
    return name;
  }

  set(name: string, body: string): void {
    this.#bodies.set(name, body);
  }

  /** At least and at most so many of them. */
  repeat(what: string, least: number, most: number): string {
    const one = this.add(what);
    const parts = least > 0 ? [this.#exactly(one, least)] : [];
    if (most === Number.POSITIVE_INFINITY) parts.push(`${one}*`);
    else if (most > least) parts.push(this.#upTo(one, most - least));
    return parts.length === 0 ? '""' : parts.join(" ");
  }

  #exactly(one: string, count: number): string {
    const block = count >= BLOCK ? this.add(Array(BLOCK).fill(one).join(" ")) : "";
    return [...Array(Math.floor(count / BLOCK)).fill(block), ...Array(count % BLOCK).fill(one)].join(" ");
  }

  #upTo(one: string, count: number): string {
    let rest = '""';
    for (let i = 0; i < Math.min(count, BLOCK - 1); i++) rest = this.add(`(${one} ${rest})?`);
    if (count < BLOCK) return rest;
    const few = rest;
    const block = this.#exactly(one, BLOCK);
    let all = this.#upTo(one, count % BLOCK);
    for (let i = 0; i < Math.floor(count / BLOCK); i++) all = this.add(`${block} ${all} | ${few}`);
    return all;
  }

  text(root: string): string {
    return [`root ::= ${root}`, ...[...this.#bodies].map(([name, body]) => `${name} ::= ${body}`)].join("\n");
  }
}

export function literal(text: string): string {
  const written = [...text].map((char) => {
    const code = char.codePointAt(0) as number;
    return char === '"' || char === "\\" || code < 0x20 || code > 0x7e ? escaped(code) : char;
  });
  return `"${written.join("")}"`;
}

/** A set of characters, or a part of it. */
export function characters(ranges: Ranges): string {
  const written = (list: Ranges) =>
    list.map(([from, to]) => (from === to ? escaped(from) : `${escaped(from)}-${escaped(to)}`)).join("");
  const ascii = intersect(ranges, [[0, LAST_ASCII]]);
  const beyond = intersect(ranges, [ALL_BEYOND]);
  // All of it is what a set without some ASCII characters has.
  if (beyond[0]?.[0] === ALL_BEYOND[0] && beyond[0][1] === ALL_BEYOND[1]) {
    return `[^${written(intersect(complement(ascii), [[0, LAST_ASCII]]))}]`;
  }
  const listed: string[] = [];
  for (const [from, to] of ascii.length > 0 && sizeOf(beyond) > MAX_LISTED ? [] : beyond) {
    for (let code = from; code <= to && listed.length < MAX_LISTED; code++) {
      if (code < 0xd800 || code > 0xdfff) listed.push(literal(String.fromCodePoint(code)));
    }
  }
  const ways = [...(ascii.length > 0 ? [`[${written(ascii)}]`] : []), ...listed];
  return ways.length === 1 ? (ways[0] as string) : `(${ways.join(" | ")})`;
}

const sizeOf = (ranges: Ranges) => ranges.reduce((sum, [from, to]) => sum + to - from + 1, 0);

function escaped(code: number): string {
  // The short form, \x, takes as many digits as follow it.
  return code <= 0xffff ? `\\u${code.toString(16).padStart(4, "0")}` : `\\U${code.toString(16).padStart(8, "0")}`;
}

/** A set of characters inside a JSON string, where some are written with a backslash. Undefined: none can be written. */
export function jsonCharacters(ranges: Ranges): string | undefined {
  const plain = intersect(ranges, PLAIN);
  const ways = [
    ...(plain.length > 0 ? [characters(plain)] : []),
    ...(holds(ranges, QUOTE) ? [literal('\\"')] : []),
    ...(holds(ranges, BACKSLASH) ? [literal("\\\\")] : []),
    ...[...ESCAPES].flatMap(([code, text]) => (plain.length === 0 && holds(ranges, code) ? [literal(text)] : [])),
  ];
  if (ways.length === 0) return undefined;
  return ways.length === 1 ? ways[0] : `(${ways.join(" | ")})`;
}

/** Control characters that have a short form. They are only written where nothing plainer fits. */
const ESCAPES = new Map([
  [8, "\\b"],
  [9, "\\t"],
  [10, "\\n"],
  [12, "\\f"],
  [13, "\\r"],
]);

const holds = (ranges: Ranges, code: number) => ranges.some(([from, to]) => from <= code && code <= to);

export function intersect(a: Ranges, b: Ranges): Ranges {
  return a.flatMap(([from, to]) =>
    b.flatMap(([low, high]): [number, number][] => {
      const [start, end] = [Math.max(from, low), Math.min(to, high)];
      return start <= end ? [[start, end]] : [];
    }),
  );
}

export function union(...lists: readonly Ranges[]): Ranges {
  const merged: [number, number][] = [];
  for (const [from, to] of lists.flat().sort((a, b) => a[0] - b[0])) {
    const last = merged.at(-1);
    if (last !== undefined && from <= last[1] + 1) last[1] = Math.max(last[1], to);
    else merged.push([from, to]);
  }
  return merged;
}

export function complement(ranges: Ranges): Ranges {
  const left: [number, number][] = [];
  let next = 0;
  for (const [from, to] of union(ranges)) {
    if (from > next) left.push([next, from - 1]);
    next = to + 1;
  }
  if (next <= 0x10ffff) left.push([next, 0x10ffff]);
  return left;
}

/** Whole numbers from `low` to `high`, both at least 0, without leading zeros. */
export function wholeNumbers(low: number, high: number): string {
  const ways: string[] = [];
  for (let from = low; from <= high; ) {
    const digits = String(from).length;
    const to = Math.min(high, 10 ** digits - 1);
    ways.push(...sameLength(String(from), String(to)));
    from = to + 1;
  }
  return `(${ways.join(" | ")})`;
}

/** Numbers of as many digits, zeros in front included. */
function sameLength(low: string, high: string): string[] {
  if (low === "") return ['""'];
  if (/^0*$/.test(low) && /^9*$/.test(high)) return [Array(low.length).fill("[0-9]").join(" ")];
  const [first, last] = [Number(low[0]), Number(high[0])];
  const [lowRest, highRest] = [low.slice(1), high.slice(1)];
  const zeros = "0".repeat(lowRest.length);
  const nines = "9".repeat(lowRest.length);
  const after = (digit: string, ways: string[]) => ways.map((way) => (way === '""' ? digit : `${digit} ${way}`));
  if (first === last) return after(`"${first}"`, sameLength(lowRest, highRest));
  const ways: string[] = [];
  let [from, to] = [first, last];
  if (lowRest !== zeros) {
    ways.push(...after(`"${first}"`, sameLength(lowRest, nines)));
    from += 1;
  }
  const isCut = highRest !== nines;
  if (isCut) to -= 1;
  if (from <= to) ways.push(...after(`[${from}-${to}]`, sameLength(zeros, nines)));
  if (isCut) ways.push(...after(`"${last}"`, sameLength(zeros, highRest)));
  return ways;
}
