#include <algorithm>
#include <cmath>
#include <limits>

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

// body(row) with the row as numbers of its type.
template <class Body>
HWY_INLINE void WithRow(const Rows& rows, int64_t r, Body&& body) {
  if (rows.dtype == DType::kBf16) {
    body(static_cast<Bf16*>(rows.at(r)));
  } else {
    body(static_cast<float*>(rows.at(r)));
  }
}

void EluPlusOne(const Rows& x, const Rows& y) {
  const D d;
  const V zero = hn::Zero(d), one = hn::Set(d, 1.0f);
  for (int64_t r = 0; r < x.rows; ++r) {
    WithRow(x, r, [&](const auto* from) HWY_ATTR {
      WithRow(y, r, [&](auto* to) HWY_ATTR {
        ForVectors(d, x.cols, [&](int64_t i, auto count) HWY_ATTR {
          const V v = Load(d, from + i, count);
          const V below = ExpNonPositive(d, hn::Min(v, zero));
          Store(d, hn::IfThenElse(hn::Gt(v, zero), hn::Add(v, one), below), to + i, count);
        });
      });
    });
  }
}

void SoftmaxFeatures(Matrix<const float> projections, const float* halves, float floor, const Rows& y,
                     float* exponents) {
  const D d;
  const float least = floor > 0 ? std::log(floor) : std::numeric_limits<float>::lowest();
  for (int64_t r = 0; r < projections.rows; ++r) {
    const float* p = projections.row(r);
    exponents[r] = std::max(least, *std::max_element(p, p + projections.cols) - halves[r]);
    const V less = hn::Set(d, halves[r] + exponents[r]), more = hn::Set(d, floor * std::exp(-exponents[r]));
    WithRow(y, r, [&](auto* to) HWY_ATTR {
      ForVectors(d, projections.cols, [&](int64_t i, auto count) HWY_ATTR {
        const V exponent = hn::Min(hn::Sub(Load(d, p + i, count), less), hn::Zero(d));
        Store(d, hn::Add(ExpNonPositive(d, exponent), more), to + i, count);
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

void ScaleByExponents(Matrix<float> weights, const float* columns, int64_t count, const float* rows) {
  const D d;
  for (int64_t r = 0; r < weights.rows; ++r) {
    const V row = hn::Set(d, rows[r]);
    float* w = weights.row(r);
    ForVectors(d, count, [&](int64_t i, auto some) HWY_ATTR {
      const V exponent = hn::Min(hn::Sub(Load(d, columns + i, some), row), hn::Zero(d));
      Store(d, hn::Mul(Load(d, w + i, some), ExpNonPositive(d, exponent)), w + i, some);
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

void AddColumnSums(const Rows& x, float* sums) {
  const D d;
  ForVectors(d, x.cols, [&](int64_t i, auto count) HWY_ATTR {
    V sum = hn::Zero(d);
    for (int64_t r = 0; r < x.rows; ++r) {
      WithRow(x, r, [&](const auto* from) HWY_ATTR { sum = hn::Add(sum, Load(d, from + i, count)); });
    }
    Store(d, hn::Add(Load(d, sums + i, count), sum), sums + i, count);
  });
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
HWY_EXPORT(SoftmaxFeatures);
HWY_EXPORT(ReluFeatures);
HWY_EXPORT(ScaleByExponents);
HWY_EXPORT(KeepCausal);
HWY_EXPORT(DotRows);
HWY_EXPORT(AddColumnSums);
HWY_EXPORT(DivideRows);
HWY_EXPORT(ScanStep);
HWY_EXPORT(UnpackPairs);

void EluPlusOne(const Rows& x, const Rows& y) { HWY_DYNAMIC_DISPATCH(EluPlusOne)(x, y); }

void SoftmaxFeatures(Matrix<const float> projections, const float* halves, float floor, const Rows& y,
                     float* exponents) {
  HWY_DYNAMIC_DISPATCH(SoftmaxFeatures)(projections, halves, floor, y, exponents);
}

void ReluFeatures(Matrix<const float> projections, float floor, const Rows& y) {
  HWY_DYNAMIC_DISPATCH(ReluFeatures)(projections, floor, y);
}

void ScaleByExponents(Matrix<float> weights, const float* columns, int64_t count, const float* rows) {
  HWY_DYNAMIC_DISPATCH(ScaleByExponents)(weights, columns, count, rows);
}

void KeepCausal(Matrix<const float> weights, int64_t first, const Rows& kept, float* sums) {
  HWY_DYNAMIC_DISPATCH(KeepCausal)(weights, first, kept, sums);
}

void DotRows(const Rows& x, const float* y, float* sums) { HWY_DYNAMIC_DISPATCH(DotRows)(x, y, sums); }

void AddColumnSums(const Rows& x, float* sums) { HWY_DYNAMIC_DISPATCH(AddColumnSums)(x, sums); }

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
