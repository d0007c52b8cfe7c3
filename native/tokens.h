// Distributions over the vocabulary. Sampler and learner go through the same scan of a row, so a token's log-probability
// has the same bits in both. The logarithm is the C library's, in double, of the float sum.
#pragma once
#include "vec.h"

namespace SACCADE_ISA {

typedef uint8_t bytes8 __attribute__((vector_size(8)));

/** logit/temperature over 8 ids; −∞ for forbidden ones and for lanes past the end. */
INLINE v8 tempered(const float* logits, v8 by, const uint8_t* allowed, Size i, Size lanes) {
  i8x in = first_lanes(lanes);
  if (allowed) {
    bytes8 flags = {};
    if (lanes == 8) memcpy(&flags, allowed + i, 8);
    else for (Size l = 0; l < lanes; l++) flags[l] = allowed[i + l];
    in &= __builtin_convertvector(flags, i8x) != 0;
  }
  return select(in, load(logits + i, lanes) * by, splat(-INFINITY));
}

struct TokenRow { float by, max, sum, logSum; };

INLINE TokenRow scan_tokens(const float* logits, float temperature, const uint8_t* allowed, Size vocab) {
  TokenRow row;
  row.by = 1.0f / temperature;
  const v8 by = splat(row.by);
  v8 most = splat(-INFINITY);
  for_vectors(vocab, [&](Size i, Size lanes) { most = larger(most, tempered(logits, by, allowed, i, lanes)); });
  row.max = largest_lane(most);
  const v8 max = splat(row.max);
  row.sum = sum_row(vocab, [&](Size i, Size lanes) { return exponential(tempered(logits, by, allowed, i, lanes) - max); });
  row.logSum = static_cast<float>(log(static_cast<double>(row.sum)));
  return row;
}

static void log_softmax(float* out, const float* logits, const float* temperature, const uint8_t* allowed, Size rows, Size vocab) {
  for (Size r = 0; r < rows; r++, out += vocab, logits += vocab) {
    const TokenRow row = scan_tokens(logits, temperature[r], allowed, vocab);
    for_vectors(vocab, [&](Size i, Size lanes) {
      store(out + i, tempered(logits, splat(row.by), allowed, i, lanes) - splat(row.max) - splat(row.logSum), lanes);
    });
  }
}

static void token_logprobs(float* logprobs, float* entropy, float* lse, const float* logits, const int32_t* targets, const float* temperature,
                           const uint8_t* allowed, Size rows, Size vocab) {
  for (Size r = 0; r < rows; r++, logits += vocab) {
    logprobs[r] = entropy[r] = lse[2 * r] = lse[2 * r + 1] = 0.0f;
    const int32_t target = targets[r];
    if (target < 0) continue;
    const TokenRow row = scan_tokens(logits, temperature[r], allowed, vocab);
    lse[2 * r] = row.max;
    lse[2 * r + 1] = row.logSum;
    logprobs[r] = (allowed && !allowed[target] ? -INFINITY : logits[target] * row.by) - row.max - row.logSum;
    const float mean = sum_row(vocab, [&](Size i, Size lanes) {
      const v8 z = tempered(logits, splat(row.by), allowed, i, lanes) - splat(row.max), p = exponential(z);
      return keep(p > v8{}, p * z);  // 0·(−∞) is 0 here
    });
    entropy[r] = row.logSum - mean / row.sum;
  }
}

static void token_logprobs_backward(float* dlogits, const float* logits, const int32_t* targets, const float* temperature, const uint8_t* allowed,
                                    const float* lse, const float* entropy, const float* dlogprob, const float* dentropy, Size rows, Size vocab) {
  for (Size r = 0; r < rows; r++, logits += vocab, dlogits += vocab) {
    const int32_t target = targets[r];
    if (target < 0) {
      memset(dlogits, 0, vocab * sizeof(float));
      continue;
    }
    const float by = 1.0f / temperature[r];
    const v8 shift = splat(lse[2 * r]), logSum = splat(lse[2 * r + 1]), up = splat(dlogprob[r] * by), spread = splat(dentropy[r] * by);
    const v8 level = splat(entropy[r]);
    for_vectors(vocab, [&](Size i, Size lanes) {
      const v8 logp = tempered(logits, splat(by), allowed, i, lanes) - shift - logSum, p = exponential(logp);
      store(dlogits + i, keep(p > v8{}, -p * (up + spread * (logp + level))), lanes);
    });
    if (!allowed || allowed[target]) dlogits[target] += dlogprob[r] * by;
  }
}

}  // namespace SACCADE_ISA
