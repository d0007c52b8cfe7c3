/**
 * The kernels in plain TypeScript: what they mean. They are for reading and for tests, never chosen by themselves. Sums are kept in double and rounded
 * once; their order follows the same rule as in C++ (a row's result depends on that row alone), so the guarantees about
 * equal bits hold here too. Packed matrices and caches have a simpler layout than the compiled ones: never mix the two.
 */

import { type F32, type Flag, type I32, type Kernels, ordinaryMemory } from "./api.ts";

type Numbers = Float32Array | Float64Array;

const roundUp = (n: number, to: number) => Math.ceil(n / to) * to;

/** to[t+i] += x · from[f+i·step] for i < n: the inner loop of nearly everything here. */
function addScaled(to: Numbers, t: number, x: number, from: Numbers, f: number, step: number, n: number): void {
  for (let i = 0; i < n; i++) to[t + i] = (to[t + i] as number) + x * (from[f + i * step] as number);
}

function dot(a: Numbers, i: number, b: Numbers, j: number, n: number): number {
  let sum = 0;
  for (let d = 0; d < n; d++) sum += (a[i + d] as number) * (b[j + d] as number);
  return sum;
}

function checkIds(kernel: string, ids: I32, count: number, limit: number): void {
  for (let i = 0; i < count; i++) {
    const id = ids[i] as number;
    if (!(id < limit) || id < 0) throw new RangeError(`${kernel}: ids is out of range (${id})`);
  }
}

const sigmoid = (x: number) => 1 / (1 + Math.exp(-x));

/** erf by its Taylor series near zero and by a continued fraction for erfc beyond, both to double precision. */
function erf(x: number): number {
  const z = Math.abs(x);
  if (z > 6) return Math.sign(x);
  if (z < 2.5) {
    let term = z;
    let sum = z;
    for (let n = 1; Math.abs(term) > 1e-17 * sum; n++) {
      term *= (-z * z) / n;
      sum += term / (2 * n + 1);
    }
    return (Math.sign(x) * 2 * sum) / Math.sqrt(Math.PI);
  }
  let fraction = z;
  for (let n = 60; n > 0; n--) fraction = z + n / 2 / fraction;
  return Math.sign(x) * (1 - Math.exp(-z * z) / (fraction * Math.sqrt(Math.PI)));
}

/** The share of x that passes a GELU, and the derivative of x·share. */
function geluShare(x: number, tanh: Flag): { share: number; slope: number } {
  if (tanh) {
    const a = 2 * Math.sqrt(2 / Math.PI);
    const share = sigmoid(a * (x + 0.044715 * x * x * x));
    return { share, slope: share + x * share * (1 - share) * a * (1 + 3 * 0.044715 * x * x) };
  }
  const share = 0.5 * (1 + erf(x * Math.SQRT1_2));
  return { share, slope: share + (x * Math.exp(-0.5 * x * x)) / Math.sqrt(2 * Math.PI) };
}

/**
 * One query of one head against keys and values whose position j lies at base + j*step. Returns log-sum-exp. `scores` and
 * `mixed` are scratch for at least `seen` and `dim` numbers.
 */
function attendRow(
  out: F32,
  o: number,
  q: F32,
  at: number,
  keys: { data: F32; base: number; step: number },
  values: { data: F32; base: number; step: number },
  seen: number,
  dim: number,
  scale: number,
  scores: Float64Array,
  mixed: Float64Array,
): number {
  let max = -Infinity;
  for (let j = 0; j < seen; j++) {
    const score = dot(q, at, keys.data, keys.base + j * keys.step, dim) * scale;
    scores[j] = score;
    max = Math.max(max, score);
  }
  let sum = 0;
  mixed.fill(0, 0, dim);
  for (let j = 0; j < seen; j++) {
    const weight = Math.exp((scores[j] as number) - max);
    sum += weight;
    addScaled(mixed, 0, weight, values.data, values.base + j * values.step, 1, dim);
  }
  for (let d = 0; d < dim; d++) out[o + d] = (mixed[d] as number) / sum;
  return max + Math.log(sum);
}

/** Tempered logits of one row: largest, and log of the sum of exponentials relative to it; forbidden ids are left out. */
function scanTokens(logits: F32, at: number, temperature: number, allowed: Uint8Array | null, vocab: number) {
  let max = -Infinity;
  for (let i = 0; i < vocab; i++)
    if (!allowed || allowed[i]) max = Math.max(max, (logits[at + i] as number) / temperature);
  max = Math.fround(max);
  let sum = 0;
  for (let i = 0; i < vocab; i++)
    if (!allowed || allowed[i]) sum += Math.exp((logits[at + i] as number) / temperature - max);
  return { max, logSum: Math.fround(Math.log(sum)) };
}

const cacheStride = (capacity: number, dim: number) => roundUp(capacity, 16) * roundUp(dim, 8);

export const referenceKernels: Kernels = {
  name: "reference",
  isa: "typescript",
  crew: { join() {}, begin() {}, end() {}, helped: () => 0 },
  ...ordinaryMemory,

  // ── matrix products ──────────────────────────────────────────────────────────────────────────────────────────────

  matmul(c, ldc, a, lda, b, ldb, m, n, k, transA, transB, accumulate) {
    const sums = new Float64Array(n);
    const [row, column] = transB ? [1, ldb] : [ldb, 1];
    for (let i = 0; i < m; i++) {
      for (let j = 0; j < n; j++) sums[j] = accumulate ? (c[i * ldc + j] as number) : 0;
      for (let p = 0; p < k; p++)
        addScaled(sums, 0, a[transA ? p * lda + i : i * lda + p] as number, b, p * row, column, n);
      for (let j = 0; j < n; j++) c[i * ldc + j] = sums[j] as number;
    }
  },
  packedSize: (n, k) => n * k,
  pack(packed, b, ldb, n, k, transB) {
    for (let p = 0; p < k; p++)
      for (let j = 0; j < n; j++) packed[p * n + j] = b[transB ? j * ldb + p : p * ldb + j] as number;
  },
  gram(c, x, ldx, n, k, trans) {
    referenceKernels.matmul(c, n, x, ldx, x, ldx, n, n, k, trans, trans ? 0 : 1, 0);
  },
  matmulPacked(c, ldc, a, lda, packed, bias, m, n, k, accumulate) {
    referenceKernels.matmul(c, ldc, a, lda, packed, n, m, n, k, 0, 0, accumulate);
    if (bias) for (let i = 0; i < m; i++) addScaled(c, i * ldc, 1, bias, 0, 1, n);
  },

  // ── attention ────────────────────────────────────────────────────────────────────────────────────────────────────

  attention(out, ldo, lse, q, ldq, k, ldk, v, ldv, segments, queries, heads, kvHeads, headDim, scale, causal) {
    const asked = askedRows(segments, queries);
    const mixed = new Float64Array(headDim);
    for (let s = 0; s + 1 < segments.length; s += 2) {
      const start = segments[s] as number;
      const length = segments[s + 1] as number;
      const scores = new Float64Array(length);
      for (let h = 0; h < heads; h++) {
        const shared = Math.floor(h / (heads / kvHeads)) * headDim;
        const keys = { data: k, base: start * ldk + shared, step: ldk };
        const values = { data: v, base: start * ldv + shared, step: ldv };
        for (let i = 0; i < length; i++) {
          if (!asked.has(start + i)) continue;
          const o = (start + i) * ldo + h * headDim;
          const at = (start + i) * ldq + h * headDim;
          const seen = causal ? i + 1 : length;
          const logSum = attendRow(out, o, q, at, keys, values, seen, headDim, scale, scores, mixed);
          lse[(start + i) * heads + h] = logSum;
        }
      }
    }
  },
  attentionBackward(
    dq,
    dk,
    dv,
    dout,
    ldo,
    out,
    lse,
    q,
    ldq,
    k,
    ldk,
    v,
    ldv,
    segments,
    queries,
    heads,
    kvHeads,
    headDim,
    scale,
    causal,
  ) {
    const asked = askedRows(segments, queries);
    const dim = headDim;
    const group = heads / kvHeads;
    for (let s = 0; s + 1 < segments.length; s += 2) {
      const start = segments[s] as number;
      const length = segments[s + 1] as number;
      for (let h = 0; h < kvHeads; h++) {
        const dkeys = new Float64Array(length * dim);
        const dvalues = new Float64Array(length * dim);
        const dquery = new Float64Array(dim);
        for (let g = h * group; g < (h + 1) * group; g++)
          for (let i = 0; i < length; i++) {
            const o = (start + i) * ldo + g * dim;
            const at = (start + i) * ldq + g * dim;
            dquery.fill(0);
            const wanted = asked.has(start + i);
            const mean = wanted ? dot(dout, o, out, o, dim) : 0;
            for (let j = 0; wanted && j < (causal ? i + 1 : length); j++) {
              const key = (start + j) * ldk + h * dim;
              const score = dot(q, at, k, key, dim) * scale;
              const weight = Math.exp(score - (lse[(start + i) * heads + g] as number));
              const slope = weight * (dot(dout, o, v, (start + j) * ldv + h * dim, dim) - mean) * scale;
              addScaled(dvalues, j * dim, weight, dout, o, 1, dim);
              addScaled(dkeys, j * dim, slope, q, at, 1, dim);
              addScaled(dquery, 0, slope, k, key, 1, dim);
            }
            dq.set(dquery, at);
          }
        for (let j = 0; j < length; j++) {
          dk.set(dkeys.subarray(j * dim, (j + 1) * dim), (start + j) * ldk + h * dim);
          dv.set(dvalues.subarray(j * dim, (j + 1) * dim), (start + j) * ldv + h * dim);
        }
      }
    }
  },
  cacheSize: (capacity, kvHeads, headDim) => cacheStride(capacity, headDim) * kvHeads,
  cacheWrite(kCache, vCache, k, ldk, v, ldv, table, capacity, kvHeads, headDim) {
    const stride = cacheStride(capacity, headDim);
    for (let t = 0; t + 3 < table.length; t += 4) {
      const [row, count, offset, position] = table.subarray(t, t + 4) as unknown as [number, number, number, number];
      if (position + count > capacity) throw new RangeError(`cacheWrite: table is out of range (${t / 4})`);
      for (let h = 0; h < kvHeads; h++)
        for (let i = 0; i < count; i++) {
          const to = offset + h * stride + (position + i) * headDim;
          const key = (row + i) * ldk + h * headDim;
          const value = (row + i) * ldv + h * headDim;
          kCache.set(k.subarray(key, key + headDim), to);
          vCache.set(v.subarray(value, value + headDim), to);
        }
    }
  },
  cacheCopy(kTo, vTo, toOffset, toCapacity, kFrom, vFrom, fromOffset, fromCapacity, length, kvHeads, headDim) {
    if (length > Math.min(toCapacity, fromCapacity))
      throw new RangeError(`cacheCopy: length is out of range (${length})`);
    for (let h = 0; h < kvHeads; h++) {
      const to = toOffset + h * cacheStride(toCapacity, headDim);
      const from = fromOffset + h * cacheStride(fromCapacity, headDim);
      kTo.set(kFrom.subarray(from, from + length * headDim), to);
      vTo.set(vFrom.subarray(from, from + length * headDim), to);
    }
  },
  attentionCached(out, ldo, q, ldq, kCache, vCache, table, capacity, heads, kvHeads, headDim, scale) {
    const stride = cacheStride(capacity, headDim);
    const scores = new Float64Array(capacity);
    const mixed = new Float64Array(headDim);
    for (let t = 0; t + 3 < table.length; t += 4) {
      const [row, count, offset, position] = table.subarray(t, t + 4) as unknown as [number, number, number, number];
      if (position + count > capacity) throw new RangeError(`attentionCached: table is out of range (${t / 4})`);
      for (let h = 0; h < heads; h++) {
        const base = offset + Math.floor(h / (heads / kvHeads)) * stride;
        const keys = { data: kCache, base, step: headDim };
        const values = { data: vCache, base, step: headDim };
        for (let i = 0; i < count; i++) {
          const o = (row + i) * ldo + h * headDim;
          const at = (row + i) * ldq + h * headDim;
          attendRow(out, o, q, at, keys, values, position + i + 1, headDim, scale, scores, mixed);
        }
      }
    }
  },

  // ── norms, activations, positions ────────────────────────────────────────────────────────────────────────────────

  rmsNorm(out, inv, x, w, rows, dim, eps) {
    for (let r = 0; r < rows; r++) {
      const by = Math.fround(1 / Math.sqrt(dot(x, r * dim, x, r * dim, dim) / dim + eps));
      inv[r] = by;
      for (let i = 0; i < dim; i++) out[r * dim + i] = (x[r * dim + i] as number) * by * (w[i] as number);
    }
  },
  rmsNormBackward(dx, dw, dy, x, w, inv, rows, dim, accumulate) {
    for (let r = 0; r < rows; r++) {
      const by = inv[r] as number;
      let sum = 0;
      for (let i = r * dim; i < (r + 1) * dim; i++)
        sum += (dy[i] as number) * (w[i - r * dim] as number) * (x[i] as number);
      const pull = (sum * by * by * by) / dim;
      for (let i = 0; i < dim; i++) {
        const at = r * dim + i;
        const d = dy[at] as number;
        const a = x[at] as number;
        dw[i] = (dw[i] as number) + d * a * by;
        dx[at] = (accumulate ? (dx[at] as number) : 0) + d * (w[i] as number) * by - a * pull;
      }
    }
  },
  layerNorm(out, mean, inv, x, w, b, rows, dim, eps) {
    for (let r = 0; r < rows; r++) {
      const row = x.subarray(r * dim, (r + 1) * dim);
      let sum = 0;
      for (const value of row) sum += value;
      const middle = Math.fround(sum / dim);
      let squares = 0;
      for (const value of row) squares += (value - middle) ** 2;
      const by = Math.fround(1 / Math.sqrt(squares / dim + eps));
      mean[r] = middle;
      inv[r] = by;
      for (let i = 0; i < dim; i++)
        out[r * dim + i] = ((row[i] as number) - middle) * by * (w[i] as number) + (b[i] as number);
    }
  },
  layerNormBackward(dx, dw, db, dy, x, w, mean, inv, rows, dim, accumulate) {
    for (let r = 0; r < rows; r++) {
      const middle = mean[r] as number;
      const by = inv[r] as number;
      let level = 0;
      let pull = 0;
      for (let i = 0; i < dim; i++) {
        const slope = (dy[r * dim + i] as number) * (w[i] as number);
        level += slope / dim;
        pull += (slope * ((x[r * dim + i] as number) - middle) * by) / dim;
      }
      for (let i = 0; i < dim; i++) {
        const at = r * dim + i;
        const d = dy[at] as number;
        const hat = ((x[at] as number) - middle) * by;
        dw[i] = (dw[i] as number) + d * hat;
        db[i] = (db[i] as number) + d;
        dx[at] = (accumulate ? (dx[at] as number) : 0) + (d * (w[i] as number) - level - hat * pull) * by;
      }
    }
  },
  rope(x, ldx, cos, sin, rows, heads, headDim, inverse) {
    const half = headDim / 2;
    for (let r = 0; r < rows; r++)
      for (let h = 0; h < heads; h++)
        for (let i = 0; i < half; i++) {
          const at = r * ldx + h * headDim + i;
          const c = cos[r * half + i] as number;
          const s = inverse ? -(sin[r * half + i] as number) : (sin[r * half + i] as number);
          const a = x[at] as number;
          const b = x[at + half] as number;
          x[at] = a * c - b * s;
          x[at + half] = b * c + a * s;
        }
  },
  siluMul(out, gate, up, n) {
    for (let i = 0; i < n; i++) {
      const g = gate[i] as number;
      out[i] = g * sigmoid(g) * (up[i] as number);
    }
  },
  siluMulBackward(dgate, dup, dout, gate, up, n) {
    for (let i = 0; i < n; i++) {
      const g = gate[i] as number;
      const d = dout[i] as number;
      const s = sigmoid(g);
      dgate[i] = d * (up[i] as number) * s * (1 + g * (1 - s));
      dup[i] = d * g * s;
    }
  },
  gelu(out, x, n, tanh) {
    for (let i = 0; i < n; i++) out[i] = (x[i] as number) * geluShare(x[i] as number, tanh).share;
  },
  geluBackward(dx, dy, x, n, tanh) {
    for (let i = 0; i < n; i++) dx[i] = (dy[i] as number) * geluShare(x[i] as number, tanh).slope;
  },

  // ── rows ─────────────────────────────────────────────────────────────────────────────────────────────────────────

  gatherRows(out, table, ids, rows, dim) {
    checkIds("gatherRows", ids, rows, table.length / dim);
    for (let r = 0; r < rows; r++) {
      const from = (ids[r] as number) * dim;
      out.set(table.subarray(from, from + dim), r * dim);
    }
  },
  scatterAddRows(table, x, ids, rows, dim) {
    checkIds("scatterAddRows", ids, rows, table.length / dim);
    for (let r = 0; r < rows; r++) addScaled(table, (ids[r] as number) * dim, 1, x, r * dim, 1, dim);
  },
  scatterRows(out, x, ids, rows, dim) {
    checkIds("scatterRows", ids, rows, out.length / dim);
    for (let r = 0; r < rows; r++) out.set(x.subarray(r * dim, (r + 1) * dim), (ids[r] as number) * dim);
  },
  mixRows(out, table, ids, weights, rows, taps, dim, accumulate) {
    checkIds("mixRows", ids, rows * taps, table.length / dim);
    const sums = new Float64Array(dim);
    for (let r = 0; r < rows; r++) {
      for (let i = 0; i < dim; i++) sums[i] = accumulate ? (out[r * dim + i] as number) : 0;
      for (let t = r * taps; t < (r + 1) * taps; t++)
        addScaled(sums, 0, weights[t] as number, table, (ids[t] as number) * dim, 1, dim);
      out.set(sums, r * dim);
    }
  },
  mixRowsBackward(dtable, dy, ids, weights, rows, taps, dim) {
    checkIds("mixRowsBackward", ids, rows * taps, dtable.length / dim);
    for (let t = 0; t < rows * taps; t++)
      addScaled(dtable, (ids[t] as number) * dim, weights[t] as number, dy, Math.floor(t / taps) * dim, 1, dim);
  },
  sumRows(sums, x, rows, dim) {
    for (let r = 0; r < rows; r++) addScaled(sums, 0, 1, x, r * dim, 1, dim);
  },
  axpy(y, a, x, n) {
    addScaled(y, 0, a, x, 0, 1, n);
  },
  scale(x, a, n) {
    for (let i = 0; i < n; i++) x[i] = (x[i] as number) * a;
  },
  sumSquares: (x, n) => dot(x, 0, x, 0, n),

  // ── token distributions ──────────────────────────────────────────────────────────────────────────────────────────

  logSoftmax(out, logits, temperature, allowed, rows, vocab) {
    for (let r = 0; r < rows; r++) {
      const heat = temperature[r] as number;
      const { max, logSum } = scanTokens(logits, r * vocab, heat, allowed, vocab);
      for (let i = 0; i < vocab; i++)
        out[r * vocab + i] =
          !allowed || allowed[i] ? (logits[r * vocab + i] as number) / heat - max - logSum : -Infinity;
    }
  },
  tokenLogprobs(logprobs, entropy, lse, logits, targets, temperature, allowed, rows, vocab) {
    for (let r = 0; r < rows; r++) {
      const target = targets[r] as number;
      logprobs[r] = entropy[r] = lse[2 * r] = lse[2 * r + 1] = 0;
      if (target < 0) continue;
      if (target >= vocab) throw new RangeError(`tokenLogprobs: targets is out of range (${target})`);
      const heat = temperature[r] as number;
      const { max, logSum } = scanTokens(logits, r * vocab, heat, allowed, vocab);
      let spread = 0;
      for (let i = 0; i < vocab; i++) {
        if (allowed && !allowed[i]) continue;
        const logp = (logits[r * vocab + i] as number) / heat - max - logSum;
        spread -= Math.exp(logp) * logp;
      }
      lse[2 * r] = max;
      lse[2 * r + 1] = logSum;
      entropy[r] = spread;
      logprobs[r] =
        !allowed || allowed[target] ? (logits[r * vocab + target] as number) / heat - max - logSum : -Infinity;
    }
  },
  tokenLogprobsBackward(dlogits, logits, targets, temperature, allowed, lse, entropy, dlogprob, dentropy, rows, vocab) {
    for (let r = 0; r < rows; r++) {
      const target = targets[r] as number;
      const heat = temperature[r] as number;
      const shift = (lse[2 * r] as number) + (lse[2 * r + 1] as number);
      for (let i = 0; i < vocab; i++) {
        const at = r * vocab + i;
        if (target < 0 || (allowed && !allowed[i])) {
          dlogits[at] = 0;
          continue;
        }
        const logp = (logits[at] as number) / heat - shift;
        const p = Math.exp(logp);
        const up = dlogprob[r] as number;
        const spread = (dentropy[r] as number) * p * (logp + (entropy[r] as number));
        dlogits[at] = (up * ((i === target ? 1 : 0) - p) - spread) / heat;
      }
    }
  },

  // ── optimizers ───────────────────────────────────────────────────────────────────────────────────────────────────

  adamw(p, g, m, v, n, lr, beta1, beta2, eps, weightDecay, correction1, correction2, gradScale) {
    for (let i = 0; i < n; i++) {
      const grad = (g[i] as number) * gradScale;
      const first = beta1 * (m[i] as number) + (1 - beta1) * grad;
      const second = beta2 * (v[i] as number) + (1 - beta2) * grad * grad;
      m[i] = first;
      v[i] = second;
      const step = first / correction1 / (Math.sqrt(second / correction2) + eps);
      p[i] = (p[i] as number) * (1 - lr * weightDecay) - lr * step;
    }
  },
  peak(ms) {
    const start = performance.now();
    let [a, b, c, d] = [1, 2, 3, 4];
    let rounds = 0;
    while (performance.now() - start < ms) {
      for (let i = 0; i < 10000; i++) {
        a = a * 0.999 + 1e-3;
        b = b * 0.999 + 1e-3;
        c = c * 0.999 + 1e-3;
        d = d * 0.999 + 1e-3;
      }
      rounds += 10000;
    }
    const used = a + b + c + d > 0 ? 1 : 0;
    return (used * 8 * rounds) / ((performance.now() - start) * 1e6);
  },
};

/** The rows in `queries`, (start, length) pairs that must ascend and lie inside the segments. */
function askedRows(segments: I32, queries: I32): Set<number> {
  const rows = new Set<number>();
  let s = 0;
  let end = 0;
  for (let i = 0; i + 1 < queries.length; i += 2) {
    const start = queries[i] as number;
    const length = queries[i + 1] as number;
    const last = () => (segments[s] as number) + (segments[s + 1] as number);
    while (s + 1 < segments.length && last() <= start) s += 2;
    if (length === 0) continue;
    const inside = s + 1 < segments.length && start >= (segments[s] as number) && start + length <= last();
    if (!inside || start < end || length < 0) throw new RangeError(`attention: queries is out of range (${i / 2})`);
    end = start + length;
    for (let row = start; row < end; row++) rows.add(row);
  }
  return rows;
}
