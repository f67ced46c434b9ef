#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>

#include "engine/ops/simd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/ops/scan.cc"
#include "hwy/foreach_target.h"  // compiles this file once for each target

#include "engine/ops/scan.h"
#include "engine/ops/vector_math-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace heed {
namespace HWY_NAMESPACE {

using D = hn::CappedTag<float, 16>;
using V = hn::VFromD<D>;

// exp(x), at most 1, as exact as a number of the type can be.
template <class T>
HWY_INLINE V ExpFor(T*, V x) {
  const D d;
  const V exponent = hn::Min(x, hn::Zero(d));
  if constexpr (std::is_same_v<T, Bf16>) return ExpNonPositiveFast(d, exponent);
  return ExpNonPositive(d, exponent);
}

void EluPlusOne(const Rows& x, const Rows& y) {
  const D d;
  const V zero = hn::Zero(d), one = hn::Set(d, 1.0f);
  for (int64_t r = 0; r < x.rows; ++r) {
    WithRow(x, r, [&](const auto* from) HWY_ATTR {
      WithRow(y, r, [&](auto* to) HWY_ATTR {
        ForVectors(d, x.cols, [&](int64_t i, auto count) HWY_ATTR {
          const V v = Load(d, from + i, count);
          Store(d, hn::IfThenElse(hn::Gt(v, zero), hn::Add(v, one), ExpFor(to, v)), to + i, count);
        });
      });
    });
  }
}

void SquaredLengths(const Rows& x, float factor, float* sums) {
  const D d;
  for (int64_t r = 0; r < x.rows; ++r) {
    WithRow(x, r, [&](const auto* from) HWY_ATTR {
      sums[r] = factor * Sum(d, x.cols, [&](int64_t i, auto count) HWY_ATTR {
                  const V v = Load(d, from + i, count);
                  return hn::Mul(v, v);
                });
    });
  }
}

HWY_INLINE float Largest(const float* x, int64_t n) {
  const D d;
  const int64_t lanes = hn::Lanes(d);
  V a = hn::Set(d, std::numeric_limits<float>::lowest()), b = a;
  int64_t i = 0;
  for (; i + 2 * lanes <= n; i += 2 * lanes) {
    a = hn::Max(a, hn::LoadU(d, x + i));
    b = hn::Max(b, hn::LoadU(d, x + i + lanes));
  }
  ForVectors(d, n - i, [&](int64_t j, auto count) HWY_ATTR {
    a = hn::Max(a, OrLowest(d, Load(d, x + i + j, count), count));
  });
  return hn::ReduceMax(d, hn::Max(a, b));
}

void SoftmaxFeatures(Matrix<const float> projections, const float* halves, float floor, const Rows& y,
                     float* exponents) {
  const D d;
  const float least = floor > 0 ? std::log(floor) : std::numeric_limits<float>::lowest();
  for (int64_t r = 0; r < projections.rows; ++r) {
    const float* p = projections.row(r);
    exponents[r] = std::max(least, Largest(p, projections.cols) - halves[r]);
    const V less = hn::Set(d, halves[r] + exponents[r]);
    const V more = hn::Mul(hn::Set(d, floor), Exp(d, hn::Set(d, -exponents[r])));
    WithRow(y, r, [&](auto* to) HWY_ATTR {
      ForVectors(d, projections.cols, [&](int64_t i, auto count) HWY_ATTR {
        Store(d, hn::Add(ExpFor(to, hn::Sub(Load(d, p + i, count), less)), more), to + i, count);
      });
    });
  }
}

void ReluFeatures(Matrix<const float> projections, float floor, const Rows& y) {
  const D d;
  for (int64_t r = 0; r < projections.rows; ++r) {
    WithRow(y, r, [&](auto* to) HWY_ATTR {
      ForVectors(d, projections.cols, [&](int64_t i, auto count) HWY_ATTR {
        const V p = hn::Max(Load(d, projections.row(r) + i, count), hn::Zero(d));
        Store(d, hn::Add(p, hn::Set(d, floor)), to + i, count);
      });
    });
  }
}

void ExpAtMostOne(float* x, int64_t n) {
  const D d;
  ForVectors(d, n, [&](int64_t i, auto count) HWY_ATTR {
    Store(d, ExpFor(x, Load(d, x + i, count)), x + i, count);
  });
}

void ScaleRows(const Rows& x, const float* factors, const Rows& y) {
  const D d;
  for (int64_t r = 0; r < x.rows; ++r) {
    const V factor = hn::Set(d, factors[r]);
    WithRow(x, r, [&](const auto* from) HWY_ATTR {
      WithRow(y, r, [&](auto* to) HWY_ATTR {
        ForVectors(d, x.cols, [&](int64_t i, auto count) HWY_ATTR {
          Store(d, hn::Mul(Load(d, from + i, count), factor), to + i, count);
        });
      });
    });
  }
}

void ScaleByExponents(Matrix<float> weights, int64_t first, const float* columns, const float* rows) {
  const D d;
  for (int64_t r = 0; r < weights.rows; ++r) {
    const V row = hn::Set(d, rows[r]);
    float* w = weights.row(r);
    ForVectors(d, std::min(first + r + 1, weights.cols), [&](int64_t i, auto count) HWY_ATTR {
      const V share = ExpFor(w, hn::Sub(Load(d, columns + i, count), row));
      Store(d, hn::Mul(Load(d, w + i, count), share), w + i, count);
    });
  }
}

template <typename T>
HWY_INLINE float KeepFirst(const float* weights, int64_t kept, int64_t n, T* to) {
  const D d;
  const int64_t lanes = hn::Lanes(d);
  V sum = hn::Zero(d);
  for (int64_t c = 0; c < n; c += lanes) {
    V v = hn::Zero(d);
    if (c + lanes <= kept) {
      v = hn::LoadU(d, weights + c);
    } else if (c < kept) {
      v = hn::IfThenElseZero(hn::FirstN(d, kept - c), hn::LoadU(d, weights + c));
    }
    Store(d, v, to + c, All());
    sum = hn::Add(sum, Load(d, to + c, All()));  // rounded, so that the weights' shares add up to one
  }
  return hn::ReduceSum(d, sum);
}

void KeepCausal(Matrix<const float> weights, int64_t first, const Rows& kept, float* sums) {
  for (int64_t r = 0; r < weights.rows; ++r) {
    WithRow(kept, r, [&](auto* to) HWY_ATTR {
      sums[r] += KeepFirst(weights.row(r), first + r + 1, weights.cols, to);
    });
  }
}

void DotRows(const Rows& x, const float* y, float* sums) {
  const D d;
  for (int64_t r = 0; r < x.rows; ++r) {
    WithRow(x, r, [&](const auto* from) HWY_ATTR {
      sums[r] = Sum(d, x.cols, [&](int64_t i, auto count) HWY_ATTR {
        return hn::Mul(Load(d, from + i, count), Load(d, y + i, count));
      });
    });
  }
}

// Of kVectors vectors of columns from `from` on, the sums in registers meanwhile.
template <int kVectors, class T, class Count>
HWY_INLINE void SumColumns(Matrix<const T> x, const float* weights, Count count, float* sums) {
  const D d;
  constexpr int kLanes = hn::MaxLanes(D());
  V sum[kVectors];
#pragma GCC unroll 4
  for (int i = 0; i < kVectors; ++i) sum[i] = hn::Zero(d);
  for (int64_t r = 0; r < x.rows; ++r) {
    const V weight = hn::Set(d, weights == nullptr ? 1.0f : weights[r]);
#pragma GCC unroll 4
    for (int i = 0; i < kVectors; ++i)
      sum[i] = hn::MulAdd(Load(d, x.row(r) + i * kLanes, count), weight, sum[i]);
  }
#pragma GCC unroll 4
  for (int i = 0; i < kVectors; ++i) {
    float* to = sums + i * kLanes;
    Store(d, hn::Add(Load(d, to, count), sum[i]), to, count);
  }
}

template <class T>
HWY_INLINE void SumAllColumns(Matrix<const T> x, const float* weights, float* sums) {
  constexpr int64_t kLanes = hn::MaxLanes(D());
  int64_t c = 0;
  for (; c + 4 * kLanes <= x.cols; c += 4 * kLanes)
    SumColumns<4>(x.Cols(c, 4 * kLanes), weights, All(), sums + c);
  ForVectors(D(), x.cols - c, [&](int64_t i, auto count) HWY_ATTR {
    SumColumns<1>(x.Cols(c + i, kLanes), weights, count, sums + c + i);
  });
}

void AddColumnSums(const Rows& x, float* sums, const float* weights) {
  if (x.dtype == DType::kBf16) {
    SumAllColumns(x.As<const Bf16>(), weights, sums);
  } else {
    SumAllColumns(x.As<const float>(), weights, sums);
  }
}

void AddAndKeep(float share, Matrix<float> memory, float sum_share, Matrix<float> sum) {
  const D d;
  const V a = hn::Set(d, share), b = hn::Set(d, sum_share);
  for (int64_t r = 0; r < memory.rows; ++r) {
    float *m = memory.row(r), *s = sum.row(r);
    ForVectors(d, memory.cols, [&](int64_t i, auto count) HWY_ATTR {
      const V before = Load(d, m + i, count);
      Store(d, hn::MulAdd(a, before, hn::Mul(b, Load(d, s + i, count))), m + i, count);
      Store(d, before, s + i, count);
    });
  }
}

void DivideRows(Matrix<const float> x, const float* divisors, float eps, const Rows& y) {
  const D d;
  for (int64_t r = 0; r < x.rows; ++r) {
    const V share = hn::Set(d, 1 / (divisors[r] + eps));
    WithRow(y, r, [&](auto* to) HWY_ATTR {
      ForVectors(d, x.cols, [&](int64_t i, auto count) HWY_ATTR {
        Store(d, hn::Mul(Load(d, x.row(r) + i, count), share), to + i, count);
      });
    });
  }
}

// kVectors vectors of columns, their results in registers meanwhile.
template <int kVectors>
HWY_INLINE void StepColumns(const float* q, const float* k, const float* v, Matrix<float> memory,
                            float* out) {
  const D d;
  constexpr int kLanes = hn::MaxLanes(D());
  V value[kVectors], sum[kVectors];
#pragma GCC unroll 4
  for (int i = 0; i < kVectors; ++i) value[i] = hn::LoadU(d, v + i * kLanes), sum[i] = hn::Zero(d);
  for (int64_t f = 0; f < memory.rows; ++f) {
    const V key = hn::Set(d, k[f]), query = hn::Set(d, q[f]);
    float* row = memory.row(f);
#pragma GCC unroll 4
    for (int i = 0; i < kVectors; ++i) {
      const V updated = hn::MulAdd(key, value[i], hn::LoadU(d, row + i * kLanes));
      hn::StoreU(updated, d, row + i * kLanes);
      sum[i] = hn::MulAdd(query, updated, sum[i]);
    }
  }
#pragma GCC unroll 4
  for (int i = 0; i < kVectors; ++i) hn::StoreU(sum[i], d, out + i * kLanes);
}

void ScanStep(const float* q, const float* k, const float* v, Matrix<float> memory, float* out) {
  constexpr int64_t kLanes = hn::MaxLanes(D());
  int64_t c = 0;
  for (; c + 4 * kLanes <= memory.cols; c += 4 * kLanes) {
    StepColumns<4>(q, k, v + c, memory.Cols(c, 4 * kLanes), out + c);
  }
  for (; c < memory.cols; c += kLanes) StepColumns<1>(q, k, v + c, memory.Cols(c, kLanes), out + c);
}

void UnpackPairs(const void* pairs, int64_t ldb, const Rows& to) {
  const hn::ScalableTag<uint16_t> d;
  const int64_t lanes = hn::Lanes(d);
  for (int64_t r = 0; r < to.rows; r += 2) {
    const uint16_t* from = static_cast<const uint16_t*>(pairs) + r * ldb;
    auto* even = static_cast<uint16_t*>(to.at(r));
    auto* odd = static_cast<uint16_t*>(to.at(r + 1));
    int64_t c = 0;
    for (; c + lanes <= to.cols; c += lanes) {
      hn::VFromD<decltype(d)> a, b;
      hn::LoadInterleaved2(d, from + 2 * c, a, b);
      hn::StoreU(a, d, even + c);
      hn::StoreU(b, d, odd + c);
    }
    for (; c < to.cols; ++c) even[c] = from[2 * c], odd[c] = from[2 * c + 1];
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace heed
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace heed {

HWY_EXPORT(EluPlusOne);
HWY_EXPORT(SquaredLengths);
HWY_EXPORT(SoftmaxFeatures);
HWY_EXPORT(ReluFeatures);
HWY_EXPORT(ExpAtMostOne);
HWY_EXPORT(ScaleRows);
HWY_EXPORT(ScaleByExponents);
HWY_EXPORT(KeepCausal);
HWY_EXPORT(DotRows);
HWY_EXPORT(AddColumnSums);
HWY_EXPORT(AddAndKeep);
HWY_EXPORT(DivideRows);
HWY_EXPORT(ScanStep);
HWY_EXPORT(UnpackPairs);

void EluPlusOne(const Rows& x, const Rows& y) { HWY_DYNAMIC_DISPATCH(EluPlusOne)(x, y); }

void SquaredLengths(const Rows& x, float factor, float* sums) {
  HWY_DYNAMIC_DISPATCH(SquaredLengths)(x, factor, sums);
}

void SoftmaxFeatures(Matrix<const float> projections, const float* halves, float floor, const Rows& y,
                     float* exponents) {
  HWY_DYNAMIC_DISPATCH(SoftmaxFeatures)(projections, halves, floor, y, exponents);
}

void ReluFeatures(Matrix<const float> projections, float floor, const Rows& y) {
  HWY_DYNAMIC_DISPATCH(ReluFeatures)(projections, floor, y);
}

void ExpAtMostOne(float* x, int64_t n) { HWY_DYNAMIC_DISPATCH(ExpAtMostOne)(x, n); }

void ScaleRows(const Rows& x, const float* factors, const Rows& y) {
  HWY_DYNAMIC_DISPATCH(ScaleRows)(x, factors, y);
}

void ScaleByExponents(Matrix<float> weights, int64_t first, const float* columns, const float* rows) {
  HWY_DYNAMIC_DISPATCH(ScaleByExponents)(weights, first, columns, rows);
}

void KeepCausal(Matrix<const float> weights, int64_t first, const Rows& kept, float* sums) {
  HWY_DYNAMIC_DISPATCH(KeepCausal)(weights, first, kept, sums);
}

void DotRows(const Rows& x, const float* y, float* sums) { HWY_DYNAMIC_DISPATCH(DotRows)(x, y, sums); }

void AddColumnSums(const Rows& x, float* sums, const float* weights) {
  HWY_DYNAMIC_DISPATCH(AddColumnSums)(x, sums, weights);
}

void AddAndKeep(float share, Matrix<float> memory, float sum_share, Matrix<float> sum) {
  HWY_DYNAMIC_DISPATCH(AddAndKeep)(share, memory, sum_share, sum);
}

void DivideRows(Matrix<const float> x, const float* divisors, float eps, const Rows& y) {
  HWY_DYNAMIC_DISPATCH(DivideRows)(x, divisors, eps, y);
}

void ScanStep(const float* q, const float* k, const float* v, Matrix<float> memory, float* out) {
  HWY_DYNAMIC_DISPATCH(ScanStep)(q, k, v, memory, out);
}

void UnpackPairs(const void* pairs, int64_t ldb, const Rows& to) {
  HWY_DYNAMIC_DISPATCH(UnpackPairs)(pairs, ldb, to);
}

}  // namespace heed
#endif  // HWY_ONCE
