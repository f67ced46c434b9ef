// Rows of activations to int8. See Quantize in gemm.h.
#include "engine/ops/simd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/ops/quantize.cc"
#include "hwy/foreach_target.h"  // compiles this file once for each target

#include <cstring>
#include <type_traits>

#include "absl/log/check.h"
#include "engine/ops/gemm.h"
#include "engine/ops/vector_math-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace heed {
namespace HWY_NAMESPACE {

using D = hn::ScalableTag<float>;

// The largest magnitude; NaN if a number is not finite, so that such a row's products are NaN too. (0 * x is
// 0 or NaN.)
template <typename T>
float Magnitude(const T* x, int64_t n) {
  const D d;
  auto largest = hn::Zero(d), poison = largest;
  ForVectors(d, n, [&](int64_t i, auto count) {
    const auto v = Load(d, x + i, count);
    largest = hn::Max(largest, hn::Abs(v));
    poison = hn::MulAdd(v, hn::Zero(d), poison);
  });
  return hn::ReduceMax(d, largest) + hn::ReduceSum(d, poison);
}

template <typename T>
float QuantizeRow(const T* x, int64_t n, uint8_t* out) {
  const D d;
  const hn::Rebind<int32_t, D> di;
  const hn::Rebind<uint8_t, D> du8;
  const float magnitude = Magnitude(x, n);
  const auto factor = hn::Set(d, magnitude > 0 ? 127 / magnitude : 0);
  ForVectors(d, n, [&](int64_t i, auto count) {
    const auto whole = hn::NearestInt(hn::Mul(Load(d, x + i, count), factor));
    const auto shifted = hn::DemoteTo(du8, hn::Add(whole, hn::Set(di, 128)));
    if constexpr (std::is_same_v<decltype(count), First>) {
      hn::StoreN(shifted, du8, out + i, count.n);
    } else {
      hn::StoreU(shifted, du8, out + i);
    }
  });
  return magnitude / 127;
}

void QuantizeRows(const Rows& from, const Matrix<uint8_t>& to, float* scales) {
  for (int64_t r = 0; r < from.rows; ++r) {
    if (from.dtype == DType::kBf16) {
      scales[r] = QuantizeRow(static_cast<const Bf16*>(from.at(r)), from.cols, to.row(r));
    } else {
      scales[r] = QuantizeRow(static_cast<const float*>(from.at(r)), from.cols, to.row(r));
    }
    const int64_t padded = (from.cols + 63) / 64 * 64;
    std::memset(to.row(r) + from.cols, 128, padded - from.cols);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace heed
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace heed {

HWY_EXPORT(QuantizeRows);

void Quantize(Team& team, const Rows& from, const Rows& to, float* scales) {
  CHECK(to.dtype == DType::kU8 && to.rows >= from.rows && to.stride >= (from.cols + 63) / 64 * 64);
  const Range rows = team.Share(from.rows);
  HWY_DYNAMIC_DISPATCH(QuantizeRows)
  (from.Slice(rows.begin, rows.size()), to.Slice(rows.begin, rows.size()).As<uint8_t>(), scales + rows.begin);
}

}  // namespace heed
#endif  // HWY_ONCE
