/**
 * CPython's `random.Random(seed)` for whole-number seeds, bit for bit: the Mersenne Twister (MT19937) and the methods
 * that worlds and datasets use. Checked against CPython 3.11.
 */
import { ConfigError, DataError } from "./errors.ts";
import { isJsonObject, type Json } from "./json.ts";
import { checkSeed, seedWords } from "./seed.ts";

const SIZE = 624;
const OFFSET = 397;
const TWO_32 = 0x1_0000_0000;

export class PythonRandom {
  readonly #words = new Uint32Array(SIZE);
  /** The next word to give out; SIZE: all are used. */
  #next = SIZE;

  constructor(seed: number) {
    seedByArray(this.#words, seedWords(checkSeed(seed)));
  }

  /** A real in [0, 1) with 53 random bits. */
  random(): number {
    const high = this.#next32() >>> 5;
    const low = this.#next32() >>> 6;
    return (high * 0x400_0000 + low) / 2 ** 53;
  }

  /** A whole number of `bits` random bits, 0 to 53. */
  getrandbits(bits: number): number {
    if (!Number.isInteger(bits) || bits < 0 || bits > 53) {
      throw new ConfigError(`getrandbits takes 0 to 53 bits, got ${bits}.`);
    }
    if (bits === 0) return 0;
    if (bits <= 32) return this.#next32() >>> (32 - bits);
    const low = this.#next32();
    return (this.#next32() >>> (64 - bits)) * TWO_32 + low;
  }

  /** A whole number in [a, b], both ends included. */
  randint(a: number, b: number): number {
    return this.randrange(a, b + 1);
  }

  /** An element of Python's `range(stop)` or `range(start, stop, step)`. */
  randrange(start: number, stop?: number, step = 1): number {
    const [from, to] = stop === undefined ? [0, start] : [start, stop];
    const width = to - from;
    const whole = [from, to, step, width].every(Number.isSafeInteger);
    if (!whole || !(width / step > 0) || step === 0) {
      throw new ConfigError(`randrange(${from}, ${to}, ${step}) holds no whole numbers to draw; give start < stop.`);
    }
    const rest = width % step;
    return from + step * this.#below((width - rest) / step + (rest === 0 ? 0 : 1));
  }

  choice<T>(items: readonly T[]): T {
    if (items.length === 0) throw new ConfigError("choice needs at least one item to choose from.");
    return items[this.#below(items.length)] as T;
  }

  /** `k` different places of `items` (or of `0..n-1`), in the order they were drawn. */
  sample(n: number, k: number): number[];
  sample<T>(items: readonly T[], k: number): T[];
  sample<T>(items: readonly T[] | number, k: number): (T | number)[] {
    const n = typeof items === "number" ? items : items.length;
    if (!Number.isSafeInteger(n) || !Number.isSafeInteger(k) || k < 0 || k > n) {
      throw new ConfigError(`sample can't take ${k} of ${n} items; ask for at most as many as there are.`);
    }
    // CPython tracks a pool when its list is smaller than a set of k would be; the two draw differently.
    let setSize = 21;
    if (k > 5) {
      let table = 1;
      while (table < k * 3) table *= 4;
      setSize += table;
    }
    const drawn: number[] = [];
    if (n <= setSize) {
      const pool = Array.from({ length: n }, (_, i) => i);
      for (let left = n; left > n - k; left--) {
        const j = this.#below(left);
        drawn.push(pool[j] as number);
        pool[j] = pool[left - 1] as number;
      }
    } else {
      const selected = new Set<number>();
      while (selected.size < k) selected.add(this.#below(n));
      for (const j of selected) drawn.push(j);
    }
    return typeof items === "number" ? drawn : drawn.map((i) => items[i] as T);
  }

  /** Shuffles in place. */
  shuffle<T>(items: T[]): void {
    for (let i = items.length - 1; i >= 1; i--) {
      const j = this.#below(i + 1);
      const held = items[i] as T;
      items[i] = items[j] as T;
      items[j] = held;
    }
  }

  save(): Json {
    return { kind: "mt19937", words: [...this.#words], next: this.#next };
  }

  load(state: Json): void {
    const { kind, words, next } = isJsonObject(state) ? state : {};
    const isWord = (x: unknown) => Number.isInteger(x) && (x as number) >= 0 && (x as number) < TWO_32;
    const hasWords = Array.isArray(words) && words.length === SIZE && words.every(isWord);
    if (kind !== "mt19937" || !hasWords || !isWord(next) || (next as number) > SIZE) {
      throw new DataError("This is not the saved state of a PythonRandom; give what its save() returned.");
    }
    this.#words.set(words as number[]);
    this.#next = next as number;
  }

  /** A whole number in [0, n): as many bits as n has, again until they are below n. */
  #below(n: number): number {
    const bits = n < TWO_32 ? 32 - Math.clz32(n) : 64 - Math.clz32(Math.floor(n / TWO_32));
    let drawn = this.getrandbits(bits);
    while (drawn >= n) drawn = this.getrandbits(bits);
    return drawn;
  }

  #next32(): number {
    if (this.#next === SIZE) {
      twist(this.#words);
      this.#next = 0;
    }
    let y = this.#words[this.#next++] as number;
    y ^= y >>> 11;
    y ^= (y << 7) & 0x9d2c5680;
    y ^= (y << 15) & 0xefc60000;
    return (y ^ (y >>> 18)) >>> 0;
  }
}

/** The twister's recurrence over a whole block of words. */
function twist(words: Uint32Array): void {
  for (let i = 0; i < SIZE; i++) {
    const y = ((words[i] as number) & 0x80000000) | ((words[(i + 1) % SIZE] as number) & 0x7fffffff);
    words[i] = (words[(i + OFFSET) % SIZE] as number) ^ (y >>> 1) ^ (y & 1 ? 0x9908b0df : 0);
  }
}

/** MT19937's init_by_array. */
function seedByArray(words: Uint32Array, key: readonly number[]): void {
  words[0] = 19650218;
  const mixed = (i: number) => {
    const before = words[i - 1] as number;
    return before ^ (before >>> 30);
  };
  for (let i = 1; i < SIZE; i++) words[i] = Math.imul(mixed(i), 1812433253) + i;
  let i = 1;
  const advance = () => {
    if (++i < SIZE) return;
    words[0] = words[SIZE - 1] as number;
    i = 1;
  };
  for (let k = 0; k < SIZE; k++, advance()) {
    const j = k % key.length;
    words[i] = ((words[i] as number) ^ Math.imul(mixed(i), 1664525)) + (key[j] as number) + j;
  }
  for (let k = 1; k < SIZE; k++, advance()) {
    words[i] = ((words[i] as number) ^ Math.imul(mixed(i), 1566083941)) - i;
  }
  words[0] = 0x80000000;
}
