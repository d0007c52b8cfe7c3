/** Kernels that other threads help with: every one that is ever cut gives the bits of one thread alone. */
import { once } from "node:events";
import { Worker } from "node:worker_threads";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { NumpyRandom } from "../../../core/random-numpy.ts";
import { startThread } from "../../../core/workers.ts";
import type { F32, Kernels } from "./api.ts";
import { build, compiledVariants, wasmModule } from "./test-variants.ts";
import { attachWasm } from "./wasm.ts";
import { openMemory, type WasmThread } from "./wasm-memory.ts";

/** The most threads of a table below. Compiled kernels start helpers themselves; those of WebAssembly are workers. */
const MOST = 7;
const places = openMemory(wasmModule, 2 * MOST);
const wasm = attachWasm(places[0] as WasmThread);
const helpers: Worker[] = [];
beforeAll(() => {
  for (const workerData of places.slice(MOST, 2 * MOST - 1)) {
    helpers.push(startThread("engine/native/native-helper", { workerData }));
  }
});
afterAll(() => Promise.all(helpers.map((helper) => helper.terminate())));

const variants = [...compiledVariants, wasm];

function numbers(seed: number, count: number): F32 {
  const random = new NumpyRandom(seed);
  return Float32Array.from({ length: count }, () => 2 * random.random() - 1);
}

const [rows, dim] = [700, 160];
const x = numbers(1, rows * dim);
const y = numbers(2, rows * dim);
const weights = numbers(3, dim);
const broad = numbers(5, 700 * 2000);
const [long, longer] = [numbers(10, 400_001), numbers(11, 400_001)];

/** Name → runs the kernel on much work and gives what it wrote. */
const table: Record<string, (k: Kernels) => F32[]> = {
  "matmul by rows": (k) => {
    const c = y.slice();
    k.matmul(c, dim, x, dim, numbers(4, dim * dim), dim, rows, dim, dim, 0, 1, 1);
    return [c];
  },
  "matmul by columns": (k) => {
    const c = new Float32Array(9 * 2000);
    k.matmul(c, 2000, x, 700, broad, 2000, 9, 2000, 700, 0, 0, 0);
    return [c];
  },
  "matmul of a transposed": (k) => {
    const c = numbers(6, dim * dim);
    k.matmul(c, dim, x, dim, y, dim, dim, dim, rows, 1, 0, 1);
    return [c];
  },
  gram: (k) => {
    const [c, d] = [new Float32Array(rows * rows), new Float32Array(dim * dim)];
    k.gram(c, x, dim, rows, dim, 0);
    k.gram(d, x, dim, dim, rows, 1);
    return [c, d];
  },
  matmulPacked: (k) => {
    const packed = new Float32Array(k.packedSize(dim, dim));
    k.pack(packed, numbers(7, dim * dim), dim, dim, dim, 1);
    const c = new Float32Array(rows * dim);
    k.matmulPacked(c, dim, x, dim, packed, weights, rows, dim, dim, 0);
    return [c];
  },
  "attention, causal": (k) => attention(k, 1),
  "attention, both ways": (k) => attention(k, 0),
  rmsNorm: (k) => {
    const [out, inv] = [new Float32Array(rows * dim), new Float32Array(rows)];
    k.rmsNorm(out, inv, x, weights, rows, dim, 1e-6);
    return [out, inv];
  },
  layerNorm: (k) => {
    const [out, mean, inv] = [new Float32Array(rows * dim), new Float32Array(rows), new Float32Array(rows)];
    k.layerNorm(out, mean, inv, x, weights, weights, rows, dim, 1e-6);
    return [out, mean, inv];
  },
  rope: (k) => {
    const out = x.slice();
    k.rope(out, dim, numbers(8, rows * 16), numbers(9, rows * 16), rows, 5, 32, 0);
    return [out];
  },
  siluMul: (k) => {
    const [out, dgate, dup] = [new Float32Array(x.length), new Float32Array(x.length), new Float32Array(x.length)];
    k.siluMul(out, x, y, x.length);
    k.siluMulBackward(dgate, dup, out, x, y, x.length);
    return [out, dgate, dup];
  },
  gelu: (k) => {
    const [out, dx] = [new Float32Array(x.length), new Float32Array(x.length)];
    k.gelu(out, x, x.length, 1);
    k.geluBackward(dx, y, x, x.length, 0);
    return [out, dx];
  },
  axpy: (k) => {
    const sum = long.slice();
    k.axpy(sum, 0.3, longer, sum.length);
    return [sum];
  },
  adamw: (k) => {
    const [p, m, v] = [x.slice(), y.slice(), y.map(Math.abs)];
    k.adamw(p, y, m, v, p.length, 0.01, 0.9, 0.999, 1e-8, 0.1, 0.5, 0.6, 0.7);
    return [p, m, v];
  },
  "distributions over tokens": (k) => {
    const targets = Int32Array.from({ length: rows }, (_, i) => (i % 5 === 0 ? -1 : i % dim));
    const temperature = numbers(12, rows).map((t) => 1.5 + t);
    const [all, logprobs, entropy] = [new Float32Array(x.length), new Float32Array(rows), new Float32Array(rows)];
    const [lse, dlogits] = [new Float32Array(rows * 2), new Float32Array(x.length)];
    k.logSoftmax(all, x, temperature, null, rows, dim);
    k.tokenLogprobs(logprobs, entropy, lse, x, targets, temperature, null, rows, dim);
    const [dlogprob, dentropy] = [numbers(13, rows), numbers(14, rows)];
    k.tokenLogprobsBackward(dlogits, x, targets, temperature, null, lse, entropy, dlogprob, dentropy, rows, dim);
    return [all, logprobs, entropy, lse, dlogits];
  },
};

/** Two short segments and a long one, two query heads to a key head; the rows 40..149 of the long one are not asked for. */
function attention(k: Kernels, causal: 0 | 1): F32[] {
  const [heads, kvHeads, size] = [4, 2, 24];
  const segments = Int32Array.of(0, 30, 30, 41, 71, 629);
  const queries = Int32Array.of(0, 30, 30, 41, 71, 40, 221, 479);
  const [wide, narrow] = [heads * size, kvHeads * size];
  const [q, keys, values] = [numbers(15, rows * wide), numbers(16, rows * narrow), numbers(17, rows * narrow)];
  const [out, lse] = [new Float32Array(rows * wide), new Float32Array(rows * heads)];
  // biome-ignore format: one kernel call
  k.attention(out, wide, lse, q, wide, keys, narrow, values, narrow, segments, queries, heads, kvHeads, size, 0.2, causal);
  const [dq, dk, dv] = [new Float32Array(q.length), new Float32Array(keys.length), new Float32Array(keys.length)];
  const dout = numbers(18, rows * wide);
  // biome-ignore format: one kernel call
  k.attentionBackward(dq, dk, dv, dout, wide, out, lse, q, wide, keys, narrow, values, narrow, segments, queries, heads, kvHeads, size, 0.2, causal);
  return [out, lse, dq, dk, dv];
}

describe.each(variants)("a crew ($isa)", (k) => {
  // A pool of one thread has no helpers.
  afterEach(() => k.crew.join(0, 1));

  test.each(Object.entries(table))("%s gives the bits of one thread, however many help", (_, run) => {
    const alone = run(k).map((array) => Buffer.from(array.buffer));
    for (const threads of [2, 3, MOST]) {
      k.crew.join(1_000 + threads, threads);
      k.crew.begin();
      const before = k.crew.helped();
      // Helpers must wake up first; a machine that is busy may keep them waiting.
      let rounds = 0;
      for (let helped = 0; helped < 3 && rounds < 3000; rounds++) {
        const start = k.crew.helped();
        const found = run(k);
        if (k.crew.helped() > start) helped += 1;
        for (const [i, array] of found.entries()) {
          expect(Buffer.from(array.buffer).equals(alone[i] as Buffer), `output ${i} with ${threads} threads`).toBe(
            true,
          );
        }
      }
      expect(k.crew.helped()).toBeGreaterThan(before);
      k.crew.end();
    }
  });

  test("a pool of one thread has no helpers", () => {
    k.crew.join(2_000, 1);
    k.crew.begin();
    for (let i = 0; i < 50; i++) table.matmulPacked?.(k);
    expect(k.crew.helped()).toBe(0);
    k.crew.end();
  });

  test("while every thread of the pool has a job nobody helps; when one ends its job, its core does", async () => {
    if (k.name === "wasm") {
      const other = attachWasm(places[1] as WasmThread);
      k.crew.join(0, 2);
      other.crew.join(0, 2);
      k.crew.begin();
      other.crew.begin();
      for (let i = 0; i < 50; i++) table.matmulPacked?.(k);
      expect(k.crew.helped()).toBe(0);
      other.crew.end();
      for (let i = 0; i < 3000 && k.crew.helped() === 0; i++) table.matmulPacked?.(k);
      expect(k.crew.helped()).toBeGreaterThan(0);
      return k.crew.end();
    }
    const script = `const { parentPort, workerData } = require("node:worker_threads");
      const { crew } = require(workerData);
      crew.join(3_000, 2);
      crew.begin();
      parentPort.on("message", () => { crew.end(); parentPort.postMessage("ended"); });
      parentPort.postMessage("begun");`;
    const other = new Worker(script, { eval: true, workerData: "file" in build ? build.file : "" });
    await once(other, "message");
    k.crew.join(3_000, 2);
    k.crew.begin();
    for (let i = 0; i < 50; i++) table.matmulPacked?.(k);
    expect(k.crew.helped()).toBe(0);
    other.postMessage("end");
    await once(other, "message");
    for (let i = 0; i < 3000 && k.crew.helped() === 0; i++) table.matmulPacked?.(k);
    expect(k.crew.helped()).toBeGreaterThan(0);
    k.crew.end();
    await other.terminate();
  });
});
