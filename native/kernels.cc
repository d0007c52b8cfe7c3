// The kernels as JavaScript sees them: bounds are checked here, then the work begins. Compiled once per instruction set
// (SACCADE_ISA names it), everything inside that namespace.
#include "attention.h"
#if __wasm__
#include "wasm/bind.h"
#else
#include "bind.h"
#endif
#include "rows.h"
#include "tokens.h"

namespace SACCADE_ISA {

INLINE Wide span(Wide rows, Wide ld, Wide columns) { return rows > 0 ? (rows - 1) * ld + columns : 0; }
INLINE void check_ids(const char* name, I32 ids, Wide count, Wide least, Wide limit) {
  ids.need(name, count);
  for (Wide i = 0; i < count; i++)
    if (ids.at[i] < least || ids.at[i] >= limit) refuse(name, ids.at[i]);
}
INLINE void check_heads(Wide heads, Wide kvHeads, Wide headDim) {
  if (kvHeads < 1 || heads % kvHeads != 0) refuse("heads / kvHeads", heads);
  if (headDim < 1) refuse("headDim", headDim);
}
/** The row after the last one that any (start, length) pair covers. */
INLINE Wide segments_end(I32 segments) {
  Wide end = 0;
  for (Wide i = 0; i + 1 < segments.size; i += 2) {
    if (segments.at[i] < 0 || segments.at[i + 1] < 0) refuse("segments", i / 2);
    const Wide last = static_cast<Wide>(segments.at[i]) + segments.at[i + 1];
    end = last > end ? last : end;
  }
  return end;
}

/** Throws unless the (start, length) pairs of rows ascend and lie inside the segments. */
static void check_queries(I32 segments, I32 queries) {
  Wide s = 0, end = 0;
  for (Wide i = 0; i + 1 < queries.size; i += 2) {
    const Wide start = queries.at[i], last = start + queries.at[i + 1];
    const auto segment_end = [&] { return static_cast<Wide>(segments.at[s]) + segments.at[s + 1]; };
    while (s + 1 < segments.size && segment_end() <= start) s += 2;
    if (last == start) continue;
    if (s + 1 >= segments.size || start < segments.at[s] || last > segment_end() || start < end || last < start) refuse("queries", i / 2);
    end = last;
  }
}

// What an element costs, in multiply-adds of a matrix product: to be copied or added, to be normalised, to go through an exponential.
constexpr double kMoveOps = 8, kNormOps = 16, kExpOps = 40;

/** each(first, count) over rows of `dim` elements. */
template <class F> static void share_rows(Size rows, Size dim, double ops, F each) {
  share_range(rows, 1, ops * static_cast<double>(dim), [&](Size first, Size last) { each(first, last - first); });
}

// ── matrix products ───────────────────────────────────────────────────────────────────────────────────────────────

static void js_matmul(Out c, Wide ldc, In a, Wide lda, In b, Wide ldb, Wide m, Wide n, Wide k, Flag transA, Flag transB, Flag accumulate) {
  c.need("c", n ? span(m, ldc, n) : 0);
  a.need("a", transA ? span(k, lda, m) : span(m, lda, k));
  b.need("b", transB ? span(n, ldb, k) : span(k, ldb, n));
  if (m && n) matrix_product(c.at, ldc, {a.at, lda, transA}, b.at, ldb, m, n, k, transB, accumulate);
}
static void js_gram(Out c, In x, Wide ldx, Wide n, Wide k, Flag trans) {
  c.need("c", n * n);
  x.need("x", trans ? span(k, ldx, n) : span(n, ldx, k));
  if (n) gram_product(c.at, x.at, ldx, n, k, trans);
}
static double js_packedSize(Wide n, Wide k) { return static_cast<double>(round_up(n, kPanel) * k); }
static void js_pack(Out packed, In b, Wide ldb, Wide n, Wide k, Flag transB) {
  packed.need("packed", round_up(n, kPanel) * k);
  b.need("b", transB ? span(n, ldb, k) : span(k, ldb, n));
  pack_panels(packed.at, b.at, ldb, n, k, transB);
}
static void js_matmulPacked(Out c, Wide ldc, In a, Wide lda, In packed, In bias, Wide m, Wide n, Wide k, Flag accumulate) {
  c.need("c", n ? span(m, ldc, n) : 0);
  a.need("a", span(m, lda, k));
  packed.need("packed", round_up(n, kPanel) * k);
  if (bias.at) bias.need("bias", n);
  if (m && n) shared_product(c.at, ldc, {a.at, lda, false}, {packed.at, kPanel, k * kPanel}, bias.at, m, n, k, accumulate);
}

// ── attention ─────────────────────────────────────────────────────────────────────────────────────────────────────

static void js_attention(Out out, Wide ldo, Out lse, In q, Wide ldq, In k, Wide ldk, In v, Wide ldv, I32 segments, I32 queries, Wide heads,
                         Wide kvHeads, Wide headDim, double scale, Flag causal) {
  check_heads(heads, kvHeads, headDim);
  const Wide end = segments_end(segments);
  check_queries(segments, queries);
  out.need("out", span(end, ldo, heads * headDim));
  lse.need("lse", end * heads);
  q.need("q", span(end, ldq, heads * headDim));
  k.need("k", span(end, ldk, kvHeads * headDim));
  v.need("v", span(end, ldv, kvHeads * headDim));
  attention(out.at, ldo, lse.at, q.at, ldq, k.at, ldk, v.at, ldv, segments.at, segments.size / 2, {queries.at, queries.size / 2}, heads, kvHeads,
            headDim, static_cast<float>(scale), causal);
}
static void js_attentionBackward(Out dq, Out dk, Out dv, In dout, Wide ldo, In out, In lse, In q, Wide ldq, In k, Wide ldk, In v, Wide ldv,
                                 I32 segments, I32 queries, Wide heads, Wide kvHeads, Wide headDim, double scale, Flag causal) {
  check_heads(heads, kvHeads, headDim);
  check_queries(segments, queries);
  const Wide end = segments_end(segments), wide = heads * headDim, narrow = kvHeads * headDim;
  dq.need("dq", span(end, ldq, wide));
  dk.need("dk", span(end, ldk, narrow));
  dv.need("dv", span(end, ldv, narrow));
  dout.need("dout", span(end, ldo, wide));
  out.need("out", span(end, ldo, wide));
  lse.need("lse", end * heads);
  q.need("q", span(end, ldq, wide));
  k.need("k", span(end, ldk, narrow));
  v.need("v", span(end, ldv, narrow));
  const BackwardShape of = {dout.at, out.at, lse.at, q.at, k.at, v.at, dq.at, dk.at, dv.at, ldo, ldq, ldk, ldv,
                            heads, heads / kvHeads, headDim, round_up(headDim, 8), static_cast<float>(scale), causal};
  attention_backward(of, segments.at, segments.size / 2, {queries.at, queries.size / 2}, kvHeads);
}
static double js_cacheSize(Wide capacity, Wide kvHeads, Wide headDim) { return static_cast<double>(cache_stride(capacity, headDim) * kvHeads); }
/** Throws unless every run (row, count, cacheOffset, position) lies inside the caches; returns the row after the last. */
static Wide check_runs(I32 table, Wide keys, Wide values, Wide capacity, Wide kvHeads, Wide headDim) {
  Wide end = 0;
  for (Wide i = 0; i + 3 < table.size; i += 4) {
    const Wide row = table.at[i], count = table.at[i + 1], offset = table.at[i + 2], position = table.at[i + 3];
    if (row < 0 || count < 0 || offset < 0 || position < 0 || position + count > capacity) refuse("table", i / 4);
    const Wide last = offset + cache_stride(capacity, headDim) * kvHeads;
    if (keys < last) lack("kCache", last, keys);
    if (values < last) lack("vCache", last, values);
    end = row + count > end ? row + count : end;
  }
  return end;
}
static void js_cacheWrite(Out kCache, Out vCache, In k, Wide ldk, In v, Wide ldv, I32 table, Wide capacity, Wide kvHeads, Wide headDim) {
  const Wide end = check_runs(table, kCache.size, vCache.size, capacity, kvHeads, headDim);
  k.need("k", span(end, ldk, kvHeads * headDim));
  v.need("v", span(end, ldv, kvHeads * headDim));
  cache_write(kCache.at, vCache.at, k.at, ldk, v.at, ldv, table.at, table.size / 4, capacity, kvHeads, headDim);
}
static void js_cacheCopy(Out kTo, Out vTo, Wide toOffset, Wide toCapacity, In kFrom, In vFrom, Wide fromOffset, Wide fromCapacity, Wide length,
                         Wide kvHeads, Wide headDim) {
  if (length > toCapacity || length > fromCapacity) refuse("length", length);
  kTo.need("kTo", toOffset + cache_stride(toCapacity, headDim) * kvHeads);
  vTo.need("vTo", toOffset + cache_stride(toCapacity, headDim) * kvHeads);
  kFrom.need("kFrom", fromOffset + cache_stride(fromCapacity, headDim) * kvHeads);
  vFrom.need("vFrom", fromOffset + cache_stride(fromCapacity, headDim) * kvHeads);
  cache_copy(kTo.at + toOffset, vTo.at + toOffset, toCapacity, kFrom.at + fromOffset, vFrom.at + fromOffset, fromCapacity, length, kvHeads, headDim);
}
static void js_attentionCached(Out out, Wide ldo, In q, Wide ldq, In kCache, In vCache, I32 table, Wide capacity, Wide heads, Wide kvHeads,
                               Wide headDim, double scale) {
  check_heads(heads, kvHeads, headDim);
  const Wide end = check_runs(table, kCache.size, vCache.size, capacity, kvHeads, headDim);
  out.need("out", span(end, ldo, heads * headDim));
  q.need("q", span(end, ldq, heads * headDim));
  attention_cached(out.at, ldo, q.at, ldq, kCache.at, vCache.at, table.at, table.size / 4, capacity, heads, kvHeads, headDim,
                   static_cast<float>(scale));
}

// ── norms, activations, positions ─────────────────────────────────────────────────────────────────────────────────

static void js_rmsNorm(Out out, Out inv, In x, In w, Wide rows, Wide dim, double eps) {
  out.need("out", rows * dim), inv.need("inv", rows), x.need("x", rows * dim), w.need("w", dim);
  share_rows(rows, dim, kNormOps, [&](Size r, Size count) { rms_norm(out.at + r * dim, inv.at + r, x.at + r * dim, w.at, count, dim, eps); });
}
static void js_rmsNormBackward(Out dx, Out dw, In dy, In x, In w, In inv, Wide rows, Wide dim, Flag accumulate) {
  dx.need("dx", rows * dim), dw.need("dw", dim), dy.need("dy", rows * dim), x.need("x", rows * dim), w.need("w", dim), inv.need("inv", rows);
  rms_norm_backward(dx.at, dw.at, dy.at, x.at, w.at, inv.at, rows, dim, accumulate);
}
static void js_layerNorm(Out out, Out mean, Out inv, In x, In w, In b, Wide rows, Wide dim, double eps) {
  out.need("out", rows * dim), mean.need("mean", rows), inv.need("inv", rows), x.need("x", rows * dim), w.need("w", dim), b.need("b", dim);
  share_rows(rows, dim, kNormOps, [&](Size r, Size count) {
    layer_norm(out.at + r * dim, mean.at + r, inv.at + r, x.at + r * dim, w.at, b.at, count, dim, eps);
  });
}
static void js_layerNormBackward(Out dx, Out dw, Out db, In dy, In x, In w, In mean, In inv, Wide rows, Wide dim, Flag accumulate) {
  dx.need("dx", rows * dim), dw.need("dw", dim), db.need("db", dim), dy.need("dy", rows * dim), x.need("x", rows * dim), w.need("w", dim);
  mean.need("mean", rows), inv.need("inv", rows);
  layer_norm_backward(dx.at, dw.at, db.at, dy.at, x.at, w.at, mean.at, inv.at, rows, dim, accumulate);
}
static void js_rope(Out x, Wide ldx, In cos, In sin, Wide rows, Wide heads, Wide headDim, Flag inverse) {
  x.need("x", span(rows, ldx, heads * headDim)), cos.need("cos", rows * (headDim / 2)), sin.need("sin", rows * (headDim / 2));
  const Size half = headDim / 2;
  share_rows(rows, heads * headDim, kNormOps, [&](Size r, Size count) {
    rope(x.at + r * ldx, ldx, cos.at + r * half, sin.at + r * half, count, heads, headDim, inverse);
  });
}
static void js_siluMul(Out out, In gate, In up, Wide n) {
  out.need("out", n), gate.need("gate", n), up.need("up", n);
  share_range(n, 8, kExpOps, [&](Size i, Size end) { silu_mul(out.at + i, gate.at + i, up.at + i, end - i); });
}
static void js_siluMulBackward(Out dgate, Out dup, In dout, In gate, In up, Wide n) {
  dgate.need("dgate", n), dup.need("dup", n), dout.need("dout", n), gate.need("gate", n), up.need("up", n);
  share_range(n, 8, kExpOps, [&](Size i, Size end) { silu_mul_backward(dgate.at + i, dup.at + i, dout.at + i, gate.at + i, up.at + i, end - i); });
}
static void js_gelu(Out out, In x, Wide n, Flag tanh) {
  out.need("out", n), x.need("x", n);
  share_range(n, 8, kExpOps, [&](Size i, Size end) { gelu(out.at + i, x.at + i, end - i, tanh); });
}
static void js_geluBackward(Out dx, In dy, In x, Wide n, Flag tanh) {
  dx.need("dx", n), dy.need("dy", n), x.need("x", n);
  share_range(n, 8, kExpOps, [&](Size i, Size end) { gelu_backward(dx.at + i, dy.at + i, x.at + i, end - i, tanh); });
}

// ── rows ──────────────────────────────────────────────────────────────────────────────────────────────────────────

static void js_gatherRows(Out out, In table, I32 ids, Wide rows, Wide dim) {
  out.need("out", rows * dim), check_ids("ids", ids, rows, 0, dim ? table.size / dim : 0);
  for (Size r = 0; r < rows; r++) memcpy(out.at + r * dim, table.at + ids.at[r] * dim, dim * sizeof(float));
}
static void js_scatterAddRows(Out table, In x, I32 ids, Wide rows, Wide dim) {
  x.need("x", rows * dim), check_ids("ids", ids, rows, 0, dim ? table.size / dim : 0);
  for (Size r = 0; r < rows; r++) axpy(table.at + ids.at[r] * dim, 1.0f, x.at + r * dim, dim);
}
static void js_scatterRows(Out out, In x, I32 ids, Wide rows, Wide dim) {
  x.need("x", rows * dim), check_ids("ids", ids, rows, 0, dim ? out.size / dim : 0);
  for (Size r = 0; r < rows; r++) memcpy(out.at + ids.at[r] * dim, x.at + r * dim, dim * sizeof(float));
}
static void js_mixRows(Out out, In table, I32 ids, In weights, Wide rows, Wide taps, Wide dim, Flag accumulate) {
  out.need("out", rows * dim), weights.need("weights", rows * taps), check_ids("ids", ids, rows * taps, 0, dim ? table.size / dim : 0);
  mix_rows(out.at, table.at, ids.at, weights.at, rows, taps, dim, accumulate);
}
static void js_mixRowsBackward(Out dtable, In dy, I32 ids, In weights, Wide rows, Wide taps, Wide dim) {
  dy.need("dy", rows * dim), weights.need("weights", rows * taps), check_ids("ids", ids, rows * taps, 0, dim ? dtable.size / dim : 0);
  for (Size i = 0; i < rows * taps; i++) axpy(dtable.at + ids.at[i] * dim, weights.at[i], dy.at + i / taps * dim, dim);
}
static void js_sumRows(Out sums, In x, Wide rows, Wide dim) {
  sums.need("sums", dim), x.need("x", rows * dim);
  sum_rows(sums.at, x.at, rows, dim);
}
static void js_axpy(Out y, double a, In x, Wide n) {
  y.need("y", n), x.need("x", n);
  share_range(n, 8, kMoveOps, [&](Size i, Size end) { axpy(y.at + i, static_cast<float>(a), x.at + i, end - i); });
}
static void js_scale(Out x, double a, Wide n) {
  x.need("x", n);
  for_vectors(n, [&](Size i, Size lanes) { store(x.at + i, load(x.at + i, lanes) * splat(static_cast<float>(a)), lanes); });
}
static double js_sumSquares(In x, Wide n) {
  x.need("x", n);
  return sum_squares(x.at, n);
}

// ── token distributions, optimizer ────────────────────────────────────────────────────────────────────────────────

static void js_logSoftmax(Out out, In logits, In temperature, U8 allowed, Wide rows, Wide vocab) {
  out.need("out", rows * vocab), logits.need("logits", rows * vocab), temperature.need("temperature", rows);
  if (allowed.at) allowed.need("allowed", vocab);
  share_rows(rows, vocab, kExpOps, [&](Size r, Size count) {
    log_softmax(out.at + r * vocab, logits.at + r * vocab, temperature.at + r, allowed.at, count, vocab);
  });
}
static void js_tokenLogprobs(Out logprobs, Out entropy, Out lse, In logits, I32 targets, In temperature, U8 allowed, Wide rows, Wide vocab) {
  logprobs.need("logprobs", rows), entropy.need("entropy", rows), lse.need("lse", rows * 2), logits.need("logits", rows * vocab);
  temperature.need("temperature", rows), check_ids("targets", targets, rows, INT32_MIN, vocab);
  if (allowed.at) allowed.need("allowed", vocab);
  share_rows(rows, vocab, 2 * kExpOps, [&](Size r, Size count) {
    token_logprobs(logprobs.at + r, entropy.at + r, lse.at + 2 * r, logits.at + r * vocab, targets.at + r, temperature.at + r, allowed.at, count, vocab);
  });
}
static void js_tokenLogprobsBackward(Out dlogits, In logits, I32 targets, In temperature, U8 allowed, In lse, In entropy, In dlogprob,
                                     In dentropy, Wide rows, Wide vocab) {
  dlogits.need("dlogits", rows * vocab), logits.need("logits", rows * vocab), temperature.need("temperature", rows), lse.need("lse", rows * 2);
  entropy.need("entropy", rows), dlogprob.need("dlogprob", rows), dentropy.need("dentropy", rows);
  check_ids("targets", targets, rows, INT32_MIN, vocab);
  if (allowed.at) allowed.need("allowed", vocab);
  share_rows(rows, vocab, kExpOps, [&](Size r, Size count) {
    token_logprobs_backward(dlogits.at + r * vocab, logits.at + r * vocab, targets.at + r, temperature.at + r, allowed.at, lse.at + 2 * r, entropy.at + r,
                            dlogprob.at + r, dentropy.at + r, count, vocab);
  });
}
static void js_adamw(Out p, In g, Out m, Out v, Wide n, double lr, double beta1, double beta2, double eps, double weightDecay, double correction1,
                     double correction2, double gradScale) {
  p.need("p", n), g.need("g", n), m.need("m", n), v.need("v", n);
  share_range(n, 8, kNormOps, [&](Size i, Size end) {
    adamw(p.at + i, g.at + i, m.at + i, v.at + i, end - i, lr, beta1, beta2, eps, weightDecay, correction1, correction2, gradScale);
  });
}

/** GFLOP/s of multiply-adds in registers: the best of slices of about 0.2 ms, so that a busy neighbour does not lower the roof. */
static double js_peak(double ms) {
  constexpr int chains = 2 * kRows, rounds = 16384;
  v8 sum[chains];
#pragma GCC unroll 16
  for (int i = 0; i < chains; i++) sum[i] = splat(static_cast<float>(i));
  v8 x = splat(0.999f), y = splat(1e-3f);
  double best = 0;
  const double start = crew::milliseconds();
  for (double now = start; now - start < ms;) {
    for (int r = 0; r < rounds; r++) {
#pragma GCC unroll 16
      for (int i = 0; i < chains; i++) sum[i] = fma(sum[i], x, y);
    }
    const double then = crew::milliseconds(), rate = 2.0 * 8 * chains * rounds / ((then - now) * 1e6);
    best = rate > best ? rate : best;
    now = then;
  }
  float total = 0;
#pragma GCC unroll 16
  for (int i = 0; i < chains; i++) total += sum_lanes(sum[i]);
  return total == 12345.0f ? 0 : best;  // the sums must be used, or the loop would be removed
}

#define EACH_KERNEL(DO) \
  DO(matmul) DO(gram) DO(packedSize) DO(pack) DO(matmulPacked) DO(attention) DO(attentionBackward) DO(cacheSize) DO(cacheWrite) DO(cacheCopy) \
  DO(attentionCached) DO(rmsNorm) DO(rmsNormBackward) DO(layerNorm) DO(layerNormBackward) DO(rope) DO(siluMul) DO(siluMulBackward) DO(gelu) \
  DO(geluBackward) DO(gatherRows) DO(scatterAddRows) DO(scatterRows) DO(mixRows) DO(mixRowsBackward) DO(sumRows) DO(axpy) DO(scale) DO(sumSquares) \
  DO(logSoftmax) DO(tokenLogprobs) DO(tokenLogprobsBackward) DO(adamw) DO(peak)

#if __wasm__
EACH_KERNEL(EXPORT_KERNEL)
#else
void fill(napi_env env, napi_value to) {
#define ADD(name) Call<&js_##name>::add(env, to, #name);
  EACH_KERNEL(ADD)
#undef ADD
}
#endif

}  // namespace SACCADE_ISA
