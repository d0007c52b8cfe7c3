/** Draws against vectors of numpy and CPython themselves; `golden/make-random-vectors.py` says how they were made. */
import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { ConfigError, DataError } from "./errors.ts";
import { NumpyRandom } from "./random-numpy.ts";
import { PythonRandom } from "./random-python.ts";
import { checkSeed } from "./seed.ts";

type Vectors = { seeds: number[]; numpy: Record<string, string[]>; python: Record<string, string[]> };
const vectors: Vectors = JSON.parse(readFileSync(new URL("./golden/random-vectors.json", import.meta.url), "utf8"));

const DRAWS = 400;
const RANGES = [1, 2, 3, 7, 100, 2 ** 31, 2 ** 31 + 1, 2 ** 32 - 1, 2 ** 32, 2 ** 32 + 1, 2 ** 40, 2 ** 53 - 1];
const LENGTHS = [0, 1, 2, 3, 10, 33, 64, 287];
const p = [0.1, 0.0, 0.25, 0.05, 0.3, 0.2, 0.1];
const LETTERS = [10, 20, 30, 40, 50, 60, 70];

/** A draw whose reals are written as bits; whole numbers stay decimal. */
type Draw = number | { real: number };
const real = (value: number): Draw => ({ real: value });
const times = (draw: () => Draw, count = DRAWS): Draw[] => Array.from({ length: count }, draw);
const flat = (draw: () => Draw[], count: number): Draw[] => Array.from({ length: count }, draw).flat();
const upTo = (n: number) => Array.from({ length: n }, (_, i) => i);

function text(draw: Draw): string {
  if (typeof draw === "number") return String(draw);
  const bytes = Buffer.alloc(8);
  bytes.writeDoubleBE(draw.real);
  return bytes.toString("hex");
}

function shuffled(r: { shuffle(items: number[]): void }, items: readonly number[]): number[] {
  const copy = [...items];
  r.shuffle(copy);
  return copy;
}

const numpyPrograms: Record<string, (r: NumpyRandom) => Draw[]> = {
  random: (r) => times(() => real(r.random())),
  "random(size)": (r) => r.random(DRAWS).map(real),
  uniform: (r) => times(() => real(r.uniform(-3.5, 12.25))),
  ...Object.fromEntries(RANGES.map((n) => [`integers ${n}`, (r: NumpyRandom) => times(() => r.integers(n))])),
  "integers from below zero": (r) => times(() => r.integers(-(2 ** 40), 13)),
  "integers over all": (r) => times(() => r.integers(-Number.MAX_SAFE_INTEGER, Number.MAX_SAFE_INTEGER)),
  "integers(size)": (r) => r.integers(-5, 2 ** 31, DRAWS),
  choice: (r) => times(() => r.choice(LETTERS)),
  "choice n": (r) => times(() => r.choice(1000)),
  "choice p": (r) => times(() => r.choice(LETTERS, { p })),
  "choice size": (r) => flat(() => r.choice(LETTERS, { size: 25 }), 16),
  "choice size p": (r) => flat(() => r.choice(LETTERS, { size: 25, p }), 16),
  "choice without replacement": (r) => flat(() => r.choice(20, { size: 8, replace: false }), 50),
  "choice of all": (r) => flat(() => r.choice(LETTERS, { size: 7, replace: false }), 58),
  "choice of one": (r) => times(() => r.choice(LETTERS, { replace: false })),
  "choice of few of many": (r) => flat(() => r.choice(10001, { size: 200, replace: false }), 2),
  "choice of more of many": (r) => flat(() => r.choice(10001, { size: 201, replace: false }), 2),
  "choice of many at the limit": (r) => flat(() => r.choice(10000, { size: 400, replace: false }), 1),
  "choice of 2^40": (r) => flat(() => r.choice(2 ** 40, { size: 40, replace: false }), 10),
  "choice p without replacement": (r) => flat(() => r.choice(LETTERS, { size: 5, replace: false, p }), 80),
  shuffle: (r) => LENGTHS.flatMap((n) => shuffled(r, upTo(n))),
  "permutation n": (r) => LENGTHS.flatMap((n) => r.permutation(n)),
  "permutation items": (r) => flat(() => r.permutation(LETTERS), 58),
  mixed: (r) =>
    flat(
      () => [
        ...[r.integers(0, 7), real(r.random()), r.integers(0, 100), r.integers(0, 2 ** 32), r.integers(5, 6)],
        ...[r.integers(0, 2 ** 40), r.choice(LETTERS), r.choice(LETTERS, { p }), real(r.uniform(-1, 1))],
        ...shuffled(r, LETTERS.slice(0, 5)),
      ],
      40,
    ),
};

const pythonPrograms: Record<string, (r: PythonRandom) => Draw[]> = {
  random: (r) => times(() => real(r.random())),
  getrandbits: (r) => upTo(DRAWS).map((i) => r.getrandbits(i % 54)),
  randint: (r) => times(() => r.randint(-3, 12)),
  "randint wide": (r) => times(() => r.randint(-(2 ** 51), 2 ** 52)),
  ...Object.fromEntries(RANGES.map((n) => [`randrange ${n}`, (r: PythonRandom) => times(() => r.randrange(n))])),
  "randrange step": (r) => times(() => r.randrange(5, 100, 7)),
  "randrange back": (r) => times(() => r.randrange(50, -50, -3)),
  choice: (r) => times(() => r.choice(LETTERS)),
  "sample pool": (r) => flat(() => r.sample(LETTERS, 4), 100),
  "sample at the limits": (r) => [21, 22].flatMap((n) => flat(() => r.sample(n, 5), 40)),
  "sample table": (r) => [85, 86, 277, 278].flatMap((n) => flat(() => r.sample(n, 21), 5)),
  "sample set": (r) => flat(() => r.sample(2 ** 31, 40), 10),
  "sample all": (r) => r.sample(upTo(DRAWS), DRAWS),
  shuffle: (r) => LENGTHS.flatMap((n) => shuffled(r, upTo(n))),
  mixed: (r) =>
    flat(
      () => [
        ...[r.randint(0, 6), real(r.random()), r.getrandbits(9), r.randrange(2 ** 40), r.choice(LETTERS)],
        ...shuffled(r, LETTERS.slice(0, 5)),
        ...r.sample(LETTERS, 3),
      ],
      40,
    ),
};

function repeats<R>(kind: "numpy" | "python", programs: Record<string, (r: R) => Draw[]>, make: (seed: number) => R) {
  test(`the programs of ${kind} are those of the vectors, over at least 50 seeds`, () => {
    expect(Object.keys(programs).sort()).toEqual(Object.keys(vectors[kind]).sort());
    expect(vectors.seeds.length).toBeGreaterThanOrEqual(50);
    expect(vectors.seeds.filter((seed) => seed >= 2 ** 32).length).toBeGreaterThan(10);
  });
  test.each(Object.entries(programs))(`%s draws what ${kind} draws, for every seed`, (name, program) => {
    const rows = vectors.seeds.map((seed) => {
      const draws = program(make(seed)).map(text);
      const digest = createHash("sha256").update(draws.join(",")).digest("hex").slice(0, 16);
      return [digest, ...draws.slice(0, 2)].join(",");
    });
    expect(rows).toEqual(vectors[kind][name]);
  });
}

describe("NumpyRandom", () => {
  repeats("numpy", numpyPrograms, (seed) => new NumpyRandom(seed));

  test("a loaded state goes on exactly, the buffered 32 bits included", () => {
    const first = new NumpyRandom(5);
    first.integers(10);
    const saved = JSON.parse(JSON.stringify(first.save()));
    const second = new NumpyRandom(99);
    second.load(saved);
    expect(numpyPrograms.mixed!(second)).toEqual(numpyPrograms.mixed!(first));
  });

  test("what can't be drawn is refused", () => {
    const r = new NumpyRandom(0);
    expect(() => r.integers(3, 3)).toThrow(ConfigError);
    expect(() => r.integers(0.5)).toThrow(ConfigError);
    expect(() => r.integers(0, 2 ** 53)).toThrow(ConfigError);
    expect(() => r.uniform(1, 0)).toThrow(ConfigError);
    expect(() => r.random(-1)).toThrow(ConfigError);
    expect(() => r.choice([])).toThrow(ConfigError);
    expect(() => r.choice(3, { size: 4, replace: false })).toThrow("4 of 3");
    expect(() => r.choice(2, { p: [0.5, 0.4] })).toThrow("add up to 0.9");
    expect(() => r.choice(2, { p: [1] })).toThrow("1 probabilities");
    expect(() => r.choice(2, { p: [1.5, -0.5] })).toThrow("negative");
    expect(() => r.choice(2, { p: [1, 0], size: 2, replace: false })).toThrow("only 1");
    expect(() => r.load(new PythonRandom(0).save())).toThrow(DataError);
  });
});

describe("PythonRandom", () => {
  repeats("python", pythonPrograms, (seed) => new PythonRandom(seed));

  test("a loaded state goes on exactly", () => {
    const first = new PythonRandom(5);
    first.random();
    const saved = JSON.parse(JSON.stringify(first.save()));
    const second = new PythonRandom(99);
    second.load(saved);
    expect(pythonPrograms.mixed!(second)).toEqual(pythonPrograms.mixed!(first));
  });

  test("what can't be drawn is refused", () => {
    const r = new PythonRandom(0);
    expect(() => r.randint(2, 1)).toThrow(ConfigError);
    expect(() => r.randrange(0)).toThrow(ConfigError);
    expect(() => r.randrange(0, 5, 0)).toThrow(ConfigError);
    expect(() => r.randrange(0.5)).toThrow(ConfigError);
    expect(() => r.randint(-Number.MAX_SAFE_INTEGER, Number.MAX_SAFE_INTEGER)).toThrow(ConfigError);
    expect(() => r.choice([])).toThrow(ConfigError);
    expect(() => r.sample([1, 2], 3)).toThrow("3 of 2");
    expect(() => r.getrandbits(54)).toThrow(ConfigError);
    expect(() => r.load({ kind: "mt19937" })).toThrow(DataError);
  });
});

test.each([-1, 0.5, Number.NaN, 2 ** 53, "7", 7n, null, undefined])("%s is not a seed", (seed) => {
  expect(() => checkSeed(seed)).toThrow(ConfigError);
  expect(() => new NumpyRandom(seed as number)).toThrow("must be a whole number from 0");
  expect(() => new PythonRandom(seed as number)).toThrow(ConfigError);
});

test("the largest seed is 2^53 - 1", () => {
  expect(checkSeed(Number.MAX_SAFE_INTEGER)).toBe(2 ** 53 - 1);
});
