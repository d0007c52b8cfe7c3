// Softmax attention, forward, cached and backward.
//
// A cache holds, per kv head, keys as panels [position/16][headDim][16] (the right-hand side of a matrix product) and
// values as rows of headDim rounded up to 8. The uncached forward first writes its segment into such a cache in scratch
// memory, and both then call `attend`: equal bits by construction. A row's arithmetic depends on its own keys only:
// scores are chains over ascending d, the sum of exponentials runs over 8 lanes counted from key 0, the output is a
// chain over ascending keys.
#pragma once
#include <atomic>
#include <new>

#include "gemm.h"

namespace SACCADE_ISA {

constexpr Size kQueries = 24;     // query rows worked on together
constexpr Size kTileQueries = 24, kTileKeys = 64;  // tile of the backward pass
constexpr Size kValueDepth = 256; // keys per block of P·V

static thread_local Scratch score_scratch, segment_scratch;

/** rows of `dim` floats at stride ld → rows padded with zeros to `wide`. */
static void copy_rows(float* to, Size wide, const float* from, Size ld, Size rows, Size dim) {
  for (Size r = 0; r < rows; r++) {
    memcpy(to + r * wide, from + r * ld, dim * sizeof(float));
    for (Size d = dim; d < wide; d++) to[r * wide + d] = 0.0f;
  }
}

/** One row of scores becomes exp(score·scale − max) over its first n keys, 0 up to the end of the vector. Returns the sum. */
static float softmax_row(float* s, Size n, float scale, float* max) {
  const v8 by = splat(scale), none = splat(-INFINITY);
  v8 most[2] = {none, none};
  Size j = 0;
  for (; j + 16 <= n; j += 16) most[0] = larger(most[0], load(s + j) * by), most[1] = larger(most[1], load(s + j + 8) * by);
  for (; j < n; j += 8) most[0] = larger(most[0], select(first_lanes(n - j), load(s + j) * by, none));
  *max = largest_lane(larger(most[0], most[1]));
  const v8 top = splat(*max);
  v8 sum = {};
  for (j = 0; j + 8 <= n; j += 8) {
    const v8 p = exponential(load(s + j) * by - top);
    store(s + j, p);
    sum += p;
  }
  if (j < n) {
    const v8 p = keep(first_lanes(n - j), exponential(load(s + j) * by - top));
    store(s + j, p);
    sum += p;
  }
  return sum_lanes(sum);
}

/** `rows` queries against one head's keys and values; row r sees the first `seen + r*step` keys. */
static void attend(float* out, Size ldo, float* lse, Size ldl, const float* q, Size ldq, const float* keys, const float* values,
                   Size rows, Size seen, Size step, Size dim, float scale) {
  const Size wide = round_up(dim, 8), n = round_up(seen + (rows - 1) * step, kPanel);
  float* scores = score_scratch.need(rows * (n + wide));
  float* mixed = scores + rows * n;
  // Later rows see more keys: panels that the first strip does not reach are left to the strips that do.
  const Size shared = round_up(seen + (rows < kRows ? rows - 1 : kRows - 1) * step, kPanel);
  block(scores, n, {q, ldq, false}, {keys, kPanel, dim * kPanel}, rows, shared, dim, false);
  for (Size i = kRows; i < rows && step > 0; i += kRows) {
    const Size strip = rows - i < kRows ? rows - i : kRows, most = round_up(seen + (i + strip - 1) * step, kPanel);
    if (most > shared)
      block(scores + i * n + shared, n, {q + i * ldq, ldq, false}, {keys + shared * dim, kPanel, dim * kPanel}, strip, most - shared, dim, false);
  }
  float inverse[kQueries];
  for (Size r = 0; r < rows; r++) {
    float max;
    const float sum = softmax_row(scores + r * n, seen + r * step, scale, &max);
    inverse[r] = 1.0f / sum;
    if (lse) lse[r * ldl] = static_cast<float>(max + log(static_cast<double>(sum)));
  }
  for (Size j = 0; j < seen + rows * step; j += kValueDepth)
    for (Size i = 0; i < rows; i += kRows) {
      const Size strip = rows - i < kRows ? rows - i : kRows, left = seen + i * step - j, deep = left < kValueDepth ? left : kValueDepth;
      const Right part = {values + j * wide, wide, kPanel};
      if (deep > 0) block(mixed + i * wide, wide, {scores + i * n + j, n, false}, part, strip, wide, deep, j > 0);
    }
  for (Size r = 0; r < rows; r++) {
    float* row = mixed + r * wide;
    const Size done = seen + r / kRows * kRows * step, more = r % kRows * step;  // keys that only the later rows of a strip see
    if (more > 0) block(row, wide, {scores + r * n + done, n, false}, {values + done * wide, wide, kPanel}, 1, wide, more, true);
    const v8 by = splat(inverse[r]);
    for_vectors(dim, [&](Size d, Size lanes) { store(out + r * ldo + d, load(row + d) * by, lanes); });
  }
}

/** The query rows that are asked for, as (start, length) pairs in ascending order; a walk over segments takes them one segment at a time. */
struct Queries {
  const int32_t* at;
  Size count;
  /** The pairs that lie in rows start..start+length-1; they must come after those taken before. */
  Queries take(Size start, Size length) {
    while (count > 0 && at[0] < start) at += 2, count--;
    Queries own = {at, 0};
    for (; count > 0 && at[0] < start + length; at += 2, count--) own.count++;
    return own;
  }
  /** each(first, last): positions in the segment that starts at `start`, last exclusive. */
  template <class F> void for_ranges(Size start, F each) const {
    for (Size r = 0; r < count; r++) each(at[2 * r] - start, at[2 * r] - start + at[2 * r + 1]);
  }
};

/** Queries first..last-1 of a segment against the keys of one kv head: what a thread does at a time. */
struct HeadPiece { Size start, length, head, first, last; Queries own; };
static thread_local Room<HeadPiece> piece_room;

static void attention(float* out, Size ldo, float* lse, const float* q, Size ldq, const float* k, Size ldk, const float* v, Size ldv,
                      const int32_t* segments, Size count, Queries asked, Size heads, Size kvHeads, Size dim, float scale, bool causal) {
  const Size group = heads / kvHeads, wide = round_up(dim, 8);
  const auto attend_piece = [&](const HeadPiece& piece) {
    const Size start = piece.start, length = piece.length, h = piece.head, seen = causal ? piece.last : length;
    float* keys = segment_scratch.need(round_up(seen, kPanel) * dim + seen * wide);
    float* values = keys + round_up(seen, kPanel) * dim;
    pack_panels(keys, k + start * ldk + h * dim, ldk, seen, dim, true);
    copy_rows(values, wide, v + start * ldv + h * dim, ldv, seen, dim);
    for (Size g = h * group; g < (h + 1) * group; g++)
      piece.own.for_ranges(start, [&](Size from, Size to) {
        const Size first = from > piece.first ? from : piece.first, last = to < piece.last ? to : piece.last;
        for (Size i = first; i < last; i += kQueries) {
          const Size rows = last - i < kQueries ? last - i : kQueries, row = start + i;
          attend(out + row * ldo + g * dim, ldo, lse + row * heads + g, heads, q + row * ldq + g * dim, ldq, keys, values, rows,
                 causal ? i + 1 : length, causal, dim, scale);
        }
      });
  };
  const bool alone = crew::spare() == 0;
  // Later queries see more keys: cuts go by the square root, so that pieces cost about the same.
  const auto cuts_of = [&](Size length) {
    const double work = static_cast<double>(length) * length * dim * group * (causal ? 1 : 2);
    return alone ? 1 : 1 + static_cast<Size>(work / (8 * kPartOps));
  };
  Size most = 0, used = 0;
  for (Size s = 0; s < count; s++) most += cuts_of(segments[2 * s + 1]) * kvHeads;
  HeadPiece* pieces = piece_room.need(most);
  for (Size s = 0; s < count; s++) {
    const Size start = segments[2 * s], length = segments[2 * s + 1], cuts = cuts_of(length);
    const Queries own = asked.take(start, length);
    if (own.count == 0) continue;
    for (Size h = 0; h < kvHeads; h++) {
      Size first = 0;
      for (Size c = 1; c <= cuts; c++) {
        const double share = static_cast<double>(c) / cuts;
        const Size last = c == cuts ? length : static_cast<Size>(length * (causal ? sqrt(share) : share)) / kQueries * kQueries;
        if (last > first) pieces[used++] = {start, length, h, first, last, own};
        first = last;
      }
    }
  }
  crew::share(used, [&](Size i) { attend_piece(pieces[i]); });
}

// ── caches ────────────────────────────────────────────────────────────────────────────────────────────────────────

INLINE Size cache_stride(Size capacity, Size dim) { return round_up(capacity, kPanel) * round_up(dim, 8); }

static void cache_write(float* keys, float* values, const float* k, Size ldk, const float* v, Size ldv, const int32_t* table, Size runs,
                        Size capacity, Size kvHeads, Size dim) {
  const Size stride = cache_stride(capacity, dim), wide = round_up(dim, 8);
  for (Size t = 0; t < runs; t++, table += 4) {
    const Size row = table[0], count = table[1], offset = table[2], position = table[3];
    for (Size h = 0; h < kvHeads; h++) {
      float* to = keys + offset + h * stride;
      const float* from = k + row * ldk + h * dim;
      for (Size i = 0; i < count;) {
        const Size at = position + i, lane = at % kPanel;
        float* panel = to + at / kPanel * kPanel * dim;
        if (lane == 0 && count - i >= kPanel) {
          pack_panels(panel, from + i * ldk, ldk, kPanel, dim, true);
          i += kPanel;
          continue;
        }
        for (Size d = 0; d < dim; d++) panel[d * kPanel + lane] = from[i * ldk + d];
        i++;
      }
      copy_rows(values + offset + h * stride + position * wide, wide, v + row * ldv + h * dim, ldv, count, dim);
    }
  }
}

static void cache_copy(float* keysTo, float* valuesTo, Size toCapacity, const float* keysFrom, const float* valuesFrom, Size fromCapacity,
                       Size length, Size kvHeads, Size dim) {
  const Size to = cache_stride(toCapacity, dim), from = cache_stride(fromCapacity, dim);
  for (Size h = 0; h < kvHeads; h++) {
    const Size whole = length / kPanel * kPanel * dim, lanes = length % kPanel;
    memcpy(keysTo + h * to, keysFrom + h * from, whole * sizeof(float));
    for (Size d = 0; d < dim; d++)
      for (Size i = whole + d * kPanel; i < whole + d * kPanel + lanes; i++) keysTo[h * to + i] = keysFrom[h * from + i];
    memcpy(valuesTo + h * to, valuesFrom + h * from, length * round_up(dim, 8) * sizeof(float));
  }
}

static void attention_cached(float* out, Size ldo, const float* q, Size ldq, const float* keyCache, const float* valueCache,
                             const int32_t* table, Size runs, Size capacity, Size heads, Size kvHeads, Size dim, float scale) {
  const Size group = heads / kvHeads, stride = cache_stride(capacity, dim);
  for (Size t = 0; t < runs; t++, table += 4) {
    const Size row = table[0], count = table[1], position = table[3];
    for (Size h = 0; h < kvHeads; h++) {
      const float* keys = keyCache + table[2] + h * stride;
      const float* values = valueCache + table[2] + h * stride;
      // Few new rows: the query heads that share these keys form the tile. Many: consecutive queries of one head do.
      if (count < group)
        for (Size i = row; i < row + count; i++)
          for (Size g = 0; g < group; g += kQueries) {
            const Size at = (h * group + g) * dim, rows = group - g < kQueries ? group - g : kQueries;
            attend(out + i * ldo + at, dim, nullptr, 0, q + i * ldq + at, dim, keys, values, rows, position + i - row + 1, 0, dim, scale);
          }
      else
        for (Size g = h * group; g < (h + 1) * group; g++)
          for (Size i = 0; i < count; i += kQueries)
            attend(out + (row + i) * ldo + g * dim, ldo, nullptr, 0, q + (row + i) * ldq + g * dim, ldq, keys, values,
                   count - i < kQueries ? count - i : kQueries, position + i + 1, 1, dim, scale);
    }
  }
}

// ── backward ──────────────────────────────────────────────────────────────────────────────────────────────────────

struct BackwardShape {
  const float *dout, *out, *lse, *q, *k, *v;
  float *dq, *dk, *dv;
  Size ldo, ldq, ldk, ldv, heads, group, dim, wide;
  float scale;
  bool causal;
};

/** The backward pass of one kv head, and of the query heads that share it, in one segment. */
struct BackwardHead {
  const BackwardShape& of;
  const Size start, length, head, rows16;
  const Queries own;
  // Operands of the whole segment, dense and padded: panels for products with a transposed right-hand side, rows for the rest.
  float *keyPanels, *valuePanels, *keys, *dkeys, *dvalues;
  // One after the other for the query heads.
  float *queries, *douts, *dqueries, *dots;

  static Size floats(const BackwardShape& of, Size length) {
    const Size rows16 = round_up(length, kPanel);
    return rows16 * (2 * of.dim + 3 * of.wide) + of.group * rows16 * (3 * of.wide + 1);
  }

  BackwardHead(const BackwardShape& of, Size start, Size length, Size head, Queries own, float* scratch)
      : of(of), start(start), length(length), head(head), rows16(round_up(length, kPanel)), own(own) {
    const auto take = [&](Size floats) { float* at = scratch; scratch += floats; return at; };
    keyPanels = take(rows16 * of.dim), valuePanels = take(rows16 * of.dim), keys = take(rows16 * of.wide);
    dkeys = take(rows16 * of.wide), dvalues = take(rows16 * of.wide);
    queries = take(of.group * rows16 * of.wide), douts = take(of.group * rows16 * of.wide), dqueries = take(of.group * rows16 * of.wide);
    dots = take(of.group * rows16);
  }

  void prepare() const {
    const Size dim = of.dim, wide = of.wide;
    const float* keyRows = of.k + start * of.ldk + head * dim;
    pack_panels(keyPanels, keyRows, of.ldk, length, dim, true);
    pack_panels(valuePanels, of.v + start * of.ldv + head * dim, of.ldv, length, dim, true);
    copy_rows(keys, wide, keyRows, of.ldk, length, dim);
    memset(dkeys, 0, length * wide * sizeof(float));
    memset(dvalues, 0, length * wide * sizeof(float));
  }

  /** The operands of query head `head*group + g`. */
  void prepare(Size g) const {
    const Size dim = of.dim, wide = of.wide, at = (head * of.group + g) * dim;
    copy_rows(queries + g * rows16 * wide, wide, of.q + start * of.ldq + at, of.ldq, length, dim);
    copy_rows(douts + g * rows16 * wide, wide, of.dout + start * of.ldo + at, of.ldo, length, dim);
    memset(dqueries + g * rows16 * wide, 0, length * wide * sizeof(float));
    own.for_ranges(start, [&](Size first, Size last) {
      for (Size i = first; i < last; i++) {
        const float *a = of.dout + (start + i) * of.ldo + at, *b = of.out + (start + i) * of.ldo + at;
        dots[g * rows16 + i] = sum_row(dim, [&](Size d, Size lanes) { return load(a + d, lanes) * load(b + d, lanes); });
      }
    });
  }

  /** Keys j.. of a tile against all queries of head g that see them, ascending. ready(end) and done(end): dqueries before row `end` will be, were added to. */
  template <class Ready, class Done> void column(Size g, Size j, Ready ready, Done done) const {
    const Size dim = of.dim, wide = of.wide, heads = of.heads, cols = length - j < kTileKeys ? length - j : kTileKeys;
    const bool causal = of.causal;
    float* weights = score_scratch.need(2 * kTileQueries * kTileKeys);
    float* slopes = weights + kTileQueries * kTileKeys;
    const float *query = queries + g * rows16 * wide, *dout = douts + g * rows16 * wide, *dot = dots + g * rows16;
    const float* logSums = of.lse + start * heads + head * of.group + g;
    float* dquery = dqueries + g * rows16 * wide;
    own.for_ranges(start, [&](Size first, Size last) {
      for (Size i = causal && first < j ? j : first, rows; i < last; i += rows) {
        rows = last - i < kTileQueries ? last - i : kTileQueries;
        const Size most = causal && i + rows - j < cols ? i + rows - j : cols, n = round_up(most, 8);
        block(weights, kTileKeys, {query + i * wide, wide, false}, {keyPanels + j * dim, kPanel, dim * kPanel}, rows, n, dim, false);
        block(slopes, kTileKeys, {dout + i * wide, wide, false}, {valuePanels + j * dim, kPanel, dim * kPanel}, rows, n, dim, false);
        for (Size r = 0; r < rows; r++) {
          float *w = weights + r * kTileKeys, *ds = slopes + r * kTileKeys;
          const v8 logSum = splat(logSums[(i + r) * heads]), level = splat(dot[i + r]), by = splat(of.scale);
          const Size seen = causal && i + r + 1 - j < most ? i + r + 1 - j : most;
          const auto step = [&](Size c, i8x visible) {
            const v8 p = keep(visible, exponential(load(w + c) * by - logSum));
            store(w + c, p);
            store(ds + c, p * (load(ds + c) - level) * by);
          };
          Size c = 0;
          for (; c + 8 <= seen; c += 8) step(c, first_lanes(8));
          for (; c < n; c += 8) step(c, first_lanes(seen - c));
        }
        block(dvalues + j * wide, wide, {weights, kTileKeys, true}, {dout + i * wide, wide, kPanel}, most, wide, rows, true);
        block(dkeys + j * wide, wide, {slopes, kTileKeys, true}, {query + i * wide, wide, kPanel}, most, wide, rows, true);
        ready(i + rows);
        block(dquery + i * wide, wide, {slopes, kTileKeys, false}, {keys + j * wide, wide, kPanel}, rows, wide, most, true);
        done(i + rows);
      }
    });
  }

  void finish() const {
    const Size dim = of.dim, wide = of.wide;
    for (Size i = 0; i < length; i++) {
      memcpy(of.dk + (start + i) * of.ldk + head * dim, dkeys + i * wide, dim * sizeof(float));
      memcpy(of.dv + (start + i) * of.ldv + head * dim, dvalues + i * wide, dim * sizeof(float));
      for (Size g = 0; g < of.group; g++)
        memcpy(of.dq + (start + i) * of.ldq + (head * of.group + g) * dim, dqueries + (g * rows16 + i) * wide, dim * sizeof(float));
    }
  }
};

static void backward_alone(const BackwardHead& head) {
  const auto nothing = [](Size) {};
  head.prepare();
  for (Size g = 0; g < head.of.group; g++) {
    head.prepare(g);
    for (Size j = 0; j < head.length; j += kTileKeys) head.column(g, j, nothing, nothing);
  }
  head.finish();
}

/** How far the columns of a long segment have come; on lines of their own. */
struct alignas(64) Progress { std::atomic<Size> rows; };
static thread_local Room<Progress> progress_room;
static thread_local Scratch wave_scratch;

/**
 * A long segment, column by column on several threads. Columns of one head add to the same dqueries, each row in the order of the columns: a column follows
 * the one before it and never overtakes. Columns are begun in order, so the one ahead is always under way.
 */
static void backward_wave(const BackwardShape& of, Size start, Size length, Queries own, Size kvHeads) {
  const Size tiles = (length + kTileKeys - 1) / kTileKeys, floats = round_up(BackwardHead::floats(of, length), 16), group = of.group;
  float* scratch = wave_scratch.need(kvHeads * floats);
  Progress* progress = progress_room.need(tiles * of.heads);
  for (Size i = 0; i < tiles * of.heads; i++) new (progress + i) Progress{{0}};
  const auto head_of = [&](Size h) { return BackwardHead(of, start, length, h, own, scratch + h * floats); };
  crew::share(kvHeads * (1 + group), [&](Size i) {
    const BackwardHead head = head_of(i / (1 + group));
    if (i % (1 + group) == 0) head.prepare();
    else head.prepare(i % (1 + group) - 1);
  });
  crew::share(tiles * kvHeads, [&](Size i) {
    const Size tile = i / kvHeads, h = i % kvHeads;
    const BackwardHead head = head_of(h);
    for (Size g = 0; g < group; g++) {
      std::atomic<Size>& mine = progress[tile * of.heads + h * group + g].rows;
      const std::atomic<Size>* ahead = tile == 0 ? nullptr : &progress[(tile - 1) * of.heads + h * group + g].rows;
      const auto ready = [&](Size end) {
        for (int turn = 0; ahead && ahead->load(std::memory_order_acquire) < end; turn++) crew::pause(turn);
      };
      const auto done = [&](Size end) { mine.store(end, std::memory_order_release); };
#if __wasm__
      head.column(g, tile * kTileKeys, ready, done);
#else
      try {
        head.column(g, tile * kTileKeys, ready, done);
      } catch (...) {
        // Those behind must not wait for ever; the caller hears of it.
        for (Size left = g; left < group; left++) progress[tile * of.heads + h * group + left].rows.store(length);
        throw;
      }
#endif
      done(length);
    }
  });
  crew::share(kvHeads, [&](Size h) { head_of(h).finish(); });
}

/** Keys of a segment that is worth several threads at once. */
constexpr Size kWaveLength = 512;

static void attention_backward(const BackwardShape& of, const int32_t* segments, Size count, Queries asked, Size kvHeads) {
  const bool alone = crew::spare() == 0;
  HeadPiece* pieces = piece_room.need(count * kvHeads);
  Size used = 0;
  for (Size s = 0; s < count; s++) {
    const Size start = segments[2 * s], length = segments[2 * s + 1];
    const Queries own = asked.take(start, length);
    if (!alone && length >= kWaveLength) backward_wave(of, start, length, own, kvHeads);
    else
      for (Size h = 0; h < kvHeads; h++) pieces[used++] = {start, length, h, 0, length, own};
  }
  crew::share(used, [&](Size i) {
    const HeadPiece& piece = pieces[i];
    float* scratch = segment_scratch.need(BackwardHead::floats(of, piece.length));
    backward_alone(BackwardHead(of, piece.start, piece.length, piece.head, piece.own, scratch));
  });
}

}  // namespace SACCADE_ISA
