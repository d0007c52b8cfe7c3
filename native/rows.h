// Everything that works row by row or element by element: norms, activations, rotary positions, gathers, sums, AdamW.
// Reductions run over lanes counted from the start of the row, so a row's bits do not depend on its neighbours.
#pragma once
#include "vec.h"

namespace SACCADE_ISA {

INLINE void put(float* at, v8 x, Size lanes, bool accumulate) { store(at, accumulate ? load(at, lanes) + x : x, lanes); }

static void rms_norm(float* out, float* inv, const float* x, const float* w, Size rows, Size dim, double eps) {
  for (Size r = 0; r < rows; r++, x += dim, out += dim) {
    const float squares = sum_row(dim, [&](Size i, Size lanes) { const v8 a = load(x + i, lanes); return a * a; });
    const float by = inv[r] = static_cast<float>(1.0 / sqrt(static_cast<double>(squares) / static_cast<double>(dim) + eps));
    for_vectors(dim, [&](Size i, Size lanes) { store(out + i, load(x + i, lanes) * splat(by) * load(w + i, lanes), lanes); });
  }
}

static void rms_norm_backward(float* dx, float* dw, const float* dy, const float* x, const float* w, const float* inv, Size rows, Size dim,
                              bool accumulate) {
  for (Size r = 0; r < rows; r++, x += dim, dx += dim, dy += dim) {
    const float dot = sum_row(dim, [&](Size i, Size lanes) { return load(dy + i, lanes) * load(w + i, lanes) * load(x + i, lanes); });
    const v8 by = splat(inv[r]), pull = splat(dot * inv[r] * inv[r] * inv[r] / static_cast<float>(dim));
    for_vectors(dim, [&](Size i, Size lanes) {
      const v8 g = load(dy + i, lanes), a = load(x + i, lanes);
      store(dw + i, load(dw + i, lanes) + g * a * by, lanes);
      put(dx + i, g * load(w + i, lanes) * by - a * pull, lanes, accumulate);
    });
  }
}

static void layer_norm(float* out, float* mean, float* inv, const float* x, const float* w, const float* b, Size rows, Size dim, double eps) {
  for (Size r = 0; r < rows; r++, x += dim, out += dim) {
    const float sum = sum_row(dim, [&](Size i, Size lanes) { return load(x + i, lanes); });
    const float middle = mean[r] = sum / static_cast<float>(dim);
    const float squares = sum_row(dim, [&](Size i, Size lanes) {
      const v8 a = keep(first_lanes(lanes), load(x + i, lanes) - splat(middle));
      return a * a;
    });
    const float by = inv[r] = static_cast<float>(1.0 / sqrt(static_cast<double>(squares) / static_cast<double>(dim) + eps));
    for_vectors(dim, [&](Size i, Size lanes) {
      store(out + i, (load(x + i, lanes) - splat(middle)) * splat(by) * load(w + i, lanes) + load(b + i, lanes), lanes);
    });
  }
}

static void layer_norm_backward(float* dx, float* dw, float* db, const float* dy, const float* x, const float* w, const float* mean,
                                const float* inv, Size rows, Size dim, bool accumulate) {
  for (Size r = 0; r < rows; r++, x += dim, dx += dim, dy += dim) {
    const v8 middle = splat(mean[r]), by = splat(inv[r]);
    const float sum = sum_row(dim, [&](Size i, Size lanes) { return load(dy + i, lanes) * load(w + i, lanes); });
    const float dot = sum_row(dim, [&](Size i, Size lanes) {
      return load(dy + i, lanes) * load(w + i, lanes) * ((load(x + i, lanes) - middle) * by);
    });
    const v8 level = splat(sum / static_cast<float>(dim)), pull = splat(dot / static_cast<float>(dim));
    for_vectors(dim, [&](Size i, Size lanes) {
      const v8 g = load(dy + i, lanes), hat = (load(x + i, lanes) - middle) * by;
      store(dw + i, load(dw + i, lanes) + g * hat, lanes);
      store(db + i, load(db + i, lanes) + g, lanes);
      put(dx + i, (g * load(w + i, lanes) - level - hat * pull) * by, lanes, accumulate);
    });
  }
}

static void rope(float* x, Size ldx, const float* cosine, const float* sine, Size rows, Size heads, Size dim, bool inverse) {
  const Size half = dim / 2;
  const v8 sign = splat(inverse ? -1.0f : 1.0f);
  for (Size r = 0; r < rows; r++)
    for (Size h = 0; h < heads; h++) {
      float* at = x + r * ldx + h * dim;
      for_vectors(half, [&](Size i, Size lanes) {
        const v8 c = load(cosine + r * half + i, lanes), s = load(sine + r * half + i, lanes) * sign;
        const v8 a = load(at + i, lanes), b = load(at + half + i, lanes);
        store(at + i, a * c - b * s, lanes);
        store(at + half + i, b * c + a * s, lanes);
      });
    }
}

static void silu_mul(float* out, const float* gate, const float* up, Size n) {
  for_vectors(n, [&](Size i, Size lanes) {
    const v8 g = load(gate + i, lanes);
    store(out + i, g * sigmoid(g) * load(up + i, lanes), lanes);
  });
}

static void silu_mul_backward(float* dgate, float* dup, const float* dout, const float* gate, const float* up, Size n) {
  for_vectors(n, [&](Size i, Size lanes) {
    const v8 g = load(gate + i, lanes), d = load(dout + i, lanes), u = load(up + i, lanes), s = sigmoid(g);
    store(dgate + i, d * u * (s * (splat(1.0f) + g * (splat(1.0f) - s))), lanes);
    store(dup + i, d * (g * s), lanes);
  });
}

/** The share of x that passes (tanh(…)/2 + 1/2 is a sigmoid), and with `slope` the derivative of x·share. */
INLINE v8 gelu_share(v8 x, bool tanh, v8* slope) {
  const v8 one = splat(1.0f);
  if (tanh) {
    const float a = 1.5957691216f, b = 0.044715f * a;  // a = 2·sqrt(2/π)
    const v8 square = x * x, share = sigmoid(x * (splat(a) + splat(b) * square));
    if (slope) *slope = share + x * share * (one - share) * (splat(a) + splat(3 * b) * square);
    return share;
  }
  v8 bell;
  const v8 share = normal_cdf(x, &bell);
  if (slope) *slope = share + x * bell * splat(0.39894228f);
  return share;
}

static void gelu(float* out, const float* x, Size n, bool tanh) {
  for_vectors(n, [&](Size i, Size lanes) { const v8 a = load(x + i, lanes); store(out + i, a * gelu_share(a, tanh, nullptr), lanes); });
}

static void gelu_backward(float* dx, const float* dy, const float* x, Size n, bool tanh) {
  for_vectors(n, [&](Size i, Size lanes) {
    v8 slope;
    gelu_share(load(x + i, lanes), tanh, &slope);
    store(dx + i, load(dy + i, lanes) * slope, lanes);
  });
}

static void mix_rows(float* out, const float* table, const int32_t* ids, const float* weights, Size rows, Size taps, Size dim, bool accumulate) {
  for (Size r = 0; r < rows; r++, ids += taps, weights += taps, out += dim)
    for_vectors(dim, [&](Size i, Size lanes) {
      v8 sum = accumulate ? load(out + i, lanes) : v8{};
      for (Size t = 0; t < taps; t++) sum += splat(weights[t]) * load(table + ids[t] * dim + i, lanes);
      store(out + i, sum, lanes);
    });
}

static void axpy(float* y, float a, const float* x, Size n) {
  for_vectors(n, [&](Size i, Size lanes) { store(y + i, load(y + i, lanes) + splat(a) * load(x + i, lanes), lanes); });
}

static void sum_rows(float* sums, const float* x, Size rows, Size dim) {
  Size i = 0;
  for (; i + 32 <= dim; i += 32) {  // two cache lines of every row at a time
    v8 sum[4];
    for (int c = 0; c < 4; c++) sum[c] = load(sums + i + 8 * c);
    for (Size r = 0; r < rows; r++)
      for (int c = 0; c < 4; c++) sum[c] += load(x + r * dim + i + 8 * c);
    for (int c = 0; c < 4; c++) store(sums + i + 8 * c, sum[c]);
  }
  for (; i < dim; i += 8) {
    v8 sum = load(sums + i, dim - i);
    for (Size r = 0; r < rows; r++) sum += load(x + r * dim + i, dim - i);
    store(sums + i, sum, dim - i);
  }
}

static double sum_squares(const float* x, Size n) {
  d8 sum = {};
  for_vectors(n, [&](Size i, Size lanes) {
    const d8 a = __builtin_convertvector(load(x + i, lanes), d8);
    sum += a * a;
  });
  return ((sum[0] + sum[4]) + (sum[2] + sum[6])) + ((sum[1] + sum[5]) + (sum[3] + sum[7]));
}

static void adamw(float* p, const float* g, float* m, float* v, Size n, double lr, double beta1, double beta2, double eps, double decay,
                  double correction1, double correction2, double gradScale) {
  const v8 keep1 = splat(static_cast<float>(beta1)), add1 = splat(static_cast<float>(1 - beta1));
  const v8 keep2 = splat(static_cast<float>(beta2)), add2 = splat(static_cast<float>(1 - beta2));
  const v8 shrink = splat(static_cast<float>(1 - lr * decay)), rate = splat(static_cast<float>(lr / correction1));
  const v8 root = splat(static_cast<float>(1 / sqrt(correction2))), least = splat(static_cast<float>(eps));
  const v8 by = splat(static_cast<float>(gradScale));
  for_vectors(n, [&](Size i, Size lanes) {
    const v8 grad = load(g + i, lanes) * by;
    const v8 first = keep1 * load(m + i, lanes) + add1 * grad, second = keep2 * load(v + i, lanes) + add2 * (grad * grad);
    store(m + i, first, lanes);
    store(v + i, second, lanes);
    store(p + i, load(p + i, lanes) * shrink - rate * first / (square_root(second) * root + least), lanes);
  });
}

}  // namespace SACCADE_ISA
