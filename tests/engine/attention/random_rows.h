// Rows of random numbers that own their memory, for the attention tests.
#ifndef HEED_TESTS_ENGINE_ATTENTION_RANDOM_ROWS_H_
#define HEED_TESTS_ENGINE_ATTENTION_RANDOM_ROWS_H_

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>

#include "engine/base/memory.h"
#include "engine/tensor/tensor.h"

namespace heed {

class OwnedRows {
 public:
  // Zeros. The stride is wider than the columns, as that of products side by side.
  OwnedRows(DType type, int64_t rows, int64_t cols)
      : buffer_(Buffer::Zeros(std::max<int64_t>(1, rows) * (cols + 24) * SizeOf(type))),
        rows_{type, buffer_.as<char>(), rows, cols, cols + 24} {}
  // Normal numbers, as the type holds them.
  static OwnedRows Random(DType type, int64_t rows, int64_t cols, int seed) {
    OwnedRows x(type, rows, cols);
    std::mt19937 random(seed);
    std::normal_distribution<float> normal;
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t c = 0; c < cols; ++c) x.Set(r, c, normal(random));
    }
    return x;
  }
  OwnedRows(const OwnedRows& other) : buffer_(other.buffer_), rows_(other.rows_) {
    rows_.data = buffer_.as<char>();
  }

  const Rows& rows() const { return rows_; }
  double At(int64_t r, int64_t c) const {
    return rows_.dtype == DType::kF32 ? *static_cast<float*>(rows_.at(r, c))
                                      : ToFloat(*static_cast<Bf16*>(rows_.at(r, c)));
  }
  void Set(int64_t r, int64_t c, float value) {
    if (rows_.dtype == DType::kF32) {
      *static_cast<float*>(rows_.at(r, c)) = value;
    } else {
      *static_cast<Bf16*>(rows_.at(r, c)) = ToBf16(value);
    }
  }

 private:
  Buffer buffer_;
  Rows rows_;
};

// The first row from `from` on that differs in a bit, or -1.
inline int64_t FirstDifference(const OwnedRows& a, const OwnedRows& b, int64_t from = 0) {
  const size_t bytes = a.rows().cols * SizeOf(a.rows().dtype);
  for (int64_t r = from; r < std::min(a.rows().rows, b.rows().rows); ++r) {
    if (std::memcmp(a.rows().at(r), b.rows().at(r), bytes) != 0) return r;
  }
  return -1;
}

inline double LargestDifference(const OwnedRows& a, const OwnedRows& b) {
  double largest = 0;
  for (int64_t r = 0; r < a.rows().rows; ++r) {
    for (int64_t c = 0; c < a.rows().cols; ++c) {
      const double difference = std::abs(a.At(r, c) - b.At(r, c));
      if (!(difference <= largest)) largest = difference;  // NaN too
    }
  }
  return largest;
}

}  // namespace heed

#endif  // HEED_TESTS_ENGINE_ATTENTION_RANDOM_ROWS_H_
