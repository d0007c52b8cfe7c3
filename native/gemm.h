// Matrix products. One register kernel, up to 6 rows by 16 columns, under every product of the engine, attention's too.
//
// The invariant: an output element is ONE chain of fused multiply-adds over ascending k that starts from zero or from c.
// Blocking over k continues the chain from the stored value, edges compute padding that is not stored, so m, n, the
// blocking and the packing never change a bit.
#pragma once
#include "crew.h"
#include "vec.h"

namespace SACCADE_ISA {

// A register tile: 6×16 fills the 16 registers of AVX2; NEON has 32 of half the width; plain SSE2 holds a third. WebAssembly compiles to 16 registers of
// half the width on x64, and a product that is not fused takes one more: 5×8.
constexpr Size kPanel = 16;
#if SACCADE_AVX2 || defined(__aarch64__)
constexpr int kRows = 6;
constexpr Size kColumns = kPanel;
#elif __wasm__
constexpr int kRows = 5;
constexpr Size kColumns = 8;
#else
constexpr int kRows = 3;
constexpr Size kColumns = kPanel;
#endif
constexpr Size kDepth = 320;   // k block: a panel of b (20 KB) stays in the first-level cache
constexpr Size kHeight = 192;  // m block: its part of a (240 KB) stays in the second-level cache

/**
 * Element (i, p) of a is at[i*stride + p], or at[p*stride + i] when kMajor. Stride 0 with kMajor: strips as `strip_rows` cuts them, the
 * strip of row i at i*k, its stride the number of its rows.
 */
struct Left { const float* at; Size stride; bool kMajor; };
/** Element (p, j) of b is at[(j/16)*panel + p*stride + j%16]: panels, or with panel = 16 plain rows. */
struct Right { const float* at; Size stride, panel; };

INLINE Size round_up(Size n, Size to) { return (n + to - 1) / to * to; }

/** c[M, 8·V] = (carry ? c : 0) + a[M, k]·b[k, 8·V]. */
template <int M, int V, bool kMajor>
static void tile(float* __restrict c, Size ldc, const float* a, Size lda, const float* b, Size ldb, Size panel, Size k, bool carry) {
  v8 sum[M][V];
#pragma GCC unroll 8
  for (int i = 0; i < M; i++)
#pragma GCC unroll 8
    for (int j = 0; j < V; j++) sum[i][j] = carry ? load(c + i * ldc + 8 * j) : v8{};
#pragma GCC unroll 4
  for (Size p = 0; p < k; p++) {
    v8 row[V];
#pragma GCC unroll 8
    for (int j = 0; j < V; j++) row[j] = load(b + (j / 2) * panel + (j % 2) * 8);
    b += ldb;
#pragma GCC unroll 8
    for (int i = 0; i < M; i++) {
      const v8 x = broadcast(kMajor ? a + i : a + i * lda);
#pragma GCC unroll 8
      for (int j = 0; j < V; j++) sum[i][j] = fma(x, row[j], sum[i][j]);
    }
    a += kMajor ? lda : 1;
  }
#pragma GCC unroll 8
  for (int i = 0; i < M; i++)
#pragma GCC unroll 8
    for (int j = 0; j < V; j++) store(c + i * ldc + 8 * j, sum[i][j]);
}

typedef void (*Tile)(float*, Size, const float*, Size, const float*, Size, Size, Size, bool);
// [kMajor][rows − 1][vectors = 1, 2, 4, 8]. Few rows take more columns, so that enough chains run side by side.
static const Tile kTiles[2][6][4] = {
#define TILES(K) \
  {{tile<1, 1, K>, tile<1, 2, K>, tile<1, 4, K>, tile<1, 8, K>}, {tile<2, 1, K>, tile<2, 2, K>, tile<2, 4, K>}, \
   {tile<3, 1, K>, tile<3, 2, K>, tile<3, 4, K>}, {tile<4, 1, K>, tile<4, 2, K>}, {tile<5, 1, K>, tile<5, 2, K>}, {tile<6, 1, K>, tile<6, 2, K>}}
  TILES(false), TILES(true)
#undef TILES
};

/** Rows of the next strip when `left` remain: full ones, the last two balanced (8 → 4+4, not 6+2). */
INLINE Size strip_rows(Size left) { return left <= kRows ? left : left >= 2 * kRows ? kRows : (left + 1) / 2; }

/** c[m,n] = (carry ? c : 0) + a·b for any m and n; b holds whole vectors of 8 columns. */
static void block(float* c, Size ldc, Left a, Right b, Size m, Size n, Size k, bool carry) {
  const auto run = [&](Size i, Size rows, Size j, int width) {
    const Size step = a.stride ? a.stride : rows;
    const float* left = a.at + (!a.kMajor ? i * step : a.stride ? i : i * k);
    const float* right = b.at + j / kPanel * b.panel + j % kPanel;
    const Tile kernel = kTiles[a.kMajor][rows - 1][width];
    const Size columns = Size{8} << width;
    float* to = c + i * ldc + j;
    if (j + columns <= n) return kernel(to, ldc, left, step, right, b.stride, b.panel, k, carry);
    float edge[6 * 64];
    for (Size r = 0; carry && r < rows; r++) memcpy(edge + r * columns, to + r * ldc, (n - j) * sizeof(float));
    kernel(edge, columns, left, step, right, b.stride, b.panel, k, carry);
    for (Size r = 0; r < rows; r++) memcpy(to + r * ldc, edge + r * columns, (n - j) * sizeof(float));
  };
  if (m <= 3) {
    Size j = 0;
    for (int width = (m == 1 ? 3 : 2) - (kColumns < kPanel); width > 1; width--)
      for (; j + (Size{8} << width) <= n; j += Size{8} << width) run(0, m, j, width);
    for (; j < n; j += kPanel) run(0, m, j, n - j > 8);
    return;
  }
  for (Size j = 0; j < n; j += kColumns)
    for (Size i = 0, rows; i < m; i += rows) run(i, rows = strip_rows(m - i), j, kColumns > 8 && n - j > 8);
}

#if SACCADE_AVX2
/** to[p*ldt + r] = from[r*ld + p] for 8 rows r and 8 columns p. */
INLINE void transpose8(float* to, Size ldt, const float* from, Size ld) {
  __m256 r[8], s[8];
  for (int i = 0; i < 8; i++) r[i] = _mm256_loadu_ps(from + i * ld);
  for (int i = 0; i < 4; i++) s[2 * i] = _mm256_unpacklo_ps(r[2 * i], r[2 * i + 1]), s[2 * i + 1] = _mm256_unpackhi_ps(r[2 * i], r[2 * i + 1]);
  for (int i = 0; i < 2; i++)
    for (int h = 0; h < 2; h++) {
      r[4 * i + 2 * h] = _mm256_shuffle_ps(s[4 * i + h], s[4 * i + 2 + h], 0x44);
      r[4 * i + 2 * h + 1] = _mm256_shuffle_ps(s[4 * i + h], s[4 * i + 2 + h], 0xee);
    }
  for (int p = 0; p < 4; p++) {
    _mm256_storeu_ps(to + p * ldt, _mm256_permute2f128_ps(r[p], r[p + 4], 0x20));
    _mm256_storeu_ps(to + (p + 4) * ldt, _mm256_permute2f128_ps(r[p], r[p + 4], 0x31));
  }
}
#endif

/** Panels of 16 columns, [ceil(n/16)][k][16], padded with zeros. b is [k,n], or [n,k] when transposed. */
static void pack_panels(float* packed, const float* b, Size ldb, Size n, Size k, bool transposed) {
  for (Size j = 0; j < n; j += kPanel, packed += k * kPanel) {
    const Size columns = n - j < kPanel ? n - j : kPanel;
    if (!transposed) {
      const float* from = b + j;
      if (columns == kPanel)
        for (Size p = 0; p < k; p++, from += ldb) store(packed + p * kPanel, load(from)), store(packed + p * kPanel + 8, load(from + 8));
      else
        for (Size p = 0; p < k; p++, from += ldb)
          for (Size c = 0; c < kPanel; c++) packed[p * kPanel + c] = c < columns ? from[c] : 0.0f;
      continue;
    }
    const float* from = b + j * ldb;
    Size p = 0;
#if SACCADE_AVX2
    if (columns == kPanel)
      for (; p + 8 <= k; p += 8) {
        transpose8(packed + p * kPanel, kPanel, from + p, ldb);
        transpose8(packed + p * kPanel + 8, kPanel, from + 8 * ldb + p, ldb);
      }
#endif
    for (; p < k; p++)
      for (Size c = 0; c < kPanel; c++) packed[p * kPanel + c] = c < columns ? from[c * ldb + p] : 0.0f;
  }
}

static thread_local Scratch panel_scratch, row_scratch;

/** A copy of a[rows, k] without the long strides that make cache lines evict one another. */
static Left close_rows(Left a, Size rows, Size k) {
  if (!a.kMajor) {
    const Size stride = k + 16;
    float* to = row_scratch.need(rows * stride);
    for (Size i = 0; i < rows; i++) memcpy(to + i * stride, a.at + i * a.stride, k * sizeof(float));
    return {to, stride, false};
  }
  float* to = row_scratch.need(rows * k + 8);
  // Of 8 floats read and written 6 count; the next store covers the others. In the last rows there is nothing to read beyond.
  Size whole = 0;
  while (rows - whole >= 2 * kRows) whole += kRows;
  for (Size i = 0; i < whole; i += 8 * kRows) {
    const Size end = whole - i < 8 * kRows ? whole : i + 8 * kRows;
    for (Size p = 0; p < k; p++)
      for (Size r = i; r < end; r += kRows) {
        float* at = to + r * k + p * kRows;
        const v8 x = load(a.at + p * a.stride + r, kRows < 6 ? kRows : 8);
        if (kRows == 6 && p + 1 < k) store(at, x);
        else store(at, x, kRows);
      }
  }
  for (Size i = whole, strip; i < rows; i += strip) {
    strip = strip_rows(rows - i);
    for (Size p = 0; p < k; p++)
      for (Size r = 0; r < strip; r++) to[i * k + p * strip + r] = a.at[p * a.stride + i + r];
  }
  return {to, 0, true};
}

/** c[m,n] = (carry ? c : 0) + a·b (+ bias). */
static void product(float* c, Size ldc, Left a, Right b, const float* bias, Size m, Size n, Size k, bool carry) {
  const Size blocks = (k + kDepth - 1) / kDepth;
  const Size depth = blocks ? round_up((k + blocks - 1) / blocks, 8) : 0;
  for (Size i = 0; i < m; i += kHeight) {
    const Size rows = m - i < kHeight ? m - i : kHeight;
    float* to = c + i * ldc;
    if (k == 0 && !carry)
      for (Size r = 0; r < rows; r++) memset(to + r * ldc, 0, n * sizeof(float));
    for (Size p = 0; p < k; p += depth) {
      const Size deep = k - p < depth ? k - p : depth;
      Left part = {a.at + (a.kMajor ? p * a.stride + i : i * a.stride + p), a.stride, a.kMajor};
      if (rows > kRows && n >= (a.kMajor ? 128 : 256) && a.stride >= (a.kMajor ? 512 : 1024)) part = close_rows(part, rows, deep);
      block(to, ldc, part, {b.at + p * b.stride, b.stride, b.panel}, rows, n, deep, carry || p > 0);
    }
    for (Size r = 0; bias && r < rows; r++)
      for_vectors(n, [&](Size j, Size lanes) { store(to + r * ldc + j, load(to + r * ldc + j, lanes) + load(bias + j, lanes), lanes); });
  }
}

/** Multiply-adds of about ten microseconds: less is not worth another thread. */
constexpr double kPartOps = 1 << 19;

/** Into how many parts to cut so many multiply-adds, at most `most`; 1 when nobody could help. */
INLINE Size parts_of(double ops, Size most) {
  const int helpers = ops < 2 * kPartOps ? 0 : crew::spare();
  if (helpers == 0) return 1;
  Size parts = static_cast<Size>(ops / kPartOps);
  if (parts > 3 * (helpers + 1)) parts = 3 * (helpers + 1);
  return parts < most ? parts : most;
}

/** each(first, last) over 0..count-1 in pieces that are multiples of `step`, on several threads if that pays; an element costs `ops`. */
template <class F> static void share_range(Size count, Size step, double ops, F each) {
  const Size units = (count + step - 1) / step, parts = parts_of(static_cast<double>(count) * ops, units);
  if (parts < 2) return each(Size{0}, count);
  crew::share(parts, [&](int64_t i) {
    const Size last = units * (i + 1) / parts * step;
    each(units * i / parts * step, last < count ? last : count);
  });
}

/** `product` on several threads: by rows, or by panels of columns when there are few rows. */
static void shared_product(float* c, Size ldc, Left a, Right b, const float* bias, Size m, Size n, Size k, bool carry) {
  const double work = static_cast<double>(k);
  if (m * kPanel >= n * kRows)
    share_range(m, kRows, work * n, [&](Size first, Size last) {
      product(c + first * ldc, ldc, {a.at + (a.kMajor ? first : first * a.stride), a.stride, a.kMajor}, b, bias, last - first, n, k, carry);
    });
  else
    share_range(n, kPanel, work * m, [&](Size first, Size last) {
      product(c + first, ldc, a, {b.at + first / kPanel * b.panel, b.stride, b.panel}, bias ? bias + first : nullptr, m, last - first, k, carry);
    });
}

/** Floats of b that are packed at a time. */
constexpr Size kPacked = 1 << 20;

/** Columns of b, of k rows each, that are packed at a time. */
INLINE Size packed_columns(Size k) {
  const Size columns = kPacked / (k > 0 ? k : 1) / kPanel * kPanel;
  return columns < kPanel * 4 ? kPanel * 4 : columns;
}

/** The triangle below the diagonal of c[n,n] also above it. */
static void mirror(float* c, Size n) {
  share_range(n, 8, 4.0 * static_cast<double>(n), [&](Size first, Size last) {
    for (Size i = first; i < last; i += 8)
      for (Size j = i; j < n; j += 8) {
#if SACCADE_AVX2
        if (j > i && j + 8 <= n) {
          transpose8(c + i * n + j, n, c + j * n + i, n);
          continue;
        }
#endif
        for (Size r = i; r < i + 8 && r < n; r++)
          for (Size s = j > r ? j : r + 1; s < j + 8 && s < n; s++) c[r * n + s] = c[s * n + r];
      }
  });
}

/**
 * c[n,n] = a·aᵀ, where a lies at x as n rows of k or, when kMajor, k rows of n. Only what touches the triangle below the diagonal is computed: an element
 * above it is the same chain with the factors of each product exchanged, which changes no bit.
 */
static void gram_product(float* c, const float* x, Size ldx, Size n, Size k, bool kMajor) {
  constexpr Size kStripe = 8 * kRows;
  const Size columns = packed_columns(k);
  for (Size j = 0; j < n; j += columns) {
    const Size wide = n - j < columns ? n - j : columns;
    float* packed = panel_scratch.need(round_up(wide, kPanel) * k);
    pack_panels(packed, x + (kMajor ? j : j * ldx), ldx, wide, k, !kMajor);
    // The longest rows first.
    share_range(n - j, 2 * kRows, static_cast<double>(k) * wide / 2, [&](Size first, Size last) {
      for (Size end = n - first, i; end > n - last; end = i) {
        i = end - (n - last) > kStripe ? end - kStripe : n - last;
        const Size reach = round_up(end - j, kPanel);
        const Left rows = {x + (kMajor ? i : i * ldx), ldx, kMajor};
        product(c + i * n + j, n, rows, {packed, kPanel, k * kPanel}, nullptr, end - i, reach < wide ? reach : wide, k, false);
      }
    });
  }
  mirror(c, n);
}

static void matrix_product(float* c, Size ldc, Left a, const float* b, Size ldb, Size m, Size n, Size k, bool transB, bool carry) {
  if (m <= kRows && !transB) {  // reading b once, where it lies, costs no more than packing it would
    const Size whole = n / 8 * 8;
    shared_product(c, ldc, a, {b, ldb, kPanel}, nullptr, m, whole, k, carry);
    c += whole, b += whole, n -= whole;
  }
  const Size columns = packed_columns(k);
  for (Size j = 0; j < n; j += columns) {
    const Size wide = n - j < columns ? n - j : columns;
    float* packed = panel_scratch.need(round_up(wide, kPanel) * k);
    pack_panels(packed, b + (transB ? j * ldb : j), ldb, wide, k, transB);
    shared_product(c + j, ldc, a, {packed, kPanel, k * kPanel}, nullptr, m, wide, k, carry);
  }
}

}  // namespace SACCADE_ISA
