/**
 * numpy's `default_rng(seed)`, bit for bit, so that a world seeded as in Python becomes the same world: SeedSequence,
 * PCG64 (128-bit state, XSL-RR output) and the sampling algorithms of numpy's Generator. Checked against numpy 2.4.
 *
 * The 128-bit arithmetic runs on four 32-bit words, lowest first. A product of two words is taken as two exact 48-bit
 * products, so nothing leaves the integers a double holds and no BigInt is made, except for ranges above 2^32.
 */
import { ConfigError, DataError } from "./errors.ts";
import { isJsonObject, type Json } from "./json.ts";
import { checkSeed, seedWords } from "./seed.ts";

/** `size`: how many to draw. `replace` (default true): may one be drawn twice. `p`: the probability of each. */
export type ChoiceOptions = {
  readonly size?: number;
  readonly replace?: boolean;
  readonly p?: readonly number[];
};

const TWO_32 = 0x1_0000_0000;
const TWO_53 = 2 ** 53;

/** PCG's 128-bit multiplier, 0x2360ed05_1fc65da4_4385df64_9fccf645. */
const M0 = 0x9fccf645;
const M1 = 0x4385df64;
const M2 = 0x1fc65da4;
const M3 = 0x2360ed05;

// Places in the words of a generator: state, increment, last output.
const INCREMENT = 4;
const LOW = 8;
const HIGH = 9;

export class NumpyRandom {
  readonly #words = new Uint32Array(10);
  /** The unused high half of a 64-bit output, which the next 32-bit draw takes; -1: none. */
  #half = -1;

  constructor(seed: number) {
    const w = this.#words;
    const [v0, v1, v2, v3, v4, v5, v6, v7] = seedState(checkSeed(seed)) as [number, ...number[]];
    // Of numpy's four 64-bit values the first two are the initial state and the others the sequence, high half first.
    const initial = [v2, v3, v0, v1] as number[];
    const sequence = [v6, v7, v4, v5] as number[];
    // increment = 2 · sequence + 1; state = initial + increment, then one step.
    let carry = 0;
    let shifted = 1;
    for (let i = 0; i < 4; i++) {
      const word = sequence[i] as number;
      const increment = ((word << 1) | shifted) >>> 0;
      shifted = word >>> 31;
      const sum = (initial[i] as number) + increment + carry;
      carry = sum >= TWO_32 ? 1 : 0;
      w[INCREMENT + i] = increment;
      w[i] = sum;
    }
    this.#step();
  }

  /** A real in [0, 1) with 53 random bits. */
  random(): number;
  random(size: number): number[];
  random(size?: number): number | number[] {
    return size === undefined ? this.#double() : repeat(size, () => this.#double());
  }

  /** A real in [low, high). */
  uniform(low: number, high: number): number;
  uniform(low: number, high: number, size: number): number[];
  uniform(low: number, high: number, size?: number): number | number[] {
    const width = high - low;
    if (!Number.isFinite(width) || width < 0) {
      throw new ConfigError(`uniform(low, high) needs finite low ≤ high, got ${low} and ${high}.`);
    }
    return size === undefined ? low + width * this.#double() : repeat(size, () => low + width * this.#double());
  }

  /** A whole number in [low, high); with one argument, in [0, low). */
  integers(low: number, high?: number): number;
  integers(low: number, high: number, size: number): number[];
  integers(low: number, high?: number, size?: number): number | number[] {
    const from = high === undefined ? 0 : low;
    const to = high === undefined ? low : high;
    if (!Number.isSafeInteger(from) || !Number.isSafeInteger(to) || from >= to) {
      throw new ConfigError(`integers(low, high) needs whole numbers low < high, got ${from} and ${to}.`);
    }
    return size === undefined ? this.#between(from, to - 1) : repeat(size, () => this.#between(from, to - 1));
  }

  /** One of `items` (or of `0..n-1`); with `size`, a list of them. */
  choice<T>(items: readonly T[], options: ChoiceOptions & { readonly size: number }): T[];
  choice<T>(items: readonly T[], options?: ChoiceOptions): T;
  choice(n: number, options: ChoiceOptions & { readonly size: number }): number[];
  choice(n: number, options?: ChoiceOptions): number;
  choice<T>(items: readonly T[] | number, options: ChoiceOptions = {}): T | number | (T | number)[] {
    const population = typeof items === "number" ? items : items.length;
    if (!Number.isSafeInteger(population) || population < 1) {
      throw new ConfigError("choice needs at least one item to choose from.");
    }
    const { size = 1, replace = true, p } = options;
    checkCount(size);
    if (!replace && size > population) {
      throw new ConfigError(`choice can't take ${size} of ${population} items without replacement.`);
    }
    if (p !== undefined) checkProbabilities(p, population, replace ? 1 : size);
    let chosen: number[];
    if (p === undefined) {
      chosen = replace ? repeat(size, () => this.#between(0, population - 1)) : this.#subset(population, size);
    } else {
      chosen = replace ? this.#weighted(p, size) : this.#weightedSubset(p, size);
    }
    const values = typeof items === "number" ? chosen : chosen.map((i) => items[i] as T);
    return options.size === undefined ? (values[0] as T | number) : values;
  }

  /** Shuffles in place. (numpy shuffles lists and arrays alike, with other draws than those of `choice`.) */
  shuffle<T>(items: T[]): void {
    for (let i = items.length - 1; i >= 1; i--) swap(items, i, this.#masked(i));
  }

  /** A shuffled copy of `items`, or of `0..n-1`. */
  permutation(n: number): number[];
  permutation<T>(items: readonly T[]): T[];
  permutation<T>(items: readonly T[] | number): (T | number)[] {
    const copy: (T | number)[] = typeof items === "number" ? repeat(items, (i) => i) : [...items];
    this.shuffle(copy);
    return copy;
  }

  save(): Json {
    return { kind: "pcg64", words: [...this.#words.subarray(0, LOW)], half: this.#half };
  }

  load(state: Json): void {
    const { kind, words, half } = isJsonObject(state) ? state : {};
    const isWord = (x: unknown) => Number.isInteger(x) && (x as number) >= 0 && (x as number) < TWO_32;
    if (kind !== "pcg64" || !Array.isArray(words) || words.length !== LOW || !words.every(isWord)) {
      throw new DataError("This is not the saved state of a NumpyRandom; give what its save() returned.");
    }
    if (half !== -1 && !isWord(half)) throw new DataError(`The saved half word of a NumpyRandom is ${half}.`);
    this.#words.set(words as number[]);
    this.#half = half as number;
  }

  /** state = state · multiplier + increment, mod 2^128. */
  #step(): void {
    const w = this.#words;
    const a0 = w[0] as number;
    const a1 = w[1] as number;
    const a2 = w[2] as number;
    const a3 = w[3] as number;
    // Column sums stay below 8 · 2^32, exact in a double.
    let sum = (Math.imul(a0, M0) >>> 0) + (w[4] as number);
    w[0] = sum;
    sum = Math.floor(sum / TWO_32) + (Math.imul(a0, M1) >>> 0) + (Math.imul(a1, M0) >>> 0);
    sum += multiplyHigh(a0, M0) + (w[5] as number);
    w[1] = sum;
    sum = Math.floor(sum / TWO_32) + (Math.imul(a0, M2) >>> 0) + (Math.imul(a1, M1) >>> 0) + (Math.imul(a2, M0) >>> 0);
    sum += multiplyHigh(a0, M1) + multiplyHigh(a1, M0) + (w[6] as number);
    w[2] = sum;
    // Only the low 32 bits of the last column are kept.
    const low = Math.imul(a0, M3) + Math.imul(a1, M2) + Math.imul(a2, M1) + Math.imul(a3, M0);
    const high = multiplyHigh(a0, M2) + multiplyHigh(a1, M1) + multiplyHigh(a2, M0);
    w[3] = Math.floor(sum / TWO_32) + low + high + (w[7] as number);
  }

  /** The next 64 bits, into words LOW and HIGH: the state's halves xored and rotated by its top six bits. */
  #next64(): void {
    this.#step();
    const w = this.#words;
    const top = w[3] as number;
    let low = (w[0] as number) ^ (w[2] as number);
    let high = (w[1] as number) ^ top;
    const rotation = top >>> 26;
    if (rotation >= 32) [low, high] = [high, low];
    const shift = rotation & 31;
    if (shift === 0) {
      w[LOW] = low;
      w[HIGH] = high;
    } else {
      w[LOW] = (low >>> shift) | (high << (32 - shift));
      w[HIGH] = (high >>> shift) | (low << (32 - shift));
    }
  }

  /** 32 bits: the low half of a fresh output, then its high half. */
  #next32(): number {
    if (this.#half >= 0) {
      const half = this.#half;
      this.#half = -1;
      return half;
    }
    this.#next64();
    this.#half = this.#words[HIGH] as number;
    return this.#words[LOW] as number;
  }

  #double(): number {
    this.#next64();
    return ((this.#words[HIGH] as number) * 0x20_0000 + ((this.#words[LOW] as number) >>> 11)) / TWO_53;
  }

  /** A whole number in [0, last], `last` above 0 and below 2^32: masked bits, again until they fit. */
  #masked(last: number): number {
    const spare = Math.clz32(last);
    let drawn = (this.#next32() << spare) >>> spare;
    while (drawn > last) drawn = (this.#next32() << spare) >>> spare;
    return drawn;
  }

  /** A whole number in [low, last] by Lemire's method, on 32 bits where the range fits. A range of one draws nothing. */
  #between(low: number, last: number): number {
    const range = last - low;
    if (range === 0) return low;
    if (range === TWO_32 - 1) return low + this.#next32();
    if (range >= TWO_32) return this.#between64(low, last);
    const count = range + 1;
    let bits = this.#next32();
    let leftover = Math.imul(bits, count) >>> 0;
    if (leftover < count) {
      const threshold = (TWO_32 - count) % count;
      while (leftover < threshold) {
        bits = this.#next32();
        leftover = Math.imul(bits, count) >>> 0;
      }
    }
    return low + multiplyHigh(bits, count);
  }

  #between64(low: number, last: number): number {
    const count = BigInt(last) - BigInt(low) + 1n;
    const threshold = ((1n << 64n) - count) % count;
    for (;;) {
      this.#next64();
      const bits = (BigInt(this.#words[HIGH] as number) << 32n) | BigInt(this.#words[LOW] as number);
      const product = bits * count;
      if (BigInt.asUintN(64, product) >= threshold) return Number(BigInt(low) + (product >> 64n));
    }
  }

  /** The shuffle inside `choice`: from the end, stopping before index `first`. */
  #shuffleDownTo(first: number, items: number[]): void {
    for (let i = items.length - 1; i >= first; i--) swap(items, i, this.#between(0, i));
  }

  /** `size` different numbers of `0..population-1`: the tail of a shuffle when they are many, else Floyd's method. */
  #subset(population: number, size: number): number[] {
    if (population > 10_000 && size > Math.floor(population / 50)) {
      const all = repeat(population, (i) => i);
      this.#shuffleDownTo(Math.max(population - size, 1), all);
      return all.slice(population - size);
    }
    const chosen = new Set<number>();
    for (let j = population - size; j < population; j++) {
      const value = this.#between(0, j);
      chosen.add(chosen.has(value) ? j : value);
    }
    const list = [...chosen];
    this.#shuffleDownTo(1, list);
    return list;
  }

  #weighted(p: readonly number[], size: number): number[] {
    const cdf = cumulative(p);
    return repeat(size, () => firstAbove(cdf, this.#double()));
  }

  /** numpy's way: draw what is missing, keep the first of each, take their weight away, again until there are enough. */
  #weightedSubset(p: readonly number[], size: number): number[] {
    const left = [...p];
    const found = new Set<number>();
    while (found.size < size) {
      for (const i of found) left[i] = 0;
      for (const i of this.#weighted(left, size - found.size)) found.add(i);
    }
    return [...found];
  }
}

function swap<T>(items: T[], i: number, j: number): void {
  const held = items[i] as T;
  items[i] = items[j] as T;
  items[j] = held;
}

/** The high word of a 32 × 32 bit product. */
function multiplyHigh(a: number, b: number): number {
  return Math.floor(((a >>> 16) * b + Math.floor(((a & 0xffff) * b) / 0x1_0000)) / 0x1_0000);
}

/** SeedSequence(seed).generate_state(4, uint64) as eight 32-bit words, the low word of each first. */
function seedState(seed: number): number[] {
  let constant = 0x43b0d7e5;
  const hash = (word: number) => {
    const xored = word ^ constant;
    constant = Math.imul(constant, 0x931e8875);
    const product = Math.imul(xored, constant);
    return product ^ (product >>> 16);
  };
  const entropy = seedWords(seed);
  const pool = [0, 1, 2, 3].map((i) => hash(entropy[i] ?? 0));
  for (let source = 0; source < 4; source++) {
    for (let target = 0; target < 4; target++) {
      if (source === target) continue;
      const mixed = Math.imul(pool[target] as number, 0xca01f9dd) - Math.imul(hash(pool[source] as number), 0x4973f715);
      pool[target] = mixed ^ (mixed >>> 16);
    }
  }
  constant = 0x8b51f9dd;
  return Array.from({ length: 8 }, (_, i) => {
    const xored = (pool[i % 4] as number) ^ constant;
    constant = Math.imul(constant, 0x58f38ded);
    const product = Math.imul(xored, constant);
    return (product ^ (product >>> 16)) >>> 0;
  });
}

function repeat<T>(count: number, draw: (index: number) => T): T[] {
  checkCount(count);
  return Array.from({ length: count }, (_, i) => draw(i));
}

function checkCount(count: number): void {
  if (!Number.isSafeInteger(count) || count < 0) {
    throw new ConfigError(`The number of draws must be a whole number of at least 0, got ${count}.`);
  }
}

function checkProbabilities(p: readonly number[], population: number, needed: number): void {
  if (p.length !== population) {
    throw new ConfigError(`choice was given ${population} items but ${p.length} probabilities; give one for each.`);
  }
  if (!p.every((x) => x >= 0)) throw new ConfigError("choice was given a probability that is negative or NaN.");
  const total = p.reduce((sum, x) => sum + x, 0);
  // numpy's tolerance: the square root of the double's epsilon.
  if (!(Math.abs(total - 1) <= 2 ** -26)) {
    throw new ConfigError(`The probabilities of choice add up to ${total}; divide them by their sum so that it is 1.`);
  }
  const possible = p.filter((x) => x > 0).length;
  if (possible < needed) {
    throw new ConfigError(
      `choice can't take ${needed} different items when only ${possible} have a probability above 0.`,
    );
  }
}

/** Running sums, scaled so that the last is 1. */
function cumulative(p: readonly number[]): Float64Array {
  const sums = new Float64Array(p.length);
  let sum = 0;
  for (const [i, x] of p.entries()) {
    sum += x;
    sums[i] = sum;
  }
  return sums.map((x) => x / sum);
}

/** The first index whose running sum is above `x`. */
function firstAbove(cdf: Float64Array, x: number): number {
  let low = 0;
  let high = cdf.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if ((cdf[middle] as number) <= x) low = middle + 1;
    else high = middle;
  }
  return low;
}
