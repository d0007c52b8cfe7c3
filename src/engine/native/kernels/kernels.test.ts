/**
 * Every kernel, in every implementation that this machine can run: TypeScript reference, portable C++, AVX2, WebAssembly. Three tables:
 * fast results against the reference, equal bits whatever the batch, and backward kernels against finite differences.
 */

import { Worker } from "node:worker_threads";
import { describe, expect, test } from "vitest";
import type { F32, Flag, Kernels } from "./api.ts";
import { referenceKernels } from "./reference.ts";
import { build, fastVariants, everyVariant as implementations } from "./test-variants.ts";

test.runIf(process.env.SACCADE_REQUIRE?.includes("compiled"))("the compiled kernels build on this machine", () => {
  expect(build).toHaveProperty("file");
});

// ── helpers ────────────────────────────────────────────────────────────────────────────────────────────────────────

/** Numbers from a seed; `int` is inclusive on both ends. */
class Numbers {
  private state: number;
  constructor(seed: number) {
    this.state = (seed * 2654435761 + 12345) >>> 0;
  }
  next(): number {
    this.state = (this.state + 0x6d2b79f5) >>> 0;
    let x = this.state;
    x = Math.imul(x ^ (x >>> 15), x | 1);
    x ^= x + Math.imul(x ^ (x >>> 7), x | 61);
    return ((x ^ (x >>> 14)) >>> 0) / 2 ** 32;
  }
  int(low: number, high: number): number {
    return low + Math.floor(this.next() * (high - low + 1));
  }
  pick<T>(values: readonly T[]): T {
    return values[this.int(0, values.length - 1)]!;
  }
  floats(n: number, size = 1): F32 {
    return Float32Array.from({ length: n }, () => (this.next() + this.next() + this.next() - 1.5) * 2 * size);
  }
  ints(n: number, limit: number): Int32Array {
    return Int32Array.from({ length: n }, () => this.int(0, limit - 1));
  }
}

/** Largest difference, relative to the size of the expected array (at least 0.1: noise around zero is no difference). */
function distance(actual: ArrayLike<number>, expected: ArrayLike<number>): number {
  let size = 0.1;
  let worst = 0;
  for (let i = 0; i < expected.length; i++) {
    const [a, e] = [actual[i]!, expected[i]!];
    if (a === e) continue;
    if (!Number.isFinite(a) || !Number.isFinite(e)) return Infinity;
    worst = Math.max(worst, Math.abs(a - e));
  }
  for (let i = 0; i < expected.length; i++)
    if (Number.isFinite(expected[i]!)) size = Math.max(size, Math.abs(expected[i]!));
  return worst / size;
}

function expectSameBits(actual: F32, expected: F32, what = ""): void {
  const bits = (x: F32) => Buffer.from(x.buffer, x.byteOffset, x.byteLength);
  if (!bits(actual).equals(bits(expected))) expect(actual, what).toEqual(expected);
  expect(bits(actual).equals(bits(expected)), what).toBe(true);
}

const zeros = (n: number) => new Float32Array(n);
const rowsOf = (x: F32, from: number, count: number, dim: number) => x.slice(from * dim, (from + count) * dim);

interface AttentionShape {
  heads: number;
  kvHeads: number;
  dim: number;
  lengths: number[];
}

function attentionShape(random: Numbers): AttentionShape {
  const kvHeads = random.int(1, 3);
  return {
    heads: kvHeads * random.int(1, 4),
    kvHeads,
    dim: random.pick([2, 6, 16, 24, 32, 40, 64, 128]),
    lengths: Array.from({ length: random.int(1, 3) }, () => random.pick([1, 2, 7, 16, 17, random.int(1, 90)])),
  };
}

/** Segments end to end, with one unused row before each. */
function segmentsOf(lengths: number[]): { segments: Int32Array; rows: number } {
  let rows = 0;
  const pairs = lengths.flatMap((length) => {
    const start = rows + 1;
    rows = start + length;
    return [start, length];
  });
  return { segments: Int32Array.from(pairs), rows };
}

/** Some rows of every other segment, in up to three pieces. */
function someQueries(random: Numbers, segments: Int32Array): Int32Array {
  const pairs: number[] = [];
  for (let s = 0; s < segments.length; s += 4) {
    let at = segments[s] as number;
    const end = at + (segments[s + 1] as number);
    for (let piece = 0; piece < 3 && at < end; piece++) {
      const start = random.int(at, end - 1);
      const length = random.int(1, end - start);
      pairs.push(start, length);
      at = start + length;
    }
  }
  return Int32Array.from(pairs);
}

function attentionOf(
  k: Kernels,
  shape: AttentionShape,
  q: F32,
  keys: F32,
  values: F32,
  causal: Flag,
  asked?: Int32Array,
) {
  const { heads, kvHeads, dim } = shape;
  const { segments, rows } = segmentsOf(shape.lengths);
  const queries = asked ?? segments;
  const [wide, narrow] = [heads * dim, kvHeads * dim];
  const [out, lse] = [zeros(rows * wide), zeros(rows * heads)];
  k.attention(
    out,
    wide,
    lse,
    q,
    wide,
    keys,
    narrow,
    values,
    narrow,
    segments,
    queries,
    heads,
    kvHeads,
    dim,
    dim ** -0.5,
    causal,
  );
  return { out, lse, segments, rows, wide, narrow };
}

// ── compiled against reference ─────────────────────────────────────────────────────────────────────────────────────

/** Each makes its inputs from the random numbers it is given and returns everything the kernel wrote. */
const table: Record<string, (k: Kernels, random: Numbers) => ArrayLike<number>[]> = {
  matmul(k, random) {
    const [m, n, d] = [random.pick([1, 2, 3, 5, 6, 7, 13, 250]), random.int(1, 70), random.pick([1, 8, 31, 300])];
    const [transA, transB, accumulate] = [random.int(0, 1) as Flag, random.int(0, 1) as Flag, random.int(0, 1) as Flag];
    const [lda, ldb, ldc] = [
      (transA ? m : d) + random.int(0, 3),
      (transB ? d : n) + random.int(0, 3),
      n + random.int(0, 3),
    ];
    const c = random.floats(m * ldc);
    const [a, b] = [random.floats((transA ? d : m) * lda), random.floats((transB ? n : d) * ldb)];
    k.matmul(c, ldc, a, lda, b, ldb, m, n, d, transA, transB, accumulate);
    return [c];
  },
  gram(k, random) {
    const [n, d, trans] = [random.int(1, 130), random.pick([1, 8, 31, 300]), random.int(0, 1) as Flag];
    const ldx = (trans ? n : d) + random.int(0, 3);
    const [c, x] = [random.floats(n * n), random.floats((trans ? d : n) * ldx)];
    k.gram(c, x, ldx, n, d, trans);
    return [c];
  },
  matmulPacked(k, random) {
    const [m, n, d] = [random.pick([1, 2, 3, 4, 8, 25]), random.int(1, 150), random.pick([1, 16, 33, 513])];
    const [transB, accumulate] = [random.int(0, 1) as Flag, random.int(0, 1) as Flag];
    const [a, b, c] = [random.floats(m * d), random.floats(n * d), random.floats(m * n)];
    const bias = random.int(0, 1) ? random.floats(n) : null;
    const packed = zeros(k.packedSize(n, d));
    k.pack(packed, b, transB ? d : n, n, d, transB);
    k.matmulPacked(c, n, a, d, packed, bias, m, n, d, accumulate);
    return [c];
  },
  attention(k, random) {
    const shape = attentionShape(random);
    const { rows } = segmentsOf(shape.lengths);
    const q = random.floats(rows * shape.heads * shape.dim, 2);
    const keys = random.floats(rows * shape.kvHeads * shape.dim, 2);
    const values = random.floats(rows * shape.kvHeads * shape.dim);
    const causal = random.int(0, 1) as Flag;
    const whole = attentionOf(k, shape, q, keys, values, causal);
    const some = attentionOf(k, shape, q, keys, values, causal, someQueries(random, whole.segments));
    return [whole.out, whole.lse, some.out, some.lse];
  },
  attentionBackward(k, random) {
    const shape = attentionShape(random);
    const { heads, kvHeads, dim } = shape;
    const { rows } = segmentsOf(shape.lengths);
    const causal = random.int(0, 1) as Flag;
    const [q, keys] = [random.floats(rows * heads * dim), random.floats(rows * kvHeads * dim)];
    const [values, dout] = [random.floats(rows * kvHeads * dim), random.floats(rows * heads * dim)];
    const { segments } = segmentsOf(shape.lengths);
    const queries = random.int(0, 1) === 1 ? segments : someQueries(random, segments);
    const { out, lse, wide, narrow } = attentionOf(k, shape, q, keys, values, causal, queries);
    const [dq, dk, dv] = [zeros(q.length), zeros(keys.length), zeros(values.length)];
    const scale = dim ** -0.5;
    k.attentionBackward(
      dq,
      dk,
      dv,
      dout,
      wide,
      out,
      lse,
      q,
      wide,
      keys,
      narrow,
      values,
      narrow,
      segments,
      queries,
      heads,
      kvHeads,
      dim,
      scale,
      causal,
    );
    return [dq, dk, dv];
  },
  rmsNorm(k, random) {
    const [rows, dim] = [random.int(1, 5), random.pick([1, 7, 32, 67, 128])];
    const [out, inv] = [zeros(rows * dim), zeros(rows)];
    k.rmsNorm(out, inv, random.floats(rows * dim), random.floats(dim), rows, dim, 1e-6);
    return [out, inv];
  },
  layerNorm(k, random) {
    const [rows, dim] = [random.int(1, 5), random.pick([2, 7, 32, 67, 128])];
    const [out, mean, inv] = [zeros(rows * dim), zeros(rows), zeros(rows)];
    k.layerNorm(out, mean, inv, random.floats(rows * dim), random.floats(dim), random.floats(dim), rows, dim, 1e-6);
    return [out, mean, inv];
  },
  rmsNormBackward(k, random) {
    const [rows, dim] = [random.int(1, 5), random.pick([1, 7, 32, 67])];
    const [dx, dw, dy, x, w] = [rows * dim, dim, rows * dim, rows * dim, dim].map((n) => random.floats(n)) as [
      F32,
      F32,
      F32,
      F32,
      F32,
    ];
    const inv = random.floats(rows).map((value) => Math.abs(value) + 0.5);
    k.rmsNormBackward(dx, dw, dy, x, w, inv, rows, dim, random.int(0, 1) as Flag);
    return [dx, dw];
  },
  layerNormBackward(k, random) {
    const [rows, dim] = [random.int(1, 5), random.pick([2, 7, 32, 67])];
    const [dx, dy, x] = [random.floats(rows * dim), random.floats(rows * dim), random.floats(rows * dim)];
    const [dw, db, w] = [random.floats(dim), random.floats(dim), random.floats(dim)];
    const inv = random.floats(rows).map((value) => Math.abs(value) + 0.5);
    k.layerNormBackward(dx, dw, db, dy, x, w, random.floats(rows), inv, rows, dim, random.int(0, 1) as Flag);
    return [dx, dw, db];
  },
  rope(k, random) {
    const [rows, heads, dim] = [random.int(1, 5), random.int(1, 3), random.pick([2, 6, 16, 40, 64])];
    const ldx = heads * dim + 5;
    const angles = random.floats((rows * dim) / 2, 3);
    const x = random.floats(rows * ldx);
    k.rope(x, ldx, angles.map(Math.cos), angles.map(Math.sin), rows, heads, dim, random.int(0, 1) as Flag);
    return [x];
  },
  siluMul(k, random) {
    const n = random.int(1, 50);
    const out = zeros(n);
    k.siluMul(out, random.floats(n, 20), random.floats(n), n);
    return [out];
  },
  siluMulBackward(k, random) {
    const n = random.int(1, 50);
    const [dgate, dup] = [zeros(n), zeros(n)];
    k.siluMulBackward(dgate, dup, random.floats(n), random.floats(n, 20), random.floats(n), n);
    return [dgate, dup];
  },
  gelu(k, random) {
    const n = random.int(1, 50);
    const out = zeros(n);
    k.gelu(out, random.floats(n, random.pick([0.01, 1, 20])), n, random.int(0, 1) as Flag);
    return [out];
  },
  geluBackward(k, random) {
    const n = random.int(1, 50);
    const dx = zeros(n);
    k.geluBackward(dx, random.floats(n), random.floats(n, random.pick([0.01, 1, 20])), n, random.int(0, 1) as Flag);
    return [dx];
  },
  gatherRows(k, random) {
    const [rows, dim] = [random.int(1, 9), random.int(1, 20)];
    const out = zeros(rows * dim);
    k.gatherRows(out, random.floats(7 * dim), random.ints(rows, 7), rows, dim);
    return [out];
  },
  scatterAddRows(k, random) {
    const [rows, dim] = [random.int(1, 9), random.int(1, 20)];
    const to = random.floats(7 * dim);
    k.scatterAddRows(to, random.floats(rows * dim), random.ints(rows, 7), rows, dim);
    return [to];
  },
  scatterRows(k, random) {
    const [rows, dim] = [random.int(1, 9), random.int(1, 20)];
    const to = random.floats(7 * dim);
    k.scatterRows(to, random.floats(rows * dim), random.ints(rows, 7), rows, dim);
    return [to];
  },
  mixRows(k, random) {
    const [rows, taps, dim] = [random.int(1, 9), random.int(1, 4), random.int(1, 20)];
    const out = random.floats(rows * dim);
    const ids = random.ints(rows * taps, 7);
    k.mixRows(out, random.floats(7 * dim), ids, random.floats(rows * taps), rows, taps, dim, random.int(0, 1) as Flag);
    return [out];
  },
  mixRowsBackward(k, random) {
    const [rows, taps, dim] = [random.int(1, 9), random.int(1, 4), random.int(1, 20)];
    const to = random.floats(7 * dim);
    k.mixRowsBackward(
      to,
      random.floats(rows * dim),
      random.ints(rows * taps, 7),
      random.floats(rows * taps),
      rows,
      taps,
      dim,
    );
    return [to];
  },
  sumRows(k, random) {
    const [rows, dim] = [random.int(1, 40), random.int(1, 80)];
    const sums = random.floats(dim);
    k.sumRows(sums, random.floats(rows * dim), rows, dim);
    return [sums];
  },
  axpyAndScale(k, random) {
    const n = random.int(1, 40);
    const y = random.floats(n);
    k.axpy(y, 0.7, random.floats(n), n);
    k.scale(y, -1.3, n);
    return [y];
  },
  sumSquares(k, random) {
    const n = random.int(1, 400);
    return [[k.sumSquares(random.floats(n), n)]];
  },
  logSoftmax(k, random) {
    const [rows, vocab] = [random.int(1, 4), random.int(2, 90)];
    const out = random.floats(rows * vocab, 5);
    k.logSoftmax(out, out, heats(random, rows), allowedIds(random, vocab), rows, vocab);
    return [out];
  },
  tokenLogprobs(k, random) {
    const [rows, vocab] = [random.int(1, 4), random.int(2, 90)];
    const [logprobs, entropy, lse] = [zeros(rows), zeros(rows), zeros(rows * 2)];
    const targets = random.ints(rows, vocab + 1).map((id) => id - 1);
    k.tokenLogprobs(
      logprobs,
      entropy,
      lse,
      random.floats(rows * vocab, 5),
      targets,
      heats(random, rows),
      allowedIds(random, vocab),
      rows,
      vocab,
    );
    return [logprobs, entropy, lse];
  },
  tokenLogprobsBackward(k, random) {
    const [rows, vocab] = [random.int(1, 4), random.int(2, 90)];
    const [logprobs, entropy, lse] = [zeros(rows), zeros(rows), zeros(rows * 2)];
    const targets = random.ints(rows, vocab + 1).map((id) => id - 1);
    const [temperature, allowed, logits] = [
      heats(random, rows),
      allowedIds(random, vocab),
      random.floats(rows * vocab, 5),
    ];
    k.tokenLogprobs(logprobs, entropy, lse, logits, targets, temperature, allowed, rows, vocab);
    const [up, spread] = [random.floats(rows), random.floats(rows)];
    k.tokenLogprobsBackward(logits, logits, targets, temperature, allowed, lse, entropy, up, spread, rows, vocab);
    return [logits];
  },
  adamw(k, random) {
    const n = random.int(1, 40);
    const [p, g, m, v] = [random.floats(n), random.floats(n), random.floats(n), random.floats(n).map(Math.abs)];
    k.adamw(p, g, m, v, n, 1e-2, 0.9, 0.99, 1e-8, 0.1, 0.4, 0.3, 0.5);
    return [p, m, v];
  },
};

function heats(random: Numbers, rows: number): F32 {
  return Float32Array.from({ length: rows }, () => random.pick([1, 0.7, 1.5]));
}

/** Sometimes no mask; id 0 is always allowed. */
function allowedIds(random: Numbers, vocab: number): Uint8Array | null {
  return random.int(0, 1)
    ? Uint8Array.from({ length: vocab }, (_, i) => (i === 0 || random.int(0, 3) > 0 ? 1 : 0))
    : null;
}

describe.each(fastVariants)("fast kernels ($isa)", (k) => {
  test.each(Object.entries(table))("%s agrees with the reference", (_, run) => {
    for (let seed = 0; seed < 40; seed++) {
      const actual = run(k, new Numbers(seed));
      const expected = run(referenceKernels, new Numbers(seed));
      actual.forEach((array, i) => {
        expect(distance(array, expected[i]!), `output ${i} of seed ${seed}`).toBeLessThan(2e-5);
      });
    }
  });

  test("every kernel has its row in the table", () => {
    const elsewhere = [
      "packedSize",
      "pack",
      "cacheSize",
      "cacheWrite",
      "cacheCopy",
      "attentionCached",
      "axpy",
      "scale",
      "peak",
      "floats",
      "free",
    ];
    const functions = Object.keys(k).filter((name) => typeof k[name as keyof Kernels] === "function");
    expect(functions.filter((name) => !(name in table)).sort()).toEqual(elsewhere.sort());
    expect(Object.keys(referenceKernels).sort()).toEqual(Object.keys(k).sort());
  });

  test("an array that is too short is refused by kernel and argument, before anything is read", () => {
    const [c, a, b] = [zeros(6), zeros(6), zeros(8)];
    expect(() => k.matmul(c, 3, a, 4, b, 3, 2, 3, 4, 0, 0, 0)).toThrow(
      new RangeError("matmul: a needs 8 elements, has 6"),
    );
    expect(() => k.gatherRows(c, a, Int32Array.of(3), 1, 2)).toThrow(
      new RangeError("gatherRows: ids is out of range (3)"),
    );
    expect(() => k.scale(c, 1, -1)).toThrow(TypeError);
    expect(() => k.scale(new Float64Array(2) as unknown as F32, 1, 2)).toThrow(
      "scale: argument 1 must be a Float32Array",
    );
    const row = Int32Array.of(0, 1, 0, 16);
    expect(() => k.attentionCached(a, 2, a, 2, zeros(256), zeros(256), row, 16, 1, 1, 2, 1)).toThrow(
      "attentionCached: table",
    );
    expect(k.sumSquares(new Float32Array(new SharedArrayBuffer(400), 16, 90).fill(2), 90)).toBe(360);
  });

  test("peak is positive", () => {
    expect(k.peak(5)).toBeGreaterThan(0.01);
  });
});

describe.runIf("file" in build)("the addon", () => {
  test("runs in several worker threads at once", async () => {
    const file = "file" in build ? build.file : "";
    const script = `const { parentPort, workerData } = require("node:worker_threads");
      const k = require(workerData).generic; const n = 64 * 64, a = new Float32Array(n).fill(1), c = new Float32Array(n);
      for (let i = 0; i < 50; i++) k.matmul(c, 64, a, 64, a, 64, 64, 64, 64, 0, 0, 1);
      parentPort.postMessage(c[n - 1]);`;
    const answers = Array.from({ length: 3 }, () => {
      const worker = new Worker(script, { eval: true, workerData: file });
      return new Promise((resolve, reject) => worker.on("message", resolve).on("error", reject));
    });
    expect(await Promise.all(answers)).toEqual([3200, 3200, 3200]);
  });
});

// ── batch invariance ───────────────────────────────────────────────────────────────────────────────────────────────

describe.each(implementations)("bits do not depend on the batch ($isa)", (k) => {
  const rounds = k.name === "reference" ? 10 : 60;
  const repeat = (run: (random: Numbers) => void) => {
    for (let seed = 0; seed < rounds; seed++) run(new Numbers(seed + 1000));
  };

  test("a row of a matrix product is the same alone, together, packed, transposed and in any columns", () => {
    repeat((random) => {
      const [m, n, d] = [random.int(1, 40), random.int(1, 100), random.pick([1, 15, 128, 257, 600])];
      const [a, b, bias, start] = [random.floats(m * d), random.floats(d * n), random.floats(n), random.floats(m * n)];
      const bT = Float32Array.from({ length: n * d }, (_, i) => b[(i % d) * n + Math.floor(i / d)]!);
      const aT = Float32Array.from({ length: m * d }, (_, i) => a[(i % m) * d + Math.floor(i / m)]!);
      const accumulate = random.int(0, 1) as Flag;
      const whole = start.slice();
      k.matmul(whole, n, a, d, b, n, m, n, d, 0, 0, accumulate);
      const check = (what: string, run: (c: F32) => void) => {
        const c = start.slice();
        run(c);
        expectSameBits(c, whole, what);
      };
      check("transposed b", (c) => k.matmul(c, n, a, d, bT, d, m, n, d, 0, 1, accumulate));
      check("transposed a", (c) => k.matmul(c, n, aT, m, b, n, m, n, d, 1, 0, accumulate));
      check("both transposed", (c) => k.matmul(c, n, aT, m, bT, d, m, n, d, 1, 1, accumulate));
      check("rows in two parts", (c) => {
        const cut = random.int(0, m);
        k.matmul(c, n, a, d, b, n, cut, n, d, 0, 0, accumulate);
        k.matmul(c.subarray(cut * n), n, a.subarray(cut * d), d, b, n, m - cut, n, d, 0, 0, accumulate);
      });
      check("columns in two parts", (c) => {
        const cut = random.int(0, n);
        k.matmul(c, n, a, d, b, n, m, cut, d, 0, 0, accumulate);
        k.matmul(c.subarray(cut), n, a, d, b.subarray(cut), n, m, n - cut, d, 0, 0, accumulate);
      });
      const packed = zeros(k.packedSize(n, d));
      k.pack(packed, b, n, n, d, 0);
      check("packed", (c) => k.matmulPacked(c, n, a, d, packed, null, m, n, d, accumulate));
      check("packed, row by row", (c) => {
        for (let i = 0; i < m; i++)
          k.matmulPacked(c.subarray(i * n), n, a.subarray(i * d), d, packed, null, 1, n, d, accumulate);
      });
      for (let i = 0; i < m; i++) k.axpy(whole.subarray(i * n, (i + 1) * n), 1, bias, n);
      check("packed with bias", (c) => k.matmulPacked(c, n, a, d, packed, bias, m, n, d, accumulate));
    });
  });

  test("a Gram matrix is the product of a matrix and its transpose, however large and however it is stored", () => {
    const check = (n: number, d: number, random: Numbers) => {
      const x = random.floats(n * d);
      const xT = Float32Array.from({ length: n * d }, (_, i) => x[(i % n) * d + Math.floor(i / n)]!);
      const [whole, rows, columns] = [zeros(n * n), zeros(n * n), zeros(n * n)];
      k.matmul(whole, n, x, d, xT, n, n, n, d, 0, 0, 0);
      k.gram(rows, x, d, n, d, 0);
      k.gram(columns, xT, n, n, d, 1);
      expectSameBits(rows, whole, `rows, ${n}×${d}`);
      expectSameBits(columns, whole, `columns, ${n}×${d}`);
    };
    repeat((random) => check(random.int(1, 150), random.pick([1, 15, 128, 257, 600]), random));
    // Packed in two parts.
    if (k.name !== "reference") check(150, 9000, new Numbers(3));
  });

  test("long strides of a, which make the compiled kernels copy it, do not change a bit", () => {
    const random = new Numbers(5);
    for (const m of [7, 12, 13, 20, 260]) {
      const [n, d, lda] = [260, 70, 1100];
      const [a, b, c, expected] = [random.floats(m * lda), random.floats(d * n), zeros(m * n), zeros(m * n)];
      const dense = Float32Array.from({ length: m * d }, (_, i) => a[Math.floor(i / d) * lda + (i % d)]!);
      const aT = Float32Array.from(
        { length: (d - 1) * lda + m },
        (_, i) => dense[(i % lda) * d + Math.floor(i / lda)] ?? 0,
      );
      k.matmul(expected, n, dense, d, b, n, m, n, d, 0, 0, 0);
      k.matmul(c, n, a, lda, b, n, m, n, d, 0, 0, 0);
      expectSameBits(c, expected, `${m} rows`);
      k.matmul(c.fill(0), n, aT, lda, b, n, m, n, d, 1, 0, 0);
      expectSameBits(c, expected, `${m} rows, transposed`);
    }
  });

  test("cached attention equals attention, whatever the chunks, the siblings and the capacity", () => {
    for (let seed = 0; seed < (k.name === "reference" ? 40 : 1500); seed++) {
      const random = new Numbers(seed);
      const shape = attentionShape(random);
      const { heads, kvHeads, dim, lengths } = shape;
      const { rows } = segmentsOf(lengths);
      const q = random.floats(rows * heads * dim, 2);
      const [keys, values] = [random.floats(rows * kvHeads * dim, 2), random.floats(rows * kvHeads * dim)];
      const { out, segments, wide, narrow } = attentionOf(k, shape, q, keys, values, 1);
      const capacity = Math.max(...lengths) + random.int(0, 20);
      const size = k.cacheSize(capacity, kvHeads, dim);
      // Left-over numbers in a cache must not matter, not even these.
      let [kCache, vCache] = [
        zeros(size * lengths.length).fill(Number.NaN),
        zeros(size * lengths.length).fill(Number.NaN),
      ];
      let room = capacity;
      const cached = zeros(out.length);
      const done = lengths.map(() => 0);
      while (lengths.some((length, s) => done[s]! < length)) {
        const entries = lengths.flatMap((length, s) => {
          const count = Math.min(random.pick([0, 1, 1, 3, 20, 40]), length - done[s]!);
          const entry = [segments[2 * s]! + done[s]!, count, s * k.cacheSize(room, kvHeads, dim), done[s]!];
          done[s]! += count;
          return count > 0 ? entry : [];
        });
        const runs = Int32Array.from(entries);
        k.cacheWrite(kCache, vCache, keys, narrow, values, narrow, runs, room, kvHeads, dim);
        k.attentionCached(cached, wide, q, wide, kCache, vCache, runs, room, heads, kvHeads, dim, dim ** -0.5);
        if (random.int(0, 4) > 0) continue;
        const larger = room + random.int(0, 20);
        const grown = k.cacheSize(larger, kvHeads, dim);
        const [kNext, vNext] = [
          zeros(grown * lengths.length).fill(Number.NaN),
          zeros(grown * lengths.length).fill(Number.NaN),
        ];
        lengths.forEach((_, s) => {
          const from = s * k.cacheSize(room, kvHeads, dim);
          k.cacheCopy(kNext, vNext, s * grown, larger, kCache, vCache, from, room, done[s]!, kvHeads, dim);
        });
        [kCache, vCache, room] = [kNext, vNext, larger];
      }
      expectSameBits(cached, out, `seed ${seed}`);
    }
  });

  test("asking for some rows leaves the others alone, and gives the bits and gradients of asking for all", () => {
    for (let seed = 0; seed < 20; seed++) {
      const random = new Numbers(seed);
      const shape = attentionShape(random);
      const { heads, kvHeads, dim } = shape;
      const { segments, rows } = segmentsOf(shape.lengths);
      const queries = someQueries(random, segments);
      const asked = new Set<number>();
      for (let i = 0; i < queries.length; i += 2) for (let r = 0; r < queries[i + 1]!; r++) asked.add(queries[i]! + r);
      const causal = (seed % 2) as Flag;
      const [q, keys] = [random.floats(rows * heads * dim), random.floats(rows * kvHeads * dim)];
      const [values, dout] = [random.floats(rows * kvHeads * dim), random.floats(rows * heads * dim)];
      const all = attentionOf(k, shape, q, keys, values, causal);
      const some = attentionOf(k, shape, q, keys, values, causal, queries);
      const { wide, narrow } = all;
      for (let row = 0; row < rows; row++) {
        const part = (x: F32) => x.subarray(row * wide, (row + 1) * wide);
        expect(part(some.out)).toEqual(asked.has(row) ? part(all.out) : zeros(wide));
        if (!asked.has(row)) part(dout).fill(0);
      }
      const backward = (from: typeof all, pairs: Int32Array) => {
        const grads = [zeros(q.length), zeros(keys.length), zeros(values.length)] as const;
        // biome-ignore format: one kernel call
        k.attentionBackward(...grads, dout, wide, from.out, from.lse, q, wide, keys, narrow, values, narrow, segments, pairs, heads, kvHeads, dim, dim ** -0.5, causal);
        return grads.map((grad) => grad.map((x) => x + 0));
      };
      expect(backward(some, queries)).toEqual(backward(all, segments));
    }
  });

  test("attention of a segment is the same alone and among others, with or without the causal rows that follow", () => {
    repeat((random) => {
      const shape = attentionShape(random);
      const { heads, kvHeads, dim } = shape;
      const { rows } = segmentsOf(shape.lengths);
      const q = random.floats(rows * heads * dim, 2);
      const [keys, values] = [random.floats(rows * kvHeads * dim, 2), random.floats(rows * kvHeads * dim)];
      const causal = random.int(0, 1) as Flag;
      const all = attentionOf(k, shape, q, keys, values, causal);
      shape.lengths.forEach((length, s) => {
        const start = all.segments[2 * s]! - 1;
        const count = causal ? random.int(1, length) : length;
        const part = (x: F32, dims: number) => rowsOf(x, start, count + 1, dims);
        const alone = { ...shape, lengths: [count] };
        const one = attentionOf(k, alone, part(q, all.wide), part(keys, all.narrow), part(values, all.narrow), causal);
        expectSameBits(rowsOf(one.out, 1, count, all.wide), rowsOf(all.out, start + 1, count, all.wide));
        expectSameBits(rowsOf(one.lse, 1, count, heads), rowsOf(all.lse, start + 1, count, heads));
      });
    });
  });

  /** Runs a row-wise kernel on `count` rows from row `first` of its inputs. */
  type RowKernel = (random: Numbers) => { rows: number; dim: number; run(first: number, count: number): F32 };
  const rowKernels: Record<string, RowKernel> = {
    rmsNorm(random) {
      const [rows, dim] = [9, random.int(1, 100)];
      const [x, w] = [random.floats(rows * dim), random.floats(dim)];
      const run = (first: number, count: number) => {
        const out = zeros(count * dim);
        k.rmsNorm(out, zeros(count), rowsOf(x, first, count, dim), w, count, dim, 1e-6);
        return out;
      };
      return { rows, dim, run };
    },
    layerNorm(random) {
      const [rows, dim] = [9, random.int(1, 100)];
      const [x, w, b] = [random.floats(rows * dim), random.floats(dim), random.floats(dim)];
      const run = (first: number, count: number) => {
        const out = zeros(count * dim);
        k.layerNorm(out, zeros(count), zeros(count), rowsOf(x, first, count, dim), w, b, count, dim, 1e-6);
        return out;
      };
      return { rows, dim, run };
    },
    siluMulAndGelu(random) {
      const [rows, dim] = [9, random.int(1, 30)];
      const [x, y, tanh] = [random.floats(rows * dim, 3), random.floats(rows * dim), random.int(0, 1) as Flag];
      const run = (first: number, count: number) => {
        const out = zeros(count * dim);
        k.siluMul(out, rowsOf(x, first, count, dim), rowsOf(y, first, count, dim), count * dim);
        k.gelu(out, out, count * dim, tanh);
        return out;
      };
      return { rows, dim, run };
    },
    rope(random) {
      const [rows, dim] = [9, 2 * random.int(1, 40)];
      const [x, cos, sin] = [
        random.floats(rows * dim),
        random.floats((rows * dim) / 2),
        random.floats((rows * dim) / 2),
      ];
      const run = (first: number, count: number) => {
        const out = rowsOf(x, first, count, dim);
        k.rope(out, dim, rowsOf(cos, first, count, dim / 2), rowsOf(sin, first, count, dim / 2), count, 1, dim, 0);
        return out;
      };
      return { rows, dim, run };
    },
    logSoftmax(random) {
      const [rows, dim] = [9, random.int(2, 100)];
      const [x, allowed, temperature] = [random.floats(rows * dim, 4), allowedIds(random, dim), heats(random, rows)];
      const run = (first: number, count: number) => {
        const out = rowsOf(x, first, count, dim);
        k.logSoftmax(out, out, rowsOf(temperature, first, count, 1), allowed, count, dim);
        return out;
      };
      return { rows, dim, run };
    },
  };
  test.each(Object.entries(rowKernels))("rows of %s are the same alone and together", (_, make) => {
    repeat((random) => {
      const { rows, dim, run } = make(random);
      const together = run(0, rows);
      const cut = random.int(1, rows - 1);
      expectSameBits(run(0, cut), rowsOf(together, 0, cut, dim));
      expectSameBits(run(cut, rows - cut), rowsOf(together, cut, rows - cut, dim));
      expectSameBits(run(cut, 1), rowsOf(together, cut, 1, dim));
    });
  });

  test("the learner's token log-probabilities are the sampler's", () => {
    repeat((random) => {
      const [rows, vocab] = [random.int(1, 5), random.int(2, 300)];
      const [logits, temperature, allowed] = [
        random.floats(rows * vocab, 4),
        heats(random, rows),
        allowedIds(random, vocab),
      ];
      const targets = random.ints(rows, vocab);
      const [out, logprobs] = [zeros(rows * vocab), zeros(rows)];
      k.logSoftmax(out, logits, temperature, allowed, rows, vocab);
      k.tokenLogprobs(logprobs, zeros(rows), zeros(rows * 2), logits, targets, temperature, allowed, rows, vocab);
      expectSameBits(
        logprobs,
        Float32Array.from(targets, (id, r) => out[r * vocab + id]!),
      );
      for (let r = 0; r < rows; r++) {
        const total = rowsOf(out, r, 1, vocab).reduce((sum, logp) => sum + Math.exp(logp), 0);
        expect(total).toBeCloseTo(1, 5);
      }
    });
  });
});

// ── finite differences ─────────────────────────────────────────────────────────────────────────────────────────────

interface Differentiable {
  inputs: F32[];
  forward(inputs: F32[]): F32[];
  /** One gradient per input; dy as long as the forward outputs. */
  backward(inputs: F32[], dy: F32[]): F32[];
}

const differentiable: Record<string, (k: Kernels, random: Numbers) => Differentiable> = {
  matmul(k, random) {
    const [m, n, d] = [3, 5, 4];
    return {
      inputs: [random.floats(m * d), random.floats(n * d)],
      forward([a, b]) {
        const c = zeros(m * n);
        k.matmul(c, n, a!, d, b!, d, m, n, d, 0, 1, 0);
        return [c];
      },
      backward([a, b], [dc]) {
        const [da, db] = [zeros(m * d), zeros(n * d)];
        k.matmul(da, d, dc!, n, b!, d, m, d, n, 0, 0, 0);
        k.matmul(db, d, dc!, n, a!, d, n, d, m, 1, 0, 0);
        return [da, db];
      },
    };
  },
  ...Object.fromEntries(
    ([0, 1] as Flag[]).map((causal) => [
      causal ? "causal attention" : "full attention",
      (k: Kernels, random: Numbers): Differentiable => {
        const shape = { heads: 4, kvHeads: 2, dim: 6, lengths: [3, 5] };
        const { rows } = segmentsOf(shape.lengths);
        return {
          inputs: [random.floats(rows * 24), random.floats(rows * 12), random.floats(rows * 12)],
          forward: ([q, keys, values]) => [attentionOf(k, shape, q!, keys!, values!, causal).out],
          backward([q, keys, values], [dout]) {
            const { out, lse, segments } = attentionOf(k, shape, q!, keys!, values!, causal);
            const [dq, dk, dv] = [zeros(q!.length), zeros(keys!.length), zeros(values!.length)];
            k.attentionBackward(
              dq,
              dk,
              dv,
              dout!,
              24,
              out,
              lse,
              q!,
              24,
              keys!,
              12,
              values!,
              12,
              segments,
              segments,
              4,
              2,
              6,
              6 ** -0.5,
              causal,
            );
            return [dq, dk, dv];
          },
        };
      },
    ]),
  ),
  rmsNorm(k, random) {
    const [rows, dim] = [3, 11];
    return {
      inputs: [random.floats(rows * dim), random.floats(dim)],
      forward([x, w]) {
        const out = zeros(rows * dim);
        k.rmsNorm(out, zeros(rows), x!, w!, rows, dim, 1e-6);
        return [out];
      },
      backward([x, w], [dy]) {
        const [dx, dw, inv] = [zeros(rows * dim), zeros(dim), zeros(rows)];
        k.rmsNorm(zeros(rows * dim), inv, x!, w!, rows, dim, 1e-6);
        k.rmsNormBackward(dx, dw, dy!, x!, w!, inv, rows, dim, 0);
        return [dx, dw];
      },
    };
  },
  layerNorm(k, random) {
    const [rows, dim] = [3, 11];
    return {
      inputs: [random.floats(rows * dim), random.floats(dim), random.floats(dim)],
      forward([x, w, b]) {
        const out = zeros(rows * dim);
        k.layerNorm(out, zeros(rows), zeros(rows), x!, w!, b!, rows, dim, 1e-6);
        return [out];
      },
      backward([x, w, b], [dy]) {
        const [dx, dw, db, mean, inv] = [zeros(rows * dim), zeros(dim), zeros(dim), zeros(rows), zeros(rows)];
        k.layerNorm(zeros(rows * dim), mean, inv, x!, w!, b!, rows, dim, 1e-6);
        k.layerNormBackward(dx, dw, db, dy!, x!, w!, mean, inv, rows, dim, 0);
        return [dx, dw, db];
      },
    };
  },
  rope(k, random) {
    const angles = random.floats(3 * 5, 3);
    const turn = (x: F32, inverse: Flag) => {
      const out = x.slice();
      k.rope(out, 20, angles.map(Math.cos), angles.map(Math.sin), 3, 2, 10, inverse);
      return [out];
    };
    return { inputs: [random.floats(60)], forward: ([x]) => turn(x!, 0), backward: (_, [dy]) => turn(dy!, 1) };
  },
  siluMul(k, random) {
    const n = 13;
    return {
      inputs: [random.floats(n, 2), random.floats(n)],
      forward([gate, up]) {
        const out = zeros(n);
        k.siluMul(out, gate!, up!, n);
        return [out];
      },
      backward([gate, up], [dy]) {
        const [dgate, dup] = [zeros(n), zeros(n)];
        k.siluMulBackward(dgate, dup, dy!, gate!, up!, n);
        return [dgate, dup];
      },
    };
  },
  ...Object.fromEntries(
    ([0, 1] as Flag[]).map((tanh) => [
      tanh ? "gelu by tanh" : "gelu by erf",
      (k: Kernels, random: Numbers): Differentiable => ({
        inputs: [random.floats(29, 3)],
        forward([x]) {
          const out = zeros(29);
          k.gelu(out, x!, 29, tanh);
          return [out];
        },
        backward([x], [dy]) {
          const dx = zeros(29);
          k.geluBackward(dx, dy!, x!, 29, tanh);
          return [dx];
        },
      }),
    ]),
  ),
  "gatherRows and scatterAddRows"(k, random) {
    const ids = random.ints(6, 4);
    return {
      inputs: [random.floats(4 * 5)],
      forward([x]) {
        const out = zeros(6 * 5);
        k.gatherRows(out, x!, ids, 6, 5);
        return [out];
      },
      backward(_, [dy]) {
        const dx = zeros(4 * 5);
        k.scatterAddRows(dx, dy!, ids, 6, 5);
        return [dx];
      },
    };
  },
  mixRows(k, random) {
    const [ids, weights] = [random.ints(6 * 3, 4), random.floats(6 * 3)];
    return {
      inputs: [random.floats(4 * 5)],
      forward([x]) {
        const out = zeros(6 * 5);
        k.mixRows(out, x!, ids, weights, 6, 3, 5, 0);
        return [out];
      },
      backward(_, [dy]) {
        const dx = zeros(4 * 5);
        k.mixRowsBackward(dx, dy!, ids, weights, 6, 3, 5);
        return [dx];
      },
    };
  },
  tokenLogprobs(k, random) {
    const [rows, vocab] = [4, 9];
    const [targets, temperature] = [Int32Array.of(3, -1, 0, 8), Float32Array.of(1, 1, 0.7, 1.3)];
    const allowed = Uint8Array.of(1, 1, 0, 1, 1, 0, 1, 1, 1);
    const forward = ([logits]: F32[]) => {
      const [logprobs, entropy, lse] = [zeros(rows), zeros(rows), zeros(2 * rows)];
      k.tokenLogprobs(logprobs, entropy, lse, logits!, targets, temperature, allowed, rows, vocab);
      return [logprobs, entropy, lse];
    };
    return {
      inputs: [random.floats(rows * vocab, 2)],
      forward: (inputs) => forward(inputs).slice(0, 2),
      backward([logits], [dlogprob, dentropy]) {
        const [, entropy, lse] = forward([logits!]);
        const dlogits = zeros(rows * vocab);
        k.tokenLogprobsBackward(
          dlogits,
          logits!,
          targets,
          temperature,
          allowed,
          lse!,
          entropy!,
          dlogprob!,
          dentropy!,
          rows,
          vocab,
        );
        return [dlogits];
      },
    };
  },
};

describe.each(implementations)("backward kernels agree with finite differences ($isa)", (k) => {
  test.each(Object.entries(differentiable))("%s", (_, make) => {
    const random = new Numbers(7);
    const { inputs, forward, backward } = make(k, random);
    const dy = forward(inputs).map((y) => random.floats(y.length));
    const loss = () => forward(inputs).reduce((sum, y, o) => y.reduce((s, value, i) => s + value * dy[o]![i]!, sum), 0);
    const gradients = backward(inputs, dy);
    inputs.forEach((input, which) => {
      const slopes = Array.from(input, (middle, i) => {
        // Differences of what was really stored: 1/128 is rounded when added to a float.
        const values = [middle + 1 / 128, middle - 1 / 128].map((value) => {
          input[i] = value;
          return { x: input[i]!, y: loss() };
        });
        input[i] = middle;
        return (values[0]!.y - values[1]!.y) / (values[0]!.x - values[1]!.x);
      });
      expect(distance(gradients[which]!, slopes), `input ${which}`).toBeLessThan(1e-3);
    });
  });
});
