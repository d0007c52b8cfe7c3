// Eight floats at a time, and the elementary functions on them. Everything here is written with compiler vectors, so
// that one text serves AVX2 and every other machine; intrinsics stand only where the vectors can't say it.
// Contraction is off for the whole build: a fused multiply-add happens where fma() is written and nowhere else, and a
// vector with unused lanes goes through the same instructions as a full one. That is what keeps bits independent of
// where an element happens to lie.
#pragma once
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#if defined(__AVX2__) && defined(__FMA__)
#define SACCADE_AVX2 1
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

namespace SACCADE_ISA {  // one copy of everything per instruction set: names must not meet in the linker

#define INLINE static inline __attribute__((always_inline))

typedef float v8 __attribute__((vector_size(32)));
typedef float v8_unaligned __attribute__((vector_size(32), aligned(4), may_alias));
typedef int32_t i8x __attribute__((vector_size(32)));
typedef double d8 __attribute__((vector_size(64)));
/** Sizes and places in memory: 32 bits under WebAssembly. */
typedef ptrdiff_t Size;

INLINE v8 splat(float x) { return v8{x, x, x, x, x, x, x, x}; }
INLINE v8 load(const float* at) { return *reinterpret_cast<const v8_unaligned*>(at); }
INLINE void store(float* at, v8 x) { *reinterpret_cast<v8_unaligned*>(at) = x; }
INLINE v8 as_floats(i8x x) { v8 y; memcpy(&y, &x, sizeof y); return y; }
INLINE i8x as_ints(v8 x) { i8x y; memcpy(&y, &x, sizeof y); return y; }
INLINE v8 keep(i8x mask, v8 x) { return as_floats(mask & as_ints(x)); }
/** All ones in the first n lanes. */
INLINE i8x first_lanes(Size n) {
  const int32_t count = n < 8 ? static_cast<int32_t>(n) : 8;
  return i8x{0, 1, 2, 3, 4, 5, 6, 7} < i8x{count, count, count, count, count, count, count, count};
}

#if SACCADE_AVX2
INLINE v8 fma(v8 a, v8 b, v8 c) { return _mm256_fmadd_ps(a, b, c); }
INLINE v8 broadcast(const float* at) { return _mm256_broadcast_ss(at); }
INLINE v8 square_root(v8 x) { return _mm256_sqrt_ps(x); }
INLINE v8 select(i8x mask, v8 yes, v8 no) { return _mm256_blendv_ps(no, yes, as_floats(mask)); }
// Both return b when either is not a number.
INLINE v8 larger(v8 a, v8 b) { return _mm256_max_ps(a, b); }
INLINE v8 smaller(v8 a, v8 b) { return _mm256_min_ps(a, b); }
/** The first n floats, the other lanes 0. */
INLINE v8 load(const float* at, Size n) { return n >= 8 ? load(at) : v8(_mm256_maskload_ps(at, (__m256i)first_lanes(n))); }
INLINE void store(float* at, v8 x, Size n) {
  if (n >= 8) return store(at, x);
  _mm256_maskstore_ps(at, (__m256i)first_lanes(n), x);
}
#else
INLINE v8 fma(v8 a, v8 b, v8 c) {
#if defined(__aarch64__)
  float32x4_t x[2], y[2], z[2];
  memcpy(x, &a, 32), memcpy(y, &b, 32), memcpy(z, &c, 32);
  z[0] = vfmaq_f32(z[0], x[0], y[0]), z[1] = vfmaq_f32(z[1], x[1], y[1]);
  memcpy(&c, z, 32);
  return c;
#else
  return a * b + c;
#endif
}
INLINE v8 broadcast(const float* at) { return splat(*at); }
INLINE v8 select(i8x mask, v8 yes, v8 no) { return as_floats((mask & as_ints(yes)) | (~mask & as_ints(no))); }
#if __wasm__
typedef float v4 __attribute__((vector_size(16)));
/** Both halves of a through `half`, with those of b. */
template <class F> INLINE v8 by_halves(v8 a, v8 b, F half) {
  v4 x[2], y[2];
  memcpy(x, &a, 32), memcpy(y, &b, 32);
  x[0] = half(x[0], y[0]), x[1] = half(x[1], y[1]);
  memcpy(&a, x, 32);
  return a;
}
INLINE v8 square_root(v8 x) { return __builtin_elementwise_sqrt(x); }
INLINE v8 larger(v8 a, v8 b) { return by_halves(a, b, [](v4 x, v4 y) { return v4(__builtin_wasm_pmax_f32x4(y, x)); }); }
INLINE v8 smaller(v8 a, v8 b) { return by_halves(a, b, [](v4 x, v4 y) { return v4(__builtin_wasm_pmin_f32x4(y, x)); }); }
#else
INLINE v8 square_root(v8 x) {
  for (int i = 0; i < 8; i++) x[i] = __builtin_sqrtf(x[i]);
  return x;
}
INLINE v8 larger(v8 a, v8 b) { return select(a > b, a, b); }
INLINE v8 smaller(v8 a, v8 b) { return select(a < b, a, b); }
#endif
INLINE v8 load(const float* at, Size n) {
  if (n >= 8) return load(at);
  v8 x = {};
  for (Size i = 0; i < n; i++) x[i] = at[i];
  return x;
}
INLINE void store(float* at, v8 x, Size n) {
  if (n >= 8) return store(at, x);
  for (Size i = 0; i < n; i++) at[i] = x[i];
}
#endif

INLINE float sum_lanes(v8 x) { return ((x[0] + x[4]) + (x[2] + x[6])) + ((x[1] + x[5]) + (x[3] + x[7])); }
INLINE float largest_lane(v8 x) {
  float most = x[0];
  for (int i = 1; i < 8; i++) most = x[i] > most ? x[i] : most;
  return most;
}

/** exp to about 1 ulp. Below the smallest normal number it is 0; it saturates at 2.4e38 instead of reaching infinity. */
INLINE v8 exponential(v8 x) {
  const v8 low = splat(-87.33654f), high = splat(88.37626f), magic = splat(12582912.0f);  // adding 1.5·2²³ rounds to an integer
  const v8 y = smaller(high, larger(low, x));
  const v8 shifted = fma(y, splat(1.44269504f), magic);
  const v8 n = shifted - magic;
  v8 r = fma(n, splat(-0.693359375f), y);
  r = fma(n, splat(2.12194440e-4f), r);
  v8 p = fma(splat(0.0013948776759207249f), r, splat(0.008370601572096348f));
  p = fma(p, r, splat(0.04166622832417488f));
  p = fma(p, r, splat(0.16666503250598907f));
  p = fma(p, r, splat(0.5f));
  p = fma(p, r * r, r) + splat(1.0f);
  const i8x power = (as_ints(shifted) - as_ints(magic) + 127) << 23;
  return keep(~(x < low), p * as_floats(power));
}

INLINE v8 sigmoid(v8 x) { return splat(1.0f) / (splat(1.0f) + exponential(-x)); }

/** The normal distribution's Φ(x) and exp(−x²/2), by Abramowitz & Stegun 7.1.26 for erfc (absolute error 1.5e-7). */
INLINE v8 normal_cdf(v8 x, v8* bell) {
  const v8 z = select(x < v8{}, -x, x) * splat(0.70710678f);
  const v8 t = splat(1.0f) / fma(splat(0.3275911f), z, splat(1.0f));
  v8 p = fma(splat(1.061405429f), t, splat(-1.453152027f));
  p = fma(p, t, splat(1.421413741f));
  p = fma(p, t, splat(-0.284496736f));
  p = fma(p, t, splat(0.254829592f));
  *bell = exponential(-(z * z));
  const v8 tail = splat(0.5f) * (p * t * *bell);
  return select(x < v8{}, tail, splat(1.0f) - tail);
}

/** Walks a row in vectors; `each(position, lanes)` sees 8 lanes except perhaps at the end. */
template <class F> INLINE void for_vectors(Size n, F each) {
  Size i = 0;
  for (; i + 8 <= n; i += 8) each(i, Size{8});
  if (i < n) each(i, n - i);
}

/** Adds up vectors over a row: the vector at position i goes to chain (i/8) % 4. Lanes past the end must come as 0. */
template <class F> INLINE float sum_row(Size n, F vector) {
  v8 chain[4] = {};
  Size i = 0;
  for (; i + 32 <= n; i += 32)
    for (int c = 0; c < 4; c++) chain[c] += vector(i + 8 * c, Size{8});
  for (int c = 0; i < n; i += 8, c++) chain[c] += vector(i, n - i < 8 ? n - i : Size{8});
  return sum_lanes((chain[0] + chain[1]) + (chain[2] + chain[3]));
}

#if __wasm__
/** Ends the thread, and with it the pool: helpers can't go on without memory. */
extern "C" [[noreturn]] __attribute__((import_module("saccade"), import_name("exhausted"))) void out_of_memory();
#else
[[noreturn]] INLINE void out_of_memory() { throw "out of memory"; }
#endif

/** Dirty memory of one thread, kept between calls. */
template <class T> struct Room {
  T* at = nullptr;
  Size size = 0;
  T* need(Size count) {
    if (count > size) {
      release();
      size = count + count / 4 + 64;
      at = static_cast<T*>(aligned_memory((static_cast<size_t>(size) * sizeof(T) + 63) / 64 * 64));
      if (!at) { size = 0; out_of_memory(); }
    }
    return at;
  }
#if __wasm__  // its threads end with the whole memory
  static void* aligned_memory(size_t bytes) { return aligned_alloc(64, bytes); }
  void release() { free(at); }
#elif _WIN32
  static void* aligned_memory(size_t bytes) { return _aligned_malloc(bytes, 64); }
  void release() { _aligned_free(at); }
  ~Room() { release(); }
#else
  static void* aligned_memory(size_t bytes) { return aligned_alloc(64, bytes); }
  void release() { free(at); }
  ~Room() { release(); }
#endif
};
typedef Room<float> Scratch;

}  // namespace SACCADE_ISA
