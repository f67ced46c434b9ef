#include "engine/ops/simd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/ops/sinkhorn.cc"
#include "hwy/foreach_target.h"  // compiles this file once for each target

#include <algorithm>
#include <cmath>
#include <limits>

#include "engine/ops/sinkhorn.h"
#include "engine/ops/vector_math-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace heed {
namespace HWY_NAMESPACE {

using D = hn::CappedTag<float, 16>;
using V = hn::VFromD<D>;

// A column's sum of weights at most 1 above this has lost nothing to the exponential's underflow at e^-86.
constexpr float kLeastSum = 1e-25f;
constexpr float kLowest = std::numeric_limits<float>::lowest();
// Between these scales, what an exponential below e^-86 is rounded to is no part of any sum: a row's is at
// least its largest weight, 1, times the least scale, and a column's, which is 1 over its next scale, is
// looked at.
constexpr float kLeastScale = 1e-10f, kLargestScale = 1e10f;

int64_t Length(const SinkhornScores& r, int64_t row) { return r.triangle ? row + 1 : std::ssize(r.rows); }

// Divides the row by its sum, of which it gives the logarithm, and adds what it then is to the columns' sums.
float BalanceRow(const float* r, int64_t n, const float* g, float* weights, float* sums) {
  const D d;
  V peaks = hn::Set(d, kLowest);
  ForVectors(d, n, [&](int64_t b, auto count) HWY_ATTR {
    const V score = hn::Sub(Load(d, r + b, count), Load(d, g + b, count));
    Store(d, score, weights + b, count);
    peaks = hn::Max(peaks, OrLowest(d, score, count));
  });
  const float peak = hn::ReduceMax(d, peaks);
  const float sum = Sum(d, n, [&](int64_t i, auto count) HWY_ATTR {
    const V weight = ExpNonPositive(d, hn::Sub(Load(d, weights + i, count), hn::Set(d, peak)));
    Store(d, weight, weights + i, count);
    return Only(d, weight, count);
  });
  const V share = hn::Set(d, 1 / sum);
  ForVectors(d, n, [&](int64_t i, auto count) HWY_ATTR {
    Store(d, hn::MulAdd(Load(d, weights + i, count), share, Load(d, sums + i, count)), sums + i, count);
  });
  return peak + std::log(sum);
}

// The columns anew, each relative to its largest number.
void BalanceColumns(const SinkhornScores& r, const float* f, float* g, float* sums) {
  const D d;
  const int64_t n = std::ssize(r.rows);
  std::fill_n(g, n, kLowest);
  std::fill_n(sums, n, 0.0f);
  for (int64_t a = 0; a < n; ++a) {
    ForVectors(d, Length(r, a), [&](int64_t b, auto count) HWY_ATTR {
      const V score = hn::Sub(Load(d, r.rows[a] + b, count), hn::Set(d, f[a]));
      Store(d, hn::Max(score, Load(d, g + b, count)), g + b, count);
    });
  }
  for (int64_t a = 0; a < n; ++a) {
    ForVectors(d, Length(r, a), [&](int64_t b, auto count) HWY_ATTR {
      const V score = hn::Sub(Load(d, r.rows[a] + b, count), hn::Set(d, f[a]));
      const V weight = ExpNonPositive(d, hn::Sub(score, Load(d, g + b, count)));
      Store(d, hn::Add(Load(d, sums + b, count), weight), sums + b, count);
    });
  }
  for (int64_t b = 0; b < n; ++b) g[b] += std::log(sums[b]);
}

// The iterations that scale weights, until one would leave the range of scales: how many. g is then what they
// left it, f too if these were all.
int BalanceByScales(const SinkhornScores& r, int iterations, float* f, float* g, float* work) {
  const D d;
  const int64_t n = std::ssize(r.rows);
  float *sums = work, *scales = work + n, *rows = work + 2 * n;
  std::fill_n(scales, n, 1.0f);
  int done = 0;
  for (; done < iterations; ++done) {
    std::fill_n(sums, n, 0.0f);
    for (int64_t a = 0; a < n; ++a) {
      const float* weights = r.exponentials[a];
      const int64_t length = Length(r, a);
      rows[a] = Sum(d, length, [&](int64_t b, auto count) HWY_ATTR {
        return Only(d, hn::Mul(Load(d, weights + b, count), Load(d, scales + b, count)), count);
      });
      const V scale = hn::Set(d, 1 / rows[a]);
      ForVectors(d, length, [&](int64_t b, auto count) HWY_ATTR {
        Store(d, hn::MulAdd(Load(d, weights + b, count), scale, Load(d, sums + b, count)), sums + b, count);
      });
    }
    const auto [least, largest] = std::minmax_element(sums, sums + n);
    if (!(*least > 1 / kLargestScale && *largest < 1 / kLeastScale)) break;  // or is no number
    for (int64_t b = 0; b < n; ++b) scales[b] = 1 / sums[b];
  }
  for (int64_t b = 0; b < n; ++b) {
    f[b] = done > 0 ? std::log(rows[b]) : 0;
    g[b] = -std::log(scales[b]);
  }
  return done;
}

void Balance(const SinkhornScores& r, int iterations, float* f, float* g, float* work) {
  const int64_t n = std::ssize(r.rows);
  float *sums = work, *weights = work + n;
  for (int i = BalanceByScales(r, iterations, f, g, work); i < iterations; ++i) {
    std::fill_n(sums, n, 0.0f);
    for (int64_t a = 0; a < n; ++a) f[a] = BalanceRow(r.rows[a], Length(r, a), g, weights, sums);
    if (*std::min_element(sums, sums + n) < kLeastSum) {
      BalanceColumns(r, f, g, sums);
    } else {
      for (int64_t b = 0; b < n; ++b) g[b] += std::log(sums[b]);
    }
  }
}

void BalancedRow(const float* r, int64_t n, float f, const float* g, float* weights) {
  const D d;
  ForVectors(d, n, [&](int64_t b, auto count) HWY_ATTR {
    const V score = hn::Sub(Load(d, r + b, count), hn::Add(hn::Set(d, f), Load(d, g + b, count)));
    Store(d, Exp(d, score), weights + b, count);
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace heed
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace heed {

HWY_EXPORT(Balance);
HWY_EXPORT(BalancedRow);

void Balance(const SinkhornScores& r, int iterations, float* f, float* g, float* work) {
  HWY_DYNAMIC_DISPATCH(Balance)(r, iterations, f, g, work);
}

void BalancedRow(const float* r, int64_t n, float f, const float* g, float* weights) {
  HWY_DYNAMIC_DISPATCH(BalancedRow)(r, n, f, g, weights);
}

}  // namespace heed
#endif  // HWY_ONCE
