#include "engine/ops/softmax.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "engine/ops/rows.h"
#include "engine/ops/simd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/ops/softmax.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace heed {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using D = hn::CappedTag<float, kSoftmaxPiece / 2>;
using V = hn::VFromD<D>;
using Mask = hn::MFromD<D>;

// 2^x for x <= 0; at least 2^-126, so that masking, not smallness, makes a zero. Adding 1.5 * 2^23 rounds x
// to a whole number and leaves it in the low bits, from where it is shifted to the exponent. NaN stays NaN.
// Errors: 1e-7 with five coefficients, 1e-4 with three: enough where the result becomes bf16.
template <size_t N>
HWY_INLINE V PowerOfTwo(D d, V x, const float (&c)[N]) {
  const V kRound = hn::Set(d, 12582912.0f);
  x = hn::Max(hn::Set(d, -126.0f), x);
  const V shifted = hn::Add(x, kRound);
  const V r = hn::Sub(x, hn::Sub(shifted, kRound));
  V y = hn::Set(d, c[N - 1]);
  for (int i = static_cast<int>(N) - 2; i >= 0; --i) y = hn::MulAdd(y, r, hn::Set(d, c[i]));
  y = hn::MulAdd(y, r, hn::Set(d, 1.0f));
  const hn::RebindToSigned<D> di;
  return hn::BitCast(d, hn::Add(hn::BitCast(di, y), hn::ShiftLeft<23>(hn::BitCast(di, shifted))));
}

constexpr float kExact[] = {0.693146978f, 0.240222421f, 0.0555073373f, 0.00967151265f, 0.00132647272f};
constexpr float kCoarse[] = {0.693282927f, 0.242210959f, 0.0550089305f};

HWY_INLINE V Power(D d, V x, float*) { return PowerOfTwo(d, x, kExact); }
HWY_INLINE V Power(D d, V x, hwy::bfloat16_t*) { return PowerOfTwo(d, x, kCoarse); }

HWY_INLINE void StorePair(D d, V a, V b, float* p) {
  hn::StoreU(a, d, p);
  hn::StoreU(b, d, p + hn::Lanes(d));
}
HWY_INLINE void StorePair(D, V a, V b, hwy::bfloat16_t* p) {
  const hn::Repartition<hwy::bfloat16_t, D> d16;
  hn::StoreU(hn::OrderedDemote2To(d16, a, b), d16, p);
}

// Of the vector that begins at `column`, the lanes the row sees.
HWY_INLINE Mask Seen(D d, const SoftmaxRow& row, int column) {
  const hn::RebindToSigned<D> di;
  const auto lane = hn::Iota(di, column);
  return hn::RebindMask(d, hn::And(hn::Ge(lane, hn::Set(di, row.begin)), hn::Lt(lane, hn::Set(di, row.end))));
}

// Calls f(column, inside) for each vector that has a column the row sees; inside: it sees all of them.
template <class F>
HWY_INLINE void ForSeen(D d, const SoftmaxRow& row, const F& f) {
  const int n = static_cast<int>(hn::Lanes(d));
  int column = row.begin / n * n;
  if (column < row.begin) {
    f(column, false);
    column += n;
  }
  for (; column + n <= row.end; column += n) f(column, true);
  if (column < row.end) f(column, false);
}

// The largest score the row sees, scaled.
HWY_INLINE float Largest(D d, const SoftmaxRow& row, const float* scores, float factor) {
  const V lowest = hn::Set(d, std::numeric_limits<float>::lowest());
  V max = lowest;
  ForSeen(d, row, [&](int column, bool inside) HWY_ATTR {
    const V score = hn::LoadU(d, scores + column);
    max = hn::Max(max, inside ? score : hn::IfThenElse(Seen(d, row, column), score, lowest));
  });
  return hn::ReduceMax(d, max) * factor;
}

// The same with biases; the scores become scaled and biased.
HWY_INLINE float LargestBiased(D d, const SoftmaxRow& row, float* scores, float factor) {
  const V lowest = hn::Set(d, std::numeric_limits<float>::lowest());
  const V scale = hn::Set(d, factor), offset = hn::Set(d, row.bias_offset);
  V max = lowest;
  ForSeen(d, row, [&](int column, bool inside) HWY_ATTR {
    const V bias = hn::Add(hn::LoadU(d, row.bias + column), offset);
    const V score = hn::MulAdd(hn::LoadU(d, scores + column), scale, bias);
    hn::StoreU(score, d, scores + column);
    max = hn::Max(max, inside ? score : hn::IfThenElse(Seen(d, row, column), score, lowest));
  });
  return hn::ReduceMax(d, max);
}

// p = 2^(score * factor - row.max) for all columns of the block, 0 where the row sees nothing; returns their
// sum.
template <typename T>
HWY_INLINE float Weigh(D d, const SoftmaxBlock& block, const SoftmaxRow& row, const float* scores,
                       float factor, T* p) {
  const int n = static_cast<int>(hn::Lanes(d));
  const V scale = hn::Set(d, factor), minus_max = hn::Set(d, -row.max);
  const V zero = hn::Zero(d);
  V sum_a = zero, sum_b = zero;
  for (int column = block.begin; column < block.end; column += 2 * n) {
    V a = zero, b = zero;
    if (column + 2 * n > row.begin && column < row.end) {
      a = Power(d, hn::MulAdd(hn::LoadU(d, scores + column), scale, minus_max), p);
      b = Power(d, hn::MulAdd(hn::LoadU(d, scores + column + n), scale, minus_max), p);
      if (column < row.begin || column + 2 * n > row.end) {
        a = hn::IfThenElseZero(Seen(d, row, column), a);
        b = hn::IfThenElseZero(Seen(d, row, column + n), b);
      }
      sum_a = hn::Add(sum_a, a);
      sum_b = hn::Add(sum_b, b);
    }
    StorePair(d, a, b, p + column);
  }
  return hn::ReduceSum(d, hn::Add(sum_a, sum_b));
}

HWY_INLINE V LoadWeights(D d, const float* p) { return hn::LoadU(d, p); }
HWY_INLINE V LoadWeights(D d, const hwy::bfloat16_t* p) {
  const hn::Rebind<hwy::bfloat16_t, D> d16;
  return hn::PromoteTo(d, hn::LoadU(d16, p));
}

template <typename T>
HWY_INLINE float SumSeen(D d, const SoftmaxRow& row, const T* p) {
  V sum = hn::Zero(d);
  ForSeen(d, row, [&](int column, bool inside) HWY_ATTR {
    const V weights = LoadWeights(d, p + column);
    sum = hn::Add(sum, inside ? weights : hn::IfThenElseZero(Seen(d, row, column), weights));
  });
  return hn::ReduceSum(d, sum);
}

HWY_INLINE void RaiseMax(D d, float max, SoftmaxRow& row, float* result, int64_t n) {
  const V shrink = PowerOfTwo(d, hn::Set(d, row.max - max), kExact);
  row.max = max;
  row.sum *= hn::GetLane(shrink);
  for (int64_t i = 0; i < n; i += hn::Lanes(d)) {
    hn::StoreU(hn::Mul(hn::LoadU(d, result + i), shrink), d, result + i);
  }
}

template <typename T>
HWY_INLINE void StepRow(D d, const SoftmaxBlock& block, SoftmaxRow& row, float* scores, T* p, float* result,
                        int64_t n) {
  if (row.begin < row.end) {
    const float max = row.bias != nullptr ? LargestBiased(d, row, scores, block.factor)
                                          : Largest(d, row, scores, block.factor);
    if (!(max <= row.max)) RaiseMax(d, max, row, result, n);
  }
  row.sum += Weigh(d, block, row, scores, row.bias != nullptr ? 1.0f : block.factor, p);
}

void SoftmaxStep(const SoftmaxBlock& block, std::span<SoftmaxRow> rows, Matrix<float> result) {
  const D d;
  for (size_t r = 0; r < rows.size(); ++r) {
    float* scores = block.scores.row(r);
    if (block.weights.dtype == DType::kF32) {
      StepRow(d, block, rows[r], scores, static_cast<float*>(block.weights.at(r)), result.row(r),
              result.cols);
    } else {
      StepRow(d, block, rows[r], scores, static_cast<hwy::bfloat16_t*>(block.weights.at(r)), result.row(r),
              result.cols);
    }
  }
}

void SoftmaxFinish(const SoftmaxRow& row, const float* result, int64_t n, DType type, void* out) {
  const D d;
  const hn::Rebind<hwy::bfloat16_t, D> d16;
  const V share = hn::Set(d, row.sum != 0 ? 1 / row.sum : 0);
  const int64_t lanes = hn::Lanes(d);
  for (int64_t i = 0; i < n; i += lanes) {
    // + 0 makes -0 a 0: a block of zeros may or may not have been added to it.
    const V y = hn::MulAdd(hn::LoadU(d, result + i), share, hn::Zero(d));
    const size_t count = std::min(lanes, n - i);
    if (type == DType::kF32) {
      hn::StoreN(y, d, static_cast<float*>(out) + i, count);
    } else {
      hn::StoreN(hn::DemoteTo(d16, y), d16, static_cast<hwy::bfloat16_t*>(out) + i, count);
    }
  }
}

float SumWeights(const Rows& weights, int64_t r, int begin, int end) {
  const D d;
  const SoftmaxRow row{.begin = begin, .end = end};
  return weights.dtype == DType::kF32 ? SumSeen(d, row, static_cast<const float*>(weights.at(r)))
                                      : SumSeen(d, row, static_cast<const hwy::bfloat16_t*>(weights.at(r)));
}

}  // namespace HWY_NAMESPACE
}  // namespace heed
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace heed {

HWY_EXPORT(SoftmaxStep);
HWY_EXPORT(SoftmaxFinish);
HWY_EXPORT(SumWeights);

void SoftmaxStep(const SoftmaxBlock& block, std::span<SoftmaxRow> rows, Matrix<float> result) {
  HWY_DYNAMIC_DISPATCH(SoftmaxStep)(block, rows, result);
}

void SoftmaxFinish(const SoftmaxRow& row, const float* result, int64_t n, DType type, void* out) {
  HWY_DYNAMIC_DISPATCH(SoftmaxFinish)(row, result, n, type, out);
}

float SumWeights(const Rows& weights, int64_t row, int begin, int end) {
  return HWY_DYNAMIC_DISPATCH(SumWeights)(weights, row, begin, end);
}

float LogSumExp(const SoftmaxRow& row) { return (row.max + std::log2(row.sum)) / kLog2E; }

void SoftmaxMerge(const SoftmaxRow& row, const float* result, int64_t n, DType type, void* out, float& lse) {
  if (row.sum == 0) return;
  if (lse == -std::numeric_limits<float>::infinity()) {
    lse = LogSumExp(row);
    return SoftmaxFinish(row, result, n, type, out);
  }
  const float other = lse * kLog2E, most = std::max(other, row.max);
  const float kept = std::exp2(other - most), added = std::exp2(row.max - most);
  const float total = kept + added * row.sum;
  AddShares(added / total, {result, 1, n, n}, kept / total, {type, out, 1, n, n});
  lse = (most + std::log2(total)) / kLog2E;
}

}  // namespace heed
#endif
