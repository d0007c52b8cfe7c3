/**
 * How fast the compiled kernels are beside the FMA peak of this core: `npx jiti bench/kernels.ts`. One thread. Each figure is the
 * best of several runs, and the peak is measured between them, so that a busy machine spoils neither.
 */

import type { F32, Flag } from "../src/engine/native/kernels/api.ts";
import { kernelInfo, loadKernels } from "../src/engine/native/kernels/index.ts";

const k = await loadKernels();
const array = (n: number): F32 => Float32Array.from({ length: n }, (_, i) => Math.sin(i * 12.9898));

/** Best milliseconds of one call, over about `ms` of calls and at least 20: long ones get interrupted by neighbours. */
function best(run: () => void, ms = 120): number {
  run();
  let least = Infinity;
  const start = performance.now();
  for (let runs = 0; runs < 20 || performance.now() - start < ms; runs++) {
    const then = performance.now();
    run();
    least = Math.min(least, performance.now() - then);
  }
  return least;
}

let peak = k.peak(100);
function report(name: string, flops: number, run: () => void): void {
  peak = Math.max(peak, k.peak(10));
  const least = best(run);
  const rate = flops / (least * 1e6);
  console.log(
    `${name.padEnd(44)} ${least.toFixed(4).padStart(9)} ms ${rate.toFixed(1).padStart(7)} GFLOP/s ${(rate / peak).toFixed(2).padStart(5)} of peak`,
  );
}

function product(m: number, n: number, d: number, transA: Flag, transB: Flag): void {
  const [a, b, c] = [array(m * d), array(n * d), array(m * n)];
  const [lda, ldb] = [transA ? m : d, transB ? d : n];
  report(`matmul ${m}·${n}·${d}${transA ? " aᵀ" : ""}${transB ? " bᵀ" : ""}`, 2 * m * n * d, () =>
    k.matmul(c, n, a, lda, b, ldb, m, n, d, transA, transB, 0),
  );
}

function packedProduct(m: number, n: number, d: number): void {
  const [a, b, c] = [array(m * d), array(n * d), array(m * n)];
  const packed = new Float32Array(k.packedSize(n, d));
  k.pack(packed, b, d, n, d, 1);
  report(`matmulPacked ${m}·${n}·${d}`, 2 * m * n * d, () => k.matmulPacked(c, n, a, d, packed, null, m, n, d, 0));
}

function attention(count: number, length: number, heads: number, kvHeads: number, dim: number): void {
  const [rows, wide, narrow] = [count * length, heads * dim, kvHeads * dim];
  const [q, keys, values, dout] = [array(rows * wide), array(rows * narrow), array(rows * narrow), array(rows * wide)];
  const [out, lse] = [array(rows * wide), array(rows * heads)];
  const segments = Int32Array.from({ length: 2 * count }, (_, i) => (i % 2 ? length : (i / 2) * length));
  // Multiply-adds that the causal mask leaves: half the square.
  const flops = count * heads * length * (length + 1) * dim;
  const name = `${count}×${length} tokens, ${heads}/${kvHeads} heads of ${dim}`;
  report(`attention ${name}`, 2 * flops, () =>
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
      segments,
      heads,
      kvHeads,
      dim,
      dim ** -0.5,
      1,
    ),
  );
  const [dq, dk, dv] = [array(rows * wide), array(rows * narrow), array(rows * narrow)];
  report(`  backward`, 5 * flops, () =>
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
      segments,
      heads,
      kvHeads,
      dim,
      dim ** -0.5,
      1,
    ),
  );
  const size = k.cacheSize(length, kvHeads, dim);
  const [kCache, vCache] = [new Float32Array(size * count), new Float32Array(size * count)];
  const runs = (first: number, rows: number) =>
    Int32Array.from({ length: 4 * count }, (_, i) => [(i >> 2) * length, rows, (i >> 2) * size, first][i & 3]!);
  k.cacheWrite(kCache, vCache, keys, narrow, values, narrow, runs(0, length), length, kvHeads, dim);
  const table = runs(length - 1, 1);
  report(`  decode one token each`, 4 * count * heads * length * dim, () =>
    k.attentionCached(out, wide, q, wide, kCache, vCache, table, length, heads, kvHeads, dim, dim ** -0.5),
  );
}

function elementwise(name: string, n: number, run: () => void): void {
  const least = best(run, 60);
  console.log(
    `${name.padEnd(44)} ${least.toFixed(4).padStart(9)} ms ${((n * 1e-6) / (least * 1e-3)).toFixed(0).padStart(7)} M elements/s`,
  );
}

console.log(await kernelInfo());
for (const [m, n, d] of [
  [256, 256, 1024],
  [256, 1024, 256],
  [1024, 256, 256],
] as const)
  for (const [transA, transB] of [
    [0, 0],
    [0, 1],
    [1, 0],
  ] as const)
    product(m, n, d, transA, transB);
product(1024, 1024, 1024, 0, 0);
for (const [m, n] of [
  [128, 128],
  [384, 128],
  [128, 384],
  [512, 512],
] as const)
  product(m, n, 2048, 1, 0);
for (const m of [1, 2, 4, 8, 32, 64, 256, 2048])
  for (const [n, d] of [
    [64, 64],
    [128, 128],
    [384, 128],
    [128, 384],
    [192, 96],
    [768, 256],
    [256, 768],
    [512, 512],
  ] as const)
    packedProduct(m, n, d);
attention(32, 256, 4, 2, 32);
attention(32, 64, 4, 2, 32);
attention(4, 512, 4, 2, 64);
attention(1, 2048, 8, 2, 128);
const [x, y, z] = [array(1 << 18), array(1 << 18), array(1 << 18)];
const n = x.length;
elementwise("siluMul", n, () => k.siluMul(z, x, y, n));
elementwise("siluMulBackward", n, () => k.siluMulBackward(z, new Float32Array(n), y, x, y, n));
elementwise("gelu", n, () => k.gelu(z, x, n, 0));
elementwise("rmsNorm of 128", n, () => k.rmsNorm(z, y, x, y, n / 128, 128, 1e-6));
elementwise("rmsNormBackward of 128", n, () =>
  k.rmsNormBackward(z, new Float32Array(128), y, x, y, y, n / 128, 128, 0),
);
elementwise("logSoftmax of 1024", n, () => k.logSoftmax(z, x, new Float32Array(256).fill(1), null, 256, 1024));
elementwise("tokenLogprobs of 1024", n, () =>
  k.tokenLogprobs(
    new Float32Array(256),
    new Float32Array(256),
    new Float32Array(512),
    x,
    new Int32Array(256),
    new Float32Array(256).fill(1),
    null,
    256,
    1024,
  ),
);
elementwise("adamw", n, () => k.adamw(z, x, y, new Float32Array(n), n, 1e-3, 0.9, 0.99, 1e-8, 0, 0.1, 0.1, 1));
const tiny = array(16);
elementwise("1,000 calls of axpy on 16", 1000, () => {
  for (let i = 0; i < 1000; i++) k.axpy(tiny, 1e-9, tiny, 16);
});
elementwise("1,000 calls of matmul 1·16·16", 1000, () => {
  for (let i = 0; i < 1000; i++) k.matmul(tiny, 16, tiny, 1, tiny, 16, 1, 16, 1, 0, 0, 0);
});
