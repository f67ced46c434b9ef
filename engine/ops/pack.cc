#include "engine/ops/pack.h"

#include <algorithm>
#include <cstring>

#include "engine/ops/simd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/ops/pack.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace heed {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// Words of 32 bits: a float or a pair of bf16. row(r) and column k of the words become b[k][r].
struct Words {
  const char* data;
  int64_t row_bytes;
  const char* at(int64_t row, int64_t k) const { return data + row * row_bytes + k * 4; }
};

HWY_INLINE void Transpose4x4(const Words& words, int64_t row, int64_t k, int64_t ldb, uint32_t* b) {
  const hn::FixedTag<uint32_t, 4> d;
  const hn::FixedTag<uint64_t, 2> d64;
  const auto load = [&](int64_t r) HWY_ATTR {
    return hn::LoadU(d, reinterpret_cast<const uint32_t*>(words.at(row + r, k)));
  };
  const auto r0 = load(0), r1 = load(1), r2 = load(2), r3 = load(3);
  const auto low01 = hn::BitCast(d64, hn::InterleaveLower(d, r0, r1));
  const auto low23 = hn::BitCast(d64, hn::InterleaveLower(d, r2, r3));
  const auto high01 = hn::BitCast(d64, hn::InterleaveUpper(d, r0, r1));
  const auto high23 = hn::BitCast(d64, hn::InterleaveUpper(d, r2, r3));
  hn::StoreU(hn::BitCast(d, hn::InterleaveLower(d64, low01, low23)), d, b);
  hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(d64, low01, low23)), d, b + ldb);
  hn::StoreU(hn::BitCast(d, hn::InterleaveLower(d64, high01, high23)), d, b + 2 * ldb);
  hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(d64, high01, high23)), d, b + 3 * ldb);
}

// Sixteen rows at a time, so that whole cache lines of b are written.
void Transpose(const char* data, int64_t row_bytes, int64_t rows, int64_t columns, int64_t ldb, uint32_t* b) {
  const Words words{data, row_bytes};
  const int64_t whole_rows = rows / 4 * 4, whole_columns = columns / 4 * 4;
  for (int64_t group = 0; group < whole_rows; group += 16) {
    for (int64_t k = 0; k < whole_columns; k += 4) {
      for (int64_t r = group; r < std::min(group + 16, whole_rows); r += 4) {
        Transpose4x4(words, r, k, ldb, b + k * ldb + r);
      }
    }
  }
  for (int64_t k = 0; k < columns; ++k) {
    for (int64_t r = k < whole_columns ? whole_rows : 0; r < rows; ++r)
      std::memcpy(b + k * ldb + r, words.at(r, k), 4);
  }
}

// Two rows of bf16 side by side.
void Interleave(const Bf16* even, const Bf16* odd, int64_t n, uint16_t* b) {
  const hn::ScalableTag<uint16_t> d;
  const auto* x = reinterpret_cast<const uint16_t*>(even);
  const auto* y = reinterpret_cast<const uint16_t*>(odd);
  const int64_t lanes = hn::Lanes(d);
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    const auto a = hn::LoadU(d, x + i), c = hn::LoadU(d, y + i);
    hn::StoreU(hn::InterleaveWholeLower(d, a, c), d, b + 2 * i);
    hn::StoreU(hn::InterleaveWholeUpper(d, a, c), d, b + 2 * i + lanes);
  }
  for (; i < n; ++i) b[2 * i] = x[i], b[2 * i + 1] = y[i];
}

}  // namespace HWY_NAMESPACE
}  // namespace heed
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace heed {
namespace {

HWY_EXPORT(Transpose);
HWY_EXPORT(Interleave);

// One row of bf16 into every other place.
void Scatter(const Bf16* row, int64_t n, int64_t ldb, Bf16* b) {
  for (int64_t i = 0; i < n; ++i) b[2 * i] = row[i];
  for (int64_t i = n; i < ldb; ++i) b[2 * i] = Bf16{0};
}

void PackBf16Rows(Matrix<const Bf16> rows, int64_t first, int64_t ldb, Bf16* b) {
  int64_t r = 0;
  if (first % 2 == 1 && rows.rows > 0) Scatter(rows.row(r++), rows.cols, ldb, b + first / 2 * 2 * ldb + 1);
  for (; r + 1 < rows.rows; r += 2) {
    Bf16* to = b + (first + r) * ldb;
    HWY_DYNAMIC_DISPATCH(Interleave)(rows.row(r), rows.row(r + 1), rows.cols,
                                     reinterpret_cast<uint16_t*>(to));
    std::fill(to + 2 * rows.cols, to + 2 * ldb, Bf16{0});
  }
  if (r < rows.rows) {
    Bf16* to = b + (first + r) * ldb;
    std::fill(to, to + 2 * ldb, Bf16{0});
    Scatter(rows.row(r), rows.cols, ldb, to);
  }
}

}  // namespace

void PackColumns(const Rows& rows, int64_t first, int64_t ldb, void* b) {
  const bool pairs = rows.dtype == DType::kBf16;
  const int64_t words = pairs ? rows.cols / 2 : rows.cols;
  uint32_t* to = static_cast<uint32_t*>(b) + first;
  HWY_DYNAMIC_DISPATCH(Transpose)(static_cast<const char*>(rows.data), rows.stride * SizeOf(rows.dtype),
                                  rows.rows, words, ldb, to);
  if (pairs && rows.cols % 2 == 1) {
    const auto from = rows.As<const Bf16>();
    for (int64_t r = 0; r < rows.rows; ++r)
      to[words * ldb + r] = from.row(r)[rows.cols - 1].bits;  // low half first
  }
}

void PackRows(const Rows& rows, int64_t first, int64_t ldb, void* b) {
  if (rows.dtype == DType::kBf16)
    return PackBf16Rows(rows.As<const Bf16>(), first, ldb, static_cast<Bf16*>(b));
  const auto from = rows.As<const float>();
  for (int64_t r = 0; r < rows.rows; ++r) {
    float* to = static_cast<float*>(b) + (first + r) * ldb;
    std::copy_n(from.row(r), rows.cols, to);
    std::fill(to + rows.cols, to + ldb, 0.0f);
  }
}

}  // namespace heed
#endif
