#include "engine/ops/simd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/ops/gather.cc"
#include "hwy/foreach_target.h"  // compiles this file once for each target

#include <algorithm>

#include "engine/ops/gather.h"
#include "engine/ops/vector_math-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace heed {
namespace HWY_NAMESPACE {

// Of rows to come that are on their way: as much as arrives while memory is waited for.
constexpr int64_t kAheadBytes = 4096;
constexpr int64_t kLine = 64;

template <typename T>
void AddRows(const Matrix<const T>& table, std::span<const int32_t> rows, const float* weights, float* y) {
  const hn::CappedTag<float, 16> d;
  const int64_t count = std::ssize(rows), bytes = table.cols * static_cast<int64_t>(sizeof(T));
  const auto fetch = [&](int64_t i) {
    const auto* row = reinterpret_cast<const char*>(table.row(rows[i]));
    for (int64_t at = 0; at < bytes; at += kLine) __builtin_prefetch(row + at);
  };
  const int64_t ahead = std::min(count, std::max<int64_t>(1, kAheadBytes / std::max<int64_t>(1, bytes)));
  for (int64_t i = 0; i < ahead; ++i) fetch(i);
  for (int64_t i = 0; i < count; ++i) {
    if (i + ahead < count) fetch(i + ahead);
    const T* row = table.row(rows[i]);
    const auto weight = hn::Set(d, weights[i]);
    ForVectors(d, table.cols, [&](int64_t c, auto columns) HWY_ATTR {
      Store(d, hn::MulAdd(weight, Load(d, row + c, columns), Load(d, y + c, columns)), y + c, columns);
    });
  }
}

void AddWeightedRows(const Rows& table, std::span<const int32_t> rows, const float* weights, float* y) {
  if (table.dtype == DType::kBf16) {
    AddRows<Bf16>(table.As<Bf16>(), rows, weights, y);
  } else {
    AddRows<float>(table.As<float>(), rows, weights, y);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace heed
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace heed {

HWY_EXPORT(AddWeightedRows);

void AddWeightedRows(const Rows& table, std::span<const int32_t> rows, const float* weights, float* y) {
  HWY_DYNAMIC_DISPATCH(AddWeightedRows)(table, rows, weights, y);
}

}  // namespace heed
#endif  // HWY_ONCE
