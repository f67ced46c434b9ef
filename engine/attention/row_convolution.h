// A depthwise convolution along a sequence, with one odd kernel for all columns of a head:
//   y_t = sum over c of kernel[c] x_(t + c - (size - 1) / 2), zeros outside the sequence
// by the micro-kernel: a few rows y are a band matrix, the same wherever they lie, times the rows that they
// reach.
#ifndef HEED_ENGINE_ATTENTION_ROW_CONVOLUTION_H_
#define HEED_ENGINE_ATTENTION_ROW_CONVOLUTION_H_

#include <cstdint>
#include <vector>

#include "engine/base/memory.h"
#include "engine/tensor/tensor.h"

namespace heed {

// Const and thread-safe after construction.
class RowConvolution {
 public:
  RowConvolution() = default;  // none: Add() may not be called
  // kernels: [heads, size], rounded to the type of the rows.
  RowConvolution(DType type, const std::vector<float>& kernels, int heads);

  bool none() const { return size_ == 0; }
  // y += those of the rows from `first` on. x: all of the head's rows; y has room for a multiple of 8 rows
  // and, in its stride, for a multiple of 16 columns.
  void Add(int head, const Rows& x, int64_t first, Matrix<float> y, Scratch& scratch) const;
  // For so many rows of y.
  int64_t ScratchBytes(int64_t rows, int64_t columns) const;
  double RowCost(int64_t columns) const { return static_cast<double>(reach_) * static_cast<double>(columns); }
  int64_t bytes() const { return static_cast<int64_t>(memory_.size()); }

 private:
  static constexpr int64_t kRows = 32;  // that one product gives

  DType type_ = DType::kF32;
  int64_t size_ = 0;
  int64_t reach_ = 0;  // rows that a product reads: an even number
  Buffer memory_;
  Rows bands_;  // [heads * kRows, reach]
};

}  // namespace heed

#endif  // HEED_ENGINE_ATTENTION_ROW_CONVOLUTION_H_
